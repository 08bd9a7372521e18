"""The stress tests with few trials; all of them by the command.

HYPOTHESIS_PROFILE=random draws others each time.
"""

from __future__ import annotations

import os
import sys

import pytest

from tests.sizes import seed_arguments, sized
from tests.stress.programs import run_module

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX")

TRIALS = {
    "kill": 5,  # the fifth counts the index files too
    "damage": sized(15, 25),
    "disk": 1,
    "crowd": 1,
    "tenants": sized(50, 100),
}
# The disks of seed 2 have little room, so they are full soon.
SEEDS = {"disk": 2}


@pytest.mark.parametrize("name", TRIALS)
def test_a_memory_stays_sound_under_every_stress_test(name: str):
    trials = os.environ.get("STRESS_TRIALS", TRIALS[name])
    seed = seed_arguments(SEEDS.get(name, 6))
    ended = run_module("tests.memory.stress", name, "--trials", str(trials), *seed)
    assert (ended.code, ended.out) == (0, "sound\n"), ended.err
