"""Hypothesis profiles: "default" for every run, "deep" for CI (HYPOTHESIS_PROFILE=deep)."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# No deadline and no "too slow": a busy machine is not a bug.
_PATIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow], "print_blob": True}

settings.register_profile("default", max_examples=40, **_PATIENT)
settings.register_profile("deep", max_examples=500, **_PATIENT)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
