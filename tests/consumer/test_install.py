"""tests/consumer/test_install.py: what `make install` puts under a prefix is complete, serves others, and can go."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from jobs import BUILD, ROOT

HEADERS = sorted(str(path.relative_to(ROOT / "include")) for path in (ROOT / "include").rglob("*.h"))


MPICH = pathlib.Path("/usr/include/x86_64-linux-gnu/mpich")


def command(*words, **options):
    result = subprocess.run(words, capture_output=True, text=True, timeout=280, **options)
    assert result.returncode == 0, f"{words}:\n{result.stdout}{result.stderr}"
    return result


def install(prefix):
    command("cmake", "--install", BUILD, "--prefix", prefix)
    return prefix


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    return install(tmp_path_factory.mktemp("installed") / "prefix")


def package(prefix, *words):
    directory, = {path.parent for path in prefix.rglob("*.pc")}
    return command("pkg-config", *words, env={**os.environ, "PKG_CONFIG_PATH": str(directory)}).stdout.split()


def test_consumers_build_and_run(installed, tmp_path):
    """In C and C++, by pkg-config and by CMake; of the library, XPMEM, PiP, the synchronisation and the MPI layers."""
    text = command(ROOT / "tests/consumer/build", installed, tmp_path).stdout
    for part in ("C consumer", "C++ consumer", "XPMEM consumer", "PiP consumer", "sync consumer"):
        assert part in text, text


@pytest.mark.parametrize("name", ["onespace", "cray-xpmem", "pip"])
def test_pkg_config_names_the_prefix_even_when_it_is_moved(installed, tmp_path, name):
    for prefix in (installed, shutil.copytree(installed, tmp_path / "moved", symlinks=True)):
        flags = package(prefix, "--cflags", "--libs", name)
        include, = [flag[2:] for flag in flags if flag.startswith("-I")]
        libraries, = [flag[2:] for flag in flags if flag.startswith("-L")]
        assert os.path.samefile(include, prefix / "include")
        assert pathlib.Path(libraries).resolve().is_relative_to(prefix)


@pytest.mark.parametrize("standard", ["c99", "c11", "c17"])
@pytest.mark.parametrize("header", HEADERS)
def test_header_compiles_as_strict_c(header, standard, mpi_named):
    flags = ["-I", MPICH] if header == "onespace/window.h" and mpi_named("mpich") else []
    command("cc", f"-std={standard}", "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-xc", "-I",
            ROOT / "include", *flags, "-", input=f"#include <{header}>\n")


def test_libraries_have_versions_in_their_names(installed):
    for name in ("libonespace.so", "libpip.so", "libxpmem.so"):
        library, = installed.rglob(name)
        assert re.fullmatch(re.escape(name) + r"\.\d+", os.readlink(library)), os.readlink(library)
        text = command("readelf", "-d", library).stdout
        assert f"Library soname: [{name}.0]" in text


@pytest.mark.parametrize("place", ["bash-completion/completions/onespace", "zsh/site-functions/_onespace",
                                   "fish/vendor_completions.d/onespace.fish"])
def test_completions_are_where_shells_look(installed, place):
    assert "onespace completion" in (installed / "share" / place).read_text()


def test_pip_commands_work_from_there(installed, tmp_path):
    """In an environment without a word about where the libraries are."""
    env = {"PATH": "/usr/bin:/bin"}
    root = tmp_path / "root"
    command(installed / "bin/pipcc", "-o", root, ROOT / "tests/consumer/root.c", env=env)
    assert "PiP consumer" in command(root, env=env).stdout
    assert command(installed / "bin/printpipmode", env=env).stdout
    command(installed / "bin/pip-exec", "-n", "2", "/bin/true", env=env)


def test_packages_of_process_in_process_accept_the_prefix(installed):
    """What their configure script and their makefiles ask for."""
    library, = installed.rglob("libpip.so")
    assert os.access(library, os.X_OK) and command(library, "--version", env={}).stdout == "2.4.1\n"
    assert command(library, "--prefix", env={}).stdout.strip() == os.path.realpath(installed)
    for path in ("bin/pipcc", "bin/pip-check", "bin/pip-unpie"):
        assert os.access(installed / path, os.X_OK), path
    for name in ("pip", "pip_machdep", "pip_clone", "pip_util", "xpmem"):
        assert (installed / f"include/pip/{name}.h").exists(), name


def test_links_of_the_installed_documentation_lead_somewhere(installed):
    readme, = installed.rglob("doc/onespace/README.md")
    texts = sorted(readme.parent.rglob("*.md"))
    assert len(texts) > 20
    link = re.compile(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)")
    missing = [f"{text.relative_to(readme.parent)}: {target}" for text in texts
               for target in link.findall(re.sub(r"(?s)```.*?```", "", text.read_text()))
               if not target.startswith("http") and not (text.parent / target).exists()]
    assert not missing, missing


# Blanks divide the words of make, brackets the lists of CMake; * and [] are patterns of file(GLOB).
@pytest.mark.parametrize("name", ["prefix", "a prefix [0-9]*", "a prefix [open"])
def test_uninstall_leaves_what_others_have_put_there(tmp_path, name):
    prefix = tmp_path / name
    theirs = {"lib", "lib/other", "bin", "bin/.hidden", "share", "share/man", "share/man/man1", "include"}
    for directory in ("lib", "bin", "share/man/man1", "include"):
        (prefix / directory).mkdir(parents=True)
    for _ in range(2):
        install(prefix)
    (prefix / "lib/other").touch()
    (prefix / "bin/.hidden").touch()
    beside = tmp_path / "a prefix 1/share/onespace"  # the pattern's
    beside.mkdir(parents=True)
    command("make", "-C", ROOT, "uninstall", f"PREFIX={prefix}")
    assert {str(path.relative_to(prefix)) for path in prefix.rglob("*")} == theirs
    assert beside.exists()
    again = subprocess.run(["make", "-C", ROOT, "uninstall", f"PREFIX={prefix}"], capture_output=True, text=True)
    assert again.returncode != 0 and f"onespace is not installed under {prefix}" in " ".join(again.stderr.split())


def test_uninstall_removes_all_directories_that_it_has_made(tmp_path):
    prefix = install(tmp_path / "prefix")
    command("make", "-C", ROOT, "uninstall", f"PREFIX={prefix}")
    assert not list(prefix.iterdir())


@pytest.mark.parametrize("staged", [False, True])
def test_next_version_removes_files_that_it_lacks(tmp_path, staged):
    prefix = tmp_path / "a prefix"
    root = tmp_path / "stage" if staged else ""
    env = {**os.environ, "DESTDIR": str(root)}
    place = pathlib.Path(f"{root}{prefix}")
    install = ["cmake", "--install", BUILD, "--prefix", prefix]
    command(*install, env=env)
    listed = place / "share/onespace/installed"
    present = listed.read_text()
    (tmp_path / "elsewhere").touch()
    for name in ("bin/onespace-old", "share/doc/onespace/old/page.md", "bin/another"):
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).touch()
    outside = os.path.relpath(tmp_path / "elsewhere", place)
    listed.write_text(f"bin/onespace-old\nshare/doc/onespace/old/page.md\n{outside}\n{tmp_path}/elsewhere\n{present}")
    command(*install, env=env)
    assert not (place / "bin/onespace-old").exists() and not (place / "share/doc/onespace/old").exists()
    assert (place / "bin/another").exists() and (place / "bin/onespace").exists() and (tmp_path / "elsewhere").exists()
    assert listed.read_text() == present


def test_absolute_library_directory_is_taken_as_below_the_prefix(tmp_path):
    python = ROOT / ".venv/python/bin/python"
    found = python.exists() and subprocess.run([python, "-c", "import nanobind"], capture_output=True)
    with_python = found and found.returncode == 0
    options = [f"-DONESPACE_PYTHON={python}", "-DONESPACE_PYTHON_DIR=/opt/one/lib/python3/site-packages"]
    command("cmake", "-G", "Ninja", "-S", ROOT, "-B", tmp_path, "-DCMAKE_INSTALL_PREFIX=/opt/one",
            "-DCMAKE_INSTALL_LIBDIR=/opt/one/lib64", *(options if with_python else []))
    assert "prepend-path LIBRARY_PATH $prefix/lib64\n" in (tmp_path / "modules/onespace.tcl").read_text()
    assert "libdir=${prefix}/lib64\n" in (tmp_path / "onespace.pc").read_text()
    assert 'RPATH "\\$ORIGIN/../lib64"' in (tmp_path / "cmd/pip/cmake_install.cmake").read_text()
    if with_python:
        assert 'RPATH "\\$ORIGIN/../../../../lib64"' in (tmp_path / "python/cmake_install.cmake").read_text()


def test_library_directory_outside_the_prefix_is_refused(tmp_path):
    done = subprocess.run(["cmake", "-G", "Ninja", "-S", ROOT, "-B", tmp_path, "-DCMAKE_INSTALL_PREFIX=/opt/one",
                           "-DCMAKE_INSTALL_LIBDIR=/usr/lib64"], capture_output=True, text=True, timeout=280)
    said = " ".join(done.stderr.split())
    assert done.returncode != 0 and "/usr/lib64, is not below CMAKE_INSTALL_PREFIX" in said, done


def test_mpi_layer_that_is_left_out_is_said(tmp_path):
    """On standard error, since make shows nothing else of what CMake says."""
    done = command("cmake", "-G", "Ninja", "-S", ROOT, "-B", tmp_path, "-DONESPACE_OPENMPI_INCLUDE=/nowhere")
    assert "libonespace-mpi-openmpi.so" in done.stderr and "-DONESPACE_OPENMPI_INCLUDE=DIR" in done.stderr, done
    assert "libonespace-mpi-mpich.so" not in done.stderr or not os.path.exists(MPICH / "mpi.h")


@pytest.mark.parametrize("what", ["demo", "test"])
def test_setup_names_packages_of_other_distributions(tmp_path, what):
    """Where there is no dpkg: the list, and nothing is done."""
    for name in ("sh", "dirname", "id", "cat", "sed"):
        (tmp_path / name).symlink_to(shutil.which(name))
    done = subprocess.run(["/bin/sh", ROOT / "scripts/setup", what], capture_output=True, text=True,
                          env={"PATH": str(tmp_path)})
    assert done.returncode == 1, done
    rows = dict(re.findall(r"(?m)^  ([\w, ]+): (?:dnf|zypper) install (.*)$", done.stderr))
    assert set(rows) == {"RHEL, Fedora", "SLES, openSUSE"}
    for packages in rows.values():
        assert {"hwloc-devel", "mpich-devel", "cmake"} <= set(packages.split())
    assert ("python3-pytest" in rows["RHEL, Fedora"]) == (what == "test")


@pytest.mark.parametrize("guarded", [True, False])
def test_nanobind_is_compiled_at_once_where_that_works(tmp_path, guarded):
    """Version 2.5, which Debian 13 has, cannot: it has a header without a guard."""
    python = ROOT / ".venv/python/bin/python"
    if not python.exists() or subprocess.run([python, "-c", "import nanobind"], capture_output=True).returncode:
        pytest.skip("no nanobind: scripts/setup test")
    source = command(python, "-c", "import nanobind; print(nanobind.__path__[0])").stdout.strip()
    copy = shutil.copytree(source, tmp_path / "packages/nanobind")
    header = copy / "src/nb_ft.h"
    if not guarded:
        header.write_text(header.read_text().replace("#pragma once", ""))
    command("cmake", "-G", "Ninja", "-S", ROOT, "-B", tmp_path / "build", f"-DONESPACE_PYTHON={python}",
            env={**os.environ, "PYTHONPATH": str(copy.parent)})
    rules = (tmp_path / "build/build.ninja").read_text()
    assert str(copy) in rules and ("/Unity/unity_0_cxx.cxx" in rules) == guarded


def test_compiler_that_is_too_old_is_said(tmp_path):
    """One without the headers of C++20, at once and with what to take instead."""
    compiler = tmp_path / "old"
    compiler.write_text('#!/bin/sh\nexec c++ -nostdinc++ "$@"\n')
    compiler.chmod(0o755)
    done = subprocess.run(["cmake", "-G", "Ninja", "-S", ROOT, "-B", tmp_path / "build"], capture_output=True,
                          text=True, timeout=280, env={**os.environ, "CXX": str(compiler)})
    said = " ".join(done.stderr.split())
    assert done.returncode != 0 and f"{compiler} (GNU " in said, done
    assert "lacks C++20's <concepts>: take GCC 10 or later" in said, done
