"""`rehydrate thread`: lists, shows, forks, exports, redacts and purges stored conversations."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rehydrate._text import plural
from rehydrate.cli import memory_store as store
from rehydrate.cli.options import (
    COLOR,
    add_command,
    add_commands,
    json_option,
    option,
    output_of,
    tokens,
    whole,
)
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

_EXAMPLES = f"""\
A thread is a conversation that a program keeps with Context.open(PATH, thread=NAME, ...). Every
command names a namespace: --namespace NAME, or once for all {store.NAMESPACE_VARIABLE}.

start here:
  rehydrate thread list --store threads.db --namespace alice
"""
_STORE_EXAMPLES = """\
Each line ends with the number of the entry that it is from.
"""
_EXPORT_EXAMPLES = """\
The file is JSON Lines: a line that says what it is, then a record a line.
"""
_REDACT_EXAMPLES = """\
The text is read from standard input, so that no shell remembers it; one end of a line is left out.
"""
_ROLE_CELLS = 10


def add_parser(commands: Any) -> None:
    """Declare the command, its subcommands and their options."""
    about = "list, show, fork, export, redact and purge stored conversations"
    parts = add_commands(commands, "thread", about, _EXAMPLES)
    thread = option("THREAD")
    add_command(
        *(parts, "list", "the threads of a namespace, the last changed first", run_list),
        *(store.STORE, json_option("the threads"), COLOR),
    )
    add_command(
        *(parts, "show", "the entries of a thread", run_show),
        thread,
        option("--last N", "only the last N entries; default: all", whole),
        *(store.STORE, json_option("the entries, as compact and eval read them,"), COLOR),
    )
    add_command(
        *(parts, "store", "what a thread must not lose, as markdown", run_store),
        thread,
        option("--tokens N", "the size of the markdown", tokens, 4_000),
        option("-o --output PAGE", "one HTML page: each item with the message that it is from"),
        *(store.STORE, json_option("every item and what became of it,"), COLOR),
        epilog=_STORE_EXAMPLES,
    )
    add_command(
        *(parts, "fork", "copy a thread, or its beginning", run_fork),
        *(thread, option("NEW", "the copy's name")),
        option("--entries N", "of the first N entries only", int),
        store.STORE,
    )
    add_command(
        *(parts, "export", "write a thread to a file", run_export),
        *(thread, option("FILE", "where to"), store.STORE),
        epilog=_EXPORT_EXAMPLES,
    )
    add_command(
        *(parts, "import", "read a thread from a file", run_import),
        option("FILE", "what export wrote"),
        option("--as NAME", "another name for it", dest="name"),
        store.STORE,
        epilog=_EXPORT_EXAMPLES,
    )
    about = "take a text out of a thread"
    add_command(parts, "redact", about, run_redact, thread, store.STORE, epilog=_REDACT_EXAMPLES)
    about = "delete a thread, to the last byte"
    yes = option("-y --yes", "do not ask")
    add_command(parts, "purge", about, run_purge, thread, yes, store.STORE)


@contextmanager
def _opened(options: argparse.Namespace, *, read_only: bool = False) -> Iterator[Threads]:
    from rehydrate.context.threads import Threads

    namespace, path = store.namespace_of(options), store.store_path(options)
    if isinstance(path, Path) and not path.is_file():
        raise Failure(f"{path} is no file; name the store of the threads with --store PATH")
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


def run_list(options: argparse.Namespace) -> int:
    """Print the threads."""
    with _opened(options, read_only=True) as threads:
        found = threads.list()
    if not (found or options.json):
        say(f"namespace {store.namespace_of(options)!r} has no thread yet")
        return 0
    answer(options, found, lambda terminal: _table(found, terminal))
    return 0


def run_show(options: argparse.Namespace) -> int:
    """Print the entries."""
    with _opened(options, read_only=True) as threads:
        read = threads.read(_thread(options))
    first = 0 if options.last is None else max(0, len(read.entries) - options.last)
    answer(options, read.entries[first:], lambda terminal: _entries(read, first, terminal))
    return 0


def _entries(read: StoredConversation, first: int, terminal: Terminal) -> Iterator[str]:
    from rehydrate import formats

    for message in formats.parse(read.entries, read.format).messages:
        if message.index >= first:
            when = f"{read.times[message.index]:%Y-%m-%d %H:%M}"
            head = f"#{message.index}  {when}  {pad(message.role, _ROLE_CELLS)}"
            text = " ".join(message.text.split())
            yield f"{head}  {terminal.fit(text, max(20, terminal.width - len(head) - 2))}"


def run_store(options: argparse.Namespace) -> int:
    """Print the context store, or write its page."""
    from rehydrate.context import ContextStore

    name, page = _thread(options), output_of(options, store.store_path(options), "store")
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
    return 0


def _markdown(
    name: str, read: StoredConversation, tokens: int, terminal: Terminal
) -> Iterator[str]:
    from rehydrate import formats

    text = read.store.render(tokens, conversation=formats.parse(read.entries, read.format))
    if not text:
        say(f"{name} has nothing in its store yet")
    for line in text.split("\n") if text else ():
        yield terminal.paint(terminal.safe(line), *(["bold"] if line.startswith("## ") else []))


def run_fork(options: argparse.Namespace) -> int:
    """Copy a thread."""
    with _opened(options) as threads:
        threads.fork(
            _thread(options), store.checked_text("NEW", options.new), entries=options.entries
        )
    say(f"{options.new} is a copy of {options.thread}")
    return 0


def run_export(options: argparse.Namespace) -> int:
    """Write a thread to a file."""
    with _opened(options, read_only=True) as threads:
        lines = threads.export_thread(_thread(options), options.file)
    say(f"{plural(lines, 'line')} written to {options.file}")
    return 0


def run_import(options: argparse.Namespace) -> int:
    """Read a thread from a file."""
    from rehydrate.context.threads import Threads

    namespace = store.namespace_of(options)
    with Threads.open(store.store_path(options), namespace=namespace) as threads:
        name = threads.import_thread(options.file, thread=options.name)
    say(f"{options.file} is thread {name} now")
    return 0


def run_redact(options: argparse.Namespace) -> int:
    """Take a text out of a thread."""
    text = store.read_text().removesuffix("\n").removesuffix("\r")
    with _opened(options) as threads:
        changed = threads.redact(_thread(options), text)
    say(f"{plural(changed, 'record')} of {options.thread} changed")
    return 0


def run_purge(options: argparse.Namespace) -> int:
    """Delete a thread."""
    name = _thread(options)
    if not options.yes and not confirmed(f"delete thread {name} for good?"):
        say("nothing was deleted")
        return 0
    with _opened(options) as threads:
        records = threads.purge(name)
    if not records:
        raise _unknown(name, store.namespace_of(options))
    say(f"{name} is gone: {plural(records, 'record')}")
    return 0


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
