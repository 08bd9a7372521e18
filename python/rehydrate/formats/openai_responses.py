"""OpenAI Responses items: messages, reasoning, tool calls and outputs, each an entry of its own.

One assistant message of other formats is several consecutive items here: the model's turn. Within a
turn a reasoning item and the items it led to are one unit, up to the next reasoning. From the first
tool call on the rest of the turn is one unit: the API refuses a reasoning item without what
followed it, and what followed without its reasoning. Outputs belong to the call with their
`call_id`, not `id`, which names the item.

Items that refer to something only the provider holds are always kept: an `item_reference` and what
followed from it, the last `compaction`, and an output whose call was made in the response that
`previous_response_id` names.

Server tools and items of unknown types are counted as text and pass through unchanged. An output
that the provider made itself (of a tool search, a program, a hosted shell) does not end the model's
turn. The calls that a program makes belong to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rehydrate.errors import Violation
from rehydrate.formats import openai_chat
from rehydrate.formats._reading import (
    HINT,
    MEDIA_BLOCKS,
    NONE,
    PROOF,
    STATE_BLOCKS,
    Draft,
    Path,
    Places,
    as_entry,
    as_parts,
    as_role,
    check_pair,
    replace_texts,
    type_of,
)
from rehydrate.formats.calls import Input, Inputs, is_signed
from rehydrate.formats.neutral import (
    Call,
    Media,
    NeutralMessage,
    Part,
    RenderedMessage,
    Result,
    Text,
    arguments,
    one_or_all,
)
from rehydrate.formats.openai_responses_rules import Item, broken_rules, is_by_server
from rehydrate.messages import Conversation, PieceKind

NAME = "openai_responses"
replace = replace_texts
system, user = openai_chat.system, openai_chat.user

_TEXT, _TOOL_RESULT, _THINKING = PieceKind.TEXT, PieceKind.TOOL_RESULT, PieceKind.THINKING

# Types of calls: the tool's name, where the item does not have it, and the key of its input.
_CALLS = {
    "function_call": (None, "arguments"),
    "custom_tool_call": (None, "input"),
    "mcp_call": (None, "arguments"),
    "mcp_approval_request": (None, "arguments"),
    "computer_call": ("computer", "action"),
    "local_shell_call": ("local_shell", "action"),
    "shell_call": ("shell", "action"),
    "apply_patch_call": ("apply_patch", "operation"),
    "web_search_call": ("web_search", "action"),
    "file_search_call": ("file_search", "queries"),
    "code_interpreter_call": ("code_interpreter", "code"),
    "tool_search_call": ("tool_search", "arguments"),
    "program": ("program", "code"),
}
# Output fields of a server tool's call.
_OWN_RESULTS = ("output", "error", "results", "outputs")
_TYPES = frozenset(_CALLS) | {
    *("reasoning", "item_reference", "image_generation_call"),
    *("mcp_list_tools", "mcp_approval_response", "compaction", "compaction_summary"),
}
# The API takes these items without an id, and then without the reasoning that led to them.
_MAY_LOSE_ID = frozenset(
    {"message", "function_call", "custom_tool_call", "shell_call", "apply_patch_call"}
)
_NATIVE_PARTS = frozenset(
    {"input_text", "output_text", "input_image", "input_file", "computer_screenshot"}
)


def detect(entry: Mapping[str, Any]) -> int:
    """PROOF: an item without a role, or a part, that only this format has. HINT: a `message` with a
    string; with blocks it may be the dump of another provider's."""
    kind = type_of(entry)
    if "role" not in entry:
        return PROOF if kind in _TYPES or (kind and "call_id" in entry) else NONE
    content = entry.get("content")
    if isinstance(content, (list, tuple)):
        parts = {type_of(part) for part in content if isinstance(part, Mapping)}
        # Chat has refusals among its parts too, but no `type` beside the role.
        is_refusal = kind == "message" and "refusal" in parts
        return NONE if _NATIVE_PARTS.isdisjoint(parts) and not is_refusal else PROOF
    return HINT if kind == "message" else NONE


def parse(entries: Sequence[Any]) -> Conversation:
    """Read Responses items; raises InvalidMessageError for an entry that is no item."""
    return read_items(NAME, [(index, raw, True) for index, raw in enumerate(entries)])


def read_items(
    name: str, numbered: Sequence[tuple[int, Any, bool]], ignored: Sequence[int] = ()
) -> Conversation:
    """Read items of a list in the format `name`: each with its index, and whether it may be a turn
    of the user's own."""
    turns = _Turns()
    items = [_item(raw, index) for index, raw, _ in numbered]
    rows = []
    for position, (item, (*_, may_be_turn)) in enumerate(zip(items, numbered, strict=True)):
        turns.add(item, position)
        calls = [] if item.call is None else [item.call]
        answers = [] if item.answer is None else [item.answer]
        is_turn = item.role == "user" and may_be_turn
        rows.append((_read(item), item.role, calls, answers, is_turn))
    called = {item.call for item in items} | {None}
    bound = [
        each.index for each in items if each.kind == "item_reference" or each.answer not in called
    ]
    return Conversation.drafted(name, rows, turns.links, ignored=ignored, bound=bound)


class _Turns:
    """Links within the model's turns, beyond calls and their outputs."""

    def __init__(self) -> None:
        self.links: list[tuple[int, int]] = []
        self._thought: int | None = None  # first item of the latest row of reasoning in this turn
        self._is_thinking = False
        self._caller: int | None = None  # the first call of this turn
        self._requests: dict[str, int] = {}  # approval request -> its place
        self._programs: dict[str, int] = {}  # call id of a program -> its place

    def add(self, item: Item, index: int) -> None:
        """Take the next item, with its place in the list."""
        if item.role != "assistant":
            self._thought = self._caller = None
            self._is_thinking = False
            return
        # A reference may point to reasoning too.
        opens = item.kind in ("reasoning", "item_reference")
        if opens and not self._is_thinking:
            self._thought = index
        elif self._thought is not None:
            self.links.append((self._thought, index))
        self._is_thinking = opens
        if self._caller is not None:
            self.links.append((self._caller, index))
        elif item.call is not None or item.kind == "tool_search_call":
            self._caller = index
        if item.kind == "program" and item.call is not None:
            self._programs[item.call] = index
        if (program := self._programs.get(str(program_of(item.entry)))) is not None:
            self.links.append((program, index))
        if item.kind == "mcp_approval_request" and item.call is not None:
            self._requests[item.call] = index
        elif item.kind == "mcp_call":
            request = _string(item.entry.get("approval_request_id"))
            if request is not None and request in self._requests:
                self.links.append((self._requests[request], index))


def validate(entries: Sequence[Any]) -> list[Violation]:
    """Return every rule of the Responses API (no `previous_response_id`) that these items break."""
    return broken_rules_of(list(enumerate(entries)))


def broken_rules_of(numbered: Sequence[tuple[int, Any]]) -> list[Violation]:
    """Return every rule that these items break, each of its index."""
    items = [_item(raw, index) for index, raw in numbered]
    for item in items:
        _read(item)  # raises what parse raises
    return broken_rules(items)


def places(entry: Mapping[str, Any], index: int) -> Places:
    """Return the path of each text that `parse` reads of this entry; None: it must not change."""
    return _read(_item(entry, index)).places


def inputs(entry: Mapping[str, Any]) -> Inputs:
    """Return the input of a call of a function or custom tool, which the caller runs."""
    item = _item(entry, 0)
    if item.kind not in _CALLS:
        return []
    if item.kind not in ("function_call", "custom_tool_call"):
        return [None]
    _, key = _CALLS[item.kind]
    is_text = item.kind == "custom_tool_call"
    return [Input(item.call, entry.get("name"), entry.get(key), ((key,),), is_text)]


def signed(entry: Mapping[str, Any]) -> bool:
    """Return whether the item is a thought, or holds its signature."""
    return is_signed(entry)


def without_thinking(entries: Sequence[Any]) -> list[Any]:
    """Return each item without reasoning: itself, None for reasoning, or a copy without its id for
    an item that reasoning led to, since the API refuses that id without the reasoning.

    Reasoning stays if it led to an item that needs its id (a server tool's call, a reference).
    """
    shown = list(entries)
    row: list[Item] = []  # the items of one model turn
    for index, raw in enumerate(entries):
        item = _item(raw, index)
        if item.role == "assistant":
            row.append(item)
        else:
            _strip(row, shown)
            row = []
    _strip(row, shown)
    return shown


def _strip(row: Sequence[Item], shown: list[Any]) -> None:
    needed = [
        part_index
        for part_index, item in enumerate(row)
        if item.kind != "reasoning" and item.kind not in _MAY_LOSE_ID
    ]
    is_stripped = False
    for item in row[needed[-1] + 1 if needed else 0 :]:
        if item.kind == "reasoning":
            shown[item.index] = None
            is_stripped = True
        elif is_stripped and "id" in item.entry:
            rest = {key: value for key, value in item.entry.items() if key != "id"}
            shown[item.index] = rest


def _item(raw: object, index: int) -> Item:
    entry = as_entry(raw, index)
    kind = type_of(entry)
    if not kind and "role" not in entry and isinstance(entry.get("id"), str):
        kind = "item_reference"  # its type may be left out
    call_id = entry.get("call_id")
    if kind in ("", "message") or ("role" in entry and "content" in entry):
        return Item(index, entry, "message", as_role(entry, index))
    if kind.endswith("_output"):
        if kind == "local_shell_call_output" and not isinstance(call_id, str):
            call_id = entry.get("id")
        role = "assistant" if is_by_server(entry) else "tool"
        return Item(index, entry, kind, role, answer=_string(call_id))
    if kind == "mcp_approval_response":
        request = _string(entry.get("approval_request_id"))
        return Item(index, entry, kind, "tool", answer=request)
    if kind == "mcp_approval_request":
        call_id = entry.get("id")
    role = as_role(entry, index) if "role" in entry else "assistant"
    return Item(index, entry, kind, role, call=_string(call_id))


def _string(value: object) -> str | None:
    return value if isinstance(value, str) else None


def program_of(call: Mapping[str, Any]) -> Any:
    """Return the id of the program that made this call; None for a call of the model's."""
    caller = call.get("caller")
    return caller.get("caller_id") if isinstance(caller, Mapping) else None


def _read(item: Item) -> Draft:
    draft = Draft(item.index)
    entry, kind = item.entry, item.kind
    _check_own(entry, item.index, "")
    if kind == "message":
        _read_parts(draft, item, "content", _TEXT)
    elif kind in _CALLS:
        name, key = _CALLS[kind]
        value = entry.get(key)
        if value is None and kind == "computer_call":
            value = entry.get("actions")
        draft.add_input(entry.get("name") if name is None else name, value)
        for key in _OWN_RESULTS:
            _read_own_result(draft, entry.get(key))
    elif kind.endswith("_output") and item.role == "assistant":
        # None of it may change: its turn is the provider's.
        said = {key: value for key, value in entry.items() if key != "status"}
        draft.add_readable(said, _TOOL_RESULT)
    elif kind.endswith("_output") and "output" in entry:
        _read_parts(draft, item, "output", _TOOL_RESULT)
    elif kind == "reasoning":
        draft.add_readable([entry.get("summary"), entry.get("content")], _THINKING)
    elif kind == "image_generation_call":
        if isinstance(entry.get("result"), str):
            draft.add_medium()
        draft.add(entry.get("revised_prompt"), _TEXT)
    elif kind in STATE_BLOCKS:
        draft.add_state()
    elif kind in _TYPES or kind.endswith("_output"):
        draft.add_readable(entry, _TOOL_RESULT if item.role == "tool" else _TEXT)
    else:
        draft.add_unknown(entry, _TEXT)
    return draft


def _read_parts(draft: Draft, item: Item, key: str, kind: PieceKind) -> None:
    """Read a content or an output: a string, one part or a list of them."""
    value = item.entry.get(key)
    if key == "output" and isinstance(value, Mapping):  # a screenshot
        _read_part(draft, value, item.index, kind, (key,), key)
        return
    if isinstance(value, str):
        draft.add(value, kind, (key,))
        return
    for part_index, part in enumerate(as_parts(value, item.index, key)):
        path, place = (key, part_index), f"{key}[{part_index}]"
        if isinstance(part, str):
            draft.add(part, kind, path)
        else:
            found = as_entry(part, item.index, place)
            _read_part(draft, found, item.index, kind, path, place)


def _read_part(
    draft: Draft, part: Mapping[str, Any], index: int, kind: PieceKind, path: Path, place: str
) -> None:
    if "stdout" in part and not type_of(part):  # the output of one shell command
        draft.add(part.get("stdout"), kind, (*path, "stdout"))
        draft.add(part.get("stderr"), kind, (*path, "stderr"))
    else:
        _check_own(part, index, place)
        draft.add_block(part, kind, path, place)


def _check_own(block: Mapping[str, Any], index: int, part: str) -> None:
    """Raise UnknownBlockError for Anthropic's calls and results, which no item here pairs."""
    if type_of(block) in ("tool_use", "tool_result"):
        check_pair(block, index, part, whose="Anthropic's")


def _read_own_result(draft: Draft, value: object) -> None:
    for part in value if isinstance(value, (list, tuple)) else [value]:
        if isinstance(part, Mapping) and type_of(part) in MEDIA_BLOCKS:
            draft.add_medium()
        else:
            draft.add_readable(part, _TOOL_RESULT)


_CHAT_KEYS = frozenset(
    {
        *("name", "tool_calls", "function_call", "refusal", "audio", "annotations"),
        *("reasoning", "reasoning_content", "reasoning_details"),
    }
)


def own(entry: Any) -> Any:
    """Return a message without chat's keys beside its content; an item unchanged.

    >>> own({"role": "assistant", "content": "hi", "tool_calls": None})
    {'role': 'assistant', 'content': 'hi'}
    """
    if "role" not in entry or _CHAT_KEYS.isdisjoint(entry):
        return entry
    return {key: value for key, value in entry.items() if key not in _CHAT_KEYS}


def request(tools: list[Any], system: list[Any], messages: list[Any]) -> dict[str, Any]:
    """Return the arguments of ``client.responses.create``."""
    return {**({"tools": tools} if tools else {}), "input": [*system, *messages]}


def write(messages: Sequence[NeutralMessage]) -> list[RenderedMessage]:
    """Return the messages as items."""
    return [
        RenderedMessage(item, each.sources)
        for each in messages
        for item in ([each.entry] if each.entry is not None else _items(each))
    ]


def mark(message: Any) -> None:
    """Return None: OpenAI caches prefixes without marks."""
    del message


def _items(message: NeutralMessage) -> Iterator[dict[str, Any]]:
    if message.role == "system":
        if message.text:
            yield system(message.text)
    elif message.role == "assistant":
        if message.text:
            yield {"role": "assistant", "content": message.text}
        for part in message.parts:
            if isinstance(part, Call):
                yield {
                    "type": "function_call",
                    "call_id": part.id,
                    "name": part.name,
                    "arguments": arguments(part.input),
                }
    else:
        for part in message.parts:
            if isinstance(part, Result):
                output = _content(part.parts) if part.parts else ""
                yield {"type": "function_call_output", "call_id": part.id, "output": output}
        rest = [part for part in message.parts if isinstance(part, (Text, Media))]
        if rest:
            yield {"role": "user", "content": _content(rest)}


def _content(parts: Sequence[Part]) -> Any:
    shown: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part, Text):
            shown.append({"type": "input_text", "text": part.text})
        elif isinstance(part, Media):
            shown.append(_media(part))
    return one_or_all(shown, "input_text")


def _media(media: Media) -> dict[str, Any]:
    if media.kind == "image":
        return {"type": "input_image", "image_url": media.url, "detail": "auto"}
    if media.url.startswith("data:"):
        name = media.name or "file.pdf"
        return {"type": "input_file", "filename": name, "file_data": media.url}
    return {"type": "input_file", "file_url": media.url}
