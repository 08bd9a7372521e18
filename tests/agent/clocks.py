"""The loop's clock in the test's hand: what is late is late at once, and nothing else ever is."""

import asyncio
import sys

import anyio


def run(main, backend):
    """`anyio.run`, on trio with a clock that only jumps."""
    options = {}
    if backend == "trio":
        from trio.testing import MockClock

        options = {"clock": MockClock()}
    return anyio.run(main, backend=backend, backend_options=options)


def jump(seconds):
    """Let so many seconds pass on the running loop."""
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        trio.lowlevel.current_clock().jump(seconds)
        return
    loop = asyncio.get_running_loop()
    now = loop.time
    loop.time = lambda: now() + seconds
