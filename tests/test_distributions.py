"""The four distributions: each file in one, one version, and what is missing names its extra."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from rehydrate import cli
from rehydrate._distributions import HOMES, MissingFinder
from rehydrate.errors import MissingPackageError
from tools.check_wheel.contents import project_version
from tools.distributions import ALL, CORE, OTHERS, ROOT, files, homes, manifest, rooms

PROJECTS = {name: manifest(name)["project"] for name in ALL}


def test_each_file_is_in_one_distribution_and_each_takes_what_is_there():
    held = files()
    assert sum(map(len, held.values())) == len(set().union(*held.values()))
    for name in OTHERS:
        for room in rooms(name):
            assert any(file == room or file.startswith(f"{room}/") for file in held[name]), room


def test_the_table_of_the_core_names_what_the_others_take():
    extras = PROJECTS[CORE]["optional-dependencies"]
    taken = {room: name.replace("_", "-") for name in OTHERS for room in rooms(name)}
    assert {room.removesuffix(".py").replace("/", ".") for room in taken} == HOMES.keys()
    for room, name in taken.items():
        extra = HOMES[room.removesuffix(".py").replace("/", ".")]
        assert any(line.partition("[")[0] == name for line in extras[extra]), room


def test_the_core_leaves_out_what_the_others_take():
    left_out = {
        re.sub(r"(/\*\*)?/\*$", "", each["path"]).removeprefix("python/")
        for each in manifest(CORE)["tool"]["maturin"]["exclude"]
    }
    assert left_out == {room for name in OTHERS for room in rooms(name)}


def test_all_are_of_one_version_and_the_others_need_that_one():
    version = project_version()
    for name in OTHERS:
        assert PROJECTS[name]["version"].partition(".post")[0] == version
        assert f"rehydrate=={version}" in PROJECTS[name]["dependencies"]
        assert PROJECTS[name]["requires-python"] == PROJECTS[CORE]["requires-python"]
        extras = PROJECTS[name].get("optional-dependencies", {})
        pins = [each for lines in extras.values() for each in lines if "rehydrate-" in each]
        assert all(pin.endswith(f"=={version}.*") for pin in pins)


def test_the_extras_of_the_core_bring_what_they_name():
    extras = PROJECTS[CORE]["optional-dependencies"]
    assert set(HOMES.values()) <= extras.keys()
    for extra, lines in extras.items():
        for line in lines:
            asked = re.fullmatch(r"rehydrate-(\w+)(?:\[([\w-]+)\])?", line)
            if asked is None:
                continue
            project = PROJECTS[f"rehydrate_{asked[1]}"]
            if asked[2]:
                assert asked[2] == extra
                assert asked[2] in project["optional-dependencies"]
    hosts = PROJECTS["rehydrate_hosts"]["optional-dependencies"]
    for name, lines in hosts.items():  # every host is asked for by its extra of the core
        asked = extras[name]
        assert f"rehydrate-hosts[{name}]" in asked or {*lines, "rehydrate-hosts"} == set(asked)


def test_a_module_of_another_distribution_names_the_extra_that_brings_it():
    for module, extra in HOMES.items():
        with pytest.raises(MissingPackageError) as caught:
            MissingFinder.find_spec(module)
        assert caught.value.name == f"rehydrate[{extra}]"
    assert MissingFinder.find_spec("rehydrate.nothing") is None
    assert MissingFinder.find_spec("batch") is None


WITHOUT = f"""
import sys
from importlib.machinery import PathFinder
HOMES = {set(HOMES)}

class Hides(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name in HOMES else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Hides
import rehydrate
"""
"""A Python that has the core alone."""


def without_others(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT + script],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["eval", "x.jsonl", "--json"], "lab"),
        (["batch", "--help"], "lab"),
        (["lint", "x.jsonl"], "lab"),
        (["claude", "install"], "hosts"),
        (["rpc"], "hosts"),
        (["compact", str(ROOT / "examples/session.jsonl"), "--html", "x.html"], "lab"),
    ],
)
def test_a_command_that_is_not_installed_ends_with_2_and_the_extra(arguments, extra):
    done = without_others(f"from rehydrate import cli; sys.exit(cli.main({arguments!r}))")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"rehydrate: rehydrate[{extra}] is not installed")
    assert f"pip install 'rehydrate[{extra}]'" in done.stderr


def test_the_core_alone_helps_diagnoses_and_imports_nothing_of_the_others():
    done = without_others(
        "from rehydrate import cli; code = cli.main(['doctor'])\n"
        "assert not HOMES & set(sys.modules), HOMES & set(sys.modules)\n"
        "sys.exit(code)"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "without rehydrate[hosts]" in done.stdout
    helped = without_others("from rehydrate import cli; cli.main(['--help'])")
    assert helped.stdout.count("not installed: pip install") == 9


def test_a_front_of_the_core_alone_lists_what_is_here_and_says_what_brings_the_rest():
    done = without_others(
        "from rehydrate import *; import rehydrate.agent as agent\n"
        "gone = {'lint', 'simulate', 'Telemetry', 'AnthropicModel', 'mcp_tools'}\n"
        "assert gone.isdisjoint([*rehydrate.__all__, *agent.__all__, *rehydrate.cost.__all__])\n"
        "made = lambda: agent.model_of('openai:x')\n"
        "for use in (lambda: rehydrate.lint, lambda: agent.Telemetry, made):\n"
        "    try: use()\n"
        "    except rehydrate.errors.MissingPackageError as missing: print(missing.name)"
    )
    assert done.stdout.split() == ["rehydrate[lab]", "rehydrate[telemetry]", "rehydrate[openai]"], (
        done.stderr
    )


def test_every_module_has_a_home_and_every_command_is_a_module():
    home = homes()
    assert {f"rehydrate.cli.{name}" for name in cli.MODULES} <= home.keys()
    assert set(home.values()) == set(ALL)
