"""Rendering: a history of any format in a provider's shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from rehydrate.formats import (
    anthropic,
    bedrock,
    codex,
    openai_chat,
    openai_responses,
)
from rehydrate.formats._reading import merged_lines, readable_texts, type_of
from rehydrate.formats.neutral import NeutralMessage, RenderedMessage, RoleCalls, in_place
from rehydrate.formats.translation import Lost, notes_on, read
from rehydrate.messages import SYSTEM_APART, Provider, normal_role

__all__ = ["RENDERERS", "Rendered", "Renderer", "render_history"]


class Renderer(Protocol):
    """The functions that the module of a provider has."""

    def system(self, text: str, /) -> dict[str, Any]:
        """Return a system block or message."""

    def user(self, text: str, /) -> dict[str, Any]:
        """Return a message for a text of Rehydrate's own."""

    def own(self, entry: Any, /) -> Any:
        """Return an entry of the provider's format without keys that it refuses."""

    def write(self, messages: Sequence[NeutralMessage], /) -> list[RenderedMessage]:
        """Return the messages in the provider's shape."""

    def mark(self, message: Any, /) -> Any | None:
        """Return a copy with a cache mark; None where no block can hold one."""

    def request(
        self, tools: list[Any], system: list[Any], messages: list[Any], /
    ) -> dict[str, Any]:
        """Return the arguments of the SDK."""


RENDERERS: Mapping[Provider, Renderer] = {
    "anthropic": anthropic,
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
    "bedrock": bedrock,
}


class Rendered(NamedTuple):
    """A history in a provider's shape."""

    system: list[RenderedMessage]
    """The system entries at the beginning, where the provider takes them in another field."""
    messages: list[RenderedMessage]
    lost: Lost = MappingProxyType({})
    """Content that was left out or changed."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on content that was left out or changed."""
        return notes_on(self.lost)


def render_history(
    entries: Sequence[Any],
    format: str,  # noqa: A002  the field's word
    provider: Provider,
    first: int = 0,
) -> Rendered:
    """Render a history in this format for a provider.

    ``first`` is the index of the first entry, where others are before it (`rendered_rows`).
    Entries in the provider's own format stay the same objects, unless they have keys that it
    refuses. Raises InvalidMessageError for an entry that only its own provider can take.
    """
    renderer = RENDERERS[provider]
    if format == provider:
        sent = [
            RenderedMessage(renderer.own(entry), (index,))
            for index, entry in enumerate(entries, first)
        ]
    elif format == "claude_code" and provider == "anthropic":
        sent = [RenderedMessage(*each) for each in merged_lines(entries)]
    elif format == "codex" and provider == "openai_responses":
        sent = [RenderedMessage(item, (index,)) for index, item in codex.items_of(entries)]
    else:
        messages, lost = read(entries, format, first)
        if provider in SYSTEM_APART and not first:
            leading = _leading([each.role for each in messages])
            system = [
                RenderedMessage(renderer.system(each.text), each.sources)
                for each in messages[:leading]
                if each.text.strip()  # no provider takes a blank one
            ]
            return Rendered(system, renderer.write(messages[leading:]), lost)
        return Rendered([], renderer.write(messages), lost)
    if provider == "anthropic":
        return _without_system(sent)
    return _system_apart(sent) if provider == "bedrock" else Rendered([], sent)


def _system_apart(sent: Sequence[RenderedMessage]) -> Rendered:
    """Move the system entries out of Converse messages: those at the beginning become blocks of the
    `system` field, and each later one a user message, unless it adds or removes a tool."""
    leading = _leading(list(map(_role_of, sent)))
    system = [
        RenderedMessage(block, each.sources)
        for each in sent[:leading]
        for block in bedrock.system_blocks(each.message)
        if str(block.get("text", "-")).strip()  # Converse takes no blank one
    ]
    messages = []
    for each in in_place(sent[leading:], _bedrocks_role_calls):
        blocks = bedrock.system_blocks(each.message) if _role_of(each) == "system" else []
        text = "\n\n".join(readable_texts(blocks))
        changes_tools = len(blocks) < len(each.message.get("content") or ())
        if _role_of(each) != "system" or changes_tools:
            messages.append(each)
        elif text.strip():
            messages.append(RenderedMessage(bedrock.user(f"[system]\n{text}"), each.sources))
    return Rendered(system, messages)


def _bedrocks_role_calls(sent: RenderedMessage) -> RoleCalls:
    (parsed,) = bedrock.parse([sent.message]).messages
    return RoleCalls(parsed.role, parsed.calls, parsed.answers)


def _without_system(sent: Sequence[RenderedMessage]) -> Rendered:
    """Move the system entries out of Anthropic messages.

    Those at the beginning become system blocks. A later one would change the beginning of the
    prompt, and all that is cached. So it becomes a user message in its place, or beside it where it
    would part a call from its results. One with more than texts, as of a tool that comes or goes,
    stays a system message: only the models that take these amid the others know such blocks. Where
    the API does not take it, it moves, which is noted.
    """
    roles = list(map(_role_of, sent))
    leading = _leading(roles)
    rest = sent[leading:]
    system = [
        RenderedMessage(block, each.sources)
        for each in sent[:leading]
        for block in _system_blocks(each.message.get("content"))
    ]
    no_texts = [each.sources for each in sent[:leading] if _has_more_than_texts(each.message)]
    lost: dict[str, frozenset[int]] = {}
    if no_texts:
        lost[_NO_SYSTEM_TEXT] = frozenset(chain(*no_texts))
    if "system" not in roles[leading:]:
        return Rendered(system, [*rest], lost)
    messages: list[RenderedMessage] = []
    for each in in_place(rest, _role_calls):
        if _role_of(each) != "system" or _has_more_than_texts(each.message):
            messages.append(each)
            continue
        texts = [block["text"] for block in _system_blocks(each.message.get("content"))]
        if texts:
            text = "[system]\n" + "\n\n".join(texts)
            messages.append(RenderedMessage(anthropic.user(text), each.sources))
    messages = _in_their_turn(messages)
    if moved := _moved(rest, messages):
        lost[_MOVED] = moved
    return Rendered(system, messages, lost)


def _in_their_turn(messages: Sequence[RenderedMessage]) -> list[RenderedMessage]:
    """Return the messages with each system message right before the assistant's next turn, or at
    the end, after the user's message; several there are one."""
    placed: list[RenderedMessage] = []
    late: list[RenderedMessage] = []
    turn = 0  # the start of the assistant's turn
    for each in messages:
        if _role_of(each) == "system":
            late.append(each)
            continue
        if _role_of(each) == "assistant":
            is_going_on = placed and _role_of(placed[-1]) == "assistant"
            if late and is_going_on and not _takes_system(placed[-1]):
                # Both are one turn to the API, and what it calls must be there before.
                late = _put(late, placed, turn)
            if late:
                late = _put(late, placed, len(placed))
                is_going_on = False
            if not is_going_on:
                turn = len(placed)
        placed.append(each)
    if late:
        late = _put(late, placed, len(placed)) and _put(late, placed, turn)
    return [*placed, *late]


def _put(
    late: Sequence[RenderedMessage], placed: list[RenderedMessage], position: int
) -> list[RenderedMessage]:
    """Put the system messages in, where the API takes them; return those that are left."""
    if position and _role_of(placed[position - 1]) == "system":
        late = [placed.pop(position - 1), *late]
        position -= 1
    elif not position or not _takes_system(placed[position - 1]):
        return [*late]
    if len(late) > 1:
        blocks = [block for each in late for block in each.message["content"]]
        sources = tuple([source for each in late for source in each.sources])
        late = [RenderedMessage({"role": "system", "content": blocks}, sources)]
    placed[position:position] = late
    return []


def _moved(before: Sequence[RenderedMessage], after: Sequence[RenderedMessage]) -> frozenset[int]:
    """Return the sources of the system messages that follow another message than before."""
    was = {now.sources: last.sources for last, now in pairwise(before)}
    return frozenset(
        source
        for last, now in pairwise(after)
        if _role_of(now) == "system" and was.get(now.sources) != last.sources
        for source in now.sources
    )


def _role_of(sent: RenderedMessage) -> str:
    return normal_role(str(sent.message.get("role")))


def _takes_system(sent: RenderedMessage) -> bool:
    """Return whether a system message may follow: the user's message, or a server tool's result."""
    content, role = sent.message.get("content"), _role_of(sent)
    if role != "assistant":
        return role == "user"
    blocks = content if isinstance(content, (list, tuple)) else ()
    kinds = [type_of(block) for block in blocks if isinstance(block, Mapping)]
    return bool(kinds) and kinds[-1].endswith("_tool_result")


_MOVED = "a system message is sent where the API takes one, which is not its place:"
_NO_SYSTEM_TEXT = "blocks other than texts, before the first message, are not sent:"


def _has_more_than_texts(message: Mapping[str, Any]) -> bool:
    content = message.get("content")
    blocks = content if isinstance(content, (list, tuple)) else ()
    return any(isinstance(each, Mapping) and type_of(each) != "text" for each in blocks)


def _role_calls(sent: RenderedMessage) -> RoleCalls:
    """Return the calls and results of client tools in an Anthropic message."""
    content, role = sent.message.get("content"), _role_of(sent)
    if not isinstance(content, (list, tuple)):
        return RoleCalls(role)
    blocks = [block for block in content if isinstance(block, Mapping)]
    calls = [str(block.get("id")) for block in blocks if type_of(block) == "tool_use"]
    answers = [str(block.get("tool_use_id")) for block in blocks if type_of(block) == "tool_result"]
    return RoleCalls(role, calls, answers)


def _leading(roles: Sequence[str]) -> int:
    """Return how many system entries the list begins with."""
    return next(
        (index for index, role in enumerate(roles) if normal_role(role) != "system"), len(roles)
    )


def _system_blocks(content: Any) -> list[Any]:
    """Return a system entry's texts as blocks; one that is a block already is the same object."""
    if isinstance(content, str):
        content = [content]
    blocks = []
    for block in content or ():
        text = block if isinstance(block, str) else block.get("text")
        if isinstance(text, str) and text.strip():
            blocks.append(anthropic.system(text) if isinstance(block, str) else block)
    return blocks
