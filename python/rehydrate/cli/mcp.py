"""`rehydrate mcp`: the tools of this package for agents that speak the Model Context Protocol."""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rehydrate.cli.memory_store import SERVER
from rehydrate.cli.options import add_command
from rehydrate.cli.terminal import Failure, say, write

if TYPE_CHECKING:
    from rehydrate.integrations.mcp_server.stores import Stores

TOKEN_VARIABLE = "REHYDRATE_MCP_TOKEN"
MIN_TOKEN_CHARS = 16
TOOLS = (
    *("compact_context", "request_context", "fetch_whole"),
    *("search_memory", "add_memory", "load_memory", "search_sessions", "session_outline"),
)
"""As `rehydrate.integrations.mcp_server.tools` has them, which is slow to import."""

_EXAMPLES = f"""\
tools: compact_context, request_context, fetch_whole, search_memory, add_memory, load_memory,
search_sessions, session_outline

examples:
  claude mcp add rehydrate -- rehydrate mcp --memory notes.db --namespace me
  rehydrate mcp --threads threads.db --namespace me --http 8765

With --http it listens on loopback only. Each request needs the token, which is printed unless
${TOKEN_VARIABLE} gives it.
"""


def add_parser(commands: Any) -> None:
    """Declare the command and its options."""
    parser = add_command(
        commands,
        "mcp",
        help="serve tools to agents over the Model Context Protocol",
        description="Serve memory, stored conversations, past coding sessions and compaction to "
        "agents, on standard input and output or over HTTP.",
        epilog=_EXAMPLES,
        run=run,
    )
    parser.add_argument(
        "--memory", metavar="FILE", help=f"a memory's file, made if it is missing, or {SERVER}"
    )
    parser.add_argument(
        "--threads", metavar="FILE", help=f"a file of stored conversations, or {SERVER}"
    )
    parser.add_argument("--namespace", metavar="NAME", help="whose they are")
    parser.add_argument(
        "--tools",
        metavar="NAMES",
        type=names,
        help="offer only these, with commas between them: a model reads the schema of each",
    )
    parser.add_argument(
        "--no-sessions",
        action="store_true",
        help="do not read the transcripts of Claude Code and Codex",
    )
    parser.add_argument(
        "--http",
        metavar="PORT",
        type=port,
        help="serve Streamable HTTP on this port of loopback; 0: any that is free",
    )


def names(text: str) -> list[str]:
    """Parse names of tools with commas between them."""
    found = [name.strip() for name in text.split(",")]
    for name in found:
        if name not in TOOLS:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(TOOLS)}")
    return found


def port(text: str) -> int:
    """Parse a port, from 0 to 65535."""
    if not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port; pass a number from 0 to 65535")
    return int(text)


def run(options: argparse.Namespace) -> int:
    """Answer until the input ends, or the process is told to stop."""
    needs_namespace = options.memory is not None or options.threads is not None
    if needs_namespace and not (options.namespace or "").strip():
        raise Failure("--memory and --threads need --namespace NAME: whose they are")
    from rehydrate.integrations.mcp_server.stores import Stores

    return serve(
        Stores(
            memory=options.memory,
            threads=options.threads,
            namespace=options.namespace or "",
            has_sessions=not options.no_sessions,
        ),
        options.tools or TOOLS,
        options.http,
    )


def serve(stores: Stores, tools: Sequence[str], http: int | None = None) -> int:
    """Answer on standard input and output, or on a port of loopback, until it is to end."""
    try:
        from rehydrate.integrations.mcp_server.server import make_server
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("rehydrate"):
            raise
        raise Failure(
            f"the package {error.name} is not installed; python -m pip install 'rehydrate[mcp]'"
        ) from None
    try:
        server = make_server(stores, tools)
        if http is None:
            _serve_stdio(server)
        else:
            _serve_http(server, http)
    finally:
        stores.close()
    return 0


def _serve_stdio(server: Any) -> None:
    import anyio

    from rehydrate.integrations.mcp_server.stdio import serve_stdio

    if sys.stdin is None or sys.stdout is None:
        closed = "input" if sys.stdin is None else "output"
        raise Failure(f"standard {closed} is closed; connect it to who sends the messages")
    if sys.stdin.isatty():
        say("an MCP client starts this command and speaks to it; end with Ctrl-D")
    # The SDK reads in a thread that a Ctrl-C does not wake. All that is stored is on disk already.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    anyio.run(serve_stdio, server)


def _serve_http(server: Any, number: int) -> None:
    from rehydrate.integrations.loopback_http import bound_socket
    from rehydrate.integrations.mcp_server.http import serve_http

    given = os.environ.get(TOKEN_VARIABLE, "")
    is_printable = given.isascii() and given.isprintable() and " " not in given
    if given and (len(given) < MIN_TOKEN_CHARS or not is_printable):
        raise Failure(
            f"${TOKEN_VARIABLE} is no token; set at least {MIN_TOKEN_CHARS} ASCII characters "
            "without blanks, or leave it out and one is made"
        )
    token = given or secrets.token_urlsafe(32)
    try:
        bound = bound_socket(number)
    except OSError as error:
        raise Failure(f"port {number} cannot be used: {error.strerror}; pass another") from None

    def announce(address: str) -> None:
        lines = [f"url: {address}"]
        lines += [f"token in ${TOKEN_VARIABLE}"] if given else [f"token: {token}"]
        write("".join([f"{line}\n" for line in lines]))

    serve_http(server, bound, token, announce)
