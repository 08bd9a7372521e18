"""Runs the benches; each leaves its figures in a file, so that a report can be written again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from benches.report import load, machine
from benches.report.figures import CRITERION, KEPT, ROOT
from benches.report.size import SIZE, Size

PARTS: tuple[str, ...] = (
    "bench_onnx",
    "baseline",
    "growth",
    "novelty",
    "memory_quality",
    "memory_speed",
    "vector_indexes",
    "hydrate",
    "jit",
    "needles",
    "caps_retention",
    "cache_replay",
    "swap_costs",
    "recommendations",
    "outlines",
    "context_stores",
    "endless",
    "hosts",
    "proxy",
    "claude_hooks",
    "agent_stores",
    "postgres",
    "batch",
    "retention_peers",
)
"""Modules of `benches/python` that print a `Part` as JSON: a section each, in this order."""

CORE = "cargo bench -p rehydrate-core --bench '*'"
PYTHON = "python -m benches.report"

LOOP_CACHE_MIB = 32
"""Of the loop: a full cache drops half of itself, and a line through that needs hours at 256."""

_PYTEST = (
    *("-m", "pytest", "-q", "-W", "default", "-p", "no:cacheprovider"),
    *("-o", "python_files=bench_*.py", "-o", "python_functions=bench_*"),
    "--benchmark-columns=median,iqr,rounds",
)


@dataclass(frozen=True, slots=True)
class Step:
    """A command that leaves figures in `KEPT`, or in Criterion's folder."""

    name: str
    command: Sequence[str]
    prints: bool = True
    """Whether the figures are what it prints; else it writes them itself."""
    processors: int | None = None
    """How many it may use; all by default."""


@dataclass(slots=True)
class Ran:
    """The seconds and the failures of steps, by their names."""

    seconds: dict[str, float] = field(default_factory=dict)
    others: dict[str, float] = field(default_factory=dict)
    """The share of all processors that others took meanwhile."""
    failed: dict[str, str] = field(default_factory=dict)


def steps(data: Path | None, size: Size) -> list[Step]:
    """Return all steps of a run of this size, in order; without `data` those that need none."""
    quickly = ("-q", "--", "--warm-up-time", "1", "--measurement-time", "2")
    core = ("cargo", "bench", "-p", "rehydrate-core", "--locked", "--bench", "*", *quickly)
    # Of one processor its own time, so that the turns of other programs on it do not count.
    own_time = "--benchmark-timer=time.process_time"
    of_one = (*_PYTEST, own_time, "benches/python", f"--benchmark-json={KEPT / 'speed.json'}")
    # The engine reads texts on a second thread where there is a second processor.
    two_file = f"--benchmark-json={KEPT / 'speed_two.json'}"
    of_two = (*_PYTEST, "benches/python/bench_compact.py", "-k", "bench_cold and balanced")
    found = [
        Step("core", core, prints=False),
        _python("speed", *of_one, prints=False, processors=1),
        _python("speed_two", *of_two, two_file, prints=False, processors=2),
        _module("footprint", *size.footprint),
        _module("threads"),
        _module("shapes", "--json"),
    ]
    if data is not None:
        found.append(_module("retention", str(data), "--json", *size.retention))
        found.append(_module("laws", str(data)))
    found += map(_module, PARTS)
    length = ("--seconds", str(size.loop_seconds), "--cache-mib", str(LOOP_CACHE_MIB))
    found.append(_module("memory_loop", *length))
    return [step for step in found if step.name not in size.left_out]


def run(data: Path | None, size: Size = SIZE) -> bool:
    """Run every step; results go to `KEPT`. Return whether all succeeded."""
    KEPT.mkdir(parents=True, exist_ok=True)
    for stale in KEPT.glob("*.json"):
        stale.unlink()
    about, began = machine.about(), time.time()
    ran = _run(steps(data, size), data, size)
    commit = machine.about()["commit"]
    if commit != about["commit"]:
        about["commit"] += f" at its beginning, {commit} at its end"
    _keep({"about": about, "began": began}, ran)
    return not ran.failed


def again(names: Sequence[str], data: Path | None, size: Size = SIZE) -> bool:
    """Run some steps; the figures of the others stay. Return whether all succeeded."""
    found = {step.name: step for step in steps(data, size)}
    if unknown := [name for name in names if name not in found]:
        raise SystemExit(f"report: no step {unknown[0]!r}; choose from {', '.join(found)}")
    before = json.loads((KEPT / "run.json").read_text(encoding="utf-8"))
    commit = machine.about()["commit"]
    for name in names:  # one by one: what was measured is kept where a later one is broken off
        ran = _run([found[name]], data, size)
        before["again"] = {**before.get("again", {}), name: commit}
        before["failed"].pop(name, None)
        ran.seconds = {**before["seconds"], **ran.seconds}
        ran.others = {**before["others"], **ran.others}
        ran.failed = {**before["failed"], **ran.failed}
        before = _keep(before, ran)
    return not before["failed"]


def _run(chosen: Sequence[Step], data: Path | None, size: Size) -> Ran:
    if any(step.name == "core" for step in chosen):
        shutil.rmtree(CRITERION, ignore_errors=True)  # benches of other names stay there forever
    if data is not None:
        os.environ["REHYDRATE_DATA"] = str(data)
    load.adopt()
    ran, patience = Ran(), float(size.patience_seconds)
    for step in chosen:
        patience -= load.wait_until_quiet(patience)
        before = load.now()
        print(f"+ {step.name}: {' '.join(step.command)}", file=sys.stderr, flush=True)
        why = measure(step)
        after = load.now()
        ran.seconds[step.name] = after.clock - before.clock
        ran.others[step.name] = load.others(before, after)
        reported = f"{ran.seconds[step.name]:.0f} s, others took {ran.others[step.name]:.0%}"
        if why:
            ran.failed[step.name] = why
            reported += f"; it failed: {why}"
        print(f"  {reported}", file=sys.stderr, flush=True)
    return ran


def measure(step: Step) -> str:
    """Run one step; return why it failed, or ""."""
    out, errors = KEPT / f"{step.name}.json", KEPT / f"{step.name}.err"
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    }
    out = out if step.prints else out.with_suffix(".txt")
    with out.open("w", encoding="utf-8") as stdout, errors.open("w", encoding="utf-8") as stderr:
        ended = subprocess.run(
            step.command,
            cwd=ROOT,
            env=environment,
            check=False,
            stdout=stdout,
            stderr=stderr,
            preexec_fn=partial(load.pin, step.processors) if step.processors else None,
        )
    if not ended.returncode:
        return ""
    reported = errors.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return f"exit {ended.returncode}, {reported[-1] if reported else 'and said nothing'}"


def _python(name: str, *arguments: str, **more: Any) -> Step:
    return Step(name, (sys.executable, *arguments), **more)


def _module(module: str, *arguments: str) -> Step:
    return _python(module, "-m", f"benches.python.{module}", *arguments)


def _keep(run_: Mapping[str, Any], ran: Ran) -> dict[str, Any]:
    kept = {**run_, "seconds": ran.seconds, "others": ran.others, "failed": ran.failed}
    (KEPT / "run.json").write_text(json.dumps(kept, indent=1), encoding="utf-8")
    return kept
