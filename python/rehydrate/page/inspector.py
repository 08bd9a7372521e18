"""A prompt as one HTML page: its content, costs and sources, and what was removed and why.

`rehydrate inspect FILE -o PAGE` writes it: tools, sections and history in order, each with its text
to unfold. The markup is in templates/inspector.html.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby
from typing import Any, NamedTuple

from rehydrate._check import check_type
from rehydrate._native import Explanation
from rehydrate._text import plural
from rehydrate.context.summaries import SUMMARY_ID
from rehydrate.entry_id import EntryId
from rehydrate.errors import InvalidMessageError
from rehydrate.formats import parse
from rehydrate.messages import Message
from rehydrate.page.html import (
    PAGE_MESSAGES,
    Gap,
    colours,
    fair_share,
    handles,
    kind_labels,
    render,
    with_gap,
)
from rehydrate.prompt.ir import CompiledPrompt, PromptIR
from rehydrate.prompt.reports import PromptExplanation, PromptRow
from rehydrate.prompt.section import Position, Section

_MARGIN = 1.04
"""Width of the bar, relative to its last mark."""
_LAWS_SHOWN = 12
_REASONS_SHOWN = 8
LINES = 2_000
"""Maximum rows of a table: the first and the last half; the rest is summed up."""


def _counts(
    ir: PromptIR, table: PromptExplanation, compiled: CompiledPrompt | None
) -> Iterator[str]:
    """Yield the counts of what the prompt has, in words."""
    kept = [row for row in table.rows if row.is_kept]
    kinds = [row.kind for row in kept]
    yield plural(kinds.count("tool"), "tool")
    yield plural(kinds.count("section"), "section")
    if ir.late_bound:
        yield f"{len(ir.late_bound):,} asked for by the model"
    yield plural(len(ir.history.entries), "entry of the history", "entries of the history")
    yield f"{len(ir.meta.dropped):,} left out"
    yield plural(sum(row.breakpoint for row in kept), "cache breakpoint")
    if table.before_tokens > table.tokens:
        yield f"{table.before_tokens:,} tokens came in"
    yield f"{table.counter}"
    if compiled:
        yield f"{compiled.provider} {compiled.model}".strip()


def inspector_page(
    prompt: PromptIR | CompiledPrompt,
    *,
    units: Explanation | None = None,
    title: str = "a prompt",
) -> str:
    """Return the prompt as one HTML page: no script, nothing loaded, all escaped.

    ``units`` are the scores of a compaction of its history (``Compaction.explain()``), shown at the
    end. Very long texts and histories are shown in part, and the page says so.

    >>> from rehydrate.prompt import Provenance, Section
    >>> notes = Section("notes", "1 < 2 </script>", Provenance("hot"), tokens=6)
    >>> page = inspector_page(PromptIR(sections=(notes,)))
    >>> page.startswith("<!doctype html>"), "1 &lt; 2 &lt;/script&gt;" in page
    (True, True)
    """
    check_type("prompt", prompt, (PromptIR, CompiledPrompt), "pass a PromptIR or a CompiledPrompt")
    compiled = prompt if isinstance(prompt, CompiledPrompt) else None
    ir = compiled.ir if compiled else prompt
    assert isinstance(ir, PromptIR)
    table = ir.explain()
    budget = table.budget
    last_mark = budget.hard_tokens if table.tokens > budget.soft_tokens else budget.soft_tokens
    left_out = [row for row in table.rows if not row.is_kept]
    scored = units.units if units else ()
    return render(
        "inspector.html",
        title=title,
        ir=ir,
        table=table,
        soft=budget.soft_tokens,
        hard=budget.hard_tokens,
        bar_tokens=_MARGIN * max(table.tokens, last_mark),
        befores=list(accumulate(table.by_source.values(), initial=0)),
        colours=colours(table.by_source),
        counts=list(_counts(ir, table, compiled)),
        broken=ir.verify(),
        laws_shown=_LAWS_SHOWN,
        body=Body(ir, table),
        left_out=left_out,
        left_out_lines=with_gap(left_out, LINES),
        reasons=Counter(each.reason for each in ir.meta.dropped).most_common(),
        reasons_shown=_REASONS_SHOWN,
        scored=scored,
        scored_lines=with_gap(scored, LINES),
    )


_PREVIEW_CHARACTERS = 240
_ITEMS_SHOWN = 6
_HANDLES_SHOWN = 24
ROWS = 4_000
"""Maximum rows of the prompt: the first and the last half; those between are summed up."""


class Entry(NamedTuple):
    """An entry of the history."""

    id: str
    role: str
    preview: str
    tokens: int
    message: Message | None
    """The message as the model sees it."""
    raw: Any


class Body:
    """An IR with the data of its page: the parsed history, and how much of each text fits."""

    def __init__(self, ir: PromptIR, table: PromptExplanation) -> None:
        """Read the history and divide the room."""
        self.ir = ir
        kept = [row for row in table.rows if row.is_kept]
        self.max_tokens = max((row.tokens for row in kept), default=0)
        prefixes = accumulate(0 if row.kind == "late_bound" else row.tokens for row in kept)
        self.rows = with_gap(list(zip(range(len(kept)), kept, prefixes, strict=True)), ROWS)
        """Each row with its number and the tokens up to its end."""
        history = ir.history
        # If it cannot be parsed, each entry is shown as JSON.
        messages = self.parsed(history.entries) or ()
        self._messages = {message.index: message for message in messages}
        shown = with_gap(range(len(history.entries)), PAGE_MESSAGES)
        self._shown = {index for index in shown if not isinstance(index, Gap)}
        pieces = [
            len(piece.text)
            for index in self._shown & self._messages.keys()
            for piece in self._messages[index].pieces
        ]
        sections = [len(each.content) for each in ir.sections if isinstance(each.content, str)]
        self.cap = fair_share(pieces + sections)
        """Maximum characters of each text."""

    def parsed(self, entries: Sequence[Any]) -> tuple[Message, ...] | None:
        """Return the messages of a section or of the history; None if they are unreadable."""
        try:
            return parse(entries, self.ir.history.format).messages
        except InvalidMessageError:
            return None

    def section(self, row: PromptRow) -> Section | None:
        """Return the section of a row."""
        if row.kind == "late_bound":
            return self.ir.late_bound[row.first]
        return self.ir.sections[row.first] if row.kind == "section" else None

    def entries(self, row: PromptRow) -> Iterator[Entry | Gap]:
        """Yield the entries of a row of the history; a Gap if they do not fit on the page."""
        indices = range(row.first, row.last + 1)
        for is_shown, group in groupby(indices, key=self._shown.__contains__):
            if is_shown:
                yield from map(self._entry, group)
            else:
                yield Gap(tuple(group))

    def _entry(self, index: int) -> Entry:
        message = self._messages.get(index)
        if message is not None:
            kinds = kind_labels(piece.kind for piece in message.pieces)
            role = " · ".join(filter(None, [message.role, kinds]))
            preview = _first_words(message.text)
        elif self._messages:
            role, preview = "not sent", "no model sees this entry"
        else:
            role, preview = "unreadable", "shown as it is"
        history = self.ir.history
        entry_id, raw = history.entry_id(index), history.entries[index]
        return Entry(entry_id, role, preview, self.tokens([index]), message, raw)

    def tokens(self, indices: Sequence[int]) -> int:
        """Return the tokens of some entries, as far as they are known."""
        counts = self.ir.history.tokens
        return sum(counts[index] for index in indices if index < len(counts))

    def preview(self, section: Section) -> str:
        """Return the beginning of a section on one line."""
        said = section.content
        return _first_words(said if isinstance(said, str) else plural(len(said), "message"))

    def is_summary(self, section: Section) -> bool:
        """Return whether it is a summary, which is markdown and names entries."""
        return section.id == SUMMARY_ID and isinstance(section.content, str)

    def badges(self, row: PromptRow) -> Iterator[str]:
        """Yield a row's properties in few words."""
        words = [row.priority, row.mode]
        if row.kind != "history":
            words += [row.stability, row.position if row.position != Position.MIDDLE else ""]
        yield from filter(None, words)
        if row.relevance is not None:
            yield f"relevance {row.relevance:.2g}"
        if row.min_tokens:
            yield f"at least {row.min_tokens:,} tokens"

    def origin(self, section: Section) -> dict[str, str]:
        """Return the known fields of a section's origin."""
        origin, content = section.provenance, section.content
        named = handles(content) if isinstance(content, str) and section.id == SUMMARY_ID else []
        fields = {
            "title": section.title,
            "items": _first_items(origin.items, ", "),
            "names the entries": _first_items(named, " ", _HANDLES_SHOWN),
            "from": origin.origin,
            "thread": origin.thread,
            "tool": origin.tool,
            "by": origin.principal,
            "said": origin.time.isoformat(" ", "minutes") if origin.time else "",
            "made of": ", ".join(origin.parents),
            "in the result of": section.tool_call_id,
            "before": "" if section.anchor is None else EntryId.of(section.anchor),
        }
        return {words: value for words, value in fields.items() if value}

    def as_json(self, value: Any) -> str:
        """Return a value as JSON with indents."""
        try:
            return json.dumps(value, ensure_ascii=False, indent=2, default=repr)
        except (TypeError, ValueError, RecursionError):
            return f"<{type(value).__name__}>"


def _first_words(text: str) -> str:
    return " ".join(text[: 2 * _PREVIEW_CHARACTERS].split())[:_PREVIEW_CHARACTERS]


def _first_items(items: Sequence[str], between: str, shown: int = _ITEMS_SHOWN) -> str:
    """Return some of the items, and how many more there are."""
    more = [f"{len(items) - shown:,} more"] if len(items) > shown else []
    return between.join([*items[:shown], *more])
