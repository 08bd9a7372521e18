"""ToolRunner: calls that hang are left running, and counted."""

import threading

import anyio
import anyio.lowlevel
import pytest

from rehydrate.agent import ToolError
from rehydrate.agent.tool_calls import MAX_HANGING_CALLS, ToolRunner
from tests.agent.script import BACKENDS

both = pytest.mark.parametrize("backend", BACKENDS)


@both
def test_a_tool_whose_calls_never_come_back_is_called_no_more_until_they_have(backend):
    release = threading.Event()

    def hangs():
        release.wait(60)

    async def main():
        threads = ToolRunner()
        for _ in range(MAX_HANGING_CALLS):
            with anyio.CancelScope() as scope:
                scope.cancel()
                await threads.run("hangs", hangs)
        with pytest.raises(ToolError, match="32 calls of hangs have not come back"):
            await threads.run("hangs", hangs)
        assert await threads.run("other", lambda: "here") == "here"
        release.set()
        while True:
            try:
                return await threads.run("hangs", lambda: "again")
            except ToolError:
                await anyio.lowlevel.checkpoint()

    try:
        assert anyio.run(main, backend=backend) == "again"
    finally:
        release.set()


@both
def test_calls_that_fail_are_no_calls_that_hang(backend):
    async def main():
        threads = ToolRunner()
        for _ in range(MAX_HANGING_CALLS + 1):
            with pytest.raises(ZeroDivisionError):
                await threads.run("fails", lambda: 1 / 0)

    anyio.run(main, backend=backend)
