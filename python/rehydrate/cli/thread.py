"""`rehydrate thread`: lists, shows, forks, exports, redacts and purges stored conversations."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rehydrate._text import as_json, plural
from rehydrate.cli.memory_store import (
    NAMESPACE_VARIABLE,
    add_store_options,
    checked_text,
    namespace_of,
    read_text,
    store_path,
)
from rehydrate.cli.options import (
    add_command,
    add_output_options,
    is_same_file,
    some_tokens,
    whole,
)
from rehydrate.cli.terminal import (
    Failure,
    Terminal,
    confirmed,
    pad,
    say,
    say_written,
    show,
    table,
    write,
)
from rehydrate.errors import UnknownThreadError

if TYPE_CHECKING:
    from rehydrate.context.threads import StoredConversation, StoredThreadInfo, Threads

_EXAMPLES = f"""\
A thread is a conversation that a program keeps with Context.open(PATH, thread=NAME, ...). Every
command names a namespace: --namespace NAME, or once for all {NAMESPACE_VARIABLE}.

start here:
  rehydrate thread list --store threads.db --namespace alice
  rehydrate thread show t-42 --store threads.db --namespace alice

rehydrate thread COMMAND --help says more about a command.
"""
_SHOW_EXAMPLES = """\
examples:
  rehydrate thread show t-42
  rehydrate thread show t-42 --json > session.json     the entries, as compact and eval read them
"""
_STORE_EXAMPLES = """\
Each line ends with the number of the entry that it is from.

examples:
  rehydrate thread store t-42
  rehydrate thread store t-42 --tokens 500
  rehydrate thread store t-42 -o store.html
  rehydrate thread store t-42 --json | jq '.[] | select(.kind == "decision")'
"""
_FORK_EXAMPLES = """\
examples:
  rehydrate thread fork t-42 t-43                a copy of all of it
  rehydrate thread fork t-42 t-43 --entries 20   of its first 20 entries
"""
_EXPORT_EXAMPLES = """\
The file is JSON Lines: a line that says what it is, then a record a line.

examples:
  rehydrate thread export t-42 t-42.jsonl
  rehydrate thread import t-42.jsonl --as t-44
"""
_REDACT_EXAMPLES = """\
The text is read from standard input, so that no shell remembers it; one end of a line is left out.

examples:
  rehydrate thread redact t-42 < secret.txt
"""
_ROLE_CELLS = 10


def add_parser(commands: Any) -> None:
    """Declare the command, its subcommands and their options."""
    parser = add_command(
        commands,
        "thread",
        help="list, show, fork, export, redact and purge stored conversations",
        description="Stored conversations: what programs keep with Context.open.",
        epilog=_EXAMPLES,
    )
    parts = parser.add_subparsers(title="commands", metavar="COMMAND")
    lister = _part(parts, "list", "the threads of a namespace, the last changed first", run_list)
    add_output_options(lister, "the threads as JSON")

    shower = _part(parts, "show", "the entries of a thread", run_show, epilog=_SHOW_EXAMPLES)
    shower.add_argument("thread", metavar="THREAD")
    shower.add_argument(
        "--last", type=whole, metavar="N", help="only the last N entries; default: all"
    )
    add_output_options(shower, "the entries as JSON, whole")

    store = _part(
        parts,
        "store",
        "what a thread must not lose, as markdown",
        run_store,
        epilog=_STORE_EXAMPLES,
    )
    store.add_argument("thread", metavar="THREAD")
    store.add_argument(
        "--tokens", type=some_tokens, default=4_000, metavar="N",
        help="the size of the markdown (default: 4k)",
    )  # fmt: skip
    store.add_argument(
        "-o", "--output", metavar="PAGE",
        help="one HTML page that needs nothing: each item with the message that it is from",
    )  # fmt: skip
    add_output_options(store, "every item and what became of it, as JSON")

    fork = _part(parts, "fork", "copy a thread, or its beginning", run_fork, epilog=_FORK_EXAMPLES)
    fork.add_argument("thread", metavar="THREAD")
    fork.add_argument("new", metavar="NEW", help="the copy's name")
    fork.add_argument("--entries", type=int, metavar="N", help="of the first N entries only")

    export = _part(parts, "export", "write a thread to a file", run_export, epilog=_EXPORT_EXAMPLES)
    export.add_argument("thread", metavar="THREAD")
    export.add_argument("file", metavar="FILE", help="where to")

    load = _part(parts, "import", "read a thread from a file", run_import, epilog=_EXPORT_EXAMPLES)
    load.add_argument("file", metavar="FILE", help="what export wrote")
    load.add_argument("--as", dest="name", metavar="NAME", help="another name for it")

    redact = _part(
        parts, "redact", "take a text out of a thread", run_redact, epilog=_REDACT_EXAMPLES
    )
    redact.add_argument("thread", metavar="THREAD")

    purge = _part(parts, "purge", "delete a thread, to the last byte", run_purge)
    purge.add_argument("thread", metavar="THREAD")
    purge.add_argument("-y", "--yes", action="store_true", help="do not ask")


def _part(parts: Any, name: str, what: str, run: Any, *, epilog: str | None = None) -> Any:
    description = f"{what[0].upper()}{what[1:]}."
    parser = add_command(parts, name, help=what, description=description, epilog=epilog, run=run)
    add_store_options(parser)
    return parser


@contextmanager
def _opened(options: argparse.Namespace, *, read_only: bool = False) -> Iterator[Threads]:
    from rehydrate.context.threads import Threads

    namespace, path = namespace_of(options), store_path(options)
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
    terminal = Terminal.of(sys.stdout, options.color)
    if options.json:
        shown = [
            one._asdict() | {"created": one.created.isoformat(), "changed": one.changed.isoformat()}
            for one in found
        ]
        show([as_json(shown, indent=2)], terminal._replace(encoding="utf-8"))
    elif found:
        show(_table(found, terminal), terminal)
    else:
        say(f"namespace {namespace_of(options)!r} has no thread yet")
    return 0


def run_show(options: argparse.Namespace) -> int:
    """Print the entries."""
    from rehydrate import formats

    with _opened(options, read_only=True) as threads:
        read = threads.read(_thread(options))
    first = 0 if options.last is None else max(0, len(read.entries) - options.last)
    terminal = Terminal.of(sys.stdout, options.color)
    if options.json:
        shown = [as_json(read.entries[first:], indent=2)]
        show(shown, terminal._replace(encoding="utf-8"))
        return 0
    lines = []
    for message in formats.parse(read.entries, read.format).messages:
        if message.index < first:
            continue
        when = f"{read.times[message.index]:%Y-%m-%d %H:%M}"
        head = f"#{message.index}  {when}  {pad(message.role, _ROLE_CELLS)}"
        text = " ".join(message.text.split())
        lines.append(f"{head}  {terminal.fit(text, max(20, terminal.width - len(head) - 2))}")
    show(lines, terminal)
    return 0


def run_store(options: argparse.Namespace) -> int:
    """Print the context store, or write its page."""
    name = _thread(options)
    page = None if options.output in (None, "-") else Path(options.output)
    _check_output(options, page)
    terminal = Terminal.of(sys.stdout, options.color)
    with _opened(options, read_only=True) as threads:
        read = threads.read(name)
    if options.json:
        items = [item.to_dict() for item in read.store.items()]
        show([as_json(items, indent=2)], terminal._replace(encoding="utf-8"))
    if options.output:
        _write_page(name, read, options.tokens, page)
    if not (options.json or options.output):
        _show_markdown(name, read, options.tokens, terminal)
    return 0


def _check_output(options: argparse.Namespace, page: Path | None) -> None:
    from rehydrate.context.context_store.rendering import MIN_TOKENS

    if options.json and options.output == "-":
        raise Failure("--json and -o - both write to standard output; name a file with -o")
    store = store_path(options)
    if page is not None and isinstance(store, Path) and is_same_file(page, store):
        raise Failure(f"-o {page} would overwrite the store; name another file")
    if options.tokens < MIN_TOKENS:
        raise Failure(f"--tokens {options.tokens} has no room; pass {MIN_TOKENS} or more")


def _write_page(name: str, read: StoredConversation, tokens: int, page: Path | None) -> None:
    store_page = import_module("rehydrate.page").store_page  # of another distribution
    text = store_page(
        read.store,
        read.entries,
        format=read.format,
        times=read.times,
        budget_tokens=tokens,
        title=name,
    )
    write(text, page)
    if page is not None:
        items = plural(len(read.store.items()), "item")
        say_written(page, f"the context store of {name}, {items}")


def _show_markdown(name: str, read: StoredConversation, tokens: int, terminal: Terminal) -> None:
    from rehydrate import formats

    conversation = formats.parse(read.entries, read.format)
    text = read.store.render(tokens, conversation=conversation)
    if not text:
        say(f"{name} has nothing in its store yet")
        return
    show(
        [
            terminal.paint(terminal.safe(line), *(["bold"] if line.startswith("## ") else []))
            for line in text.split("\n")
        ],
        terminal,
    )


def run_fork(options: argparse.Namespace) -> int:
    """Copy a thread."""
    with _opened(options) as threads:
        threads.fork(_thread(options), checked_text("NEW", options.new), entries=options.entries)
    say(f"{options.new} is a copy of {options.thread}")
    return 0


def run_export(options: argparse.Namespace) -> int:
    """Write a thread to a file."""
    with _opened(options, read_only=True) as threads:
        lines = threads.export(_thread(options), options.file)
    say(f"{plural(lines, 'line')} written to {options.file}")
    return 0


def run_import(options: argparse.Namespace) -> int:
    """Read a thread from a file."""
    from rehydrate.context.threads import Threads

    namespace = namespace_of(options)
    with Threads.open(store_path(options), namespace=namespace) as threads:
        name = threads.load(options.file, thread=options.name)
    say(f"{options.file} is thread {name} now")
    return 0


def run_redact(options: argparse.Namespace) -> int:
    """Take a text out of a thread."""
    text = read_text().removesuffix("\n").removesuffix("\r")
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
        raise _unknown(name, namespace_of(options))
    say(f"{name} is gone: {plural(records, 'record')}")
    return 0


def _thread(options: argparse.Namespace) -> str:
    return checked_text("THREAD", options.thread)


def _table(found: list[StoredThreadInfo], terminal: Terminal) -> Iterator[str]:
    rows = [
        (
            terminal.fit(one.name, 40),
            f"{one.changed:%Y-%m-%d %H:%M}",
            f"{one.created:%Y-%m-%d %H:%M}",
            f"{one.records:,}",
            f"{one.bytes / 1e3:,.1f} kB",
        )
        for one in found
    ]
    header, *lines = table([("thread", "changed (UTC)", "created (UTC)", "records", "size"), *rows])
    yield terminal.paint(header, "dim")
    yield from lines
