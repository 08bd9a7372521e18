"""The stress tests as a command: `python -m tests.memory.stress kill --trials 500`."""

from __future__ import annotations

import argparse
import importlib
import random
import sys
import tempfile
import time
from pathlib import Path

TESTS = ("kill", "damage", "disk", "crowd", "tenants", "postgres")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.memory.stress", description=__doc__)
    parser.add_argument("test", choices=TESTS)
    parser.add_argument("--trials", type=int, default=500, help="of a crowd: its seconds")
    parser.add_argument("--seed", type=int, default=None)
    asked = parser.parse_args()
    seed = random.randrange(1 << 30) if asked.seed is None else asked.seed
    run_trials = importlib.import_module(f"tests.memory.stress.{asked.test}").run_trials
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="stress-") as folder:
        Path(folder).chmod(0o755)  # an unprivileged user runs some of the tests
        reported = run_trials(
            Path(folder), asked.trials, seed, lambda line: print(line, file=sys.stderr, flush=True)
        )
    print(f"{reported} (seed {seed}, {time.monotonic() - start:.0f} s)", file=sys.stderr)
    print("sound")


if __name__ == "__main__":
    main()
