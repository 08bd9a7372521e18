"""Laws that hold for every run; each yields a text for every violation."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from rehydrate import validate
from rehydrate.agent import Retrying, Turn
from rehydrate.errors import (
    ContextOverflowError,
    ProviderUnavailableError,
    RateLimitError,
)
from tests.agent.stress.run import Run
from tests.agent.stress.wire_reading import HistoryPart, history_parts, request_parts, texts
from tests.provider import Exchange, ScriptedReply

UNIQUE_CHARS = 40
"""Random texts of this length are unique."""
_JIT = ("request_context", "fetch_whole", "load_memory")


def refused(run: Run) -> Iterator[str]:
    """No request is refused."""
    for exchange in run.provider.refusals:
        yield f"refused with {exchange.status}: {exchange.refusal}"


def lost(run: Run) -> Iterator[str]:
    """The history is valid and has every message, reply and result once, in order."""
    history, wire = run.context.history, run.plan.wire
    for violation in validate(history, wire):
        yield f"invalid: {violation}"
    parts = history_parts(history, wire)
    try:
        _check_history(run, parts)
    except AssertionError as error:
        yield str(error)
    ids = Counter(each.id for each in parts if each.kind == "call")
    yield from (f"the call id {name} is there {n} times" for name, n in ids.items() if n > 1)
    ran = Counter(run.tools.calls)
    yield from (f"the tool of {tag} ran {times} times" for tag, times in ran.items() if times > 1)
    called = {_tag(each.text) for each in parts if each.kind == "call"}
    yield from (f"{tag} was run, and nobody called it" for tag in ran.keys() - called)


def repeated(run: Run) -> Iterator[str]:
    """Nothing is in a prompt twice."""
    unique_texts = _unique_texts(run)
    for number, sent in enumerate(run.model.prompts):
        ir = sent.prompt.ir
        for broken in ir.verify():
            yield f"prompt {number}: {broken}"
        indexes = range(len(ir.history.entries))
        items = Counter([f"history[{ir.history.entry_index(index)}]" for index in indexes])
        for section in (*ir.sections, *ir.late_bound):
            # If a section shows part of an item, other parts of it may be in the prompt too.
            part = "" if section.handle is None else str(section.content)
            items.update({f"{item}{part}" for item in section.provenance.items})
        for item, times in items.items():
            if times > 1:
                yield f"prompt {number}: {item[:60]} is there {times} times"
        text = "\n".join(texts(sent.prompt.request))
        # A summary may quote what is brought back whole: the provider's holds user turns whole.
        summaries = [each for each in ir.sections if each.provenance.source == "summary"]
        quoted = "\n".join(part for each in summaries for part in texts(each.content))
        late_bound = {str(section.content).strip() for section in ir.late_bound}
        for each in late_bound:
            most = 1 + (each in quoted)
            if len(each) >= UNIQUE_CHARS and not 1 <= text.count(each) <= most:
                yield f"prompt {number}: late-bound {each[:60]!r} is there {text.count(each)} times"
        for each in unique_texts:
            if text.count(each) > 1 + (each in quoted):
                yield f"prompt {number}: {each[:60]!r} is there {text.count(each)} times"


def broken_prefixes(run: Run) -> Iterator[str]:
    """A prompt begins with the one before it, or the context reports that it does not."""
    bodies = [request_parts(sent.prompt.request) for sent in run.model.prompts]
    for number, (before, now) in enumerate(
        pairwise(zip(bodies, run.model.prompts, strict=True)), 1
    ):
        extends = now[0][: len(before[0])] == before[0]
        is_reported = now[1].prefix is not None and not now[1].prefix.extends
        is_reported = is_reported or now[1].compactions > before[1].compactions
        if not extends and not is_reported:
            yield f"prompt {number} does not extend the one before, and no report says so"
        elif extends and now[1].prefix is not None and not now[1].prefix.extends:
            yield f"prompt {number} extends the one before, but the report denies it"


def uncached(run: Run) -> Iterator[str]:
    """By the provider's bill, a request reads what the one before left in the cache."""
    prompts = {json.dumps(request_parts(sent.prompt.request)[1:]) for sent in run.model.prompts}
    billed = [
        (request_parts(each.body), each)
        for each in run.provider.requests
        if each.billed and not each.asks_for_summary
    ]
    for number, (body, _) in enumerate(billed):
        if json.dumps(body[1:]) not in prompts:
            yield f"request {number} is none of the prompts"
    for number, (before, now) in enumerate(pairwise(billed), 1):
        if now[0][: len(before[0])] != before[0]:
            continue
        left, read = cached_tokens(run, before[1]), now[1].billed.read
        if read < left:
            yield f"request {number} reads {read} of the {left} tokens that are in the cache"
    minimum = run.provider.settings.minimum_prefix
    for number, (_, each) in enumerate(billed):
        if each.billed.prompt > 2 * minimum and not cached_tokens(run, each):
            yield f"request {number} of {each.billed.prompt} tokens leaves nothing in the cache"


def cached_tokens(run: Run, exchange: Exchange) -> int:
    """Return the tokens that a request leaves in the cache: to the last mark, or in 128-steps."""
    billed = exchange.billed
    if run.plan.wire == "anthropic":
        return billed.read + billed.written_5m + billed.written_1h
    return billed.prompt // 128 * 128 if billed.prompt >= 1024 else 0


def unfitting(run: Run) -> Iterator[str]:
    """Each turn ends, for a reason that fits what happened."""
    replies = _replies(run)
    for number, (turn, was_cancelled) in enumerate(run.ended):
        if turn is None:
            continue
        problem = _why_unfitting(run, turn, was_cancelled, replies[number])
        if problem:
            yield f"turn {number} ended with {turn.stopped} ({turn.error!r}): {problem}"
    last = run.ended[-1][0]
    fits = ("answer", "budget_exceeded") if last is not None else ()
    is_timed = run.plan.seconds is not None
    if last is None or not (last.stopped in fits or is_timed or run.plan.timeout):
        yield f"the calm turn at the end: {last and last.stopped}, {last and last.error!r}"


def _why_unfitting(run: Run, turn: Turn, was_cancelled: bool, replies: list[ScriptedReply]) -> str:
    plan, stopped, error = run.plan, turn.stopped, turn.error
    last = replies[-1] if replies else None
    fits = {
        "answer": last is not None and not last.calls and last.stop is None,
        "length": last is not None and last.stop == "max_tokens",
        "refusal": last is not None and last.stop == "refusal",
        "step_limit": turn.steps == plan.steps,
        "time_limit": plan.seconds is not None,
        "money_limit": plan.dollars is not None and (turn.dollars or 0) >= plan.dollars,
        "budget_exceeded": plan.max_job_tokens is not None or plan.is_small,
        "cancelled": was_cancelled,
        "failed": _has_failed(run, turn),
    }
    if not fits[stopped]:
        return "that does not fit what happened"
    if turn.steps != len(replies):
        return f"{turn.steps} steps, {len(replies)} replies arrived"
    if stopped in ("answer", "length") and turn.answer != last.text:
        return f"its answer is {turn.answer[:60]!r}, not {last.text[:60]!r}"
    if (error is not None) != (stopped in ("failed", "budget_exceeded")):
        return "error and end do not fit"
    return ""


def _has_failed(run: Run, turn: Turn) -> bool:
    if isinstance(turn.error, ContextOverflowError):
        return run.plan.fault_rate > 0
    if not isinstance(turn.error, (RateLimitError, ProviderUnavailableError)):
        return False
    tried = [each for each in turn.events if isinstance(each, Retrying)]
    at_last = [each for each in tried if each.step == turn.steps + 1]
    is_stormy = run.plan.fault_rate > 0 or run.plan.timeout is not None
    return is_stormy and len(at_last) >= run.plan.attempts - 1


def _replies(run: Run) -> list[list[ScriptedReply]]:
    """Return the replies that arrived, turn by turn."""
    found: list[list[ScriptedReply]] = []
    for kind, what in run.log:
        if kind == "user":
            found.append([])
        elif kind == "reply":
            found[-1].append(what)
    return found


def _check_history(run: Run, parts: list[HistoryPart]) -> None:
    rest = list(parts)
    log = list(run.log)
    for index, (kind, what) in enumerate(log):
        if kind == "user":
            assert rest, f"lost: {what[:60]!r}"
            assert rest[0][:2] == ("user", what), f"lost: {what[:60]!r}, there is {rest[0]}"
            rest.pop(0)
        elif kind == "reply":
            is_cut = index + 1 < len(log) and log[index + 1][0] == "cut"
            _check_reply(run, what, rest, is_cut)
    assert not rest, f"unexpected: {rest[0]}"


def _check_reply(run: Run, reply: ScriptedReply, rest: list[HistoryPart], is_cut: bool) -> None:
    found: list[HistoryPart] = []
    while rest and rest[0].kind in ("thinking", "text", "call"):
        found.append(rest.pop(0))
    text = "".join(each.text for each in found if each.kind == "text")
    if reply.text.strip() or text:
        assert text == reply.text, f"lost: {reply.text[:60]!r}, there is {text[:60]!r}"
    calls = [each for each in found if each.kind == "call"]
    if reply.stop is None:
        assert len(calls) == len(reply.calls), f"lost: calls of {reply}, there are {calls}"
        thinking = [each.text for each in found if each.kind == "thinking"]
        has_thinking = run.plan.wire == "anthropic" and run.plan.thinking and reply.thinking
        if has_thinking and (reply.calls or reply.text.strip()):
            assert thinking == [reply.thinking], f"lost: {reply.thinking}, there is {thinking}"
    for call, made in zip(calls, reply.calls, strict=False):
        assert call.name == made.name, f"lost: {made}, there is {call}"
        assert json.loads(call.text) == _as_object(made.arguments), f"{made} became {call}"
        assert rest, f"lost: the result of {call}"
        result = rest.pop(0)
        assert (result.kind, result.id) == ("result", call.id), f"{call} is followed by {result}"
        _check_result(run, call, result.text, is_cut, reply)


def _check_result(
    run: Run, call: HistoryPart, result: str, is_cut: bool, reply: ScriptedReply
) -> None:
    if call.name in _JIT and call.id in run.jit.answers:
        expected = run.jit.answers[call.id].content
    else:
        expected = run.tools.results.get(_tag(call.text))
    if result == expected:
        return
    is_in_thread = call.name in ("blocking", "refusing", "huge", "nothing")
    # Only a tool in a thread may finish after the turn stopped waiting for it.
    assert expected is None or is_in_thread, f"lost: {expected[:80]!r}, there is {result[:80]!r}"
    has_timed_out = "took longer" in result and not call.name.startswith(_JIT)
    is_expected = (
        (is_cut and "was cancelled" in result)
        or has_timed_out
        or (reply.stop is not None and ("cut off" in result or "not made" in result))
        or (call.name.startswith("no_") and "there is no tool" in result)
        or call.name == "quick"  # mistaken
        or (call.name == "load_memory" and "there is no tool" in result)
    )
    assert result and is_expected, f"{call} was answered with {result[:200]!r}"


def _tag(arguments: str) -> str:
    parsed = json.loads(arguments)
    tag = parsed.get("tag", "")
    return tag if isinstance(tag, str) else ""


def _as_object(arguments) -> dict:
    if not isinstance(arguments, str):
        return dict(arguments)
    try:
        parsed = json.loads(arguments)
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _unique_texts(run: Run) -> list[str]:
    """Return the texts of user, model, tools and sources that no prompt may have twice."""
    found = [what for kind, what in run.log if kind == "user"]
    for reply in (each for turn in _replies(run) for each in turn):
        found += [reply.text, reply.thinking or ""]
    found += [*run.tools.results.values(), *run.sources.texts]
    return [each for each in found if len(each) >= UNIQUE_CHARS]


LAWS = {
    "refused": refused,
    "lost": lost,
    "repeated": repeated,
    "unreported": broken_prefixes,
    "uncached": uncached,
    "unfitting": unfitting,
}
