"""OpenAI's chat completions: system messages, tools, messages, a tool message for each result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rehydrate.formats.neutral import Call, Media, Result, Said, Sent, Text, arguments, one_or_all


def system(text: str) -> dict[str, Any]:
    """A system message."""
    return {"role": "system", "content": text}


def user(text: str) -> dict[str, Any]:
    """A message of our own."""
    return {"role": "user", "content": text}


def own(entry: Any) -> Any:
    """A message as it is: what speaks chat has keys of its own."""
    return entry


def request(tools: list[Any], system: list[Any], messages: list[Any]) -> dict[str, Any]:
    """The arguments of ``client.chat.completions.create``."""
    return {**({"tools": tools} if tools else {}), "messages": [*system, *messages]}


def write(said: Sequence[Said]) -> list[Sent]:
    """Messages of what was said; media in a result, which OpenAI takes of the user only, follow
    behind all results of their turn. Where some are still missing there is no room behind them:
    then they stand in front of the calls."""
    sent: list[Sent] = []
    waiting: set[str | None] = set()
    for each in said:
        made = [each.entry] if each.entry is not None else list(_messages(each))
        waiting -= {part.id for part in each.parts if isinstance(part, Result)}
        if waiting and len(made) > 1 and made[-1]["role"] == "user":
            sent.insert(len(sent) - 1, Sent(made.pop(), each.sources))
        sent += [Sent(message, each.sources) for message in made]
        waiting = {part.id for part in each.parts if isinstance(part, Call)}
    return sent


def mark(message: Any) -> None:
    """OpenAI keeps prefixes by itself."""
    del message


def _messages(said: Said) -> Iterator[dict[str, Any]]:
    if said.role == "system":
        if said.text:
            yield system(said.text)
    elif said.role == "assistant":
        texts = [{"type": "text", "text": part.text} for part in said.parts if type(part) is Text]
        calls = [_call(part) for part in said.parts if isinstance(part, Call)]
        if texts or calls:
            content = one_or_all(texts, "text") if texts else None
            tool_calls = {"tool_calls": calls} if calls else {}
            yield {"role": "assistant", "content": content, **tool_calls}
    else:
        shown: list[dict[str, Any]] = []
        for part in said.parts:
            if isinstance(part, Result):
                answer = "\n\n".join(each.text for each in part.parts if isinstance(each, Text))
                shown += [_media(each) for each in part.parts if isinstance(each, Media)]
                yield {"role": "tool", "tool_call_id": part.id, "content": answer}
        for part in said.parts:
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
