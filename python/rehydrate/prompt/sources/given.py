"""Sources of what the caller passes with each request: system, tools and history."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rehydrate import formats
from rehydrate.errors import InvalidArgumentError
from rehydrate.formats._foreign import as_dicts, check_speakers
from rehydrate.formats._reading import as_sequence
from rehydrate.messages import Conversation
from rehydrate.prompt.counting import counted_tools, entry_tokens
from rehydrate.prompt.entries import History
from rehydrate.prompt.section import (
    CompositionMode,
    Position,
    Priority,
    Provenance,
    Section,
    Stability,
    ToolDef,
)
from rehydrate.prompt.sources.source import Found, HydrationSource, Run, SourceKind, SourceRequest


def system(*sections: str | Section, name: str = "system") -> HydrationSource:
    """Return a source of instructions: texts in order of rank, and sections unchanged.

    The section of a text is static, fully trusted and critical. It is never cut, whatever the
    budget. Raises InvalidArgumentError if two sections have the same id.

    >>> source = system("You are a deployment assistant.", "Answer in one sentence.")
    >>> source.name
    'system'
    """
    found = Found(tuple([_section(name, index, given) for index, given in enumerate(sections)]))
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

    Raises InvalidArgumentError for a value that is no tool, and if two have the same name.

    >>> tools([{"name": "grep", "input_schema": {"type": "object"}}]).kind
    'tools'
    """
    read = read_tools(definitions)
    return _source("tools", "tools", lambda _: Found(tools=tuple(counted_tools(read))))


def read_tools(definitions: Iterable[Any]) -> tuple[ToolDef, ...]:
    """Return the tools that the definitions describe.

    Raises InvalidArgumentError for a value that is no list of tools, and if two have the same name.

    >>> read_tools({"name": "grep"})
    Traceback (most recent call last):
    rehydrate.errors.InvalidArgumentError: tools is of type dict; pass a list of tool definitions
    """
    if isinstance(definitions, (str, bytes, Mapping)) or not isinstance(definitions, Iterable):
        raise InvalidArgumentError(
            f"tools is of type {type(definitions).__name__}; pass a list of tool definitions"
        )
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
    that is no message.

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
    check_speakers(conversation)

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
