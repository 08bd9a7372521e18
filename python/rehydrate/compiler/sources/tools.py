"""tools: the definitions of the tools that the model may call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rehydrate.compiler.counts import counted_tools
from rehydrate.compiler.sources.source import Found, HydrationSource
from rehydrate.errors import InvalidArgumentError
from rehydrate.ir import Priority, ToolDef


def tools(definitions: Iterable[Any]) -> HydrationSource:
    """Definitions in any provider's shape, in the order given, each counted.

    Raises InvalidArgumentError for what is no tool, and for a second one of the same name.

    >>> tools([{"name": "grep", "input_schema": {"type": "object"}}]).kind
    'tools'
    """
    read = read_tools(definitions)
    return HydrationSource(
        "tools",
        lambda _: Found(tools=tuple(counted_tools(read))),
        priority=Priority.CRITICAL,
        deadline_ms=None,
        blocking=False,
        kind="tools",
    )


def read_tools(definitions: Iterable[Any]) -> tuple[ToolDef, ...]:
    """The definitions, read; raises InvalidArgumentError for what is no list of them, and for a
    second one of the same name.

    >>> read_tools({"name": "grep"})
    Traceback (most recent call last):
    rehydrate.errors.InvalidArgumentError: tools is of type dict; pass a list of tool definitions
    """
    if isinstance(definitions, (str, bytes, Mapping)) or not isinstance(definitions, Iterable):
        raise InvalidArgumentError(
            f"tools is of type {type(definitions).__name__}; pass a list of tool definitions"
        )
    read = tuple([ToolDef.read(definition) for definition in definitions])
    names: set[str] = set()
    for tool in read:
        if tool.name in names:
            raise InvalidArgumentError(
                f"two tools are named {tool.name!r}; a model cannot tell them apart: rename one"
            )
        names.add(tool.name)
    return read
