"""`rehydrate memory add`, `sync` and `import`: the commands that add items."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rehydrate._text import plural
from rehydrate.cli.memory_store import (
    add_store_options,
    checked_text,
    moment,
    namespace_of,
    opened,
    read_text,
    share,
)
from rehydrate.cli.options import add_command, add_output_options
from rehydrate.cli.terminal import Failure, Progress, Terminal, say, show
from rehydrate.errors import InvalidArgumentError
from rehydrate.memory.items import TIERS

if TYPE_CHECKING:
    from rehydrate.memory.folder import SyncReport
    from rehydrate.memory.items import Added
    from rehydrate.memory.memory import Memory
    from rehydrate.memory.store import ItemWriter


BATCH = 500
"""Texts written in one transaction; each transaction waits for the disk."""
SHOWN_HANDLES = 20
SHOWN_PATHS = 20

_ADD_EXAMPLES = """\
The same text from the same source is one item: adding it again changes nothing. Keys, tokens and
passwords are taken out before anything is written. What is printed are the handles.

examples:
  rehydrate memory add "Anna prefers tea." --kind preference --source chat/41
  rehydrate memory add "Never deploy on a Friday." --tier hot
  git log -1 --format=%B | rehydrate memory add - --source git     the text, byte for byte
  rehydrate memory add --lines - --source facts.txt < facts.txt    an item a line
"""
_SYNC_EXAMPLES = """\
core.md becomes hot (in every turn, at most 100 lines), archive/ cold (only searched for), all other
.md and .txt files warm. They are cut into passages at headings and paragraphs. Syncing again
touches only what changed, and forgets what is gone.

examples:
  rehydrate memory sync notes
  rehydrate memory sync ~/work/notes --label work    sources begin with work/ instead of notes/
"""
_IMPORT_EXAMPLES = """\
Items come back with the same handles, provenance, times and links. Importing twice is harmless.

examples:
  rehydrate memory import ferryman.jsonl
  ssh other rehydrate memory export - | rehydrate memory import -
"""


def add_parser(parts: Any) -> None:
    """Declare the three commands."""
    _add_add(parts)
    _add_sync(parts)
    _add_import(parts)


def run_add(options: argparse.Namespace) -> int:
    """Add the texts and print their handles."""
    namespace = namespace_of(options)
    texts = _texts(options)
    fields = {
        name: checked_text(f"--{name}", value) if isinstance(value, str) else value
        for name in ("kind", "tier", "source", "thread", "principal", "trust", "time", "expires")
        if (value := getattr(options, name)) is not None
    }
    added: list[Added] = []
    with (
        opened(options, namespace=namespace, to="create") as memory,
        _interruptible(),
        Progress("adding", "texts", len(texts)) as progress,
    ):
        for start in range(0, len(texts), BATCH):
            batch = texts[start : start + BATCH]
            added += memory.add(batch, **cast(Any, fields))
            progress.advance(len(batch))
    _print_added(added, options)
    return 0


def run(options: argparse.Namespace) -> int:
    """Sync the folder and print what changed."""
    from rehydrate.memory.folder import sync_folder

    namespace = namespace_of(options)
    if not Path(options.folder).is_dir():
        raise Failure(f"{options.folder} is no folder; name the folder that the notes are in")
    with opened(options, namespace=namespace, to="create") as memory, _interruptible():
        with Progress(f"syncing {options.folder}", "passages new") as progress:
            watched = _with_progress(memory, progress)
            report = sync_folder(watched, options.folder, namespace, options.label)
        hot = memory.stats().hot if not options.json else 0
    terminal = Terminal.of(sys.stdout, options.color)
    if options.json:
        show([json.dumps(_sync_as_dict(report), indent=2, ensure_ascii=False)], terminal)
    else:
        show(_sync_lines(report, options, hot, terminal), terminal)
    for warning in report.warnings:
        say(f"rehydrate: warning: {warning}")
    return 0


def run_import(options: argparse.Namespace) -> int:
    """Add what `export` wrote and print how much of it is new."""
    from rehydrate.memory.transfer import import_items

    namespace = namespace_of(options)
    with (
        _file_of(options.file) as path,
        opened(options, namespace=namespace, to="create") as memory,
        _interruptible(),
        Progress("importing", "items", _count_items(path)) as progress,
    ):
        done = import_items(_with_progress(memory, progress), path, namespace)
    terminal = Terminal.of(sys.stdout)
    if options.json:
        show([json.dumps(done._asdict(), indent=2)], terminal)
        return 0
    line = f"{done.added:,} added, {done.unchanged:,} there already, {done.links:,} links new"
    if done.lost_links:
        line += f", {done.lost_links:,} links lost: what they lead to is not in the file"
    show([line], terminal)
    return 0


def _texts(options: argparse.Namespace) -> list[str]:
    if options.text.count("-") > 1:
        raise Failure("- stands for standard input, which can be read only once")
    texts: list[str] = []
    for index, argument in enumerate(options.text):
        text = read_text() if argument == "-" else checked_text(f"text {index + 1}", argument)
        if options.lines:
            texts += [line for line in text.splitlines() if line.strip()]
        elif text:
            texts.append(text)
        else:
            raise Failure(
                "standard input is empty; there is nothing to remember"
                if argument == "-"
                else f"text {index + 1} is empty; an item holds at least one character"
            )
    return texts


def _print_added(added: Sequence[Added], options: argparse.Namespace) -> None:
    terminal = Terminal.of(sys.stdout, options.color)
    new = sum(one.created for one in added)
    if options.json:
        items = [
            {
                "handle": one.handle,
                "created": one.created,
                "redactions": [redaction._asdict() for redaction in one.redactions],
            }
            for one in added
        ]
        show([json.dumps({"added": items}, indent=2)], terminal)
    else:
        # A script wants every handle, a person not a thousand of them.
        shown = added if not sys.stdout.isatty() else added[:SHOWN_HANDLES]
        lines = [
            one.handle
            if one.created or not sys.stdout.isatty()
            else f"{one.handle}  {terminal.paint('there already', 'dim')}"
            for one in shown
        ]
        if len(shown) < len(added):
            lines.append(f"and {len(added) - len(shown):,} more")
        show(lines, terminal)
    if len(added) > 1 and sys.stderr.isatty():
        say(f"{new:,} new, {len(added) - new:,} there already")
    names = [redaction.name for one in added for redaction in one.redactions]
    if names:
        kinds = ", ".join(sorted(set(names)))
        count = "a secret was" if len(names) == 1 else f"{len(names):,} secrets were"
        say(f"rehydrate: note: {count} taken out ({kinds}); --no-redact keeps them")


def _sync_as_dict(report: SyncReport) -> dict[str, Any]:
    return {
        **{name: getattr(report, name) for name in ("added", "changed", "removed", "unchanged")},
        "refused": [refused._asdict() for refused in report.refused],
        "warnings": report.warnings,
        "chunks_added": report.chunks_added,
        "chunks_removed": report.chunks_removed,
        "chunks_unchanged": report.chunks_unchanged,
    }


def _sync_lines(
    report: SyncReport, options: argparse.Namespace, hot: int, terminal: Terminal
) -> Iterator[str]:
    for name, mark, style in (
        ("added", "+", "green"),
        ("changed", "~", "yellow"),
        ("removed", "-", "red"),
    ):
        paths = getattr(report, name)
        for path in paths[:SHOWN_PATHS]:
            yield f"{terminal.paint(mark, style)} {terminal.safe(path)}"
        if len(paths) > SHOWN_PATHS:
            yield f"{terminal.paint(mark, style)} and {len(paths) - SHOWN_PATHS:,} more"
    for path, reason in report.refused:
        yield f"{terminal.paint('!', 'yellow')} {terminal.safe(path)}: {terminal.safe(reason)}"
    files = [
        f"{len(paths):,} {name}"
        for name in ("added", "changed", "removed", "unchanged", "refused")
        if (paths := getattr(report, name))
    ]
    if not files:
        yield f"{terminal.safe(options.folder)} holds no notes; notes are .md and .txt files"
        return
    yield (
        f"{', '.join(files)}; {plural(report.chunks_added, 'passage')} new, "
        f"{report.chunks_removed:,} gone, {report.chunks_unchanged:,} as they were"
        + (f"; {hot:,} hot" if hot else "")
    )


class _MemoryWithProgress:
    """A memory that reports how many of the items read have been stored."""

    def __init__(self, memory: Memory, progress: Progress) -> None:
        self._memory = memory
        self._progress = progress

    def __getattr__(self, name: str) -> Any:
        return getattr(self._memory, name)

    def add(self, items: Sequence[Any], *, namespace: str) -> list[Added]:
        added: list[Added] = []
        for start in range(0, len(items), BATCH):
            batch = items[start : start + BATCH]
            added += self._memory.add(batch, namespace=namespace)
            self._progress.advance(len(batch))
        return added


def _with_progress(memory: Memory, progress: Progress) -> ItemWriter:
    return cast("ItemWriter", _MemoryWithProgress(memory, progress))


@contextmanager
def _interruptible() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        say("rehydrate: interrupted; what was brought in stays, running it again adds the rest")
        raise


@contextmanager
def _file_of(name: str) -> Iterator[Path]:
    """Yield the file of this name; standard input is copied to a temporary one."""
    if name != "-":
        yield Path(name)
        return
    with tempfile.TemporaryDirectory(prefix="rehydrate-") as folder:
        path = Path(folder) / "standard input"
        path.write_bytes(read_text().encode())
        try:
            yield path
        except InvalidArgumentError as error:
            raise Failure(str(error).replace(f"{folder}{os.sep}", "")) from None


def _count_items(path: Path) -> int | None:
    try:
        with path.open("rb") as file:
            return sum(b'"text"' in line for line in file) or None  # all but the header
    except (OSError, ValueError):
        return None  # reading it reports the error


def _add_add(parts: Any) -> None:
    parser = add_command(
        parts,
        "add",
        help="remember texts",
        description="Remember texts, each as one item. They are on the disk when it returns.",
        epilog=_ADD_EXAMPLES,
        run=run_add,
    )
    parser.add_argument(
        "text", metavar="TEXT", nargs="+", help="what to remember; - reads standard input"
    )
    parser.add_argument("--lines", action="store_true", help="each line is an item")
    what = parser.add_argument_group("what to say of them")
    what.add_argument("--kind", help="a word of yours: decision, preference (default: note)")
    what.add_argument("--tier", choices=TIERS, help="default: warm")
    what.add_argument("--source", help="where it is from: a file, an address, a conversation")
    what.add_argument("--thread", help="which conversation it was said in")
    what.add_argument("--principal", help="on whose behalf")
    what.add_argument("--trust", type=share, metavar="T", help="0 to 1 (default: 1)")
    what.add_argument(
        "--time", type=moment, metavar="WHEN", help="when it was said: 2026-02-17 or 2h (ago)"
    )
    what.add_argument(
        "--expires", type=moment, metavar="WHEN", help="from then on it is not found: 2026-12-31"
    )
    _add_common(parser)


def _add_sync(parts: Any) -> None:
    parser = add_command(
        parts,
        "sync",
        help="bring a folder of notes in, or what changed in it",
        description="Bring a folder of notes in, and what changed in it since.",
        epilog=_SYNC_EXAMPLES,
        run=run,
    )
    parser.add_argument("folder", metavar="FOLDER")
    parser.add_argument("--label", help="what sources begin with; default: the folder's name")
    _add_common(parser)


def _add_import(parts: Any) -> None:
    parser = add_command(
        parts,
        "import",
        help="bring in what export wrote",
        description="Bring in what rehydrate memory export wrote.",
        epilog=_IMPORT_EXAMPLES,
        run=run_import,
    )
    parser.add_argument("file", metavar="FILE", help="JSON Lines; - reads standard input")
    _add_common(parser)


def _add_common(parser: argparse.ArgumentParser) -> None:
    add_store_options(parser)
    parser.add_argument(
        "--no-redact", action="store_true", help="keep keys, tokens and passwords as they are"
    )
    parser.add_argument(
        "--embedder", metavar="MODEL", help="an ONNX model instead of the built-in one"
    )
    add_output_options(parser, "the result as JSON")
