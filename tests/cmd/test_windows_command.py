"""onespace windows: lists, checks and repairs the versions of a window. The windows are made by
tests/storage/versions/crew_main.cpp, a job of processes without MPI."""
import fcntl
import json
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile

import pytest

from jobs import ONESPACE, ROOT

CREW = ROOT / "build/tests/storage/versions/versions-crew"
WINDOWS = [ONESPACE, "windows"]


@pytest.fixture
def window(tmp_path):
    """Runs a job on the file; without `commits` it only opens."""
    def run(commits=0, **options):
        words = [f"{name}={value}" for name, value in {"commits": commits, **options}.items()]
        done = subprocess.run([CREW, tmp_path / "data", *words], capture_output=True, text=True, timeout=180)
        return json.loads(done.stdout)
    return run


@pytest.fixture
def windows(job, tmp_path):
    def run(*options, files=("data",)):
        return job.run([*WINDOWS, *options, *[str(tmp_path / file) for file in files]])
    return run


def states(result):
    return [(version["version"], version["state"]) for version in json.loads(result.out)]


def change(path, at):
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))


def slot_of(tmp_path, result, version, rank, file="data"):
    found, = [part["slot"] for entry in json.loads(result.out) if entry["version"] == version
              for part in entry["parts"] if part["rank"] == rank]
    return tmp_path / f"{file}.versions" / found


def test_versions_are_listed_newest_first(window, windows, tmp_path):
    window(5, ranks=2, pages=64, keep=2)
    result = windows("--json")
    assert result.code == 0 and states(result) == [(5, "complete"), (4, "complete"), (3, "complete")], result
    newest = json.loads(result.out)[0]
    assert newest["ranks"] == newest["ranks_present"] == 2 and newest["bytes"] == 64 * 4096
    assert [part["rank"] for part in newest["parts"]] == [0, 1] and len(newest["nonce"]) == 32
    table = windows()
    assert table.code == 0 and "5 complete   2/2" in table.out, table


def test_data_that_changed_is_found_and_given_up(window, windows, tmp_path):
    window(3, ranks=2)
    slot = slot_of(tmp_path, windows("--json"), 3, 1)
    change(slot, slot.stat().st_size - 5000)
    assert states(windows("--json")) == [(3, "complete"), (2, "complete")]
    found = windows("--verify")
    assert found.code == 1 and "damaged" in found.out and slot.name in found.out, found
    assert "the data do not fit their checksum" in found.out, found
    assert window()["error"] < 0
    repaired = windows("--repair")
    assert repaired.code == 0 and "version 3 was damaged: given up" in repaired.out, repaired
    after = window()
    assert after["error"] == 0 and after["restored"] == 2 and not after["torn"], after


def test_only_version_is_never_given_up(window, windows, tmp_path):
    window(1, ranks=1)
    slot = slot_of(tmp_path, windows("--json"), 1, 0)
    change(slot, slot.stat().st_size - 5000)
    refused = windows("--repair")
    assert refused.code == 1 and "there is no other to go back to" in refused.err, refused
    assert states(windows("--json", "--verify")) == [(1, "damaged")]


def test_unfinished_version_is_shown_and_given_up(window, windows, tmp_path):
    window(3, ranks=2)
    for rank in range(2):
        slot = slot_of(tmp_path, windows("--json"), 3, rank)
        with open(slot, "r+b") as file:
            file.seek(4096)
            file.write(bytes(512))  # as if the job had died before the mark
    assert states(windows("--json")) == [(3, "unfinished"), (2, "complete")]
    assert windows("--repair").code == 0
    assert states(windows("--json")) == [(2, "complete")]
    assert window()["restored"] == 2


def test_file_per_rank_needs_all_files(window, windows):
    window(2, ranks=3, separate=1)
    all_files = [f"data.{rank}" for rank in range(3)]
    assert states(windows("--json", files=all_files)) == [(2, "complete"), (1, "complete")]
    one = windows("--json", files=all_files[:1])
    assert one.code == 1 and states(one) == [(2, "elsewhere"), (1, "elsewhere")], one


def test_repair_keeps_off_while_a_window_is_open(window, windows, tmp_path):
    window(1, ranks=1)
    with open(tmp_path / "data.versions/lock", "r+b") as lock:
        # struct flock: an open file description's lock on the first byte, as rank 0 has it.
        fcntl.fcntl(lock, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0))  # F_OFD_SETLK
        refused = windows("--repair")
    assert refused.code == 1 and "another window or job" in refused.err, refused
    assert windows("--repair").code == 0


def test_root_reads_versions_with_the_rights_of_their_user(job, window, somebody, tmp_path):
    """A slot that only root may read, in a directory of another user, stays closed."""
    window(1, ranks=1, pages=4)
    with tempfile.TemporaryDirectory() as open_to_all:
        os.chmod(open_to_all, 0o755)
        data = f"{open_to_all}/data"
        versions = pathlib.Path(shutil.copytree(tmp_path / "data.versions", f"{data}.versions"))
        os.chown(versions, 65534, 65534)
        job.run([*WINDOWS, "--json", data]).expect(1, says="Permission denied")
        for path in versions.iterdir():
            os.chown(path, 65534, 65534)
        result = job.run([*WINDOWS, "--json", "--verify", data])
        assert result.code == 0 and states(result) == [(1, "complete")], str(result)


def test_file_without_versions_is_named(windows):
    result = windows(files=["nothing"])
    assert result.code == 1 and "nothing.versions" in result.err, result


def test_directory_without_versions_is_reported(windows, tmp_path):
    (tmp_path / "data.versions").mkdir()
    (tmp_path / "data.versions/rank-0.slot-0").write_text("something else")
    result = windows()
    assert result.code == 1 and "data.versions holds no version" in result.err and not result.out, result


def test_fifo_in_place_of_a_slot_is_named_at_once(window, windows, tmp_path):
    window(1, ranks=1)
    slot = tmp_path / "data.versions/rank-0.slot-0"
    slot.unlink()
    os.mkfifo(slot)
    result = windows()
    assert result.code == 1 and "data.versions/rank-0.slot-0: this is neither a regular file" in result.err, result
