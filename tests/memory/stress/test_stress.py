"""The stress tests with few trials: more with HYPOTHESIS_PROFILE=deep, all of them by the command.

HYPOTHESIS_PROFILE=random draws others each time.
"""

from __future__ import annotations

import os
import sys

import pytest

from tests.stress.programs import run_module

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX")

TRIALS = {
    # name: trials in every run, in CI
    "kill": (6, 50),
    "damage": (25, 250),
    "disk": (1, 5),
    "crowd": (2, 10),
    "tenants": (150, 1_500),
}


@pytest.mark.parametrize("name", TRIALS)
def test_a_memory_stays_sound_under_every_stress_test(name: str):
    usual, deep = TRIALS[name]
    profile = os.environ.get("HYPOTHESIS_PROFILE")
    trials = os.environ.get("STRESS_TRIALS", deep if profile == "deep" else usual)
    seed = [] if profile == "random" else ["--seed", "6"]
    ended = run_module("tests.memory.stress", name, "--trials", str(trials), *seed)
    assert (ended.code, ended.out) == (0, "sound\n"), ended.err
