"""tests/cmd/conftest.py: the machine as commands see it."""
import pytest

from observe import interposed


@pytest.fixture
def machine(guests, tmp_path):
    """An environment in which these files have these texts, and the variables of guests/interpose.c are set."""
    def make(files=None, **variables):
        for path, text in (files or {}).items():
            place = tmp_path / "machine" / path.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        return interposed(guests, FAKE_ROOT=tmp_path / "machine", **variables)
    return make
