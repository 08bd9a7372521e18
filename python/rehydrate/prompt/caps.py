"""Caps of tool results: a long one is shown in part, by its kind: JSON, log, diff, code, text.

The engine finds the kind and cuts the text. `cap_tool_results` is the pass that caps the results of
a history, and stores the whole of each under a handle.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from rehydrate import _engine
from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate.errors import InvalidArgumentError
from rehydrate.prompt.counting import COUNTER
from rehydrate.prompt.ir import PromptIR
from rehydrate.prompt.originals import About, Originals, text_digest
from rehydrate.prompt.target import Target
from rehydrate.prompt.tool_results import Text, TextChange, TextChanges, results_of

DEFAULT_TOKENS = 8_000
MIN_TOKENS = 400
ROWS = 100
LOG_LINES = 200
_MAX_CHARACTER_TOKENS = 4
"""Maximum tokens of a character: its bytes."""
NOTICE_TOKENS = 128
"""Maximum tokens of a notice, with a handle of 128 characters. They are reserved, so that a text
with its notice is within the cap and is never capped again."""


class Kind(StrEnum):
    """The kind of a text."""

    JSON = "json"
    JSON_LINES = "json_lines"
    DIFF = "diff"
    MATCHES = "matches"
    LIST = "list"
    CODE = "code"
    LOG = "log"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Caps:
    """Maximum tokens (o200k_base) of a tool's result, its notice included.

    >>> caps = Caps(by_tool={"Read": 16_000, "get_schema": None})
    >>> caps.tokens("Read"), caps.tokens("Bash"), caps.tokens("get_schema")
    (16000, 8000, None)
    """

    default_tokens: int | None = DEFAULT_TOKENS
    by_tool: Mapping[str, int | None] = field(default_factory=dict, hash=False)
    """Caps by the name of the tool; None: never capped."""
    rows: int = ROWS
    """Maximum number of rows of a list that is cut, from its start."""
    log_lines: int = LOG_LINES
    """Maximum number of last lines of a log that is cut."""

    def __post_init__(self) -> None:
        """Check every field; raises InvalidArgumentError."""
        caps = {"default_tokens": self.default_tokens} | {
            f"by_tool[{tool!r}]": tokens for tool, tokens in self.by_tool.items()
        }
        for name, tokens in caps.items():
            if tokens is not None and not (type(tokens) is int and tokens >= MIN_TOKENS):
                raise InvalidArgumentError(
                    f"caps: {name} is {tokens!r}; pass a whole number from {MIN_TOKENS} up, "
                    "or None for no cap"
                )
        for name in ("rows", "log_lines"):
            count = getattr(self, name)
            if type(count) is not int or count < 1:
                raise InvalidArgumentError(
                    f"caps: {name} is {count!r}; pass a whole number from 1 up"
                )

    def tokens(self, tool: str = "") -> int | None:
        """Return the cap of a tool's results; None: never capped."""
        return self.by_tool.get(tool, self.default_tokens)


class Capped(NamedTuple):
    """A text that is shown in part."""

    body: str
    """The shown part."""
    kind: Kind
    omitted: int
    """Number of omitted tokens."""

    def render(self, handle: str = "") -> str:
        """Return the body with its notice."""
        return self.body + notice(self.omitted, handle)


def cap_text(
    text: str, limit: int, *, tool: str = "", rows: int = ROWS, log_lines: int = LOG_LINES
) -> Capped | None:
    """Return the text in at most `limit` tokens, its notice included; None if it fits whole.

    A capped text fits, so capping it again changes nothing, whatever it says. Takes time in
    proportion to the text.

    >>> capped = cap_text("word " * 10_000, 8_000)
    >>> print(capped.render()[-91:].strip())
    [truncated: 2129 tokens omitted. call again with stricter filters to see specific parts.]
    """
    if fits(text, limit):
        return None
    capped = _engine.cap_text(text, limit, NOTICE_TOKENS, COUNTER, tool, rows, log_lines)
    return capped and Capped(capped[0], Kind(capped[1]), capped[2])


def fits(text: str, limit: int) -> bool:
    """Whether the text surely has at most `limit` tokens, as no token is less than a byte."""
    return len(text) <= limit and (text.isascii() or len(text) * _MAX_CHARACTER_TOKENS <= limit)


def kind_of(text: str, tool: str = "") -> Kind:
    """Return the kind of a text that the tool with this name returned.

    >>> kind_of('[{"id": 1}, {"id": 2}]'), kind_of("src/a.py:3:import os\\nsrc/b.py:9:import os")
    (<Kind.JSON: 'json'>, <Kind.MATCHES: 'matches'>)
    """
    return Kind(_engine.kind_of_text(text, tool))


def notice(omitted: int, handle: str = "") -> str:
    """Return the notice that `omitted` tokens are missing, and the handle of the whole.

    Nothing ever reads a notice. One that is in a content is content like any other.

    >>> print(notice(1_000).strip())
    [truncated: 1000 tokens omitted. call again with stricter filters to see specific parts.]
    >>> print(notice(1_000, "orig_a").splitlines()[-1])
    [kept whole as orig_a]
    """
    text = (
        f"\n\n[truncated: {omitted} tokens omitted. "
        "call again with stricter filters to see specific parts.]"
    )
    return f"{text}\n[kept whole as {handle}]" if handle else text


NAME = "cap_tool_results"
_MAX_CACHED = 256


class _LRUCache:
    """The results that were used last, by key, for any number of threads."""

    def __init__(self) -> None:
        self._lock = ForkSafeLock()
        self._results: OrderedDict[Any, Any] = OrderedDict()

    def get(self, key: Any, compute: Callable[[], Any]) -> Any:
        """Return the result of this key; `compute` makes it where it is missing."""
        with self._lock:
            if key in self._results:
                self._results.move_to_end(key)
                return self._results[key]
        result = compute()
        with self._lock:
            self._results[key] = result
            if len(self._results) > _MAX_CACHED:
                self._results.popitem(last=False)
        return result


class _Cache:
    """Token counts and capped texts, by the text's digest: each turn compiles the history again."""

    def __init__(self) -> None:
        self._counts = _LRUCache()
        self._capped = _LRUCache()

    def tokens(self, text: str) -> int:
        """Return the tokens of a text. Counting megabytes takes longer than everything else."""
        count: int = self._counts.get(text_digest(text), lambda: _engine.count(text, COUNTER))
        return count

    def cap(self, text: Text, limit: int, caps: Caps) -> Capped | None:
        """Return the text within the limit; None where it stays whole."""
        if fits(text.text, limit):
            return None
        tool, rows, log_lines = text.tool, caps.rows, caps.log_lines
        key = text_digest(text.text), limit, tool, rows, log_lines
        capped: Capped | None = self._capped.get(
            key, lambda: cap_text(text.text, limit, tool=tool, rows=rows, log_lines=log_lines)
        )
        return capped


@dataclass(frozen=True, slots=True)
class CapToolResults:
    """The pass that caps the tool results of a history.

    `cap_tool_results` has the default caps. What the model asked for by `request_context` has a
    budget of its own, so it stays whole. The cap of any other result depends on that result alone,
    so the prompt of one turn extends the prompt of the turn before. Entries that came in are never
    changed: a capped one is a new object with the same ids, in the same position. Media, and blocks
    that are not plain text, stay as they are.
    """

    caps: Caps = field(default_factory=Caps)
    name: str = NAME
    _cache: _Cache = field(default_factory=_Cache, repr=False, compare=False)

    def __call__(self, ir: PromptIR, target: Target) -> PromptIR:
        """Return the IR with capped tool results, and a trace of them."""
        history = ir.history
        changes = TextChanges(self.name)
        limits = [*self.caps.by_tool.values(), self.caps.default_tokens]
        least = min([tokens for tokens in limits if tokens is not None], default=None)
        if history.entries and least is not None:
            start, _ = target.settled_rows(self, ir)
            late_bound_calls = {section.tool_call_id for section in ir.late_bound}
            counts = history.tokens

            def is_long(position: int, texts: Sequence[str]) -> bool:
                if counts and counts[position] <= least:
                    return False
                return not fits("".join(texts), least)

            for results in results_of(history, start, is_long):
                capped = [
                    change
                    for call, texts in groupby(results.texts, key=attrgetter("tool_call_id"))
                    if call not in late_bound_calls
                    for change in self._cap(list(texts), target.originals, changes)
                ]
                changes.add(results.position, capped)
            target.note_settled(self, ir, changes.first_position(ir))
        return changes.apply(ir)

    def _cap(
        self, texts: Sequence[Text], originals: Originals | None, changes: TextChanges
    ) -> Iterator[TextChange]:
        """Cap the texts of one result, which share its limit."""
        tool = texts[0].tool
        limit = self.caps.tokens(tool)
        if limit is None:
            return
        share = limit
        if len(texts) > 1:
            sizes = [self._cache.tokens(text.text) for text in texts]
            if sum(sizes) <= limit:
                return
            share = max(_engine.fair_share(sizes, limit), min(limit, MIN_TOKENS))
        for text in texts:
            capped = self._cache.cap(text, share, self.caps)
            if capped is None:
                continue
            handle: str | None = ""
            if originals is not None:
                handle = changes.keep(originals, text.text, About(tool, text.tool_call_id))
            if handle is not None:
                kept = handle or "no originals kept"
                note = f"{capped.kind}, {capped.omitted:,} tokens left out, {kept}"
                yield TextChange(text.path, capped.render(handle), note)


cap_tool_results = CapToolResults()
