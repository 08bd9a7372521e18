"""Summaries: verified in code, swapped in for the beginning of a conversation, or made at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from rehydrate import _native, formats
from rehydrate._check import check_whole
from rehydrate._text import safe_error_text, warn_once
from rehydrate.compact.outline import ID as OUTLINE_ID
from rehydrate.context.context_store.store import SUMMARY, WORD_FOR_WORD, ContextStore
from rehydrate.context.history import Entries
from rehydrate.context.writers import SummaryRequest, Write, tokens_of, user_text, writer_of
from rehydrate.messages import Provider, Unit
from rehydrate.prompt.counting import counted_sections, entry_tokens
from rehydrate.prompt.entries import History
from rehydrate.prompt.ir import PromptIR, ProviderSummary, section_of
from rehydrate.prompt.section import CompositionMode, Meta, Priority, Provenance, Section

SUMMARY_ID = "summary"
ADDED_ID = "summary:added"
"""What is added to a summary of the provider's own."""
_UNTIL = "summarised_until"
TRUST = 0.5
"""Of a summary: tools and others may have written what it is of."""


def first_kept(history: History, keep_last: int, least_tokens: int = 0) -> int | None:
    """Return the entry index from which on entries stay: at least the last ``keep_last`` messages,
    and at least so many tokens.

    They begin with a plain user turn; where no such turn has anything before it, as in a long job,
    with a message of the assistant. No tool pair is split. None where that leaves nothing before,
    or where the provider needs what is before.
    """
    units = history.conversation.units
    position = None
    for can_begin in (begins_user_turn, lambda unit: unit.role == "assistant"):
        if position is None:
            position = tail_start(units, keep_last, can_begin, history.tokens, least_tokens)
    if position is None:
        return None
    before = units[:position]
    bound = set(history.conversation.bound)
    is_bound = any(member in bound for unit in before for member in unit.members)
    if is_bound or all(unit.is_system for unit in before):
        return None
    return history.entry_index(units[position].members[0])


def tail_start(
    units: Sequence[Unit],
    keep_last: int,
    can_begin: Callable[[Unit], bool],
    tokens: Sequence[int] = (),
    least_tokens: int = 0,
) -> int | None:
    """Return the number of the unit with which the last ``keep_last`` messages, or more, begin.

    With ``tokens``, those of each entry, they have at least ``least_tokens`` together.
    """
    messages = counted = 0
    for number in range(len(units) - 1, 0, -1):
        messages += len(units[number].messages)
        if least_tokens:
            counted += sum(tokens[member] for member in units[number].members)
        is_enough = messages >= keep_last and counted >= least_tokens
        if is_enough and can_begin(units[number]):
            return number
    return None


def begins_user_turn(unit: Unit) -> bool:
    """Return whether a unit begins with what the user says."""
    return unit.is_user_turn and unit.opens_with_user


def is_summary(section: Section) -> bool:
    """Return whether a section is a summary, or what was added to one."""
    return section.id in (SUMMARY_ID, ADDED_ID)


def summarised_until(ir: PromptIR) -> int:
    """Return the index of the first entry that the prompt's summary is not of."""
    return max([each.metadata.get(_UNTIL, 0) for each in ir.sections], default=0)


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

    System entries stay. So do sections that are later, or always there; what was among the replaced
    entries goes, an earlier summary and an outline too. A summary of the provider's own is
    before all, and what is added to it before the last user turn; the provider accepts thinking
    after it in entries before the index ``valid``.
    """
    shown = ir.history
    system = {
        shown.entry_index(message.index)
        for message in shown.rows.messages
        if message.role == "system"
    }
    kept = [n for n, index in enumerate(shown.indices) if index >= until or index in system]
    history = shown.select(kept)
    # What was shortened refers to what goes.
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
    made[0] = replace(made[0], metadata={**made[0].metadata, _UNTIL: until})
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
_ACKNOWLEDGED = "Acknowledged."


class CompactedHistory(NamedTuple):
    """What `compact_history` returns."""

    messages: list[Any]
    """A user message with the summary, "Acknowledged." of the assistant unless the tail begins with
    the assistant, and the tail: the very objects that came in."""
    summary: str
    """"" where nothing was summarised."""
    kept_from: int
    """The index of the first message of the tail; 0 where nothing was summarised."""
    degraded: tuple[str, ...] = ()
    """What was wrong with the summary that was written."""


def compact_history(
    messages: Sequence[Any],
    writer: Any = None,
    *,
    keep_last: int = KEEP_LAST,
    format: str = "auto",  # noqa: A002  the field's word
    max_tokens: int | None = None,
) -> CompactedHistory:
    """Replace the head of a conversation by a summary; the last ``keep_last`` messages stay.

    The tail grows back until it begins with a plain user turn and splits no tool pair; where it
    then is the whole conversation, nothing changes. ``writer`` is as in `BackgroundCompaction`. A
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
    entries = list(messages)
    conversation, read = formats.read(tuple(entries), format)
    name = conversation.format
    unit = tail_start(conversation.units, keep_last, begins_user_turn)
    head = [each for each in conversation.units[: unit or 0] if not each.is_system]
    said = [message for each in head for message in each.messages if message.role != "system"]
    members = {message.index for message in said}
    if unit is None or not members or members.intersection(conversation.bound):
        return CompactedHistory(entries, "", 0)
    start = conversation.units[unit].members[0]
    store = ContextStore()
    store.update(said)
    counts = entry_tokens(conversation, len(entries))
    tokens = sum(counts[index] for index in members)
    size = max(int(SIZE * tokens), MIN_TOKENS) if max_tokens is None else max_tokens
    markdown = store.render(size, conversation=conversation, visible=range(start, len(entries)))
    beginning = [read[index] for index in sorted(members)]
    plain = formats.FORMATS[name].without_thinking(beginning)
    request = SummaryRequest(tuple(plain), name, markdown, "", size)
    texts = [message.text for message in said]
    summary, degraded, _ = summarised(writer_of(writer), request, store, texts)
    why = (degraded,) if degraded else ()
    if not summary:
        return CompactedHistory(entries, "", 0, why)
    made = [user_text(f"{SUMMARY}\n{summary}", name)]
    if conversation.units[unit].role != "assistant":
        made.append(_acknowledged(name))
    system = [entry for index, entry in enumerate(entries[:start]) if index not in members]
    return CompactedHistory([*system, *made, *entries[start:]], summary, start, why)


def _acknowledged(format: str) -> Any:  # noqa: A002
    if format == "langchain":
        from langchain_core.messages import AIMessage

        return AIMessage(_ACKNOWLEDGED)
    message: dict[str, Any] = {"role": "assistant", "content": _ACKNOWLEDGED}
    if format == "openai_responses":
        content = [{"type": "output_text", "text": _ACKNOWLEDGED, "annotations": []}]
        return {"type": "message", **message, "content": content}
    if format == "bedrock":
        return {**message, "content": [{"text": _ACKNOWLEDGED}]}
    if format == "gemini":
        return {"role": "model", "parts": [{"text": _ACKNOWLEDGED}]}
    if format == "codex":
        return {"type": "response_item", "payload": {"type": "message", **message}}
    return {"type": "assistant", "message": message} if format == "claude_code" else message


LEAST_CHARACTERS = 40
"""A shorter text is not a summary of a conversation that was worth one."""
MAX_MARKED = 20


def refusal(summary: object) -> str:
    """Return why a text is not a summary; "" where it may be one.

    >>> refusal("429 Too Many Requests"), refusal("")
    ('it is the text of an error or a refusal', 'it is empty')
    """
    if not isinstance(summary, str):
        return f"it is of type {type(summary).__name__}"
    text = summary.strip()
    if not text:
        return "it is empty"
    if _native.is_refusal(text):
        return "it is the text of an error or a refusal"
    if len(text) < LEAST_CHARACTERS:
        return f"it has {len(text)} characters"
    return ""


def verified(
    summary: str, sources: Iterable[str], store: ContextStore, max_tokens: int
) -> tuple[str, str, tuple[str, ...]]:
    """Return the summary with invented names marked and with what must not be lost; what was added
    to it so; and the names, paths and numbers in it that its source does not have.

    ``sources`` are the texts that it is of. What it does not hold of the context store is appended
    in at most ``max_tokens``, the strongest first; the rest becomes one line with handles.
    """
    invented = tuple(_native.invented(summary, "\n".join(sources)))
    missing = store.missing(summary, max_tokens)
    parts = []
    if invented:
        names = ", ".join(invented[:MAX_MARKED])
        more = len(invented) - MAX_MARKED
        rest = f" and {more} more" if more > 0 else ""
        parts.append(f"[Not found in the conversation, do not rely on: {names}{rest}]")
    if missing:
        parts += [WORD_FOR_WORD, *missing]
    return "\n".join([summary.strip(), *parts]), "\n".join(parts), invented


LONGEST = 4
"""A summary may have so many times the tokens that were asked for."""


class Summary(NamedTuple):
    """What takes the place of the beginning of a conversation."""

    text: str
    """Beside a summary of the provider's own: what is added to it."""
    degraded: str = ""
    """What was wrong with what the writer wrote."""
    native: ProviderSummary | None = None

    @property
    def tokens(self) -> int:
        """The tokens of all of it."""
        if self.native is None:
            return tokens_of([self.text])
        own = self.native.tokens
        return tokens_of([self.text, *([self.native.text] if own is None else [])]) + (own or 0)


def summarised(
    write: Write | None, request: SummaryRequest, store: ContextStore, sources: Sequence[str]
) -> Summary:
    """Return the writer's summary, verified; the context store where there is none to be used.

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
    why = "" if is_encrypted else refusal(text)
    if not isinstance(text, str) or why:
        return _store(request, f"refused, {why}")
    if native is None and tokens_of([text]) > LONGEST * request.max_tokens:
        return _store(
            request, f"refused, it has {tokens_of([text]):,} tokens for {request.max_tokens:,}"
        )
    whole, added, invented = verified(text, [*sources, request.store], store, request.max_tokens)
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
