"""LangChain message objects: read in part_index; kept messages are the same objects.

The objects are recognised by their attributes, so LangChain need not be installed or imported. One
call may be in `tool_calls`, in a content block and in `additional_kwargs`; it is read once. A
ToolMessage's artifact is for the program and a RemoveMessage is an order to a graph's state:
neither is read.

LangChain sends one list to any provider. The rules are those of OpenAI chat, the model of its
messages. A list that begins with the user still does after parts are dropped, since some providers
require it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rehydrate.errors import InvalidMessageError, MissingPackageError, Violation
from rehydrate.formats import openai_chat
from rehydrate.formats._reading import (
    NONE,
    PROOF,
    Draft,
    Path,
    Places,
    as_entry,
    as_list,
    as_parts,
    as_role,
    as_sequence,
    broken_rules,
    is_langchain_message,
    json_object,
    replace_texts,
    type_of,
)
from rehydrate.formats.calls import Input, Inputs, is_signed
from rehydrate.formats.openai_chat import function_id
from rehydrate.formats.thinking import Nothing, content_without_thinking
from rehydrate.messages import Conversation, PieceKind, normal_role

NAME = "langchain"

_TEXT, _TOOL_RESULT, _THINKING = PieceKind.TEXT, PieceKind.TOOL_RESULT, PieceKind.THINKING

_ROLES = {"human": "user", "ai": "assistant"}
_PARTIAL_BLOCKS = frozenset({"input_json_delta", "tool_call_chunk"})
_THINKING_BLOCKS = frozenset({"thinking", "reasoning", "reasoning_content"})
_ALL_THINKING_BLOCKS = _THINKING_BLOCKS | {"redacted_thinking"}
_REASONING_EXTRA = "reasoning_content"


def detect(entry: object) -> int:
    """PROOF: a message object."""
    return PROOF if is_langchain_message(entry) else NONE


def parse(entries: Sequence[Any]) -> Conversation:
    """Read LangChain messages; raises InvalidMessageError for anything else."""
    rows: list[tuple[Draft, str, list[str], tuple[str, ...], bool]] = []
    links: list[tuple[int, int]] = []
    ignored: list[int] = []
    caller: int | None = None  # index of the calls that tool messages without an id answer
    for index, raw in enumerate(entries):
        entry = as_message(raw, index)
        if entry.type == "remove":
            ignored.append(index)
            continue
        role = role_of(entry)
        calls = calls_of(entry)
        draft = _read(entry, index, role, calls)
        answers = _answers(entry, role)
        number = len(rows)
        if role != "tool":
            caller = number if calls else None
        elif not answers and caller is not None:
            links.append((caller, number))
        if role == "user" and answers and len(answers) == len(entry.content):
            role = "tool"  # nothing but results
        ids = [call.id for call in calls if call.id is not None]
        rows.append((draft, role, ids, answers, role == "user"))
    read = Conversation.drafted(NAME, rows, links, ignored=ignored)
    return read.replace(user_first=read.begins_with_user())


def validate(entries: Sequence[Any]) -> list[Violation]:
    """Return every rule of OpenAI chat that these messages break once they are sent there."""
    sent: list[Mapping[str, Any]] = []
    indices: list[int] = []
    for index, raw in enumerate(entries):
        entry = as_message(raw, index)
        for message in () if entry.type == "remove" else _as_sent(entry, index):
            sent.append(message)
            indices.append(index)
    return [
        violation._replace(index=indices[violation.index])
        for violation in broken_rules(openai_chat.NAME, sent)
    ]


def places(entry: Any, index: int) -> Places:
    """Return the path of each text that `parse` reads of this message; None: it must not change."""
    message = as_message(entry, index)
    return _read(message, index, role_of(message), calls_of(message)).places


def replace(entry: Any, texts: Mapping[Path, Any]) -> Any:
    """Return a copy of the message with these texts at their paths; all else is the same."""
    fields = {str(step): getattr(entry, str(step)) for step, *_ in texts}
    return entry.model_copy(update=replace_texts(fields, texts))


def inputs(entry: Any) -> Inputs:
    """Return the inputs of a message's calls, each with all its paths in the message."""
    return inputs_of(entry)


def signed(entry: Any) -> bool:
    """Return whether the message holds a thought, or a signature that goes with its calls."""
    return is_signed([entry.content, extras_of(entry)])


def without_thinking(entries: Sequence[Any]) -> list[Any]:
    """Return each message without thinking blocks: itself, a copy, or None where nothing is left.

    A message from OpenAI's Responses API stays as it is: its reasoning has an id, and other ids in
    it, also LangChain's own, refer to that id.
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
    """Return the role of a message or chunk; a ChatMessage has its own."""
    kind: str = entry.type.removesuffix("MessageChunk").lower()
    if kind == "chat":
        role = getattr(entry, "role", None)
        return normal_role(role) if isinstance(role, str) and role else kind
    return _ROLES.get(kind, normal_role(kind))


def as_message(value: object, index: int) -> Any:
    """Return the object; raises InvalidMessageError unless it is a LangChain message."""
    if is_langchain_message(value):
        return value
    remedy = "convert it with rehydrate.formats.openai_to_langchain, or all others to dicts"
    raise InvalidMessageError(index, "", value, "a LangChain message", remedy)


def _read(entry: Any, index: int, role: str, calls: Sequence[Call]) -> Draft:
    draft = Draft(index)
    extras = extras_of(entry)
    draft.add(extras.get(_REASONING_EXTRA), _THINKING)
    kind = _TOOL_RESULT if role == "tool" else _TEXT
    content = entry.content
    if isinstance(content, str):
        draft.add(content, kind, ("content",))
    else:
        for part_index, part in enumerate(as_parts(content, index)):
            path: Path = ("content", part_index)
            if isinstance(part, str):
                draft.add(part, kind, path)
            else:
                place = f"content[{part_index}]"
                _read_block(draft, as_entry(part, index, place), kind, path, place)
    draft.add(extras.get("refusal"), _TEXT)
    # The outputs of a server's tools, and speech, of OpenAI's.
    draft.add_readable(extras.get("tool_outputs"), _TOOL_RESULT)
    audio = extras.get("audio")
    if isinstance(audio, Mapping):
        draft.add_readable(audio.get("transcript", audio), _TEXT)
    for call in calls:
        draft.add_input(call.name, call.input)
    return draft


def _read_block(
    draft: Draft, block: Mapping[str, Any], kind: PieceKind, path: Path, part: str
) -> None:
    block_type = type_of(block)
    if block_type in _THINKING_BLOCKS:
        said = [block.get(key) for key in ("thinking", "reasoning", "summary", "reasoning_content")]
        draft.add_readable(said, _THINKING)
    elif _call_keys(block) or block_type in _PARTIAL_BLOCKS:
        pass  # read with the other calls of the message
    elif block_type == "tool_result" and not isinstance(block.get("content"), Mapping):
        draft.add_content(block.get("content"), _TOOL_RESULT, (*path, "content"), part)
    elif _is_result(block):
        draft.add_readable(block.get("content", block.get("output")), _TOOL_RESULT)
    elif block_type != "redacted_thinking":
        draft.add_block(block, kind, path, part)


def _answers(entry: Any, role: str) -> tuple[str, ...]:
    if role == "tool":
        answer = getattr(entry, "tool_call_id", None)
        if not isinstance(answer, str) and isinstance(entry.name, str):
            answer = openai_chat.function_id(entry.name)
        return (answer,) if isinstance(answer, str) else ()
    results = [block for block in mappings(entry.content) if _is_result(block)]
    # Written so by Anthropic, or by LangChain itself for a server's tools.
    ids = [next(filter(None, map(block.get, _RESULT_IDS)), None) for block in results]
    return tuple([answer for answer in ids if isinstance(answer, str)])


def _as_sent(entry: Any, index: int) -> Iterator[dict[str, Any]]:
    """Yield the message as OpenAI chat would get it, with only the fields that its rules read."""
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


_RESULT_IDS = ("tool_use_id", "tool_call_id", "call_id")


def _is_result(block: Mapping[str, Any]) -> bool:
    return type_of(block).endswith(("tool_result", "_output"))


# Types of blocks that are calls, with the keys of id and input.
CALL_BLOCKS = {
    "tool_use": ("id", "input"),
    "tool_call": ("id", "args"),
    "invalid_tool_call": ("id", "args"),
    "function_call": ("call_id", "arguments"),
    "custom_tool_call": ("call_id", "input"),
    "server_tool_use": ("id", "input"),
    "server_tool_call": ("id", "args"),
    "mcp_tool_use": ("id", "input"),
}
SERVER_BLOCKS = frozenset({"server_tool_use", "server_tool_call", "mcp_tool_use"})
_ITEM_INPUTS = ("arguments", "input", "action", "actions", "operation", "code")


def _call_keys(block: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the keys of a call's id and input; None for a block that is no call.

    A call of a type that is not in the table, as OpenAI's computer or shell, has a `call_id`.
    """
    kind = type_of(block)
    if kind in CALL_BLOCKS:
        return CALL_BLOCKS[kind]
    if not kind.endswith("_call") or not isinstance(block.get("call_id"), str):
        return None
    return "call_id", next((key for key in _ITEM_INPUTS if key in block), _ITEM_INPUTS[0])


class Call(NamedTuple):
    """A tool call; `input` is a string where it is no JSON, or has not been parsed."""

    id: str | None
    name: object
    input: object
    by_server: bool = False


def calls_of(entry: Any) -> list[Call]:
    """Return the tool calls of an assistant message, each once."""
    if not entry.type.startswith(("ai", "AI")):
        return []
    made: list[Call] = []
    for calls in (_listed(entry), _among_blocks(entry), _as_openai_sent(entry)):
        # By id; a call without an id is in every field too, or in none.
        ids = {call.id for call in made}
        made += [call for call in calls if call.id not in ids]
    return made


def inputs_of(entry: Any) -> Inputs:
    """Return each call's input with its paths; None for a server's call, and for a call without an
    id."""
    paths: dict[str, list[Path]] = {}
    for path, call in _places(entry):
        if isinstance(call, str):
            paths.setdefault(call, []).append(path)
    return [
        None
        if call.by_server or call.id is None or call.id not in paths
        else Input(call.id, call.name, call.input, tuple(paths[call.id]), _is_custom(entry, call))
        for call in calls_of(entry)
    ]


def _places(entry: Any) -> Iterator[tuple[Path, object]]:
    """Yield the path of each input, with the id of its call."""
    for part_index, call in enumerate(getattr(entry, "tool_calls", None) or ()):
        yield ("tool_calls", part_index, "args"), call.get("id")
    content = entry.content if isinstance(entry.content, (list, tuple)) else ()
    for part_index, block in enumerate(content):
        keys = _call_keys(block) if isinstance(block, Mapping) else None
        if keys and type_of(block) in CALL_BLOCKS and type_of(block) not in SERVER_BLOCKS:
            id_key, input_key = keys
            yield ("content", part_index, input_key), block.get(id_key)
    extras = extras_of(entry)
    for part_index, call in enumerate(extras.get("tool_calls") or ()):
        if isinstance(call, Mapping) and isinstance(call.get("function"), Mapping):
            path = ("additional_kwargs", "tool_calls", part_index, "function", "arguments")
            yield path, call.get("id")


def _is_custom(entry: Any, call: Call) -> bool:
    """Return whether the input is free text for the tool."""
    blocks = mappings(entry.content)
    kinds = {type_of(block) for block in blocks if block.get("call_id") == call.id}
    return isinstance(call.input, str) and "custom_tool_call" in kinds


def extras_of(entry: Any) -> Mapping[str, Any]:
    """Return the message's `additional_kwargs`."""
    extras = entry.additional_kwargs
    return extras if isinstance(extras, Mapping) else {}


def mappings(value: object) -> list[Mapping[str, Any]]:
    """Return the mappings in a list; none where it is no list."""
    if not isinstance(value, (list, tuple)):
        return []
    return [item for item in value if isinstance(item, Mapping)]


def _listed(entry: Any) -> Iterator[Call]:
    for key in ("tool_calls", "invalid_tool_calls"):
        for call in mappings(getattr(entry, key, None)):
            yield Call(_id(call.get("id")), call.get("name"), call.get("args"))


def _among_blocks(entry: Any) -> Iterator[Call]:
    blocks = mappings(entry.content)
    answered = {block.get("call_id") for block in blocks if _is_result(block)}
    for block in blocks:
        keys = _call_keys(block)
        if keys is not None:
            id_key, input_key = keys
            call_id, name = _id(block.get(id_key)), block.get("name")
            by_server = type_of(block) in SERVER_BLOCKS or (
                call_id is not None and call_id in answered
            )
            yield Call(call_id, name or _item_name(block), block.get(input_key), by_server)


def _item_name(block: Mapping[str, Any]) -> str | None:
    kind = type_of(block)
    return None if kind in CALL_BLOCKS else kind.removesuffix("_call")


def _as_openai_sent(entry: Any) -> Iterator[Call]:
    extras = extras_of(entry)
    for call in mappings(extras.get("tool_calls")):
        function = call.get("function")
        if isinstance(function, Mapping):
            yield Call(_id(call.get("id")), function.get("name"), function.get("arguments"))
    function = extras.get("function_call")
    if isinstance(function, Mapping) and isinstance(function.get("name"), str):
        name = function["name"]
        yield Call(function_id(name), name, function.get("arguments"))


def _id(value: object) -> str | None:
    return value if isinstance(value, str) else None


_DEVELOPER = "__openai_role__"  # LangChain's note that a system message is the developer's
_SPEAKS_OTHERWISE = frozenset({"tool_calls", "function_call", "refusal", "audio"})
_EXTRAS = ("refusal", "reasoning_content", "audio", "function_call")


def langchain_to_openai(messages: Sequence[Any]) -> list[dict[str, Any]]:
    """Convert LangChain message objects to OpenAI chat dicts; LangChain need not be installed.

    Texts, blocks, tool calls (invalid ones too), results, ids, names and refusals are kept. Fields
    that no provider is sent are dropped: a message's own id, its metadata, a tool's artifact.
    Raises InvalidMessageError with the index for an entry that is no message or cannot be in a
    request.

    >>> from langchain_core.messages import HumanMessage
    >>> langchain_to_openai([HumanMessage("hi")])
    [{'role': 'user', 'content': 'hi'}]
    """
    return [_to_openai(as_message(raw, i), i) for i, raw in enumerate(as_sequence(messages))]


def openai_to_langchain(messages: Sequence[Any]) -> list[Any]:
    """Convert OpenAI chat dicts to LangChain message objects, made by langchain-core.

    Arguments of a call that are no JSON object become an invalid tool call, which keeps their text.
    Raises MissingPackageError without langchain-core, InvalidMessageError for an entry that is no
    message.

    >>> openai_to_langchain([{"role": "user", "content": "hi"}])[0].content
    'hi'
    """
    entries = [as_entry(raw, index) for index, raw in enumerate(as_sequence(messages))]
    for index, entry in enumerate(entries):
        as_role(entry, index)
    try:
        from langchain_core.messages import convert_to_messages
    except ImportError:
        raise MissingPackageError("langchain-core", "makes LangChain's messages") from None
    converted = []
    for index, entry in enumerate(entries):
        calls = _calls_for_langchain(entry, index)
        # LangChain's own parser of calls refuses arguments that are no JSON, as models write them.
        rest = {key: entry[key] for key in entry if key != "tool_calls" and entry[key] is not None}
        try:
            (message,) = convert_to_messages([{"content": "", **rest}])
        except (ValueError, TypeError, KeyError, NotImplementedError) as error:
            remedy = f"LangChain says: {str(error).splitlines()[0]}"
            raise InvalidMessageError(index, "", entry, "an OpenAI chat message", remedy) from error
        converted.append(message.model_copy(update=calls) if any(calls.values()) else message)
    return converted


def _to_openai(entry: Any, index: int) -> dict[str, Any]:
    role = role_of(entry)
    if entry.type == "remove":
        remedy = "it is an order to a graph's state; leave it out"
        raise InvalidMessageError(index, "", entry, "a message that is sent", remedy)
    extras = extras_of(entry)
    message: dict[str, Any] = {"role": extras.get(_DEVELOPER, role), "content": _content(entry)}
    if isinstance(getattr(entry, "tool_call_id", None), str):
        message["tool_call_id"] = entry.tool_call_id
    elif role == "tool":
        message["role"] = "function"
    if entry.name is not None:
        message["name"] = entry.name
    message |= {key: extras[key] for key in _EXTRAS if key in extras}
    calls = [call for call in calls_of(entry) if not call.by_server]
    if calls and "function_call" not in message:
        message["tool_calls"] = [_call_for_openai(call) for call in calls]
    if message["content"] in ("", []) and not _SPEAKS_OTHERWISE.isdisjoint(message):
        message["content"] = None
    return message


def _content(entry: Any) -> Any:
    if not isinstance(entry.content, list):
        return entry.content
    # Calls among the blocks are moved into `tool_calls`, which holds all of them.
    client_calls = CALL_BLOCKS.keys() - SERVER_BLOCKS
    return [
        block
        for block in entry.content
        if not (isinstance(block, Mapping) and type_of(block) in client_calls)
    ]


def _call_for_openai(call: Call) -> dict[str, Any]:
    arguments = call.input
    if not isinstance(arguments, str):
        given = {} if arguments is None else arguments
        arguments = json.dumps(given, ensure_ascii=False, default=str)
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
    }


def _calls_for_langchain(entry: Mapping[str, Any], index: int) -> dict[str, list[Any]]:
    """Return the fields of an AIMessage that hold these calls."""
    calls: list[Any] = []
    invalid: list[Any] = []
    for part_index, raw in enumerate(as_list(entry.get("tool_calls") or [], index, "tool_calls")):
        part = f"tool_calls[{part_index}]"
        call = as_entry(raw, index, part)
        function = call.get("function")
        if not isinstance(function, Mapping):
            remedy = "LangChain's messages hold no others; leave its message and its result out"
            raise InvalidMessageError(index, part, call, "a function call", remedy)
        arguments = function.get("arguments")
        made = {"name": function.get("name"), "args": arguments, "id": call.get("id")}
        parsed = json_object(arguments)
        if parsed is None:
            invalid.append(made | {"error": None, "type": "invalid_tool_call"})
        else:
            calls.append(made | {"args": parsed, "type": "tool_call"})
    return {"tool_calls": calls, "invalid_tool_calls": invalid}
