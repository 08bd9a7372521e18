"""The stages of a compaction: read, score, choose, rebuild, count.

messages -> _Source -> ExternalSignals -> _Choice -> _Kept -> Compaction
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING, Any, NamedTuple

from rehydrate import _engine, formats
from rehydrate.compact.excerpts import DivisibleTexts, Excerpts
from rehydrate.compact.options import Arguments, pinned_indices, pinned_units
from rehydrate.compact.outline import Outline, OutlinePlan
from rehydrate.compact.parallel import Parted, PartedReasons
from rehydrate.compact.report import Decision, Report
from rehydrate.compact.result import Compaction, M, NovelMemories, Reasons, Stats
from rehydrate.compact.scoring import WeightedQuery, weighted_query
from rehydrate.compact.signals import (
    COVERED,
    ExternalSignals,
    external_signals,
    recalls_vectors,
    vector_arguments,
)
from rehydrate.compact.thinking import (
    WAITS,
    PrefixBinding,
    Stripped,
    apply_thinking_policy,
    for_provider,
    why_waiting,
    without_stale_thinking,
)
from rehydrate.formats._foreign import check_speakers
from rehydrate.formats._reading import as_sequence, user_message
from rehydrate.messages import Conversation, Message, problems_of

if TYPE_CHECKING:
    from rehydrate import _native
    from rehydrate.compact.archive import ArchiveWriter


def compact(messages: Sequence[M], arguments: Arguments, started: float) -> Compaction[M]:
    """Return the compaction of these messages; `started` is an instant of ``time.perf_counter``."""
    messages = tuple(as_sequence(messages))  # as it is now: another thread may change the list
    source = _read(messages, arguments)
    query = source.query
    signals = external_signals(
        arguments.caller_model,
        arguments.memory,
        source.divisible.parts(source.prepared) if source.divisible else source.conversation,
        source.prepared,
        query.text if query else None,
        calibrated=arguments.is_calibrated,
        deadline=arguments.deadline,
    )
    choice = _choose(source, signals, arguments)
    archive = arguments.archive
    parted = source.parted
    writer = None
    if archive:
        whole_entries = parted.whole_entries() if parted else source.entries
        origins = parted.origins if parted else None
        writer = archive.writer(source.conversation, whole_entries, origins)
    kept = _rebuild(source, choice, writer, arguments)
    problems = (
        *problems_of(source.conversation.unknown),
        *([_NO_OUTLINE] if arguments.outline and not source.plan.size else ()),
        *signals.problems,
        *choice.problems,
        *(writer.problems if writer else ()),
    )
    stats = _stats(source, signals, choice, kept, arguments, problems, started)
    if writer:
        stats = writer.record(stats)
    if not stats.changed:
        return Compaction(list(messages), list(range(len(messages))), stats, kept.report)
    return Compaction(
        _as_they_came(kept, parted.originals if parted else source.entries, messages),
        kept.indices,
        stats,
        kept.report,
        kept.outline,
        tuple(_origins(parted, map(int, choice.plan.replaced))),
    )


def _origins(parted: Parted | None, indices: Iterable[int]) -> Iterable[int]:
    """Return the indices of messages in the caller's list."""
    return indices if parted is None else [parted.origins[index] for index in indices]


_NO_OUTLINE = "outline: Converse's roles alternate, and it would be a second message of the user's"


class _Source(NamedTuple):
    """The caller's messages, read and prepared for the choice."""

    conversation: Conversation
    entries: Sequence[Any]
    parted: Parted | None
    """How parallel calls were parted: conversation and entries are then the parted ones."""
    stripped: Stripped
    """The same without thinking, under thinking "strip"."""
    plan: OutlinePlan
    binding: PrefixBinding
    query: WeightedQuery | None
    pins: Mapping[int, str]
    """Unit -> the reason why it is always kept."""
    divisible: DivisibleTexts | None
    prepared: _native.Prepared
    message_tokens: Sequence[int]
    before_tokens: int
    """The tokens of the messages and of the outlines that are replaced."""
    target_tokens: int


def _read(messages: Sequence[Any], arguments: Arguments) -> _Source:
    """Read, strip, pin, divide and count the messages."""
    scoring, counter = arguments.scoring, arguments.counter
    read, entries = formats.read(messages, arguments.format)
    check_speakers(read, scoring.structural)
    pinned: Collection[int] = pinned_indices(messages, arguments.pin)
    parted = None
    is_parted = arguments.is_calibrated and arguments.packs_by_coverage
    if is_parted and not arguments.divides_texts:  # excerpts divide the results one by one
        parted = Parted.of(read, entries, pinned)
        if parted:
            read, entries, pinned = parted.read(), parted.entries, parted.places(pinned)
    outline = False if read.format == "bedrock" else arguments.outline
    plan, read = OutlinePlan.of(outline, read, arguments.target_of, counter)
    stripped = apply_thinking_policy(arguments.thinking, read, entries, counter)
    conversation = for_provider(stripped.conversation, arguments.provider, arguments.model)
    binding = PrefixBinding.of(
        arguments.thinking, conversation, entries, arguments.model, map(int, plan.replaced)
    )
    # Only an objective of both can weigh an inferred query against the rest; scores alone cannot.
    infer = arguments.is_calibrated and arguments.packs_by_coverage
    query = weighted_query(conversation, arguments.query, infer=infer)
    pins, by_caller = pinned_units(
        conversation,
        [*pinned],
        thoughts=binding.needs_thoughts,
    )
    divisible = None
    if arguments.divides_texts:
        divisible = DivisibleTexts.find(
            conversation,
            stripped.entries,
            pins,
            counter,
            kept_for_words=conversation.kept_for_words().difference(by_caller),
        )
    with_handles = arguments.archive is not None and arguments.archive.archive.dropped
    prepared = _engine.prepare(
        divisible.conversation if divisible else conversation,
        weight_of=scoring.weight_of,
        pinned=[unit in pins for unit in range(conversation.unit_count)],
        counter=counter,
        embed=arguments.has_embedder
        and (arguments.caller_model is None or (arguments.is_calibrated and query is not None)),
        calibrated=arguments.is_calibrated,
        coverage=arguments.packs_by_coverage,
        asked=query is not None,
        recalled=recalls_vectors(arguments.memory),
        excerpting=divisible.excerpting(with_handles=with_handles) if divisible else None,
    )
    message_tokens = divisible.message_tokens(prepared) if divisible else prepared.message_tokens
    before_tokens = sum(message_tokens) + plan.replaced_tokens
    if parted:
        before_tokens -= parted.rounding(conversation.messages, counter)
    return _Source(
        conversation,
        entries,
        parted,
        stripped,
        plan,
        binding,
        query,
        pins,
        divisible,
        prepared,
        message_tokens,
        before_tokens,
        arguments.target_of(before_tokens),
    )


class _Choice(NamedTuple):
    """The units and blocks that are kept."""

    decision: Decision
    excerpts: Excerpts | None
    plan: OutlinePlan
    binding: PrefixBinding
    pins: Mapping[int, str]
    problems: tuple[str, ...]


def _choose(source: _Source, signals: ExternalSignals, arguments: Arguments) -> _Choice:
    """Select what fits the target; keep everything where the compaction must wait."""
    scoring, query, conversation = arguments.scoring, source.query, source.conversation
    select = partial(
        _select,
        source.prepared,
        source.before_tokens - source.plan.replaced_tokens,
        query=query.text if query else None,
        query_weight=query.weight if query else 0.0,
        asks=query.asks if query else False,
        **vector_arguments(signals.vectors),
        memory_coverage=signals.coverage,
        weights=(scoring.recency, scoring.semantic, scoring.novelty),
        calibrated=arguments.is_calibrated,
        coverage=arguments.packs_by_coverage,
        reply=conversation.answered_reply() if scoring.keeps_reply else None,
    )
    plan, selection = source.plan.select(
        select,
        conversation,
        source.entries,
        arguments.model,
        source.before_tokens,
        source.target_tokens,
        _tokens_of(source, source.pins) if arguments.outline else 0,
    )
    binding, pins = source.binding, source.pins
    problems: tuple[str, ...] = ()
    excerpts = None
    if source.divisible:
        excerpts = Excerpts(source.divisible, source.prepared, selection)
    excerpted = excerpts.changed_indices(at_most=True) if excerpts else ()
    if binding.must_wait(selection.kept, excerpted):
        problems = (why_waiting(arguments.model),)
        pins = dict.fromkeys(range(conversation.unit_count), WAITS)
        selection, excerpts = select(target_tokens=source.before_tokens), None
        plan, binding = plan.cancelled(), binding._replace(removed=())
    decision = Decision(conversation, selection, source.message_tokens)
    return _Choice(decision, excerpts, plan, binding, pins, problems)


def _select(
    prepared: _native.Prepared, whole_tokens: int, *, target_tokens: int, **options: Any
) -> _native.Selection:
    """Return the engine's selection for this target.

    Divided inputs cost a few tokens more or less than whole ones. So what fits whole is not cut;
    `Excerpts.fit` drops what is over.
    """
    if whole_tokens <= target_tokens:
        target_tokens = sum(prepared.message_tokens)
    return prepared.select(target_tokens=target_tokens, **options)


def _tokens_of(source: _Source, units: Collection[int]) -> int:
    """Return the tokens of these units."""
    conversation = source.conversation
    members = {index for unit in units for index in conversation.units[unit].members}
    counted = zip(conversation.messages, source.message_tokens, strict=True)
    return sum(tokens for message, tokens in counted if message.index in members)


class _Kept(NamedTuple):
    """The kept entries, and their figures."""

    entries: list[Any]
    indices: list[int]
    tokens: int
    dropped: int
    excerpted: int
    stripped: Mapping[int, int]
    """Index of a message that lost thinking -> the tokens."""
    novel: NovelMemories
    report: Reasons
    outline: Outline | None


def _rebuild(
    source: _Source, choice: _Choice, writer: ArchiveWriter | None, arguments: Arguments
) -> _Kept:
    """Write to memory; then return the kept entries, rebuilt where a part of them goes."""
    decision, excerpts, plan = choice.decision, choice.excerpts, choice.plan
    conversation, counter = source.conversation, arguments.counter
    flags = decision.kept_messages
    counted = zip(decision.message_tokens, flags, strict=True)
    kept_tokens = [tokens if is_kept else 0 for tokens, is_kept in counted]
    indices = list(compress(conversation.indices, flags))
    after_tokens = sum(kept_tokens) + (0 if plan.replaced else plan.replaced_tokens)
    dropped = len(flags) - len(indices)
    entries = [source.stripped.entries[index] for index in indices]
    stripped_tokens: Mapping[int, int] = source.stripped.tokens

    novel, handles = writer.write(decision, excerpts) if writer else (NovelMemories(), {})
    excerpted: int = 0
    excerpt_messages: Mapping[int, Message] = {}
    if excerpts:
        handle_of = writer.handle_of if writer else lambda _message, _text: ""
        is_whole = source.before_tokens <= source.target_tokens
        room = max(source.target_tokens, sum(kept_tokens) if is_whole else 0)
        excerpts.fit(kept_tokens, room, handle_of)
        entry_of, excerpt_messages = excerpts.entries(), excerpts.messages()
        entries = [
            entry_of.get(index, entry) for index, entry in zip(indices, entries, strict=True)
        ]
        after_tokens -= excerpts.saved_tokens(kept_tokens)
        excerpted = len(entry_of)

    stale_tokens: Mapping[int, int] = {}
    first_change = choice.binding.first_change(
        decision.selection.kept, excerpts.changed_indices() if excerpts else ()
    )
    if first_change is not None:
        indices, entries, stale_tokens = without_stale_thinking(
            conversation, indices, entries, first_change, excerpt_messages, counter
        )
        stripped_tokens = stale_tokens
        after_tokens -= sum(stale_tokens.values())

    max_tokens = min(plan.max_tokens, source.target_tokens - after_tokens)
    outline = plan.write(conversation, indices, excerpt_messages, handles, max_tokens, counter)
    if outline is not None:
        entry = user_message(outline.text, conversation.format, is_turn=False)
        indices = [*indices[: outline.position], outline.index, *indices[outline.position :]]
        entries = [*entries[: outline.position], entry, *entries[outline.position :]]
        after_tokens += outline.tokens
    parted = source.parted
    report: Reasons = Report(
        decision,
        choice.pins,
        source.target_tokens,
        arguments.scoring,
        excerpts=excerpts,
        stripped_by_unit=source.stripped.unit_tokens,
        stale_tokens=stale_tokens,
        first_change=next(iter(_origins(parted, [first_change or 0]))),
        handles=handles,
    )
    if parted:
        dropped, excerpted = parted.counts(conversation, flags, excerpt_messages)
        kept_messages = compress(conversation.messages, flags)
        rest = (excerpt_messages.get(message.index, message) for message in kept_messages)
        after_tokens -= parted.rounding(rest, counter)
        indices, entries, outline = parted.merged(indices, entries, outline)
        report = PartedReasons(report, parted)
    return _Kept(
        entries, indices, after_tokens, dropped, excerpted, stripped_tokens, novel, report, outline
    )


def _stats(
    source: _Source,
    signals: ExternalSignals,
    choice: _Choice,
    kept: _Kept,
    arguments: Arguments,
    problems: tuple[str, ...],
    started: float,
) -> Stats:
    """Return the figures of a compaction that ends now."""
    conversation, selection = source.conversation, choice.decision.selection
    parted = source.parted
    lost_tokens = source.before_tokens - kept.tokens
    is_builtin = arguments.caller_model is None
    return Stats(
        before_tokens=source.before_tokens,
        after_tokens=kept.tokens,
        target_tokens=source.target_tokens,
        dropped=kept.dropped,
        dropped_pct=_percent(lost_tokens, source.before_tokens),
        dropped_messages_pct=_percent(
            kept.dropped,
            len(set(_origins(parted, conversation.indices))),
        ),
        units=conversation.unit_count,
        pinned_tokens=selection.pinned_tokens,
        over_budget=kept.tokens > source.target_tokens,
        changed=any((kept.dropped, kept.excerpted, kept.stripped, choice.plan.replaced)),
        covered_pct=_percent(_covered_tokens(choice.decision), lost_tokens)
        if signals.coverage
        else 0.0,
        excerpted=kept.excerpted,
        stripped=len(kept.stripped),
        stripped_tokens=sum(kept.stripped.values()),
        outline_tokens=kept.outline.tokens if kept.outline else 0,
        embedding=selection.embedding if is_builtin else signals.vectors is not None,
        query_share=selection.query_share,
        distilled=kept.novel.count,
        distilled_kinds=kept.novel.kinds,
        ignored=len(conversation.ignored),
        degraded=problems,
        counter=_engine.counter_name(arguments.counter),
        format=conversation.format,
        elapsed_ms=(time.perf_counter() - started) * 1e3,
    )


def _covered_tokens(decision: Decision) -> int:
    """Return the tokens of the dropped units that memory covers."""
    return sum(unit.tokens for unit in decision.dropped_units if unit.coverage >= COVERED)


def _percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 1) if whole else 0.0


def _as_they_came(kept: _Kept, entries: Sequence[Any], messages: Sequence[Any]) -> list[Any]:
    """Return the kept entries, with the caller's own SDK object for each that did not change."""
    if entries is messages:
        return kept.entries
    return [
        messages[index] if entry is entries[index] else entry
        for index, entry in zip(kept.indices, kept.entries, strict=True)
    ]
