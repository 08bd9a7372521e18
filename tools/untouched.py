"""Which tests `make test` leaves out: those of a distribution that no change touches.

    python -m tools.untouched

prints pytest's --ignore options, and on standard error what is left out. A change is what differs
from the branch that this one follows (`@{upstream}`), with what is not committed. Without git
nothing is left out. CI does not ask: it runs all.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from tools.distributions import ROOT, manifest, rooms

ENGINES = ("tests/integrations/test_ray_data.py", "tests/integrations/test_spark.py")
"""They start clusters: CI's, or run by name."""
TESTS = {
    "rehydrate_hosts": (
        "tests/integrations",
        "tests/rpc",
        "tests/cli/test_mcp.py",
        "tests/cli/test_rpc.py",
        "tests/agent/models",
        "tests/agent/stress",
        "tests/agent/test_mcp.py",
        "tests/agent/test_telemetry.py",
        "tests/agent/test_traced_memory.py",
        "tests/agent/test_traced_turns.py",
    ),
    "rehydrate_lab": (
        "tests/batch",
        "tests/linting",
        "tests/page",
        "tests/retention",
        "tests/cli/test_batch.py",
        "tests/cli/test_eval.py",
        "tests/cli/test_inspect.py",
        "tests/cli/test_lint.py",
        "tests/cli/test_model.py",
        "tests/cost/test_replay.py",
        "tests/cost/test_simulate.py",
        "tests/test_retention.py",
    ),
    "rehydrate_postgres": ("tests/memory/postgres",),
}
"""The tests of a distribution, which its wheel is tested with."""


def changed() -> list[str] | None:
    """Return the paths that differ from the upstream branch; None where git does not say."""
    try:
        base = _git("merge-base", "HEAD", "@{upstream}") or ["HEAD"]
        return _git("diff", "--name-only", base[0]) + _git(
            "ls-files", "--others", "--exclude-standard"
        )
    except (OSError, subprocess.CalledProcessError):
        return None


def left_out(paths: list[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each distribution that none of the paths is of, and its tests."""
    for name, tests in TESTS.items():
        folder = str(manifest(name)["project"]["name"]).removeprefix("rehydrate-")
        own = (*(f"python/{room}" for room in rooms(name)), f"python/{folder}", *tests)
        if not any(path == one or path.startswith(f"{one}/") for path in paths for one in own):
            yield name, tests


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(
        ["git", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=arguments[0] != "merge-base",
    )
    return done.stdout.splitlines()


def main() -> int:
    """Print the options."""
    paths = changed()
    options = [*ENGINES]
    for name, tests in left_out(paths) if paths is not None else ():
        options += tests
        print(
            f"{name} is not touched: without {', '.join(tests)} (CI=true runs all)", file=sys.stderr
        )
    print(" ".join(f"--ignore={each}" for each in options))
    return 0


if __name__ == "__main__":
    sys.exit(main())
