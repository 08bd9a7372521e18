"""`rehydrate rpc`, `mcp` and `claude`."""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rehydrate.cli.memory_store import MEMORY, SERVER, opened_memory
from rehydrate.cli.options import PORT, Commands, json_option, names_of, one_of, option, whole
from rehydrate.cli.terminal import Failure, Terminal, answer, confirmed, is_terminal, say, write

if TYPE_CHECKING:
    from rehydrate.integrations.claude_code import CompactionRow, Installation
    from rehydrate.integrations.mcp_server.stores import Stores

TOKEN_VARIABLE = "REHYDRATE_MCP_TOKEN"
MIN_TOKEN_CHARS = 16
TOOLS = (
    *("compact_context", "request_context", "fetch_whole"),
    *("search_memory", "add_memory", "load_memory", "search_sessions", "session_outline"),
)
"""As `rehydrate.integrations.mcp_server.tools` has them, which is slow to import."""
_SHOWN_NAMES = 10
_NO_MCP = 'none: the MCP server needs python -m pip install "rehydrate[mcp]"'


command = Commands()


# rpc


@command(
    "serve compact_context over JSON-RPC 2.0 on standard input and output",
    *MEMORY,
    epilog="""\
Requests are read as they come: a line each, pretty-printed, one after the other or with
Content-Length headers. Each reply is one line. The end of the input ends the command, after the
last reply. An MCP client starts it with the command "rehydrate rpc"; initialize is not needed.

methods: initialize, ping, tools/list, tools/call

example:
  echo '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"compact_context",
    "arguments":{"messages":[{"role":"user","content":"hello"}]}}}' | rehydrate rpc
""",
)
def _rpc(options: argparse.Namespace) -> None:
    from rehydrate.rpc.server import serve as serve_rpc

    if _is_typed("requests"):
        say("reading JSON-RPC requests from the terminal; end with Ctrl-D")
    with opened_memory(options) as memory:
        serve_rpc(_read, write, memory)


def _is_typed(what: str) -> bool:
    """Return whether a person types the input; raises Failure for a closed stream."""
    for name, stream in (("input", sys.stdin), ("output", sys.stdout)):
        if stream is None:
            raise Failure(f"standard {name} is closed; connect it to who sends the {what}")
    return is_terminal(sys.stdin)


def _read(size: int) -> bytes:
    """Return the bytes that have come so far, without waiting for more."""
    try:
        return os.read(sys.stdin.fileno(), size)
    except OSError as error:
        reason = error.strerror or error
        raise Failure(f"standard input cannot be read: {reason}") from None


# mcp


@command(
    "serve tools to agents over the Model Context Protocol",
    option("--memory FILE", f"a memory's file, made if it is missing, or {SERVER}"),
    option("--threads FILE", f"a file of stored conversations, or {SERVER}"),
    option("--namespace NAME", "whose they are"),
    option("--tools NAMES", "only these: a model reads the schema of each", names_of(TOOLS)),
    option("--no-sessions", "do not read the transcripts of Claude Code and Codex"),
    option("--http PORT", "serve HTTP on this port of loopback; 0: any that is free", PORT),
    epilog=f"""\
tools: {", ".join(TOOLS[:6])},
{", ".join(TOOLS[6:])}

examples:
  claude mcp add rehydrate -- rehydrate mcp --memory notes.db --namespace me
  rehydrate mcp --threads threads.db --namespace me --http 8765

With --http it listens on loopback only. Each request needs the token, which is printed unless
${TOKEN_VARIABLE} gives it.
""",
)
def _mcp(options: argparse.Namespace) -> None:
    needs_namespace = options.memory is not None or options.threads is not None
    if needs_namespace and not (options.namespace or "").strip():
        raise Failure("--memory and --threads need --namespace NAME: whose they are")
    from rehydrate.agent.telemetry import program_telemetry
    from rehydrate.integrations.mcp_server.stores import Stores

    stores = Stores(
        memory=options.memory,
        threads=options.threads,
        namespace=options.namespace or "",
        has_sessions=not options.no_sessions,
        telemetry=program_telemetry(),
    )
    serve(stores, options.tools or TOOLS, options.http)


def serve(stores: Stores, tools: Sequence[str], http: int | None = None) -> None:
    """Answer on standard input and output, or on a port of loopback, until it is to end."""
    import anyio

    try:
        from rehydrate.integrations.mcp_server.server import make_server, serve_stdio
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("rehydrate"):
            raise
        raise Failure(
            f"the package {error.name} is not installed; python -m pip install 'rehydrate[mcp]'"
        ) from None
    try:
        server = make_server(stores, tools)
        if http is not None:
            _serve_http(server, http)
            return
        if _is_typed("messages"):
            say("an MCP client starts this command and speaks to it; end with Ctrl-D")
        # The SDK reads in a thread that Ctrl-C does not wake. All is on disk already.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        anyio.run(serve_stdio, server)
    finally:
        stores.close()


def _serve_http(server: Any, number: int) -> None:
    from rehydrate.integrations.loopback_http import bound_socket
    from rehydrate.integrations.mcp_server.server import serve_http

    given = os.environ.get(TOKEN_VARIABLE, "")
    is_printable = given.isascii() and given.isprintable() and " " not in given
    if given and (len(given) < MIN_TOKEN_CHARS or not is_printable):
        raise Failure(
            f"${TOKEN_VARIABLE} isn't a token; set at least {MIN_TOKEN_CHARS} ASCII characters "
            "without blanks, or leave it out and one is made"
        )
    token = given or secrets.token_urlsafe(32)
    said = f"token in ${TOKEN_VARIABLE}" if given else f"token: {token}"
    bound = bound_socket(number)
    serve_http(server, bound, token, lambda address: write(f"url: {address}\n{said}\n"))


# claude


part = command.within(
    "claude",
    "keep what Claude Code's and Codex's compactions lose, and put back what matters",
    """\
start here:
  rehydrate claude install             shows what it changes, and asks
  rehydrate claude report --last 3     what the last compactions kept, lost and put back
""",
)
_WAY: dict[str, Any] = {"dest": "way", "action": "store_const"}
_WAYS = one_of(
    option("--settings", "hooks in settings.json", None, "plugin", const="settings", **_WAY),
    option("--codex", "hooks for Codex", const="codex", **_WAY),
)
_YES = option("--yes", "do not ask")


@part("install the plugin, after a question", _YES, _WAYS)
def _install(options: argparse.Namespace) -> None:
    installation = _installation(options)
    write("".join([f"{line}\n" for line in installation.plan()]))
    if not (options.yes or confirmed("Change this?")):
        return
    installation.install()
    say("installed; a new session uses the hooks")
    if options.way == "settings":
        say("for the tools too: claude mcp add --scope user rehydrate -- rehydrate claude mcp")
    if not _has_mcp():
        say(f"tools: {_NO_MCP}")
    if options.way == "codex":
        say("Codex runs them when you have trusted them: type /hooks in a session")
        say("for the tools too: codex mcp add rehydrate -- rehydrate claude mcp")


@part("say what is installed, and run one hook", _WAYS)
def _status(options: argparse.Namespace) -> int:
    from rehydrate.integrations.claude_code import Home
    from rehydrate.integrations.claude_code.install import MODULE

    installation = _installation(options)
    events = installation.events
    write(f"place: {installation.target}\nhooks: {', '.join(events) or 'none'}\n")
    home = Home.of()
    write(f"data: {home.folder}\n")
    if home.failure.exists():
        seen = datetime.fromtimestamp(home.failure.stat().st_mtime).astimezone()
        said = Terminal.of(sys.stdout).safe(home.failure.read_text("utf-8", "replace").strip())
        write(f"last failure: {seen:%Y-%m-%d %H:%M}, {said}\n")
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


@part("take the hooks out; memories stay", _YES, _WAYS)
def _uninstall(options: argparse.Namespace) -> None:
    installation = _installation(options)
    if not installation.events:
        say(f"nothing is installed in {installation.target}")
        return
    what = "remove" if options.way == "plugin" else "take our hooks out of"
    write(f"{what} {installation.target}\n")
    if options.yes or confirmed("Change this?"):
        installation.uninstall()
        say("uninstalled; the memories stay, in the folder that `rehydrate claude status` names")


@part(
    "show what each compaction kept, lost and put back",
    option("SESSION", "only of this session", nargs="?"),
    option("--last N", "only the last N", whole),
    json_option("all of it"),
)
def _report(options: argparse.Namespace) -> None:
    import sqlite3

    from rehydrate.integrations.claude_code import Home, Records

    home = Home.of()
    rows: list[CompactionRow] = []
    try:
        if home.records.exists():
            with Records(home) as records:
                rows = records.list(options.session)
    except sqlite3.Error as error:
        remedy = "try again while no hook runs; if it is damaged, move it away"
        raise Failure(f"{home.records} cannot be read: {error}; {remedy}") from None
    rows = rows[-options.last :] if options.last else rows
    if not (rows or options.json):
        say("no compaction was seen yet")
    answer(options, rows, lambda terminal: _report_lines(rows, terminal))


def _report_lines(rows: Sequence[CompactionRow], terminal: Terminal) -> Iterator[str]:
    for row in rows:
        first, *more = map(terminal.safe, described(row))
        yield first
        yield from (f"  {line}" for line in more)


def described(row: CompactionRow) -> list[str]:
    """Return what the hooks saw of one compaction, one per line."""
    seen = row.compacted
    back = set(seen.put_back)
    out = [name for name in seen.lost if name not in back]
    more = f" and {len(out) - _SHOWN_NAMES} more" if len(out) > _SHOWN_NAMES else ""
    lost = "the agent didn't say"
    if seen.summary_chars:
        names = f"{len(seen.lost)} of {len(seen.names)} names"
        lost = f"{seen.summary_chars} characters, without {names}"
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


@part(
    "print a result that was shown in part, whole",
    option("HANDLE", "as the notice names it"),
    option("--session ID", "default: search this project's sessions"),
)
def _fetch(options: argparse.Namespace) -> None:
    from rehydrate.context.jit import ThreadReader
    from rehydrate.errors import UnknownHandleError, UnknownThreadError
    from rehydrate.integrations.claude_code import Home
    from rehydrate.integrations.claude_code.home import project_of

    home, here = Home.of(), Path.cwd()
    # The agent may have been started in any folder above, also in one inside a repository.
    above = [folder.as_posix() for folder in (here, *here.parents)]
    projects = dict.fromkeys([project_of(str(here)), *above])
    for project in projects if home.threads.exists() else ():
        with home.open_threads(project) as threads:
            found = [info.name for info in threads.list()]
            for session in [options.session] if options.session else found:
                with suppress(UnknownHandleError, UnknownThreadError):
                    write(ThreadReader(threads, session).whole(options.handle))
                    return
    raise Failure(
        f"no session of {next(iter(projects))} has {options.handle!r}; copy the handle from its "
        "notice, and call this in the project's folder"
    )


@part("serve the project's sessions and memories over MCP", name="mcp")
def _claude_mcp(_options: argparse.Namespace) -> None:
    from rehydrate.agent.telemetry import program_telemetry
    from rehydrate.integrations.claude_code import Home
    from rehydrate.integrations.claude_code.home import project_of
    from rehydrate.integrations.mcp_server import Stores

    home = Home.of()
    home.make()
    project = project_of(os.getcwd())  # noqa: PTH109
    stores = Stores(
        memory=home.memory,
        threads=home.threads,
        namespace=project,
        telemetry=program_telemetry(),
    )
    compacts_nothing = [name for name in TOOLS if name != "compact_context"]
    serve(stores, compacts_nothing)


@part(
    "run one hook, as the plugin's folder asks for",
    option("EVENT"),
    option("AGENT", None, None, "claude_code", nargs="?"),
)
def _hook(options: argparse.Namespace) -> None:
    from rehydrate.integrations.claude_code.hook import main

    main([options.event, options.agent], time.monotonic())


def _has_mcp() -> bool:
    return find_spec("mcp") is not None


def _installation(options: argparse.Namespace) -> Installation:
    from rehydrate.integrations.claude_code import Installation

    return Installation(options.way)
