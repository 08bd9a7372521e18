"""Rendering: a history in a provider's shape, whatever shape it came in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from rehydrate.formats import anthropic_writing, openai_chat_writing, openai_responses_writing
from rehydrate.formats._reading import type_of
from rehydrate.formats.claude_code_writing import merged_lines
from rehydrate.formats.neutral import Heard, Said, Sent, in_place
from rehydrate.formats.translation import read
from rehydrate.messages import Provider, normal_role

__all__ = ["RENDERERS", "Rendered", "Renderer", "render_history"]


class Renderer(Protocol):
    """What the module of a provider offers."""

    def system(self, text: str, /) -> dict[str, Any]:
        """A system block or message."""

    def user(self, text: str, /) -> dict[str, Any]:
        """A message of our own."""

    def own(self, entry: Any, /) -> Any:
        """An entry of its own format without keys that it refuses; nearly always the very same."""

    def write(self, said: Sequence[Said], /) -> list[Sent]:
        """Messages of what was said."""

    def mark(self, message: Any, /) -> Any | None:
        """A copy with a cache mark; None where there is no place for one."""

    def request(
        self, tools: list[Any], system: list[Any], messages: list[Any], /
    ) -> dict[str, Any]:
        """The arguments of the SDK."""


RENDERERS: Mapping[Provider, Renderer] = {
    "anthropic": anthropic_writing,
    "openai_chat": openai_chat_writing,
    "openai_responses": openai_responses_writing,
}


class Rendered(NamedTuple):
    """A history in a provider's shape."""

    system: list[Sent]
    """Of a history that begins with system entries, where the provider has another place for
    them: these."""
    messages: list[Sent]
    notes: tuple[str, ...]
    """What was left out or put otherwise, in words."""


def render_history(
    entries: Sequence[Any],
    format: str,  # noqa: A002  the field's word
    provider: Provider,
) -> Rendered:
    """A history in this format, for a provider.

    Entries in the provider's own format stay the very same objects, unless they have keys that it
    refuses.

    Raises InvalidMessageError for an entry that can be sent to its own provider only.
    """
    renderer = RENDERERS[provider]
    notes: tuple[str, ...] = ()
    if format == provider:
        sent = [Sent(renderer.own(entry), (place,)) for place, entry in enumerate(entries)]
    elif format == "claude_code" and provider == "anthropic":
        sent = [Sent(*each) for each in merged_lines(entries)]
    else:
        said, notes = read(entries, format)
        if provider == "anthropic":
            leading = _leading([each.role for each in said])
            system = [Sent(renderer.system(each.text), each.sources) for each in said[:leading]]
            return Rendered(system, renderer.write(said[leading:]), notes)
        return Rendered([], renderer.write(said), notes)
    if provider == "anthropic":
        return _without_system(sent)
    return Rendered([], sent, notes)


def _without_system(sent: Sequence[Sent]) -> Rendered:
    """Anthropic's own messages, the system entries among them lifted out.

    Those at the beginning are system blocks. A later one would change the prompt's beginning, and
    with it all that is cached: it becomes a message of the user's in its place, or beside it where
    that would part a call from its results.
    """
    roles = [normal_role(str(each.message.get("role"))) for each in sent]
    leading = _leading(roles)
    rest = sent[leading:]
    system = [
        Sent(block, each.sources)
        for each in sent[:leading]
        for block in _system_blocks(each.message.get("content"))
    ]
    if "system" not in roles[leading:]:
        return Rendered(system, [*rest], ())
    messages: list[Sent] = []
    for each in in_place(rest, _heard):
        if _heard(each).role != "system":
            messages.append(each)
            continue
        texts = [block["text"] for block in _system_blocks(each.message.get("content"))]
        if texts:
            text = "[system]\n" + "\n\n".join(texts)
            messages.append(Sent(anthropic_writing.user(text), each.sources))
    return Rendered(system, messages, ())


def _heard(sent: Sent) -> Heard:
    """An Anthropic message's client tools, called and answered."""
    content, role = sent.message.get("content"), normal_role(str(sent.message.get("role")))
    if not isinstance(content, (list, tuple)):
        return Heard(role)
    blocks = [block for block in content if isinstance(block, Mapping)]
    calls = [str(block.get("id")) for block in blocks if type_of(block) == "tool_use"]
    answers = [str(block.get("tool_use_id")) for block in blocks if type_of(block) == "tool_result"]
    return Heard(role, calls, answers)


def _leading(roles: Sequence[str]) -> int:
    """How many system entries a list begins with."""
    return next(
        (place for place, role in enumerate(roles) if normal_role(role) != "system"), len(roles)
    )


def _system_blocks(content: Any) -> list[Any]:
    """The texts of a system entry as blocks; one that is a block already is the same object."""
    if isinstance(content, str):
        content = [content]
    blocks = []
    for block in content or ():
        text = block if isinstance(block, str) else block.get("text")
        if isinstance(text, str) and text.strip():
            blocks.append(anthropic_writing.system(text) if isinstance(block, str) else block)
    return blocks
