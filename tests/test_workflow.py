"""The workflow that builds the wheels: its platforms and pins, and that it holds no secret."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.check_wheel.names import ABIS, platforms_of

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
    built = [(python, platform) for python in matrix["python"] for platform in matrix["platform"]]
    built += [(row["python"], row["platform"]) for row in matrix["include"]]
    told = {(python, platform["name"]) for python, platform in built}
    assert len(told) == len(built)
    pythons = {"stable": "3.11", "free-threaded": "3.14t"}
    assert told == {
        (pythons[abi], platform.lower().replace(" ", "-"))
        for abi in ABIS
        for platform in platforms_of(abi)
    }


def test_the_oldest_interpreter_is_the_oldest_that_the_package_takes():
    assert f'requires-python = ">={JOBS["wheel"]["strategy"]["matrix"]["python"][0]}"' in PROJECT


def test_what_is_installed_for_the_tests_is_what_the_project_pins():
    for package in WORKFLOW["env"]["TEST_PACKAGES"].split():
        assert f'"{package}"' in PROJECT
    assert f'"maturin=={WORKFLOW["env"]["MATURIN"]}"' in PROJECT
    assert f'"hatchling=={WORKFLOW["env"]["HATCHLING"]}"' in PROJECT
    for folder in ("hosts", "lab", "postgres"):
        manifest = (ROOT / "python" / folder / "pyproject.toml").read_text(encoding="utf-8")
        assert f'"hatchling=={WORKFLOW["env"]["HATCHLING"]}"' in manifest


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
    assert not [name for name, job in JOBS.items() if name != "publish" and "permissions" in job]
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
