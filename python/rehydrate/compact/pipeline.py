"""The stages of a compaction: read, ask the signals, choose, write to memory, rebuild, count.

Parallel calls: each call with its result is kept or dropped by itself, if the API allows it. An
assistant message with several calls is parted into several with one call each, every one before its
own result. That is a valid conversation, so all stages work on it as on any other. At the end the
kept parts are joined: a message of which every part is kept unchanged is the caller's own object,
any other only has the kept blocks.

    assistant [text, call a, call b]   user [result a, result b]
    assistant [text, call a]   user [result a]   assistant [call b]   user [result b]

Messages that must stay together are never parted: `rust/rehydrate-py/src/parting.rs`.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache, partial
from itertools import compress
from typing import TYPE_CHECKING, Any

from rehydrate import _native, formats
from rehydrate._native import Parted, as_sequence, pinned_indices, user_message
from rehydrate.compact.options import Arguments, pinned_units
from rehydrate.compact.outline import OutlinePlan
from rehydrate.compact.result import ChangedEntry, Compaction, M, Reasons, Stats
from rehydrate.compact.signals import (
    COVERED,
    external_signals,
    recalls_vectors,
)
from rehydrate.errors import InvalidArgumentError
from rehydrate.formats.thinking import UNBOUND, WAITS, thinking_model, why_waiting
from rehydrate.messages import PROVIDER_OF, SYSTEM_APART, Conversation, problems_of

if TYPE_CHECKING:
    from rehydrate.compact.archive import ArchiveWriter


def compact(messages: Sequence[M], arguments: Arguments, started: float) -> Compaction[M]:
    """Return the compaction of these messages; `started` is an instant of ``time.perf_counter``."""
    messages = tuple(as_sequence(messages))  # as it is now: another thread may change the list
    run = _Run(messages, arguments)
    run.ask()
    run.choose()
    run.rebuild()
    stats = run.stats(started)
    if not stats.changed:
        return Compaction(list(messages), list(range(len(messages))), stats, run.reasons)
    replaced = tuple(run.origins(map(int, run.plan.replaced)))
    own = run.parted.originals if run.parted else run.entries
    if own is not messages:  # the caller's own SDK object for each that did not change
        run.kept = [
            messages[index] if entry is own[index] else entry
            for index, entry in zip(run.indices, run.kept, strict=True)
        ]
    return Compaction(run.kept, run.indices, stats, run.reasons, run.outline, replaced)


_NO_OUTLINE = "outline: Converse's roles alternate, and it would be a second message of the user's"


class _Run:
    """One compaction under way: the results of each stage, for those after it."""

    def __init__(self, messages: Sequence[Any], arguments: Arguments) -> None:
        """Read, part, strip, pin, divide and count the messages."""
        self.arguments = arguments
        scoring, counter = arguments.scoring, arguments.counter
        self.count = partial(_native.message_tokens, counter=counter)
        read, self.entries = formats.read(messages, arguments.format)
        read.check_speakers(scoring.structural)
        pinned: Collection[int] = pinned_indices(messages, arguments.pin)
        # Only an objective of both can weigh an inferred query against the rest; scores alone
        # cannot.
        weighs = arguments.is_calibrated and arguments.packs_by_coverage
        self.parted: Parted | None = None
        if weighs and arguments.granularity == "message":  # excerpts divide the results one by one
            self.parted = Parted.of(read, self.entries, pinned)
        if self.parted:
            read, self.entries = self.parted.read(), self.parted.entries
            pinned = self.parted.places(pinned)
        outline = False if read.format == "bedrock" else arguments.outline
        self.plan, read = OutlinePlan.of(outline, read, arguments.target_of, counter, pinned)
        self.stripped: Sequence[Any] = self.entries
        self.stripped_tokens: Mapping[int, int] = {}
        self.stripped_units: Mapping[int, int] = {}
        if arguments.thinking == "strip":
            read, self.stripped, self.stripped_tokens, self.stripped_units = (
                _native.without_thinking(read, self.entries, self.count)
            )
        self.conversation = conversation = _for_provider(read, arguments)
        rules = UNBOUND
        if arguments.thinking == "auto":
            rules = thinking_model(arguments.model, conversation.format, self.entries)
        self.binding = _native.PrefixBinding(conversation, self.entries, rules)
        self.query = _native.weighted_query(conversation, arguments.query, infer=weighs)
        thoughts = self.binding.needs_thoughts
        self.pins, by_caller = pinned_units(conversation, [*pinned], thoughts=thoughts)
        self.divisible: _native.DivisibleTexts | None = None
        if arguments.granularity == "excerpt":
            for_words = conversation.kept_for_words().difference(by_caller)
            self.divisible = _native.DivisibleTexts(
                conversation, self.stripped, self.pins, for_words
            )
        self._prepare()

    def _prepare(self) -> None:
        """Count and analyse the conversation."""
        arguments, conversation, divisible = self.arguments, self.conversation, self.divisible
        counter, has_query = arguments.counter, self.query is not None
        has_handles = arguments.archive is not None and arguments.archive.dropped
        self.prepared = _native.Prepared(
            divisible.conversation if divisible else conversation,
            weight_of=arguments.scoring.weight_of,
            pinned=[unit in self.pins for unit in range(conversation.unit_count)],
            counter=counter,
            embed=arguments.embedder.has_builtin
            and (arguments.embedder.model is None or (arguments.is_calibrated and has_query)),
            calibrated=arguments.is_calibrated,
            coverage=arguments.packs_by_coverage,
            asked=has_query,
            recalled=recalls_vectors(arguments.memory),
            divisible=divisible,
            with_handles=has_handles,
        )
        self.message_tokens: Sequence[int] = (
            divisible.message_tokens(self.prepared, self.count)
            if divisible
            else self.prepared.message_tokens
        )
        self.before_tokens = sum(self.message_tokens) + self.plan.replaced_tokens
        self.before_tokens -= self._rounding([True] * conversation.message_count)
        self.target_tokens = arguments.target_of(self.before_tokens)

    def origins(self, indices: Iterable[int]) -> Iterable[int]:
        """Return the indices of messages in the caller's list."""
        if self.parted is None:
            return indices
        origins = self.parted.origins  # a new list each time
        return [origins[each] for each in indices]

    def _rounding(self, kept: Sequence[bool]) -> int:
        """Return what kept messages cost more in parts than whole: some counters round up."""
        if self.parted is None:
            return 0
        both, part_count = self.parted.both_ways(self.conversation, kept)
        tokens = self.count(both) if part_count else []
        return sum(tokens[:part_count]) - sum(tokens[part_count:])

    def ask(self) -> None:
        """Ask the caller's model and memory."""
        divisible = self.divisible
        self.signals = external_signals(
            self.arguments.embedder.model,
            self.arguments.memory,
            self.prepared.parts(divisible.conversation if divisible else self.conversation),
            self.prepared,
            self.query.text if self.query else None,
            calibrated=self.arguments.is_calibrated,
            deadline=self.arguments.timeout,
        )
        self.problems = [
            *problems_of(self.conversation.unknown),
            *([_NO_OUTLINE] if self.arguments.outline and not self.plan.size else ()),
            *self.signals.problems,
        ]

    def choose(self) -> None:
        """Select what fits the target; keep everything if the compaction must wait."""
        arguments, conversation = self.arguments, self.conversation
        self.reply = conversation.answered_reply() if arguments.scoring.keeps_reply else None
        select = partial(
            self._select,
            query=self.query,
            vectors=self.signals.vectors,
            memory_coverage=self.signals.coverage,
            scoring=arguments.scoring,
            reply=self.reply,
        )
        self.plan, selection = self.plan.select(
            select,
            conversation,
            self.entries,
            arguments.model,
            self.before_tokens,
            self.target_tokens,
            self._pinned_tokens() if arguments.outline else 0,
        )
        self.excerpts: _native.Excerpts | None = None
        if self.divisible:
            self.excerpts = _native.Excerpts(self.divisible, self.prepared, selection, self.count)
        changed = self.excerpts.changed_indices(at_most=True) if self.excerpts else ()
        if self.binding.must_wait(selection.kept, [*changed, *map(int, self.plan.replaced)]):
            self.problems.append(why_waiting(arguments.model))
            self.pins = dict.fromkeys(range(conversation.unit_count), WAITS)
            selection, self.excerpts = select(target_tokens=self.before_tokens), None
            self.plan = self.plan.cancelled()
        self.decision = _native.Decision(conversation, selection, self.message_tokens)

    def _select(self, *, target_tokens: int, **options: Any) -> _native.Selection:
        """Return the engine's selection for this target.

        Divided inputs cost a few tokens more or less than whole ones. So what fits whole is not
        cut; `Excerpts.fit` drops what is over.
        """
        if self.before_tokens - self.plan.replaced_tokens <= target_tokens:
            target_tokens = sum(self.prepared.message_tokens)
        return self.prepared.select(target_tokens=target_tokens, **options)

    def _pinned_tokens(self) -> int:
        units = self.conversation.units
        members = {index for unit in self.pins for index in units[unit].members}
        counted = zip(self.conversation.indices, self.message_tokens, strict=True)
        return sum(tokens for index, tokens in counted if index in members)

    def rebuild(self) -> None:
        """Write to memory; then rebuild the kept entries of which a part goes, and count."""
        arguments, conversation, decision = self.arguments, self.conversation, self.decision
        counter, parted, excerpts, plan = arguments.counter, self.parted, self.excerpts, self.plan
        flags = decision.kept_messages()
        counted = zip(decision.message_tokens, flags, strict=True)
        kept_tokens = [tokens if is_kept else 0 for tokens, is_kept in counted]
        indices = list(compress(conversation.indices, flags))
        entries = [self.stripped[index] for index in indices]
        after_tokens = sum(kept_tokens) + (0 if plan.replaced else plan.replaced_tokens)
        self.dropped, self.excerpted = len(flags) - len(indices), 0
        self.lost_thinking = self.stripped_tokens

        self.writer = writer = self._writer()
        self.novel, handles = writer.write(decision, excerpts) if writer else ({}, {})
        cut: Mapping[int, ChangedEntry] = {}
        if excerpts:
            handle_of = writer.handle_of if writer else lambda _message, _text: ""
            is_whole = self.before_tokens <= self.target_tokens
            room = max(self.target_tokens, sum(kept_tokens) if is_whole else 0)
            excerpts.fit(kept_tokens, room, handle_of)
            cut = excerpts.by_position
            entry_of = {each.message.index: each.entry for each in cut.values()}
            entries = [
                entry_of.get(index, entry) for index, entry in zip(indices, entries, strict=True)
            ]
            after_tokens -= sum(kept_tokens[at] - each.tokens for at, each in cut.items())
            self.excerpted = len(cut)
        excerpt_messages = {each.message.index: each.message for each in cut.values()}

        stale_tokens: Mapping[int, int] = {}
        changed = excerpts.changed_indices() if excerpts else ()
        first_change = self.binding.first_change(
            decision.selection.kept, [*changed, *map(int, plan.replaced)]
        )
        if first_change is not None:
            indices, entries, stale_tokens = _native.without_stale_thinking(
                conversation, indices, entries, first_change, excerpt_messages, self.count
            )
            self.lost_thinking = stale_tokens
            after_tokens -= sum(stale_tokens.values())

        room = min(plan.max_tokens, self.target_tokens - after_tokens)
        outline = plan.write(conversation, indices, excerpt_messages, handles, room, counter)
        if outline is not None:
            entry = user_message(outline.text, conversation.format, is_turn=False)
            indices = [*indices[: outline.position], outline.index, *indices[outline.position :]]
            entries = [*entries[: outline.position], entry, *entries[outline.position :]]
            after_tokens += outline.tokens
        if parted:
            self.dropped, self.excerpted = parted.counts(conversation, flags)
            after_tokens -= self._rounding(flags)
            slot = (outline.position, outline.index) if outline else None
            indices, entries, slot = parted.merged(indices, entries, slot)
            if outline and slot:
                outline = outline._replace(position=slot[0], index=slot[1])
        self.indices, self.kept, self.outline = indices, entries, outline
        self.after_tokens = after_tokens
        self.reasons = self._reasons(handles, stale_tokens, first_change)

    def _writer(self) -> ArchiveWriter | None:
        """Return the writer to memory; None if nothing must be written."""
        arguments, parted = self.arguments, self.parted
        if arguments.archive is None:
            return None
        from rehydrate.compact.archive import ArchiveWriter

        memory: Any = arguments.memory
        entries = parted.whole_entries() if parted else self.entries
        origins = parted.origins if parted else None
        return ArchiveWriter(memory, arguments.archive, self.conversation, entries, origins)

    def _reasons(
        self, handles: Mapping[int, str], stale: Mapping[int, int], first_change: int | None
    ) -> Reasons:
        """Return the reasons; they hold no more of this run than they are made of."""
        decision, excerpts = self.decision, self.excerpts
        shared: dict[str, Any] = {
            "target_tokens": self.target_tokens,
            "by_coverage": self.arguments.packs_by_coverage,
            "origins": self.parted.origins if self.parted else None,
        }
        cut = excerpts.by_position if excerpts else {}
        explanation = partial(
            decision.explanation,
            pins=self.pins,
            reply=self.reply,
            divided=excerpts.divided_texts() if excerpts else None,
            cut={at: each.tokens for at, each in cut.items()},
            stripped=self.stripped_units,
            stale=stale,
            first_change=first_change,
            **shared,
        )
        dropped = partial(decision.dropped, handles=handles, **shared)
        return Reasons(cache(dropped), cache(explanation), self.parted)

    def stats(self, started: float) -> Stats:
        """Return the figures of a compaction that ends now, with the episode written."""
        conversation, selection = self.conversation, self.decision.selection
        before, after = self.before_tokens, self.after_tokens
        outline = self.outline.tokens if self.outline else 0
        is_builtin, writer = self.arguments.embedder.model is None, self.writer
        dropped = self.decision.dropped_units()
        covered = sum(tokens for _, tokens, share in dropped if share >= COVERED)
        stats = Stats(
            before_tokens=before,
            after_tokens=after,
            target_tokens=self.target_tokens,
            dropped=self.dropped,
            dropped_pct=_percent(before - after, before),
            dropped_messages_pct=_percent(
                self.dropped, len(set(self.origins(conversation.indices)))
            ),
            units=conversation.unit_count,
            pinned_tokens=selection.pinned_tokens,
            over_budget=after > self.target_tokens,
            changed=any((self.dropped, self.excerpted, self.lost_thinking, self.plan.replaced)),
            covered_pct=_percent(covered, before - after + outline),
            excerpted=self.excerpted,
            stripped=len(self.lost_thinking),
            stripped_tokens=sum(self.lost_thinking.values()),
            outline_tokens=outline,
            embedding=selection.embedding if is_builtin else self.signals.vectors is not None,
            query_share=selection.query_share,
            distilled=sum(self.novel.values()),
            distilled_kinds=self.novel,
            ignored=len(conversation.ignored),
            degraded=(*self.problems, *(writer.problems if writer else ())),
            counter=_native.counter_name(self.arguments.counter),
            format=conversation.format,
            elapsed_ms=(time.perf_counter() - started) * 1e3,
        )
        return writer.record(stats) if writer else stats


def _percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 1) if whole else 0.0


_GATEWAY_FORMATS = frozenset({"ai_sdk", "ai_sdk_ui", "openai_chat", "langchain", "plain"})
"""Formats that gateways, or the AI SDK, send to any provider."""


def _for_provider(conversation: Conversation, arguments: Arguments) -> Conversation:
    """Return the conversation under its provider's rule: Anthropic wants the user first.

    Without a provider, a Claude counts as Anthropic's, and any other list keeps its own rule.
    Raises InvalidArgumentError if the format is another provider's own.
    """
    provider = arguments.provider
    if conversation.format in _GATEWAY_FORMATS:
        if provider is None and "claude" in arguments.model.lower():
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
