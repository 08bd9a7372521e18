"""splice, excerpt and deduplicate: of all that was found, only what the model does not see yet.

`splice` chooses the sections found in the middle of a turn that are new and fit the budget.
`excerpt` is of a long text: the windows that match a query (`_native.Passages` cuts and scores
them as the messages of a conversation), with the lines around them.
`deduplicate` is the pass that leaves out sections whose items or text the model sees already.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from rehydrate import _native
from rehydrate.prompt.entries import COUNTER, History
from rehydrate.prompt.ir import PromptIR, Target, traced
from rehydrate.prompt.section import Section, changed, free_ids


class VisibleText(NamedTuple):
    """The texts that the model sees; each is of one message or section."""

    texts: tuple[str, ...] = ()
    lines: frozenset[str] = frozenset()
    """The different lines of the texts, without their breaks."""

    @classmethod
    def of(cls, texts: Iterable[str]) -> VisibleText:
        """Take the texts."""
        texts = tuple(texts)
        return cls(texts, frozenset([line for text in texts for line in text.split("\n")]))

    def followed_by(self, texts: Iterable[str]) -> VisibleText:
        """Return these texts with others after them."""
        more = VisibleText.of(texts)
        return VisibleText(self.texts + more.texts, self.lines | more.lines)

    def shows(self, part: str) -> bool:
        """Whether one of the texts has all of this part, word for word."""
        return any(part in text for text in self.texts)


Span = tuple[int, int]
"""The begin and the end of a part of a text, in characters."""


class Match(NamedTuple):
    """A window that matches a query.

    >>> log = "\\n".join(f"record {n}: all is well" for n in range(900))
    >>> text = f"{log}\\nthe pilot's phone is 7788"
    >>> best, *_ = _native.Passages([(text, "")]).best("pilot's phone")
    >>> text[slice(*best.span)].splitlines()[-1]
    "the pilot's phone is 7788"
    """

    text: int
    """Index of its text."""
    span: Span
    relevance: float


def excerpt(
    text: str, matches: Iterable[Match], max_tokens: int, visible_lines: Collection[str] = ()
) -> tuple[str, list[Span]]:
    """Return the best matches with the lines around them, each gap marked, and their spans.

    The excerpt has as many matches as fit in ``max_tokens``, and at least the best one. Visible
    lines at the begin and the end of a match are left out, so that they are not repeated. Returns
    ("", []) if no line is left.
    """
    spans = [match.span for match in matches]
    return _native.passage_excerpt(text, spans, max_tokens, COUNTER, visible_lines)


def line_count(text: str) -> int:
    """Return the number of lines; a line break at the end starts no further line.

    >>> line_count("a\\nb\\n"), line_count("a\\nb")
    (2, 2)
    """
    return text.count("\n") + (not text.endswith("\n") and text != "")


class Spliced(NamedTuple):
    """The sections that go into the running prompt, and those that do not."""

    sections: tuple[Section, ...]
    """Late-bound, in the order in which they were found."""
    no_room: tuple[Section, ...] = ()
    """New sections that do not fit the budget, in the same order."""
    visible: int = 0
    """The number of sections found that the model sees already."""


def splice(
    found: Sequence[Section],
    *,
    tool_call_id: str,
    budget_tokens: int,
    visible: frozenset[str] = frozenset(),
    visible_text: VisibleText = VisibleText(),  # noqa: B008  a constant
    visible_sections: Sequence[Section] = (),
) -> Spliced:
    """Choose whole sections by priority, relevance and order, as many as fit the budget.

    ``tool_call_id`` is the call whose result will show them. ``visible`` are the items that the
    model sees, by `Provenance.items`; ``visible_text`` has the texts of the visible history, and
    ``visible_sections`` are the sections next to it. A section is visible too if its whole text
    is in one of these, or in another section that was found. A section with some new items
    keeps only those in its provenance.
    """
    texts = list(dict.fromkeys(str(section.content) for section in visible_sections))
    kept, no_room = _native.spliced(found, visible, texts, visible_text.texts, budget_tokens)
    ids = free_ids(section.id for section in visible_sections)
    bound = [
        changed(each, id=ids.take(each.id), late_bound=True, tool_call_id=tool_call_id, anchor=None)
        for each in kept
    ]
    return Spliced(tuple(bound), tuple(no_room), len(found) - len(kept) - len(no_room))


def visible_items(ir: PromptIR, more: Iterable[Section] = ()) -> frozenset[str]:
    """Return the items that a prompt shows whole. A section with a handle shows a part."""
    sections = (*ir.sections, *ir.late_bound, *more)
    whole = [section for section in sections if section.handle is None]
    return frozenset([item for section in whole for item in section.provenance.items])


def deduplicate(ir: PromptIR, target: Target) -> PromptIR:
    """Return the IR without sections that show nothing new.

    The model sees the items of earlier sections, in the order in which it reads them; the entries
    of the history before the section, by their ids and by ``history[12]``; and the whole text of a
    section that is word for word in an entry before it.

    A section with some new items stays, and names only these. A section that must stay whole always
    stays. One with `min_tokens` stays too, because a later pass may leave out the entry that shows
    it; it goes only if an earlier section with its id says the same. Of two sections with one id,
    the earlier stays, and the later one stays under another id if it says something else.
    """
    cache, history = target.render_cache, ir.history
    has_items = any(each.provenance.items and not each.is_static for each in ir.sections)
    positions = cache.grown(_with_positions, {}, history) if has_items else {}
    sections, dropped, changed = _native.deduplicated(ir, positions, cache.sections)
    cache.sections = {section.id: section for section in sections}
    after = ir
    if changed:
        meta = replace(ir.meta, dropped=(*ir.meta.dropped, *dropped))
        after = ir.replace(sections=tuple(sections), meta=meta)
    return traced("deduplicate", ir, after, changed)


_IDS = ("uuid", "id")


def _with_positions(known: dict[str, int], history: History, start: int) -> dict[str, int]:
    new = {
        name: position
        for position, entry in enumerate(history.entries[start:], start)
        if isinstance(entry, Mapping)
        for name in map(entry.get, _IDS)
        if isinstance(name, str)
    }
    return {**known, **new} if new else known
