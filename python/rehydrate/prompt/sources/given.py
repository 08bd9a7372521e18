"""system: what the caller lays down: instructions, rules, facts; and tools, beside them.

tools: the definitions of the tools that the model may call.

history: the conversation so far, the caller's own entries, untouched.
"""

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
)
from rehydrate.prompt.sources.source import Found, HydrationSource, Run, SourceRequest
from rehydrate.prompt.tool_def import ToolDef


def system(*sections: str | Section, name: str = "system") -> HydrationSource:
    """Texts as instructions, in order of rank, and sections as they are.

    A text is static, fully trusted and critical: it is never cut. It comes whole, whatever the
    budget.

    >>> source = system("You are a deployment assistant.", "Answer in one sentence.")
    >>> source.name
    'system'
    """
    made = tuple([_section(name, place, given) for place, given in enumerate(sections)])
    ids = [section.id for section in made]
    if repeated := next((one for one in ids if ids.count(one) > 1), None):
        raise InvalidArgumentError(
            f"source {name!r}: two sections have the id {repeated!r}; give each its own"
        )
    return HydrationSource(
        name,
        lambda _: Found(made),
        priority=Priority.CRITICAL,
        timeout=None,
        blocking=False,
        kind="system",
    )


def _section(name: str, place: int, given: Any) -> Section:
    if isinstance(given, Section):
        return given
    if not isinstance(given, str):
        raise InvalidArgumentError(
            f"source {name!r}: entry {place} is of type {type(given).__name__}; pass texts or "
            "Sections"
        )
    return Section(
        f"{name}:{place + 1}" if place else name,
        given,
        Provenance(name),
        priority=Priority.CRITICAL,
        relevance=1.0,
        mode=CompositionMode.HIERARCHICAL,
        stability=Stability.STATIC,
        position=Position.START,
    )


def tools(definitions: Iterable[Any]) -> HydrationSource:
    """Definitions in any provider's shape, in the order given, each counted.

    Raises InvalidArgumentError for what is no tool, and for a second one of the same name.

    >>> tools([{"name": "grep", "input_schema": {"type": "object"}}]).kind
    'tools'
    """
    read = read_tools(definitions)
    return HydrationSource(
        "tools",
        lambda _: Found(tools=tuple(counted_tools(read))),
        priority=Priority.CRITICAL,
        timeout=None,
        blocking=False,
        kind="tools",
    )


def read_tools(definitions: Iterable[Any]) -> tuple[ToolDef, ...]:
    """The definitions, read; raises InvalidArgumentError for what is no list of them, and for a
    second one of the same name.

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
    """The messages as they are now, in any of the formats, each entry counted.

    A `History` whose entries are counted is taken as it is, and only its last user turn is read.

    It comes whole, whatever the budget: what of it goes is for the compiler's passes to say. A
    request without a query is about its last user turn. Raises InvalidMessageError for an
    entry that is no message.

    >>> history([{"role": "user", "content": "Which port?"}]).kind
    'history'
    """
    if not isinstance(messages, History):
        given = History(tuple(as_dicts(as_sequence(messages))), format)
    elif len(messages.tokens) == len(messages.entries):
        counted = messages
        return _source(lambda _: Found(history=counted), lambda: _last_said(counted))
    else:
        given = messages
    entries = given.entries  # as they are now: another thread may change the list
    conversation = formats.parse(entries, given.format)
    check_speakers(conversation)

    def run(request: SourceRequest) -> Found:  # noqa: ARG001  it is the same for all
        tokens = entry_tokens(conversation, len(entries))
        return Found(history=given.with_tokens(tokens, conversation))

    return _source(run, lambda: _last_user_turn(conversation))


def _source(run: Run, query: Callable[[], str]) -> HydrationSource:
    return HydrationSource(
        "history",
        run,
        priority=Priority.CRITICAL,
        timeout=None,
        blocking=False,
        kind="history",
        query=query,
    )


def _last_said(counted: History) -> str:
    """The last user turn, without reading what stands far before it."""
    reach = 16
    while True:
        found = _last_user_turn(formats.parse(counted.entries[-reach:], counted.format))
        if found or reach >= len(counted.entries):
            return found
        reach *= 4


def _last_user_turn(conversation: Conversation) -> str:
    turns = (message.text for message in reversed(conversation.messages) if message.is_user_turn)
    return next((text for text in turns if text.strip()), "")
