"""The knocks, small: larger with HYPOTHESIS_PROFILE=deep, in full by the command.

HYPOTHESIS_PROFILE=random draws others each time.
"""

from __future__ import annotations

import os
import sys

import pytest

from tests.stress.programs import run_module

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX")

TRIALS = {
    # knock: in every run, in CI
    "kill": (6, 50),
    "damage": (25, 250),
    "disk": (1, 5),
    "crowd": (2, 10),
    "tenants": (150, 1_500),
}


@pytest.mark.parametrize("knock", TRIALS)
def test_a_memory_stays_sound_under_every_knock(knock: str):
    usual, deep = TRIALS[knock]
    profile = os.environ.get("HYPOTHESIS_PROFILE")
    trials = os.environ.get("KNOCK_TRIALS", deep if profile == "deep" else usual)
    seed = [] if profile == "random" else ["--seed", "6"]
    ended = run_module("tests.memory.stress", knock, "--trials", str(trials), *seed)
    assert (ended.code, ended.out) == (0, "sound\n"), ended.err
