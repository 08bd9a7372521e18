"""Shape of a Responses request: the fields that the API accepts, and no others."""

from __future__ import annotations

import functools
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Discriminator, Tag

from tests.provider.chat_shape import sampling
from tests.provider.openai_tools import NAME
from tests.provider.shapes import TAG, by_type, literal, shape, some, string_or, text

_DICT = dict[str, Any]
_BREAKPOINT = (_DICT | None, None)
_STATUS = (literal("in_progress", "completed", "incomplete"), None)
_PHASE = (literal("commentary", "final_answer") | None, None)
_CALL_ID = text(min_length=1, max_length=64)
_ID = (text(max_length=64), None)
_CALLER = (_DICT | None, None)
_DETAIL = (literal("auto", "low", "high", "original"), "auto")

_INPUT_PARTS = by_type(
    {
        "input_text": shape(
            "part", type=literal("input_text"), text=str, prompt_cache_breakpoint=_BREAKPOINT
        ),
        "input_image": shape(
            "part",
            type=literal("input_image"),
            image_url=(str | None, None),
            file_id=(str | None, None),
            detail=_DETAIL,
            prompt_cache_breakpoint=_BREAKPOINT,
        ),
        "input_file": shape("part", loose=True, type=literal("input_file")),
    }
)
_OUTPUT_PARTS = by_type(
    {
        "output_text": shape(
            "part",
            type=literal("output_text"),
            text=str,
            annotations=(list[Any], []),
            logprobs=(list[Any] | None, None),
        ),
        "refusal": shape("part", type=literal("refusal"), refusal=str),
    }
)


_ROLES = ("user", "assistant", "system", "developer")


def _item(kind: str, **fields: Any) -> Any:
    return shape(kind, type=literal(kind), **fields)


def _message(roles: tuple[str, ...], parts: Any, short: str) -> Any:
    return shape(
        "message",
        type=(literal("message"), "message"),
        id=_ID,
        role=literal(*roles),
        content=string_or(some(parts), short),
        status=_STATUS,
        phase=_PHASE,
    )


_OUTPUT = string_or(some(_INPUT_PARTS), "input_text")
ITEMS = {
    "reasoning": _item(
        "reasoning",
        id=text(max_length=64),
        summary=some(shape("summary", type=literal("summary_text"), text=str)),
        content=(list[_DICT] | None, None),
        encrypted_content=(str | None, None),
        status=_STATUS,
    ),
    "function_call": _item(
        "function_call",
        id=_ID,
        call_id=_CALL_ID,
        name=text(pattern=NAME, max_length=64),
        arguments=str,
        status=_STATUS,
        caller=_CALLER,
        namespace=(str, None),
    ),
    "function_call_output": _item(
        "function_call_output",
        id=(text(max_length=64) | None, None),
        call_id=_CALL_ID,
        output=_OUTPUT,
        status=(literal("in_progress", "completed", "incomplete") | None, None),
        caller=_CALLER,
        name=(str | None, None),
        namespace=(str | None, None),
    ),
    "custom_tool_call": _item(
        "custom_tool_call",
        id=_ID,
        call_id=_CALL_ID,
        name=str,
        input=str,
        caller=_CALLER,
        namespace=(str, None),
    ),
    "custom_tool_call_output": _item(
        "custom_tool_call_output", id=_ID, call_id=_CALL_ID, output=_OUTPUT, caller=_CALLER
    ),
    "item_reference": _item("item_reference", id=str),
    "compaction": _item("compaction", id=(str | None, None), encrypted_content=str),
}
# Items whose content is not checked.
_OTHERS = (
    *("computer_call", "computer_call_output", "local_shell_call", "local_shell_call_output"),
    *("shell_call", "shell_call_output", "apply_patch_call", "apply_patch_call_output"),
    *("file_search_call", "web_search_call", "image_generation_call", "code_interpreter_call"),
    *("mcp_list_tools", "mcp_approval_request", "mcp_approval_response", "mcp_call"),
    *("tool_search_call", "tool_search_output", "compaction_trigger"),
    *("additional_tools", "configuration_update", "program", "program_output"),
)


def _kind_of_item(item: object) -> str:
    if not isinstance(item, dict):
        return TAG
    return f"{TAG}{item.get('type', 'message' if 'role' in item else '')}"


def _writer(message: object) -> str:
    is_model = isinstance(message, dict) and message.get("role") == "assistant"
    return f"{TAG}model" if is_model else f"{TAG}client"


_MESSAGES = Annotated[
    Annotated[_message(("assistant",), _OUTPUT_PARTS, "output_text"), Tag(f"{TAG}model")]
    | Annotated[_message(_ROLES, _INPUT_PARTS, "input_text"), Tag(f"{TAG}client")],
    Discriminator(_writer),
]


def _items() -> Any:
    others = {kind: shape(kind, loose=True, type=literal(kind)) for kind in _OTHERS}
    union: Any = Annotated[_MESSAGES, Tag(f"{TAG}message")]
    for kind, model in (ITEMS | others).items():
        union = union | Annotated[model, Tag(f"{TAG}{kind}")]
    return Annotated[union, Discriminator(_kind_of_item)]


def items_of(given: object) -> object:
    """Return an input as items; a string stands for one user message."""
    return [{"role": "user", "content": given}] if isinstance(given, str) else given


_FUNCTION = shape(
    "tool",
    type=literal("function"),
    name=text(pattern=NAME, max_length=64),
    description=(str | None, None),
    parameters=(_DICT | None, None),
    strict=(bool | None, None),
    defer_loading=(bool, False),
    allowed_callers=(list[str] | None, None),
    output_schema=(_DICT | None, None),
)


def _kind_of_tool(tool: object) -> str:
    is_function = isinstance(tool, dict) and tool.get("type") == "function"
    return f"{TAG}function" if is_function else f"{TAG}other"


_TOOLS = Annotated[
    Annotated[_FUNCTION, Tag(f"{TAG}function")]
    | Annotated[shape("tool", loose=True, type=str), Tag(f"{TAG}other")],
    Discriminator(_kind_of_tool),
]


@functools.cache
def compact_shape() -> type[BaseModel]:
    """Return the shape of a request to compact."""
    return shape(
        "compact",
        model=str,
        input=(Annotated[some(_items()), BeforeValidator(items_of)] | None, None),
        instructions=(str | None, None),
        previous_response_id=(str | None, None),
        prompt_cache_key=(str | None, None),
        prompt_cache_options=(Any, None),
        prompt_cache_retention=(Any, None),
        service_tier=(Any, None),
    )


@functools.cache
def request_shape() -> type[BaseModel]:
    return shape(
        "request",
        **sampling(),
        input=(Annotated[some(_items()), BeforeValidator(items_of)] | None, None),
        instructions=(str | None, None),
        tools=(some(_TOOLS), None),
        previous_response_id=(str | None, None),
        include=(list[str] | None, None),
        max_output_tokens=(int | None, None),
        max_tool_calls=(int | None, None),
        reasoning=(_DICT | None, None),
        text=(_DICT, None),
        truncation=(literal("auto", "disabled") | None, None),
        background=(bool | None, None),
        context_management=(list[_DICT] | None, None),
        conversation=(Any, None),
        prompt=(Any, None),
    )
