"""compile: runs the passes over a PromptIR, and renders the result for a provider."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from rehydrate import formats
from rehydrate._check import check_callable, check_choice, check_type
from rehydrate._concurrency.async_wrappers import computed
from rehydrate.compact.options import GRANULARITIES
from rehydrate.compact.outline import OutlineSize, check_outline
from rehydrate.embedding.choice import choice_of
from rehydrate.entry_id import EntryId
from rehydrate.errors import BudgetExceededError, InternalError, InvalidArgumentError
from rehydrate.formats.rendering import RENDERERS, render_history
from rehydrate.formats.translation import OF_HISTORY
from rehydrate.messages import MESSAGES_KEY, PROVIDERS, Provider
from rehydrate.prompt.caps import cap_tool_results
from rehydrate.prompt.counting import counted, prompt_tokens, section_tokens, upper_bound
from rehydrate.prompt.entries import History
from rehydrate.prompt.ir import (
    USUAL_MINIMUM_PREFIX,
    CompiledPrompt,
    Pass,
    PromptIR,
    RenderCache,
    Segment,
    Target,
    pass_name,
    shared_segments,
    traced,
)
from rehydrate.prompt.laying_out import Layout, lay_out
from rehydrate.prompt.originals import Originals
from rehydrate.prompt.passes.echo import remove_echoes
from rehydrate.prompt.passes.order import order, place_breakpoints
from rehydrate.prompt.passes.prune import prune
from rehydrate.prompt.splicing import deduplicate
from rehydrate.prompt.stale_thinking import checked_policy, first_change, without_stale_thinking


def render_prompt(ir: PromptIR, target: Target, original: History) -> CompiledPrompt:
    """Render the IR for the target's provider, and validate the result.

    ``original`` is the history before the passes. A violation that it has too goes into
    ``ir.meta.degraded``; any other raises InternalError. Raises InvalidArgumentError for a prompt
    without a message.
    """
    cache, provider = target.render_cache, target.provider
    layout = lay_out(ir, target)
    tools, system = layout.tools, layout.system
    if len(layout.values) == system:
        raise InvalidArgumentError(
            "; ".join(
                [
                    "the prompt has no message; pass a history, or a query in the request",
                    *layout.notes,
                ]
            )
        )
    segments, values, breakpoints = _with_marks(layout, ir, provider)
    request = RENDERERS[provider].request(values[:tools], values[tools:system], values[system:])
    unmarked = layout.values[tools:]
    body = request[MESSAGES_KEY.get(provider, "messages")]
    shared = shared_segments(cache.valid, layout.segments[tools:])
    if len(body) < len(values) - system:  # several messages became one
        shared = 0
    start = _first_unvalidated(unmarked, shared) - (len(unmarked) - len(body))
    violations = _violations(body, target, original, start)
    # An IR that was rendered before has the notes of that time.
    others = [line for line in ir.meta.degraded if not line.startswith(OF_HISTORY)]
    degraded = (*others, *layout.notes, *violations)
    cache.note(Layout, ir.history, layout)
    cache.valid = () if degraded else layout.segments[tools:]
    ir = ir.replace(breakpoints=breakpoints, meta=replace(ir.meta, degraded=degraded))
    return CompiledPrompt(provider, request, ir, tuple(segments), target.model)


def _with_marks(
    layout: Layout, ir: PromptIR, provider: Provider
) -> tuple[list[Segment], list[Any], tuple[str, ...]]:
    """Set cache marks at the breakpoints; return the segments, their values and the breakpoints
    that were set."""
    segments, values = list(layout.segments), list(layout.values)
    done: list[str] = []
    for name in ir.breakpoints:
        last = layout.index_of(name, ir.history)
        if last is None:
            continue
        marked = RENDERERS[provider].mark(values[last])
        if marked is not None:
            segments[last] = segments[last]._replace(breakpoint=True)
            values[last] = marked
            done.append(name)
    return segments, values, tuple(done)


def _first_unvalidated(values: Sequence[Any], shared: int) -> int:
    """Return the index from which a prompt must be validated; all before it is valid.

    It is the start of an assistant turn inside what it shares with the last valid prompt. That was
    validated with what comes before this turn, so no call before it is open.
    """
    for index in range(shared - 1, 0, -1):
        turn = values[index - 1 : index + 1]
        if [each.get("role") for each in turn] == ["user", "assistant"]:
            return index
    return 0


def _violations(
    messages: Sequence[Any], target: Target, original: History, start: int
) -> tuple[str, ...]:
    """Validate the prompt; return the violations that came in with the original history.

    All before ``start`` was validated with the last prompt, together with what follows it. Raises
    InternalError where the history breaks no rule, and the prompt does.
    """
    provider = target.provider
    if start > 0:
        later = formats.validate(messages[start:], provider)
        # Only this part begins with the assistant: the whole prompt does not.
        is_valid = all(v.rule == "first_not_user" for v in later)
        if is_valid and not original.rows.repeats_calls():
            return ()
    found = formats.validate(messages, provider)
    if not found:
        return ()
    came_in = [
        each._replace(index=original.entry_index(each.index))
        for each in formats.validate(original.entries, original.format)
    ]
    if not came_in:
        # Another format's rules do not judge all that is sent, nor do ours of a conversion.
        history = render_history(original.entries, original.format, provider)
        sent = history.messages
        came_in = [
            each._replace(index=original.entry_index(min(sent[each.index].sources, default=0)))
            for each in formats.validate([each.message for each in sent], provider)
        ]
    if not came_in:
        raise InternalError(
            f"the compiled prompt breaks a rule that the history keeps: {found[0]}; "
            "please report this"
        )
    return tuple([f"{OF_HISTORY}as it came in: {violation}" for violation in came_in])


DEFAULT_PASSES: tuple[Pass, ...] = (
    cap_tool_results,
    remove_echoes,
    deduplicate,
    prune,
    remove_echoes,
    order,
    place_breakpoints,
)
"""The passes of every prompt, unless `compile` gets others. The first `remove_echoes` works on a
prompt that then fits, the second one on what pruning leaves."""


def compile(  # noqa: A001  the contract's word
    ir: PromptIR,
    provider: Provider = "anthropic",
    *,
    model: str = "",
    passes: Iterable[Pass] | None = None,
    originals: Originals | None = None,
    minimum_prefix: int = USUAL_MINIMUM_PREFIX,
    render_cache: RenderCache | None = None,
    thinking: str = "auto",
    sent: CompiledPrompt | None = None,
    granularity: str = "message",
    outline: OutlineSize = False,
    embedder: Any = "auto",
) -> CompiledPrompt:
    """Compile an IR to the arguments of the provider's SDK, with segments that state their source.

    The ``passes`` (``DEFAULT_PASSES``) change the IR, and the result is rendered. The history stays
    the caller's own: in the provider's own format its entries are the very same objects, except
    where one gets a cache mark. In another format it is converted, and ``ir.meta.degraded`` lists
    what could not be converted. Content that is not fully trusted is in fences in the user
    role. ``originals`` stores the whole of what a pass shortens. ``minimum_prefix`` is the model's:
    a cache breakpoint on fewer tokens has no effect. With one ``render_cache`` for all prompts of a
    conversation, a turn takes time for its new messages only; messages must not be changed
    meanwhile.

    ``sent`` is the last prompt of this conversation that was sent. Thinking after the first
    difference from it (system and tools included) is left out for a ``model`` that refuses it
    there. Without ``sent``, the first entry that was left out counts as the difference.
    `THINKING_MODELS` lists these models, and a Claude without a name counts as one. In an open
    tool loop of such a model nothing is cut until the hard budget is exceeded.
    ``thinking="keep"`` keeps all thinking.

    With ``granularity="excerpt"`` a cut may keep the best blocks of the history's long texts and
    results. Each gap is marked with the handle of the whole (docs/excerpts.md).

    ``outline=True`` lists the names in what a cut leaves out of the history, in a section at the
    first gap (docs/outline.md). A number is its size in tokens, or as a share of the prompt's.

    ``embedder``, as in `compact_context`, is the model by which pruning ranks entries and sections.
    Its failures are in ``ir.meta.degraded``.

    The same IR gives the same bytes. Raises BudgetExceededError where what must be sent exceeds the
    hard budget, InvalidArgumentError for a prompt without any message or with a tool of another
    provider, InvalidMessageError for an entry that only its own provider accepts.

    >>> from rehydrate.prompt import ContextRequest
    >>> compile(PromptIR(ContextRequest("Which port?")), "openai_chat").request
    {'messages': [{'role': 'user', 'content': 'Which port?'}]}
    """
    check_type("ir", ir, PromptIR, "pass a PromptIR, as hydrate makes it")
    check_choice("provider", provider, PROVIDERS)
    thinking = checked_policy(thinking)
    check_type("model", model, str, "pass the model's name, or leave it out")
    check_outline(outline)
    check_choice("granularity", granularity, GRANULARITIES)
    target = Target(
        provider,
        model,
        originals,
        minimum_prefix,
        thinking,
        granularity,
        outline,
        choice_of(embedder),
        RenderCache() if render_cache is None else render_cache,
    )
    original = ir.history
    ir = counted(_with_message(ir))
    for step in DEFAULT_PASSES if passes is None else passes:
        check_callable("a pass", step, "pass a function (ir, target) -> ir")
        ir = _run(step, ir, target)
    _check_hard_budget(ir, provider)
    compiled = render_prompt(ir, target, original)
    first = first_change(compiled, sent) if thinking == "auto" else None
    if first is None:
        return compiled
    after = without_stale_thinking(ir, target, first)
    return compiled if after is ir else render_prompt(after, target, original)


acompile = computed(compile)


def _check_hard_budget(ir: PromptIR, provider: Provider) -> None:
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
    """Make the query a user message where there is no history.

    A history whose entries were all left out before stays empty.
    """
    if ir.history.entries or not ir.request.query.strip():
        return ir
    if any(EntryId.index_of(dropped.section) is not None for dropped in ir.meta.dropped):
        return ir
    message = {"role": "user", "content": ir.request.query}
    return ir.replace(history=History((message,), "plain"))


def _run(step: Pass, ir: PromptIR, target: Target) -> PromptIR:
    """Run one pass and time it; add an entry to the trace where the pass added none."""
    started = time.perf_counter()
    after = counted(step(ir, target))
    elapsed_ms = (time.perf_counter() - started) * 1e3
    if len(after.meta.trace) == len(ir.meta.trace):
        after = traced(pass_name(step), ir, after)
    *before, last = after.meta.trace
    trace = (*before, last._replace(elapsed_ms=elapsed_ms))
    return after.replace(meta=replace(after.meta, trace=trace))
