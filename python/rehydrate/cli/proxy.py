"""`rehydrate proxy`: an address that takes the place of a provider's, for any client."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from rehydrate.cli.mcp import port
from rehydrate.cli.memory_store import SERVER
from rehydrate.cli.options import add_command
from rehydrate.cli.terminal import Failure, say, write

if TYPE_CHECKING:
    from rehydrate.context.threads import Threads

PORT = 8787

_EXAMPLES = """\
examples:
  rehydrate proxy
  ANTHROPIC_BASE_URL=http://127.0.0.1:8787 claude
  OPENAI_BASE_URL=http://127.0.0.1:8787/v1 codex
  rehydrate proxy --upstream openai=http://127.0.0.1:11434 --budget 16000
  rehydrate proxy --dry-run

Requests pass as the client wrote them until one is over the budget. Then its messages are
compacted, and later requests extend what was sent. The header x-rehydrate says what was done.
http://127.0.0.1:8787/rehydrate/ shows it.
"""


def add_parser(commands: Any) -> None:
    """Declare the command and its options."""
    parser = add_command(
        commands,
        "proxy",
        help="keep the requests of any client within a budget, on their way to the provider",
        description="Serve an address that takes the place of Anthropic's and OpenAI's. "
        "Conversations that get too long are compacted on the way; all else passes.",
        epilog=_EXAMPLES,
        run=run,
    )
    parser.add_argument(
        "--port", metavar="PORT", type=port, default=PORT, help="0: any that is free"
    )
    parser.add_argument(
        "--host",
        metavar="ADDRESS",
        default="127.0.0.1",
        help="an address of this machine; any but 127.0.0.1 lets other machines in",
    )
    parser.add_argument(
        "--upstream",
        metavar="URL",
        action="append",
        default=[],
        help="where requests go on to, or anthropic=URL, or openai=URL; may be repeated",
    )
    parser.add_argument(
        "--budget",
        metavar="TOKENS",
        type=budget,
        help="compact a request above this; the default is a quarter of the model's window, and "
        "at most 100,000",
    )
    parser.add_argument(
        "--threads",
        metavar="FILE",
        help=f"keep what was compacted for the next start, in a file or {SERVER}",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="send all as it is, and say what would be done"
    )
    parser.add_argument("--quiet", action="store_true", help="no line for each request")


def budget(text: str) -> int:
    """Parse a number of tokens, from 1,000 up."""
    if not text.isdecimal() or int(text) < 1_000:
        raise argparse.ArgumentTypeError(f"{text!r} is too few tokens; pass 1000 or more")
    return int(text)


def run(options: argparse.Namespace) -> int:
    """Serve until the process is told to stop."""
    try:
        from rehydrate.integrations import loopback_http
        from rehydrate.integrations.proxy import app
        from rehydrate.integrations.proxy.shortening import LOGGER, Shortener
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("rehydrate"):
            raise
        raise Failure(
            f"the package {error.name} is not installed; python -m pip install 'rehydrate[proxy]'"
        ) from None
    upstreams = app.upstreams_of(options.upstream)
    threads = _opened(options.threads)
    _log(LOGGER, options.quiet)
    shortener = Shortener(budget_tokens=options.budget, threads=threads)
    proxy = app.Proxy(
        shortener, upstreams, is_dry_run=options.dry_run, is_storing=threads is not None
    )
    try:
        bound = loopback_http.bound_socket(options.port, options.host)
    except OSError as error:
        raise Failure(
            f"{options.host} port {options.port} cannot be used: {error.strerror}; pass another"
        ) from None
    import uvicorn

    config = loopback_http.config_of(
        proxy.app, log_level="critical", server_header=False, date_header=False, ws="none"
    )
    number = bound.getsockname()[1]
    write(f"url: http://{options.host}:{number}\n")
    say(f"pages: http://{options.host}:{number}/rehydrate/")
    try:
        uvicorn.Server(config).run(sockets=[bound])
    finally:
        if threads is not None:
            threads.close()
    return 0


def _opened(place: str | None) -> Threads | None:
    if place is None:
        return None
    from rehydrate.context.threads import Threads

    return Threads.open(place)


def _log(name: str, is_quiet: bool) -> None:
    """Log a line for each request to standard error."""
    import logging

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    logger = logging.getLogger(name)
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING if is_quiet else logging.INFO)
    logger.propagate = False
