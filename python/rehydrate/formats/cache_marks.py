"""Cache marks: where a request says that a cached prefix ends (Anthropic, Bedrock)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rehydrate._native import marks_in, unmarked
from rehydrate.formats._reading import type_of
from rehydrate.formats.thinking import is_thinking

__all__ = ["marks_in", "unmarked"]

MARK = {"type": "ephemeral"}
CACHE_POINT = {"cachePoint": {"type": "default"}}
CACHE_MARKS = ("cache_control", "prompt_cache_breakpoint", "cachePoint")
"""The fields by which a client marks where a cached prefix ends. They move on in each request, and
say nothing to the model."""


def of_anthropic(message: Any) -> Any | None:
    """Return a shallow copy of a message, a tool or a block with a mark on its last fit block.

    None if no block can: thinking and empty texts cannot.

    >>> of_anthropic({"role": "user", "content": "hi"})["content"][0]["cache_control"]
    {'type': 'ephemeral'}
    """
    if "role" not in message:
        return message if _is_marked(message) else {**message, "cache_control": MARK}
    content = message["content"]
    if isinstance(content, str):
        block = {"type": "text", "text": content, "cache_control": MARK}
        return {**message, "content": [block]} if content.strip() else None
    for index in range(len(content) - 1, -1, -1):
        block = content[index]
        if not _is_fit(block):
            continue
        if _is_marked(block):
            return message  # the caller's own mark, which may have another time to live
        block = {"type": "text", "text": block} if isinstance(block, str) else block
        marked = [*content[:index], {**block, "cache_control": MARK}, *content[index + 1 :]]
        return {**message, "content": marked}
    return None


def _is_marked(block: Any) -> bool:
    return isinstance(block, Mapping) and block.get("cache_control") is not None


def _is_fit(block: Any) -> bool:
    if isinstance(block, str):
        return bool(block.strip())
    if not isinstance(block, Mapping) or type_of(block) in ("thinking", "redacted_thinking"):
        return False
    return type_of(block) != "text" or bool(str(block.get("text") or "").strip())


def of_bedrock(message: Any) -> Any | None:
    """Return a message with a cache point after its last fit block, or a tool or a system block and
    the cache point that follows it, as a list; None where there can be none.

    "Cache point cannot be inserted after reasoning block" (2026-07,
    https://github.com/anomalyco/opencode/issues/36517), nor after a document other than a PDF
    (2026-03, https://github.com/strands-agents/harness-sdk/issues/1966).

    >>> of_bedrock({"text": "Be brief."})
    [{'text': 'Be brief.'}, {'cachePoint': {'type': 'default'}}]
    """
    if "role" not in message:
        return message if "cachePoint" in message else [message, CACHE_POINT]
    content = bedrock_blocks(message["content"])
    for at in range(len(content), 0, -1):
        block = content[at - 1]
        if "cachePoint" in block:
            return message  # the caller's own, which may have another time to live
        document = block.get("document")
        is_pdf = not isinstance(document, Mapping) or document.get("format") == "pdf"
        if is_pdf and not is_thinking(block):
            return {**message, "content": [*content[:at], CACHE_POINT, *content[at:]]}
    return None


BREAKPOINT = {"mode": "explicit"}
_MARKED_BY_OPENAI = ("system", "developer", "user", "tool")
"""The roles whose parts can have a breakpoint: the SDK's types of an assistant's have none."""


def of_chat(message: Any) -> Any | None:
    """Return a message of Chat Completions with a breakpoint on its last part; None where there can
    be none.

    >>> of_chat({"role": "user", "content": "hi"})["content"][0]["prompt_cache_breakpoint"]
    {'mode': 'explicit'}
    """
    if message.get("role") not in _MARKED_BY_OPENAI:
        return None
    return _with_breakpoint(message, "content", "text", ("text", "image_url", "input_audio"))


def of_responses(item: Any) -> Any | None:
    """Return an item of Responses with a breakpoint on its last part; None where there can be
    none.

    >>> of_responses({"role": "assistant", "content": "hi"}) is None
    True
    """
    key = "output" if item.get("type") == "function_call_output" else "content"
    if key == "content" and item.get("role") not in _MARKED_BY_OPENAI:
        return None
    return _with_breakpoint(item, key, "input_text", ("input_text", "input_image", "input_file"))


def _with_breakpoint(
    message: Mapping[str, Any], key: str, text_type: str, fit: tuple[str, ...]
) -> Any | None:
    content = message.get(key)
    if isinstance(content, str):
        part = {"type": text_type, "text": content, "prompt_cache_breakpoint": BREAKPOINT}
        return {**message, key: [part]} if content.strip() else None
    last = content[-1] if isinstance(content, (list, tuple)) and content else None
    if content is None or not isinstance(last, Mapping) or last.get("type") not in fit:
        return None
    if "prompt_cache_breakpoint" in last:
        return message  # the caller's own
    return {**message, key: [*content[:-1], {**last, "prompt_cache_breakpoint": BREAKPOINT}]}


def bedrock_blocks(content: object) -> list[Mapping[str, Any]]:
    """Return a content of Converse's as blocks: a string is one text."""
    blocks = [content] if isinstance(content, str) and content else content
    if not isinstance(blocks, (list, tuple)):
        return []
    return [{"text": each} if isinstance(each, str) else each for each in blocks]


def bedrock_tools(body: Mapping[str, Any]) -> Any:
    """Return the tools of a request's `toolConfig`, with their marks; None without one."""
    config = body.get("toolConfig")
    return with_marks(config.get("tools")) if isinstance(config, Mapping) else None


def with_marks(blocks: Any) -> Any:
    """Return a list of tools or blocks with each cache point as a mark on what is before it.

    >>> with_marks([{"text": "Be brief."}, {"cachePoint": {"type": "default"}}])
    [{'text': 'Be brief.', 'cache_control': {'type': 'default'}}]
    """
    if not isinstance(blocks, (list, tuple)):
        return blocks
    made: list[Any] = []
    for block in blocks:
        point = block.get("cachePoint") if isinstance(block, Mapping) else None
        if point is None:
            made.append(block)
        elif made and isinstance(made[-1], Mapping):
            made[-1] = {**made[-1], "cache_control": point}
    return made
