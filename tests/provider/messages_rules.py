"""Rules of the Messages API beyond the shape of a request: order, pairs, marks, limits.

Written from the API's documentation and its error messages. The API joins consecutive messages of
one role, so consecutive messages of the assistant are one turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from tests.provider.errors import RefusedError

_MAX_MARKS = 4
_DOCS = "Please consult our documentation at https://docs.claude.com/en/docs/build-with-claude"
_THINKING = ("thinking", "redacted_thinking")
_OF_USER = ("tool_result",)
_OF_ASSISTANT = ("tool_use", "server_tool_use", "compaction", *_THINKING)

Block = Mapping[str, Any]


def blocks_of(content: object) -> list[Any]:
    """Return a content as blocks; a string stands for one text block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content if isinstance(content, list) else []


def without_system(request: Mapping[str, Any], *, takes_system: bool) -> Mapping[str, Any]:
    """Return the request as the other checks want it: without its system messages.

    Raises RefusedError for the first that must not be where it is. The API checks this before
    the shape of the request.
    """
    messages = request.get("messages")
    spoken = messages if isinstance(messages, list) else []
    roles = [message.get("role") if isinstance(message, dict) else None for message in spoken]
    for index, role in enumerate(roles):
        if role != "system":
            continue
        if not takes_system:
            words = (
                'Unexpected role "system". The Messages API accepts a top-level `system` '
                'parameter, not "system" as an input message role.'
            )
            raise RefusedError(f"messages: {words}")
        if not index or not _can_precede_system(spoken[index - 1]):
            words = "a `system` message must immediately follow a `user` message"
            raise RefusedError(f"messages.{index}: {words}")
        if index + 1 < len(roles) and roles[index + 1] != "assistant":
            words = "a `system` message must be last or be followed by an `assistant` message"
            raise RefusedError(f"messages.{index}: {words}")
        if not spoken[index].get("content"):
            raise RefusedError(f"messages.{index}: system messages must have non-empty content")
    if "system" not in roles:
        return request
    others = [each for each, role in zip(spoken, roles, strict=True) if role != "system"]
    return {**request, "messages": others}


def _can_precede_system(message: Mapping[str, Any]) -> bool:
    blocks = blocks_of(message["content"])
    is_server_result = bool(blocks) and blocks[-1]["type"].endswith("_tool_result")
    return message["role"] == "user" or (message["role"] == "assistant" and is_server_result)


def check_rules(request: Mapping[str, Any], *, prefill: bool, needs_tools: bool) -> None:
    """Raise RefusedError for the first broken rule."""
    messages = request["messages"]
    _check_marks(request)
    _check_messages(messages, leading_summary(request))
    # A conversation that is to be summarised may end with the assistant.
    if messages[-1]["role"] == "assistant" and request.get("compaction") is None:
        _check_start(blocks_of(messages[-1]["content"]), prefill)
    _check_system(request)
    _check_tools(request, messages, needs_tools)
    _check_thinking(request)
    _check_pairs(messages)


def leading_summary(request: Mapping[str, Any]) -> Block | None:
    """Return the block of the API's own summary, with which a request may begin."""
    first = request["messages"][0] if request["messages"] else {}
    blocks = blocks_of(first.get("content")) if first.get("role") == "assistant" else []
    return blocks[0] if blocks and blocks[0]["type"] == "compaction" else None


def _check_messages(messages: list[Any], summary: Block | None) -> None:
    if not messages:
        raise RefusedError("messages: at least one message is required")
    if messages[0]["role"] != "user" and summary is None:
        raise RefusedError('messages: first message must use the "user" role')
    for index, message in enumerate(messages):
        role, blocks = message["role"], blocks_of(message["content"])
        is_start = role == "assistant" and index == len(messages) - 1
        if (not blocks or message["content"] == "") and not is_start:
            who = "user" if role == "user" else "all"
            end = "" if role == "user" else " except for the optional final assistant message"
            raise RefusedError(f"messages.{index}: {who} messages must have non-empty content{end}")
        for position, block in enumerate(blocks):
            foreign = _OF_ASSISTANT if role == "user" else _OF_USER
            if block["type"] in foreign:
                owner = "assistant" if role == "user" else "user"
                words = f"`{block['type']}` blocks can only be in `{owner}` messages"
                raise RefusedError(f"messages.{index}.content.{position}: {words}")
        if not is_start:
            _check_texts(blocks)


def _check_texts(blocks: list[Any]) -> None:
    for block in blocks:
        inner = blocks_of(block.get("content")) if block["type"] == "tool_result" else []
        if inner and block["content"] == "":
            inner = []  # a result of no text is a result
        for text in (block, *inner):
            if text["type"] == "text" and not text["text"]:
                raise RefusedError("messages: text content blocks must be non-empty")
    # Models write "\n\n" between thinking and a call, so blank texts are allowed next to others.
    if blocks and all(block["type"] == "text" and block["text"].isspace() for block in blocks):
        raise RefusedError("messages: text content blocks must contain non-whitespace text")


def _check_start(blocks: list[Any], prefill: bool) -> None:
    """Check an assistant message at the end: the reply would continue it."""
    if any(block["type"] == "tool_use" for block in blocks):
        return  # refused by the check of pairs
    if not prefill:
        words = "This model does not support assistant message prefill."
        raise RefusedError(f"{words} The conversation must end with a user message.")
    if blocks and blocks[-1]["type"] == "text":
        text = blocks[-1]["text"]
        if text and text != text.rstrip():
            raise RefusedError(
                "messages: final assistant content cannot end with trailing whitespace"
            )


def _check_system(request: Mapping[str, Any]) -> None:
    system = request.get("system")
    if isinstance(system, list) and any(not block["text"] for block in system):
        raise RefusedError("system: text content blocks must be non-empty")


def _check_tools(request: Mapping[str, Any], messages: list[Any], needs_tools: bool) -> None:
    tools, choice = request.get("tools") or [], request.get("tool_choice")
    names = [tool["name"] for tool in tools]
    if len(set(names)) < len(names):
        raise RefusedError("tools: Tool names must be unique.")
    for index, tool in enumerate(tools):
        if {"oneOf", "allOf", "anyOf"} & tool.get("input_schema", {}).keys():
            words = "input_schema does not support oneOf, allOf, or anyOf at the top level"
            raise RefusedError(f"tools.{index}.custom.input_schema: {words}")
    if choice and not tools:
        raise RefusedError("tool_choice may only be specified while providing tools")
    if choice and choice["type"] == "tool" and choice["name"] not in names:
        raise RefusedError(f"Tool '{choice['name']}' not found in provided tools")
    kinds = {block["type"] for message in messages for block in blocks_of(message["content"])}
    if needs_tools and not tools and kinds & {"tool_use", "tool_result"}:
        words = "Requests which include `tool_use` or `tool_result` blocks must define tools"
        raise RefusedError(words)


def _check_thinking(request: Mapping[str, Any]) -> None:
    thinking = request.get("thinking")
    if not thinking or thinking["type"] != "enabled":
        return
    if "max_tokens" in request and request["max_tokens"] <= thinking["budget_tokens"]:
        words = "`max_tokens` must be greater than `thinking.budget_tokens`."
        raise RefusedError(f"{words} {_DOCS}/extended-thinking#max-tokens-and-context-window-size")
    if request.get("temperature", 1) != 1:
        words = "`temperature` may only be set to 1 when thinking is enabled."
        raise RefusedError(
            f"{words} {_DOCS}/extended-thinking#important-considerations-when-using-"
        )
    if (request.get("tool_choice") or {}).get("type") in ("any", "tool"):
        raise RefusedError("Thinking may not be enabled when tool_choice forces tool use.")


def _check_marks(request: Mapping[str, Any]) -> None:
    count, has_short = 0, False
    for where, block in _markable(request):
        mark = block.get("cache_control")
        if mark is None:
            continue
        count += 1
        if block.get("type") == "text" and not block.get("text"):
            raise RefusedError(f"{where}.text: cache_control cannot be set for empty text blocks")
        is_short = mark.get("ttl", "5m") == "5m"
        if has_short and not is_short:
            words = (
                "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control "
                "block. Note that blocks are processed in the following order: `tools`, `system`, "
                "`messages`."
            )
            raise RefusedError(f"{where}.cache_control.ttl: {words}")
        has_short = has_short or is_short
    if count > _MAX_MARKS:
        words = f"A maximum of {_MAX_MARKS} blocks with cache_control may be provided."
        raise RefusedError(f"{words} Found {count}.")


def _markable(request: Mapping[str, Any]) -> Iterator[tuple[str, Block]]:
    """Yield everything that may have a mark, in the order of the prompt."""
    for index, tool in enumerate(request.get("tools") or []):
        yield f"tools.{index}", tool
    for index, block in enumerate(blocks_of(request.get("system"))):
        yield f"system.{index}", block
    for index, message in enumerate(request["messages"]):
        for position, block in enumerate(blocks_of(message["content"])):
            where = f"messages.{index}.content.{position}"
            if block["type"] == "tool_result":
                for inner, part in enumerate(blocks_of(block.get("content"))):
                    yield f"{where}.content.{inner}", part
            yield where, block
    yield "", request  # the automatic mark counts too


def _check_pairs(messages: list[Any]) -> None:
    seen: set[str] = set()
    waiting: dict[str, int] = {}  # calls of the turn before, with their message's index
    turns = groupby(enumerate(messages), key=lambda pair: pair[1]["role"])
    for role, turn in turns:
        if role == "assistant":
            waiting = _calls_of(list(turn), seen)
        else:
            _check_results(list(turn), waiting)
            waiting = {}
    _check_unanswered(waiting)


def _calls_of(turn: list[tuple[int, Any]], seen: set[str]) -> dict[str, int]:
    calls: dict[str, int] = {}
    for index, message in turn:
        for position, block in enumerate(blocks_of(message["content"])):
            where, kind = f"messages.{index}.content.{position}", block["type"]
            if kind in ("tool_use", "server_tool_use"):
                if block["id"] in seen:
                    raise RefusedError(f"{where}: `tool_use` ids must be unique")
                seen.add(block["id"])
            if kind == "tool_use":
                calls[block["id"]] = index
            elif kind.endswith("_tool_result") and block.get("tool_use_id") not in seen:
                words = (
                    f"unexpected `tool_use_id` found in `{kind}` blocks: {block['tool_use_id']}. "
                    f"Each `{kind}` block must have a corresponding `server_tool_use` block before "
                    "it."
                )
                raise RefusedError(f"{where}: {words}")
    return calls


def _check_results(turn: list[tuple[int, Any]], waiting: Mapping[str, int]) -> None:
    """The next message must begin with the results of all calls."""
    answered: set[str] = set()
    for number, (index, message) in enumerate(turn):
        is_first = True
        for position, block in enumerate(blocks_of(message["content"])):
            where = f"messages.{index}.content.{position}"
            if block["type"] != "tool_result":
                is_first = False
                continue
            call = block["tool_use_id"]
            if call in answered:
                words = "each tool_use must have a single result. Found multiple `tool_result`"
                raise RefusedError(f"{where}: {words} blocks with id: {call}")
            if call not in waiting or number:
                words = (
                    f"unexpected `tool_use_id` found in `tool_result` blocks: {call}. Each "
                    "`tool_result` block must have a corresponding `tool_use` block in the "
                    "previous message."
                )
                raise RefusedError(f"{where}: {words}")
            if is_first:
                answered.add(call)
        # A later message is too late.
        _check_unanswered({call: index for call, index in waiting.items() if call not in answered})


def _check_unanswered(calls: Mapping[str, int]) -> None:
    if calls:
        words = (
            f"`tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(calls)}. Each `tool_use` block must have a corresponding `tool_result` "
            "block in the next message."
        )
        raise RefusedError(f"messages.{min(calls.values())}: {words}")
