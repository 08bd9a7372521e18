"""What becomes of the model's thinking: "auto", "keep" or "strip".

"strip" takes it out of all but an open tool loop, before anything is measured: providers take what
was said without the thoughts that led to it. They do not all take a tool loop under way that lost
them, so what the model said since the user's last turn stays as it is while its tools are at work.

"auto" takes it out behind the first change, for models that refuse it there. The blocks that stay
are then the first ones of the conversation, in one run: a gap would be refused as well.
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
from rehydrate.messages import Conversation, Message, PieceKind, Unit

WAITS = "waits for the end of the turn"
"""Why a unit is kept that might have gone, where no change is safe."""


class Stripped(NamedTuple):
    """A conversation read anew without its thinking; places are those of the list that came in."""

    conversation: Conversation
    entries: Sequence[Any]
    """Parallel to the list that came in: None for what was nothing but thinking."""
    tokens: dict[int, int]
    """By the place of each message that was changed or left out, the tokens it lost by it."""
    unit_tokens: dict[int, int]
    """The same by unit, as far as something is left of it."""


class Unthinking(NamedTuple):
    """What is left of a conversation, and of its entries; places are those that came in."""

    conversation: Conversation
    entries: Sequence[Any]


def treat_thinking(
    policy: str,
    conversation: Conversation,
    entries: Sequence[Any],
    counter: str | _engine.CustomCounter,
) -> Stripped:
    """The conversation of these entries as it is, or without its thinking under "strip".

    The entries are not changed.
    """
    if policy != "strip":
        return Stripped(conversation, entries, {}, {})
    rest, shown = without_thinking(conversation, entries)
    changed = _changed(conversation, shown, entries)
    if not changed:
        return Stripped(conversation, entries, {}, {})
    before = {message.index: message for message in conversation.messages}
    after = {message.index: message for message in rest.messages}
    lost = _engine.message_tokens([before[place] for place in changed], counter)
    left = [after.get(place, Message(place, "", ())) for place in changed]
    spared = zip(changed, lost, _engine.message_tokens(left, counter), strict=True)
    tokens = {place: was - now for place, was, now in spared}
    return Stripped(rest, shown, tokens, _by_unit(tokens, conversation, rest))


class Binding(NamedTuple):
    """What a conversation's thinking is bound to, for the model that is asked next."""

    conversation: Conversation
    entries: Sequence[Any]
    model: ThinkingModel
    gone: tuple[int, ...] = ()
    """The places of messages that were taken out of the conversation before: changes too."""

    @classmethod
    def of(
        cls,
        policy: str,
        conversation: Conversation,
        entries: Sequence[Any],
        model: str,
        gone: Iterable[int] = (),
    ) -> Self:
        """That of the model of this name; none at all where the policy is another than "auto"."""
        name = conversation.format
        row = thinking_model(model, name, entries) if policy == "auto" else UNBOUND
        return cls(conversation, entries, row, tuple(gone))

    @property
    def needs_thoughts(self) -> bool:
        """Whether an open tool loop must keep the thinking that it begins with."""
        return not self.model.refuses_changed_prefix or self.model.open_loop == "leading"

    def first_change(self, kept_units: Sequence[bool], cut: Sequence[int] = ()) -> int | None:
        """The place of the first message that goes, or that is `cut`, a part of it kept; None where
        none does, or nothing is bound to it."""
        if not self.model.refuses_changed_prefix:
            return None
        changed = self.conversation.dropped_indices(kept_units)
        changed += cut
        changed += self.gone
        start = self._behind() if changed else 0
        return min([index for index in changed if index >= start], default=None)

    def waits(self, kept_units: Sequence[bool], cut: Sequence[int] = ()) -> bool:
        """Whether a compaction that keeps these, the `cut` ones in part, must wait for the end of
        the turn."""
        if self.model.open_loop == "any":
            return False
        first = self.first_change(kept_units, cut)
        return first is not None and self.must_wait(first)

    def must_wait(self, first: int) -> bool:
        """Whether neither with nor without thinking behind this change the open tool loop is sure
        to be taken: the model refuses the thinking, and the loop's beginning without it."""
        _, beginning = self.conversation.loop_start() or (0, None)
        if beginning is None or beginning < first:
            return False
        entry = self.entries[beginning]
        return formats.FORMATS[self.conversation.format].without_thinking([entry])[0] is not entry

    def _behind(self) -> int:
        """From which place on a change matters: that of the last summary of the API's own.

        Thinking behind a `compaction` block is bound to the block, and not to what came before it.
        """
        if self.conversation.format != "anthropic":
            return 0
        for index in reversed(self.conversation.uncommon_indices()):
            content = self.entries[index].get("content")
            if isinstance(content, (list, tuple)) and any(
                isinstance(block, Mapping) and type_of(block) == "compaction" for block in content
            ):
                return index
        return 0


def why_waiting(model: str) -> str:
    """What `degraded` says of a compaction that waits."""
    named = f"model {model!r}" if model else "the model, which nobody named,"
    return (
        f"the compaction waits for the end of the turn, since {named} may refuse the "
        "open tool loop with its thinking behind a change as well as without it; pass the model's "
        'name, register it in THINKING_MODELS, or choose thinking="keep" or "strip"'
    )


class Rest(NamedTuple):
    """What is kept of a compacted conversation once it has no thinking behind its first change."""

    indices: list[int]
    entries: list[Any]
    """Parallel to the indices."""
    tokens: dict[int, int]
    """By the place of each message that was changed or left out, the tokens it lost by it."""


def without_stale(
    conversation: Conversation,
    indices: Sequence[int],
    entries: Sequence[Any],
    first: int,
    parts: Mapping[int, Message],
    counter: str | _engine.CustomCounter,
) -> Rest:
    """The kept entries, without the thinking of those that came in at ``first`` or behind it.

    ``parts`` are the messages that are kept in part, as they are now, by place.
    """
    start = bisect_left(indices, first)
    after = dict(zip(indices[start:], entries[start:], strict=True))
    thoughtful = [index for index in conversation.thoughtful_indices() if index in after]
    if not thoughtful:
        return Rest([*indices], [*entries], {})
    shown = formats.FORMATS[conversation.format].without_thinking([after[i] for i in thoughtful])
    after.update(zip(thoughtful, shown, strict=True))
    lost = [
        index
        for index, entry in zip(indices[start:], entries[start:], strict=True)
        if after[index] is not entry
    ]
    whole = {message.index: message for message in conversation.messages} if lost else {}
    had = [parts.get(index, whole[index]) for index in lost]
    left = [_spoken(each) if after[each.index] is not None else _nothing(each) for each in had]
    before, now = _engine.message_tokens(had, counter), _engine.message_tokens(left, counter)
    return Rest(
        [*indices[:start], *(index for index in after if after[index] is not None)],
        [*entries[:start], *(entry for entry in after.values() if entry is not None)],
        {index: was - is_now for index, was, is_now in zip(lost, before, now, strict=True)},
    )


def _spoken(message: Message) -> Message:
    pieces = [piece for piece in message.pieces if piece.kind != PieceKind.THINKING]
    return message._replace(pieces=tuple(pieces))


def _nothing(message: Message) -> Message:
    return Message(message.index, "", ())


def without_thinking(conversation: Conversation, entries: Sequence[Any]) -> Unthinking:
    """The conversation of these entries without its thinking, but for its open tool loop."""
    shown = formats.FORMATS[conversation.format].without_thinking(entries)
    if not _changed(conversation, shown, entries):
        return Unthinking(conversation, entries)
    # Whether a loop is open is asked without thoughts: one that stands alone behind the results
    # is no answer to them.
    rest = _read(conversation, shown)
    found = rest.loop_start()
    if found is not None:
        start, _ = found
        shown[start:] = entries[start:]
        rest = _read(conversation, shown)
    return Unthinking(rest, shown)


def _changed(conversation: Conversation, shown: Sequence[Any], entries: Sequence[Any]) -> list[int]:
    places = [message.index for message in conversation.messages]
    return [place for place in places if shown[place] is not entries[place]]


def _read(conversation: Conversation, shown: Sequence[Any]) -> Conversation:
    """Read what is left of its messages, under the places of the whole list."""
    places = [m.index for m in conversation.messages if shown[m.index] is not None]
    rest = formats.FORMATS[conversation.format].parse([shown[place] for place in places])
    messages = tuple([message._replace(index=places[message.index]) for message in rest.messages])
    by_place = {message.index: message for message in messages}
    units = []
    for unit in rest.units:
        members = tuple([places[index] for index in unit.members])
        units.append(Unit(members, tuple([by_place[place] for place in members])))
    return rest._replace(
        messages=messages,
        units=tuple(units),
        ignored=conversation.ignored,
        bound=tuple([places[index] for index in rest.bound]),
    )


def _by_unit(tokens: dict[int, int], before: Conversation, after: Conversation) -> dict[int, int]:
    unit_of = {index: unit for unit, whole in enumerate(after.units) for index in whole.members}
    members = {index: whole.members for whole in before.units for index in whole.members}
    lost: dict[int, int] = {}
    for place, count in tokens.items():
        unit = next((unit_of[index] for index in members[place] if index in unit_of), None)
        if unit is not None:
            lost[unit] = lost.get(unit, 0) + count
    return lost


_ANYONES = frozenset({"openai_chat", "langchain", "plain"})
_OWN = {"claude_code": "anthropic"}


def sent_to(conversation: Conversation, provider: str | None, model: str) -> Conversation:
    """The conversation under the rule of whom it is for: Anthropic wants the user first.

    Without a provider a Claude is Anthropic's, and everything else takes the list's own rule. Only
    shapes that are sent to anyone may be for another than their own provider.
    """
    if conversation.format in _ANYONES:
        if provider is None and "claude" in model.lower():
            provider = "anthropic"
        if provider is None:
            return conversation
        return conversation._replace(user_first=provider == "anthropic")
    own = _OWN.get(conversation.format, conversation.format)
    if provider not in (None, own):
        raise InvalidArgumentError(
            f"provider is {provider!r}, and the messages are {own}'s; compile a Context for "
            "another provider, or leave it out"
        )
    return conversation
