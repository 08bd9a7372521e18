"""compile: runs the passes over a PromptIR, and renders the result for a provider.

The passes `order` and `place_breakpoints`: static sections are before dynamic ones, and in each
group the most relevant at the edges; the prefix is cached where it stays.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from rehydrate import formats
from rehydrate._check import check_methods, check_type
from rehydrate._concurrency.async_wrappers import computed
from rehydrate._native import (
    Layout,
    check_indices,
    marks_in,
    ordered_sections,
    placed_breakpoints,
    render_entries,
)
from rehydrate.compact.outline import OutlineSize
from rehydrate.embedding.choice import choice_of
from rehydrate.errors import InternalError, InvalidArgumentError
from rehydrate.formats._reading import compact_json
from rehydrate.formats.rendering import OF_HISTORY, notes_on
from rehydrate.messages import MESSAGES_KEY, Provider
from rehydrate.prompt.caps import cap_tool_results, remove_echoes
from rehydrate.prompt.counting import check_hard_budget, counted, prompt_tokens, sent_text
from rehydrate.prompt.entries import History, entry_tokens
from rehydrate.prompt.ir import (
    USUAL_MINIMUM_PREFIX,
    CompiledPrompt,
    Pass,
    PromptIR,
    RenderCache,
    Target,
    pass_name,
    shared_segments,
    traced,
    was_pruned,
)
from rehydrate.prompt.originals import Originals
from rehydrate.prompt.passes.prune import binding_of, prune
from rehydrate.prompt.request import NO_POLICY, ProviderPolicy
from rehydrate.prompt.section import DroppedSection
from rehydrate.prompt.splicing import deduplicate

THINKING = "thinking"
"""The trace's name for leaving out thinking that the model refuses after a change."""
BEGINNING = "(Earlier messages are not shown.)"
"""The first user message where the provider requires one and the assistant would be first."""


def order(ir: PromptIR, target: Target) -> PromptIR:
    """Put the sections in the order in which the model reads them.

    First the sections of the system role: instructions, rules, facts, background. Then the other
    static sections. Relevance never moves a static section, because it differs in every turn. Then
    the dynamic sections, by the entry that they are before. In each group of these the most
    relevant are at the ends, because models read the middle worst.
    """
    del target
    sections = ordered_sections(ir.sections)
    moved = [
        after.id for before, after in zip(ir.sections, sections, strict=True) if before is not after
    ]
    return traced("order", ir, ir.with_sections(sections), moved)


def place_breakpoints(ir: PromptIR, target: Target) -> PromptIR:
    """Set at most four breakpoints, each on a static end after enough tokens to be cached.

    They are, by importance: the last history entry that the next prompt has too; the end of the
    system prompt, or of the tools; the entry where the last prompt ended, because a cache looks
    back over 20 blocks only, and one turn may have more; the end of the other static sections.
    Marks in the caller's own entries and tools count. A model of Bedrock's gets them where it takes
    them, which most do nowhere. OpenAI caches prefixes by itself, and gets breakpoints only where
    the target's policy says so.
    """
    if not target.policy.marks(target.provider):
        return traced("place_breakpoints", ir, ir.replace(breakpoints=()))
    rows = ir.history.rows  # raises for an entry that isn't a message
    own = _own_marks(ir, target)
    marks = placed_breakpoints(ir, rows, target.provider, target.model, target.minimum_prefix, own)
    return traced("place_breakpoints", ir, ir.replace(breakpoints=tuple(marks)), marks)


def _own_marks(ir: PromptIR, target: Target) -> list[Mapping[str, Any]]:
    """Return the cache marks in the caller's tools and entries."""
    values: list[Any] = [tool.raw for tool in ir.tools if tool.provider == target.provider]
    if ir.history.format == target.provider:
        marks = target.render_cache.grown(_with_marks, (), ir.history)
        return [*marks_in(values), *marks]
    if ir.history.format == "claude_code" and target.provider == "anthropic":
        messages = [entry.get("message") for entry in ir.history.entries]
        values += [each.get("content") for each in messages if isinstance(each, Mapping)]
    return marks_in(values)


def _with_marks(
    marks: tuple[Mapping[str, Any], ...], history: History, start: int
) -> tuple[Mapping[str, Any], ...]:
    return (*marks, *marks_in(history.entries[start:]))


def lay_out(ir: PromptIR, target: Target) -> Layout:
    """Return the layout of a prompt, from the parts that the last prompt had and the new ones."""
    known, last = target.render_cache.known(Layout, ir.history)

    def count(messages: list[Any]) -> list[int]:
        return entry_tokens(formats.parse(messages, target.provider), len(messages))

    write = partial(sent_text, format=ir.history.format)
    return Layout(ir, target.provider, known, last, BEGINNING, write, count)


def render_prompt(
    ir: PromptIR, target: Target, original: History, sent: CompiledPrompt | None = None
) -> CompiledPrompt:
    """Render an IR that went through the passes for the target's provider, and validate the result.

    Thinking that the model refuses after what changed since ``sent`` goes first. ``original`` is
    the history before the passes. A violation that it has too goes into ``ir.meta.degraded``; any
    other raises InternalError. Raises InvalidArgumentError for a prompt without a message.
    """
    cache, provider = target.render_cache, target.provider
    layout = lay_out(ir, target)
    if target.thinking == "auto" and (first := layout.first_change(ir, sent)) is not None:
        whole, ir = ir, without_stale_thinking(ir, target, first)
        if ir is not whole:
            cache.note(Layout, whole.history, layout)  # all before the change is laid out
            layout = lay_out(ir, target)
    tools, system = layout.tools, layout.system
    lost = notes_on(layout.lost)
    if len(layout.values) == system:
        why = "the prompt has no message; pass a history, or a query in the request"
        raise InvalidArgumentError("; ".join([why, *lost]))
    marks = ir.breakpoints if target.policy.marks(provider) else ()
    request, segments, breakpoints = layout.request(marks, ir.history)
    unmarked = layout.values[tools:]
    body = request[MESSAGES_KEY.get(provider, "messages")]
    shared = shared_segments(cache.valid, layout.segments[tools:])
    if len(body) < len(layout.values) - system:  # several messages became one
        shared = 0
    start = _first_unvalidated(unmarked, shared) - (len(unmarked) - len(body))
    violations = _violations(body, target, original, start)
    # An IR that was rendered before has the notes of that time.
    others = [line for line in ir.meta.degraded if not line.startswith(OF_HISTORY)]
    degraded = (*others, *lost, *violations)
    cache.note(Layout, ir.history, layout)
    cache.valid = () if degraded else layout.segments[tools:]
    ir = ir.replace(breakpoints=breakpoints, meta=replace(ir.meta, degraded=degraded))
    request = target.policy.applied_to(provider, request)
    return CompiledPrompt(provider, request, ir, segments, target.model)


def without_stale_thinking(ir: PromptIR, target: Target, first: int) -> PromptIR:
    """Return the IR without the thinking that the model refuses from this position on.

    It is the same IR object if there is none.
    """
    binding = binding_of(ir, target)
    if not binding.refuses_changed_prefix:
        return ir
    history = ir.history
    tail = history.entries[first:]
    without = formats.FORMATS[history.format].without_thinking(tail)
    changed = {
        first + n: entry
        for n, (entry, original) in enumerate(zip(without, tail, strict=True))
        if entry is not original
    }
    if not changed:
        return ir
    left = {n: entry for n, entry in changed.items() if entry is not None}
    read = formats.parse([*left.values()], history.format)
    tokens = dict(zip(left, entry_tokens(read, len(left)), strict=True))
    messages = {each.index: each for each in read.renumbered([*left]).messages}
    kept = [n for n in range(len(history.entries)) if changed.get(n, ()) is not None]
    after = history.with_changed_entries(left, messages, tokens).select(kept)
    names = [history.entry_id(n) for n in changed]
    dropped = [
        DroppedSection(
            history.entry_id(n),
            history.tokens[n],
            "left out: nothing but thinking, and something before it changed",
            target.keep(compact_json(history.entries[n])),
            by=THINKING,
        )
        for n, entry in changed.items()
        if entry is None
    ]
    notes = [
        f"the thinking of {len(names)} entries went, since something before {names[0]} is not "
        "what it was"
    ]
    meta = replace(ir.meta, dropped=(*ir.meta.dropped, *dropped))
    if binding.loop_is_at_risk(first):
        why = "thinking: the open tool loop lost what it begins with, which the model may refuse"
        meta = replace(meta, degraded=(*meta.degraded, why))
    return traced(THINKING, ir, ir.replace(history=after, meta=meta), names, notes)


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
    InternalError if the history breaks no rule, and the prompt does.
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
    how = "as it came in"
    if not came_in:
        # Another format's rules do not judge all that is sent, nor do ours of a conversion.
        how = f"as {provider} gets it"
        _, sent, _ = render_entries(original.entries, original.format, provider, 0)
        came_in = [
            each._replace(index=original.entry_index(min(sent[each.index].sources, default=0)))
            for each in formats.validate([each.message for each in sent], provider)
        ]
    if not came_in:
        raise InternalError(
            f"the compiled prompt breaks a rule that the history keeps: {found[0]}; "
            "please report this"
        )
    return tuple([f"{OF_HISTORY}{how}: {violation}" for violation in came_in])


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
    policy: ProviderPolicy = NO_POLICY,
    thinking: str = "auto",
    sent: CompiledPrompt | None = None,
    granularity: str = "message",
    outline: OutlineSize = False,
    embedder: Any = "auto",
) -> CompiledPrompt:
    """Compile an IR to the arguments of the provider's SDK, with segments that state their source.

    The ``passes`` (``DEFAULT_PASSES``) change the IR, and the result is rendered. The history stays
    the caller's own: in the provider's own format its entries are the same objects, except
    if one gets a cache mark. In another format it is converted, and ``ir.meta.degraded`` lists
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
    Its failures are in ``ir.meta.degraded``. ``policy`` has the provider's options of its
    cache, and of shortening by itself.

    The same IR gives the same bytes. Raises BudgetExceededError if what must be sent exceeds the
    hard budget, InvalidArgumentError for a prompt without any message or with a tool of another
    provider, InvalidMessageError for an entry that only its own provider accepts.

    >>> from rehydrate.prompt import ContextRequest
    >>> compile(PromptIR(ContextRequest("Which port?")), "openai_chat").request
    {'messages': [{'role': 'user', 'content': 'Which port?'}]}
    """
    check_type("ir", ir, PromptIR, "pass a PromptIR, as hydrate makes it")
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
        policy=policy,
    )
    return compile_for(target, ir, DEFAULT_PASSES if passes is None else passes, sent)


acompile = computed(compile)


def compile_for(
    target: Target,
    ir: PromptIR,
    passes: Iterable[Pass],
    sent: CompiledPrompt | None = None,
    refresh: Callable[[], PromptIR] | None = None,
) -> CompiledPrompt:
    """Compile an IR as `compile` does, for a target that was checked.

    Where a pass prunes, the prefix breaks anyway. Then all begins once more from the IR that
    ``refresh`` returns, if it is another one, before anything is rendered.
    """
    check_indices(ir.history)
    original, passes = ir, tuple(passes)
    ir, left, elapsed = counted(_with_message(ir)), list(passes), dict[int, float]()
    while left:
        step = left.pop(0)
        check_methods("a pass", step, "__call__", "pass a function (ir, target) -> ir")
        started = time.perf_counter()
        ir = _run(step, ir, target)
        elapsed[len(ir.meta.trace) - 1] = (time.perf_counter() - started) * 1e3
        if refresh is not None and was_pruned(ir):
            fresh, refresh = refresh(), None
            if fresh is not original:
                original, ir, left = fresh, counted(_with_message(fresh)), list(passes)
                elapsed.clear()
    trace = [
        entry._replace(elapsed_ms=elapsed.get(number, entry.elapsed_ms))
        for number, entry in enumerate(ir.meta.trace)
    ]
    ir = ir.replace(meta=replace(ir.meta, trace=tuple(trace)))
    check_hard_budget(
        ir,
        prompt_tokens(ir),
        target.provider,
        "the prompt",
        ir.sections,
        {"the history": ir.history.total_tokens},
        "shorten it, lower the priority and min_tokens of what may go",
    )
    return render_prompt(ir, target, original.history, sent)


def _with_message(ir: PromptIR) -> PromptIR:
    """Make the query a user message if there is no history.

    A history whose entries were all left out before stays empty.
    """
    if ir.history.entries or not ir.request.query.strip():
        return ir
    if any(dropped.of_entry for dropped in ir.meta.dropped):
        return ir
    message = {"role": "user", "content": ir.request.query}
    return ir.replace(history=History((message,), "plain"))


def _run(step: Pass, ir: PromptIR, target: Target) -> PromptIR:
    """Run one pass; add an entry to the trace where the pass added none."""
    after = counted(step(ir, target))
    if after.history.entry_indices is not ir.history.entry_indices:
        check_indices(after.history)
    is_traced = len(after.meta.trace) != len(ir.meta.trace)
    return after if is_traced else traced(pass_name(step), ir, after)
