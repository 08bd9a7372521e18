"""A test moves the loop's clock: a timeout passes at once, and none passes by chance."""

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
    """Move the running loop's clock forward by this many seconds."""
    trio = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        trio.lowlevel.current_clock().jump(seconds)
        return
    loop = asyncio.get_running_loop()
    now = loop.time
    loop.time = lambda: now() + seconds
