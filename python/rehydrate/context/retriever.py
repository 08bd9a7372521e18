"""Retriever: the sources that a conversation has for its model's requests, and their answers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from rehydrate import _native, formats
from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate._native import Passages
from rehydrate.context.history import Entries, StoredEntry
from rehydrate.context.records import rows_of
from rehydrate.context.stored import Stored
from rehydrate.context.thread import ANSWER_WORDS_TOKENS
from rehydrate.context.tool_calls import FETCH, REQUEST, ContextQuery
from rehydrate.entry_id import EntryId
from rehydrate.errors import (
    InvalidArgumentError,
    MissingNamespaceError,
    RehydrateError,
    UnknownHandleError,
)
from rehydrate.memory.tools import LoadMemory
from rehydrate.prompt.entries import History
from rehydrate.prompt.hydration import Hydrated, hydrate_sources
from rehydrate.prompt.originals import TRUST as TOOL_TRUST
from rehydrate.prompt.section import FULL_TRUST, Section
from rehydrate.prompt.sources import as_list, is_memory, memory_numbers, numbered, sources_of
from rehydrate.prompt.sources.conversation import Hidden, PartlyShown, conversation, cut_parts
from rehydrate.prompt.sources.memory import semantic, temporal
from rehydrate.prompt.sources.source import Found, HydrationSource
from rehydrate.prompt.splicing import Spliced, VisibleText, splice, visible_items

if TYPE_CHECKING:
    from rehydrate.context.facts import ContextFacts
    from rehydrate.context.log import Log
    from rehydrate.formats.calls import ToolCall
    from rehydrate.memory.memory import Memory
    from rehydrate.memory.store import ThreadRow
    from rehydrate.prompt.ir import PromptIR
    from rehydrate.prompt.sources import Given


MEMORY_LIMIT = 20
"""Items of a memory for one request, if a prompt takes 5: the model has asked."""
BUDGET_FACTOR = 2
"""The conversation is searched for this multiple of the budget, so that a rest can be kept."""
LOOKUPS = (REQUEST.name, FETCH.name, LoadMemory.name)
"""Results of these tools are not searched: their content is found again at its source."""
EXCERPT_SHARE = 0.25
"""The share of an answer's budget for one excerpt."""
MIN_EXCERPT_TOKENS = 400
"""Less could not show a match and the lines around it."""
MAX_PASSAGES = 2
"""Texts whose passages are kept for the next query of fetch_whole."""
_FIND_AGAIN = ("semantic", "temporal", "knowledge", "conversation", "history")
"""Sources that find the rest of their content when they are asked again."""
_HOT = "hot"
"""Hot memory is cut at a hundred lines, and has items of which it may show a part."""
_NUMBER = re.compile(r"#\d{1,9}")
"""A message as an outline names it: its index in ``Context.history``."""
_KINDS = ("conversation", "temporal", "semantic", "knowledge", "function")


class Retriever:
    """The sources of one conversation, itself and those that its context was given; what its model
    sees of them, and the possible cost of an answer."""

    def __init__(
        self,
        context: ContextFacts,
        more: Given,
        budget_tokens: int,
        timeout: float | None,
        timezone: tzinfo,
    ) -> None:
        """Collect the sources of the context and ``more``; nothing is asked yet.

        ``budget_tokens`` is the limit of one answer. Raises MissingNamespaceError for a memory
        without one.
        """
        self._context = context
        self._timeout = timeout
        self.timezone = timezone
        self._thread = thread = context._thread
        self._messages: tuple[History | None, VisibleText] = (None, VisibleText())
        """The texts of the messages in the last prompt; they are read once a prompt."""
        self.originals = context.originals
        self.remainders = thread.remainders
        """Sections that answers had no room for."""
        self.max_tokens = budget_tokens - ANSWER_WORDS_TOKENS
        """The limit for the items of any answer, however empty the turn is."""
        given, namespace = as_list(context.sources), context.request.namespace
        given += [one for one in as_list(more) if one not in given]
        each = [_within(one, namespace) for one in given]
        read = [one.memory if isinstance(one, HydrationSource) else one for one in each]
        self.memories: list[Memory] = [
            one
            for one in (_within(one, namespace) for one in read)
            if is_memory(one) and one.namespace is not None
        ]
        """Those within a namespace: their content can be read by its handle."""
        hidden = Hidden(context.left_out, LOOKUPS)
        sources = [
            conversation(
                hidden,
                max_tokens=BUDGET_FACTOR * budget_tokens,
                embedder=context.embedder,
                embedder_timeout=timeout,
            ),
            cut_parts(
                self._partly_shown,
                hidden,
                handle_of=self._handle_of,
                visible_text=self.visible_text,
                max_tokens=excerpt_tokens(self.max_tokens),
                whole_tokens=self.max_tokens,
            ),
        ]
        log = thread.log
        if log is not None:
            others = OtherConversations(log, thread.entries)
            search = conversation(
                Hidden(others.entries, LOOKUPS),
                name="threads",
                max_tokens=BUDGET_FACTOR * budget_tokens,
                place=others.place,
            )
            sources.append(replace(search, run=lambda request: others.noted(search.run(request))))
        numbers = memory_numbers(each)
        for one in each:
            if is_memory(one):
                number = numbers[id(one)]
                name = numbered("semantic", number)
                sources += [
                    temporal(one, name=numbered("temporal", number)),
                    semantic(one, name=name, limit=MEMORY_LIMIT, whole=True),
                ]
            else:
                sources += sources_of(one)
        self._in_part: dict[int | str, tuple[Any, tuple[PartlyShown, ...]]] = {}
        """Entries and sections that the last prompt showed in part, and their texts, by name."""
        self._sources: list[HydrationSource] = []
        times: Counter[str] = Counter()
        for source in sources:  # a second one of a name gets a number
            times[source.name] += 1
            name = numbered(source.name, times[source.name])
            named = source if name == source.name else replace(source, name=name)
            if named.needs_namespace and not namespace:
                raise MissingNamespaceError(named.name)
            self._sources.append(named)
        self.passages_of = lru_cache(MAX_PASSAGES)(lambda text: Passages([(text, "")]))
        """The passages of a text, ready for a query."""

    @property
    def room_tokens(self) -> int:
        """The limit for the items of the next answer."""
        return min(self.max_tokens, self._context.room_tokens - ANSWER_WORDS_TOKENS)

    def splice(self, call: ToolCall, found: list[Section]) -> Spliced:
        """Take the found sections of a call into the running turn: whole new ones, within the limit
        of an answer and what remains of the turn's and the job's budget.

        Nothing that is in the prompt changes. The caller puts the sections' texts into the result
        of the call and adds that to the context; the next prompt's IR has them in `late_bound`.
        """
        thread, context = self._thread, self._context
        with thread.lock, thread.change():
            left = thread.room_tokens(context.budget, context.provider)
            spliced = splice(
                found,
                tool_call_id=call.pair_id,
                budget_tokens=min(self.max_tokens, left),
                visible=self._visible_items(),
                visible_text=self._visible_messages(),
                visible_sections=self._visible_sections(),
            )
            thread.wait(call.pair_id, spliced.sections)
            return spliced

    def unsplice(self, tool_call_id: str, sections: Sequence[Section] | None = None) -> None:
        """Take back these sections, or all, of a call whose result nobody waits for any more."""
        with self._thread.lock, self._thread.change():
            self._thread.give_up(tool_call_id, sections)

    def visible_text(self) -> VisibleText:
        """Return everything that the model sees."""
        with self._thread.reading():
            sections = [str(each.content) for each in self._visible_sections()]
            return self._visible_messages().followed_by(sections)

    def visible_items(self) -> frozenset[str]:
        """Return the ids of what the model sees whole (`Provenance.items`), entries among them."""
        with self._thread.reading():
            return self._visible_items()

    def _visible_items(self) -> frozenset[str]:
        items = visible_items(self._thread.state.shown, self._thread.waiting_sections)
        return items.union(map(EntryId.of, self._thread.shown_indices()))

    def _visible_messages(self) -> VisibleText:
        history = self._thread.state.shown.history
        if self._messages[0] is not history:
            text = VisibleText.of([each.text for each in history.messages])
            self._messages = history, text
        return self._messages[1]

    def _visible_sections(self) -> tuple[Section, ...]:
        ir = self._thread.state.shown
        return (*ir.sections, *ir.late_bound, *self._thread.waiting_sections)

    @property
    def kinds(self) -> list[str]:
        """The kinds of its sources that a scope can mean."""
        kinds = map(_kind, self._sources)
        return list(dict.fromkeys(kind for kind in kinds if kind in _KINDS))

    def find(self, query: ContextQuery, visible: frozenset[str]) -> list[Hydrated]:
        """Ask the sources that the query means; [] if there is none of them."""
        meant = [source for source in self._sources if _kind(source) in query.kinds]
        request = query.request(self._context.request)
        return hydrate_sources(request, meant, visible=visible, timeout=self._timeout)

    def whole(self, handle: str) -> tuple[str, str]:
        """Return the text under a handle, and what keeps it; raises UnknownHandleError.

        A number, such as ``#12``, means that message, if it is no longer shown.
        """
        if _NUMBER.fullmatch(handle):
            return self._message(handle, int(handle[1:])), "conversation"
        try:
            return self.originals.get(handle), "original"
        except UnknownHandleError as error:
            unknown = error
        for memory in self.memories:
            try:
                return memory.get(handle).text, "memory"
            except (UnknownHandleError, InvalidArgumentError):  # gone, or a handle of another kind
                continue
        raise unknown

    def _message(self, handle: str, index: int) -> str:
        """Return the text of the message at an index; a call comes with its results."""
        history, _ = self._context.left_out()
        conversation = history.conversation
        position = history.indices.index(index) if index in history.indices else -1
        unit = conversation.unit_of().get(position)
        if unit is None:
            raise UnknownHandleError(handle, "conversation")
        return _native.unit_text(conversation, unit)

    def _partly_shown(self) -> list[PartlyShown]:
        """Return the partly shown texts. If an object is the same as last time, nothing is read
        again."""
        with self._thread.reading():
            ir = self._context.ir
            parts = [] if ir is None else [*self._cut_entries(ir.history), *self._cut_sections(ir)]
        known, self._in_part = self._in_part, {}
        found: list[PartlyShown] = []
        for name, part, read in parts:
            before = known.get(name)
            texts = before[1] if before is not None and before[0] is part else tuple(read())
            self._in_part[name] = part, texts
            found += texts
        return found

    def _cut_entries(self, history: History) -> Iterator[_InPart]:
        """Yield the entries that are not shown as they were added: capped results, and repetitions
        that became a reference."""
        entries = self._thread.entries
        for position, entry in enumerate(history.entries):
            index = history.entry_index(position)
            original = entries.at(index)
            if entry is not original:
                yield index, entry, partial(self._cut_texts, original, entry, index)

    def _cut_texts(self, original: Any, entry: Any, index: int) -> Iterator[PartlyShown]:
        """Yield the texts of an entry that are not shown as they were added."""
        entries = self._thread.entries
        try:
            was, now = (formats.parse([one], entries.format) for one in (original, entry))
        except RehydrateError:  # a line that has a meaning only with others
            return
        item, time = EntryId.of(index), entries.time_at(index)
        trust = TOOL_TRUST if was.answers() else FULL_TRUST
        for text, part in _native.differing_texts(was, now):
            yield PartlyShown(str(index), text, part, item=item, time=time, trust=trust)

    def _cut_sections(self, ir: PromptIR) -> Iterator[_InPart]:
        """Yield the sections that no source would find again."""
        for section in ir.sections:
            kind = section.provenance.source.partition(" ")[0]  # without the number of a second one
            if kind == _HOT or (section.handle is not None and kind not in _FIND_AGAIN):
                yield section.id, section, partial(self._whole_texts, section)

    def _whole_texts(self, section: Section) -> Iterator[PartlyShown]:
        """Yield the texts that a section shows a part of: one, or items of a memory."""
        shown = str(section.content)
        for handle in dict.fromkeys([section.handle or "", *section.provenance.items]):
            try:
                text, _ = self.whole(handle)
            except Exception:  # a closed memory: its own source reports that
                continue
            if text.strip() not in shown:
                provenance = section.provenance
                yield PartlyShown(
                    section.id,
                    text,
                    shown,
                    item=handle,
                    source=provenance.source,
                    origin=provenance.origin,
                    time=provenance.time,
                    trust=section.trust,
                    handle=handle,
                )

    def _handle_of(self, text: PartlyShown) -> str | None:
        """Return a handle of the whole, kept now if it was not; None if nothing can keep it."""
        try:
            if text.handle is not None:
                self.whole(text.handle)
            else:
                text.handle = self.originals.put(text.text)
        except UnknownHandleError:  # it had to make room
            text.handle = self.originals.put(text.text)
        except Exception:  # the match is answered all the same
            return None
        return text.handle


_InPart = tuple[int | str, Any, Callable[[], Iterable[PartlyShown]]]
"""An entry or a section that is shown in part: index or id, itself, and a reader of its texts."""


_MAX_OTHER_BYTES = 8_000_000
"""Maximum bytes of the threads that are searched, the last changed first: about a second. One that
does not fit is left out."""


class OtherConversations:
    """The entries of the other threads of a namespace, as one history, read again when one changed.

    Threads whose entries are in another format are left out.
    """

    def __init__(self, log: Log, own: Entries) -> None:
        """Read nothing yet; log and entries are those of the thread that asks."""
        self._log = log
        self._own = own
        self._lock = ForkSafeLock()
        self._found: Sequence[ThreadRow] = ()
        self._threads: dict[str, tuple[ThreadRow, Stored]] = {}
        self._read: tuple[History, list[datetime]] = (History(format=own.format), [])
        self._places: list[str] = []
        self._left_out = 0

    def entries(self) -> tuple[History, Sequence[datetime]]:
        """Return the entries and their times; the same objects until a thread changes."""
        with self._lock:
            rows = self._log.store.threads(self._log.namespace)
            found = [row for row in rows if row[0] != self._log.name]
            if found != self._found:
                self._take(found)
                self._found = found
            return self._read

    def place(self, index: int) -> str:
        """Return the name of an entry: its thread and its number there."""
        return self._places[index]

    def noted(self, found: Found) -> Found:
        """Return what was found, with a note if threads were left out."""
        if not self._left_out:
            return found
        note = (
            f"threads: {self._left_out} of {len(self._found)} other threads were left out: at most "
            f"{_MAX_OTHER_BYTES:,} bytes are searched"
        )
        return found._replace(degraded=(*found.degraded, note))

    def _take(self, found: Sequence[ThreadRow]) -> None:
        """Read the threads that changed, and put all of them together."""
        known, self._threads = self._threads, {}
        said: list[StoredEntry] = []
        places: list[str] = []
        left, left_out = _MAX_OTHER_BYTES, 0
        for row in found:
            name, size = row[0], row[4]
            if size > left:
                left_out += 1
                continue
            left -= size
            before = known.get(name)
            if before is None or before[0] != row:
                rows = rows_of(self._log.store, self._log.namespace, name)
                if not rows:
                    continue  # it was purged just now
                before = row, Stored.of(rows)
            self._threads[name] = before
            thread = before[1]
            if thread.format == self._own.format:
                said += thread.entries
                places += [f"{name} #{number}" for number in range(len(thread.entries))]
        entries = Entries(self._own.format)
        entries.restore(said)
        times = [datetime.fromtimestamp(each.time, UTC) for each in said]
        self._places, self._left_out = places, left_out
        self._read = entries.at_indices(range(len(entries))), times


def excerpt_tokens(answer_tokens: int) -> int:
    """Return the limit of one excerpt in an answer.

    >>> excerpt_tokens(3_800), excerpt_tokens(600)
    (950, 400)
    """
    share = int(answer_tokens * EXCERPT_SHARE)
    return max(share, min(answer_tokens - _native.heading_tokens(), MIN_EXCERPT_TOKENS))


def _kind(source: HydrationSource) -> str:
    return source.kind or "function"


def _within(given: Any, namespace: str) -> Any:
    """Return a memory without a namespace within this one; anything else as it is."""
    is_open = namespace and is_memory(given) and given.namespace is None
    return given.within(namespace) if is_open else given
