"""tests/run/test_ucx.py: UCX leaves System V segments out in tasks, unless the user chose its transports."""
import re
import shutil
import subprocess

import pytest

from jobs import RUN


def reported_by(job, mpi, program, **env):
    """Of each rank: linked with UCX, transports, whether there are segments."""
    result = job.run(mpi.command(2, [*RUN, program]), env={**mpi.env, **env}).expect()
    output = re.findall(r"linked (\d) transports (\S+) segments (\d)", result.out)
    assert len(output) == 2 and output[0] == output[1], str(result)
    return output[0]


def test_ucx_has_no_system_v_segments(job, guests, mpi):
    linked, transports, segments = reported_by(job, mpi, guests.mpi(mpi, "mpi_segments"))
    assert (transports, segments) == (("^sysv", "0") if linked == "1" else ("unset", segments))


def test_transports_of_the_user_stay(job, guests, mpi):
    assert reported_by(job, mpi, guests.mpi(mpi, "mpi_segments"), UCX_TLS="all")[1] == "all"


@pytest.mark.parametrize("version, transports", [((1, 10), "unset"), ((1, 11), "^sysv"), ((2, 0), "^sysv")])
def test_version_decides(job, tmp_path, version, transports):
    """UCX before 1.11 would take ^sysv for a name, and start nothing. A library of that version is not at hand."""
    if not shutil.which("cc"):
        pytest.skip("needs cc")
    major, minor = version
    (tmp_path / "ucp.c").write_text(
        f"void ucp_get_version(unsigned *a, unsigned *b, unsigned *c) {{ *a = {major}, *b = {minor}, *c = 0; }}\n")
    (tmp_path / "program.c").write_text(
        "#include <stdio.h>\n#include <stdlib.h>\nvoid ucp_get_version(unsigned *, unsigned *, unsigned *);\n"
        'int main(void) { unsigned a, b, c; ucp_get_version(&a, &b, &c); const char *is = getenv("UCX_TLS");\n'
        'return puts(is ? is : "unset") < 0; }\n')
    library = ["cc", "-o", "libucp.so.0", "-shared", "-fPIC", "-Wl,-soname,libucp.so.0", "ucp.c"]
    program = ["cc", "-o", "program", f"-Wl,-rpath,{tmp_path}", "program.c", "libucp.so.0"]
    for command in (library, program):
        subprocess.run(command, cwd=tmp_path, check=True)
    job.run([*RUN, tmp_path / "program"]).expect(lines=[transports])
