"""Shape of a chat request: the fields that the API accepts, and no others."""

from __future__ import annotations

import functools
from typing import Annotated, Any

from pydantic import BaseModel, Discriminator, Field, Tag

from tests.provider.openai_tools import NAME
from tests.provider.shapes import TAG, by_type, literal, shape, some, string_or, text

_DICT = dict[str, Any]
_BREAKPOINT = (_DICT, None)
_NAME = text(pattern=NAME, max_length=64)


def _part(kind: str, **fields: Any) -> Any:
    return shape(kind, type=literal(kind), prompt_cache_breakpoint=_BREAKPOINT, **fields)


_TEXT = _part("text", text=str)
_IMAGE_URL = shape(
    "image_url", url=str, detail=(literal("auto", "low", "high", "original"), "auto")
)
_TEXTS = by_type({"text": _TEXT})
_USER_PARTS = by_type(
    {
        "text": _TEXT,
        "image_url": _part("image_url", image_url=_IMAGE_URL),
        "input_audio": _part("input_audio", input_audio=_DICT),
        "file": _part("file", file=_DICT),
    }
)
_ASSISTANT_PARTS = by_type(
    {"text": _TEXT, "refusal": shape("refusal", type=literal("refusal"), refusal=str)}
)


def _content(parts: Any) -> Any:
    return string_or(some(parts, min_length=1), "text")


_FUNCTION_CALL = shape("function", name=_NAME, arguments=str)
_CALLS = by_type(
    {
        "function": shape(
            "call", id=text(max_length=40), type=literal("function"), function=_FUNCTION_CALL
        ),
        "custom": shape(
            "call",
            id=text(max_length=40),
            type=literal("custom"),
            custom=shape("custom", name=_NAME, input=str),
        ),
    }
)
_SPEAKER = (text(pattern=r"^[^\s<|\\/>]+$", max_length=64), None)


def _message(role: str, **fields: Any) -> Any:
    return shape(role, role=literal(role), **fields)


MESSAGES = {
    "system": _message("system", content=_content(_TEXTS), name=_SPEAKER),
    "developer": _message("developer", content=_content(_TEXTS), name=_SPEAKER),
    "user": _message("user", content=_content(_USER_PARTS), name=_SPEAKER),
    "assistant": _message(
        "assistant",
        content=(_content(_ASSISTANT_PARTS) | None, None),
        # The SDK's own dump of a message has null for the calls that it does not make.
        tool_calls=(some(_CALLS, min_length=1) | None, None),
        function_call=(_FUNCTION_CALL | None, None),
        refusal=(str | None, None),
        audio=(shape("audio", id=str) | None, None),
        name=_SPEAKER,
    ),
    "tool": _message("tool", content=_content(_TEXTS), tool_call_id=str),
    "function": _message("function", content=str | None, name=_NAME),
}
_MESSAGES = by_type(MESSAGES, key="role")
_FUNCTION = shape(
    "function",
    name=_NAME,
    description=(str, ""),
    parameters=(_DICT, None),
    strict=(bool | None, None),
)
_TOOLS = by_type(
    {
        "function": shape("tool", type=literal("function"), function=_FUNCTION),
        "custom": shape("tool", type=literal("custom"), custom=_DICT),
    }
)


def _kind_of_choice(choice: object) -> str:
    return f"{TAG}object" if isinstance(choice, dict) else f"{TAG}word"


CHOICE = Annotated[
    Annotated[literal("none", "auto", "required"), Tag(f"{TAG}word")]
    | Annotated[_DICT, Tag(f"{TAG}object")],
    Discriminator(_kind_of_choice),
]


def sampling() -> dict[str, Any]:
    """Return the fields that both OpenAI APIs have."""
    return {
        "model": text(min_length=1),
        "stream": (bool | None, None),
        "store": (bool | None, None),
        "metadata": (_DICT | None, None),
        "temperature": (Annotated[float, Field(ge=0, le=2)] | None, None),
        "top_p": (Annotated[float, Field(ge=0, le=1)] | None, None),
        "top_logprobs": (int | None, None),
        "tool_choice": (CHOICE, None),
        "parallel_tool_calls": (bool | None, None),
        "prompt_cache_key": (str | None, None),
        "prompt_cache_options": (_DICT, None),
        "prompt_cache_retention": (literal("in_memory", "24h") | None, None),
        "safety_identifier": (str | None, None),
        "service_tier": (str | None, None),
        "stream_options": (_DICT | None, None),
        "moderation": (_DICT | None, None),
        "user": (str, ""),
    }


@functools.cache
def request_shape() -> type[BaseModel]:
    return shape(
        "request",
        **sampling(),
        messages=some(_MESSAGES, min_length=1),
        tools=(some(_TOOLS, min_length=1), None),
        functions=(list[_DICT], None),
        function_call=(Any, None),
        max_tokens=(int | None, None),
        max_completion_tokens=(int | None, None),
        frequency_penalty=(float | None, None),
        presence_penalty=(float | None, None),
        logit_bias=(_DICT | None, None),
        logprobs=(bool | None, None),
        modalities=(list[str] | None, None),
        audio=(_DICT | None, None),
        n=(int | None, None),
        prediction=(_DICT | None, None),
        reasoning_effort=(str | None, None),
        response_format=(_DICT, None),
        seed=(int | None, None),
        stop=(str | list[str] | None, None),
        verbosity=(literal("low", "medium", "high") | None, None),
        web_search_options=(_DICT, None),
    )
