"""Looking: which sources a conversation has for what its model asks, and what they bring."""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rehydrate.compiler.hydrate import Hydrated, hydrate_sources
from rehydrate.compiler.sources.conversation import conversation, said
from rehydrate.compiler.sources.cut_parts import PartlyShown, cut_parts
from rehydrate.compiler.sources.given import (
    each_of,
    is_memory,
    memory_numbers,
    numbered,
    sources_of,
)
from rehydrate.compiler.sources.passages import Passages
from rehydrate.compiler.sources.semantic import semantic
from rehydrate.compiler.sources.source import HydrationSource
from rehydrate.compiler.sources.temporal import temporal
from rehydrate.compiler.splice import HEADING_TOKENS
from rehydrate.context.late_binding import RESULT_TOKENS
from rehydrate.errors import MissingNamespaceError, UnknownHandleError
from rehydrate.ir import Section
from rehydrate.memory.tools import LoadMemory
from rehydrate.runtime.jit.asking import Asking
from rehydrate.runtime.jit.definitions import FETCH, REQUEST

if TYPE_CHECKING:
    from rehydrate.compiler.sources.given import Given
    from rehydrate.context import Context
    from rehydrate.memory.memory import Memory

MOST_ITEMS = 20
"""So many items of a memory are looked for, where a prompt takes 5: the model has asked."""
BEYOND = 2
"""So many times the budget is looked for, so that the rest can be asked for."""
LOOKUPS = (REQUEST.name, FETCH.name, LoadMemory.name)
"""What was looked up before is found again where it is from."""
SHARE = 0.25
"""Of an answer's budget, what one excerpt takes."""
MOST_PASSAGES = 2
"""Wholes whose windows are kept for the next query of fetch_whole."""
LEAST_EXCERPT = 400
"""Tokens; less could not show a find and the lines around it."""
_FOUND_AGAIN = ("semantic", "temporal", "knowledge", "conversation", "history")
"""Sources that find the rest of what they brought when they are asked again."""
_HOT = "hot"
"""Is cut at a hundred lines, and stands for items of which it may show a part."""
_NUMBER = re.compile(r"#\d{1,9}")
"""Of a message, as an outline names it: its place in ``Context.history``."""
_ASKED = ("conversation", "temporal", "semantic", "knowledge", "function")


class Looking:
    """The sources of one conversation: itself, and what its context was given."""

    def __init__(
        self, context: Context, more: Given, budget_tokens: int, deadline_ms: float | None
    ) -> None:
        """Take the context, what it does not ask itself, and what an answer may bring; nothing is
        asked yet."""
        self._context = context
        self._deadline_ms = deadline_ms
        own, of = each_of(context.sources), context.request.identity
        own += [one for one in each_of(more) if one not in own]
        each = [_bound(one, of) for one in own]
        read = [_bound(_memory_of(one), of) for one in each]
        self.memories: list[Memory] = [one for one in read if _has_namespace(one)]
        """Those that are bound to a namespace: what they hold can be read by its handle."""
        most = BEYOND * budget_tokens
        most_of_answer = budget_tokens - RESULT_TOKENS
        asked = [
            conversation(
                context.left_out,
                lookups=LOOKUPS,
                most_tokens=most,
                embedder=context.embedder,
                embedder_ms=deadline_ms,
            ),
            cut_parts(
                self._partly_shown,
                context.left_out,
                handle_of=self._handle_of,
                seen=context.visible_text,
                lookups=LOOKUPS,
                most_tokens=excerpt_tokens(most_of_answer),
                whole_tokens=most_of_answer,
            ),
        ]
        numbers = memory_numbers(each)
        for one in each:
            asked += _of_memory(one, numbers[id(one)]) if is_memory(one) else sources_of(one)
        self._passages: OrderedDict[str, tuple[str, Passages]] = OrderedDict()
        self._sections: dict[str, tuple[Section, tuple[PartlyShown, ...]]] = {}
        self._sources = _under_names_of_their_own(asked)
        for source in self._sources:
            if source.needs_identity and not of:
                raise MissingNamespaceError(source.name)

    def whole(self, handle: str) -> tuple[str, str]:
        """The text under a handle, and what keeps it; raises UnknownHandleError.

        A number, such as ``#12``, is that of a message which is no longer shown.
        """
        if _NUMBER.fullmatch(handle):
            return self._message(handle, int(handle[1:])), "conversation"
        try:
            return self._context.originals.get(handle), "original"
        except UnknownHandleError as error:
            gone = error
        for memory in self.memories:
            try:
                return memory.get(handle).text, "memory"
            except UnknownHandleError:
                continue
        raise gone

    def _message(self, handle: str, place: int) -> str:
        """What was said there; a call with its results."""
        history, _ = self._context.left_out()
        units = history.conversation.units
        unit = next((u for u in units if place in map(history.place, u.members)), None)
        if unit is None:
            raise UnknownHandleError(handle, "conversation")
        return "\n\n".join(filter(None, map(said, unit.messages)))

    def passages_of(self, handle: str, text: str) -> Passages:
        """The windows of a whole, made ready to be looked through; those of the last handles are
        known."""
        known = self._passages.get(handle)
        if known is None or known[0] != text:
            known = self._passages[handle] = text, Passages([(text, "")])
        self._passages.move_to_end(handle)
        while len(self._passages) > MOST_PASSAGES:
            self._passages.popitem(last=False)
        return known[1]

    def _partly_shown(self) -> list[PartlyShown]:
        """Texts of entries, and of sections that no source would find again."""
        ir = self._context.ir
        found = list(self._context.partly_shown())
        if ir is None:
            return found
        known, self._sections = self._sections, {}
        for section in ir.sections:
            name = _kind_named(section)
            if name == _HOT or (section.handle is not None and name not in _FOUND_AGAIN):
                before = known.get(section.id)
                is_same = before is not None and before[0] is section
                texts = before[1] if before and is_same else tuple(self._wholes(section))
                self._sections[section.id] = section, texts
                found += texts
        return found

    def _wholes(self, section: Section) -> Iterator[PartlyShown]:
        """What a section shows a part of: one text, or items of a memory."""
        shown = str(section.content)
        for handle in dict.fromkeys([section.handle or "", *section.provenance.items]):
            try:
                text, _ = self.whole(handle)
            except Exception:  # a memory that is closed: what it knows is missed where it is asked
                continue
            if text.strip() not in shown:
                of = section.provenance
                yield PartlyShown(
                    section.id,
                    text,
                    shown,
                    item=handle,
                    source=of.source,
                    origin=of.origin,
                    time=of.time,
                    trust=section.trust,
                    handle=handle,
                )

    def _handle_of(self, text: PartlyShown) -> str | None:
        """Where the whole can be read, kept there now if it is not; None where nobody keeps it."""
        originals = self._context.originals
        try:
            if text.handle is not None:
                self.whole(text.handle)
            else:
                text.handle = originals.put(text.text)
        except UnknownHandleError:  # it had to make room
            text.handle = originals.put(text.text)
        except Exception:  # whatever kept it from being kept, what was found is answered
            return None
        return text.handle

    def look(self, asking: Asking, visible: frozenset[str]) -> list[Hydrated]:
        """What the sources that are meant bring; [] where there is none of them."""
        meant = [source for source in self._sources if _kind(source) in asking.kinds]
        return hydrate_sources(
            asking.request(self._context.request),
            meant,
            visible=visible,
            deadline_ms=self._deadline_ms,
        )

    @property
    def kinds(self) -> list[str]:
        """Of all its sources."""
        kinds = map(_kind, self._sources)
        return list(dict.fromkeys(kind for kind in kinds if kind in _ASKED))


def excerpt_tokens(answer_tokens: int) -> int:
    """What one excerpt may take of an answer.

    >>> excerpt_tokens(3_800), excerpt_tokens(600)
    (950, 400)
    """
    return max(int(answer_tokens * SHARE), min(answer_tokens - HEADING_TOKENS, LEAST_EXCERPT))


def _kind_named(section: Section) -> str:
    """Of the source that a section is from, without the number of a second one."""
    return section.provenance.source.partition(" ")[0]


def _kind(source: HydrationSource) -> str:
    return source.kind or "function"


def _of_memory(memory: Memory, number: int) -> list[HydrationSource]:
    name = numbered("semantic", number)
    return [
        temporal(memory, name=numbered("temporal", number)),
        semantic(memory, name=name, limit=MOST_ITEMS, whole=True),
    ]


def _under_names_of_their_own(sources: Iterable[HydrationSource]) -> list[HydrationSource]:
    """The same; a second one of a name has a number."""
    times: Counter[str] = Counter()
    named = []
    for source in sources:
        times[source.name] += 1
        name = numbered(source.name, times[source.name])
        named.append(source if name == source.name else replace(source, name=name))
    return named


def _memory_of(given: Any) -> Any:
    """The memory that a source reads."""
    return given.memory if isinstance(given, HydrationSource) else given


def _bound(given: Any, identity: str) -> Any:
    is_open = identity and is_memory(given) and given.namespace is None
    return given.within(identity) if is_open else given


def _has_namespace(given: Any) -> bool:
    return is_memory(given) and given.namespace is not None
