"""`rehydrate proxy`: an address in place of a provider's, for any client."""

from __future__ import annotations

import argparse
import sys

from rehydrate.cli.memory_store import SERVER
from rehydrate.cli.options import PORT, Commands, count, number, option
from rehydrate.cli.terminal import say, write

_CACHE_BYTES = 16 << 20
"""Size of the cache of texts: enough for 300 conversations of 50,000 tokens at the same time."""
_BUDGET = number(1_000, 1e15, "isn't a number of tokens from 1000 up; pass 20000 or 20k", count)


command = Commands()


@command(
    "keep the requests of any client within a budget, on their way to the provider",
    option("--port PORT", "0: any that is free", PORT, 8787),
    option("--host ADDRESS", "another than loopback lets other machines in", str, "127.0.0.1"),
    option(
        "--upstream URL",
        "where requests go on to; also anthropic=URL, openai=URL; may be repeated",
        action="append",
    ),
    option(
        "--budget TOKENS",
        "compact a request above this; default: a quarter of the model's window, at most 100k",
        _BUDGET,
    ),
    option("--threads FILE", f"keep what was compacted, for the next start: a file, or {SERVER}"),
    option("--ask-back", "let the model ask for what was left out; the proxy answers it"),
    option("--dry-run", "send all as it is, and say what would be done"),
    option("--quiet", "no line for each request"),
    epilog="""\
examples:
  rehydrate proxy
  ANTHROPIC_BASE_URL=http://127.0.0.1:8787 claude
  OPENAI_BASE_URL=http://127.0.0.1:8787/v1 codex
  rehydrate proxy --upstream openai=http://127.0.0.1:11434 --budget 16000
  rehydrate proxy --dry-run

Requests pass as the client wrote them until one is over the budget. Then its messages are
compacted, and later requests extend what was sent. The header x-rehydrate says what was done.
http://127.0.0.1:8787/rehydrate/ shows it.
""",
)
def _proxy(options: argparse.Namespace) -> None:
    from rehydrate.agent.telemetry import program_telemetry
    from rehydrate.context.threads import Threads
    from rehydrate.integrations.proxy import app
    from rehydrate.integrations.proxy.kept import LOGGER
    from rehydrate.integrations.proxy.shortening import Shortener
    from rehydrate.process import cache_limit

    upstreams = app.upstreams_of(options.upstream or [])
    cache_limit(_CACHE_BYTES)
    threads = None if options.threads is None else Threads.open(options.threads)
    _log(LOGGER, options.quiet)
    shortener = Shortener(budget_tokens=options.budget, threads=threads, asks_back=options.ask_back)
    proxy = app.Proxy(
        shortener,
        upstreams,
        is_dry_run=options.dry_run,
        is_storing=threads is not None,
        telemetry=program_telemetry(),
    )
    bound = app.bound_socket(options.port, options.host)
    host = f"[{options.host}]" if ":" in options.host else options.host
    url = f"http://{host}:{bound.getsockname()[1]}"
    write(f"url: {url}\n")
    say(f"pages: {url}/rehydrate/")
    try:
        proxy.server().run(sockets=[bound])
    finally:
        if threads is not None:
            threads.close()


def _log(name: str, is_quiet: bool) -> None:
    """Log a line for each request to standard error."""
    import logging

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    logger = logging.getLogger(name)
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING if is_quiet else logging.INFO)
    logger.propagate = False
