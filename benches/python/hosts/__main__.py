"""What keeping other agents short costs: `python -m benches.python.hosts --table [HOST ...]`.

Each host's own agent loop runs the same 200 turns: a call of a tool and an answer in each. Beside
it the same without anything, and with the host's own compaction. The cost is in input-token units,
as Anthropic bills them: 1.25 a token that is written to the cache, 0.1 one that is read from it.
``added`` is the time of the adapter in a call, p50 and p99. A code is planted in each tool's
result: ``shown`` is the share that the last prompt shows, ``found`` the share of twenty others that
one call of `request_context` brings back.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from benches.python.hosts.table import HEAD, Figures, figures_of
from benches.report.rows import Part, Row

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # no look-up in the network
_NO_HOSTS = ("__init__", "__main__", "script", "table")
HOSTS = sorted(
    file.stem for file in Path(__file__).parent.glob("*.py") if file.stem not in _NO_HOSTS
)


ABOUT = (
    "Each host's own agent loop, 200 turns with a tool call and an answer in each, 190,000 tokens "
    "in all; Rehydrate keeps 20,000. A token written to the cache costs 1.25 units, one read 0.1."
)
NOTES = (
    "Breaks: prompts that do not begin with the one before. Shown: of 200 codes planted in tool "
    "results, those in the last prompt. Found: of 20 others, those that one `request_context` "
    "brings back. Added: the adapter's time in a call. Background: with `BackgroundCompaction()`, "
    "which asks no model; its store names all codes here, where nothing else is special."
)


def rows(host: str) -> list[Figures]:
    """Run a host each way: without anything, with what it has itself, with Rehydrate."""
    module = import_module(f"benches.python.hosts.{host}")
    return [figures_of(row) for row in asyncio.run(module.rows())]


def part(hosts: Sequence[str]) -> Part:
    """Return the section of the report."""
    reported, lines = [], [HEAD]
    for host in hosts:
        nothing, *others, ours, stored = rows(host)
        lines += [each.line() for each in (nothing, *others, ours, stored)]
        beside = (*others, stored)
        ratios = [f"{each.name} {each.units / nothing.units:.2f}" for each in beside]
        reported.append(
            Row(
                f"{ours.name}: cost, by that of the whole conversation",
                ours.units / nothing.units,
                "",
                1.0,
                beside="; ".join(ratios),
                limit="Each call reads what is kept; each compaction writes it anew",
            )
        )
    return Part("Inside other agents", ABOUT, reported, "\n".join([*lines, "", NOTES]))


def main() -> None:
    """Print the part as JSON, or the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benches.python.hosts", description=__doc__.splitlines()[0]
    )
    parser.add_argument("hosts", nargs="*", metavar="HOST", help=", ".join(HOSTS))
    parser.add_argument("--table", action="store_true", help="the table alone")
    options = parser.parse_args()
    asked = options.hosts or HOSTS
    if unknown := set(asked) - set(HOSTS):
        parser.error(f"no such host: {', '.join(sorted(unknown))}")
    if not options.table:
        print(part(asked).to_json())
        return
    print(HEAD)
    for host in asked:
        for figures in rows(host):
            print(figures.line(), flush=True)


if __name__ == "__main__":
    main()
