"""The command onespace of a wheel: python -m onespace run …"""
from __future__ import annotations

import os
import shutil
import sys


def main() -> None:
    """Execute the command with the same arguments."""
    command = os.path.join(os.path.dirname(os.path.realpath(__file__)), "bin", "onespace")
    if not os.access(command, os.X_OK):  # in a build tree
        command = shutil.which("onespace") or command
    try:
        os.execv(command, ["onespace", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"onespace: {command}: {error.strerror}: install the package's wheel, or the onespace command")


if __name__ == "__main__":
    main()
