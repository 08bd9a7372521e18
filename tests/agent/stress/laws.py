"""What must hold of every run, whatever happened in it; each check tells what breaks it."""

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
from tests.agent.stress.reading import Spoken, parts, spoken, texts
from tests.agent.stress.running import Run
from tests.provider import Exchange, Says

UNIQUE_CHARS = 40
"""Texts of so many characters are said once only, since chance made them."""
_JIT = ("request_context", "fetch_whole", "load_memory")


def refused(run: Run) -> Iterator[str]:
    """No request is refused."""
    for exchange in run.provider.refusals:
        yield f"refused with {exchange.status}: {exchange.refusal}"


def lost(run: Run) -> Iterator[str]:
    """All that was said stands in the history once, in order, and valid."""
    history, wire = run.context.history, run.plan.wire
    for violation in validate(history, wire):
        yield f"invalid: {violation}"
    said = spoken(history, wire)
    try:
        _check_told(run, said)
    except AssertionError as error:
        yield str(error)
    ids = Counter(each.id for each in said if each.kind == "call")
    yield from (f"the call id {name} stands {n} times" for name, n in ids.items() if n > 1)
    made = Counter(run.tools.made)
    yield from (f"the tool of {tag} ran {times} times" for tag, times in made.items() if times > 1)
    known = {_tag(each.text) for each in said if each.kind == "call"}
    yield from (f"{tag} was run, and nobody called it" for tag in made.keys() - known)


def repeated(run: Run) -> Iterator[str]:
    """Nothing stands twice in a prompt."""
    said = _unique_texts(run)
    for number, asked in enumerate(run.model.asked):
        ir = asked.prompt.ir
        for broken in ir.verify():
            yield f"prompt {number}: {broken}"
        places = range(len(ir.history.entries))
        items = Counter([f"history[{ir.history.entry_index(place)}]" for place in places])
        for section in (*ir.sections, *ir.late_bound):
            # Of what is shown in part, with a handle, the whole and other parts are new.
            part = "" if section.handle is None else str(section.content)
            items.update({f"{item}{part}" for item in section.provenance.items})
        for item, times in items.items():
            if times > 1:
                yield f"prompt {number}: {item[:60]} stands {times} times"
        text = "\n".join(texts(asked.prompt.request))
        late = {str(section.content).strip() for section in ir.late_bound}
        for each in late:
            if len(each) >= UNIQUE_CHARS and text.count(each) != 1:
                yield f"prompt {number}: late-bound {each[:60]!r} is there {text.count(each)} times"
        for each in said:
            if text.count(each) > 1:
                yield f"prompt {number}: {each[:60]!r} is there {text.count(each)} times"


def broken_prefixes(run: Run) -> Iterator[str]:
    """A prompt begins with the one before it, or it is said that it does not."""
    bodies = [parts(asked.prompt.request) for asked in run.model.asked]
    for number, (before, now) in enumerate(pairwise(zip(bodies, run.model.asked, strict=True)), 1):
        extends = now[0][: len(before[0])] == before[0]
        is_told = now[1].prefix is not None and not now[1].prefix.extends
        is_told = is_told or now[1].compactions > before[1].compactions
        if not extends and not is_told:
            yield f"prompt {number} does not extend the one before, and nobody says so"
        elif extends and now[1].prefix is not None and not now[1].prefix.extends:
            yield f"prompt {number} extends the one before, and it is said not to"


def uncached(run: Run) -> Iterator[str]:
    """The provider's bill: what one request left in the cache the next one reads, if it can."""
    known = {json.dumps(parts(asked.prompt.request)[1:]) for asked in run.model.asked}
    billed = [(parts(each.body), each) for each in run.provider.requests if each.billed]
    for number, (body, _) in enumerate(billed):
        if json.dumps(body[1:]) not in known:
            yield f"request {number} is none of the prompts"
    for number, (before, now) in enumerate(pairwise(billed), 1):
        if now[0][: len(before[0])] != before[0]:
            continue
        left, read = kept(run, before[1]), now[1].billed.read
        if read < left:
            yield f"request {number} reads {read} of the {left} tokens that are in the cache"
    minimum = run.provider.settings.minimum_prefix
    for number, (_, each) in enumerate(billed):
        if each.billed.prompt > 2 * minimum and not kept(run, each):
            yield f"request {number} of {each.billed.prompt} tokens leaves nothing in the cache"


def kept(run: Run, exchange: Exchange) -> int:
    """What a request leaves in the cache: up to its last mark, or in steps of 128."""
    billed = exchange.billed
    if run.plan.wire == "anthropic":
        return billed.read + billed.written_5m + billed.written_1h
    return billed.prompt // 128 * 128 if billed.prompt >= 1024 else 0


def unfitting(run: Run) -> Iterator[str]:
    """Each turn ends, for a reason that there was."""
    replies = _replies(run)
    for number, (turn, was_cancelled) in enumerate(run.ended):
        if turn is None:
            continue
        problem = _misfit(run, turn, was_cancelled, replies[number])
        if problem:
            yield f"turn {number} ended with {turn.stopped} ({turn.error!r}): {problem}"
    last = run.ended[-1][0]
    fits = ("answer", "budget_exceeded") if last is not None else ()
    is_timed = run.plan.seconds is not None
    if last is None or not (last.stopped in fits or is_timed or run.plan.timeout):
        yield f"the calm turn at the end: {last and last.stopped}, {last and last.error!r}"


def _misfit(run: Run, turn: Turn, was_cancelled: bool, replies: list[Says]) -> str:
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
        return run.plan.storm > 0
    if not isinstance(turn.error, (RateLimitError, ProviderUnavailableError)):
        return False
    tried = [each for each in turn.events if isinstance(each, Retrying)]
    at_last = [each for each in tried if each.step == turn.steps + 1]
    is_stormy = run.plan.storm > 0 or run.plan.timeout is not None
    return is_stormy and len(at_last) >= run.plan.attempts - 1


def _replies(run: Run) -> list[list[Says]]:
    """Those that arrived, turn by turn."""
    found: list[list[Says]] = []
    for kind, what in run.log:
        if kind == "user":
            found.append([])
        elif kind == "reply":
            found[-1].append(what)
    return found


def _check_told(run: Run, said: list[Spoken]) -> None:
    rest = list(said)
    log = list(run.log)
    for place, (kind, what) in enumerate(log):
        if kind == "user":
            assert rest, f"lost: {what[:60]!r}"
            assert rest[0][:2] == ("user", what), f"lost: {what[:60]!r}, there is {rest[0]}"
            rest.pop(0)
        elif kind == "reply":
            is_cut = place + 1 < len(log) and log[place + 1][0] == "cut"
            _check_reply(run, what, rest, is_cut)
    assert not rest, f"nobody said {rest[0]}"


def _check_reply(run: Run, says: Says, rest: list[Spoken], is_cut: bool) -> None:
    came: list[Spoken] = []
    while rest and rest[0].kind in ("thought", "text", "call"):
        came.append(rest.pop(0))
    text = "".join(each.text for each in came if each.kind == "text")
    if says.text.strip() or text:
        assert text == says.text, f"lost: {says.text[:60]!r}, there is {text[:60]!r}"
    calls = [each for each in came if each.kind == "call"]
    if says.stop is None:
        assert len(calls) == len(says.calls), f"lost: calls of {says}, there are {calls}"
        thoughts = [each.text for each in came if each.kind == "thought"]
        is_thought = run.plan.wire == "anthropic" and run.plan.thinking and says.thinking
        if is_thought and (says.calls or says.text.strip()):
            assert thoughts == [says.thinking], f"lost: {says.thinking}, there is {thoughts}"
    for call, made in zip(calls, says.calls, strict=False):
        assert call.name == made.name, f"lost: {made}, there is {call}"
        assert json.loads(call.text) == _as_object(made.arguments), f"{made} became {call}"
        assert rest, f"lost: the result of {call}"
        result = rest.pop(0)
        assert (result.kind, result.id) == ("result", call.id), f"{call} is followed by {result}"
        _check_result(run, call, result.text, is_cut, says)


def _check_result(run: Run, call: Spoken, result: str, is_cut: bool, says: Says) -> None:
    if call.name in _JIT and call.id in run.jit.answered:
        came = run.jit.answered[call.id].content
    else:
        came = run.tools.came.get(_tag(call.text))
    if result == came:
        return
    is_mine = call.name in ("blocking", "refusing", "huge", "nothing")
    # A thread's work may be over when nobody waits for it any more; no other's.
    assert came is None or is_mine, f"lost: {came[:80]!r}, there is {result[:80]!r}"
    is_late = "took longer" in result and not call.name.startswith(_JIT)
    is_known = (
        (is_cut and "was cancelled" in result)
        or is_late
        or (says.stop is not None and ("cut off" in result or "not made" in result))
        or (call.name.startswith("no_") and "there is no tool" in result)
        or call.name == "quick"  # mistaken
        or (call.name == "load_memory" and "there is no tool" in result)
    )
    assert result and is_known, f"{call} was answered with {result[:200]!r}"


def _tag(arguments: str) -> str:
    given = json.loads(arguments)
    tag = given.get("tag", "")
    return tag if isinstance(tag, str) else ""


def _as_object(arguments) -> dict:
    if not isinstance(arguments, str):
        return dict(arguments)
    try:
        given = json.loads(arguments)
    except ValueError:
        return {}
    return given if isinstance(given, dict) else {}


def _unique_texts(run: Run) -> list[str]:
    """All that was said by anybody, once: no prompt may have it twice."""
    found = [what for kind, what in run.log if kind == "user"]
    for says in (each for turn in _replies(run) for each in turn):
        found += [says.text, says.thinking or ""]
    found += [*run.tools.came.values(), *run.sources.said]
    return [each for each in found if len(each) >= UNIQUE_CHARS]


LAWS = {
    "refused": refused,
    "lost": lost,
    "repeated": repeated,
    "unreported": broken_prefixes,
    "uncached": uncached,
    "unfitting": unfitting,
}
