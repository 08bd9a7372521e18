"""`rehydrate memory forget`: remove items, or all of a source, a session, a namespace."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from rehydrate.cli.failure import Failure
from rehydrate.cli.memory_filters import counted
from rehydrate.cli.memory_store import (
    add_store_options,
    checked_text,
    namespace_of,
    opened,
    read_text,
)
from rehydrate.cli.output import say, show
from rehydrate.cli.terminal import Terminal

if TYPE_CHECKING:
    from rehydrate.memory.memory import Memory

_EXAMPLES = """\
What is forgotten is gone from the disk too. Of --source, --session and --all it is said how much
goes, and asked first; --yes says yes. Exit code 1 if a handle was not there.

examples:
  rehydrate memory forget mem_... mem_...
  rehydrate memory forget --source notes/daily/2026-02-17.md
  rehydrate memory forget --all --namespace trial --yes
  rehydrate memory list --before 52w --limit 1000 --json | jq -r '.items[].handle' |
    rehydrate memory forget -
"""


def add_parser(parts: Any) -> None:
    """Declare the command and its options."""
    parser = parts.add_parser(
        "forget",
        help="remove items, from the disk too",
        description="Remove items by their handles, or all of something.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "handles", metavar="HANDLE", nargs="*", help="as list prints them; - reads standard input"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--source", help="everything from this source")
    what.add_argument("--session", help="everything of this session")
    what.add_argument("--all", action="store_true", help="everything in the namespace")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    add_store_options(parser)
    parser.add_argument("--json", action="store_true", help="the result as JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Remove what is named, after asking where it is much."""
    namespace = namespace_of(options)
    wide = options.source is not None or options.session is not None or options.all
    if wide == bool(options.handles):
        raise Failure("name what to forget: handles, or one of --source, --session and --all")
    handles = [] if wide else _handles(options)
    with opened(options, namespace=namespace, to="change") as memory:
        forgotten = _purge(memory, options, namespace) if wide else memory.forget(handles)
    if forgotten is None:
        say("nothing was forgotten")
        return 1
    missing = 0 if wide else len({*handles}) - forgotten
    if options.json:
        line = json.dumps({"forgotten": forgotten, "missing": missing})
    else:
        line = f"{forgotten:,} forgotten"
    show([line], Terminal.of(sys.stdout))
    if missing:
        say(
            f"rehydrate: {counted(missing, 'handle')} not there: forgotten before, or of another "
            "namespace"
        )
    return int(missing > 0)


def _purge(memory: Memory, options: argparse.Namespace, namespace: str) -> int | None:
    """Remove all of it, unless the answer is no."""
    where = f"namespace {namespace!r}"
    if options.all:
        count = memory.stats().items
        what = f"all of {where}"
        chosen: dict[str, Any] = {"everything": True}
    else:
        name = "source" if options.source is not None else "session"
        value = checked_text(f"--{name}", getattr(options, name))
        chosen = {name: value}
        items = memory.list(
            limit=None,
            sources=[value] if name == "source" else None,
            sessions=[value] if name == "session" else None,
        )
        count = len(items)
        what = f"{name} {value!r} in {where}"
    if count and not options.yes and not _agreed(f"forget {counted(count, 'item')}, {what}?"):
        return None
    if not count and not options.all:
        say(f"there is nothing of {what}")
    return memory.purge(**chosen)


def _agreed(question: str) -> bool:
    if sys.stdin is None or not sys.stdin.isatty():
        raise Failure(f"{question} Nobody can be asked here; say yes with --yes")
    print(f"{Terminal.of(sys.stderr).safe(question)} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _handles(options: argparse.Namespace) -> list[str]:
    handles: list[str] = []
    for handle in options.handles:
        handles += read_text().split() if handle == "-" else [checked_text("a handle", handle)]
    return handles
