"""Summaries: verified in code, swapped in for the beginning of a conversation, or made at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

from rehydrate import _native, formats
from rehydrate._check import check_whole
from rehydrate._native import ContextStore, summary_message
from rehydrate._text import safe_error_text, warn_once
from rehydrate.compact.outline import ID as OUTLINE_ID
from rehydrate.context.history import UNTIL, Entries
from rehydrate.context.writers import SummaryRequest, Write, tokens_of, writer_of
from rehydrate.messages import Provider
from rehydrate.prompt.counting import counted_sections
from rehydrate.prompt.entries import History, entry_tokens
from rehydrate.prompt.ir import PromptIR, ProviderSummary, section_of
from rehydrate.prompt.section import CompositionMode, Meta, Priority, Provenance, Section

SUMMARY_ID = "summary"
ADDED_ID = "summary:added"
"""The section with the lines that are added to a summary of the provider's own."""
TRUST = 0.5
"""Trust of a summary: tools and others may have written its source."""


def is_summary(section: Section) -> bool:
    """Return whether a section is a summary, or an addition to one."""
    return section.id in (SUMMARY_ID, ADDED_ID)


def head_of(ir: PromptIR, until: int) -> PromptIR:
    """Return the IR of the entries before the index ``until`` alone, as they were sent."""
    shown = ir.history
    history = shown.select([n for n, index in enumerate(shown.indices) if index < until])
    sections = [
        section
        for section in ir.sections
        if section.is_static or (section.anchor is not None and section.anchor < until)
    ]
    return ir.replace(
        history=history,
        sections=tuple(sections),
        late_bound=_answered(ir, history),
        breakpoints=(),
        meta=Meta(),
    )


def swapped(
    ir: PromptIR, entries: Entries, until: int, summary: Summary, provider: Provider, valid: int
) -> PromptIR:
    """Return the IR with a summary instead of the entries before the index ``until``.

    System entries stay. So do sections that are later, or always there; sections among the replaced
    entries go, an earlier summary and an outline too. A summary of the provider's own is before
    everything, and its additions before the last user turn; the provider accepts thinking after it
    in entries before the index ``valid``.
    """
    shown = ir.history
    system = {
        shown.entry_index(message.index)
        for message in shown.rows.messages
        if message.role == "system"
    }
    kept = [n for n, index in enumerate(shown.indices) if index >= until or index in system]
    history = shown.select(kept)
    # Shortened entries refer to those that are left out.
    history = entries.with_texts_of(history.indices, history)
    sections = [
        section
        for section in ir.sections
        if not is_summary(section)
        and section.id != OUTLINE_ID
        and (section.is_static or section.anchor is None or section.anchor >= until)
    ]
    if summary.native is None:
        made = [_section(SUMMARY_ID, summary.text, "What was said before", until)]
    else:
        made = [section_of(summary.native, SUMMARY_ID, provider, TRUST, valid)]
        if summary.text:
            title, turn = "Word for word, of what was said before", len(entries) - 1
            made.append(_section(ADDED_ID, summary.text, title, turn))
    made[0] = replace(made[0], metadata={**made[0].metadata, UNTIL: until})
    made = counted_sections(made)
    static = [each for each in sections if each.is_static]
    others = [each for each in sections if not each.is_static]
    return ir.replace(
        history=history,
        sections=(*static, *made, *others),
        late_bound=_answered(ir, history),
        breakpoints=(),
    )


def _answered(ir: PromptIR, history: History) -> tuple[Section, ...]:
    """Return the late-bound sections whose calls are answered in the history."""
    answered = {call for message in history.messages for call in message.answers}
    return tuple([each for each in ir.late_bound if each.tool_call_id in answered])


def _section(id_: str, text: str, title: str, anchor: int) -> Section:
    return Section(
        id_,
        text,
        Provenance(SUMMARY_ID, trust=TRUST),
        priority=Priority.HIGH,
        mode=CompositionMode.ADDITIVE,
        title=title,
        anchor=anchor,
    )


KEEP_LAST = 12
SIZE = 0.04
MIN_TOKENS = 400
SUMMARY = "[compacted history summary]"
"""The first line of a summary that takes the place of messages."""
_ACKNOWLEDGED = "Acknowledged."
_ALTERNATING = ("bedrock", "gemini")
"""Formats in which a message of the user's goes with the assistant's before it: no tail can begin
with a user turn, so it begins with the assistant."""


class CompactedHistory(NamedTuple):
    """A conversation whose head is a summary, of `compact_history`."""

    messages: list[Any]
    """A user message with the summary, "Acknowledged." of the assistant unless the tail begins with
    the assistant, and the tail: the same objects that came in."""
    summary: str
    """"" if nothing was summarised."""
    kept_from: int
    """The index of the first message of the tail; 0 if nothing was summarised."""
    degraded: tuple[str, ...] = ()
    """The problems of the summary that was written."""


def compact_history(
    messages: Sequence[Any],
    writer: Any = None,
    *,
    keep_last: int = KEEP_LAST,
    format: str = "auto",  # noqa: A002  the field's word
    max_tokens: int | None = None,
) -> CompactedHistory:
    """Replace the head of a conversation by a summary; the last ``keep_last`` messages stay.

    The tail grows back until it begins with a plain user turn (Converse's and Gemini's with the
    assistant, since roles alternate there) and splits no tool pair; if it then is the whole
    conversation, nothing changes. ``writer`` is as in `BackgroundCompaction`. A
    failed, empty or malformed summary never deletes history: the context store takes its place.
    System messages stay in front. ``max_tokens`` is the size of the summary, by default 4% of what
    it replaces.

    >>> said = [{"role": "user", "content": "Always use tabs."},
    ...         {"role": "assistant", "content": "Yes."}, {"role": "user", "content": "Go on."}]
    >>> compacted = compact_history(said, keep_last=1, format="anthropic")
    >>> [message["role"] for message in compacted.messages], compacted.kept_from
    (['user', 'assistant', 'user'], 2)
    >>> print(compacted.messages[0]["content"])
    [compacted history summary]
    ## Task State
    - Always use tabs. (#0)
    ## User Preferences
    - Always use tabs. (#0)
    """
    check_whole("keep_last", keep_last)
    check_whole("max_tokens", max_tokens, 1, or_none=True)
    write = writer_of(writer)
    entries = list(messages)
    conversation, read = formats.read(tuple(entries), format)
    name = conversation.format
    counts = entry_tokens(conversation, len(entries))
    by_index = {message.index: message for message in conversation.messages}
    parts = _native.head_and_tail(conversation, keep_last)
    if parts is None and name in _ALTERNATING:
        begin = _native.first_kept(conversation, keep_last, counts, 0) or 0
        before = [i for i, each in by_index.items() if i < begin and each.role != "system"]
        parts = (begin, before) if before else None
    if parts is None:
        return CompactedHistory(entries, "", 0)
    start, head = parts
    said = [by_index[index] for index in head]
    store = ContextStore()
    store.update(said)
    tokens = sum(counts[index] for index in head)
    size = max(int(SIZE * tokens), MIN_TOKENS) if max_tokens is None else max_tokens
    markdown = store.render(size, conversation=conversation, visible=range(start, len(entries)))
    beginning = [read[index] for index in sorted(head)]
    plain = formats.FORMATS[name].without_thinking(beginning)
    request = SummaryRequest(tuple(plain), name, markdown, "", size)
    texts = [message.text for message in said]
    summary, degraded, _ = summarised(write, request, store, texts)
    why = (degraded,) if degraded else ()
    if not summary:
        return CompactedHistory(entries, "", 0, why)
    made = [summary_message(f"{SUMMARY}\n{summary}", name, "user")]
    if by_index[start].role != "assistant":
        made.append(summary_message(_ACKNOWLEDGED, name, "assistant"))
    replaced = set(head)
    system = [entry for index, entry in enumerate(entries[:start]) if index not in replaced]
    return CompactedHistory([*system, *made, *entries[start:]], summary, start, why)


LONGEST = 4
"""A summary may have this many times the tokens that were asked for."""


class Summary(NamedTuple):
    """A summary, which takes the place of the beginning of a conversation."""

    text: str
    """For a summary of the provider's own: its additions."""
    degraded: str = ""
    """The problem of the writer's text; "" if there is none."""
    native: ProviderSummary | None = None

    @property
    def tokens(self) -> int:
        """The tokens of all of it."""
        if self.native is None:
            return tokens_of([self.text])
        own = self.native.tokens
        return tokens_of([self.text, *([self.native.text] if own is None else [])]) + (own or 0)


def summarised(
    write: Write | None, request: SummaryRequest, store: ContextStore, sources: Iterable[str]
) -> Summary:
    """Return the writer's summary, verified; the context store if there is none to be used.

    ``sources`` are the texts that the summary is of.
    """
    if write is None:
        return Summary(request.store)
    try:
        written = write(request)
    except BaseException as error:
        why = safe_error_text(error, "the writer of summaries")
        return _store(request, f"the writer failed ({why})")
    native = written if isinstance(written, ProviderSummary) else None
    text = native.text if native is not None else written
    is_encrypted = native is not None and not text
    why = "" if is_encrypted else _native.refusal(text)
    if not isinstance(text, str) or why:
        return _store(request, f"refused, {why}")
    if native is None and tokens_of([text]) > LONGEST * request.max_tokens:
        return _store(
            request, f"refused, it has {tokens_of([text]):,} tokens for {request.max_tokens:,}"
        )
    known = chain([request.store], sources)
    whole, added, invented = store.verified(text, known, request.max_tokens)
    degraded = ""
    if invented:
        names = ", ".join(invented[:5])
        degraded = f"summary: it names what the conversation does not: {names}"
        warn_once("rehydrate.context", degraded.rpartition(":")[0])  # the names may be secret
    return Summary(whole if native is None else added, degraded, native)


def _store(request: SummaryRequest, why: str) -> Summary:
    degraded = f"summary: {why}; the store takes its place"
    warn_once("rehydrate.context", degraded)
    return Summary(request.store, degraded)
