"""The machine behind the figures, and how far to trust them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import datetime

from benches.report import machine
from benches.report.figures import Figures


def preamble(of: Figures) -> Iterable[str]:
    """The machine behind the figures, and how far to trust them."""
    yield "# Results"
    yield ""
    yield f"Written by `make bench` on {datetime.now().astimezone():%Y-%m-%d %H:%M %Z}."
    yield "Medians. Times depend on the machine and its load; ratios are from one run."
    yield ""
    about, load = of.run.get("about") or machine.about(), of.run.get("load", {})
    before, after = load.get("before", 0.0), load.get("after", 0.0)
    yield from (f"- {name}: {value}" for name, value in about.items())
    yield f"- load average: {before:.1f} before the Python part, {after:.1f} after"
    if of.criterion_from:
        first, last = of.criterion_from
        yield f"- Criterion's figures: from {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M}"
        if first < machine.newest_source():
            yield "- **Stale: some of Criterion's figures are older than the newest source.**"
    else:
        yield "- **Criterion's figures are missing: run `make bench`.**"
    if before > 0.75 * (os.cpu_count() or 1):
        yield "- **Noisy: the machine was busy; absolute times are too long by an unknown factor.**"
    yield ""
