"""Shape of a Messages request: the fields that the API accepts, and no others."""

from __future__ import annotations

import functools
from typing import Annotated, Any

from pydantic import BaseModel, Discriminator, Field, Tag

from tests.provider.shapes import literal, shape, some, string_or, text

_ID = text(pattern=r"^[a-zA-Z0-9_-]+$")
_MARK = (shape("Mark", type=literal("ephemeral"), ttl=(literal("5m", "1h"), "5m")) | None, None)
_LIST = (list[Any] | None, None)
_DICT = dict[str, Any]

# Results of server tools; their content is not checked.
_SERVER_RESULTS = (
    "web_search_tool_result",
    "web_fetch_tool_result",
    "code_execution_tool_result",
    "bash_code_execution_tool_result",
    "text_editor_code_execution_tool_result",
    "tool_search_tool_result",
)


def _block(kind: str, **fields: Any) -> Any:
    return shape(kind, type=literal(kind), **fields)


_TEXT = _block("text", text=str, cache_control=_MARK, citations=_LIST)
_IMAGE = _block("image", source=_DICT, cache_control=_MARK, transformations=_LIST)
_DOCUMENT = _block(
    "document",
    source=_DICT,
    cache_control=_MARK,
    citations=(_DICT | None, None),
    context=(str | None, None),
    title=(str | None, None),
)
_SEARCH_RESULT = _block(
    "search_result",
    content=some(_TEXT),
    source=str,
    title=str,
    cache_control=_MARK,
    citations=(_DICT | None, None),
)


def _one_of(blocks: list[Any]) -> Any:
    union = blocks[0]
    for block in blocks[1:]:
        union = union | block
    return Annotated[union, Field(discriminator="type_")]


_RESULT_PART = _one_of([_TEXT, _IMAGE, _DOCUMENT, _SEARCH_RESULT])
_RESULT = _block(
    "tool_result",
    tool_use_id=_ID,
    content=(string_or(some(_RESULT_PART), "text"), None),
    is_error=(bool, False),
    cache_control=_MARK,
    toolset_name=(str | None, None),
)
BLOCKS = [
    _TEXT,
    _IMAGE,
    _DOCUMENT,
    _SEARCH_RESULT,
    _RESULT,
    _block(
        "tool_use",
        id=_ID,
        name=text(pattern=r"^[a-zA-Z0-9_-]{1,200}$"),
        input=_DICT,
        cache_control=_MARK,
        caller=(_DICT, None),
        toolset_name=(str | None, None),
    ),
    _block("thinking", thinking=str, signature=str),
    _block("redacted_thinking", data=str),
    _block(
        "server_tool_use",
        id=text(pattern=r"^srvtoolu_[a-zA-Z0-9_]+$"),
        name=str,
        input=_DICT,
        cache_control=_MARK,
        caller=(_DICT, None),
    ),
    _block("container_upload", file_id=str, cache_control=_MARK),
    _block(
        "compaction",
        content=str | None,
        signature=(str | None, None),
        encrypted_content=(str | None, None),
        tool_changes=_LIST,
        cache_control=_MARK,
    ),
    *(
        _block(
            kind,
            tool_use_id=text(pattern=r"^srvtoolu_[a-zA-Z0-9_]+$"),
            content=Any,
            cache_control=_MARK,
            caller=(_DICT, None),
        )
        for kind in _SERVER_RESULTS
    ),
]


_TOOL = shape(
    "custom",
    name=text(pattern=r"^[a-zA-Z0-9_-]{1,128}$"),
    input_schema=shape("input_schema", loose=True, type=literal("object")),
    description=(str, ""),
    type=(literal("custom") | None, "custom"),
    cache_control=_MARK,
    strict=(bool, False),
    defer_loading=(bool, False),
    eager_input_streaming=(bool | None, None),
    allowed_callers=(list[str], None),
    input_examples=(list[_DICT], None),
)
_SERVER_TOOL = shape("server tool", loose=True, type=str, name=str, cache_control=_MARK)


def _kind_of_tool(tool: object) -> str:
    kind = tool.get("type") if isinstance(tool, dict) else None
    return "custom" if kind in (None, "custom") else "server"


_TOOLS = Annotated[
    Annotated[_TOOL, Tag("custom")] | Annotated[_SERVER_TOOL, Tag("server")],
    Discriminator(_kind_of_tool),
]
_BINDING = (
    shape(
        "block_binding",
        prefix_mismatch_behavior=(literal("error", "drop_block") | None, None),
    )
    | None,
    None,
)
_THINKING = _one_of(
    [
        _block(
            "enabled",
            budget_tokens=Annotated[int, Field(ge=1024)],
            display=(literal("summarized", "omitted") | None, None),
            block_binding=_BINDING,
        ),
        _block(
            "adaptive",
            display=(literal("summarized", "omitted") | None, None),
            block_binding=_BINDING,
        ),
        _block("between_tools"),
        _block("disabled"),
    ]
)
_COMPACTION = shape("compaction", type=literal("summarize"), instructions=(str | None, None))
_PARALLEL = (bool, False)
_CHOICE = _one_of(
    [
        _block("auto", disable_parallel_tool_use=_PARALLEL),
        _block("any", disable_parallel_tool_use=_PARALLEL),
        _block("tool", name=str, disable_parallel_tool_use=_PARALLEL),
        _block("none"),
    ]
)


def _fields(extra: list[Any]) -> dict[str, Any]:
    message = shape(
        "message",
        role=literal("user", "assistant"),
        content=string_or(some(_one_of([*BLOCKS, *extra])), "text"),
    )
    return {
        "model": text(min_length=1),
        "messages": some(message),
        "system": (string_or(some(_TEXT), "text"), None),
        "tools": (some(_TOOLS), None),
        "tool_choice": (_CHOICE, None),
        "thinking": (_THINKING, None),
        "cache_control": _MARK,
        "output_config": (_DICT, None),
        "compaction": (_COMPACTION | None, None),
        "context_management": (_DICT | None, None),
    }


@functools.cache
def request_shape(extra_blocks: tuple[str, ...] = ()) -> tuple[type[BaseModel], type[BaseModel]]:
    """Return the shapes of a request and of a count_tokens request.

    `extra_blocks` are block types of a newer API.
    """
    extra = [shape(kind, loose=True, type=literal(kind)) for kind in extra_blocks]
    fields = _fields(extra)
    request = shape(
        "request",
        **fields,
        max_tokens=Annotated[int, Field(ge=1)],
        stream=(bool, False),
        stop_sequences=(list[str], None),
        temperature=(Annotated[float, Field(ge=0, le=1)], 1.0),
        top_p=(Annotated[float, Field(ge=0, le=1)], None),
        top_k=(int, None),
        metadata=(shape("metadata", user_id=(str | None, None)), None),
        service_tier=(literal("auto", "standard_only"), "auto"),
        speed=(literal("standard", "fast") | None, None),
        container=(Any, None),
        diagnostics=(Any, None),
        inference_geo=(str | None, None),
    )
    return request, shape("count", **fields)
