"""`rehydrate claude`: the plugin for Claude Code."""

from __future__ import annotations

import argparse
import subprocess
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rehydrate.cli.options import add_command
from rehydrate.cli.terminal import Failure, confirmed, say, write

if TYPE_CHECKING:
    from rehydrate.integrations.claude_code.records import Row


def add_parser(commands: Any) -> None:
    """Declare the command and its options."""
    parser = add_command(
        commands,
        "claude",
        help="keep what Claude Code's compactions lose",
        description="Installs hooks in Claude Code, and shows what they did.",
    )
    inner = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name, run, text in (
        ("install", _install, "add the hooks to your settings, after a question"),
        ("uninstall", _uninstall, "take the hooks out; your settings are as they were"),
    ):
        one = add_command(inner, name, help=text, description=text.capitalize() + ".", run=run)
        one.add_argument("--yes", action="store_true", help="do not ask")
    add_command(
        inner,
        "status",
        help="say what is installed, and whether it works",
        description="Say which hooks are installed, and run one of them.",
        run=_status,
    )
    report = add_command(
        inner,
        "report",
        help="show each compaction",
        description="Show what each compaction kept, lost and put back.",
        run=_report,
    )
    report.add_argument("--session", metavar="ID", help="only this session")
    fetch = add_command(
        inner,
        "fetch",
        help="print a result that was capped, whole",
        description="Print the whole result that a notice names.",
        run=_fetch,
    )
    fetch.add_argument("handle", help="the handle in the notice")


def _install(options: argparse.Namespace) -> int:
    from rehydrate.integrations.claude_code import Installation

    installation = Installation()
    if installation.installed:
        say("the hooks are installed already")
        return 0
    write("".join(f"{line}\n" for line in installation.plan()))
    if not (options.yes or confirmed("Change this?")):
        return 0
    installation.install()
    say("installed; a new session of Claude Code uses the hooks")
    return 0


def _uninstall(options: argparse.Namespace) -> int:
    from rehydrate.integrations.claude_code import Installation

    installation = Installation()
    write(f"take the hooks out of {installation.settings}\nremove {installation.folder}\n")
    if options.yes or confirmed("Change this?"):
        installation.uninstall()
        say("uninstalled; the memories stay")
    return 0


def _status(_options: argparse.Namespace) -> int:
    from rehydrate.integrations.claude_code import Installation
    from rehydrate.integrations.claude_code.install import MODULE

    installation = Installation()
    events = installation.installed
    write(f"settings: {installation.settings}\nhooks: {', '.join(events) or 'none'}\n")
    if not events:
        return 1
    done = subprocess.run(  # noqa: S603  our own module
        [sys.executable, "-P", "-m", MODULE, "SessionStart"],
        input=b"{}",
        capture_output=True,
        check=False,
        timeout=30,
    )
    works = done.returncode == 0 and not done.stderr
    write(f"works: {'yes' if works else 'no'}\n")
    return 0 if works else 1


def _report(options: argparse.Namespace) -> int:
    from rehydrate.integrations.claude_code import Records

    with Records() as records:
        rows = records.list(options.session)
    if not rows:
        say("no compaction was seen yet")
    write("".join(map(_described, rows)))
    return 0


def _described(row: Row) -> str:
    seen = row.compacted
    still = [name for name in seen.lost if name not in set(seen.put_back)]
    lines = [
        f"{datetime.fromtimestamp(row.at).astimezone():%Y-%m-%d %H:%M} {row.session} "
        f"({seen.trigger}, {seen.milliseconds:.0f} ms)",
        f"  kept      {seen.before_tokens}->{seen.after_tokens} tokens, "
        f"{seen.covered_pct:.0f}% dropped as memory-covered, {seen.distilled} new memories",
        f"  summary   {seen.summary_chars} characters, lost {len(seen.lost)} of "
        f"{len(seen.names)} names",
        f"  put back  {seen.returned_chars} characters, {len(seen.put_back)} of the lost names",
        f"  still out {', '.join(still[:10]) or 'nothing'}",
        *(f"  problem   {problem}" for problem in seen.degraded),
    ]
    return "\n".join(lines) + "\n"


def _fetch(options: argparse.Namespace) -> int:
    from rehydrate.integrations.claude_code import Records

    with Records() as records:
        text = records.whole(options.handle)
    if text is None:
        raise Failure(f"there is no result {options.handle!r}; copy the handle from its notice")
    write(text)
    return 0
