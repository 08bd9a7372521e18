"""compile: a PromptIR through its passes into a provider's shape, checked against its rules."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, NamedTuple

from rehydrate import _engine, formats
from rehydrate._check import check_callable, check_choice, check_type
from rehydrate._concurrency.async_wrappers import computed
from rehydrate.compact.arguments import GRANULARITIES
from rehydrate.compact.outline import OutlineSize, check_outline
from rehydrate.embedding.choice import choice_of
from rehydrate.entry_id import EntryId
from rehydrate.errors import BudgetExceededError, InternalError, InvalidArgumentError, Violation
from rehydrate.formats import anthropic_writing
from rehydrate.formats.neutral import RenderedMessage as Sent
from rehydrate.formats.rendering import RENDERERS, Rendered, Renderer, render_history
from rehydrate.messages import PROVIDERS, Provider
from rehydrate.prompt.compiled import USUAL_MINIMUM_PREFIX, CompiledPrompt, Segment
from rehydrate.prompt.counting import (
    counted,
    entry_tokens,
    fenced,
    prompt_tokens,
    section_tokens,
    text_of,
    upper_bound,
)
from rehydrate.prompt.entries import History
from rehydrate.prompt.ir import PromptIR
from rehydrate.prompt.originals import Originals
from rehydrate.prompt.passes.cap import cap_tool_results
from rehydrate.prompt.passes.deduplicate import deduplicate
from rehydrate.prompt.passes.echo import remove_echoes
from rehydrate.prompt.passes.layout import order, place_breakpoints
from rehydrate.prompt.passes.prune import prune
from rehydrate.prompt.render_cache import Known
from rehydrate.prompt.section import Section, Stability
from rehydrate.prompt.stale_thinking import checked_policy, first_change, without_stale_thinking
from rehydrate.prompt.target import Pass, Target, pass_name, traced

BEGINNING = "(Earlier messages are not shown.)"
"""What the user says first where the provider wants that, and the assistant would be the first."""

DEFAULT_PASSES: tuple[Pass, ...] = (
    cap_tool_results,
    remove_echoes,
    deduplicate,
    prune,
    remove_echoes,
    order,
    place_breakpoints,
)
"""What every prompt goes through, unless `compile` is told otherwise. Echoes are removed from a
prompt that fits without them, or else from what pruning leaves."""


def compile(  # noqa: A001  the contract's word
    ir: PromptIR,
    provider: Provider = "anthropic",
    *,
    model: str = "",
    passes: Iterable[Pass] | None = None,
    originals: Originals | None = None,
    minimum_prefix: int = USUAL_MINIMUM_PREFIX,
    known: Known | None = None,
    thinking: str = "auto",
    sent: CompiledPrompt | None = None,
    granularity: str = "message",
    outline: OutlineSize = False,
    embedder: Any = "auto",
) -> CompiledPrompt:
    """What is sent: the arguments of the provider's SDK, with segments that say where each is from.

    The IR goes through the ``passes`` (``DEFAULT_PASSES``) and is rendered. The history is the
    caller's own: in the provider's own format its entries are the very same objects, but for a
    cache mark. In another format it is converted, and ``ir.meta.degraded`` says what could not be
    said. Content that is not fully trusted stands in fences in the user's role. ``originals``
    keeps the whole of what a pass shortens, ``minimum_prefix`` is the model's (a cache breakpoint
    on less is worth nothing). ``known``, kept from one prompt of a conversation to the next, makes
    a turn cost what is new; its messages must not be changed meanwhile.

    ``sent`` is the prompt of this conversation that was sent before. Where this one does not go on
    from it, the thinking behind the first difference (system and tools included) is left out for
    a ``model`` that refuses it there; without ``sent``, behind the first entry that is left out.
    `THINKING_MODELS` says which do, and a Claude that nobody named counts as one; in its open tool
    loop nothing is cut below the hard budget. ``thinking="keep"`` leaves all as it is.

    ``granularity="excerpt"`` lets a cut keep the best blocks of the history's long texts and
    results too, each gap marked with the handle of the whole (docs/excerpts.md).

    ``outline=True`` lists the names in the history that a cut leaves out, in a section of its own
    where the first gap is (docs/outline.md); a number is its size in tokens, or as a
    share of the prompt's.

    ``embedder``, as in `compact_context`, is by what pruning finds what the turn asks for; what
    goes wrong with one is in ``ir.meta.degraded``.

    The same IR gives the same bytes. Raises BudgetExceededError where what must be sent is more
    than the hard budget, InvalidArgumentError for a prompt without any message or a tool of
    another provider's, InvalidMessageError for an entry that can only be sent to its own provider.

    >>> from rehydrate.prompt import ContextRequest
    >>> compile(PromptIR(ContextRequest("Which port?")), "openai_chat").request
    {'messages': [{'role': 'user', 'content': 'Which port?'}]}
    """
    check_type("ir", ir, PromptIR, "pass a PromptIR, as hydrate makes it")
    check_choice("provider", provider, PROVIDERS)
    thinking = checked_policy(thinking)
    check_type("model", model, str, "pass the model's name, or leave it out")
    check_outline(outline)
    known = Known() if known is None else known
    check_choice("granularity", granularity, GRANULARITIES)
    choice = choice_of(embedder)
    target = Target(
        provider, model, originals, minimum_prefix, thinking, granularity, outline, choice, known
    )
    given = ir.history
    ir = counted(_with_message(ir))
    for step in DEFAULT_PASSES if passes is None else passes:
        check_callable("a pass", step, "pass a function (ir, target) -> ir")
        ir = _run(step, ir, target)
    check_hard_budget(ir, provider)
    compiled = _rendered(ir, target, given)
    first = first_change(compiled, sent) if thinking == "auto" else None
    if first is None:
        return compiled
    after = without_stale_thinking(ir, target, first)
    return compiled if after is ir else _rendered(after, target, given)


acompile = computed(compile)


def check_hard_budget(ir: PromptIR, provider: Provider) -> None:
    """Raise BudgetExceededError for a prompt whose upper bound is over the hard budget."""
    needed, budget = upper_bound(prompt_tokens(ir), provider), ir.budget.hard_tokens
    if needed <= budget:
        return
    parts = {f"section {each.id!r}": section_tokens(each) for each in ir.sections}
    parts["the tool definitions"] = sum(tool.tokens or 0 for tool in ir.tools)
    parts["the history"] = ir.history.total_tokens
    largest = max(parts, key=lambda name: parts[name])
    raise BudgetExceededError(
        "the prompt",
        needed,
        budget,
        f"the largest part is {largest} with {parts[largest]:,}: shorten it, lower the priority "
        "and min_tokens of what may go, or raise Budget.hard_tokens",
        "Budget.hard_tokens",
    )


def _with_message(ir: PromptIR) -> PromptIR:
    """Without a history the query is what the user says.

    Not so where there was one, and a pass has left all of it out.
    """
    if ir.history.entries or not ir.request.query.strip():
        return ir
    if any(EntryId.index_of(gone.section) is not None for gone in ir.meta.dropped):
        return ir
    said = {"role": "user", "content": ir.request.query}
    return ir.replace(history=History((said,), "plain"))


def _run(step: Pass, ir: PromptIR, target: Target) -> PromptIR:
    """One pass, timed; one that left no entry in the trace gets one."""
    started = time.perf_counter()
    after = counted(step(ir, target))
    elapsed_ms = (time.perf_counter() - started) * 1e3
    if len(after.meta.trace) == len(ir.meta.trace):
        after = traced(pass_name(step), ir, after)
    *before, last = after.meta.trace
    trace = (*before, last._replace(elapsed_ms=elapsed_ms))
    return after.replace(meta=replace(after.meta, trace=trace))


class _Piece(NamedTuple):
    """One segment and what is sent for it."""

    segment: Segment
    value: Any
    names: frozenset[str]
    """By which a breakpoint may ask for its end."""


def _rendered(ir: PromptIR, target: Target, given: History) -> CompiledPrompt:
    known = target.known
    provider, renderer = target.provider, RENDERERS[target.provider]
    history = render_history(ir.history.entries, ir.history.format, provider)
    tokens = _history_tokens(ir.history, history, provider)
    tools = [
        _piece(known, [f"tools[{place}]"], "tool", tool.render(provider), tool.tokens or 0)
        for place, tool in enumerate(ir.tools)
    ]
    if tools:
        tools[-1] = tools[-1]._replace(names=frozenset({"tools"}))
    system = [
        _of_section(known, each, "system", _system(known, each, renderer))
        for each in ir.sections
        if each.is_system
    ]
    system += [
        _said(known, ir, each, "system", ir.history.tokens[each.sources[0]])
        for each in history.system
    ]
    messages = _messages(ir, history, tokens, target)
    if not messages:
        raise InvalidArgumentError(
            "the prompt has no message; pass a history, or a query in the request"
        )
    pieces, marked = _marked(_named([*tools, *system, *messages]), ir, target)
    sent = [piece.value for piece in (*system, *messages)]
    values = [piece.value for piece in pieces]
    ends = len(tools), len(tools) + len(system)
    request = renderer.request(values[: ends[0]], values[ends[0] : ends[1]], values[ends[1] :])
    degraded = (*ir.meta.degraded, *history.notes)
    said = request["input" if provider == "openai_responses" else "messages"]
    since = known.unchanged_from(sent) - (len(sent) - len(said))
    degraded += _checked(said, provider, given, since)
    known.keep(() if degraded else sent)
    ir = ir.replace(breakpoints=marked, meta=replace(ir.meta, degraded=degraded))
    segments = tuple([piece.segment for piece in pieces])
    return CompiledPrompt(provider, request, ir, segments, target.model)


def _history_tokens(history: History, rendered: Rendered, provider: Provider) -> list[int]:
    """Tokens of each message: those of its entries, counted anew where it was put otherwise."""
    if history.format in (provider, "claude_code" if provider == "anthropic" else ""):
        tokens = history.tokens
        return [
            tokens[each.sources[0]]
            if len(each.sources) == 1
            else sum(tokens[n] for n in each.sources)
            for each in rendered.messages
        ]
    conversation = formats.parse([each.message for each in rendered.messages], provider)
    return entry_tokens(conversation, len(rendered.messages))


def _messages(
    ir: PromptIR, history: Rendered, tokens: Sequence[int], target: Target
) -> list[_Piece]:
    """Static sections, then the history with the dynamic ones in their places."""
    user, known = RENDERERS[target.provider].user, target.known
    sent = list(zip(history.messages, tokens, strict=True))
    own = [section for section in ir.sections if not section.is_system]

    def framed(section: Section) -> _Piece:
        message = known.framed(
            section, lambda: user(fenced(section, text_of(section, ir.history.format)))
        )
        return _of_section(known, section, "message", message)

    pieces = [framed(section) for section in own if section.is_static]
    dynamic = [section for section in own if not section.is_static]
    if not dynamic:
        pieces += [_said(known, ir, each, "message", cost) for each, cost in sent]
        return _begun(pieces, ir, target)
    last_turn = _last_user_turn(ir.history)
    by_anchor: dict[int | None, list[Section]] = {}
    for section in dynamic:
        anchor = last_turn if section.anchor is None else section.anchor
        by_anchor.setdefault(anchor, []).append(section)
    by_place: dict[int, list[Section]] = {}
    # The largest place up to each message: where it reaches an anchor, the message does.
    places = [ir.history.place(each.sources[0]) if each.sources else -1 for each, _ in sent]
    reached = list(accumulate(places, max))
    for anchor, group in by_anchor.items():
        before = len(sent) if anchor is None else bisect_left(reached, anchor)
        place = _place_before(history.messages, before, target)
        by_place.setdefault(place, []).extend(group)
    moves = any(section.anchor is None for section in dynamic)
    is_static = True
    for place in range(len(sent) + 1):
        here = by_place.get(place, ())
        is_static = is_static and not (moves and any(s.anchor is None for s in here))
        pieces += [framed(section) for section in here]
        if place < len(sent):
            each, cost = sent[place]
            pieces.append(_said(known, ir, each, "message", cost, is_static=is_static))
    return _begun(pieces, ir, target)


def _begun(pieces: list[_Piece], ir: PromptIR, target: Target) -> list[_Piece]:
    """With the user first, where Anthropic wants that and it is not what the caller broke."""
    if target.provider != "anthropic" or not pieces:
        return pieces
    history = ir.history
    first = next((each.index for each in history.messages if each.role != "system"), 0)
    # Nothing before it went.
    if history.format == "anthropic" and history.place(first) == first:
        return pieces
    if pieces[0].value["role"] == "user":
        return pieces
    tokens = _engine.count(BEGINNING, ir.counter)
    known = target.known
    message = known.framed(BEGINNING, lambda: anthropic_writing.user(BEGINNING))
    return [_piece(known, ["beginning"], "message", message, tokens), *pieces]


def _last_user_turn(history: History) -> int | None:
    for message in reversed(history.messages):
        if message.is_user_turn:
            return history.place(message.index)
    return None


def _place_before(messages: Sequence[Sent], place: int, target: Target) -> int:
    """The place, or an earlier one, where something of our own may stand.

    Never between a call and its results, and never behind a thought that ends a message: then
    before the call. What stands behind the place is not asked, for it was not there yet when the
    section came in.
    """
    while place and (before := _opening(messages, place, target)) is not None:
        place = before
    return place


def _opening(messages: Sequence[Sent], place: int, target: Target) -> int | None:
    """The place of what must not be parted from what comes next, just before `place`."""
    answered: set[str] = set()
    has_spoken = False
    for number in range(place - 1, -1, -1):
        message = messages[number].message
        read = target.known.read(message, target.provider)
        if number == place - 1 and _ends_in_thought(message):
            return number
        if (has_spoken or not read.answers) and read.role != "assistant":
            return None  # a turn before the last that had calls, or the user's words
        answered.update(read.answers)
        if not answered.issuperset(read.calls):
            return number
        has_spoken = read.role == "assistant"
    return None


def _ends_in_thought(message: Any) -> bool:
    if message.get("type") == "reasoning":
        return True
    content = message.get("content")
    last = content[-1] if isinstance(content, (list, tuple)) and content else None
    return isinstance(last, dict) and last.get("type") in ("thinking", "redacted_thinking")


def _said(
    known: Known, ir: PromptIR, sent: Sent, kind: Any, tokens: int, *, is_static: bool = True
) -> _Piece:
    """A piece of the history."""
    names = [ir.history.entry_id(source) for source in sent.sources]
    stability = "static" if is_static else "dynamic"
    return _piece(known, names, kind, sent.message, tokens, stability)


def _of_section(known: Known, section: Section, kind: Any, value: Any) -> _Piece:
    return _piece(known, [section.id], kind, value, section_tokens(section), section.stability)


def _piece(
    known: Known,
    names: Sequence[str],
    kind: Any,
    value: Any,
    tokens: int,
    stability: str = Stability.STATIC,
) -> _Piece:
    """A piece that goes by these names; the first is its segment's."""
    _, digest, blocks, is_marked = known.sight(value)
    blocks = blocks if kind == "message" else 1
    segment = Segment(names[0], kind, tokens, digest, str(stability), blocks, is_marked)
    return _Piece(segment, value, frozenset(names))


def _named(pieces: list[_Piece]) -> list[_Piece]:
    """With ids of their own for the pieces after the first that one entry became."""
    seen: dict[str, int] = {}
    named = []
    for piece in pieces:
        name = piece.segment.id
        seen[name] = number = seen.get(name, 0) + 1
        if number > 1:
            segment = piece.segment._replace(id=f"{name}.{number}")
            piece = piece._replace(segment=segment)  # noqa: PLW2901
        named.append(piece)
    return named


def _marked(
    pieces: list[_Piece], ir: PromptIR, target: Target
) -> tuple[list[_Piece], tuple[str, ...]]:
    """The pieces with cache marks where the breakpoints ask for them; those that were set."""
    done: list[str] = []
    for name in ir.breakpoints:
        for place in range(len(pieces) - 1, -1, -1):
            if name in pieces[place].names:
                marked = RENDERERS[target.provider].mark(pieces[place].value)
                if marked is not None:
                    segment = pieces[place].segment._replace(breakpoint=True)
                    pieces[place] = pieces[place]._replace(value=marked, segment=segment)
                    done.append(name)
                break
    return pieces, tuple(done)


def _system(known: Known, section: Section, renderer: Renderer) -> Any:
    """A system section's block or message, its title above its text."""
    content = str(section.content)
    text = f"# {section.title}\n{content}" if section.title else content
    return known.framed(section, lambda: renderer.system(text))


def _checked(
    said: Sequence[Any], provider: Provider, given: History, since: int
) -> tuple[str, ...]:
    """What the provider's rules say of the prompt: nothing, or what they said of what came in.

    What is before `since` was checked with the prompt before, together with what follows it. Raises
    InternalError for a rule that only the prompt breaks.
    """
    if since > 0:
        later = formats.validate(said[since:], provider)
        calls = [call for message in given.messages for call in message.calls]
        # That the assistant speaks first is so in this part only.
        if len(calls) == len(set(calls)) and all(v.rule == "first_not_user" for v in later):
            return ()
    found = formats.validate(said, provider)
    if not found:
        return ()
    known: list[Violation] = formats.validate(given.entries, given.format)
    rules = {violation.rule for violation in known}
    new = [each for each in found if each.rule not in rules]
    if new and (given.format == provider or not known):
        raise InternalError(
            f"the compiled prompt breaks a rule that the history keeps: {new[0]}; "
            "please report this"
        )
    return tuple([f"history: as it came in: {violation}" for violation in known])
