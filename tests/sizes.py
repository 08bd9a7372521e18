"""How much a test does: little in a plain run, all of it with HYPOTHESIS_PROFILE=deep (CI); how
long it waits.

For tests that have rounds, seeds or texts of their own. Hypothesis draws by the same profile, which
`tests/conftest.py` defines.
"""

from __future__ import annotations

import os
from typing import TypeVar

PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "default")
IS_DEEP = PROFILE == "deep"
PATIENCE_SECONDS = 600
"""It distinguishes what hangs from a busy machine."""

T = TypeVar("T")


def sized(usual: T, deep: T) -> T:
    """Return the size of a plain run, or of a deep one."""
    return deep if IS_DEEP else usual


def seed_arguments(seed: int) -> list[str]:
    """Return the seed as arguments of a stress test; with the profile "random" it has none."""
    return [] if PROFILE == "random" else ["--seed", str(seed)]
