"""LangChain message objects: read where they are, and what is kept are the same objects.

The objects are told by their attributes, so LangChain need not be installed, let alone imported.
One call may stand in `tool_calls`, as a block of the content and in `additional_kwargs`; it is read
once. A ToolMessage's artifact is for the program and not for the model, and a RemoveMessage is
an order to a graph's state: neither is read.

LangChain sends one list to any provider. The rules are those of OpenAI chat, which its messages
are modelled on; a list that begins with the user still does when parts of it are left out, since
some providers ask for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rehydrate.errors import InvalidMessageError, Violation
from rehydrate.formats import openai_chat
from rehydrate.formats._excerpting import Path
from rehydrate.formats._excerpting import replace as replace_in_mapping
from rehydrate.formats._grouping import group
from rehydrate.formats._inputs import Inputs, is_signed
from rehydrate.formats._langchain_calls import (
    CALL_BLOCKS,
    Call,
    calls_of,
    extras_of,
    inputs_of,
    mappings,
)
from rehydrate.formats._reading import (
    MEDIA_TYPES,
    NONE,
    PROOF,
    Draft,
    as_entry,
    as_parts,
    holds_bytes,
    is_langchain_message,
    tool_input_text,
    type_of,
)
from rehydrate.formats._thinking import Nothing, content_without_thinking
from rehydrate.messages import Conversation, Message, PieceKind, normal_role

__all__ = [
    "NAME",
    "as_message",
    "detect",
    "inputs",
    "parse",
    "places",
    "replace",
    "role_of",
    "signed",
    "validate",
    "without_thinking",
]

NAME = "langchain"

_TEXT, _TOOL_INPUT = PieceKind.TEXT, PieceKind.TOOL_INPUT
_TOOL_RESULT, _THINKING = PieceKind.TOOL_RESULT, PieceKind.THINKING

_ROLES = {"human": "user", "ai": "assistant"}
_PARTIAL_BLOCKS = frozenset({"input_json_delta", "tool_call_chunk"})
_THINKING_BLOCKS = frozenset({"thinking", "reasoning", "reasoning_content"})
_ALL_THINKING_BLOCKS = _THINKING_BLOCKS | {"redacted_thinking"}
_REASONING_EXTRA = "reasoning_content"
_TEXT_BLOCKS = frozenset({"text", "text-plain", "output_text", "input_text"})


def detect(entry: object) -> int:
    """PROOF: a message object."""
    return PROOF if is_langchain_message(entry) else NONE


def parse(entries: Sequence[Any]) -> Conversation:
    """Read LangChain messages; raises InvalidMessageError for what is none."""
    messages: list[Message] = []
    links: list[tuple[int, int]] = []
    ignored: list[int] = []
    caller: int | None = None  # whose calls tool messages without an id answer
    for index, raw in enumerate(entries):
        entry = as_message(raw, index)
        if entry.type == "remove":
            ignored.append(index)
            continue
        role = role_of(entry)
        calls = calls_of(entry)
        draft = _read(entry, index, role, calls)
        answers = _answers(entry, role)
        place = len(messages)
        if role != "tool":
            caller = place if calls else None
        elif not answers and caller is not None:
            links.append((caller, place))
        if role == "user" and answers and len(answers) == len(entry.content):
            role = "tool"  # nothing but results
        ids = tuple([call.id for call in calls if call.id is not None])
        messages.append(
            Message(index, role, tuple(draft.pieces), draft.images, ids, answers, role == "user")
        )
    first = next((message.role for message in messages if message.role != "system"), None)
    units = group(messages, links)
    return Conversation(NAME, tuple(messages), units, tuple(ignored), first == "user")


def validate(entries: Sequence[Any]) -> list[Violation]:
    """Every rule of OpenAI chat that these messages break once they are sent there."""
    sent: list[Mapping[str, Any]] = []
    indices: list[int] = []
    for index, raw in enumerate(entries):
        entry = as_message(raw, index)
        for message in () if entry.type == "remove" else _as_sent(entry, index):
            sent.append(message)
            indices.append(index)
    return [
        violation._replace(index=indices[violation.index])
        for violation in openai_chat.validate(sent)
    ]


def places(entry: Any, index: int) -> list[Path | None]:
    """Where each text that `parse` reads of this message stands; None: it must stay as it is."""
    message = as_message(entry, index)
    return _read(message, index, role_of(message), calls_of(message)).places


def replace(entry: Any, texts: Mapping[Path, Any]) -> Any:
    """A copy of the message with these texts in their places; its ids and all else are the same."""
    fields = {str(step): getattr(entry, str(step)) for step, *_ in texts}
    return entry.model_copy(update=replace_in_mapping(fields, texts))


def inputs(entry: Any) -> Inputs:
    """The inputs of a message's calls, each with all places in which the message says it."""
    return inputs_of(entry)


def signed(entry: Any) -> bool:
    """Whether the message holds a thought, or a proof that goes with its calls."""
    return is_signed([entry.content, extras_of(entry)])


def without_thinking(entries: Sequence[Any]) -> list[Any]:
    """Per message what it is without thinking blocks: itself, a copy, None where it was only that.

    A message that OpenAI's Responses API gave stays as it is: its reasoning has an id, and other
    ids in it, LangChain's own among them, lead back to it.
    """
    return [_without_thinking(entry) for entry in entries]


def _without_thinking(entry: Any) -> Any:
    if role_of(entry) != "assistant":
        return entry
    content, extras = entry.content, extras_of(entry)
    rest = content_without_thinking(content, _ALL_THINKING_BLOCKS)
    bound = any(
        type_of(block) == "reasoning" and isinstance(block.get("id"), str)
        for block in mappings(content)
    )
    if bound or (rest is content and not extras.get(_REASONING_EXTRA)):
        return entry
    if rest is Nothing or not content:
        if not calls_of(entry) and not extras.get("refusal"):
            return None
        rest = [] if rest is Nothing else rest
    kept = {key: value for key, value in extras.items() if key != _REASONING_EXTRA}
    return entry.model_copy(update={"content": rest, "additional_kwargs": kept})


def role_of(entry: Any) -> str:
    """The role that a message speaks in: chunks and whole messages alike, a ChatMessage its own."""
    kind: str = entry.type.removesuffix("MessageChunk").lower()
    if kind == "chat":
        role = getattr(entry, "role", None)
        return normal_role(role) if isinstance(role, str) and role else kind
    return _ROLES.get(kind, normal_role(kind))


def as_message(value: object, index: int) -> Any:
    """The object, if it is a message of LangChain's, or a clear error."""
    if is_langchain_message(value):
        return value
    remedy = "convert it with rehydrate.formats.openai_to_langchain, or all others to dicts"
    raise InvalidMessageError(index, "", value, "a LangChain message", remedy)


def _read(entry: Any, index: int, role: str, calls: Sequence[Call]) -> Draft:
    draft = Draft()
    extras = extras_of(entry)
    draft.add(extras.get(_REASONING_EXTRA), _THINKING)
    kind = _TOOL_RESULT if role == "tool" else _TEXT
    content = entry.content
    if isinstance(content, str):
        draft.add(content, kind, ("content",))
    else:
        for place, part in enumerate(as_parts(content, index)):
            path: Path = ("content", place)
            if isinstance(part, str):
                draft.add(part, kind, path)
            else:
                _read_block(draft, as_entry(part, index, f"content[{place}]"), kind, path)
    draft.add(extras.get("refusal"), _TEXT)
    for call in calls:
        draft.add(tool_input_text(call.name, call.input), _TOOL_INPUT)
    return draft


def _read_block(draft: Draft, block: Mapping[str, Any], kind: PieceKind, path: Path) -> None:
    block_type = type_of(block)
    if block_type in _TEXT_BLOCKS:
        # Citations name places in the text by number.
        is_cited = block.get("annotations") or block.get("citations")
        draft.add(block.get("text"), kind, None if is_cited else (*path, "text"))
    elif block_type in _THINKING_BLOCKS:
        said = [block.get(key) for key in ("thinking", "reasoning", "summary", "reasoning_content")]
        draft.add_readable(said, _THINKING)
    elif block_type in MEDIA_TYPES:
        draft.images += 1
    elif block_type in CALL_BLOCKS or block_type in _PARTIAL_BLOCKS:
        pass  # read with the other calls of the message
    elif block_type.endswith("tool_result"):
        draft.add_readable(block.get("content", block.get("output")), _TOOL_RESULT)
    elif block_type != "redacted_thinking":
        draft.images += holds_bytes(block)
        draft.add_readable(block, kind)


def _answers(entry: Any, role: str) -> tuple[str, ...]:
    if role == "tool":
        answer = getattr(entry, "tool_call_id", None)
        if not isinstance(answer, str) and isinstance(entry.name, str):
            answer = openai_chat.function_id(entry.name)
        return (answer,) if isinstance(answer, str) else ()
    results = [block for block in mappings(entry.content) if _is_result(block)]
    # As Anthropic writes them, or LangChain itself for a server's tools.
    ids = [block.get("tool_use_id", block.get("tool_call_id")) for block in results]
    return tuple([answer for answer in ids if isinstance(answer, str)])


def _as_sent(entry: Any, index: int) -> Iterator[dict[str, Any]]:
    """The message as OpenAI chat would get it, with no more than its rules look at."""
    role, calls = role_of(entry), calls_of(entry)
    _read(entry, index, role, calls)  # raises what parse raises
    answers = _answers(entry, role)
    if role == "tool":
        answer = answers[0] if answers else None
        yield {"role": role, "tool_call_id": answer, "content": ""}
        return
    if role == "user" and answers:
        for answer in answers:
            yield {"role": "tool", "tool_call_id": answer, "content": ""}
        if len(answers) == len(entry.content):
            return
    message: dict[str, Any] = {"role": role, "content": None if entry.content is None else ""}
    if any(not call.by_server for call in calls):
        message["tool_calls"] = [
            {"id": call.id, "function": {}} for call in calls if not call.by_server
        ]
    yield message


def _is_result(block: Mapping[str, Any]) -> bool:
    return type_of(block).endswith("tool_result")
