"""The rules of a user survive: plain prose, in any turn and beside results."""

from __future__ import annotations

from typing import Any

import pytest

from rehydrate import Context, Scoring, compact_context
from rehydrate.process import clear_cache

RULES = (
    "Never send anything to customers without my approval.",
    "Our budget is 500 dollars in total.",
    "Please use tabs instead of spaces.",
    "I prefer short answers.",
    "Lösche niemals Kundendaten.",
    "Ne supprime jamais les sauvegardes.",
    "No más de tres intentos.",
    "Не трогай основную ветку.",
    "לעולם אל תמחק גיבויים.",
    "不要删除日志文件。",
    "試行は最大三回までです。",
    "अधिकतम तीन प्रयास।",
)


def small_talk(messages: int) -> list[dict[str, Any]]:
    """A chat whose every message has names and numbers of its own, which is what coverage keeps."""
    return [
        {
            "role": ("user", "assistant")[number % 2],
            "content": f"The module part_{number} of src/box{number}.py took {number * 37} ticks "
            f"in run r{number}a, and the one before it, part_{number - 1}, took fewer; so it goes.",
        }
        for number in range(messages)
    ]


def with_rules(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A rule as a user turn of its own behind every twentieth message."""
    planted = list(messages)
    for number, rule in reversed(list(enumerate(RULES))):
        planted.insert(20 * number + 2, {"role": "user", "content": rule})
    return planted


def read_results(steps: int, texts: dict[int, str]) -> list[dict[str, Any]]:
    """Tool calls in Anthropic's format; `texts` holds what the user says beside a step's result."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Read the modules."}]
    for step in range(steps):
        call = {"type": "tool_use", "id": f"call{step}", "name": "read"}
        call["input"] = {"path": f"src/box{step}.py"}
        lines = "\n".join(f"row_{step}_{line} = part_{line * step}" for line in range(60))
        content = [{"type": "tool_result", "tool_use_id": f"call{step}", "content": lines}]
        if step in texts:
            content.append({"type": "text", "text": texts[step]})
        messages += [
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": content},
        ]
    return messages


def test_planted_rules_survive_without_a_query_or_pins():
    kept = compact_context(with_rules(small_talk(300)), target_ratio=0.1).messages
    texts = [message["content"] for message in kept]
    assert [rule for rule in RULES if rule not in texts] == []


def test_planted_rules_survive_a_query_about_something_else():
    messages = with_rules(small_talk(300))
    kept = compact_context(messages, "how many ticks did part_17 take?", 0.2).messages
    texts = [message["content"] for message in kept]
    assert [rule for rule in RULES if rule not in texts] == []


def test_planted_rules_survive_the_compaction_of_a_context():
    messages = with_rules(small_talk(300))
    context = Context(provider="openai_chat")
    context.add(*messages)
    ir = context.compact(compact_context(messages, target_ratio=0.2).stats.target_tokens)
    texts = [message["content"] for message in ir.history.entries]
    assert len(texts) < len(messages) / 2
    assert [rule for rule in RULES if rule not in texts] == []


@pytest.mark.parametrize("granularity", ["message", "excerpt"])
def test_a_rule_beside_a_tool_result_survives(granularity: str):
    messages = read_results(60, {3: RULES[0], 9: RULES[4]})
    kept = compact_context(messages, target_ratio=0.2, granularity=granularity).messages
    kept_rules = [
        block["text"]
        for message in kept
        if isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "text"
    ]
    assert kept_rules == [RULES[0], RULES[4]]


def test_the_paragraph_of_a_long_message_that_holds_a_rule_survives_in_an_excerpt():
    notes = [
        f"Paragraph {number} of the notes tells what the group saw on day {number} of the trip, "
        "from the harbour to the hill and back." * 2
        for number in range(80)
    ]
    notes[50] = RULES[0]
    messages = small_talk(100)
    messages.insert(10, {"role": "user", "content": "\n\n".join(notes)})
    kept = compact_context(messages, target_ratio=0.2, granularity="excerpt")
    (excerpt,) = [m["content"] for m in kept.messages if RULES[0] in m["content"]]
    assert len(excerpt) < len("\n\n".join(notes)) / 2


def test_the_reason_of_a_kept_rule_says_so():
    rows = compact_context(with_rules(small_talk(300)), target_ratio=0.1).explain()
    reasons = {row.preview: row.reason for row in rows if row.preview in RULES}
    assert set(reasons.values()) == {"rule of the user"}


def test_where_room_is_scarce_a_rule_that_was_replaced_goes_before_the_one_that_replaced_it():
    messages = small_talk(40)
    earlier = "The total budget of the journey must be 300 dollars."
    later = "The total budget of the journey must be 700 dollars."
    messages.insert(4, {"role": "user", "content": earlier})
    messages.insert(20, {"role": "user", "content": later})
    alone = 0
    for room in range(60, 400, 10):
        kept = [m["content"] for m in compact_context(messages, budget_tokens=room).messages]
        assert earlier not in kept or later in kept
        alone += later in kept and earlier not in kept
    assert alone


@pytest.mark.parametrize("scoring", ["chitta", Scoring(signals="raw")])
def test_the_raw_formula_knows_no_rules(scoring: str | Scoring):
    rows = compact_context(with_rules(small_talk(300)), target_ratio=0.1, scoring=scoring).explain()
    assert "rule of the user" not in {row.reason for row in rows}


def test_what_another_repeats_is_no_rule_though_the_cache_knows_it_as_one():
    rule = "Never push to the release branch without my approval."
    filler = [
        {"role": "assistant" if n % 2 else "user", "content": f"Boat {n} lies at berth {n * 3}."}
        for n in range(400)
    ]
    said_by_others = [*filler[:9], {"role": "assistant", "content": rule}, *filler[10:]]
    said_by_the_user = [*filler[:8], {"role": "user", "content": rule}, *filler[9:]]

    def reasons() -> list[str]:
        return [unit.reason for unit in compact_context(said_by_others, "", 0.2).explain()]

    clear_cache()
    before = reasons()
    assert 8 in compact_context(said_by_the_user, "", 0.2).indices
    assert reasons() == before
    assert "rule of the user" not in " ".join(before)
