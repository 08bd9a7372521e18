"""A recorded session replayed request by request: no prompt needlessly breaks the one before it."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from itertools import pairwise

import pytest

from benches.python.inputs import EXAMPLE
from rehydrate import formats
from rehydrate.cache import Price, prefix_report, simulate
from rehydrate.compiler import hydrate
from rehydrate.compiler.compile import compile as compile_ir
from rehydrate.ir import Budget, ContextRequest

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
    """What had been said before each request of the session."""
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
    """The IR of each request, and the place of the user's last words."""
    return [
        (
            max(
                message.index for message in formats.parse(history).messages if message.is_user_turn
            ),
            hydrate(
                ContextRequest(budget=ROOM),
                lambda request: f"What is known: {request.observation[:300]}",
                messages=history,
                system="You are a careful engineer. " * 400,
                tools=TOOLS,
                deadline_ms=None,
            ),
        )
        for history in histories
    ]


@pytest.fixture(scope="module")
def sticky(hydrated):
    """The same; what memory brings in a user turn stays where it came in, as `Context` keeps it."""
    irs, brought = [], {}
    for turn, ir in hydrated:
        dynamic = [section for section in ir.sections if not section.is_static]
        assert dynamic
        brought.setdefault(
            turn, [replace(each, id=f"{each.id} {turn}", anchor=turn) for each in dynamic]
        )
        fixed = [section for section in ir.sections if section.is_static]
        irs.append(
            ir.with_sections([*fixed, *(each for group in brought.values() for each in group)])
        )
    return irs


@pytest.fixture(scope="module")
def prompts(sticky):
    """`prompts(provider)`: the session compiled for it, once."""
    return cache(lambda provider: [compile_ir(ir, provider) for ir in sticky])


@pytest.mark.parametrize("provider", ["anthropic", "openai_chat", "openai_responses"])
def test_every_prompt_of_the_session_extends_the_one_before_it(prompts, provider):
    sent = prompts(provider)
    assert len(sent) > 100
    broken = [
        str(report)
        for before, after in pairwise(sent)
        if not (report := prefix_report(before, after, price=PRICE)).extends
    ]
    assert broken == []


def test_nearly_all_of_every_later_prompt_is_read_from_the_cache(prompts):
    job = simulate(prompts("anthropic"), price=PRICE, minimum_tokens=1_024)
    assert job.hit_rate > 0.95
    assert job.saved > 0.8
    for before, after in pairwise(job.turns):
        assert after.read >= before.read + before.written


def test_without_anchors_the_report_names_what_moved_and_what_it_costs(hydrated):
    sent = [compile_ir(ir, "anthropic") for _, ir in hydrated]
    reports = [prefix_report(before, after, price=PRICE) for before, after in pairwise(sent)]
    broken = [report for report in reports if not report.extends]
    turns = sum(before != after for (before, _), (after, _) in pairwise(hydrated))
    assert len(broken) == turns > 0  # in a new user turn the section stands elsewhere
    for report in broken:
        assert report.broke is not None
        assert report.broke.why in ("removed", "reordered", "inserted", "replaced", "changed")
        assert report.broke.place.startswith(("function", "<lambda>", "history"))
        assert report.keeps_cached  # it stood behind the last breakpoint: nothing is written again
