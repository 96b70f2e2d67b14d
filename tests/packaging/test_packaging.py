"""tests/packaging/test_packaging.py: what packages are made from, as far as it can be told without building one."""
import ast
import os
import re
import shutil
import subprocess
import time

import pytest

from jobs import BUILD, ROOT

PACKAGING = ROOT / "packaging"
CHECK = ROOT / "scripts/check-symbols"


def read(path):
    return (ROOT / path).read_text()


VERSION = re.search(r"(?m)^project\(onespace VERSION ([\d.]+)", read("CMakeLists.txt"))[1]


def check_symbols(*words):
    return subprocess.run([CHECK, *words], capture_output=True, text=True, timeout=300, check=False)


def check_hardening(*words):
    command = [ROOT / "scripts/check-hardening", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


# ---- Which glibc is needed ----

def products():
    return [BUILD / "bin", BUILD / "lib", *(BUILD / "python/onespace").glob("_core*.so")]


def test_nothing_is_needed_that_glibc_2_28_lacks():
    """What a build on an older system would do without: functions that are newer, not newer versions of old ones."""
    result = check_symbols("--glibc", "2.28", "--here", *products())
    assert result.returncode == 0, result.stdout + result.stderr


def test_newer_functions_are_found(tmp_path):
    """getentropy is of glibc 2.25, and has no older version; dlsym, which has one, is not complained of."""
    source = tmp_path / "newer.c"
    source.write_text('#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <unistd.h>\n'
                      'int main(void) { char c; return getentropy(&c, 1) + !dlsym(RTLD_DEFAULT, "main"); }\n')
    subprocess.run(["cc", source, "-o", tmp_path / "newer", "-ldl"], check=True, timeout=300)
    result = check_symbols("--glibc", "2.24", "--here", tmp_path / "newer")
    assert result.returncode == 1 and "getentropy@GLIBC_2.25" in result.stdout, result
    assert "dlsym" not in result.stdout
    assert check_symbols("--glibc", "2.25", "--here", tmp_path).returncode == 0


def test_newer_versions_are_found_without_here():
    result = check_symbols("--glibc", "2.2", BUILD / "bin")
    assert result.returncode == 1 and "bin/onespace: " in result.stdout


def test_what_holds_no_program_is_an_error(tmp_path):
    assert check_symbols("--glibc", "2.28", tmp_path).returncode == 2


@pytest.mark.parametrize("name", ["libonespace-agent.so", "libxpmem.so.0"])
def test_what_programs_of_any_libc_load_needs_none(name):
    result = check_symbols("--glibc", "0", BUILD / "lib" / name)
    assert result.returncode == 0, result.stdout


# ---- Hardening ----

def test_all_that_is_built_is_hardened():
    result = check_hardening(*products())
    assert result.returncode == 0, result.stdout + result.stderr


# Options for the compiler, and what is said of a program compiled with them.
WEAK = {
    ("-no-pie",): "is not position independent",
    ("-Wl,-z,execstack",): "its stack may be executed",
    ("-Wl,-z,lazy",): "resolves functions when they are first called, not at its start",
    ("-Wl,-z,norelro",): "its relocated data stays writable",
    ("-U_FORTIFY_SOURCE",): "was compiled without _FORTIFY_SOURCE: calls printf",
    ("-fno-stack-protector",): "has no function whose stack is protected",
    ("-g", "-fno-stack-clash-protection"): "weak.c was compiled without -fstack-clash-protection",
}


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the options are of x86-64")
@pytest.mark.parametrize("weakness", [(), *WEAK], ids=lambda words: "".join(words) or "strong")
def test_what_is_not_hardened_is_found(tmp_path, weakness):
    (tmp_path / "weak.c").write_text(
        '#include <stdio.h>\nint main(int count, char **words)\n'
        '{ char text[64]; snprintf(text, sizeof(text) - count, "%s", words[0]); return printf("%s", text) + count; }\n')
    strong = ["-O2", "-fPIE", "-pie", "-fcf-protection=full", "-fstack-protector-strong", "-D_FORTIFY_SOURCE=2",
              "-Wl,-z,relro,-z,now"]
    if "-fno-stack-clash-protection" not in weakness:
        strong.append("-fstack-clash-protection")
    command = ["gcc", *strong, *weakness, "weak.c", "-o", "weak"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=300, capture_output=True)
    result = check_hardening(tmp_path)
    if weakness:
        assert result.returncode == 1 and WEAK[weakness] in result.stdout, result
    else:
        assert result.returncode == 0, result


# ---- What is packed ----

@pytest.mark.parametrize("git", [True, False], ids=["git", "no-git"])
def test_source_is_packed_without_what_was_built(tmp_path, git):
    """Into a directory below the build, as scripts/debian-package does: in a copy without git, too."""
    packed = {"CMakeLists.txt", ".ci/run", "packaging/archive/build", "packaging/lib/source.sh", ".gitignore"}
    left_out = {"build/bin/onespace", "build-clang/log", ".venv/mpich/bin/mpicc", "bench/results/p2p.json",
                ".libcs/bionic-libc6/libc.so", ".kernels/4.18/vmlinuz", ".arm64/bookworm/libc.so",
                ".nodes/base.img", "tests/lib/__pycache__/jobs.pyc", ".pytest_cache/README.md"}
    for name in packed | left_out:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(read(name) if name in packed else "")
    if git:
        subprocess.run(["git", "init", "-q", tmp_path], check=True, timeout=300)
    subprocess.run(["sh", "-euc", ". packaging/lib/source.sh; source_tree build/packages/tree"], cwd=tmp_path,
                   check=True, timeout=300)
    tree = tmp_path / "build/packages/tree"
    assert {str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file()} == packed


def make_checkout(directory, *names):
    """A repository with these files of this one."""
    for name in ("CMakeLists.txt", "packaging/lib/source.sh", *names):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, directory / name)
    for words in (["init", "-q"], ["add", "--all"]):
        subprocess.run(["git", *words], cwd=directory, check=True, timeout=300)
    return directory


def source_tree(directory, target):
    return subprocess.run(["sh", "-uc", '. packaging/lib/source.sh; source_tree "$1"', "sh", target], cwd=directory,
                          capture_output=True, text=True, timeout=300, check=False)


def test_removed_file_is_not_packed(tmp_path):
    checkout = make_checkout(tmp_path / "checkout", "LICENSE")
    (checkout / "LICENSE").unlink()
    assert source_tree(checkout, tmp_path / "tree").returncode == 0
    assert {path.name for path in (tmp_path / "tree").iterdir()} == {"CMakeLists.txt", "packaging"}


def test_source_that_cannot_be_listed_is_an_error(tmp_path):
    checkout = make_checkout(tmp_path / "checkout")
    (checkout / ".git/index").write_text("no index")
    assert source_tree(checkout, tmp_path / "tree").returncode != 0


def test_time_of_what_is_packed_needs_no_git(tmp_path):
    shutil.copy(ROOT / "CMakeLists.txt", tmp_path)
    done = subprocess.run(["sh", "-euc", f'. "{PACKAGING}/lib/source.sh"; echo "$SOURCE_DATE_EPOCH"'], cwd=tmp_path,
                          env={"PATH": "/usr/bin:/bin", "GIT_DIR": "/nowhere"}, capture_output=True, text=True,
                          timeout=300, check=True)
    assert abs(int(done.stdout) - time.time()) < 300


@pytest.mark.parametrize("release, entry", [("bookworm", f"onespace ({VERSION}-1~deb12u1) bookworm;"),
                                            ("trixie", f"onespace ({VERSION}-1) unstable;")])
def test_debian_packages_of_two_releases_have_two_versions(tmp_path, release, entry):
    """Functions in place of the chroot keep the changelog that it would get."""
    checkout = make_checkout(tmp_path / "checkout", "scripts/debian-package", "packaging/debian/changelog")
    (checkout / "packaging/lib/chroot.sh").write_text(
        'chroot_make() { :; }\n'
        'chroot_run() { mkdir "$2/packages" && cp "$2/source/packaging/debian/changelog" "$2/packages"; }\n')
    command = [checkout / "scripts/debian-package", "--chroot", release, tmp_path / "out"]
    subprocess.run(command, check=True, timeout=300)
    assert (tmp_path / "out/changelog").read_text().startswith(entry)


# ---- Chroots ----

def private_directory(path):
    return subprocess.run(["sh", "-uc", 'me=test; . packaging/lib/chroot.sh; private_directory "$1"', "sh", path],
                          cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)


def test_directory_of_chroots_is_its_users_alone(tmp_path):
    for _ in range(2):
        assert private_directory(tmp_path / "new/chroots").returncode == 0
    assert (tmp_path / "new/chroots").stat().st_mode & 0o777 == 0o700
    (tmp_path / "new/chroots").chmod(0o755)
    assert private_directory(tmp_path / "new/chroots").returncode == 0


@pytest.mark.parametrize("what", ["link", "file", "group", "others", "owner"])
def test_directory_of_chroots_that_others_control_is_refused(tmp_path, what):
    path = tmp_path / "chroots"
    if what == "link":
        (tmp_path / "target").mkdir(mode=0o700)
        path.symlink_to("target")
    elif what == "file":
        path.touch()
    else:
        path.mkdir()
        path.chmod({"group": 0o770, "others": 0o707, "owner": 0o700}[what])
    if what == "owner":
        if os.getuid() != 0:
            pytest.skip("needs root")
        os.chown(path, 65534, 65534)
    done = private_directory(path)
    assert done.returncode == 1 and f"test: {path} is not a directory that belongs to " in done.stderr, done


# ---- Syntax ----

def test_python_module_keeps_to_the_stable_abi():
    """The wheel for CPython 3.12 and later is built with it: there objects and types are opaque."""
    members = re.compile(r"->(?:tp|ob|nb|sq|mp)_\w+|\bPy(?:List|Tuple)_(?:GET|SET)_\w+|\bPyBytes_AS_STRING\b")
    used = [(path.name, name) for path in sorted((ROOT / "python/core").glob("*.[ch]pp"))
            for name in members.findall(path.read_text())]
    assert not used


def test_spack_recipe_is_python():
    tree = ast.parse(read("packaging/spack/spack_repo/onespace/packages/onespace/package.py"))
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    assert classes == ["Onespace"]


def test_easybuild_recipe_is_python_with_the_mandatory_parameters():
    recipe, = (PACKAGING / "easybuild").glob("*.eb")
    names = {target.id for node in ast.parse(recipe.read_text()).body if isinstance(node, ast.Assign)
             for target in node.targets}
    assert {"easyblock", "name", "version", "homepage", "description", "toolchain", "sources", "moduleclass"} <= names


def test_conda_recipe_has_the_mandatory_sections():
    """packaging/tests/recipes conda lets rattler-build read and build it."""
    text = read("packaging/conda/recipe.yaml")
    sections = re.findall(r"(?m)^(\w+):", text)
    assert len(sections) == len(set(sections)) and "\t" not in text and "\nschema_version: 1\n" in text
    assert {"context", "package", "source", "build", "requirements", "tests", "about"} <= set(sections)
    assert re.search(r"(?m)^  license_file: LICENSE$", text)


def paragraphs(text):
    """The paragraphs of a Debian control file, as dictionaries."""
    for part in re.split(r"\n\s*\n", text.strip()):
        fields = re.findall(r"(?m)^([A-Za-z-]+):((?:.*\n?)(?:[ \t].*\n?)*)", part + "\n")
        yield {name: value.strip() for name, value in fields}


def test_debian_packages_are_those_that_have_files():
    source, *binaries = paragraphs(read("packaging/debian/control"))
    assert source["Source"] == "onespace"
    names = {binary["Package"] for binary in binaries}
    assert names == {"onespace", "libonespace0", "libonespace-dev", "python3-onespace"}
    assert names == {path.stem for path in (PACKAGING / "debian").glob("*.install")}
    tests = [word for part in paragraphs(read("packaging/debian/tests/control")) for word in part["Tests"].split()]
    assert tests and all(os.access(PACKAGING / "debian/tests" / name, os.X_OK) for name in tests)


@pytest.mark.parametrize("launcher,status", [("false", 77), ("true", 1)])
def test_job_of_a_broken_mpi_is_skipped(tmp_path, launcher, status):
    """One that fails without onespace, too; a job of which nothing is seen has failed."""
    done = subprocess.run([PACKAGING / "debian/tests/mpi-job", "true", launcher], capture_output=True, text=True,
                          timeout=300, env={**os.environ, "AUTOPKGTEST_TMP": str(tmp_path)})
    assert done.returncode == status and ("as processes" in done.stdout) == (status == 77), done


MODULES = [f"{name}.{language}" for name in ("onespace", "onespace-openmpi") for language in ("lua", "tcl")]


@pytest.mark.parametrize("name", MODULES)
def test_modules_are_made_whole(name):
    text = (BUILD / "modules" / name).read_text()
    assert VERSION in text and "@" not in text


@pytest.mark.parametrize("name", [name for name in MODULES if name.endswith(".lua")])
def test_lmod_modules_are_lua(name, tool):
    compiler = shutil.which("luac") or tool("luac5.3", "lua5.3")
    subprocess.run([compiler, "-p", BUILD / "modules" / name], check=True, timeout=300)


# In place of the commands of Environment Modules: each prints its call.
COMMANDS = """
foreach name {module-whatis prepend-path setenv} { proc $name args "puts \\[list $name {*}\\$args\\]" }
set ModulesCurrentModulefile [lindex $argv 0]
source $ModulesCurrentModulefile
"""


@pytest.mark.parametrize("name", ["onespace", "onespace-openmpi"])
def test_tcl_modules_find_their_prefix(name, tool, tmp_path):
    script, module = tmp_path / "run.tcl", tmp_path / f"prefix/share/modulefiles/{name}/{VERSION}"
    script.write_text(COMMANDS)
    module.parent.mkdir(parents=True)
    shutil.copy(BUILD / "modules" / f"{name}.tcl", module)
    said = subprocess.run([tool("tclsh", "tcl"), script, module], capture_output=True, text=True, timeout=300,
                          check=True)
    assert f"prepend-path PATH {tmp_path}/prefix/bin\n" in said.stdout
    agent = f"setenv OMPI_MCA_orte_fork_agent {{{tmp_path}/prefix/bin/onespace run}}\n"
    assert (agent in said.stdout) == (name == "onespace-openmpi"), said.stdout


def test_container_recipes_name_what_is_built():
    assert "ADD onespace-[0-9]*-x86_64.tar.xz /opt/" in read("packaging/containers/Containerfile")
    sections = re.findall(r"(?m)^%(\w+)", read("packaging/containers/onespace.def"))
    assert {"files", "post", "environment"} <= set(sections)


@pytest.mark.parametrize("names", [["onespace-node-0.1.0"], ["onespace-0.1.0", "onespace-0.2.0"]],
                         ids=["node-kit", "two"])
def test_image_is_made_from_exactly_one_archive(tmp_path, names):
    for name in names:
        (tmp_path / f"{name}-x86_64.tar.xz").touch()
    done = subprocess.run([PACKAGING / "tests/podman", tmp_path], capture_output=True, text=True, timeout=300,
                          check=False)
    assert done.returncode == 1 and "must have one archive, onespace-VERSION-x86_64.tar.xz" in done.stderr, done
