"""tests/packaging/test_sbom.py: packaging/sbom describes small packages that are made here, as SPDX 2.3 requires."""
import hashlib
import json
import os
import re
import runpy
import shutil
import subprocess
import tarfile
import zipfile

import pytest

from jobs import BUILD, ROOT

SBOM = ROOT / "packaging/sbom"
ID = re.compile(r"SPDXRef-[A-Za-z0-9.-]+")


def describe(package, **env):
    return subprocess.run([SBOM, package], capture_output=True, text=True, timeout=300, check=False,
                          env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000", **env})


def document_of(package):
    result = describe(package)
    assert result.returncode == 0, result.stderr
    return json.loads((package.parent / result.stdout.strip()).read_text())


def make_tar(path, files):
    with tarfile.open(path, "w:xz") as tar:
        for name, data in files.items():
            source = path.parent / "member"
            source.write_bytes(data)
            tar.add(source, name)
    return path


@pytest.fixture(scope="module")
def elf():
    """Any program that is linked with the libc."""
    with open(shutil.which("true"), "rb") as file:
        return file.read()


@pytest.fixture
def archive(tmp_path, elf):
    return make_tar(tmp_path / "onespace-1.2.3-x86_64.tar.xz", {
        "onespace-1.2.3/bin/onespace": elf, "onespace-1.2.3/LICENSE": b"text\n"})


@pytest.fixture
def wheel(tmp_path, elf):
    path = tmp_path / "onespace-1.2.3-cp312-abi3-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("onespace/_core.abi3.so", elf + b"\0nanobind 2.9.2\0")
        file.writestr("onespace-1.2.3.dist-info/METADATA",
                      "Metadata-Version: 2.4\nName: onespace\nVersion: 1.2.3\nRequires-Dist: numpy>=1.20\n\ntext\n")
    return path


@pytest.fixture
def debian(tmp_path, elf, tool):
    tree = tmp_path / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(
        "Package: onespace\nVersion: 1.2.3-1\nArchitecture: amd64\nMaintainer: A Person <a@example.org>\n"
        "Depends: libonespace0 (= 1.2.3-1), mpich | openmpi-bin,\n libc6 (>= 2.34)\nDescription: text\n")
    (tree / "usr/bin").mkdir(parents=True)
    (tree / "usr/bin/onespace").write_bytes(elf)
    path = tmp_path / "onespace_1.2.3-1_amd64.deb"
    subprocess.run([tool("dpkg-deb", "dpkg"), "--root-owner-group", "-Zxz", "--build", tree, path], check=True,
                   capture_output=True, timeout=300)
    return path


@pytest.fixture(params=["archive", "wheel", "debian"])
def package(request):
    return request.getfixturevalue(request.param)


def related(document, kind):
    """{(name of an element, name of the related one)} of the relationships of that kind."""
    names = {entry["SPDXID"]: entry.get("name") or entry["fileName"] for entry in
             [*document["packages"], *document["files"]]}
    return {(names[entry["spdxElementId"]], names[entry["relatedSpdxElement"]])
            for entry in document["relationships"] if entry["relationshipType"] == kind}


# ---- The structure ----

def test_required_fields_are_there(package):
    document = document_of(package)
    assert document["spdxVersion"] == "SPDX-2.3" and document["dataLicense"] == "CC0-1.0"
    assert document["SPDXID"] == "SPDXRef-DOCUMENT" and document["name"] == package.name
    assert re.fullmatch(r"https?://[^#\s]+", document["documentNamespace"])
    assert document["creationInfo"]["created"] == "2023-11-14T22:13:20Z"
    assert all(re.match(r"(Organization|Person|Tool): \S", word) for word in document["creationInfo"]["creators"])
    for entry in document["packages"]:
        assert entry["name"] and entry["downloadLocation"], entry
        assert ("packageVerificationCode" in entry) == entry["filesAnalyzed"], entry
    for entry in document["files"]:
        assert entry["fileName"].startswith("./"), entry
        assert {"SHA1", "SHA256"} == {checksum["algorithm"] for checksum in entry["checksums"]}, entry


def test_relationships_refer_to_elements_of_the_document(package):
    document = document_of(package)
    ids = ["SPDXRef-DOCUMENT", *(entry["SPDXID"] for entry in [*document["packages"], *document["files"]])]
    assert len(ids) == len(set(ids)) and all(ID.fullmatch(name) for name in ids), ids
    for entry in document["relationships"]:
        assert {entry["spdxElementId"], entry["relatedSpdxElement"]} <= set(ids), entry
    assert [entry["relatedSpdxElement"] for entry in document["relationships"]
            if entry["relationshipType"] == "DESCRIBES"] == ["SPDXRef-Package"]


def test_package_is_named_with_version_license_and_digest(package):
    root = document_of(package)["packages"][0]
    assert (root["name"], root["versionInfo"].partition("-")[0]) == ("onespace", "1.2.3")
    assert root["licenseDeclared"] == "BSD-3-Clause" and root["supplier"] == "Organization: The onespace authors"
    assert root["checksums"] == [{"algorithm": "SHA256",
                                  "checksumValue": hashlib.sha256(package.read_bytes()).hexdigest()}]


def test_checksums_are_those_of_the_files(archive):
    document = document_of(archive)
    with tarfile.open(archive) as tar:
        contents = {f"./{member.name}": tar.extractfile(member).read() for member in tar}
    assert {entry["fileName"] for entry in document["files"]} == set(contents)
    for entry in document["files"]:
        for checksum in entry["checksums"]:
            digest = hashlib.new(checksum["algorithm"].lower(), contents[entry["fileName"]]).hexdigest()
            assert checksum["checksumValue"] == digest, entry
    sha1 = sorted(hashlib.sha1(data).hexdigest() for data in contents.values())
    code = document["packages"][0]["packageVerificationCode"]["packageVerificationCodeValue"]
    assert code == hashlib.sha1("".join(sha1).encode()).hexdigest()


def test_two_runs_are_equal(package):
    first = document_of(package)
    path = package.with_name(package.name + ".spdx.json")
    text = path.read_bytes()
    path.unlink()
    assert document_of(package) == first and path.read_bytes() == text


# ---- Contents ----

def test_needed_libraries_are_those_of_the_elf_files(archive, tool):
    said = subprocess.run([tool("readelf", "binutils"), "-dW", shutil.which("true")], capture_output=True, text=True,
                          timeout=300, check=True).stdout
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", said)
    document = document_of(archive)
    assert needed
    assert related(document, "DYNAMIC_LINK") == {("./onespace-1.2.3/bin/onespace", soname) for soname in needed}
    assert related(document, "DEPENDS_ON") == {("onespace", soname) for soname in needed}


def test_library_of_the_package_is_no_other_package(tmp_path, elf, archive):
    """Its file is named by the soname, if it has none of its own."""
    soname = min(library for _, library in related(document_of(archive), "DYNAMIC_LINK"))
    document = document_of(make_tar(tmp_path / "onespace-1.2.3-own.tar.xz", {
        "onespace-1.2.3/bin/onespace": elf, f"onespace-1.2.3/lib/{soname}": elf}))
    assert ("./onespace-1.2.3/bin/onespace", f"./onespace-1.2.3/lib/{soname}") in related(document, "DYNAMIC_LINK")
    assert soname not in {entry["name"] for entry in document["packages"]}


def test_debug_file_needs_nothing(tmp_path, tool):
    """Those of Debian's -dbgsym packages keep the headers of sections that they lack."""
    subprocess.run([tool("objcopy", "binutils"), "--only-keep-debug", shutil.which("true"), tmp_path / "debug"],
                   check=True, timeout=300)
    document = document_of(make_tar(tmp_path / "onespace-1.2.3-debug.tar.xz", {
        "onespace-1.2.3/true.debug": (tmp_path / "debug").read_bytes()}))
    assert related(document, "DYNAMIC_LINK") == set() and document["files"][0]["fileTypes"] == ["BINARY"]


def test_elf_files_among_sources_are_data(tmp_path, elf):
    document = document_of(make_tar(tmp_path / "onespace-1.2.3.tar.xz", {
        "onespace-1.2.3/CMakeLists.txt": b"project(onespace)\n", "onespace-1.2.3/tests/data": elf}))
    assert [entry["name"] for entry in document["packages"]] == ["onespace"]
    assert document["packages"][0]["primaryPackagePurpose"] == "SOURCE"


def test_wheel_lists_what_is_linked_in_and_its_requirements(wheel):
    document = document_of(wheel)
    extension = "./onespace/_core.abi3.so"
    assert related(document, "STATIC_LINK") == {(extension, "nanobind"), (extension, "robin-map")}
    versions = {entry["name"]: entry.get("versionInfo") for entry in document["packages"]}
    assert versions["nanobind"] == "2.9.2"
    assert ("onespace", "numpy") in related(document, "DEPENDS_ON")
    assert "numpy>=1.20" in [entry.get("comment") for entry in document["relationships"]]


def test_debian_package_lists_its_dependencies(debian):
    document = document_of(debian)
    names = {name for _, name in related(document, "DEPENDS_ON")}
    assert {"libonespace0", "libc6", "mpich", "openmpi-bin"} <= names
    assert "mpich | openmpi-bin" in [entry.get("comment") for entry in document["relationships"]]


def test_built_extension_names_the_version_of_nanobind():
    file_of = runpy.run_path(str(SBOM))["file_of"]
    for path in (BUILD / "python/onespace").glob("_core*.so"):
        assert re.fullmatch(r"\d+\.\d+\.\d+", file_of(path.name, path.read_bytes(), True).nanobind)


# ---- Errors ----

@pytest.mark.parametrize("name, data, message", [
    ("onespace.zip", b"PK", "its name must end with"),
    ("onespace-1.2.3.tar.gz", b"text", "cannot read"),
    ("onespace_1.2.3-1_amd64.deb", b"text", "is not a Debian package"),
    ("onespace-1.2.3-py3-none-any.whl", b"text", "cannot read")])
def test_broken_package_is_one_message(tmp_path, name, data, message):
    (tmp_path / name).write_bytes(data)
    result = describe(tmp_path / name)
    assert result.returncode == 1 and result.stdout == ""
    assert result.stderr.startswith("sbom: ") and result.stderr.count("\n") == 1 and message in result.stderr
    assert not (tmp_path / f"{name}.spdx.json").exists()
