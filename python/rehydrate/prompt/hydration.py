"""hydrate: queries all sources at once, and puts what they find into a PromptIR."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack

from rehydrate._check import check_known, check_timeout
from rehydrate._concurrency.async_wrappers import computed
from rehydrate.errors import InvalidArgumentError, MissingNamespaceError
from rehydrate.prompt.content import DroppedSection, Meta, SourceReport
from rehydrate.prompt.counting import COUNTER
from rehydrate.prompt.entries import History
from rehydrate.prompt.ir import PromptIR
from rehydrate.prompt.request import ContextRequest
from rehydrate.prompt.section import Section, ToolDef
from rehydrate.prompt.sources.arguments import check_names, sources_of
from rehydrate.prompt.sources.given import history, system as system_of, tools as tools_of
from rehydrate.prompt.sources.running import SourceOutcome, run_sources
from rehydrate.prompt.sources.source import Found, HydrationSource, SourceRequest

if TYPE_CHECKING:
    from rehydrate.prompt.sources.arguments import Given, Source


class HydrateOptions(TypedDict, total=False):
    """The options of `hydrate`, besides the request and the sources."""

    messages: Sequence[Any] | History | None
    """The conversation so far, in any of the formats."""
    format: str
    """The format of the messages; without it, it is detected."""
    system: str | Section | Sequence[str | Section] | None
    """Instructions as texts, and sections as they are."""
    tools: Iterable[Any]
    """Definitions of tools, in any provider's shape."""
    visible: Iterable[str]
    """Items that the model sees already, by `Provenance.items`: sources do not return them."""
    timeout: float | None
    """Seconds, for every source that may have to wait, instead of its own timeout. None: no
    limit."""


class SourceOptions(TypedDict, total=False):
    """The options of `hydrate_source`, besides the request and the source."""

    visible: Iterable[str]
    """Items that the model sees already, by `Provenance.items`: the source does not return them."""
    budget_tokens: int | None
    """The room there is; the source's own budget may be smaller."""
    timeout: float | None


class Hydrated(NamedTuple):
    """The result of one source."""

    sections: tuple[Section, ...]
    report: SourceReport
    dropped: tuple[DroppedSection, ...] = ()
    """The sections that it found and had no room for."""
    degraded: tuple[str, ...] = ()
    """The problems: each says what failed, and what was used instead."""


def hydrate(
    request: ContextRequest | str = "", sources: Given = (), **options: Unpack[HydrateOptions]
) -> PromptIR:
    """Collect everything that may go into the next prompt, with where it came from.

    ``request`` is the turn's query, as a text or a `ContextRequest`; "": the last user turn of
    ``messages``. ``sources`` is a `Memory` (its hot items, those of the request's time range and
    those that match), the path of a document or folder, a function, a source such as
    ``semantic(memory)``, or a list of these. They run at once. A source that fails, or that takes
    longer than its timeout (0.2 s), is left out, and ``ir.meta.sources`` says why. What does not
    fit into a source's budget is in ``ir.meta.dropped``. Without messages the request itself is the
    conversation.

    Raises InvalidArgumentError for an argument outside its limits and for two sources of one name,
    InvalidMessageError for what is not a message, and MissingNamespaceError for a memory without a
    namespace where the request has no namespace.

    >>> ir = hydrate("Which port?", lambda request: "Staging listens on 8443.", timeout=None)
    >>> ir.sections[0].content
    'Staging listens on 8443.'
    """
    check_known("hydrate has no", options, HydrateOptions.__annotations__)
    all_sources = [*_sources_in(options), *sources_of(sources)]
    check_names(all_sources)
    request = _complete_request(request, all_sources)
    if request.query.strip() and not any(source.kind == "history" for source in all_sources):
        all_sources.append(history([{"role": "user", "content": request.query}]))
    wanted = [source for source in all_sources if source.is_wanted(request.strategy)]
    requests = _source_requests(wanted, request, options, is_asked_for=False)
    outcomes = _run(wanted, requests, options)
    by_name = dict(zip([source.name for source in wanted], outcomes, strict=True))
    return _prompt(
        request, [by_name.get(source.name, _turned_off(source)) for source in all_sources]
    )


ahydrate = computed(hydrate)


def hydrate_source(
    request: ContextRequest | str, source: Source, **options: Unpack[SourceOptions]
) -> Hydrated:
    """Query one source in the middle of a turn.

    ``visible`` are the items that the model sees already, ``budget_tokens`` is the room there is.
    A source that fails or is late returns no sections, and the report says why.

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
    """Query several sources at once; the results are in the order of the sources.

    The strategy says which of them run, and each may take ``budget_tokens``.

    >>> [hydrated.report.name for hydrated in hydrate_sources("ports", [], timeout=None)]
    []
    """
    check_known("hydrate_source has no", options, SourceOptions.__annotations__)
    all_sources = sources_of(sources)
    check_names(all_sources)
    request = _complete_request(request, all_sources)
    wanted = [source for source in all_sources if source.is_wanted(request.strategy)]
    requests = _source_requests(wanted, request, options, is_asked_for=True)
    outcomes = _run(wanted, requests, options)
    return [
        Hydrated(each.found.sections, each.report, each.found.dropped, each.found.degraded)
        for each in outcomes
    ]


ahydrate_source = computed(hydrate_source)


def _sources_in(options: HydrateOptions) -> list[HydrationSource]:
    """Return sources for the system prompt, tools and messages in the options."""
    sources = []
    if (system := options.get("system")) is not None:
        sources.append(system_of(*(system if isinstance(system, (list, tuple)) else (system,))))
    if (definitions := options.get("tools")) is not None:
        sources.append(tools_of(definitions))
    if (messages := options.get("messages")) is not None:
        sources.append(history(messages, options.get("format", "auto")))
    return sources


def _complete_request(request: Any, sources: Sequence[HydrationSource]) -> ContextRequest:
    """Return the request with a query, where a source knows one.

    Raises MissingNamespaceError for a source that needs a namespace where the request has none.
    """
    if isinstance(request, str):
        request = ContextRequest(request)
    if not isinstance(request, ContextRequest):
        raise InvalidArgumentError(
            f"request is of type {type(request).__name__}; pass a text or a ContextRequest"
        )
    for source in sources:
        is_unbound = source.needs_namespace and not request.namespace
        if is_unbound and source.is_wanted(request.strategy):
            raise MissingNamespaceError(source.name)
    if not request.query.strip():
        query = next(filter(None, map(_query_from, sources)), request.query)
        return replace(request, query=query)
    return request


def _query_from(source: HydrationSource) -> str:
    """Return the query that the source knows, as the history does; "" for none, or if it fails."""
    try:
        query = source.query() if source.query else ""
    except Exception:
        return ""
    return query if isinstance(query, str) else ""


def _source_requests(
    sources: Sequence[HydrationSource],
    request: ContextRequest,
    options: Any,
    *,
    is_asked_for: bool,
) -> list[SourceRequest]:
    """Return the request to each source, with the tokens that it may take."""
    room, visible = options.get("budget_tokens"), options.get("visible", ())
    if not (room is None or (type(room) is int and room >= 0)):
        raise InvalidArgumentError(
            f"budget_tokens is {room!r}; pass a whole number from 0 up, or None"
        )
    if isinstance(visible, str) or not isinstance(visible, Iterable):
        raise InvalidArgumentError(
            f"visible is of type {type(visible).__name__}; pass the items of provenances"
        )
    visible = frozenset(visible)
    requests = []
    for source in sources:
        own = source.tokens_for(request.strategy, request.budget)
        limit = min([tokens for tokens in (own, room) if tokens is not None], default=None)
        requests.append(SourceRequest(request, source.name, limit, visible, is_asked_for))
    return requests


def _run(
    sources: Sequence[HydrationSource], requests: Sequence[SourceRequest], options: Any
) -> list[SourceOutcome]:
    if "timeout" in options:
        timeout = check_timeout("timeout", options["timeout"])
        sources = [replace(source, timeout=timeout) for source in sources]
    return run_sources(sources, requests)


def _turned_off(source: HydrationSource) -> SourceOutcome:
    report = SourceReport(source.name, "off", detail="the strategy leaves it out")
    return SourceOutcome(Found(), report)


def _prompt(request: ContextRequest, outcomes: Sequence[SourceOutcome]) -> PromptIR:
    """Return a PromptIR with the results of all sources, in their order."""
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
        request=request,
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
    """Yield, in words, what failed in one source and what was used instead."""
    report = outcome.report
    if report.status in ("late", "failed"):
        yield f"{report.name}: {report.status}: {report.detail}"
    yield from outcome.found.degraded
