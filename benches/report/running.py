"""Runs the benches; each leaves its figures in a file, so that a report can be written again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import nullcontext

from benches.report import machine
from benches.report.figures import KEPT, ROOT, part_file

PARTS: tuple[str, ...] = (
    "bench_onnx",
    "baseline",
    "growth",
    "novelty",
    "memory_quality",
    "memory_speed",
    "hydrate",
    "jit",
    "needles",
    "caps_retention",
    "cache_replay",
    "recommendations",
    "outlines",
    "retention_peers",
)
"""Modules of `benches/python` that print a `Part` as JSON: a section each, in this order."""

RSS = KEPT / "rss.json"
"""An hour's loop (`benches.python.memory_loop`), which is run by hand, and reported if it was."""

CORE = "cargo bench -p rehydrate-core --bench '*'"
PYTHON = "python -m benches.report"


def run_python_benches(data: str | None, build_wheel: bool) -> bool:
    """Run all but Criterion's part; results go to `KEPT`. Return whether all succeeded."""
    KEPT.mkdir(parents=True, exist_ok=True)
    about, load_before = machine.about(), os.getloadavg()[0]
    for stale in KEPT.glob("*.json"):
        if stale != RSS:
            stale.unlink()
    names = ("-o", "python_files=bench_*.py", "-o", "python_functions=bench_*")
    kept = ("--benchmark-columns=median,iqr,rounds", f"--benchmark-json={KEPT / 'speed.json'}")
    plain = ("-q", "-W", "default", "-p", "no:cacheprovider")
    failed: dict[str, str] = {}

    def measure(*arguments: str, into: str | None = None) -> None:
        why = _python(*arguments, into=into)
        if why:
            failed[into or "speed"] = why
            print(f"report: {arguments[1]} failed: {why}", file=sys.stderr, flush=True)

    measure("-m", "pytest", "benches/python", *names, *plain, *kept)
    built = ["--build-wheel"] if build_wheel else []
    measure("-m", "benches.python.footprint", *built, into="footprint")
    measure("-m", "benches.python.threads", into="threads")
    measure("-m", "benches.python.shapes", "--json", into="shapes")
    if data is not None:
        measure("-m", "benches.python.retention", data, into="retention")
        os.environ["REHYDRATE_DATA"] = data
    for name in PARTS:
        measure("-m", f"benches.python.{name}", into=part_file(name).stem)
    commit = machine.about()["commit"]
    if commit != about["commit"]:
        about["commit"] += f" at its beginning, {commit} at its end"
    load = {"before": load_before, "after": os.getloadavg()[0]}
    run = {"about": about, "load": load, "failed": failed}
    (KEPT / "run.json").write_text(json.dumps(run), encoding="utf-8")
    return not failed


def _python(*arguments: str, into: str | None) -> str:
    """Run a command; return why it failed, or ""."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    }
    print("+ python", *arguments, file=sys.stderr, flush=True)
    command = [sys.executable, *arguments]
    errors = KEPT / f"{into or 'speed'}.err"
    out = (KEPT / f"{into}.json").open("w", encoding="utf-8") if into else nullcontext(None)
    with out as stdout, errors.open("w", encoding="utf-8") as stderr:
        ended = subprocess.run(
            command, cwd=ROOT, env=environment, check=False, stdout=stdout, stderr=stderr
        )
    if not ended.returncode:
        return ""
    told = errors.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return f"exit {ended.returncode}, {told[-1] if told else 'and said nothing'}"
