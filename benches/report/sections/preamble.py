"""The machine of the figures, how long they took, and how far to trust them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from benches.report import load, machine
from benches.report.figures import Figures, moment


def preamble(of: Figures) -> Iterable[str]:
    """The machine of the figures, how long they took, and how far to trust them."""
    yield "# Results"
    yield ""
    yield f"Written by `make bench` on {datetime.now().astimezone():%Y-%m-%d %H:%M %Z}."
    yield "Medians. Times depend on the machine and its load; ratios are from one run."
    yield ""
    yield from environment(of)
    if of.criterion_from:
        first, last = of.criterion_from
        yield f"- Criterion's figures: from {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M}"
        if first < machine.newest_source():
            yield "- **Stale: some of Criterion's figures are older than the newest source.**"
    else:
        yield "- **Criterion's figures are missing: run `make bench`.**"
    yield ""


def environment(of: Figures) -> Iterable[str]:
    """Yield a line for each fact about the machine and the run."""
    about = of.run.get("about") or machine.about()
    yield from (f"- {name}: {value}" for name, value in about.items())
    steps_of: dict[str, list[str]] = {}
    for step, commit in of.run.get("again", {}).items():
        steps_of.setdefault(commit, []).append(step)
    yield from (f"- again at {commit}: {', '.join(steps)}" for commit, steps in steps_of.items())
    seconds, others = of.run.get("seconds", {}), of.run.get("others", {})
    if not seconds:
        return
    whole = sum(seconds.values())
    longest = sorted(seconds, key=seconds.__getitem__, reverse=True)
    said = ", ".join(f"{step} {seconds[step] / 60:.1f}" for step in longest)
    yield f"- begun {moment(of.run['began']):%Y-%m-%d %H:%M}, minutes: {whole / 60:.0f} ({said})"
    mean = sum(others[step] * seconds[step] for step in seconds) / whole
    yield f"- other programs and the host took {mean:.1%} of the processors meanwhile"
    noisy = [step for step in seconds if others[step] > load.QUIET]
    if noisy:
        shares = ", ".join(f"{step} {others[step]:.0%}" for step in noisy)
        yield (
            "- **Noisy: others took more than "
            f"{load.QUIET:.0%} while these ran, so their times are too long: {shares}.**"
        )
