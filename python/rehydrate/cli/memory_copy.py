"""`rehydrate memory copy`: items from one memory to another, of a file or of a server."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from rehydrate._text import plural
from rehydrate.cli.memory_store import (
    NAMESPACE_VARIABLE,
    add_store_options,
    named_namespace,
    opened,
    place_of,
    shown_place,
)
from rehydrate.cli.options import add_command
from rehydrate.cli.terminal import Failure, Progress, Terminal, show
from rehydrate.memory.transfer import Imported

_EXAMPLES = """\
Handles, provenance, times, tiers and links are the same afterwards. What is there already stays as
it is, so a copy that was interrupted can be made again. Vectors of a model are made anew.

examples:
  rehydrate memory copy postgresql://app@db/memories               every namespace, to a server
  rehydrate memory copy backup.db --store postgresql://app@db/memories -n ferryman
"""


def add_parser(parts: Any) -> None:
    """Declare the command."""
    parser = add_command(
        parts,
        "copy",
        help="copy to another memory: a file or a server",
        description="Copy a namespace, or all of them, to another memory.",
        epilog=_EXAMPLES,
        run=run_copy,
    )
    parser.add_argument("to", metavar="TO", help="a file, or postgresql://user@host/database")
    add_store_options(parser, namespace=False)
    parser.add_argument(
        "-n", "--namespace", metavar="NAME",
        help=f"only this one; default: ${NAMESPACE_VARIABLE}, else all",
    )  # fmt: skip
    parser.add_argument("--embedder", metavar="MODEL", help="an ONNX model for the copy's vectors")
    parser.add_argument("--json", action="store_true", help="the result as JSON")


def run_copy(options: argparse.Namespace) -> int:
    """Copy, namespace by namespace, and print the counts."""
    if not options.to:
        raise Failure("the memory to copy to is empty; name a file, or a URL")
    wanted = named_namespace(options)
    target = argparse.Namespace(**{**vars(options), "store": options.to})
    total = Imported(0, 0, 0, 0)
    with (
        opened(options, namespace=None) as memory,
        opened(target, namespace=None, to="create") as other,
    ):
        names = list(memory.namespaces()) if wanted is None else [wanted]
        sizes = {name: memory.stats(namespace=name).items for name in names}
        with Progress("copying", "items", sum(sizes.values())) as progress:
            for name in names:
                found = memory.copy_to(other, namespace=name)
                total = Imported(*(sum(pair) for pair in zip(total, found, strict=True)))
                progress.advance(sizes[name])
    if options.json:
        line = json.dumps({"namespaces": len(names), **total._asdict()})
    else:
        line = (
            f"{plural(total.added, 'item')} of {plural(len(names), 'namespace')} copied to "
            f"{shown_place(place_of(options.to))}; {total.unchanged:,} there already"
        )
    show([line], Terminal.of(sys.stdout))
    return 0
