"""OpenAI chat messages: `tool_calls` in assistant messages, one `tool` message for each id.

The deprecated `function_call` with its `function` message is paired by the function's name. A tool
message without an id (Ollama writes none) belongs to the calls that it directly follows; SWE-agent
writes its id as the one of `tool_call_ids`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from rehydrate.errors import Violation
from rehydrate.formats._grouping import Ledger
from rehydrate.formats._reading import (
    HINT,
    NONE,
    PROOF,
    Path,
    Places,
    as_entry,
    as_list,
    as_role,
    read_entries,
    replace_texts,
    tool_input_text,
    type_of,
)
from rehydrate.formats.blocks import Draft, Notes, as_content, has_only_results, readable_texts
from rehydrate.formats.calls import Input, Inputs, inputs_among_blocks, is_signed
from rehydrate.formats.thinking import Nothing, content_without_thinking
from rehydrate.messages import Conversation, Message, Piece, PieceKind

NAME = "openai_chat"
replace = replace_texts

_TEXT, _TOOL_INPUT = PieceKind.TEXT, PieceKind.TOOL_INPUT
_TOOL_RESULT, _THINKING = PieceKind.TOOL_RESULT, PieceKind.THINKING

_NATIVE_KEYS = (
    *("tool_calls", "tool_call_id", "tool_call_ids", "function_call", "audio", "refusal"),
)
_NATIVE_PARTS = frozenset({"image_url", "input_audio", "video_url", "file"})
_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
_REASONING_KEYS = ("reasoning_content", "reasoning")
# All of them, also those that gateways add to prove the thought to the provider.
_THINKING_KEYS = frozenset({*_REASONING_KEYS, "reasoning_details", "thinking_blocks"})
# Some gateways write thoughts among the parts of the content.
_THINKING_PARTS = frozenset({"thinking", "redacted_thinking", "reasoning"})


class _Call(NamedTuple):
    id: str | None
    text: str


def detect(entry: Mapping[str, Any]) -> int:
    """PROOF: tool calls, a tool message's id, speech, a refusal, a media part. HINT: developer
    role."""
    if "role" not in entry:
        return NONE
    if any(entry.get(key) for key in _NATIVE_KEYS):
        return PROOF
    content = entry.get("content")
    if isinstance(content, (list, tuple)):
        for part in content:
            if isinstance(part, Mapping) and (type_of(part) in _NATIVE_PARTS or "refusal" in part):
                return PROOF
    return HINT if entry["role"] in ("developer", "function") or "refusal" in entry else NONE


def parse(entries: Sequence[Any]) -> Conversation:
    """Read OpenAI chat messages; raises InvalidMessageError for an entry that is no message."""
    notes = Notes()
    return notes.added_to(read_entries(NAME, entries, partial(_read_entry, notes=notes)))


def _read_entry(raw: object, index: int, notes: Notes | None = None) -> tuple[Message, bool]:
    """Read a message of any shape; return also whether it makes calls, to which tool messages
    without an id belong."""
    entry = as_entry(raw, index)
    role = as_role(entry, index)
    thoughts = _thoughts(entry, role)
    draft = _read_content(entry, index, _TOOL_RESULT if role == "tool" else _TEXT)
    made: list[_Call] = []
    answers: tuple[str, ...] = ()
    if role == "tool":
        answer = _answer_id(entry)
        answers = () if answer is None else (answer,)
    elif len(entry) > 2 or "content" not in entry:  # more than role and content
        _read_extras(entry, draft)
        made = _calls(entry, index)
        for call in made:
            draft.add(call.text, _TOOL_INPUT)
    if notes is not None:
        notes.take(draft)
    if role == "user" and has_only_results(entry.get("content")):
        role = "tool"
    calls = (*draft.calls, *[call.id for call in made if call.id is not None])
    pieces = (*thoughts, *draft.pieces)
    answers = (*answers, *draft.answers)
    message = Message(index, role, pieces, draft.images, calls, answers, role == "user")
    return message, bool(made)


def _thoughts(entry: Mapping[str, Any], role: str) -> list[Piece]:
    for key in _REASONING_KEYS if role == "assistant" else ():
        reasoning = entry.get(key)
        if reasoning and isinstance(reasoning, str):
            return [Piece(reasoning, _THINKING)]
    return []


def validate(entries: Sequence[Any]) -> list[Violation]:
    """Return every rule of the chat completions API that these messages break."""
    found: list[Violation] = []
    ledger = Ledger()
    waiting: dict[str, int] = {}  # the calls of the assistant message that tool messages follow
    for index, raw in enumerate(entries):
        entry = as_entry(raw, index)
        role = as_role(entry, index)
        found += _read_content(entry, index, _TEXT).misplaced_pairs()
        if entry["role"] not in _ROLES:
            what = f"role '{entry['role']}' is unknown, it must be one of {sorted(_ROLES)}"
            found.append(Violation(index, "unknown_role", what))
        if role == "tool":
            found += _tool_message_rules(index, entry, ledger, waiting)
            continue
        found += _unanswered(waiting)
        waiting = {}
        made = _calls(entry, index)
        found += _content_rules(index, entry, bool(made))
        for call in made:
            if call.id is None:
                found.append(Violation(index, "missing_id", "a tool call has no id"))
                continue
            ledger.call(call.id)
            if call.id in waiting:
                what = f"tool call id '{call.id}' stands twice in one message"
                found.append(Violation(index, "duplicate_id", what))
            waiting[call.id] = index
    return sorted(found, key=lambda violation: violation.index)


def places(entry: Mapping[str, Any], index: int) -> Places:
    """Return the paths of an entry's texts; reasoning, refusals, calls and inputs do not change."""
    message, _ = _read_entry(entry, index)
    before = len(_thoughts(entry, message.role))
    found = _read_content(entry, index, _TEXT).places
    after = len(message.pieces) - before - len(found)
    return [*[None] * before, *found, *[None] * after]


def inputs(entry: Mapping[str, Any]) -> Inputs:
    """Return the inputs of an entry's calls: arguments of functions, texts of custom tools."""
    if entry.get("role") == "tool":
        return []
    found = inputs_among_blocks(entry)
    for part_index, call in enumerate(entry.get("tool_calls") or ()):
        found.append(_input(call, ("tool_calls", part_index)))
    call = entry.get("function_call")
    if call is not None:
        name = call.get("name")
        path = ("function_call", "arguments")
        call_id = function_id(name) if isinstance(name, str) else None
        found.append(Input(call_id, name, call.get("arguments"), (path,)))
    return found


def _input(call: Mapping[str, Any], path: Path) -> Input | None:
    call_id, function, custom = call.get("id"), call.get("function"), call.get("custom")
    if not isinstance(call_id, str):
        return None
    if isinstance(function, Mapping):
        arguments = function.get("arguments")
        return Input(call_id, function.get("name"), arguments, ((*path, "function", "arguments"),))
    if isinstance(custom, Mapping) and isinstance(custom.get("input"), str):
        where = (*path, "custom", "input")
        return Input(call_id, custom.get("name"), custom["input"], (where,), is_text=True)
    return None


def signed(entry: Mapping[str, Any]) -> bool:
    """Return whether the message holds a thought, or a signature that goes with its calls."""
    return is_signed(entry)


def without_thinking(entries: Sequence[Any]) -> list[Any]:
    """Return each entry without reasoning: itself, a copy, or None where nothing is left."""
    return [_without_thinking(entry, index) for index, entry in enumerate(entries)]


def _without_thinking(entry: Mapping[str, Any], index: int) -> Mapping[str, Any] | None:
    if as_role(entry, index) != "assistant":
        return entry
    content = entry.get("content")
    rest = content_without_thinking(content, _THINKING_PARTS)
    if rest is content and not any(entry.get(key) for key in _THINKING_KEYS):
        return entry
    kept = {key: value for key, value in entry.items() if key not in _THINKING_KEYS}
    acts = _calls(entry, index) or entry.get("refusal") or entry.get("audio")
    if (rest is Nothing or not content) and not acts:
        return None
    if rest is not content:
        kept["content"] = None if rest is Nothing else rest
    return kept


def _tool_message_rules(
    index: int, entry: Mapping[str, Any], ledger: Ledger, waiting: dict[str, int]
) -> list[Violation]:
    found = []
    answer = _answer_id(entry)
    if answer is None:
        what = "a tool message has no tool_call_id"
        found.append(Violation(index, "tool_message_without_call", what))
    elif ledger.answer(answer):
        what = f"a second tool message for '{answer}'"
        found.append(Violation(index, "duplicate_result", what))
    elif waiting.pop(answer, None) is None:
        what = f"no tool call '{answer}' in the assistant message that this one follows"
        found.append(Violation(index, "tool_message_without_call", what))
    if entry.get("content") is None:
        what = "the content of a tool message is null"
        found.append(Violation(index, "null_content_without_calls", what))
    return found


def _content_rules(index: int, entry: Mapping[str, Any], calls: bool) -> list[Violation]:
    found = []
    if entry.get("tool_calls") == []:
        what = "tool_calls is an empty list; leave it out"
        found.append(Violation(index, "empty_tool_calls", what))
    speaks_otherwise = calls or entry.get("refusal") or entry.get("audio")
    if entry.get("content") is None and not speaks_otherwise:
        what = "content is null, which only an assistant message with tool calls may have"
        found.append(Violation(index, "null_content_without_calls", what))
    return found


def _unanswered(waiting: Mapping[str, int]) -> list[Violation]:
    return [
        Violation(
            index,
            "unanswered_tool_call",
            f"tool call '{call}' has no tool message directly after its message",
        )
        for call, index in waiting.items()
    ]


def _answer_id(entry: Mapping[str, Any]) -> str | None:
    answer = entry.get("tool_call_id")
    if isinstance(answer, str):
        return answer
    answers = entry.get("tool_call_ids")
    if isinstance(answers, (list, tuple)) and answers and isinstance(answers[0], str):
        return answers[0]
    name = entry.get("name")
    if entry["role"] == "function" and isinstance(name, str):
        return function_id(name)
    return None


def function_id(name: str) -> str:
    """Return the id that pairs the deprecated `function_call` with its `function` message."""
    # No provider makes such a string, so it never equals a real id.
    return f"function_call:{name}"


def _calls(entry: Mapping[str, Any], index: int) -> list[_Call]:
    """Return the tool calls of a message, the deprecated single one included."""
    made = []
    tool_calls = entry.get("tool_calls")
    if tool_calls is not None:
        for part_index, raw in enumerate(as_list(tool_calls, index, "tool_calls")):
            call = as_entry(raw, index, f"tool_calls[{part_index}]")
            call_id = call.get("id")
            made.append(_Call(call_id if isinstance(call_id, str) else None, _call_text(call)))
    function_call = entry.get("function_call")
    if function_call is not None:
        function = as_entry(function_call, index, "function_call")
        name = function.get("name")
        call_id = function_id(name) if isinstance(name, str) else None
        made.append(_Call(call_id, tool_input_text(name, function.get("arguments"))))
    return made


def _call_text(call: Mapping[str, Any]) -> str:
    function = call.get("function")
    if isinstance(function, Mapping):
        return tool_input_text(function.get("name"), function.get("arguments"))
    custom = call.get("custom")
    if isinstance(custom, Mapping):
        return tool_input_text(custom.get("name"), custom.get("input"))
    return " ".join(readable_texts(call))


def _read_content(entry: Mapping[str, Any], index: int, kind: PieceKind) -> Draft:
    """Read a content as pieces of `kind`; raises InvalidMessageError."""
    draft = Draft(index)
    draft.add_content(as_content(entry, index), kind, ("content",))
    draft.add_pictures(entry)
    return draft


def _read_extras(entry: Mapping[str, Any], draft: Draft) -> None:
    """Read the assistant's fields beside its content; speech without words is a medium."""
    draft.add(entry.get("refusal"), _TEXT)
    audio = entry.get("audio")
    if isinstance(audio, Mapping) and audio:
        before = len(draft.pieces)
        draft.add_readable(audio.get("transcript"), _TEXT)
        draft.images += len(draft.pieces) == before
    if blocks := state_blocks(entry):
        draft.has_state = True
        draft.add_readable(blocks, _TEXT)


def state_blocks(entry: Mapping[str, Any]) -> Any:
    """Return the summaries that the provider itself wrote, where LiteLLM puts them; None without.

    >>> state_blocks({"provider_specific_fields": {"compaction_blocks": [{"type": "compaction"}]}})
    [{'type': 'compaction'}]
    """
    fields = entry.get("provider_specific_fields")
    return (fields.get("compaction_blocks") or None) if isinstance(fields, Mapping) else None
