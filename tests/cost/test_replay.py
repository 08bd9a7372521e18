"""A recorded session, replayed request by request: no prompt breaks its prefix without need."""

from __future__ import annotations

import json
from itertools import count, pairwise

import pytest

from benches.python.inputs import EXAMPLE
from rehydrate import formats
from rehydrate.context import Context
from rehydrate.cost import Price, prefix_report, simulate
from rehydrate.prompt import Budget, ContextRequest, compile as compile_ir, hydrate

PRICE = Price(5, 25)
ROOM = Budget(1_000_000, 1_000_000)
TOOLS = [
    {
        "name": name,
        "description": f"{name} what is asked. " * 40,
        "input_schema": {"type": "object"},
    }
    for name in ("Bash", "Read", "Edit", "Grep")
]


@pytest.fixture(scope="module")
def histories():
    """The history before each request of the session."""
    lines = [json.loads(line) for line in EXAMPLE.read_text(encoding="utf-8").splitlines()]
    ignored = set(formats.parse(lines).ignored)
    said, seen, found = [], set(), []
    for place, line in enumerate(lines):
        if place in ignored:
            continue
        message_id = line["message"].get("id") if line["type"] == "assistant" else None
        if line["type"] == "assistant" and message_id not in seen:
            found.append([*said])
        seen.add(message_id)
        said.append(line)
    return found


@pytest.fixture(scope="module")
def hydrated(histories):
    """The IR of each request, and the index of the last user turn."""
    return [
        (
            max(
                message.index for message in formats.parse(history).messages if message.is_user_turn
            ),
            hydrate(
                ContextRequest(budget=ROOM),
                lambda request: f"What is known: {request.query[:300]}",
                messages=history,
                system="You are a careful engineer. " * 400,
                tools=TOOLS,
                timeout=None,
            ),
        )
        for history in histories[:70]
    ]


def replayed(histories, provider="anthropic", budget=ROOM):
    """Return a prompt for each request, of one `Context`; the reports, and its usage."""
    times = count()

    def known(request):
        return f"What is known: {request.query[:300]}"

    def clock(request):
        return f"The clock has struck {next(times)} times."

    context = Context(
        [known, clock],
        provider=provider,
        format="claude_code",
        system="You are a careful engineer. " * 400,
        tools=TOOLS,
        budget=budget,
        timeout=None,
    )
    prompts, reports, said = [], [], 0
    for history in histories:
        context.add(*history[said:])
        said = len(history)
        prompts.append(context.prompt())
        reports.append(context.prefix)
    return prompts, reports[1:], context.usage


@pytest.mark.parametrize("provider", ["anthropic", "openai_chat", "openai_responses"])
def test_every_prompt_of_the_session_extends_the_one_before_it(histories, provider):
    # Translating takes time with the square of the length.
    length = None if provider == "anthropic" else 60
    prompts, reports, usage = replayed(histories[:length], provider)
    assert len(prompts) > (50 if length else 100)
    assert [str(report) for report in reports if not report.extends] == []
    assert usage.compactions == 0
    if provider == "anthropic":
        job = simulate(prompts, price=PRICE, minimum_tokens=1_024)
        assert job.hit_rate > 0.95
        assert job.saved > 0.8
        struck = [segment.id for segment in prompts[-1].segments if "clock" in segment.id]
        assert struck[:3] == ["clock", "clock @2", "clock @3"]  # once a user turn
        for before, after in pairwise(job.turns):
            assert after.read >= before.read + before.written


def test_only_a_compaction_breaks_the_prefix_and_the_report_says_what_it_costs(histories):
    prompts, reports, usage = replayed(histories, budget=Budget(50_000, 20_000_000))
    broken = [report for report in reports if not report.extends]
    assert usage.compactions >= 1
    assert len(broken) == usage.compactions
    for report in broken:
        assert report.broke is not None
        assert report.rewritten_tokens > 0
    job = simulate(prompts, price=PRICE, minimum_tokens=1_024)
    assert job.hit_rate > 0.9


def test_without_anchors_the_report_names_what_moved_and_what_it_costs(hydrated):
    sent = [compile_ir(ir, "anthropic") for _, ir in hydrated]
    reports = [prefix_report(before, after, price=PRICE) for before, after in pairwise(sent)]
    broken = [report for report in reports if not report.extends]
    turns = sum(before != after for (before, _), (after, _) in pairwise(hydrated))
    assert len(broken) == turns > 0  # in a new user turn the section moves
    for report in broken:
        assert report.broke is not None
        assert report.broke.why in ("removed", "reordered", "inserted", "replaced", "changed")
        assert report.broke.place.startswith(("function", "<lambda>", "history"))
        assert report.keeps_cached  # it was after the last breakpoint: nothing is written again


def test_after_a_compaction_of_the_agents_own_nobody_has_spoken_and_nothing_breaks_either():
    def line(kind, number, content, **more):
        message = {"role": kind, "content": content, "id": f"m{number}"}
        return {"type": kind, "uuid": f"u{number}", "message": message, **more}

    context = Context(lambda _: "Known.", format="claude_code", timeout=None)
    context.add(line("user", 0, "What was done so far: all of it.", isCompactSummary=True))
    context.prompt()
    for number in range(1, 7, 2):
        call = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {}}
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "ok"}
        context.add(line("assistant", number, [call]), line("user", number + 1, [result]))
        context.prompt()
        assert context.prefix is not None
        assert context.prefix.extends, str(context.prefix)
