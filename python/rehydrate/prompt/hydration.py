"""hydrate: asks all sources about a turn at once, and puts what they bring into a PromptIR."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack

from rehydrate._check import check_timeout
from rehydrate._concurrency.async_wrappers import computed
from rehydrate.errors import InvalidArgumentError, MissingNamespaceError
from rehydrate.prompt.counting import COUNTER
from rehydrate.prompt.entries import History
from rehydrate.prompt.ir import PromptIR
from rehydrate.prompt.meta import DroppedSection, Meta, SourceReport
from rehydrate.prompt.request import ContextRequest
from rehydrate.prompt.section import Section, ToolDef
from rehydrate.prompt.sources.arguments import check_names, sources_of
from rehydrate.prompt.sources.given import history, system as system_of, tools as tools_of
from rehydrate.prompt.sources.running import SourceOutcome, run_sources
from rehydrate.prompt.sources.source import Found, HydrationSource, SourceRequest

if TYPE_CHECKING:
    from rehydrate.prompt.sources.arguments import Given, Source


class HydrateOptions(TypedDict, total=False):
    """What `hydrate` takes beside a request and sources."""

    messages: Sequence[Any] | History | None
    """The conversation so far, in any of the formats."""
    format: str
    """Of the messages, where detection should not say."""
    system: str | Section | Sequence[str | Section] | None
    """Instructions of the caller's, and sections as they are."""
    tools: Iterable[Any]
    """Definitions of tools, in any provider's shape."""
    visible: Iterable[str]
    """What the model sees already, by `Provenance.items`: it is not brought again."""
    timeout: float | None
    """Of every source that may wait for something, in place of its own; None: wait for all."""


class SourceOptions(TypedDict, total=False):
    """What `hydrate_source` takes beside a request and a source."""

    visible: Iterable[str]
    """What the model sees already, by `Provenance.items`: it is not brought again."""
    budget_tokens: int | None
    """What there is room for; the source's own budget may be less."""
    timeout: float | None


class Hydrated(NamedTuple):
    """What one source brought."""

    sections: tuple[Section, ...]
    report: SourceReport
    dropped: tuple[DroppedSection, ...] = ()
    """What it found and there was no room for."""
    degraded: tuple[str, ...] = ()
    """What did not work, and was done otherwise."""


def hydrate(
    request: ContextRequest | str = "", sources: Given = (), **options: Unpack[HydrateOptions]
) -> PromptIR:
    """Everything that may go into the next prompt, and where it came from.

    ``request`` is what the turn is about, as a text or a `ContextRequest`; "": the last user turn
    of ``messages``. ``sources`` is a `Memory` (its hot items, those of the request's time range and
    those that match), the path of a document or folder, a function, a source such as
    ``semantic(memory)``, or a list of these. They run at once. One that fails, or that is not back
    by its deadline (200 ms), is left out, and ``ir.meta.sources`` says why; what does not fit into
    a source's budget is in ``ir.meta.dropped``. Without messages the request itself is the
    conversation.

    Raises InvalidArgumentError for an argument outside its limits and for two sources of one name,
    InvalidMessageError for what is no message, and MissingNamespaceError for a memory without a
    namespace where the request has no namespace.

    >>> ir = hydrate("Which port?", lambda request: "Staging listens on 8443.", timeout=None)
    >>> ir.sections[0].content
    'Staging listens on 8443.'
    """
    _check_options("hydrate", options, HydrateOptions)
    named = [*_laid_down(options), *sources_of(sources)]
    check_names(named)
    asked = _filled_in(request, named)
    if asked.query.strip() and not any(source.kind == "history" for source in named):
        named.append(history([{"role": "user", "content": asked.query}]))
    wanted = [source for source in named if source.is_wanted(asked.strategy)]
    questions = _questions(wanted, asked, options, is_asked_for=False)
    outcomes = _run(wanted, questions, options)
    came = dict(zip([source.name for source in wanted], outcomes, strict=True))
    return _prompt(asked, [came.get(source.name, _left_out(source)) for source in named])


ahydrate = computed(hydrate)


def hydrate_source(
    request: ContextRequest | str, source: Source, **options: Unpack[SourceOptions]
) -> Hydrated:
    """What one source brings for a request, in the middle of a turn: nothing else is touched.

    ``visible`` are the items that the model sees already, ``budget_tokens`` is the room there is.
    A source that fails or is late brings nothing, and the report says why.

    >>> hydrate_source("ports", lambda request: "8443", timeout=None).sections[0].content
    '8443'
    """
    sources = sources_of(source)
    if len(sources) != 1:
        names = ", ".join(one.name for one in sources)
        raise InvalidArgumentError(
            f"hydrate_source asks one source, and this is {len(sources)} ({names}); pass one, as "
            "in semantic(memory)"
        )
    (hydrated,) = hydrate_sources(request, sources, **options)
    return hydrated


def hydrate_sources(
    request: ContextRequest | str, sources: Given, **options: Unpack[SourceOptions]
) -> list[Hydrated]:
    """What each of several sources brings for a request, in their order; they run at once.

    The strategy says which of them are asked, and each may take ``budget_tokens``.

    >>> [hydrated.report.name for hydrated in hydrate_sources("ports", [], timeout=None)]
    []
    """
    _check_options("hydrate_source", options, SourceOptions)
    named = sources_of(sources)
    check_names(named)
    asked = _filled_in(request, named)
    wanted = [source for source in named if source.is_wanted(asked.strategy)]
    questions = _questions(wanted, asked, options, is_asked_for=True)
    outcomes = _run(wanted, questions, options)
    return [
        Hydrated(each.found.sections, each.report, each.found.dropped, each.found.degraded)
        for each in outcomes
    ]


ahydrate_source = computed(hydrate_source)


def _laid_down(options: HydrateOptions) -> list[HydrationSource]:
    """The sources that stand in the options: they bring what the caller has at hand."""
    sources = []
    given = options.get("system")
    if given is not None:
        sources.append(system_of(*(given if isinstance(given, (list, tuple)) else (given,))))
    if (definitions := options.get("tools")) is not None:
        sources.append(tools_of(definitions))
    if (messages := options.get("messages")) is not None:
        sources.append(history(messages, options.get("format", "auto")))
    return sources


def _filled_in(request: Any, sources: Sequence[HydrationSource]) -> ContextRequest:
    """The request with what it is about, and with whose it is where a memory has to know that."""
    if isinstance(request, str):
        request = ContextRequest(request)
    if not isinstance(request, ContextRequest):
        raise InvalidArgumentError(
            f"request is of type {type(request).__name__}; pass a text or a ContextRequest"
        )
    for source in sources:
        is_open = source.needs_namespace and not request.namespace
        if is_open and source.is_wanted(request.strategy):
            raise MissingNamespaceError(source.name)
    if not request.query.strip():
        said = next(filter(None, map(_queried_by, sources)), request.query)
        return replace(request, query=said)
    return request


def _queried_by(source: HydrationSource) -> str:
    """What the turn is about as far as the source can tell; one that fails cannot."""
    try:
        said = source.query() if source.query else ""
    except Exception:
        return ""
    return said if isinstance(said, str) else ""


def _questions(
    sources: Sequence[HydrationSource], asked: ContextRequest, options: Any, *, is_asked_for: bool
) -> list[SourceRequest]:
    """What each source is asked, and how much of its answer will be used."""
    room, visible = options.get("budget_tokens"), options.get("visible", ())
    if not (room is None or (type(room) is int and room >= 0)):
        raise InvalidArgumentError(
            f"budget_tokens is {room!r}; pass a whole number from 0 up, or None"
        )
    if isinstance(visible, str) or not isinstance(visible, Iterable):
        raise InvalidArgumentError(
            f"visible is of type {type(visible).__name__}; pass the items of provenances"
        )
    seen = frozenset(visible)
    questions = []
    for source in sources:
        own = source.tokens_for(asked.strategy, asked.budget)
        limits = [limit for limit in (own, room) if limit is not None]
        most = min(limits, default=None)
        questions.append(SourceRequest(asked, source.name, most, seen, is_asked_for))
    return questions


def _run(
    sources: Sequence[HydrationSource], questions: Sequence[SourceRequest], options: Any
) -> list[SourceOutcome]:
    if "timeout" in options:
        timeout = check_timeout("timeout", options["timeout"])
        sources = [replace(source, timeout=timeout) for source in sources]
    return run_sources(sources, questions)


def _left_out(source: HydrationSource) -> SourceOutcome:
    report = SourceReport(source.name, "off", detail="the strategy leaves it out")
    return SourceOutcome(Found(), report)


def _prompt(asked: ContextRequest, outcomes: Sequence[SourceOutcome]) -> PromptIR:
    """What all sources brought, in their order."""
    found = [outcome.found for outcome in outcomes]
    dropped = [one for each in found for one in each.dropped]
    sections: dict[str, Section] = {}
    tools: dict[str, ToolDef] = {}
    for each, outcome in zip(found, outcomes, strict=True):
        name = outcome.report.name
        for section in each.sections:
            if sections.setdefault(section.id, section) is not section:
                reason = "another section has this id"
                dropped.append(DroppedSection(section.id, section.tokens or 0, reason, by=name))
        for tool in each.tools:
            if tools.setdefault(tool.name, tool) is not tool:
                reason = "another tool has this name"
                dropped.append(DroppedSection(tool.name, tool.tokens or 0, reason, by=name))
    prompt = PromptIR(
        request=asked,
        sections=tuple(sections.values()),
        tools=tuple(tools.values()),
        history=next((each.history for each in found if each.history), History()),
        counter=COUNTER,
    )
    return prompt.replace(
        meta=Meta(
            sources=tuple([outcome.report for outcome in outcomes]),
            dropped=tuple(dropped),
            before_tokens=prompt.tokens + sum(one.tokens for one in dropped),
            degraded=tuple(dict.fromkeys(note for each in outcomes for note in _degraded(each))),
        )
    )


def _degraded(outcome: SourceOutcome) -> Iterator[str]:
    """What of one source is missing from the prompt, and what it did otherwise."""
    report = outcome.report
    if report.status in ("late", "failed"):
        yield f"{report.name}: {report.status}: {report.detail}"
    yield from outcome.found.degraded


def _check_options(operation: str, options: Any, known: type[Any]) -> None:
    if unknown := sorted(options.keys() - known.__annotations__):
        names = ", ".join(known.__annotations__)
        raise InvalidArgumentError(f"{operation} has no {unknown[0]!r}; its options are {names}")
