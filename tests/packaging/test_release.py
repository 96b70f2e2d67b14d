"""tests/packaging/test_release.py: scripts/release in a checkout that is made here, and one version everywhere."""
import ast
import hashlib
import json
import re
import runpy
import subprocess
import tarfile

import pytest

from jobs import ROOT

VERSION = re.search(r"(?m)^project\(onespace VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
SOURCE = f"onespace-{VERSION}.tar.gz"
pytestmark = pytest.mark.xdist_group("release")  # one worker makes the checkout


class Checkout:
    """A repository with the files of this tree, in which CHANGELOG.md has a section that can be released."""

    def __init__(self, path):
        self.path = path
        subprocess.run(["sh", "-euc", '. packaging/lib/source.sh; source_tree "$1"', "sh", path], cwd=ROOT, check=True,
                       timeout=300)
        self.write_section(VERSION, "2026-11-30", "### Fixed\n\n- A defect.")
        self.git("init", "-q")
        self.commit()
        self.first = self.git("rev-parse", "HEAD")

    def git(self, *words):
        return subprocess.run(["git", "-c", "user.name=A Person", "-c", "user.email=a@example.org", *words], text=True,
                              cwd=self.path, capture_output=True, timeout=300, check=True).stdout.strip()

    def commit(self):
        self.git("add", "--all", "--force")
        self.git("commit", "-q", "-m", "test")

    def write_section(self, version, date, text):
        path = self.path / "CHANGELOG.md"
        path.write_text(f"# Changelog\n\n## [{version}] - {date}\n\n{text}\n\n## [0.0.1] - 2020-01-01\n\n- Older.\n")

    def reset(self):
        for tag in self.git("tag").splitlines():
            self.git("tag", "-d", tag)
        self.git("reset", "-q", "--hard", self.first)
        self.git("clean", "-q", "-f", "-d")

    def release(self, *words):
        return subprocess.run([self.path / "scripts/release", *words], text=True, capture_output=True, timeout=300,
                              check=False)


@pytest.fixture(scope="module")
def module_checkout(tmp_path_factory):
    return Checkout(tmp_path_factory.mktemp("release") / "checkout")


@pytest.fixture
def checkout(module_checkout):
    yield module_checkout
    module_checkout.reset()


@pytest.fixture(scope="module")
def dry_run(module_checkout, tmp_path_factory):
    """(directory, output) of a dry run."""
    directory = tmp_path_factory.mktemp("dry-run") / "out"
    result = module_checkout.release("--dry-run", VERSION, directory)
    assert result.returncode == 0, result.stderr
    return directory, result.stdout


def digest_of(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


# ---- A dry run ----

def test_source_archive_has_the_files_of_the_commit(dry_run, module_checkout):
    with tarfile.open(dry_run[0] / SOURCE) as tar:
        packed = {member.name for member in tar if not member.isdir()}
    committed = module_checkout.git("ls-files").splitlines()
    assert packed == {f"onespace-{VERSION}/{name}" for name in committed}


def test_sums_are_those_of_all_files(dry_run):
    directory, _ = dry_run
    done = subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=directory, capture_output=True,
                          text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    named = {line.split("  ", 1)[1] for line in (directory / "SHA256SUMS").read_text().splitlines()}
    files = {path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file()}
    assert named | {"SHA256SUMS"} == files and {SOURCE, f"{SOURCE}.spdx.json", "NOTES.md"} <= named


def test_notes_are_the_section_of_the_changelog(dry_run):
    assert (dry_run[0] / "NOTES.md").read_text() == (
        f"# onespace {VERSION}, 2026-11-30\n\n### Fixed\n\n- A defect.\n")


def test_source_archive_has_a_bill_of_materials(dry_run):
    document = json.loads((dry_run[0] / f"{SOURCE}.spdx.json").read_text())
    assert document["packages"][0]["checksums"][0]["checksumValue"] == digest_of(dry_run[0] / SOURCE)


def test_recipes_have_the_digest_of_the_source_archive(dry_run):
    recipes, digest = dry_run[0] / "recipes", digest_of(dry_run[0] / SOURCE)
    spack = (recipes / "spack/spack_repo/onespace/packages/onespace/package.py").read_text()
    easybuild = (recipes / f"easybuild/onespace-{VERSION}-gompi-2023b.eb").read_text()
    conda = (recipes / "conda/recipe.yaml").read_text()
    for recipe in (spack, easybuild):
        ast.parse(recipe)
    assert f'version("{VERSION}", sha256="{digest}")' in spack and "CHECKOUT" not in spack
    assert f"\nchecksums = ['{digest}']\n" in easybuild
    assert f"\nsource:\n  path: ../../{SOURCE}\n  sha256: {digest}\n" in conda
    assert (recipes / "conda" / "../.." / SOURCE).exists()


def test_container_recipes_name_the_archive(dry_run):
    recipes = dry_run[0] / "recipes/containers"
    assert f"ADD onespace-{VERSION}-x86_64.tar.xz /opt/\n" in (recipes / "Containerfile").read_text()
    assert f"ARCHIVE=onespace-{VERSION}-x86_64.tar.xz\n" in (recipes / "onespace.def").read_text()


def test_nothing_is_signed_or_published_but_the_commands_are_shown(dry_run, module_checkout):
    directory, output = dry_run
    head = module_checkout.git("rev-parse", "HEAD")
    assert f"(cd {directory} && gpg --armor --detach-sign SHA256SUMS)\n" in output
    assert f'git tag -s v{VERSION} -m "onespace {VERSION}" {head}\n' in output
    assert not list(directory.rglob("*.asc")) and module_checkout.git("tag") == ""


def test_dry_runs_are_equal(dry_run, checkout, tmp_path):
    assert checkout.release("--dry-run", VERSION, tmp_path / "out").returncode == 0
    assert (tmp_path / "out/SHA256SUMS").read_text() == (dry_run[0] / "SHA256SUMS").read_text()


def test_recipes_name_a_url(checkout, tmp_path):
    url = "https://example.org/onespace"
    result = checkout.release("--dry-run", "--url", f"{url}/", VERSION, tmp_path / "out")
    assert result.returncode == 0, result.stderr
    recipes = tmp_path / "out/recipes"
    spack = (recipes / "spack/spack_repo/onespace/packages/onespace/package.py").read_text()
    assert f'    url = "{url}/{SOURCE}"\n' in spack
    easybuild = (recipes / f"easybuild/onespace-{VERSION}-gompi-2023b.eb").read_text()
    assert f"\nsource_urls = ['{url}']\nsources = [SOURCE_TAR_GZ]\n" in easybuild
    assert f"\n  url: {url}/{SOURCE}\n" in (recipes / "conda/recipe.yaml").read_text()


# ---- With packages, which scripts in place of the real ones make ----

STAND_INS = {
    "packaging/lib/chroot.sh": "chroot_needs() { :; }\n",
    "scripts/website": '#!/bin/sh\nmkdir -p "$1" && echo page >"$1/index.html"\n',
    "packaging/archive/make": f"""#!/bin/sh
mkdir -p "$1/onespace-{VERSION}" && cp LICENSE "$1/onespace-{VERSION}"
tar -cJf "$1/onespace-{VERSION}-x86_64.tar.xz" -C "$1" onespace-{VERSION} && rm -r "$1/onespace-{VERSION}"
""",
    "scripts/debian-package": f"""#!/bin/sh
mkdir -p "$3/tree/DEBIAN" && cd "$3" && echo "$1 $2 $DEB_BUILD_PROFILES" >onespace_{VERSION}-1_amd64.changes
printf '%s\\n' 'Package: onespace' 'Version: {VERSION}-1' 'Architecture: amd64' 'Description: text' \\
    'Maintainer: A Person <a@example.org>' >tree/DEBIAN/control
dpkg-deb -Zxz --build tree onespace_{VERSION}-1_amd64.deb >/dev/null && rm -r tree
""",
    "packaging/wheels/make": f"""#!/bin/sh
mkdir -p "$1/onespace-{VERSION}.dist-info" && cd "$1"
printf 'Name: onespace\\nVersion: {VERSION}\\n' >onespace-{VERSION}.dist-info/METADATA
/usr/bin/python3 -m zipfile -c onespace-{VERSION}-cp312-abi3-linux_x86_64.whl onespace-{VERSION}.dist-info
rm -r onespace-{VERSION}.dist-info
"""}


def test_release_has_packages_for_all_targets(checkout, tmp_path, tool):
    tool("dpkg-deb", "dpkg")
    for name, text in STAND_INS.items():
        (checkout.path / name).write_text(text)
    checkout.commit()
    result = checkout.release(VERSION, tmp_path / "out")
    assert result.returncode == 0, result.stderr
    named = {line.split("  ", 1)[1] for line in (tmp_path / "out/SHA256SUMS").read_text().splitlines()}
    packages = {SOURCE, f"onespace-{VERSION}-x86_64.tar.xz", f"python/onespace-{VERSION}-cp312-abi3-linux_x86_64.whl",
                f"debian/trixie/onespace_{VERSION}-1_amd64.deb", f"debian/bookworm/onespace_{VERSION}-1_amd64.deb"}
    assert packages | {f"{name}.spdx.json" for name in packages} <= named
    with tarfile.open(tmp_path / f"out/onespace-{VERSION}-website.tar.xz") as tar:
        assert f"onespace-{VERSION}-website/index.html" in tar.getnames()
    for release, profile in (("trixie", ""), ("bookworm", "nopython")):
        changes = tmp_path / f"out/debian/{release}/onespace_{VERSION}-1_amd64.changes"
        assert changes.read_text() == f"--chroot {release} {profile}\n"


def test_failed_part_ends_the_release(checkout, tmp_path):
    for name, text in {**STAND_INS, "packaging/archive/make": "#!/bin/sh\necho no compiler >&2\nexit 3\n"}.items():
        (checkout.path / name).write_text(text)
    checkout.commit()
    result = checkout.release(VERSION, tmp_path / "out")
    assert result.returncode == 1 and "no compiler\nrelease: packaging/archive/make failed" in result.stderr
    assert not (tmp_path / "out/SHA256SUMS").exists()


# ---- What is refused ----

def refused(checkout, tmp_path, *words, version=VERSION):
    result = checkout.release("--dry-run", version, tmp_path / "out")
    assert result.returncode == 1 and not (tmp_path / "out").exists(), result.stdout
    assert result.stderr.startswith("release: ") and result.stderr.count("\n") == 1, result.stderr
    for word in words:
        assert word in result.stderr, result.stderr


def test_changed_files_are_refused(checkout, tmp_path):
    (checkout.path / "LICENSE").write_text("")
    (checkout.path / "new-file").write_text("")
    refused(checkout, tmp_path, " LICENSE (and 1 more): commit")


def test_existing_tag_is_refused(checkout, tmp_path):
    checkout.git("tag", f"v{VERSION}")
    refused(checkout, tmp_path, f"the tag v{VERSION} exists")


def test_changelog_without_a_date_is_refused(checkout, tmp_path):
    checkout.write_section(VERSION, "unreleased", "- A change.")
    checkout.commit()
    refused(checkout, tmp_path, "CHANGELOG.md", "'unreleased'", "write the date")


@pytest.mark.parametrize("version, text", [("9.9.9", "- A change."), (VERSION, "")], ids=["other", "empty"])
def test_changelog_without_the_section_is_refused(checkout, tmp_path, version, text):
    checkout.write_section(version, "2026-11-30", text)
    checkout.commit()
    refused(checkout, tmp_path, f"CHANGELOG.md has no section '## [{VERSION}] - ")


def test_file_with_another_version_is_refused(checkout, tmp_path):
    path = checkout.path / "CITATION.cff"
    path.write_text(path.read_text().replace(f"\nversion: {VERSION}\n", "\nversion: 0.0.1\n"))
    checkout.commit()
    refused(checkout, tmp_path, "CITATION.cff names 0.0.1", f"scripts/release --set-version {VERSION}")


def test_other_version_than_that_of_the_sources_is_refused(checkout, tmp_path):
    refused(checkout, tmp_path, f"CMakeLists.txt names {VERSION}, not 9.9.9", "--set-version 9.9.9", version="9.9.9")


def test_directory_inside_the_sources_is_refused(checkout):
    result = checkout.release("--dry-run", VERSION, checkout.path / "out")
    assert result.returncode == 1 and "would become part of the sources" in result.stderr


def test_directory_with_files_is_refused(checkout, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/file").write_text("")
    result = checkout.release("--dry-run", VERSION, tmp_path / "out")
    assert result.returncode == 1 and "is not empty" in result.stderr


def test_text_that_is_no_version_is_refused(checkout):
    result = checkout.release("--dry-run", "1.0")
    assert result.returncode == 1 and "1.0 is no version" in result.stderr


# ---- One version, everywhere ----

def test_files_of_this_tree_name_one_version():
    assert runpy.run_path(str(ROOT / "scripts/release"))["wrong_versions"](VERSION) == {}


def test_set_version_changes_all_files(checkout):
    assert checkout.release("--set-version", "9.8.7").returncode == 0
    checkout.write_section("9.8.7", "2026-11-30", "- A change.")
    changed = set(checkout.git("diff", "--name-only").splitlines())
    assert {"CMakeLists.txt", "pyproject.toml", "README.md", "docs/install.md"} <= changed
    entry = (checkout.path / "packaging/debian/changelog").read_text()
    assert re.match(r"onespace \(9\.8\.7-1\) unstable; urgency=medium\n\n  \* \S.*\n\n -- .* <\S+>  \w{3}, ", entry)
    assert f"\nonespace ({VERSION}-1) " in entry
    checkout.commit()
    result = checkout.release("--dry-run", "9.8.7")
    assert result.returncode == 0, result.stderr
    assert result.stdout.endswith("release: this was a dry run: the directory is removed\n")
    assert checkout.git("status", "--porcelain", "--ignored") == ""


def test_set_version_twice_changes_nothing(checkout):
    assert checkout.release("--set-version", VERSION).returncode == 0
    assert checkout.git("status", "--porcelain") == ""


def test_no_file_names_the_version_unnoticed():
    """Names of packages are in the files that scripts/release changes; "Since onespace 0.1.0" stays."""
    versions = runpy.run_path(str(ROOT / "scripts/release"))["VERSIONS"]
    known = {name.format(VERSION) for name, _ in versions}
    done = subprocess.run(["grep", "-rIlE", rf"onespace[-_]{re.escape(VERSION)}\b", "README.md", "docs", "packaging",
                           "scripts", "man", "examples"], cwd=ROOT, capture_output=True, text=True, timeout=300,
                          check=False)
    assert set(done.stdout.split()) <= known
