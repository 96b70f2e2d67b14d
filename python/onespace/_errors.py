"""Exceptions of the package. Everything else is Python's own: TimeoutError, FileNotFoundError, PermissionError…"""


class OwnerEnded(ProcessLookupError):
    """The task that something belongs to has ended, or has executed another program."""
