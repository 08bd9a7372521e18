"""Sources of what the caller passes: system, tools and history, or an answer of its function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

from rehydrate import formats
from rehydrate._check import check_list
from rehydrate._native import as_dicts, as_sequence, checked_found, is_langchain_message
from rehydrate.errors import InvalidArgumentError
from rehydrate.messages import Conversation
from rehydrate.prompt.counting import counted_sections, counted_tools
from rehydrate.prompt.entries import History, entry_tokens
from rehydrate.prompt.section import (
    CompositionMode,
    Position,
    Priority,
    Provenance,
    Section,
    Stability,
    ToolDef,
    free_ids,
)
from rehydrate.prompt.sources.memory import section_of, section_of_hit
from rehydrate.prompt.sources.source import (
    Found,
    HydrationSource,
    Run,
    SourceKind,
    SourceRequest,
    SourceSettings,
)

DEFAULT_TRUST = 0.8
"""Trust of content without a trust of its own: data of the caller, never instructions."""


def function(
    name: str, run: Run, *, blocking: bool = True, **settings: Unpack[SourceSettings]
) -> HydrationSource:
    """Return a source that calls a function of a `SourceRequest`, sync or async.

    The function may return a text, a `Section`, a `Hit`, a `MemoryItem`, messages, a list of one of
    these, a `Found`, or None. Content without a priority or a trust of its own gets the source's
    `priority` and trust 0.8 (data, not instructions). The function runs in a thread. With
    ``blocking=False`` it runs in the caller's thread, and no timeout stops it: for functions that
    take microseconds.

    >>> async def weather(request):
    ...     return f"Rain where {request.namespace} is."
    >>> function("weather", weather, timeout=1).budget_tokens
    """
    return HydrationSource(name, run, blocking=blocking, **settings)


def as_found(answer: Any, source: HydrationSource) -> Found:
    """Return a source's answer as a `Found`, with all its tokens counted.

    The answer is a `Found`, a text, a Section, a Hit, a MemoryItem, messages, None, or a sequence
    of these. Ids of sections start with the source's name, so that no two sources share one;
    sections of the system keep theirs. Raises InvalidArgumentError for anything else.

    >>> weather = HydrationSource("weather", lambda request: "Rain.")
    >>> as_found("Rain.", weather).sections[0].id
    'weather'
    """
    if answer is None:
        answer = Found()
    elif not isinstance(answer, Found):
        answer = Found(_sections(answer, source.name, source.priority))
    found: Found = checked_found(answer, source.name)
    sections: Sequence[Section] = found.sections
    if not source.ignores_budget:
        sections = _with_own_ids(sections, source.name)
    # Budgets depend on the counts, and those of a caller's function may be wrong.
    return found._replace(
        sections=tuple(counted_sections(sections, again=not source.kind)),
        tools=tuple(counted_tools(found.tools)),
    )


def _sections(answer: Any, source: str, priority: Priority) -> tuple[Section, ...]:
    if isinstance(answer, (str, Section)) or not isinstance(answer, Sequence):
        answer = [answer]
    if answer and all(_is_message(entry) for entry in answer):
        formats.parse(answer)  # raises for entries that are not messages
        answer = [Section(source, tuple(answer), _provenance(source), priority=priority)]
    sections = []
    for index, entry in enumerate(answer):
        if isinstance(entry, str) and not entry.strip():
            continue
        sections.append(_answered_section(entry, index, source, priority))
    return tuple(sections)


def _answered_section(entry: Any, index: int, source: str, priority: Priority) -> Section:
    from rehydrate.memory.items import Hit, MemoryItem

    if isinstance(entry, Section):
        return entry
    id_ = f"{source}:{index + 1}" if index else source
    if isinstance(entry, str):
        return Section(id_, entry, _provenance(source), priority=priority)
    if isinstance(entry, Hit):
        return section_of_hit(entry, source=source, priority=priority)
    if isinstance(entry, MemoryItem):
        section = section_of(entry, source=source, priority=priority)
        if entry.handle:
            return section
        return replace(section, id=id_, provenance=replace(section.provenance, items=()))
    raise InvalidArgumentError(
        f"source {source!r} returned {_type_name(entry)} at index {index}; return a text, a "
        "Section, a Hit, a MemoryItem, messages, or a list of one of these"
    )


def _with_own_ids(sections: Sequence[Section], source: str) -> list[Section]:
    """Return the sections with unique ids that start with the source's name."""
    ids, renamed = free_ids(), []
    for section in sections:
        has_prefix = section.id == source or section.id.startswith(f"{source}:")
        id_ = ids.take(section.id if has_prefix else f"{source}:{section.id}")
        renamed.append(section if id_ == section.id else replace(section, id=id_))
    return renamed


def _provenance(source: str) -> Provenance:
    return Provenance(source, trust=DEFAULT_TRUST)


def _is_message(entry: Any) -> bool:
    if isinstance(entry, Mapping):
        return True
    return not isinstance(entry, (str, Section)) and is_langchain_message(entry)


def _type_name(value: Any) -> str:
    return "None" if value is None else f"one of type {type(value).__name__}"


def system(*sections: str | Section, name: str = "system") -> HydrationSource:
    """Return a source of instructions: texts in order of rank, and sections unchanged.

    The section of a text is static, fully trusted and critical. It is never cut, whatever the
    budget. A blank one is left out: no provider takes an empty text. Raises InvalidArgumentError if
    two sections have the same id.

    >>> source = system("You are a deployment assistant.", "Answer in one sentence.")
    >>> source.name
    'system'
    """
    read = [_section(name, index, given) for index, given in enumerate(sections)]
    said = [e for e in read if not isinstance(e.content, str) or e.content.strip()]
    found = Found(tuple(said))
    ids = [section.id for section in found.sections]
    if repeated := next((id_ for id_ in ids if ids.count(id_) > 1), None):
        raise InvalidArgumentError(
            f"source {name!r}: two sections have the id {repeated!r}; give each its own"
        )
    return _source(name, "system", lambda _: found)


def _section(name: str, index: int, given: Any) -> Section:
    if isinstance(given, Section):
        return given
    if not isinstance(given, str):
        raise InvalidArgumentError(
            f"source {name!r}: entry {index} is of type {type(given).__name__}; pass texts or "
            "Sections"
        )
    return Section(
        f"{name}:{index + 1}" if index else name,
        given,
        Provenance(name),
        priority=Priority.CRITICAL,
        relevance=1.0,
        mode=CompositionMode.HIERARCHICAL,
        stability=Stability.STATIC,
        position=Position.START,
    )


def tools(definitions: Iterable[Any]) -> HydrationSource:
    """Return a source of tool definitions in any provider's shape, in the order given.

    Raises InvalidArgumentError for a value that is not a tool, and if two have the same name.

    >>> tools([{"name": "grep", "input_schema": {"type": "object"}}]).kind
    'tools'
    """
    read = read_tools(definitions)
    return _source("tools", "tools", lambda _: Found(tools=tuple(counted_tools(read))))


def read_tools(definitions: Iterable[Any]) -> tuple[ToolDef, ...]:
    """Return the tools that the definitions describe.

    Raises InvalidArgumentError for a value that is not a list of tools, and if two have one name.

    >>> read_tools({"name": "grep"})
    Traceback (most recent call last):
    rehydrate.errors.InvalidArgumentError: tools is of type dict; pass a list of tool definitions
    """
    check_list("tools", definitions, "pass a list of tool definitions")
    read = tuple([ToolDef.read(definition) for definition in definitions])
    names: set[str] = set()
    for tool in read:
        if tool.name in names:
            raise InvalidArgumentError(
                f"two tools are named {tool.name!r}; a model cannot tell them apart: rename one"
            )
        names.add(tool.name)
    return read


def history(
    messages: Sequence[Any] | History,
    format: str = "auto",  # noqa: A002  the field's word
) -> HydrationSource:
    """Return a source of the messages as they are now, in any format, each entry counted.

    Of a `History` whose entries are counted only the last user turn is read.

    All entries are kept, whatever the budget: the compiler's passes decide which ones to drop. The
    last user turn is the query of a request that has none. Raises InvalidMessageError for an entry
    that is not a message.

    >>> history([{"role": "user", "content": "Which port?"}]).kind
    'history'
    """
    if not isinstance(messages, History):
        given = History(tuple(as_dicts(as_sequence(messages))), format)
    elif len(messages.tokens) == len(messages.entries):
        counted = messages
        return _source(
            "history", "history", lambda _: Found(history=counted), lambda: _query_of(counted)
        )
    else:
        given = messages
    entries = given.entries  # a copy: another thread may change the list
    conversation = formats.parse(entries, given.format)
    conversation.check_speakers()

    def run(request: SourceRequest) -> Found:  # noqa: ARG001  the same for every request
        tokens = entry_tokens(conversation, len(entries))
        return Found(history=given.with_tokens(tokens, conversation))

    return _source("history", "history", run, lambda: _last_user_turn(conversation))


def _source(
    name: str, kind: SourceKind, run: Run, query: Callable[[], str] | None = None
) -> HydrationSource:
    return HydrationSource(
        name,
        run,
        priority=Priority.CRITICAL,
        timeout=None,
        blocking=False,
        kind=kind,
        query=query,
    )


def _query_of(counted: History) -> str:
    """Return the last user turn; only the last entries are read, more if it is not among them."""
    length = 16
    while True:
        found = _last_user_turn(formats.parse(counted.entries[-length:], counted.format))
        if found or length >= len(counted.entries):
            return found
        length *= 4


def _last_user_turn(conversation: Conversation) -> str:
    turns = (message.text for message in reversed(conversation.messages) if message.is_user_turn)
    return next((text for text in turns if text.strip()), "")
