"""The contents of a wheel or an sdist: the package and its metadata, complete, and nothing else."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
import tarfile
import tomllib
import zipfile
from collections.abc import Iterable, Iterator
from email.message import Message
from email.parser import Parser
from pathlib import Path

from tools.check_wheel.names import NAME, WheelName, requires_onnxruntime
from tools.distributions import ROOT, files as files_of_all, manifest
from tools.wheel_manifest import Release

LARGEST_WHEEL_BYTES = 20_000_000
LICENCES = ("LICENSE", "NOTICE")
NATIVE = re.compile(
    rf"{NAME}/_native(\.abi3\.so|\.cpython-3\d+t?-[\w-]+\.so|(\.cp3\d+t-win_(amd64|arm64))?\.pyd)"
)
"""The one compiled file."""

METADATA = ("METADATA", "WHEEL", "RECORD", "entry_points.txt")
SBOM = re.compile(r"sboms/[\w.-]+\.cyclonedx\.json")
"""The bill of materials that maturin adds: the compiled dependencies."""

_RELATIVE = re.compile(r"\]\((?!https?:|#).*?\)|^\[[^\]]+\]: (?!https?:).*", re.M)
NOT_IN_AN_SDIST = re.compile(r"(\.so|\.pyd|\.pyc|\.whl|\.onnx)$|(^|/)(target|\.venv|\.git|dist)/")
NEEDED_TO_BUILD = (
    *("Cargo.toml", "Cargo.lock", "pyproject.toml", "README.md", "PKG-INFO", *LICENCES),
    *("rust/rehydrate-core/Cargo.toml", "rust/rehydrate-py/Cargo.toml"),
)


def project_version() -> str:
    """Return the version of the workspace, which is the package's."""
    manifest = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    version: str = manifest["workspace"]["package"]["version"]
    return version


def package_files(name: str = NAME) -> set[str]:
    """Return the files of a distribution's part of the package, as the repository has them."""
    return files_of_all()[name]


def wheel_problems(path: Path, release: Release | None = None) -> Iterator[str]:
    """Yield the problems inside a wheel, by itself or as a file of a release."""
    parsed = WheelName.parse(path.name)
    distribution = NAME if parsed is None else parsed.name
    if path.stat().st_size > LARGEST_WHEEL_BYTES:
        yield f"it has {path.stat().st_size:,} bytes, at most {LARGEST_WHEEL_BYTES:,} are allowed"
    with zipfile.ZipFile(path) as wheel:
        files = {name: wheel.read(name) for name in wheel.namelist() if not name.endswith("/")}
    info = f"{distribution}-{project_version()}.dist-info/"
    package = {name for name in files if not name.startswith(info)}
    native = {name for name in package if NATIVE.fullmatch(name)}
    if len(native) != (distribution == NAME):
        expects = "one" if distribution == NAME else "none"
        yield f"it has {len(native)} native modules, expected {expects}"
    yield from _differences(package - native, package_files(distribution))
    about = {name.removeprefix(info) for name in files if name.startswith(info)}
    about = {name for name in about if not SBOM.fullmatch(name)}
    metadata = METADATA if distribution == NAME else METADATA[:-1]
    yield from _differences(about, {*metadata, *(f"licenses/{name}" for name in LICENCES)})
    if info + "METADATA" in files:
        is_without = parsed is not None and not requires_onnxruntime(parsed)
        told = Parser().parsestr(files[info + "METADATA"].decode())
        yield from _metadata_problems(told, distribution, "onnxruntime" if is_without else None)
        yield from _address_problems(told, release)
    if info + "WHEEL" in files:
        yield from _tag_problems(path, files[info + "WHEEL"].decode())
    if info + "entry_points.txt" in files:
        command = f"{NAME}={NAME}.cli:main"
        if command not in files[info + "entry_points.txt"].decode().replace(" ", ""):
            yield f"its entry points do not have {command}"
    if info + "RECORD" in files:
        yield from _record_problems(files, info + "RECORD")


def sources_read(compiled: Path) -> set[str]:
    """Return the files of the repository that a build read, by the list that cargo writes of it.

    Build scripts and what they or `include_bytes!` read are in it; what they made is in `target`.
    """
    _, _, listed = compiled.read_text(encoding="utf-8").partition(": ")
    read = {Path(name.replace("\\ ", " ")) for name in re.split(r"(?<!\\)\s+", listed) if name}
    inside = {file.relative_to(ROOT) for file in read if file.is_relative_to(ROOT)}
    return {file.as_posix() for file in inside if file.parts[0] != "target"}


def sdist_problems(
    path: Path, read: Iterable[str] = (), release: Release | None = None
) -> Iterator[str]:
    """Yield the problems inside an sdist; `read` are files that a build took."""
    top = path.name.removesuffix(".tar.gz") + "/"
    with tarfile.open(path) as sdist:
        names = {member.name for member in sdist.getmembers() if member.isfile()}
        if f"{top}PKG-INFO" in names and (about := sdist.extractfile(f"{top}PKG-INFO")):
            yield from _address_problems(Parser().parsestr(about.read().decode()), release)
    outside = [name for name in names if not name.startswith(top)]
    if outside:
        yield f"{outside[0]} is not in {top}"
    files = {name.removeprefix(top) for name in names}
    wanted = {*NEEDED_TO_BUILD, *read, *(f"python/{name}" for name in package_files())}
    yield from (f"{name} is missing" for name in sorted(wanted - files))
    yield from (
        f"{name} does not belong there" for name in sorted(files) if NOT_IN_AN_SDIST.search(name)
    )


def _differences(found: set[str], expected: set[str]) -> Iterable[str]:
    yield from (f"{name} is missing" for name in sorted(expected - found))
    yield from (f"{name} does not belong there" for name in sorted(found - expected))


def _address_problems(told: Message, release: Release | None) -> Iterator[str]:
    """Yield what has no address of the repository at a release, where it is known."""
    if release is None:
        return
    found = sorted(str(url) for url in told.get_all("Project-URL", []))
    if found != (wanted := sorted(f"{name}, {url}" for name, url in release.urls.items())):
        yield f"Project-URL is {found}, expected {wanted}"
    if relative := _RELATIVE.search(str(told.get_payload())):
        yield f"its long description has a relative link: {relative[0]}"


def _metadata_problems(told: Message, distribution: str, left_out: str | None) -> Iterator[str]:
    project = manifest(distribution)["project"]
    wanted = {
        "Name": [project["name"]],
        "Version": [project_version()],
        "Requires-Python": [project["requires-python"]],
        "License-Expression": [project["license"]],
        "License-File": [*LICENCES],
        "Summary": [project["description"]],
    }
    for field, values in wanted.items():
        if (found := [str(value) for value in told.get_all(field, [])]) != values:
            yield f"{field} is {found}, expected {values}"
    required = sorted(
        _plain(value)
        for value in project["dependencies"]
        if left_out is None or not value.startswith(left_out)
    )
    if (found := _requirements(told)) != required:
        yield f"without extras it requires {found}, expected {required}"
    if not str(told.get_payload()).strip():
        yield "it has no long description"


def _requirements(told: Message) -> list[str]:
    given = [str(value) for value in told.get_all("Requires-Dist", [])]
    return sorted(_plain(value) for value in given if "extra ==" not in value)


def _plain(requirement: str) -> str:
    """Return a requirement without differences between build tools: spaces, quotes, order."""
    what, mark, when = requirement.replace(" ", "").replace('"', "'").partition(";")
    name, extras, bounds = re.fullmatch(r"([\w.-]+)(\[[^]]*\])?(.*)", what).groups("")  # type: ignore[union-attr]
    return f"{name}{extras}{','.join(sorted(bounds.split(',')))}{mark}{when}"


def _tag_problems(path: Path, text: str) -> Iterator[str]:
    name = WheelName.parse(path.name)
    if name is None:
        return
    tags = sorted(Parser().parsestr(text).get_all("Tag", []))
    wanted = sorted(f"{name.python}-{name.abi}-{platform}" for platform in name.platform.split("."))
    if tags != wanted:
        yield f"inside it is tagged {tags}, by its name {wanted}"


def _record_problems(files: dict[str, bytes], record: str) -> Iterator[str]:
    rows = list(csv.reader(io.StringIO(files[record].decode())))
    if sorted(row[0] for row in rows) != sorted(files):
        yield "RECORD does not list what is there"
    for name, digest, _size in (row for row in rows if row[0] != record and row[0] in files):
        if digest != "sha256=" + _sha256(files[name]):
            yield f"{name} is not what RECORD says it is"


def _sha256(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
