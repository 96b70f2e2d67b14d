"""tests/docs/test_clock_uses.py: no wait and no limit depends on a clock that can be set. Each source that reads such
a clock is listed here, with the use. tests/kernels/test_clocks.py sets the clock of a machine while jobs run."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Calls that read a clock that can be set, or wait by it by default.
ASKS = re.compile(
    r"\b(?:CLOCK_REALTIME\w*|CLOCK_TAI|FUTEX_CLOCK_REALTIME|TFD_TIMER_CANCEL_ON_SET|gettimeofday|ftime|timespec_get|"
    r"system_clock|high_resolution_clock|utc_clock|clock_settime|pthread_\w+timed\w+|sem_timedwait|mq_timed\w+|"
    r"timed_mutex|mtx_timedlock|cnd_timedwait|time\.time\(|time\.time_ns|datetime)|(?<![\w.>])time\((?:NULL|nullptr|0|&)")
USES = {
    "src/base/file_identity.h": "whether a file's time of change is older than the granularity of such times",
    "src/pip/state.c": "pip_gettime, which gives the time of day",
    "src/storage/versions/commit.c": "when a version was made, which only `onespace windows` prints",
    "cmd/ps/read.c": "when a space was made, for JSON",
    "cmd/clean/clean.c": "how old a file is, by the times of its file system",
}
SUFFIXES = {".c", ".h", ".S", ".cpp", ".hpp", ".py"}


def test_nothing_waits_by_the_clock_that_can_be_set():
    files = [file for directory in ("src", "cmd", "include", "plugins", "python")
             for file in (ROOT / directory).rglob("*") if file.suffix in SUFFIXES]
    assert len(files) > 300
    found = {str(file.relative_to(ROOT)): ASKS.search(file.read_text(encoding="utf-8")) for file in files}
    found = {name: match[0] for name, match in found.items() if match}
    assert found.keys() == USES.keys(), found
