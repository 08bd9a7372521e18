"""`rehydrate memory verify`, `rebuild`, `export`, `forget` and `copy`: maintenance of a memory."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rehydrate._text import plural
from rehydrate.cli.memory_store import (
    NAMESPACE_VARIABLE,
    add_store_options,
    checked_text,
    named_namespace,
    namespace_of,
    opened,
    place_of,
    read_text,
    shown_place,
    store_path,
)
from rehydrate.cli.options import add_command, add_output_options
from rehydrate.cli.terminal import Failure, Progress, Terminal, confirmed, say, show, write
from rehydrate.errors import StoreCorruptError
from rehydrate.memory.items import VerifyReport
from rehydrate.memory.transfer import Imported

if TYPE_CHECKING:
    from rehydrate.memory.memory import Memory


_VERIFY_EXAMPLES = """\
Checks every item of every namespace, and the index. A damaged index is thrown away and made again:
that is no error. Exit code 1 if the file itself is damaged.

examples:
  rehydrate memory verify
  rehydrate memory verify --store backup.db --json
"""
_REBUILD_EXAMPLES = """\
The index is made from the file, so nothing can be lost. It is needed seldom: an index that is
missing or damaged is made again by itself.

examples:
  rehydrate memory rebuild                       every namespace
  rehydrate memory rebuild --namespace ferryman
  rehydrate memory rebuild --embedder minilm     gives vectors of a model to what has none yet
  rehydrate memory rebuild --vectors --embedder e5   gives vectors of another model to everything
  rehydrate memory rebuild --vectors             goes back to the built-in model
"""
_EXPORT_EXAMPLES = """\
The file is JSON Lines: a line that says what it is, then an item a line.

examples:
  rehydrate memory export ferryman.jsonl
  rehydrate memory export - | gzip > ferryman.jsonl.gz
"""


def add_parser(parts: Any) -> None:
    """Declare the five commands."""
    verify = add_command(
        parts,
        "verify",
        help="check everything that is stored",
        description="Check everything that is stored, whatever the namespace.",
        epilog=_VERIFY_EXAMPLES,
        run=run_verify,
    )
    add_store_options(verify, namespace=False)
    add_output_options(verify, "the findings as JSON")

    rebuild = add_command(
        parts,
        "rebuild",
        help="make the index anew",
        description="Make the index anew, of one namespace or of all.",
        epilog=_REBUILD_EXAMPLES,
        run=run_rebuild,
    )
    add_store_options(rebuild, namespace=False)
    rebuild.add_argument(
        "-n", "--namespace", metavar="NAME",
        help=f"only this one; default: ${NAMESPACE_VARIABLE}, else all",
    )  # fmt: skip
    rebuild.add_argument("--embedder", metavar="MODEL", help="an ONNX model that gives vectors")
    rebuild.add_argument(
        "--vectors",
        action="store_true",
        help="drop the vectors that are there; those of --embedder, if any, take their place",
    )
    rebuild.add_argument("--json", action="store_true", help="the result as JSON")

    export = add_command(
        parts,
        "export",
        help="write a namespace to a file",
        description="Write all of a namespace to a file; import brings it back exactly.",
        epilog=_EXPORT_EXAMPLES,
        run=run_export,
    )
    export.add_argument("file", metavar="FILE", help="where to; - writes to standard output")
    add_store_options(export)
    export.add_argument("--json", action="store_true", help="the result as JSON, on standard error")
    _add_forget(parts)
    _add_copy(parts)


def run_verify(options: argparse.Namespace) -> int:
    """Check the file; return 1 if it is damaged."""
    path = shown_place(store_path(options))
    try:
        with opened(options, namespace=None) as memory, Progress(f"checking {path}", "items"):
            report = memory.verify()
    except StoreCorruptError as error:  # so damaged that it does not even open
        report = VerifyReport(0, (error.problem,))
    terminal = Terminal.of(sys.stdout, options.color)
    if options.json:
        found = {
            "ok": report.ok,
            "items": report.items,
            "problems": report.problems,
            "damaged_indexes": report.damaged_indexes,
        }
        show([json.dumps(found, indent=2)], terminal)
    else:
        show(_findings(report, path, terminal), terminal)
    return int(not report.ok)


def run_rebuild(options: argparse.Namespace) -> int:
    """Rebuild the index and print how many items it holds."""
    wanted = named_namespace(options)
    with opened(options, namespace=None, to="change") as memory:
        names = list(memory.namespaces()) if wanted is None else [wanted]
        sizes = {name: memory.stats(namespace=name).items for name in names}
        items = 0
        every = sum(sizes.values())
        # A namespace is one step, which cannot be done by halves.
        doing = "rebuilding" if len(names) > 1 else f"rebuilding {plural(every, 'item')}"
        with Progress(doing, "items", every if len(names) > 1 else None) as progress:
            for name in names:
                if options.vectors:
                    memory.drop_vectors(namespace=name)
                items += memory.rebuild(namespace=name)
                progress.advance(sizes[name])
    if options.json:
        line = json.dumps({"items": items, "namespaces": len(names)})
    else:
        what = repr(wanted) if wanted else plural(len(names), "namespace")
        line = f"the index of {what} is new: {plural(items, 'item')}"
    show([line], Terminal.of(sys.stdout))
    return 0


def run_export(options: argparse.Namespace) -> int:
    """Write the namespace; the count goes to the stream without data."""
    namespace = namespace_of(options)
    with opened(options, namespace=namespace) as memory:
        if options.file == "-":
            with tempfile.TemporaryDirectory(prefix="rehydrate-") as folder:
                path = Path(folder) / "export.jsonl"
                count = memory.export_items(path)
                write(path.read_text(encoding="utf-8"))
        else:
            with Progress(f"writing {options.file}", "items"):
                count = memory.export_items(options.file)
    if options.json:
        say(json.dumps({"items": count}))
    elif options.file != "-":
        show([f"{plural(count, 'item')} written to {options.file}"], Terminal.of(sys.stdout))
    if not count:
        say(f"rehydrate: note: namespace {namespace!r} holds nothing")
    return 0


def _findings(report: VerifyReport, path: str, terminal: Terminal) -> Iterator[str]:
    name = terminal.safe(path)
    if report.damaged_indexes:
        parts = plural(report.damaged_indexes, "damaged part")
        yield (
            f"{terminal.paint('note', 'yellow')}  {parts} of the index thrown away; searches are "
            "right all the same, and rehydrate memory rebuild makes the index anew"
        )
    if report.ok:
        yield f"{terminal.paint('ok', 'green', 'bold')}  {plural(report.items, 'item')} in {name}"
        return
    for problem in report.problems:
        yield f"{terminal.paint('damaged', 'red', 'bold')}  {terminal.safe(problem)}"
    yield (
        f"{plural(report.items, 'item')} checked in {name}; restore a backup, or write what can "
        "still be read: rehydrate memory export"
    )


_EXAMPLES = """\
What is forgotten is gone from the disk too. Of --source, --thread and --all it is said how much
goes, and asked first; --yes says yes. Exit code 1 if a handle was not there.

examples:
  rehydrate memory forget mem_... mem_...
  rehydrate memory forget --source notes/daily/2026-02-17.md
  rehydrate memory forget --all --namespace trial --yes
  rehydrate memory list --before 52w --limit 1000 --json | jq -r '.items[].handle' |
    rehydrate memory forget -
"""


def _add_forget(parts: Any) -> None:
    """Declare the command and its options."""
    parser = add_command(
        parts,
        "forget",
        help="remove items, from the disk too",
        description="Remove items by their handles, or all of something.",
        epilog=_EXAMPLES,
        run=run_forget,
    )
    parser.add_argument(
        "handles", metavar="HANDLE", nargs="*", help="as list prints them; - reads standard input"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--source", help="everything from this source")
    what.add_argument("--thread", help="everything of this thread")
    what.add_argument("--all", action="store_true", help="everything in the namespace")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    add_store_options(parser)
    parser.add_argument("--json", action="store_true", help="the result as JSON")


def run_forget(options: argparse.Namespace) -> int:
    """Remove what is named; ask first if it is much."""
    namespace = namespace_of(options)
    wide = options.source is not None or options.thread is not None or options.all
    if wide == bool(options.handles):
        raise Failure("name what to forget: handles, or one of --source, --thread and --all")
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
            f"rehydrate: {plural(missing, 'handle')} not there: forgotten before, or of another "
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
        name = "source" if options.source is not None else "thread"
        value = checked_text(f"--{name}", getattr(options, name))
        chosen = {name: value}
        items = memory.list(
            limit=None,
            sources=[value] if name == "source" else None,
            threads=[value] if name == "thread" else None,
        )
        count = len(items)
        what = f"{name} {value!r} in {where}"
    if count and not options.yes and not confirmed(f"forget {plural(count, 'item')}, {what}?"):
        return None
    if not count and not options.all:
        say(f"there is nothing of {what}")
    return memory.purge(**chosen)


def _handles(options: argparse.Namespace) -> list[str]:
    handles: list[str] = []
    for handle in options.handles:
        handles += read_text().split() if handle == "-" else [checked_text("a handle", handle)]
    return handles


_COPY_EXAMPLES = """\
Handles, provenance, times, tiers and links are the same afterwards. What is there already stays as
it is, so a copy that was interrupted can be made again. Vectors of a model are made anew.

examples:
  rehydrate memory copy postgresql://app@db/memories               every namespace, to a server
  rehydrate memory copy backup.db --store postgresql://app@db/memories -n ferryman
"""


def _add_copy(parts: Any) -> None:
    """Declare the command."""
    parser = add_command(
        parts,
        "copy",
        help="copy to another memory: a file or a server",
        description="Copy a namespace, or all of them, to another memory.",
        epilog=_COPY_EXAMPLES,
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
