"""`rehydrate claude`: the plugin for Claude Code, the hooks for Codex, and what they did."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from datetime import datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from rehydrate.cli.options import add_command, whole
from rehydrate.cli.terminal import Failure, Terminal, confirmed, say, write

if TYPE_CHECKING:
    from rehydrate.integrations.claude_code import CompactionRow, Installation

_TOOLS = (
    *("request_context", "fetch_whole", "search_memory", "add_memory", "load_memory"),
    *("search_sessions", "session_outline"),
)
"""Of the MCP server; the model reads the schema of each, and compacts nothing itself."""
_EXAMPLES = """\
start here:
  rehydrate claude install             shows what it changes, and asks
  rehydrate claude status
  rehydrate claude report --last 3     what the last compactions kept, lost and put back
  rehydrate claude uninstall
"""
_SHOWN_NAMES = 10
_NO_MCP = 'none: the MCP server needs python -m pip install "rehydrate[mcp]"'


def add_parser(commands: Any) -> None:
    """Declare the command, its subcommands and their options."""
    parser = add_command(
        commands,
        "claude",
        help="keep what Claude Code's and Codex's compactions lose",
        description="Hooks for Claude Code and Codex: what a compaction would lose is kept on this "
        "machine, and what matters is put back.",
        epilog=_EXAMPLES,
    )
    inner = parser.add_subparsers(title="commands", metavar="COMMAND")
    install = _part(inner, "install", "install the plugin, after a question", _install)
    status = _part(inner, "status", "say what is installed, and run one hook", _status)
    uninstall = _part(inner, "uninstall", "take the hooks out; memories stay", _uninstall)
    for one in (install, uninstall):
        one.add_argument("--yes", action="store_true", help="do not ask")
    for one in (install, status, uninstall):
        ways = one.add_mutually_exclusive_group()
        ways.add_argument(
            "--settings",
            dest="way",
            action="store_const",
            const="settings",
            help="hooks in settings.json, for a Claude Code that loads no plugin from its skills",
        )
        ways.add_argument(
            "--codex", dest="way", action="store_const", const="codex", help="hooks for Codex"
        )
        one.set_defaults(way="plugin")
    report = _part(inner, "report", "show what each compaction kept, lost and put back", _report)
    report.add_argument("session", nargs="?", metavar="SESSION", help="only of this session")
    report.add_argument("--last", type=whole, metavar="N", help="only the last N")
    report.add_argument("--json", action="store_true", help="all of it as JSON")
    fetch = _part(inner, "fetch", "print a result that was shown in part, whole", _fetch)
    fetch.add_argument("handle", metavar="HANDLE", help="as the notice names it")
    fetch.add_argument("--session", metavar="ID", help="default: search this project's sessions")
    _part(inner, "mcp", "serve the project's sessions and memories over MCP", _mcp)
    hook = _part(inner, "hook", "run one hook, as the plugin's folder asks for", _hook)
    hook.add_argument("event", metavar="EVENT")
    hook.add_argument("agent", nargs="?", default="claude_code", metavar="AGENT")


def _part(inner: Any, name: str, text: str, run: Any) -> argparse.ArgumentParser:
    return add_command(inner, name, help=text, description=f"{text[0].upper()}{text[1:]}.", run=run)


def _install(options: argparse.Namespace) -> int:
    installation = _installation(options)
    write("".join([f"{line}\n" for line in installation.plan()]))
    if not (options.yes or confirmed("Change this?")):
        return 0
    installation.install()
    say("installed; a new session uses the hooks")
    if options.way == "settings":
        say("for the tools too: claude mcp add --scope user rehydrate -- rehydrate claude mcp")
    if not _has_mcp():
        say(f"tools: {_NO_MCP}")
    if options.way == "codex":
        say("Codex runs them when you have trusted them: type /hooks in a session")
        say("for the tools too: codex mcp add rehydrate -- rehydrate claude mcp")
    return 0


def _uninstall(options: argparse.Namespace) -> int:
    installation = _installation(options)
    if not installation.events:
        say(f"nothing is installed in {installation.target}")
        return 0
    what = "remove" if options.way == "plugin" else "take our hooks out of"
    write(f"{what} {installation.target}\n")
    if options.yes or confirmed("Change this?"):
        installation.uninstall()
        say("uninstalled; the memories stay, in the folder that `rehydrate claude status` names")
    return 0


def _status(options: argparse.Namespace) -> int:
    from rehydrate.integrations.claude_code import Home
    from rehydrate.integrations.claude_code.install import MODULE

    installation = _installation(options)
    events = installation.events
    write(f"place: {installation.target}\nhooks: {', '.join(events) or 'none'}\n")
    write(f"data: {Home.of().folder}\n")
    if not events:
        return 1
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-P", "-m", MODULE, "SessionStart"],
        input=b'{"source": "startup"}',
        capture_output=True,
        check=False,
        timeout=30,
    )
    milliseconds = 1_000 * (time.perf_counter() - started)
    works = done.returncode == 0 and not done.stdout and not done.stderr
    write(f"a hook works: {f'yes, in {milliseconds:.0f} ms' if works else 'no'}\n")
    write(f"tools: {'yes, by the MCP server' if _has_mcp() else _NO_MCP}\n")
    return 0 if works else 1


def _report(options: argparse.Namespace) -> int:
    from rehydrate.integrations.claude_code import Home, Records

    home = Home.of()
    rows: list[CompactionRow] = []
    if home.records.exists():
        with Records(home) as records:
            rows = records.list(options.session)
    rows = rows[-options.last :] if options.last else rows
    if options.json:
        found = [{**row._asdict(), "compacted": row.compacted._asdict()} for row in rows]
        write(json.dumps(found, indent=2) + "\n")
        return 0
    if not rows:
        say("no compaction was seen yet")
    terminal = Terminal.of(sys.stdout)
    for row in rows:
        first, *more = map(terminal.safe, described(row))
        write("".join([f"{first}\n", *(f"  {line}\n" for line in more)]))
    return 0


def described(row: CompactionRow) -> list[str]:
    """Return what the hooks saw of one compaction, a line each."""
    seen = row.compacted
    back = set(seen.put_back)
    out = [name for name in seen.lost if name not in back]
    more = f" and {len(out) - _SHOWN_NAMES} more" if len(out) > _SHOWN_NAMES else ""
    if seen.summary_chars:
        lost = (
            f"{seen.summary_chars} characters, without {len(seen.lost)} of {len(seen.names)} names"
        )
    else:
        lost = "not told by the agent"
    returned = f"{seen.returned_chars} characters" if seen.returned_chars else "nothing yet"
    held = f", {len(back)} of those names" if seen.summary_chars else ""
    return [
        f"{datetime.fromtimestamp(row.at).astimezone():%Y-%m-%d %H:%M} {row.session} "
        f"({seen.trigger or 'no trigger'}, {seen.milliseconds:.0f} ms) {row.project}",
        f"kept      {seen.before_tokens}->{seen.after_tokens} tokens of the last turns, "
        f"{seen.covered_pct:.0f}% dropped as memory-covered, {seen.distilled} new memories",
        f"summary   {lost}",
        f"put back  {returned}{held}",
        *([f"still out {', '.join(out[:_SHOWN_NAMES])}{more}"] if out else []),
        *(f"problem   {problem}" for problem in seen.problems),
    ]


def _fetch(options: argparse.Namespace) -> int:
    from rehydrate.errors import StoreError, UnknownHandleError, UnknownThreadError
    from rehydrate.integrations.claude_code import Home
    from rehydrate.integrations.claude_code.home import project_of
    from rehydrate.integrations.claude_code.transcript import Session

    home, project = Home.of(), project_of(os.getcwd())  # noqa: PTH109  the same as a hook's cwd
    if home.threads.exists():
        sessions = [options.session] if options.session else _sessions(home, project)
        for session in sessions:
            try:
                write(Session(home, project, session, "claude_code").whole(options.handle))
            except (UnknownHandleError, UnknownThreadError):
                continue
            except StoreError as error:
                raise Failure(str(error)) from None
            return 0
    raise Failure(
        f"no session of {project} has {options.handle!r}; copy the handle from its notice, and "
        "call this in the project's folder"
    )


def _sessions(home: Any, project: str) -> list[str]:
    with home.open_threads(project) as threads:
        return [info.name for info in threads.list()]


def _mcp(_options: argparse.Namespace) -> int:
    from rehydrate.cli.mcp import serve
    from rehydrate.integrations.claude_code import Home
    from rehydrate.integrations.claude_code.home import project_of
    from rehydrate.integrations.mcp_server import Stores

    home = Home.of()
    home.make()
    project = project_of(os.getcwd())  # noqa: PTH109
    stores = Stores(memory=home.memory, threads=home.threads, namespace=project)
    return serve(stores, _TOOLS)


def _hook(options: argparse.Namespace) -> int:
    from rehydrate.integrations.claude_code.hook import main

    main([options.event, options.agent], time.monotonic())
    return 0


def _has_mcp() -> bool:
    return find_spec("mcp") is not None


def _installation(options: argparse.Namespace) -> Installation:
    from rehydrate.integrations.claude_code import Installation

    return Installation(options.way)
