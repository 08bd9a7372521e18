"""Reading of a history of any format into neutral messages, with notes on what is lost."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

from rehydrate.entry_id import EntryId
from rehydrate.errors import InvalidMessageError
from rehydrate.formats import bedrock
from rehydrate.formats._reading import (
    as_parts,
    is_by_server,
    json_object,
    merged_lines,
    readable_texts,
    type_of,
)
from rehydrate.formats.codex import items_of
from rehydrate.formats.langchain import langchain_to_openai
from rehydrate.formats.neutral import Call, Media, NeutralMessage, Part, Result, Text, normalized
from rehydrate.formats.openai_chat import function_id, named_call
from rehydrate.messages import normal_role

_TEXTS = frozenset({"text", "input_text", "output_text", "text-plain", "summary_text"})
_THINKING = frozenset({"thinking", "redacted_thinking", "reasoning", "reasoning_content"})
_THINKING_KEYS = ("reasoning_content", "reasoning", "thinking", "thinking_blocks")
_HELD = frozenset({"item_reference", "compaction", "compaction_summary"})
_CLIENT_CALLS = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "computer_call": "action",
    "local_shell_call": "action",
    "shell_call": "action",
    "apply_patch_call": "operation",
}


OF_HISTORY = "history: "
"""The beginning of each note on how a history was rendered."""

Lost = Mapping[str, frozenset[int]]
"""What was left out or changed, and the indices of its entries."""


class Reading(NamedTuple):
    """Neutral messages, and what was left out or changed."""

    messages: list[NeutralMessage]
    lost: Lost


def read(entries: Sequence[Any], format: str, first: int = 0) -> Reading:  # noqa: A002  the field's word
    """Read a history, whose first entry has the index ``first``; raises InvalidMessageError for an
    entry that only its provider can resolve."""
    reader = _Reader(first)
    messages = normalized(list(_READERS[format](reader, entries)))
    return Reading(messages, reader.lost())


def notes_on(lost: Lost) -> tuple[str, ...]:
    """Return a sentence on each thing that was left out or changed.

    >>> notes_on({"thinking is not sent:": frozenset({4, 9})})
    ('history: thinking is not sent: of 2 entries, first history[4]',)
    """
    return tuple(
        [
            f"{OF_HISTORY}{what} of {len(places)} entr{'y' if len(places) == 1 else 'ies'}, first "
            f"{EntryId.of(min(places))}"
            for what, places in sorted(lost.items())
        ]
    )


_TOOL_CHANGES = frozenset({"tool_addition", "tool_removal"})


class _Reader:
    """Reads entries and notes what is lost."""

    def __init__(self, first: int) -> None:
        self.first = first
        self._lost: dict[str, set[int]] = {}

    def lose(self, what: str, index: int) -> None:
        self._lost.setdefault(what, set()).add(index)

    def lost(self) -> Lost:
        return {what: frozenset(places) for what, places in self._lost.items()}

    def parts(self, content: object, index: int) -> list[Part]:
        """Return the parts of a content as neutral parts."""
        found: list[Part] = []
        for part in as_parts(content, index):
            if isinstance(part, str):
                found += _texts(part)
            elif isinstance(part, Mapping):
                found += self._part(part, index)
        return found

    def _part(self, part: Mapping[str, Any], index: int) -> Iterable[Part]:
        kind = type_of(part)
        if kind in _TEXTS or kind == "refusal":
            return _texts(part.get("refusal" if kind == "refusal" else "text"))
        if kind in _THINKING:
            self.lose("thinking is not sent, it is for the model that thought it:", index)
            return ()
        if kind == "tool_use":
            return (Call(_id(part.get("id")), str(part.get("name", "")), part.get("input")),)
        if kind == "tool_result":
            return (self.result(_id(part.get("tool_use_id")), part.get("content"), part, index),)
        media = _media(part)
        return (media,) if media is not None else self._other(part, kind, index)

    def _other(self, part: Mapping[str, Any], kind: str, index: int) -> Iterable[Part]:
        """Return a text document, or a provider's own part, as text if it has any."""
        source = part.get("source")
        if kind == "document" and isinstance(source, Mapping):
            inner = source.get("data") if type_of(source) == "text" else source.get("content")
            return self.parts(inner, index)
        texts = [text for text in readable_texts(part) if text != kind]
        if kind in _TOOL_CHANGES:
            texts = []
        self.lose(
            f"{kind or 'an unknown part'} is sent as text:"
            if texts
            else f"{kind or 'an unknown part'} is not sent:",
            index,
        )
        return [Text(text) for text in texts if text.strip()]

    def result(
        self, call: str | None, content: object, about: Mapping[str, Any], index: int
    ) -> Result:
        """Return a tool's result as a neutral part."""
        if isinstance(content, Mapping):
            content = [content]
        parts = [part for part in self.parts(content, index) if isinstance(part, (Text, Media))]
        return Result(call, tuple(parts), bool(about.get("is_error")))


def _anthropic(
    reader: _Reader, entries: Sequence[Any], sources: Sequence[tuple[int, ...]] | None = None
) -> Iterable[NeutralMessage]:
    for index, entry in enumerate(entries, reader.first):
        at = (index,) if sources is None else sources[index]
        yield _plain_message(reader, entry, normal_role(str(entry.get("role"))), at)


def _claude_code(reader: _Reader, entries: Sequence[Any]) -> Iterable[NeutralMessage]:
    merged = merged_lines(entries)
    return _anthropic(reader, [message for message, _ in merged], [places for _, places in merged])


def _bedrock(reader: _Reader, entries: Sequence[Any]) -> Iterable[NeutralMessage]:
    return _anthropic(reader, [bedrock.as_anthropic(entry) for entry in entries])


def _plain(reader: _Reader, entries: Sequence[Any]) -> Iterable[NeutralMessage]:
    for index, entry in enumerate(entries, reader.first):
        role = normal_role(str(entry.get("role")))
        message = _plain_message(reader, entry, role, (index,))
        if role in ("system", "user", "assistant"):
            yield message
        elif message.text:
            # An unknown role, or a tool's answer to no call, becomes the user's, with its name.
            yield NeutralMessage("user", (Text(f"[{role}]\n{message.text}"),), (index,))


def _openai_chat(
    reader: _Reader, entries: Sequence[Any], indices: Iterable[int] | None = None
) -> Iterable[NeutralMessage]:
    waiting: dict[str | None, str] = {}  # calls that a tool message without an id may answer
    for index, entry in zip(indices or count(reader.first), entries, strict=False):
        role = normal_role(str(entry.get("role")))
        if role == "tool":
            call = _id(entry.get("tool_call_id"))
            if call is None and entry.get("role") == "function":
                call = function_id(str(entry.get("name")))
            if call is None:
                call = named_call(waiting, entry)
            waiting.pop(call, None)
            result = reader.result(call, entry.get("content"), entry, index)
            yield NeutralMessage("user", (result,), (index,))
            continue
        message = _plain_message(reader, entry, role, (index,))
        if any(entry.get(key) for key in _THINKING_KEYS):
            reader.lose("thinking is not sent, it is for the model that thought it:", index)
        audio = entry.get("audio")
        spoken = audio.get("transcript") if isinstance(audio, Mapping) else None
        more: list[Part] = [*_pictures(entry), *_texts(entry.get("refusal")), *_texts(spoken)]
        if isinstance(audio, Mapping) and not spoken:
            reader.lose("speech without its words is not sent:", index)
        for number, raw in enumerate(as_parts(entry.get("tool_calls"), index, "tool_calls")):
            more += _chat_call(raw, f"call_{index}_{number}" if number else f"call_{index}")
        legacy = entry.get("function_call")
        if isinstance(legacy, Mapping):
            name = str(legacy.get("name"))
            more.append(Call(function_id(name), name, _arguments(legacy.get("arguments"))))
        if more:
            message = message._replace(parts=(*message.parts, *more), entry=None)
        waiting = {part.id: part.name for part in message.parts if isinstance(part, Call)}
        yield message


def _codex(reader: _Reader, entries: Sequence[Any]) -> Iterable[NeutralMessage]:
    found = list(items_of(entries))
    indices = [reader.first + index for index, _ in found]
    return _openai_responses(reader, [item for _, item in found], indices)


def _openai_responses(
    reader: _Reader, entries: Sequence[Any], indices: Iterable[int] | None = None
) -> Iterable[NeutralMessage]:
    made: set[str | None] = set()
    others = _overtaken(entries)
    """Ids of calls that are no function's, and are sent as text; so are their outputs."""
    for index, entry in zip(indices or count(reader.first), entries, strict=False):
        kind = type_of(entry)
        if kind in _HELD or (not kind and "role" not in entry):
            expected = "an item that says what it holds"
            remedy = "it can only be sent to the provider that holds it: leave it out"
            part = f"type {kind!r}" if kind else "type"
            raise InvalidMessageError(index, part, kind or entry, expected, remedy)
        if kind in ("", "message"):
            yield _plain_message(reader, entry, normal_role(str(entry.get("role"))), (index,))
        elif kind in _CLIENT_CALLS and _id(entry.get("call_id")) not in others:
            name = str(entry.get("name") or kind.removesuffix("_call"))
            value = _arguments(entry.get(_CLIENT_CALLS[kind]))
            made.add(_id(entry.get("call_id")))
            yield NeutralMessage(
                "assistant", (Call(_id(entry.get("call_id")), name, value),), (index,)
            )
        elif (call := _client_answer(entry, kind, made)) is not None and call not in others:
            output = entry.get("output")
            yield NeutralMessage(
                "user", (reader.result(call or None, output, entry, index),), (index,)
            )
        else:
            others.add(_id(entry.get("call_id")))
            parts = reader.parts([entry], index)
            if parts:
                yield NeutralMessage("assistant", tuple(parts), (index,))


def _overtaken(entries: Sequence[Mapping[str, Any]]) -> set[str | None]:
    """Return the ids of calls that wait for the client while the server ran a later call of the
    same turn. Elsewhere the server's is a client's too, and what came before it must be answered.
    """
    answered = {_id(each.get("call_id")) for each in entries if type_of(each).endswith("_output")}
    waiting: set[str | None] = set()
    found: set[str | None] = set()
    for entry in entries:
        kind = type_of(entry)
        if kind in _CLIENT_CALLS and _id(entry.get("call_id")) not in answered:
            waiting.add(_id(entry.get("call_id")))
        elif kind == "shell_call_output" and is_by_server(entry):
            found |= waiting
            waiting = set()
        elif kind.endswith("_output") or entry.get("role", "assistant") != "assistant":
            waiting = set()
    return found - {None}


def _client_answer(entry: Mapping[str, Any], kind: str, made: Collection[str | None]) -> str | None:
    """Return the id of the call that an item answers for the client, "" where it has none.

    ``made`` are the ids of the client's calls so far.
    """
    if not kind.endswith("_output") or (kind != "shell_call_output" and is_by_server(entry)):
        return None
    call = _id(entry.get("call_id")) or _id(entry.get("id")) or ""
    return call if call in made or kind.removesuffix("_output") in _CLIENT_CALLS else None


def _langchain(reader: _Reader, entries: Sequence[Any]) -> Iterable[NeutralMessage]:
    sent = [entry for entry in entries if entry.type != "remove"]
    indices = [n for n, entry in enumerate(entries, reader.first) if entry.type != "remove"]
    for message in _openai_chat(reader, langchain_to_openai(sent), indices):
        yield message._replace(entry=None)


_READERS: Mapping[str, Callable[[_Reader, Sequence[Any]], Iterable[NeutralMessage]]] = {
    "anthropic": _anthropic,
    "bedrock": _bedrock,
    "claude_code": _claude_code,
    "codex": _codex,
    "openai_chat": _openai_chat,
    "openai_responses": _openai_responses,
    "langchain": _langchain,
    "plain": _plain,
}


def _plain_message(
    reader: _Reader, entry: Mapping[str, Any], role: str, sources: tuple[int, ...]
) -> NeutralMessage:
    content = entry.get("content")
    if type(content) is str and len(entry) == 2 and content.strip() and entry["role"] == role:
        return NeutralMessage(role, (Text(content),), sources, entry)
    return NeutralMessage(role, tuple(reader.parts(content, (*sources, 0)[0])), sources)


_PICTURES = {"/9j/": "jpeg", "R0lG": "gif", "UklG": "webp"}


def _pictures(entry: Mapping[str, Any]) -> Iterable[Media]:
    """Yield the pictures that Ollama keeps next to a content: base64, whose beginning says what
    they are."""
    pictures = entry.get("images")
    for data in pictures if isinstance(pictures, (list, tuple)) else ():
        if isinstance(data, str) and data:
            yield Media("image", f"data:image/{_PICTURES.get(data[:4], 'png')};base64,{data}")


def _chat_call(raw: object, id_if_none: str) -> Iterable[Call]:
    if not isinstance(raw, Mapping):
        return
    function = raw.get("function")
    call = _id(raw.get("id")) or id_if_none
    if isinstance(function, Mapping):
        yield Call(call, str(function.get("name")), _arguments(function.get("arguments")))
    else:  # a call of another kind, or of none: its result answers it by its id
        custom = raw.get("custom")
        about = custom if isinstance(custom, Mapping) else {}
        yield Call(call, str(about.get("name") or type_of(raw) or "tool"), about.get("input"))


def _media(part: Mapping[str, Any]) -> Media | None:
    """Return an image or a file as a neutral part."""
    kind = type_of(part)
    source, image, file = part.get("source"), part.get("image_url"), part.get("file")
    url: object = None
    if kind in ("image", "document") and isinstance(source, Mapping):
        url = source.get("url")
        if isinstance(source.get("data"), str) and type_of(source) == "base64":
            url = f"data:{source.get('media_type', 'image/png')};base64,{source['data']}"
    elif kind == "document_url":  # Mistral's
        url, part = part.get("document_url"), {"title": part.get("document_name")}
    elif image is not None:
        url = image.get("url") if isinstance(image, Mapping) else image
    elif kind in ("file", "input_file"):
        part = file if isinstance(file, Mapping) else part
        url = part.get("file_data") or part.get("file_url")
    what = "image" if "image" in kind or kind == "computer_screenshot" else "file"
    return Media(what, url, _name(part)) if isinstance(url, str) else None


def _name(part: Mapping[str, Any]) -> str:
    name = part.get("filename") or part.get("title")
    return name if isinstance(name, str) else ""


def _texts(value: object) -> list[Part]:
    """Return a text as parts; no parts if it is empty, since no provider takes an empty one."""
    return [Text(value)] if isinstance(value, str) and value.strip() else []


def _arguments(value: object) -> Any:
    """Return the arguments of a call as an object; unchanged if they are none, {} for None."""
    if value is None:
        return {}
    parsed = json_object(value)
    return value if parsed is None else parsed


def _id(value: object) -> str | None:
    return value if isinstance(value, str) else None
