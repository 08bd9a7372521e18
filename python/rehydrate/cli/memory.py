"""`rehydrate memory`: adds, finds, imports and maintains items that outlive a conversation."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rehydrate._jsonl import lines_of
from rehydrate._native import plain
from rehydrate._text import plural
from rehydrate.cli import memory_search, memory_store as store
from rehydrate.cli.memory_store import NAMESPACE_VARIABLE, STORE_VARIABLE
from rehydrate.cli.options import COLOR, EMBEDDER, Commands, group, json_option, one_of, option
from rehydrate.cli.terminal import (
    Failure,
    Progress,
    Terminal,
    answer,
    confirmed,
    is_terminal,
    say,
    write,
)
from rehydrate.errors import StoreCorruptError
from rehydrate.memory.items import TIERS, VerifyReport
from rehydrate.memory.transfer import Imported, add_items, items_in, lines_for

if TYPE_CHECKING:
    from rehydrate.memory.folder import SyncReport
    from rehydrate.memory.items import Added, MemoryItem
    from rehydrate.memory.memory import Memory


BATCH = 500
"""Texts written in one transaction; each transaction waits for the disk."""
SHOWN_HANDLES = 20
SHOWN_PATHS = 20


command = Commands()
part = command.within(
    "memory",
    "keep texts in a file, find them again by words and by meaning",
    f"""\
Every command names a namespace, such as a project or a user: --namespace NAME, or once for all
{NAMESPACE_VARIABLE}. What is in another namespace does not exist for it. The file is --store PATH,
or {STORE_VARIABLE}, or one in the folder of your data; a command's --help says where.

start here:
  export {NAMESPACE_VARIABLE}=ferryman
  rehydrate memory sync notes                          a folder of notes, and what changed in it
  rehydrate memory add "Staging listens on 8443."      one thing to remember
  rehydrate memory search "which port is staging on?"  what is known about it
  rehydrate memory show mem_...                        the whole of what was found

rehydrate memory COMMAND --help says more about a command.
""",
)
_RESULT = json_option("the result")
_INCOMING = (
    store.STORE,
    option("--no-redact", "keep keys, tokens and passwords as they are"),
    EMBEDDER,
    _RESULT,
    COLOR,
)


# Bringing in


@contextmanager
def _adding(
    options: argparse.Namespace, doing: str, unit: str, total: int | None = None
) -> Iterator[tuple[Memory, Progress]]:
    """Yield the memory of a command that adds items, made if missing, and the progress."""
    with store.opened(options, to="create") as memory:
        try:
            with Progress(doing, unit, total) as progress:
                yield memory, progress
        except KeyboardInterrupt:
            say("rehydrate: interrupted; what was brought in stays, running it again adds the rest")
            raise


@part(
    "remember texts, each as one item",
    option("TEXT", "what to remember; - reads standard input", nargs="+"),
    option("--lines", "each line is an item"),
    group(
        "what to say about them",
        option("--kind KIND", "a word of yours: decision, preference (default: note)"),
        option("--tier", "default: warm", TIERS),
        option("--source SOURCE", "where it is from: a file, an address, a conversation"),
        option("--thread THREAD", "which conversation it was said in"),
        option("--principal PRINCIPAL", "on whose behalf"),
        option("--trust T", "0 to 1 (default: 1)", store.share),
        option("--time WHEN", "when it was said: 2026-02-17 or 2h (ago)", store.moment),
        option("--expires WHEN", "not found from then on: 2026-12-31 or 7d (from now)", store.end),
    ),
    *_INCOMING,
    epilog="""\
The same text from the same source is one item: adding it again changes nothing. Keys, tokens and
passwords are taken out before anything is written. What is printed are the handles.

examples:
  rehydrate memory add "Anna prefers tea." --kind preference --source chat/41
  rehydrate memory add --lines - --source facts.txt < facts.txt    an item a line
""",
)
def _add(options: argparse.Namespace) -> None:
    store.namespace_of(options)  # a mistake in it is said before standard input is read
    texts = _texts(options)
    given: dict[str, Any] = {
        name: store.checked_text(f"--{name}", value) if isinstance(value, str) else value
        for name in ("kind", "tier", "source", "thread", "principal", "trust", "time", "expires")
        if (value := getattr(options, name)) is not None
    }
    added: list[Added] = []
    with _adding(options, "adding", "texts", len(texts)) as (memory, progress):
        for start in range(0, len(texts), BATCH):
            batch = texts[start : start + BATCH]
            added += memory.add(batch, **given)
            progress.advance(len(batch))
    fields = ("handle", "created", "redactions")
    shown = [{name: getattr(one, name) for name in fields} for one in added]
    answer(options, {"added": shown}, lambda terminal: _added_lines(added, terminal))
    if len(added) > 1 and is_terminal(sys.stderr):
        new = sum(one.created for one in added)
        say(f"{new:,} new, {len(added) - new:,} there already")
    if names := [redaction.name for one in added for redaction in one.redactions]:
        kinds = ", ".join(sorted(set(names)))
        count = "a secret was" if len(names) == 1 else f"{len(names):,} secrets were"
        say(f"rehydrate: note: {count} taken out ({kinds}); --no-redact keeps them")


@part(
    "bring a folder of notes in, or what changed in it",
    option("FOLDER"),
    option("--label LABEL", "what sources begin with; default: the folder's name"),
    *_INCOMING,
    epilog="""\
core.md becomes hot (in every turn, at most 100 lines), archive/ cold (only searched for), all other
.md and .txt files warm. Syncing again touches only what changed, and forgets what is gone.
""",
)
def _sync(options: argparse.Namespace) -> None:
    from rehydrate.memory.folder import sync_folder

    namespace = store.namespace_of(options)
    if not Path(options.folder).is_dir():
        raise Failure(f"{options.folder} isn't a folder; name the folder that the notes are in")
    with _adding(options, f"syncing {options.folder}", "passages") as (memory, progress):

        def as_stored(item: MemoryItem) -> MemoryItem:
            progress.advance(1)
            return memory.as_stored(item)

        report = sync_folder(memory, options.folder, namespace, options.label, as_stored)
        hot = memory.stats().hot if not options.json else 0
    answer(options, report, lambda terminal: _sync_lines(report, options.folder, hot, terminal))
    for warning in report.warnings:
        say(f"rehydrate: warning: {warning}")


@part(
    "bring in what export wrote",
    option("FILE", "JSON Lines; - reads standard input"),
    *_INCOMING,
    epilog="""\
Items come back with the same handles, provenance, times and links. Importing twice is harmless.
""",
)
def _import(options: argparse.Namespace) -> None:
    namespace = store.namespace_of(options)
    name: object = "standard input" if options.file == "-" else Path(options.file)
    lines = store.read_text().split("\n") if options.file == "-" else lines_of(options.file)
    with _adding(options, "importing", "items") as (memory, progress):
        done = add_items(memory, progress.over(items_in(lines, name)), namespace)
    line = f"{done.added:,} added, {done.unchanged:,} there already, {done.links:,} links new"
    if done.lost_links:
        line += f", {done.lost_links:,} links lost: what they lead to is not in the file"
    answer(options, done, lambda _: [line])


def _texts(options: argparse.Namespace) -> list[str]:
    if options.text.count("-") > 1:
        raise Failure("- stands for standard input, which can be read only once")
    texts: list[str] = []
    for index, argument in enumerate(options.text):
        if argument == "-":
            text = store.read_text()
            problem = "standard input is empty; there is nothing to remember"
        else:
            text = store.checked_text(f"text {index + 1}", argument)
            problem = f"text {index + 1} is empty; an item holds at least one character"
        if options.lines:
            texts += [line for line in text.splitlines() if line.strip()]
        elif text:
            texts.append(text)
        else:
            raise Failure(problem)
    return texts


def _added_lines(added: Sequence[Added], terminal: Terminal) -> Iterator[str]:
    # A script wants every handle, a person not a thousand of them.
    is_read = is_terminal(sys.stdout)
    for one in added[:SHOWN_HANDLES] if is_read else added:
        is_old = is_read and not one.created
        yield one.handle + (f"  {terminal.paint('there already', 'dim')}" if is_old else "")
    if is_read and len(added) > SHOWN_HANDLES:
        yield f"and {len(added) - SHOWN_HANDLES:,} more"


def _sync_lines(report: SyncReport, folder: str, hot: int, terminal: Terminal) -> Iterator[str]:
    marks = {"added": ("+", "green"), "changed": ("~", "yellow"), "removed": ("-", "red")}
    for name, (sign, style) in marks.items():
        paths, mark = getattr(report, name), terminal.paint(sign, style)
        for path in paths[:SHOWN_PATHS]:
            yield f"{mark} {terminal.safe(path)}"
        if len(paths) > SHOWN_PATHS:
            yield f"{mark} and {len(paths) - SHOWN_PATHS:,} more"
    for path, reason in report.refused:
        yield f"{terminal.paint('!', 'yellow')} {terminal.safe(path)}: {terminal.safe(reason)}"
    files = [
        f"{len(paths):,} {name}"
        for name in (*marks, "unchanged", "refused")
        if (paths := getattr(report, name))
    ]
    if not files:
        yield f"{terminal.safe(folder)} holds no notes; notes are .md and .txt files"
        return
    yield (
        f"{', '.join(files)}; {plural(report.chunks_added, 'passage')} new, "
        f"{report.chunks_removed:,} gone, {report.chunks_unchanged:,} as they were"
        + (f"; {hot:,} hot" if hot else "")
    )


part.include(memory_search.part)

# Maintenance


@part(
    "check everything that is stored, whatever the namespace",
    *(store.WHOLE_STORE, json_option("the findings"), COLOR),
    epilog="""\
Checks every item of every namespace, and the index. A damaged index is thrown away and made again:
that isn't an error. Exit code 1 if the file itself is damaged.
""",
)
def _verify(options: argparse.Namespace) -> int:
    path = store.shown_place(store.store_path(options))
    try:
        with store.opened(options, whole=True) as memory, Progress(f"checking {path}", "items"):
            report = memory.verify()
    except StoreCorruptError as error:  # so damaged that it does not even open
        report = VerifyReport(0, (error.problem,))
    shown = {"ok": report.ok, **plain(report)}
    answer(options, shown, lambda terminal: _findings(report, path, terminal))
    return int(not report.ok)


def _findings(report: VerifyReport, path: str, terminal: Terminal) -> Iterator[str]:
    name = terminal.safe(path)
    if report.damaged_indexes:
        parts = plural(report.damaged_indexes, "damaged part")
        yield (
            f"{terminal.paint('note', 'yellow')}  {parts} of the index thrown away; searches are "
            "right all the same, and rehydrate memory rebuild makes a new index"
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


def _namespaces(options: argparse.Namespace, memory: Memory, doing: str) -> Iterator[str]:
    """Yield the namespaces that a command is for, and show the progress from one to the next."""
    wanted = store.named_namespace(options)
    names = list(memory.namespaces()) if wanted is None else [wanted]
    sizes = {name: memory.stats(namespace=name).items for name in names}
    total = sum(sizes.values())
    # A namespace is one step, which cannot be done by halves.
    is_one = len(sizes) == 1
    what = f"{doing} {plural(total, 'item')}" if is_one else doing
    with Progress(what, "items", None if is_one else total) as progress:
        for name, size in sizes.items():
            yield name
            progress.advance(size)


@part(
    "rebuild the index, of one namespace or of all",
    store.STORES,
    option("--embedder MODEL", "an ONNX model that gives vectors"),
    option("--vectors", "drop the vectors that are there; those of --embedder replace them"),
    _RESULT,
    epilog="""\
The index is made from the file, so nothing can be lost. It is needed seldom: an index that is
missing or damaged is made again by itself. With --embedder, what has no vector gets one.
""",
)
def _rebuild(options: argparse.Namespace) -> None:
    wanted = store.named_namespace(options)
    with store.opened(options, to="change", whole=True) as memory:
        items = []
        for name in _namespaces(options, memory, "rebuilding"):
            if options.vectors:
                memory.drop_vectors(namespace=name)
            items.append(memory.rebuild(namespace=name))
    what = repr(wanted) if wanted else plural(len(items), "namespace")
    line = f"the index of {what} is new: {plural(sum(items), 'item')}"
    shown = {"items": sum(items), "namespaces": len(items)}
    answer(options, shown, lambda _: [line], indent=None)


@part(
    "write a namespace to a file",
    option("FILE", "where to; - writes to standard output"),
    store.STORE,
    option("--json", "the result as JSON, on standard error"),
    epilog="""\
The file is JSON Lines: a line that says what it is, then an item a line. import brings it back.
""",
)
def _export(options: argparse.Namespace) -> None:
    with store.opened(options) as memory:
        if options.file == "-":
            items = memory.list(limit=None, newest_first=False)
            lines = lines_for(items, store.namespace_of(options))
            write("".join([f"{line}\n" for line in lines]))
            count = len(items)
        else:
            with Progress(f"writing {options.file}", "items"):
                count = memory.export_items(options.file)
    if options.json:
        say(json.dumps({"items": count}))
    elif options.file != "-":
        answer(options, None, lambda _: [f"{plural(count, 'item')} written to {options.file}"])
    if not count:
        say(f"rehydrate: note: namespace {memory.namespace!r} holds nothing")


@part(
    "remove items, from the disk too",
    option("HANDLE", "as list prints them; - reads standard input", nargs="*"),
    one_of(
        option("--source SOURCE", "everything from this source"),
        option("--thread THREAD", "everything of this thread"),
        option("--all", "everything in the namespace"),
    ),
    option("-y --yes", "do not ask"),
    *(store.STORE, _RESULT),
    epilog="""\
What is forgotten is gone from the disk too. Of --source, --thread and --all it is said how much
goes, and asked first; --yes says yes. Exit code 1 if a handle was not there.

example:
  rehydrate memory list --before 52w --json | jq -r '.items[].handle' | rehydrate memory forget -
""",
)
def _forget(options: argparse.Namespace) -> int:
    store.namespace_of(options)
    wide = options.source is not None or options.thread is not None or options.all
    if wide == bool(options.handle):
        raise Failure("name what to forget: handles, or one of --source, --thread and --all")
    handles: list[str] = []
    for handle in options.handle:
        handles += (
            store.read_text().split() if handle == "-" else [store.checked_text("a handle", handle)]
        )
    with store.opened(options, to="change") as memory:
        forgotten = _purge(memory, options) if wide else memory.forget(handles)
    if forgotten is None:
        say("nothing was forgotten")
        return 1
    missing = 0 if wide else len({*handles}) - forgotten
    found = {"forgotten": forgotten, "missing": missing}
    answer(options, found, lambda _: [f"{forgotten:,} forgotten"], indent=None)
    if missing:
        say(
            f"rehydrate: {plural(missing, 'handle')} not there: forgotten before, or of another "
            "namespace"
        )
    return int(missing > 0)


def _purge(memory: Memory, options: argparse.Namespace) -> int | None:
    """Remove all of it, unless the answer is no."""
    where = f"namespace {memory.namespace!r}"
    chosen: dict[str, Any]
    if options.all:
        chosen, count, what = {"everything": True}, memory.stats().items, f"all of {where}"
    else:
        name = "source" if options.source is not None else "thread"
        value = store.checked_text(f"--{name}", getattr(options, name))
        wanted: dict[str, Any] = {f"{name}s": [value]}
        count = len(memory.list(limit=None, **wanted))
        chosen, what = {name: value}, f"{name} {value!r} in {where}"
    if count and not options.yes and not confirmed(f"forget {plural(count, 'item')}, {what}?"):
        return None
    if not count and not options.all:
        say(f"there is nothing of {what}")
    return memory.purge(**chosen)


@part(
    "copy a namespace, or all, to another memory",
    option("TO", "a file, or postgresql://user@host/database"),
    *(store.STORES, option("--embedder MODEL", "an ONNX model for the copy's vectors"), _RESULT),
    epilog="""\
Handles, provenance, times, tiers and links are the same afterwards. What is there already stays as
it is, so a copy that was interrupted can be made again. Vectors of a model are made again.
""",
)
def _copy(options: argparse.Namespace) -> None:
    if not options.to:
        raise Failure("the memory to copy to is empty; name a file, or a URL")
    store.named_namespace(options)  # a mistake in it makes no file
    target = argparse.Namespace(**{**vars(options), "store": options.to})
    with (
        store.opened(options, whole=True) as memory,
        store.opened(target, to="create", whole=True) as other,
    ):
        names = _namespaces(options, memory, "copying")
        copied = [memory.copy_to(other, namespace=name) for name in names]
    total = Imported(*map(sum, zip(Imported(0, 0, 0, 0), *copied, strict=True)))
    line = (
        f"{plural(total.added, 'item')} of {plural(len(copied), 'namespace')} copied to "
        f"{store.shown_place(store.place_of(options.to))}; {total.unchanged:,} there already"
    )
    answer(options, {"namespaces": len(copied), **total._asdict()}, lambda _: [line], indent=None)
