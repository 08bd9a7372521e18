"""The policies for the model's thinking in kept messages: "auto", "keep" and "strip".

"strip" removes it before anything is measured, but for an open tool loop. Providers take a
conversation without thoughts, but some refuse a tool loop that lost them; so what the model wrote
since the user's last turn stays as it is while its tools run.

"auto" removes it after the first change, for models that refuse it there. The thinking that stays
is then one run at the beginning of the conversation: a gap would be refused as well.
https://platform.claude.com/docs/en/build-with-claude/preserved-thinking
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

from rehydrate import _engine, formats
from rehydrate.errors import InvalidArgumentError
from rehydrate.formats._reading import type_of
from rehydrate.formats.thinking import UNBOUND, ThinkingModel, thinking_model
from rehydrate.messages import PROVIDER_OF, SYSTEM_APART, Conversation, Message, PieceKind

WAITS = "waits for the end of the turn"
"""The reason why a unit is kept that could go, where no change is safe."""


class Stripped(NamedTuple):
    """A conversation read without its thinking; indices are those of the caller's list."""

    conversation: Conversation
    entries: Sequence[Any]
    """Parallel to the caller's list: None for an entry of nothing but thinking."""
    tokens: Mapping[int, int] = {}
    """Index of each message that was changed or removed -> the tokens it lost."""
    unit_tokens: Mapping[int, int] = {}
    """Unit -> the tokens it lost, for units of which something is left."""


def apply_thinking_policy(
    policy: str,
    conversation: Conversation,
    entries: Sequence[Any],
    counter: str | _engine.CustomCounter,
) -> Stripped:
    """Return the conversation as it is, or under "strip" without its thinking.

    The entries are not changed.
    """
    if policy != "strip":
        return Stripped(conversation, entries)
    rest, stripped = without_thinking(conversation, entries)
    changed = _changed_indices(conversation, stripped, entries)
    if not changed:
        return Stripped(conversation, entries)
    before = {message.index: message for message in conversation.messages}
    after = {message.index: message for message in rest.messages}
    tokens = _lost_tokens(
        [before[index] for index in changed],
        [after.get(index, Message(index, "", ())) for index in changed],
        counter,
    )
    return Stripped(rest, stripped, tokens, _by_unit(tokens, conversation, rest))


class PrefixBinding(NamedTuple):
    """Whether the next model binds the thinking of a conversation to the messages before it."""

    conversation: Conversation
    entries: Sequence[Any]
    model: ThinkingModel
    removed: tuple[int, ...] = ()
    """Indices of messages that were taken out of the conversation before: changes too."""

    @classmethod
    def of(
        cls,
        policy: str,
        conversation: Conversation,
        entries: Sequence[Any],
        model: str,
        removed: Iterable[int] = (),
    ) -> Self:
        """Return the binding of the named model; under another policy than "auto" none."""
        name = conversation.format
        rules = thinking_model(model, name, entries) if policy == "auto" else UNBOUND
        return cls(conversation, entries, rules, tuple(removed))

    @property
    def needs_thoughts(self) -> bool:
        """Whether an open tool loop must keep the thinking at its beginning."""
        return not self.model.refuses_changed_prefix or self.model.open_loop == "leading"

    def first_change(self, kept_units: Sequence[bool], excerpted: Sequence[int] = ()) -> int | None:
        """Return the index of the first message that goes or is excerpted; None without one, and
        for a model that does not bind thinking."""
        if not self.model.refuses_changed_prefix:
            return None
        changed = self.conversation.dropped_indices(kept_units)
        changed += excerpted
        changed += self.removed
        start = self._start() if changed else 0
        return min([index for index in changed if index >= start], default=None)

    def must_wait(self, kept_units: Sequence[bool], excerpted: Sequence[int] = ()) -> bool:
        """Return whether a compaction that keeps these units must wait for the end of the turn."""
        if self.model.open_loop == "any":
            return False
        first = self.first_change(kept_units, excerpted)
        return first is not None and self.loop_is_at_risk(first)

    def loop_is_at_risk(self, first_change: int) -> bool:
        """Return whether the model may refuse the open tool loop after this change either way: it
        refuses the thinking there, and a loop without the thinking at its beginning."""
        _, beginning = self.conversation.loop_start() or (0, None)
        if beginning is None or beginning < first_change:
            return False
        entry = self.entries[beginning]
        return formats.FORMATS[self.conversation.format].without_thinking([entry])[0] is not entry

    def _start(self) -> int:
        """Return the index from which on a change matters: the last summary of the API's own.

        Thinking after a `compaction` block is bound to that block, not to what came before it.
        """
        for index in reversed(self.conversation.uncommon_indices()):
            content = formats.content_of(self.entries[index], self.conversation.format)
            if isinstance(content, (list, tuple)) and any(
                isinstance(block, Mapping) and type_of(block) == "compaction" for block in content
            ):
                return index
        return 0


def why_waiting(model: str) -> str:
    """Return the line of `degraded` for a compaction that waits."""
    named = f"model {model!r}" if model else "the model, which nobody named,"
    return (
        f"the compaction waits for the end of the turn, since {named} may refuse the "
        "open tool loop with its thinking behind a change as well as without it; pass the model's "
        'name, register it in THINKING_MODELS, or choose thinking="keep" or "strip"'
    )


def without_stale_thinking(
    conversation: Conversation,
    indices: Sequence[int],
    entries: Sequence[Any],
    first_change: int,
    excerpts: Mapping[int, Message],
    counter: str | _engine.CustomCounter,
) -> tuple[list[int], list[Any], dict[int, int]]:
    """Return the kept entries without the thinking from ``first_change`` on: their indices, the
    entries, and index -> tokens lost, for each message that was changed or removed.

    ``excerpts`` maps an index to its message, for messages that are kept in part.
    """
    start = bisect_left(indices, first_change)
    after = dict(zip(indices[start:], entries[start:], strict=True))
    with_thoughts = [index for index in conversation.thoughtful_indices() if index in after]
    if not with_thoughts:
        return [*indices], [*entries], {}
    # What a message of thinking alone becomes may depend on the one before.
    first = max(start - 1, 0)
    stripped = formats.FORMATS[conversation.format].without_thinking(entries[first:])
    after = dict(zip(indices[start:], stripped[start - first :], strict=True))
    changed = [
        index
        for index, entry in zip(indices[start:], entries[start:], strict=True)
        if after[index] is not entry
    ]
    whole = {message.index: message for message in conversation.messages} if changed else {}
    before = [excerpts.get(index, whole[index]) for index in changed]
    rest = [_without_thoughts(each, after[each.index], conversation.format) for each in before]
    return (
        [*indices[:start], *(index for index in after if after[index] is not None)],
        [*entries[:start], *(entry for entry in after.values() if entry is not None)],
        _lost_tokens(before, rest, counter),
    )


def _without_thoughts(message: Message, entry: Any, format: str) -> Message:  # noqa: A002
    """Return the message that is left, for counting; ``entry`` is what is sent of it."""
    if entry is None:
        return Message(message.index, "", ())
    pieces = [piece for piece in message.pieces if piece.kind != PieceKind.THINKING]
    if not pieces:  # a text that says so may be in its place
        pieces = [
            piece for each in formats.parse([entry], format).messages for piece in each.pieces
        ]
    return message._replace(pieces=tuple(pieces))


def _lost_tokens(
    before: Sequence[Message], after: Sequence[Message], counter: str | _engine.CustomCounter
) -> dict[int, int]:
    """Return index -> tokens lost, for the same messages before and after."""
    counts = _engine.message_tokens(before, counter), _engine.message_tokens(after, counter)
    return {
        message.index: was - is_now for message, was, is_now in zip(before, *counts, strict=True)
    }


def without_thinking(
    conversation: Conversation, entries: Sequence[Any]
) -> tuple[Conversation, Sequence[Any]]:
    """Return the conversation of these entries without its thinking, but for an open tool loop, and
    its entries: None for one of nothing but thinking."""
    stripped = formats.FORMATS[conversation.format].without_thinking(entries)
    if not _changed_indices(conversation, stripped, entries):
        return conversation, entries
    # Without thoughts first: a thought that is alone after results does not answer them, and
    # must not hide that the loop is open.
    rest = _reread(conversation, stripped)
    found = rest.loop_start()
    if found is not None:
        start, _ = found
        stripped[start:] = entries[start:]
        rest = _reread(conversation, stripped)
    return rest, stripped


def _changed_indices(
    conversation: Conversation, after: Sequence[Any], before: Sequence[Any]
) -> list[int]:
    indices = [message.index for message in conversation.messages]
    return [index for index in indices if after[index] is not before[index]]


def _reread(conversation: Conversation, entries: Sequence[Any]) -> Conversation:
    """Read the entries that are left of a conversation; its indices stay the same."""
    left = [m.index for m in conversation.messages if entries[m.index] is not None]
    rest = formats.FORMATS[conversation.format].parse([entries[index] for index in left])
    return rest.renumbered(left).replace(ignored=conversation.ignored)


def _by_unit(tokens: dict[int, int], before: Conversation, after: Conversation) -> dict[int, int]:
    """Return unit -> tokens; a message that is gone counts for a message of its old unit."""
    unit_of = after.unit_of()
    members = {index: unit.members for unit in before.units for index in unit.members}
    lost: dict[int, int] = {}
    for index, count in tokens.items():
        unit = next((unit_of[member] for member in members[index] if member in unit_of), None)
        if unit is not None:
            lost[unit] = lost.get(unit, 0) + count
    return lost


_GATEWAY_FORMATS = frozenset({"ai_sdk", "ai_sdk_ui", "openai_chat", "langchain", "plain"})
"""Formats that gateways, or the AI SDK, send to any provider."""


def for_provider(conversation: Conversation, provider: str | None, model: str) -> Conversation:
    """Return the conversation under its provider's rule: Anthropic wants the user first.

    Without a provider, a Claude counts as Anthropic's, and any other list keeps its own rule.
    Raises InvalidArgumentError where the format is another provider's own.
    """
    if conversation.format in _GATEWAY_FORMATS:
        if provider is None and "claude" in model.lower():
            provider = "anthropic"
        if provider is None:
            return conversation
        return conversation.replace(user_first=provider in SYSTEM_APART)
    own: str = PROVIDER_OF.get(conversation.format, conversation.format)
    if provider not in (None, own):
        raise InvalidArgumentError(
            f"provider is {provider!r}, and the messages are {own}'s; compile a Context for "
            "another provider, or leave it out"
        )
    return conversation
