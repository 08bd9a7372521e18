"""RehydrateMemoryTool: the memory tool of Anthropic's SDK over a Memory, sync and async."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack

from rehydrate._concurrency.async_wrappers import hand_over
from rehydrate._concurrency.workers import STORING
from rehydrate._text import failure_text
from rehydrate.errors import MissingPackageError, RehydrateError
from rehydrate.integrations.memory_tool.memory_files import NAME, FileOptions, MemoryFiles
from rehydrate.integrations.signatures import shows_options

try:
    from anthropic.lib.tools import (
        BetaAbstractMemoryTool,
        BetaAsyncAbstractMemoryTool,
        ToolError,
    )
except ImportError:
    raise MissingPackageError("rehydrate[anthropic]", "brings Anthropic's SDK") from None

if TYPE_CHECKING:
    from anthropic.types.beta import BetaCacheControlEphemeralParam

    from rehydrate.memory.memory import Memory


class _Tool:
    """The part that both tools share."""

    @shows_options(FileOptions, givers=[MemoryFiles])
    def __init__(
        self,
        memory: Memory,
        *,
        cache_control: BetaCacheControlEphemeralParam | None = None,
        **options: Unpack[FileOptions],
    ) -> None:
        """Take the memory; raises InvalidArgumentError as `MemoryFiles` does."""
        super().__init__(cache_control=cache_control)  # type: ignore[call-arg]  # the SDK's
        self.files = MemoryFiles(memory, **options)


class RehydrateMemoryTool(_Tool, BetaAbstractMemoryTool):
    """Pass it to ``client.beta.messages.tool_runner(tools=[...])``.

    ``files`` are the `MemoryFiles` that it works on; its options are their arguments.

    >>> import tempfile
    >>> from rehydrate import Memory
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Memory.open(f"{folder}/m.db", namespace="alice") as memory:
    ...         tool = RehydrateMemoryTool(memory)
    ...         tool.call({"command": "create", "path": "/memories/a.md", "file_text": "Hello."})
    'File created successfully at: /memories/a.md'
    """

    def call(self, input: object) -> str:  # noqa: A002  the SDK's word
        """Carry out a command; raises ToolError with the text that the model reads."""
        return _answered(self.files, input)

    def execute(self, command: Any) -> str:
        """Carry out a command of the SDK's types."""
        return self.call(command.model_dump(exclude_none=True))

    view = create = str_replace = insert = delete = rename = execute

    def clear_all_memory(self) -> str:
        """Delete all files."""
        self.files.clear()
        return "All memory cleared"


class AsyncRehydrateMemoryTool(_Tool, BetaAsyncAbstractMemoryTool):
    """The same for an ``AsyncAnthropic``."""

    async def call(self, input: object) -> str:  # noqa: A002  the SDK's word
        """Carry out a command; raises ToolError with the text that the model reads."""
        return await hand_over(lambda: _answered(self.files, input), STORING)

    async def execute(self, command: Any) -> str:
        """Carry out a command of the SDK's types."""
        return await self.call(command.model_dump(exclude_none=True))

    view = create = str_replace = insert = delete = rename = execute

    async def clear_all_memory(self) -> str:
        """Delete all files."""
        await self.files.aclear()
        return "All memory cleared"


def _answered(files: MemoryFiles, arguments: object) -> str:
    try:
        text, is_error = files.answer(arguments if isinstance(arguments, Mapping) else {})
    except RehydrateError as error:  # the store's: do not show the model its path
        raise ToolError(f"{failure_text(error, NAME)}; go on without it") from error
    if is_error:
        raise ToolError(text)
    return text
