"""Remainders: what was found and had no room, until the model asks for it by its handle.

Looking: which sources a conversation has for what its model asks, and what they bring.

Desk: what all the JIT's tools have at hand for one conversation.
"""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from rehydrate.context.late_binding import RESULT_TOKENS
from rehydrate.context.tool_calls import FETCH, REQUEST, Asking
from rehydrate.errors import MissingNamespaceError, UnknownHandleError
from rehydrate.formats.calls import ToolCall
from rehydrate.memory.tools import LoadMemory
from rehydrate.prompt.hydration import Hydrated, hydrate_sources
from rehydrate.prompt.section import Section
from rehydrate.prompt.sources.arguments import (
    as_list,
    is_memory,
    memory_numbers,
    numbered,
    sources_of,
)
from rehydrate.prompt.sources.conversation import conversation, message_text
from rehydrate.prompt.sources.cut_parts import PartlyShown, cut_parts
from rehydrate.prompt.sources.memory import semantic, temporal
from rehydrate.prompt.sources.passages import Passages
from rehydrate.prompt.sources.source import HydrationSource
from rehydrate.prompt.splicing import HEADING_TOKENS, Spliced

if TYPE_CHECKING:
    from rehydrate.context.context import Context
    from rehydrate.memory.memory import Memory
    from rehydrate.prompt.sources.arguments import Given


PREFIX = "rest_"
MAX_REMAINDERS = 16
"""So many are kept; those that were made longest ago go first. What is in them can be found again
by asking again."""


class Remainders:
    """Sections by handle."""

    def __init__(self) -> None:
        """Nothing is left of anything yet."""
        self._kept: OrderedDict[str, tuple[Section, ...]] = OrderedDict()

    def put(self, sections: Sequence[Section]) -> str:
        """Keep them in their order; the same sections have the same handle.

        >>> Remainders().put([])
        'rest_7d64c5272e'
        """
        named = "\0".join(f"{section.id}\0{section.content}" for section in sections)
        hashed = blake2b(named.encode("utf-8", "surrogatepass"), digest_size=5)
        handle = PREFIX + hashed.hexdigest()
        self._kept.pop(handle, None)  # to the end; calls side by side see it gone at worst
        self._kept[handle] = tuple(sections)
        while len(self._kept) > MAX_REMAINDERS:
            self._kept.popitem(last=False)
        return handle

    def get(self, handle: str) -> tuple[Section, ...]:
        """What is kept under the handle; raises UnknownHandleError."""
        if handle not in self._kept:
            raise UnknownHandleError(handle, "remainders")
        return self._kept[handle]


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
        self, context: Context, more: Given, budget_tokens: int, timeout: float | None
    ) -> None:
        """Take the context, what it does not ask itself, and what an answer may bring; nothing is
        asked yet."""
        self._context = context
        self._timeout = timeout
        own, of = as_list(context.sources), context.request.namespace
        own += [one for one in as_list(more) if one not in own]
        each = [_bound(one, of) for one in own]
        read = [_bound(_memory_of(one), of) for one in each]
        self.memories: list[Memory] = [one for one in read if _has_namespace(one)]
        """Those that are bound to a namespace: what they hold can be read by its handle."""
        most = BEYOND * budget_tokens
        most_of_answer = budget_tokens - RESULT_TOKENS
        asked = [
            conversation(
                context.left_out,
                lookup_tools=LOOKUPS,
                max_tokens=most,
                embedder=context.embedder,
                embedder_timeout=timeout,
            ),
            cut_parts(
                self._partly_shown,
                context.left_out,
                handle_of=self._handle_of,
                visible_text=context.visible_text,
                lookup_tools=LOOKUPS,
                max_tokens=excerpt_tokens(most_of_answer),
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
            if source.needs_namespace and not of:
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
        return "\n\n".join(filter(None, map(message_text, unit.messages)))

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
            timeout=self._timeout,
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


def _bound(given: Any, namespace: str) -> Any:
    is_open = namespace and is_memory(given) and given.namespace is None
    return given.within(namespace) if is_open else given


def _has_namespace(given: Any) -> bool:
    return is_memory(given) and given.namespace is not None


@dataclass(frozen=True, slots=True)
class Desk:
    """The conversation, its sources, what had no room, and what an answer may cost."""

    context: Context
    looking: Looking
    remainders: Remainders
    zone: tzinfo
    budget_tokens: int

    @property
    def most_tokens(self) -> int:
        """For the items of any answer, however empty the turn is."""
        return self.budget_tokens - RESULT_TOKENS

    @property
    def room_tokens(self) -> int:
        """For the items of one answer."""
        return min(self.most_tokens, self.context.room_tokens - RESULT_TOKENS)

    def splice(self, call: ToolCall, found: list[Section]) -> Spliced:
        """What is new and fits goes into the running prompt."""
        return self.context.splice(call.id, found, self.most_tokens)
