"""compact_context: verbatim, memory-aware compaction of a conversation to a token budget."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import compress
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

from rehydrate import _engine, formats
from rehydrate._concurrency.async_wrappers import computed
from rehydrate.compact.arguments import (
    check_choices,
    checked_archive,
    checked_budget,
    checked_deadline,
    checked_inputs,
    checked_model,
    checked_query,
    checked_ratio,
    pinned_units,
)
from rehydrate.compact.excerpts import Cut, Divisible
from rehydrate.compact.listing import Listing
from rehydrate.compact.outline import Outline, Spec
from rehydrate.compact.query import what_is_asked
from rehydrate.compact.report import Decision, Report
from rehydrate.compact.result import Compaction, Distilled, Stats
from rehydrate.compact.scoring import Scoring
from rehydrate.compact.signals import (
    COVERED,
    Deadline,
    Embedded,
    Memory,
    Vectors,
    columns,
    memory_coverage,
    message_vectors,
    own_vectors,
    recalls_texts,
    texts_to_recall,
)
from rehydrate.compact.thinking import (
    WAITS,
    Binding,
    sent_to,
    treat_thinking,
    why_waiting,
    without_stale,
)
from rehydrate.embedding.choice import model_of
from rehydrate.formats._foreign import check_speakers
from rehydrate.formats._grouping import user_message
from rehydrate.formats._reading import as_sequence
from rehydrate.messages import Conversation

if TYPE_CHECKING:
    from rehydrate import _native
    from rehydrate.compact.archive import Archive, Writer
    from rehydrate.embedding.onnx import NamedModel
    from rehydrate.embedding.protocol import Model


def compact_context(
    messages: Sequence[Any],
    query: str | None = None,
    target_ratio: float = 0.4,
    *,
    budget_tokens: int | None = None,
    memory: Memory | None = None,
    scoring: str | Scoring = "balanced",
    embedder: str | PathLike[str] | Model | Callable[[list[str]], Any] | None = "auto",
    counter: str | Callable[[str], int] | None = None,
    format: str = "auto",  # noqa: A002  the field's word
    granularity: str = "message",
    excerpt_inputs: bool = False,
    thinking: str = "auto",
    model: str = "",
    provider: str | None = None,
    pin: Iterable[int | Mapping[str, Any]] = (),
    timeout: float | None = None,
    archive: bool | Archive = False,
    outline: Spec = False,
) -> Compaction:
    """Keep the messages that matter most within a token budget, byte for byte.

    ``messages`` is a conversation in one of six formats: ``"anthropic"``, ``"openai_chat"``,
    ``"openai_responses"`` (items), ``"langchain"`` (message objects), ``"claude_code"`` (the
    entries of a transcript) or ``"plain"`` role and content; ``format`` names it where detection
    should not. The objects that an SDK answers with may stand among them. Tool calls and their
    results are kept or dropped together, so a valid conversation stays valid.

    In a loop with a prompt cache do not compact the whole history in each request: each time other
    messages would be kept, and the cache would be lost, which costs more than no compaction. Use a
    `Context`, or keep the compacted list and append to it until it is too long (docs/cache.md).

    Always kept: system messages, the last user turn and the assistant's reply that it answers, an
    open tool loop at the end, and what ``pin`` names (indices, or the message objects themselves).

    The target is ``floor(total * target_ratio)`` tokens (a ratio below 0.05 is taken as that), or
    ``budget_tokens``. ``query`` says what the next turn is about; None: what the user said last,
    which counts less the more has followed it (a question brings back its answer; what asks for
    something to be done, what mentions its names); ``""``: nothing in particular. It is weighed
    against what a working agent is likely to need again, as far as what it asks for stands out.
    ``scoring`` is a profile (``"balanced"``, ``"chitta"``) or a ``Scoring``.

    ``embedder`` is ``"auto"`` (the built-in model), None (words only), the folder or ``org/name``
    of an ONNX model, any object with ``space`` and ``embed``, or a function of texts to vectors,
    sync or async, with its limits in an ``Embedder`` or without. With a query the built-in model
    ranks everything first and the other is asked about the best fifth; one that fails is done
    without, and ``stats.degraded`` says so. ``timeout`` says when it is no longer waited for,
    counted from the call: what it gave by then is used. ``counter`` is ``"o200k_base"``,
    ``"cl100k_base"``, ``"words"``, ``"chars"`` or a callable of text to tokens; None: the
    profile's own.

    ``granularity="excerpt"`` also divides long texts and tool results (over 40 lines or about 1,000
    tokens) into blocks of whole lines, paragraphs, hunks, records or JSON elements, and keeps the
    best of them. Kept blocks are verbatim; each gap is marked in its place, as in
    ``[... 42 lines omitted, 118-159 ...]``, and counted. A message kept in part is a new object.
    Results in a message in which the user also spoke are divided as well, the words are not.
    ``excerpt_inputs=True`` does the same to long strings in the inputs of tool calls, such as the
    content of a file that was written: of calls that have their results, in turns that have ended,
    where no thought stands in the same message. JSON stays JSON.

    ``thinking="auto"`` keeps what the ``model`` takes back. Newer Claude models take a thinking
    block only while everything before it is what it was, so behind the first message that went or
    is kept in part they lose it; others keep all of theirs (``THINKING_MODELS`` is the table). A
    Claude that nobody named counts as one of the newer. In an open tool loop where nothing is
    sure to be taken, nothing is changed, and ``stats.degraded`` says that the compaction waits for
    the end of the turn. ``"keep"`` leaves all thinking where it is. ``"strip"`` takes it out of all
    but an open tool loop, before anything is measured: the room is used for what was said. A
    message that lost some is a new object.

    ``outline=True`` puts a message of its own where the first gap is: the names in what was left
    out (files, identifiers, ids, who was spoken of), a line each for what they were, with handles
    under ``archive``. It takes 1.5% of what came in, or what you ask for in tokens or as a
    share, and counts in the target. It stands fenced in the user's role, as data. Compacted again,
    a new one takes its place and its names. `Compaction.outline` says where it stands.

    ``provider`` says for whom a list of OpenAI chat, LangChain or plain messages is, which gateways
    send to anyone: for ``"anthropic"``, and for a ``model`` that is a Claude, what is kept begins
    with the user if the list did.

    With a ``memory`` (a ``rehydrate.Memory``, or anything with ``recall(vectors, k)``), what it
    already holds is cheaper to drop. ``archive=True`` writes every dropped message to it, whole and
    without secrets, before it is dropped: ``dropped`` names the handles. An ``Archive`` says what
    else is written. Where a memory fails, the compaction goes on and ``stats.degraded`` says so.

    Raises InvalidMessageError for an entry that is no message and InvalidArgumentError for an
    argument outside its limits; both name the value and the remedy.

    >>> kept = compact_context(
    ...     [
    ...         {"role": "user", "content": "My order number is 81-4471, please note it."},
    ...         {"role": "assistant", "content": "Noted. Shall we talk about something else now?"},
    ...         {"role": "user", "content": "Is it raining in the harbour?"},
    ...         {"role": "assistant", "content": "Not yet."},
    ...         {"role": "user", "content": "What was my order number?"},
    ...     ],
    ...     query="order number",
    ...     target_ratio=0.6,
    ... )
    >>> [message["content"] for message in kept.messages]
    ['My order number is 81-4471, please note it.', 'Not yet.', 'What was my order number?']
    """
    started = time.perf_counter()
    profile = scoring if isinstance(scoring, Scoring) else Scoring.named(scoring)
    target_of = partial(_target, checked_ratio(target_ratio), checked_budget(budget_tokens))
    counted_by = _engine.check_counter(profile.counter if counter is None else counter)
    check_choices(granularity=granularity, thinking=thinking, provider=provider)
    inputs = checked_inputs(excerpt_inputs, granularity)
    model = checked_model(model)
    given = checked_query(query)
    own_model = model_of(embedder)
    deadline = checked_deadline(timeout)
    writing = checked_archive(memory, archive)

    messages = tuple(as_sequence(messages))  # as it is now: another thread may change the list
    calibrated = profile.signals == "calibrated"
    read, entries = formats.read(messages, format)
    check_speakers(read, profile.structural)
    listing, read = Listing.asked(outline, read, target_of, counted_by)
    conversation, shown, stripped, stripped_by_unit = treat_thinking(
        thinking, read, entries, counted_by
    )
    conversation = sent_to(conversation, provider, model)
    binding = Binding.of(thinking, conversation, entries, model, map(int, listing.older))
    # Scores alone cannot weigh what is read against the rest: that takes an objective of both.
    asked = what_is_asked(conversation, given, reads=calibrated and profile.packing == "coverage")
    pins, by_caller = pinned_units(
        conversation,
        messages,
        pin,
        thoughts=binding.needs_thoughts,
        reply=profile.keeps_reply,
    )
    divisible = (
        Divisible.find(
            conversation,
            shown,
            pins,
            counted_by,
            words=conversation.kept_for_words().difference(by_caller),
            inputs=inputs,
        )
        if granularity == "excerpt"
        else None
    )
    prepared = _engine.prepare(
        divisible.conversation if divisible else conversation,
        weight_of=profile.weight_of,
        pinned=[unit in pins for unit in range(conversation.unit_count)],
        counter=counted_by,
        embed=embedder is not None
        and (own_model is None or (calibrated and asked is not None and asked.is_question)),
        calibrated=calibrated,
        coverage=profile.packing == "coverage",
        asked=asked is not None and asked.is_question,
        recalled=_wants_vectors(memory),
        excerpting=divisible.columns(with_handles=writing is not None and writing.archive.dropped)
        if divisible
        else None,
    )
    message_tokens = divisible.message_tokens(prepared) if divisible else prepared.message_tokens
    before = sum(message_tokens) + listing.older_tokens
    target = target_of(before)

    evidence = _evidence(
        own_model,
        memory,
        conversation,
        divisible,
        prepared,
        query=asked.text if asked and asked.is_question else None,
        calibrated=calibrated,
        deadline=deadline,
    )
    problems = list(evidence.problems)
    select = partial(
        _select,
        prepared,
        sum(message_tokens),
        query=asked.text if asked else None,
        query_weight=asked.weight if asked else 0.0,
        **columns(evidence.vectors),
        memory_coverage=evidence.coverage,
        weights=(profile.recency, profile.semantic, profile.novelty),
        calibrated=calibrated,
        coverage=profile.packing == "coverage",
    )
    must = sum(_tokens_of(conversation, message_tokens, pins)) if outline else 0
    listing, selection = listing.selected(
        select, conversation, entries, model, before, target, must
    )
    cut = Cut(divisible, prepared, selection) if divisible else None
    if binding.waits(selection.kept, cut.changed(at_most=True) if cut else ()):
        problems.append(why_waiting(model))
        pins = dict.fromkeys(range(conversation.unit_count), WAITS)
        selection, cut = select(target_tokens=before), None
        listing, binding = listing.waiting(), binding._replace(gone=())
    decision = Decision(binding.conversation, selection, message_tokens)
    chosen = _Chosen(binding, shown, decision, pins, target, profile, cut, listing)
    writer = writing.writer(conversation, entries) if writing else None
    kept = _keep(chosen, writer, counted_by, stripped, stripped_by_unit)
    report, lost = kept.report, before - kept.tokens
    changed = any((kept.dropped, kept.excerpted, kept.stripped, listing.older))
    stats = Stats(
        before_tokens=before,
        after_tokens=kept.tokens,
        target_tokens=target,
        dropped=kept.dropped,
        dropped_pct=_percent(lost, before),
        dropped_messages_pct=_percent(kept.dropped, conversation.message_count),
        units=conversation.unit_count,
        pinned_tokens=selection.pinned_tokens,
        over_budget=kept.tokens > target,
        changed=changed,
        covered_pct=_percent(_covered_tokens(decision), lost) if evidence.coverage else 0.0,
        excerpted=kept.excerpted,
        stripped=len(kept.stripped),
        stripped_tokens=sum(kept.stripped.values()),
        outline_tokens=kept.outline.tokens if kept.outline else 0,
        embedding=selection.embedding if own_model is None else evidence.vectors is not None,
        query_share=selection.query_share,
        distilled=kept.distilled.count,
        distilled_kinds=kept.distilled.kinds,
        ignored=len(conversation.ignored),
        degraded=(*problems, *(writer.problems if writer else ())),
        counter=_engine.counter_name(counted_by),
        format=conversation.format,
        elapsed_ms=(time.perf_counter() - started) * 1e3,
    )
    if writer:
        stats = writer.record(stats)
    if not changed:
        return Compaction(list(messages), list(range(len(messages))), stats, report)
    return Compaction(
        _as_they_came(kept, entries, messages),
        kept.indices,
        stats,
        report,
        kept.outline,
        tuple(map(int, listing.older)),
    )


acompact_context = computed(compact_context)


def _as_they_came(kept: _Kept, entries: Sequence[Any], messages: Sequence[Any]) -> list[Any]:
    """What is kept, with an SDK's own objects for what was read of them and did not change."""
    if entries is messages:
        return kept.entries
    return [
        messages[index] if entry is entries[index] else entry
        for index, entry in zip(kept.indices, kept.entries, strict=True)
    ]


def _select(
    prepared: _native.Prepared, before_tokens: int, *, target_tokens: int, **asked: Any
) -> _native.Selection:
    """What is kept; inputs come to a little more or less in parts than whole, which is no reason to
    cut what fits. `Cut.fit` gives back what is over."""
    if before_tokens <= target_tokens:
        target_tokens = sum(prepared.message_tokens)
    return prepared.select(target_tokens=target_tokens, **asked)


def _target(ratio: float, budget: int | None, before: int) -> int:
    """How many of these tokens may be left."""
    return math.floor(before * ratio + 1e-9) if budget is None else budget


def _tokens_of(
    conversation: Conversation, message_tokens: Sequence[int], units: Collection[int]
) -> Iterator[int]:
    """Of each message of these units."""
    members = {index for unit in units for index in conversation.units[unit].members}
    for message, tokens in zip(conversation.messages, message_tokens, strict=True):
        if message.index in members:
            yield tokens


class _Chosen(NamedTuple):
    """What was decided: the units that are kept, and the blocks of their texts."""

    binding: Binding
    shown: Sequence[Any]
    """The entries, without what was taken out of them before anything was measured."""
    decision: Decision
    pins: Mapping[int, str]
    target_tokens: int
    scoring: Scoring
    cut: Cut | None
    listing: Listing


class _Kept(NamedTuple):
    """What is left of the conversation, and the figures of it."""

    entries: list[Any]
    indices: list[int]
    tokens: int
    dropped: int
    excerpted: int
    stripped: Mapping[int, int]
    distilled: Distilled
    report: Report
    outline: Outline | None


def _keep(
    chosen: _Chosen,
    writer: Writer | None,
    counter: str | _engine.CustomCounter,
    stripped: Mapping[int, int],
    stripped_by_unit: Mapping[int, int],
) -> _Kept:
    """The entries that are kept, made anew where a part of them goes; writes what is remembered."""
    binding, shown, decision, pins, target, profile, cut, listing = chosen
    conversation, selection = decision.conversation, decision.selection
    kept = decision.kept_messages
    kept_tokens = [t if keep else 0 for t, keep in zip(decision.message_tokens, kept, strict=True)]
    indices = list(compress(conversation.indices, kept))
    after = sum(kept_tokens) + (0 if listing.older else listing.older_tokens)
    dropped = len(kept) - len(indices)
    survivors = [shown[index] for index in indices]
    excerpted, parts = 0, {}
    distilled, handles = writer.write(decision, cut) if writer else (Distilled(), {})
    if cut:
        cut.fit(kept_tokens, target, writer.handle_of if writer else lambda _message, _text: "")
        entry_of, parts = cut.entries(), cut.messages()
        survivors = [entry_of.get(index, shown[index]) for index in indices]
        after -= cut.saved_tokens(kept_tokens)
        excerpted = len(entry_of)
    stale: Mapping[int, int] = {}
    first = binding.first_change(selection.kept, cut.changed() if cut else ())
    if first is not None:
        rest = without_stale(conversation, indices, survivors, first, parts, counter)
        indices, survivors, stripped = rest
        after -= sum(stripped.values())
        stale = stripped
    most = min(listing.room_tokens, target - after)
    outline = listing.write(conversation, indices, parts, handles, most, counter)
    if outline is not None:
        said = user_message(outline.text, conversation.format, is_turn=False)
        indices = [*indices[: outline.position], outline.index, *indices[outline.position :]]
        survivors = [*survivors[: outline.position], said, *survivors[outline.position :]]
        after += outline.tokens
    report = Report(
        decision,
        pins,
        target,
        profile,
        cut=cut,
        stripped_by_unit=stripped_by_unit,
        stale=stale,
        first_change=first or 0,
        handles=handles,
    )
    return _Kept(
        survivors, indices, after, dropped, excerpted, stripped, distilled, report, outline
    )


class _Evidence(NamedTuple):
    """What a model and a memory say of the messages, beside the engine's own signals."""

    vectors: Vectors | None
    coverage: list[float] | None
    """Per message, or per part of one where texts are divided, how much of it memory holds."""
    problems: tuple[str, ...]


def _evidence(
    model: Model | NamedModel | None,
    memory: Memory | None,
    conversation: Conversation,
    divisible: Divisible | None,
    prepared: _native.Prepared,
    *,
    query: str | None,
    calibrated: bool,
    deadline: Deadline | None,
) -> _Evidence:
    """Ask the caller's model for vectors, and the memory what it holds."""
    parts = divisible.parts(prepared) if divisible else conversation
    embedded = Embedded()
    if model is not None:
        embedded = own_vectors(
            model,
            parts,
            prepared,
            query,
            calibrated=calibrated,
            every=_wants_vectors(memory),
            deadline=deadline,
        )
    if memory is None or not conversation.messages:
        return _Evidence(embedded.vectors, None, embedded.problems)
    if recalls_texts(memory):
        covered = memory_coverage(memory, texts_to_recall(parts))
    else:
        rows = message_vectors(embedded.vectors, prepared, is_builtin=model is None)
        covered = memory_coverage(memory, rows)
    return _Evidence(embedded.vectors, covered.shares, (*embedded.problems, *covered.problems))


def _wants_vectors(memory: Memory | None) -> bool:
    return memory is not None and not recalls_texts(memory)


def _covered_tokens(decision: Decision) -> int:
    """Tokens of the dropped units that memory covers."""
    return sum(unit.tokens for unit in decision.dropped_units if unit.coverage >= COVERED)


def _percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 1) if whole else 0.0
