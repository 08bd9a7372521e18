"""The files and lines of each distribution, against the budget: `python -m tools.budget`.

Exit code 1 if there is more than tools/budget.toml allows.
"""

from __future__ import annotations

import sys
import tomllib

from tools.distributions import ROOT, files


def main() -> int:
    """Print a row a distribution; return 1 if one has more than its budget."""
    budget = tomllib.loads((ROOT / "tools" / "budget.toml").read_text(encoding="utf-8"))
    over = []
    for name, held in files().items():
        python = [ROOT / "python" / file for file in held if file.endswith(".py")]
        used = {
            "files": len(python),
            "lines": sum(file.read_bytes().count(b"\n") for file in python),
        }
        row = [f"{used[unit]:6,} of {budget[name][unit]:6,} {unit}" for unit in used]
        print(f"{name:<19}", *row)
        over += [f"{name}: {unit}" for unit in used if used[unit] > budget[name][unit]]
    for one in over:
        print(
            f"{one} over the budget: write less, or change tools/budget.toml in this commit and "
            "say why",
            file=sys.stderr,
        )
    return bool(over)


if __name__ == "__main__":
    sys.exit(main())
