"""Runs the benches; each leaves its figures in a file, so that a report can be written again."""

from __future__ import annotations

import json
import os
import subprocess
import sys

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
)
"""Modules of `benches/python` that print a `Part` as JSON: a section each, in this order."""

RSS = KEPT / "rss.json"
"""An hour's loop (`benches.python.memory_loop`), which is run by hand, and reported if it was."""

CORE = "cargo bench -p rehydrate-core --bench '*'"
PYTHON = "python -m benches.report"


def run_python_benches(data: str | None, build_wheel: bool) -> None:
    """Everything but Criterion's part; the results go to `KEPT`."""
    KEPT.mkdir(parents=True, exist_ok=True)
    load_before = os.getloadavg()[0]
    for stale in KEPT.glob("*.json"):
        if stale != RSS:
            stale.unlink()
    names = ("-o", "python_files=bench_*.py", "-o", "python_functions=bench_*")
    kept = ("--benchmark-columns=median,iqr,rounds", f"--benchmark-json={KEPT / 'speed.json'}")
    plain = ("-q", "-W", "default", "-p", "no:cacheprovider")
    _python("-m", "pytest", "benches/python", *names, *plain, *kept)
    built = ["--build-wheel"] if build_wheel else []
    _python("-m", "benches.python.footprint", *built, into="footprint", must_succeed=False)
    _python("-m", "benches.python.threads", into="threads", must_succeed=False)
    if data is not None:
        _python("-m", "benches.python.retention", data, into="retention", must_succeed=False)
        os.environ["REHYDRATE_DATA"] = data
    for name in PARTS:
        _python("-m", f"benches.python.{name}", into=part_file(name).stem, must_succeed=False)
    load = {"before": load_before, "after": os.getloadavg()[0]}
    (KEPT / "load.json").write_text(json.dumps(load), encoding="utf-8")


def _python(*arguments: str, into: str | None = None, must_succeed: bool = True) -> None:
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    }
    print("+ python", *arguments, file=sys.stderr, flush=True)
    command = [sys.executable, *arguments]
    if into is None:
        subprocess.run(command, cwd=ROOT, env=environment, check=True)
        return
    with (KEPT / f"{into}.json").open("w", encoding="utf-8") as out:
        subprocess.run(command, cwd=ROOT, env=environment, check=must_succeed, stdout=out)
