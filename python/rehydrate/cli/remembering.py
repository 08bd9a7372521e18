"""--memory and what goes with it: the memory that a command compacts with, opened and closed."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rehydrate.cli.failure import Failure

if TYPE_CHECKING:
    from rehydrate.memory.memory import Memory


def add_memory_options(parser: Any) -> None:
    """Declare --memory and --namespace."""
    parser.add_argument(
        "--memory", metavar="FILE", help="a memory's file: what it holds already may go first"
    )
    parser.add_argument("--namespace", metavar="NAME", help="whose memories are meant")


def add_writing_options(parser: Any) -> None:
    """Declare what is to be written to the memory."""
    parser.add_argument(
        "--distill", action="store_true",
        help="remember what is dropped and not in memory yet, the beginning of each",
    )  # fmt: skip
    parser.add_argument(
        "--keep-dropped", action="store_true",
        help="keep all that is dropped in the memory, under handles",
    )  # fmt: skip
    parser.add_argument(
        "--record-episode", action="store_true", help="remember the compaction in one line"
    )


@contextmanager
def opened_memory(options: argparse.Namespace) -> Iterator[Memory | None]:
    """The memory that the options name, if they name one."""
    if options.memory is None:
        for name in ("namespace", "distill", "keep_dropped", "record_episode"):
            if getattr(options, name, None):
                flag = f"--{name.replace('_', '-')}"
                raise Failure(f"{flag} needs a memory; add --memory FILE, which is made if missing")
        yield None
        return
    if not options.namespace:
        raise Failure("--memory needs --namespace NAME: whose memories are meant")
    from rehydrate.memory.memory import Memory

    with Memory.open(options.memory, namespace=options.namespace) as memory:
        yield memory
