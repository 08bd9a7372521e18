"""The check of wheels and sdists finds wrong files, and passes correct ones."""

from __future__ import annotations

import io
import re
import tarfile
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from shutil import copy
from typing import Any

import pytest
import yaml

from tools.check_wheel import contents, names
from tools.check_wheel.__main__ import main
from tools.check_wheel.names import ABIS, PLATFORMS, WheelName, requires_onnxruntime
from tools.distributions import ALL, OTHERS, files, folder, manifest
from tools.release_notes import notes
from tools.wheel_manifest import Release, name_addresses, without_onnxruntime

VERSION = contents.project_version()
INFO = f"rehydrate-{VERSION}.dist-info/"
NATIVE = "rehydrate/_native.abi3.so"
NAME = f"rehydrate-{VERSION}-cp311-abi3-manylinux_2_28_x86_64.whl"
SOURCES = [contents.ROOT / "python" / name for held in files().values() for name in held]
NEWEST_SOURCE = max(file.stat().st_mtime for file in SOURCES)
BUILT = [
    file
    for file in sorted(Path(contents.ROOT, "dist").glob("rehydrate*"))
    if file.stat().st_mtime > NEWEST_SOURCE
]

METADATA = f"""Metadata-Version: 2.4
Name: rehydrate
Version: {VERSION}
Requires-Dist: {{requirements}}
Requires-Dist: pytest==9.2.0 ; extra == 'dev'
License-File: LICENSE
License-File: NOTICE
Summary: {{summary}}
License-Expression: Apache-2.0
Requires-Python: >=3.11

# Rehydrate
"""


def sound() -> dict[str, bytes]:
    """Return the files of a correct wheel, without its RECORD."""
    manifest = (contents.ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (listed,) = re.findall(r"^dependencies = \[\n(.*?)^\]", manifest, re.S | re.M)
    requirements = "\nRequires-Dist: ".join(re.findall(r'^  "(.*?)"', listed, re.M))
    (summary,) = re.findall(r'^description = "(.*)"', manifest, re.M)
    about = {
        "METADATA": METADATA.format(requirements=requirements, summary=summary).encode(),
        "WHEEL": b"Wheel-Version: 1.0\nTag: cp311-abi3-manylinux_2_28_x86_64\n",
        "entry_points.txt": b"[console_scripts]\nrehydrate=rehydrate.cli:main\n",
        "licenses/LICENSE": b"",
        "licenses/NOTICE": b"",
        "sboms/rehydrate-py.cyclonedx.json": b"{}",
    }
    package = dict.fromkeys(contents.package_files(), b"")
    return {**package, NATIVE: b"\x7fELF", **{INFO + name: data for name, data in about.items()}}


def pack(folder: Path, files: dict[str, bytes], name: str = NAME) -> Path:
    rows = [f"{file},sha256={contents._sha256(data)},{len(data)}" for file, data in files.items()]
    record = INFO + "RECORD"
    with zipfile.ZipFile(folder / name, "w") as wheel:
        for file, data in files.items():
            wheel.writestr(file, data)
        wheel.writestr(record, "\n".join([*rows, f"{record},,"]) + "\n")
    return folder / name


ARCHS = ("x86_64", "aarch64")
MUSL = "cp311-abi3-musllinux_1_2_x86_64"


@pytest.mark.parametrize(
    ("tag", "requires"),
    [
        ("cp311-abi3-manylinux_2_28_x86_64", True),
        ("cp311-abi3-win_arm64", True),
        ("cp311-abi3-macosx_11_0_arm64", True),
        ("cp314-cp314t-manylinux_2_28_aarch64", True),
        ("cp314-cp314t-macosx_11_0_arm64", False),
        ("cp314-cp314t-win_amd64", False),
        ("cp314-cp314t-musllinux_1_2_aarch64", False),
        (MUSL, False),
    ],
)
def test_a_wheel_requires_onnxruntime_where_that_has_wheels(tmp_path, capsys, tag, requires):
    name = f"rehydrate-{VERSION}-{tag}.whl"
    parsed = WheelName.parse(name)
    assert parsed is not None and requires_onnxruntime(parsed) is requires
    files = sound()
    files[INFO + "WHEEL"] = f"Wheel-Version: 1.0\nTag: {tag}\n".encode()
    lines = files[INFO + "METADATA"].splitlines(keepends=True)
    lean = [line for line in lines if not line.startswith(b"Requires-Dist: onnxruntime")]
    assert len(lean) == len(lines) - 1
    for metadata, is_right in ((lines, requires), (lean, not requires)):
        files[INFO + "METADATA"] = b"".join(metadata)
        assert main([str(pack(tmp_path, files, name))]) == (not is_right)
        assert is_right or "without extras it requires" in capsys.readouterr().err


def test_the_manifest_of_a_wheel_without_onnxruntime_is_the_same_but_for_that():
    lean = tomllib.loads(without_onnxruntime(PROJECT))
    whole = tomllib.loads(PROJECT)
    dependencies = whole["project"]["dependencies"]
    whole["project"]["dependencies"] = [
        each for each in dependencies if not each.startswith("onnxruntime")
    ]
    assert len(whole["project"]["dependencies"]) == len(dependencies) - 1
    assert lean == whole
    with pytest.raises(SystemExit, match="not one line"):
        without_onnxruntime("[project]\n")


RELEASE = {
    "GITHUB_REF_TYPE": "tag",
    "GITHUB_REF_NAME": f"v{VERSION}",
    "GITHUB_SERVER_URL": "https://git.example",
    "GITHUB_REPOSITORY": "owner/name",
}


def test_a_release_names_the_addresses_of_its_repository_in_manifests_and_readme(tmp_path):
    release = Release.of(RELEASE)
    assert release is not None and Release.of({**RELEASE, "GITHUB_REF_TYPE": "branch"}) is None
    for name in ALL:
        folder(name, tmp_path).mkdir(parents=True, exist_ok=True)
        copy(folder(name) / "pyproject.toml", folder(name, tmp_path))
    copy(ROOT / "README.md", tmp_path)
    name_addresses(release, tmp_path)
    for name in ALL:
        text = (folder(name, tmp_path) / "pyproject.toml").read_text(encoding="utf-8")
        project = tomllib.loads(text)["project"]
        assert project.pop("urls") == release.urls
        assert project == manifest(name)["project"]
    readme = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert not contents._RELATIVE.search(readme)
    link = r"(!?)\[[^]]*\]\(https://git.example/owner/name/(\w+)/([^/]+)/(.+?)[#)]"
    made = re.findall(link, readme)
    assert len(made) > 50
    for mark, way, tag, file in made:
        assert (way, tag) == ("raw" if mark else "blob", f"v{VERSION}")
        assert (ROOT / file).is_file(), file
    assert {"before_after.svg", "ask_back.svg"} <= {Path(file).name for *_, file in made}


def test_a_wheel_of_a_release_has_the_addresses(tmp_path, capsys, monkeypatch):
    files = sound()
    for name, value in RELEASE.items():
        monkeypatch.setenv(name, value)
    assert main([str(pack(tmp_path, files))]) == 1
    assert "Project-URL is [], expected ['Changelog, https://git.exa" in capsys.readouterr().err
    release = Release.of(RELEASE)
    assert release is not None
    urls = "".join(f"Project-URL: {name}, {url}\n" for name, url in release.urls.items())
    files[INFO + "METADATA"] = urls.encode() + files[INFO + "METADATA"]
    assert main([str(pack(tmp_path, files))]) == 0
    files[INFO + "METADATA"] += b"The [glossary](docs/glossary.md).\n"
    assert main([str(pack(tmp_path, files))]) == 1
    assert "a relative link: ](docs/glossary.md)" in capsys.readouterr().err
    monkeypatch.delenv("GITHUB_REF_TYPE")
    assert main(["--release", f"v{VERSION}", str(tmp_path / NAME)]) == 1
    assert "no variable of GitHub names a tag" in capsys.readouterr().err


def test_a_wheel_as_it_should_be_passes(tmp_path, capsys):
    assert main([str(pack(tmp_path, sound()))]) == 0
    assert capsys.readouterr().err == ""


def without(part: str) -> Callable[[dict[str, bytes]], None]:
    return lambda files: files.pop(part) and None


def edit(part: str, old: bytes, new: bytes) -> Callable[[dict[str, bytes]], None]:
    def change(files: dict[str, bytes]) -> None:
        assert old in files[part]
        files[part] = files[part].replace(old, new)

    return change


def with_file(name: str) -> Callable[[dict[str, bytes]], None]:
    return lambda files: files.update({name: b"\x7fELF"})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (without(NATIVE), "it has 0 native modules, expected one"),
        (with_file("rehydrate/_native.cpython-314t-darwin.so"), "it has 2 native modules"),
        (without("rehydrate/py.typed"), "rehydrate/py.typed is missing"),
        (without("rehydrate/_native.pyi"), "rehydrate/_native.pyi is missing"),
        (without(INFO + "licenses/NOTICE"), "licenses/NOTICE is missing"),
        (with_file("rehydrate/cli/eval.py"), "rehydrate/cli/eval.py does not belong there"),
        (with_file("rehydrate/libonnxruntime.so"), "libonnxruntime.so does not belong there"),
        (with_file("tests/test_x.py"), "tests/test_x.py does not belong there"),
        (with_file(INFO + "notes.txt"), "notes.txt does not belong there"),
        (edit(INFO + "METADATA", b">=3.11", b">=3.9"), "Requires-Python is ['>=3.9'], expected"),
        (edit(INFO + "METADATA", b"Apache-2.0", b"MIT"), "License-Expression is ['MIT'], expected"),
        (edit(INFO + "METADATA", b" ; extra == 'dev'", b""), "without extras it requires"),
        (edit(INFO + "METADATA", b"# Rehydrate", b""), "it has no long description"),
        (edit(INFO + "WHEEL", b"cp311-abi3", b"cp311-cp311"), "inside it is tagged"),
        (edit(INFO + "entry_points.txt", b"cli:main", b"main"), "its entry points do not have"),
    ],
)  # fmt: skip
def test_what_is_wrong_inside_a_wheel_is_said(tmp_path, capsys, change, said):
    files = sound()
    change(files)
    assert main([str(pack(tmp_path, files))]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(NAME)
    assert said in line


def test_a_wheel_that_is_not_as_its_record_says_is_refused(tmp_path, capsys):
    path = pack(tmp_path, sound())
    with zipfile.ZipFile(path) as wheel:
        files = {name: wheel.read(name) for name in wheel.namelist()}
    files[NATIVE] = b"something else"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, data in files.items():
            wheel.writestr(name, data)
    assert main([str(path)]) == 1
    assert f"{NATIVE} is not what RECORD says it is" in capsys.readouterr().err


def test_a_wheel_that_is_too_large_is_refused(tmp_path, capsys):
    assert main([str(pack(tmp_path, {**sound(), NATIVE: bytes(20_000_001)}))]) == 1
    assert "at most 20,000,000 are allowed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("rehydrate-{}-cp311-cp311-manylinux_2_28_x86_64.whl", "its tag is cp311-cp311"),
        ("rehydrate-{}-cp313-cp313t-manylinux_2_28_x86_64.whl", "its tag is cp313-cp313t"),
        ("rehydrate-{}-cp314-cp315t-win_amd64.whl", "its tag is cp314-cp315t"),
        ("rehydrate-{}-cp311-abi3-linux_x86_64.whl", "its platform is linux_x86_64"),
        ("rehydrate-9.9-cp311-abi3-win_amd64.whl", "it is rehydrate 9.9, expected rehydrate"),
        ("rehydrate_lab-{}-py3-none-any.whl", None),
        ("rehydrate_lab-{}-cp311-abi3-win_amd64.whl", "expected py3-none-any"),
        ("rehydrate_other-{}-cp311-abi3-win_amd64.whl", "it is rehydrate_other"),
        ("rehydrate-{}-1-cp311-abi3-win_amd64.whl", "has not five parts"),
        ("rehydrate-{}-cp311-abi3-macosx_11_0_arm64.whl", None),
        ("rehydrate-{}-cp314-cp314t-manylinux_2_28_aarch64.whl", None),
        ("rehydrate-{}-cp311-abi3-musllinux_1_2_x86_64.whl", None),
        ("rehydrate-{}-cp311-abi3-musllinux_2_0_x86_64.whl", "its platform is musllinux_2_0"),
        ("rehydrate-{}-cp311-abi3-manylinux_2_17_x86_64.manylinux_2_28_x86_64.whl", None),
    ],
)
def test_the_name_of_a_wheel_is_one_that_pip_takes_where_it_should(name, said):
    problems = list(names.wheel_problems(name.format(VERSION), VERSION))
    assert len(problems) == (said is not None)
    assert said is None or said in problems[0]


def test_a_release_is_every_platform_twice_and_the_sdist():
    linux = [f"{libc}_{arch}" for libc in ("manylinux_2_28", "musllinux_1_2") for arch in ARCHS]
    more = ("macosx_10_12_x86_64", "macosx_11_0_arm64", "win_amd64", "win_arm64")
    tags = [f"{abi}-{name}" for abi in ("cp311-abi3", "cp314-cp314t") for name in (*linux, *more)]
    whole = [f"rehydrate-{VERSION}-{tag}.whl" for tag in tags]
    whole.append(f"rehydrate-{VERSION}.tar.gz")
    whole += [f"{name}-{VERSION}-py3-none-any.whl" for name in OTHERS]
    assert list(names.release_problems(whole, f"v{VERSION}", VERSION)) == []
    for missing in whole:
        rest = [name for name in whole if name != missing]
        assert len(list(names.release_problems(rest, f"v{VERSION}", VERSION))) == 1, missing
    assert list(names.release_problems(whole, "v9", VERSION)) == [
        f"the tag is v9, expected v{VERSION}"
    ]


def test_the_notes_of_a_release_are_its_section_of_the_changelog():
    changelog = "# Changelog\n\n## [0.2.0] - 2027-01-04\n\n- New.\n\n## [0.1.0]\n\n- First.\n"
    assert notes(changelog, "0.2.0") == "- New.\n"
    assert notes(changelog, "0.1.0") == "- First.\n"
    with pytest.raises(SystemExit, match=r"no section \[0.3.0\]; rename \[Unreleased\]"):
        notes(changelog, "0.3.0")


def test_an_sdist_has_what_it_takes_to_build_and_nothing_built(tmp_path):
    def problems(files: set[str], *read: str) -> list[str]:
        path = tmp_path / f"rehydrate-{VERSION}.tar.gz"
        with tarfile.open(path, "w:gz") as sdist:
            for file in sorted(files):
                sdist.addfile(tarfile.TarInfo(f"rehydrate-{VERSION}/{file}"), io.BytesIO())
        return list(contents.sdist_problems(path, read))

    whole = {*contents.NEEDED_TO_BUILD, *(f"python/{name}" for name in contents.package_files())}
    assert problems(whole) == []
    assert problems(whole - {"Cargo.lock"}) == ["Cargo.lock is missing"]
    assert problems(whole | {"python/rehydrate/_native.abi3.so"}) == [
        "python/rehydrate/_native.abi3.so does not belong there"
    ]
    (tmp_path / "lib.d").write_text(
        f"{contents.ROOT}/target/lib.so: {contents.ROOT}/rust/a\\ b.rs /usr/c.rs"
        f" {contents.ROOT}/target/d.bytes {contents.ROOT}/rust/model.bin\n"
    )
    read = contents.sources_read(tmp_path / "lib.d")
    assert read == {"rust/a b.rs", "rust/model.bin"}
    assert problems(whole | {"rust/a b.rs"}, *read) == ["rust/model.bin is missing"]


@pytest.mark.skipif(
    not BUILT, reason="nothing is built since the last change; `make wheel` builds and checks"
)
def test_what_was_built_last_is_what_may_be_published():
    assert main([str(path) for path in BUILT]) == 0


# The workflow that builds the wheels: its platforms and pins, and that it holds no secret.


ROOT = Path(__file__).parents[1]
TEXT = (ROOT / ".github" / "workflows" / "wheels.yml").read_text(encoding="utf-8")
WORKFLOW: dict[Any, Any] = yaml.safe_load(TEXT)
JOBS: dict[str, Any] = WORKFLOW["jobs"]
STEPS = [step for job in JOBS.values() for step in job["steps"]]
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_every_step_runs_or_uses_something_and_every_job_has_a_machine():
    assert all(("run" in step) != ("uses" in step) for step in STEPS)
    assert all("runs-on" in job for job in JOBS.values())


def test_every_action_is_pinned_to_a_commit_and_says_its_version():
    used = re.findall(r"uses: (.*)", TEXT)
    assert len(used) == len([step for step in STEPS if "uses" in step])
    for action in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action


def test_one_action_has_one_version():
    commits = {action.partition("@")[::2] for action in re.findall(r"uses: (\S+)", TEXT)}
    assert len({name for name, _ in commits}) == len(commits)


def test_what_is_built_is_what_a_release_consists_of():
    matrix = JOBS["wheel"]["strategy"]["matrix"]
    assert len(matrix["python"]) == len(ABIS)
    built = [platform["name"] for platform in matrix["platform"]]
    assert built == [name.lower().replace(" ", "-") for name in PLATFORMS]
    for name, platform in zip(built, matrix["platform"], strict=True):
        for python in matrix["python"]:  # as the step asks before it builds
            asked = requires_onnxruntime(WheelName("", "", python, python, name))
            is_free_threaded = python.endswith("t")
            has_wheels = name.startswith(
                "manylinux" if is_free_threaded else ("many", "mac", "win")
            )
            assert asked is has_wheels
        assert ("image" in platform) is name.startswith("musllinux")


def test_the_oldest_interpreter_is_the_oldest_that_the_package_takes():
    assert f'requires-python = ">={JOBS["wheel"]["strategy"]["matrix"]["python"][0]}"' in PROJECT


def test_what_is_installed_for_the_tests_is_what_the_project_pins():
    named = [WORKFLOW["env"][name] for name in ("TEST_PACKAGES", "GIL_PACKAGES", "ONNX_PACKAGES")]
    for package in " ".join(named).split():
        assert f'"{package}"' in PROJECT
    assert f'"maturin=={WORKFLOW["env"]["MATURIN"]}"' in PROJECT
    assert f'"hatchling=={WORKFLOW["env"]["HATCHLING"]}"' in PROJECT
    for name in OTHERS:
        text = (folder(name) / "pyproject.toml").read_text(encoding="utf-8")
        assert f'"hatchling=={WORKFLOW["env"]["HATCHLING"]}"' in text


@pytest.mark.parametrize("job", ["wheel", "pure", "sdist", "publish"])
def test_every_job_checks_what_it_has_built_or_publishes(job: str):
    runs = " ".join(step.get("run", "") for step in JOBS[job]["steps"])
    assert "python -m tools.check_wheel" in runs


def test_only_a_tag_publishes_and_without_a_secret():
    publish = JOBS["publish"]
    assert publish["if"] == "startsWith(github.ref, 'refs/tags/v')"
    assert set(publish["needs"]) == {"wheel", "pure", "sdist"}
    assert publish["permissions"] == {"contents": "read", "id-token": "write"}
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert [name for name, job in JOBS.items() if "permissions" in job] == ["publish", "notes"]
    assert JOBS["notes"]["needs"] == "publish"  # and so after a check, of a tag
    assert JOBS["notes"]["permissions"] == {"contents": "write"}
    assert "secrets." not in TEXT


def test_no_run_step_has_an_expression_in_it_that_a_name_of_a_branch_could_break_out_of():
    assert not [step["run"] for step in STEPS if "${{" in step.get("run", "")]


def test_what_is_published_is_uploaded_before_packages_of_others_run() -> None:
    for job in ("wheel", "sdist"):
        steps = JOBS[job]["steps"]
        upload = next(
            at for at, step in enumerate(steps) if "upload-artifact" in step.get("uses", "")
        )
        installs = [at for at, step in enumerate(steps) if "pip install" in step.get("run", "")]
        assert installs
        assert upload < min(installs)
