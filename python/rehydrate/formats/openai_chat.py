"""OpenAI chat messages: `tool_calls` in assistant messages, one `tool` message for each id.

The deprecated `function_call` with its `function` message is paired by the function's name. A tool
message without an id belongs to the calls that it directly follows; SWE-agent writes its id as the
one of `tool_call_ids`.

Ollama's calls have an object as their arguments and no id, and its results no id either, but the
name of the tool (https://docs.ollama.com/capabilities/tool-calling, 2026-11): they are paired by
name and order, and break no rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rehydrate.formats._reading import (
    Path,
    Places,
    entries_without_thinking,
    read_entries,
    read_places,
    replace_texts,
)
from rehydrate.formats.calls import Input, Inputs, inputs_among_blocks, is_signed
from rehydrate.formats.neutral import (
    Call,
    Media,
    NeutralMessage,
    RenderedMessage,
    Result,
    Text,
    arguments,
    one_or_all,
)
from rehydrate.messages import Conversation

NAME = "openai_chat"
replace = replace_texts


def parse(entries: Sequence[Any]) -> Conversation:
    """Read OpenAI chat messages; raises InvalidMessageError for an entry that is no message."""
    return read_entries(NAME, entries)


def places(entry: Mapping[str, Any], index: int) -> Places:
    """Return the paths of an entry's texts; reasoning, refusals, calls and inputs do not change."""
    return read_places(NAME, entry, index)


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
    return entries_without_thinking(NAME, entries)


def named_call(waiting: Mapping[str | None, str], entry: Mapping[str, Any]) -> str | None:
    """Return the call that a tool message without an id answers: the first that waits for the tool
    it names, else the first of all; None where none waits.

    >>> named_call({"a": "tide", "b": "berths"}, {"role": "tool", "tool_name": "berths"})
    'b'
    """
    tool = entry.get("tool_name") or entry.get("name")
    return next((call for call in waiting if waiting[call] == tool), next(iter(waiting), None))


def function_id(name: str) -> str:
    """Return the id that pairs the deprecated `function_call` with its `function` message."""
    # No provider makes such a string, so it never equals a real id.
    return f"function_call:{name}"


def state_blocks(entry: Mapping[str, Any]) -> Any:
    """Return the summaries that the provider itself wrote, where LiteLLM puts them; None without.

    >>> state_blocks({"provider_specific_fields": {"compaction_blocks": [{"type": "compaction"}]}})
    [{'type': 'compaction'}]
    """
    fields = entry.get("provider_specific_fields")
    return (fields.get("compaction_blocks") or None) if isinstance(fields, Mapping) else None


def system(text: str) -> dict[str, Any]:
    """Return a system message."""
    return {"role": "system", "content": text}


def user(text: str) -> dict[str, Any]:
    """Return a message for a text of Rehydrate's own."""
    return {"role": "user", "content": text}


def own(entry: Any) -> Any:
    """Return a message unchanged: providers that use the chat format have keys of their own."""
    return entry


def request(tools: list[Any], system: list[Any], messages: list[Any]) -> dict[str, Any]:
    """Return the arguments of ``client.chat.completions.create``."""
    return {**({"tools": tools} if tools else {}), "messages": [*system, *messages]}


def write(messages: Sequence[NeutralMessage]) -> list[RenderedMessage]:
    """Return messages. OpenAI takes media only from the user, so media in a result follow in a user
    message behind all results of their turn. If a result is missing, they go before the calls."""
    sent: list[RenderedMessage] = []
    waiting: set[str | None] = set()
    for each in messages:
        made = [each.entry] if each.entry is not None else list(_messages(each))
        waiting -= {part.id for part in each.parts if isinstance(part, Result)}
        if waiting and len(made) > 1 and made[-1]["role"] == "user":
            sent.insert(len(sent) - 1, RenderedMessage(made.pop(), each.sources))
        sent += [RenderedMessage(message, each.sources) for message in made]
        waiting = {part.id for part in each.parts if isinstance(part, Call)}
    return sent


def mark(message: Any) -> None:
    """Return None: OpenAI caches prefixes without marks."""
    del message


def _messages(message: NeutralMessage) -> Iterator[dict[str, Any]]:
    if message.role == "system":
        if message.text:
            yield system(message.text)
    elif message.role == "assistant":
        texts = [
            {"type": "text", "text": part.text} for part in message.parts if type(part) is Text
        ]
        calls = [_call(part) for part in message.parts if isinstance(part, Call)]
        if texts or calls:
            content = one_or_all(texts, "text") if texts else None
            tool_calls = {"tool_calls": calls} if calls else {}
            yield {"role": "assistant", "content": content, **tool_calls}
    else:
        shown: list[dict[str, Any]] = []
        for part in message.parts:
            if isinstance(part, Result):
                answer = "\n\n".join(each.text for each in part.parts if isinstance(each, Text))
                shown += [_media(each) for each in part.parts if isinstance(each, Media)]
                yield {"role": "tool", "tool_call_id": part.id, "content": answer}
        for part in message.parts:
            if isinstance(part, Text):
                shown.append({"type": "text", "text": part.text})
            elif isinstance(part, Media):
                shown.append(_media(part))
        if shown:
            yield {"role": "user", "content": one_or_all(shown, "text")}


def _call(call: Call) -> dict[str, Any]:
    function = {"name": call.name, "arguments": arguments(call.input)}
    return {"id": call.id, "type": "function", "function": function}


def _media(media: Media) -> dict[str, Any]:
    if media.kind == "image":
        return {"type": "image_url", "image_url": {"url": media.url}}
    if not media.url.startswith("data:"):
        return {"type": "text", "text": f"[file: {media.url}]"}  # it takes files by content only
    return {
        "type": "file",
        "file": {"filename": media.name or "file.pdf", "file_data": media.url},
    }
