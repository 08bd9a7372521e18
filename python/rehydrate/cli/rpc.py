"""`rehydrate rpc`: compact_context over JSON-RPC 2.0 on standard input and output."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from rehydrate.cli.memory_store import add_memory_options, opened_memory
from rehydrate.cli.options import add_command
from rehydrate.cli.terminal import Failure, say, write

_EXAMPLES = """\
Requests are read as they come: a line each, pretty-printed, one behind the other or with
Content-Length headers. Each reply is one line. The end of the input ends the command, after the
last reply. An MCP client starts it with the command "rehydrate rpc"; initialize is not needed.

methods: initialize, ping, tools/list, tools/call

example:
  echo '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"compact_context",
    "arguments":{"messages":[{"role":"user","content":"hello"}]}}}' | rehydrate rpc
"""


def add_parser(commands: Any) -> None:
    """Declare the command and its options."""
    parser = add_command(
        commands,
        "rpc",
        help="answer JSON-RPC requests on standard input",
        description="Serve the tool compact_context over JSON-RPC 2.0 on standard input and "
        "output, as the Model Context Protocol does.",
        epilog=_EXAMPLES,
        run=run,
    )
    add_memory_options(parser)


def run(options: argparse.Namespace) -> int:
    """Answer until the input ends."""
    from rehydrate.rpc.server import serve

    if sys.stdin is None or sys.stdout is None:
        closed = "input" if sys.stdin is None else "output"
        raise Failure(f"standard {closed} is closed; connect it to who sends the requests")
    if sys.stdin.isatty():
        say("reading JSON-RPC requests from the terminal; end with Ctrl-D")
    with opened_memory(options) as memory:
        serve(_read, write, memory)
    return 0


def _read(size: int) -> bytes:
    """Return the bytes that have come so far, without waiting for more."""
    try:
        return os.read(sys.stdin.fileno(), size)
    except OSError as error:
        reason = error.strerror or error
        raise Failure(f"standard input cannot be read: {reason}") from None
