"""The script of the shipped session: four tasks for one user, from report to commits."""

from __future__ import annotations

from record_example.script import (
    embedded_bytes,
    packing_bound,
    support_page,
    tallied_errors,
    wrap_up,
)
from record_example.steps import Step

SCRIPT: list[Step] = [
    *embedded_bytes.STEPS,
    *packing_bound.STEPS,
    *support_page.STEPS,
    *tallied_errors.STEPS,
    *wrap_up.STEPS,
]
