"""tests/power/conftest.py: the disk that the tests have, with each file system."""
import pytest

from power import FILE_SYSTEMS, SEED, Disk, missing


@pytest.fixture(params=list(FILE_SYSTEMS))
def disk(request, tmp_path):
    lack = missing(request.param)
    if lack:
        pytest.skip(lack)
    print(f"ONESPACE_SEED={SEED}")
    return Disk(tmp_path, request.param)
