"""`rehydrate thread`: lists, shows, forks, exports, redacts and purges stored conversations."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from rehydrate._text import plural
from rehydrate.cli import memory_store as store
from rehydrate.cli.options import COLOR, Commands, entries, json_option, option, output_of, tokens
from rehydrate.cli.terminal import (
    Column,
    Failure,
    Terminal,
    answer,
    confirmed,
    pad,
    say,
    size,
    table,
    write,
)
from rehydrate.errors import UnknownThreadError

if TYPE_CHECKING:
    from rehydrate.context.threads import StoredConversation, StoredThreadInfo, Threads

_EXPORT_EXAMPLES = """\
The file is JSON Lines: a line that says what it is, then a record a line.
"""
_ROLE_CELLS = 10


command = Commands()
part = command.within(
    "thread",
    "list, show, fork, export, redact and purge stored conversations",
    f"""\
A thread is a conversation that a program keeps with Context.open(PATH, thread=NAME, ...). Every
command names a namespace: --namespace NAME, or once for all {store.NAMESPACE_VARIABLE}.

start here:
  rehydrate thread list --store threads.db --namespace alice
""",
)
_THREAD = option("THREAD")


@contextmanager
def _opened(options: argparse.Namespace, *, read_only: bool = False) -> Iterator[Threads]:
    from rehydrate.context.threads import Threads

    namespace, path = store.namespace_of(options), store.store_path(options)
    if isinstance(path, Path) and not path.is_file():
        raise Failure(f"{path} isn't a file; name the store of the threads with --store PATH")
    with Threads.open(path, namespace=namespace, read_only=read_only) as threads:
        try:
            yield threads
        except UnknownThreadError as error:
            raise _unknown(error.thread, error.namespace) from None


def _unknown(thread: str, namespace: str) -> Failure:
    return Failure(
        f"namespace {namespace!r} has no thread {thread!r}; "
        "rehydrate thread list names those it has"
    )


@part(
    "the threads of a namespace, the last changed first",
    *(store.STORE, json_option("the threads"), COLOR),
)
def _list(options: argparse.Namespace) -> None:
    with _opened(options, read_only=True) as threads:
        found, path = threads.list(), threads.path
    if not (found or options.json):
        say(f"namespace {store.namespace_of(options)!r} has no thread yet in {path}")
        return
    answer(options, found, lambda terminal: _table(found, terminal))


@part(
    "the entries of a thread",
    _THREAD,
    option("--last N", "only the last N entries; default: all", entries),
    *(store.STORE, json_option("the entries, as compact and eval read them,"), COLOR),
)
def _show(options: argparse.Namespace) -> None:
    with _opened(options, read_only=True) as threads:
        read = threads.read(_thread(options))
    first = 0 if options.last is None else max(0, len(read.entries) - options.last)
    answer(options, read.entries[first:], lambda terminal: _entries(read, first, terminal))


def _entries(read: StoredConversation, first: int, terminal: Terminal) -> Iterator[str]:
    from rehydrate import formats

    for message in formats.parse(read.entries, read.format).messages:
        if message.index >= first:
            when = f"{read.times[message.index]:%Y-%m-%d %H:%M}"
            head = f"#{message.index}  {when}  {pad(message.role, _ROLE_CELLS)}"
            text = " ".join(message.text.split())
            yield f"{head}  {terminal.fit(text, max(20, terminal.width - len(head) - 2))}"


@part(
    "what a thread must not lose, as markdown",
    _THREAD,
    option("--tokens N", "the size of the markdown", tokens, 4_000),
    option("-o --output PAGE", "one HTML page: each item with the message that it is from"),
    *(store.STORE, json_option("every item and what became of it,"), COLOR),
    epilog="""\
Each line ends with the number of the entry that it is from.
""",
)
def _store(options: argparse.Namespace) -> None:
    from rehydrate.context import ContextStore

    name, page = _thread(options), output_of(options, store.store_path(options), what="store")
    least = ContextStore.MIN_TOKENS
    if options.tokens < least:
        raise Failure(f"--tokens {options.tokens} has no room; pass {least} or more")
    with _opened(options, read_only=True) as threads:
        read = threads.read(name)
    if options.output:
        store_page = import_module("rehydrate.page").store_page  # of another distribution
        text = store_page(
            read.store,
            read.entries,
            format=read.format,
            times=read.times,
            budget_tokens=options.tokens,
            title=name,
        )
        items = plural(len(read.store.items()), "item")
        write(text, page, what=f"the context store of {name}, {items}")
    if options.json or not options.output:
        shown = [item.to_dict() for item in read.store.items()]
        answer(options, shown, lambda terminal: _markdown(name, read, options.tokens, terminal))


def _markdown(
    name: str, read: StoredConversation, tokens: int, terminal: Terminal
) -> Iterator[str]:
    from rehydrate import formats

    text = read.store.render(tokens, conversation=formats.parse(read.entries, read.format))
    if not text:
        say(f"{name} has nothing in its store yet")
    for line in text.split("\n") if text else ():
        yield terminal.paint(terminal.safe(line), *(["bold"] if line.startswith("## ") else []))


@part(
    "copy a thread, or its beginning",
    *(_THREAD, option("NEW", "the copy's name")),
    option("--entries N", "only its first N entries; default: all", entries),
    store.STORE,
)
def _fork(options: argparse.Namespace) -> None:
    with _opened(options) as threads:
        threads.fork(
            _thread(options), store.checked_text("NEW", options.new), entries=options.entries
        )
    say(f"{options.new} is a copy of {options.thread}")


@part(
    "write a thread to a file",
    *(_THREAD, option("FILE", "where to"), store.STORE),
    epilog=_EXPORT_EXAMPLES,
)
def _export(options: argparse.Namespace) -> None:
    with _opened(options, read_only=True) as threads:
        lines = threads.export_thread(_thread(options), options.file)
    say(f"{plural(lines, 'line')} written to {options.file}")


@part(
    "read a thread from a file",
    option("FILE", "what export wrote"),
    option("--as NAME", "another name for it", dest="name"),
    store.STORE,
    epilog=_EXPORT_EXAMPLES,
)
def _import(options: argparse.Namespace) -> None:
    from rehydrate.context.threads import Threads

    namespace = store.namespace_of(options)
    with Threads.open(store.store_path(options), namespace=namespace) as threads:
        name = threads.import_thread(options.file, thread=options.name)
    say(f"{options.file} is thread {name} now")


@part(
    "take a text out of a thread",
    _THREAD,
    store.STORE,
    epilog="""\
The text is read from standard input, so that no shell remembers it; one end of a line is left out.
""",
)
def _redact(options: argparse.Namespace) -> None:
    text = store.read_text().removesuffix("\n").removesuffix("\r")
    with _opened(options) as threads:
        changed = threads.redact(_thread(options), text)
    say(f"{plural(changed, 'record')} of {options.thread} changed")


@part("delete a thread, to the last byte", _THREAD, option("-y --yes", "do not ask"), store.STORE)
def _purge(options: argparse.Namespace) -> None:
    name = _thread(options)
    if not options.yes and not confirmed(f"delete thread {name} for good?"):
        say("nothing was deleted")
        return
    with _opened(options) as threads:
        records = threads.purge(name)
    if not records:
        raise _unknown(name, store.namespace_of(options))
    say(f"{name} is gone: {plural(records, 'record')}")


def _thread(options: argparse.Namespace) -> str:
    return store.checked_text("THREAD", options.thread)


def _table(found: list[StoredThreadInfo], terminal: Terminal) -> Iterator[str]:
    columns = [
        Column("thread", [terminal.fit(one.name, 40) for one in found]),
        Column("changed (UTC)", [f"{one.changed:%Y-%m-%d %H:%M}" for one in found]),
        Column("created (UTC)", [f"{one.created:%Y-%m-%d %H:%M}" for one in found], rank=1),
        Column("records", [f"{one.records:,}" for one in found], ">"),
        Column("size", [size(one.bytes) for one in found], ">"),
    ]
    yield from table(columns, terminal)
