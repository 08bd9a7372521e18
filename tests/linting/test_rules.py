"""Each rule: its findings, and input that it accepts."""

from __future__ import annotations

import base64
import random

import pytest

from rehydrate.errors import InvalidArgumentError
from rehydrate.linting import RULES, lint
from rehydrate.prompt import (
    Budget,
    CompiledPrompt,
    ContextRequest,
    History,
    PromptIR,
    Provenance,
    Section,
    Segment,
    Stability,
    ToolDef,
)
from tests.linting.conftest import prose

LOG = "\n".join(
    f"2026-03-0{n % 9 + 1} 12:00:{n % 60:02} INFO request {n} took {n * 7 % 91} ms"
    for n in range(600)
)
CODE = "\n".join(
    f"{n:>6}\tdef handler_{n}(request): return answer_{n * 3}(request)" for n in range(400)
)


def found(target, rule, **options):
    """Return the findings of one rule, as (place, tokens)."""
    return [(one.place, one.tokens) for one in lint(target, rules=[rule], **options)]


def test_a_sound_session_has_no_findings(session):
    entries = session(("Bash", {"command": "ls"}, "a.py\nb.py"), after=2)
    assert lint(entries) == []


# raw_log


def test_a_log_in_full_is_named_with_what_its_cap_would_save(session):
    ((place, tokens),) = found(session(("Bash", {"command": "make"}, LOG)), "raw_log")
    assert place == "history[2]"
    short = session(("Bash", {"command": "make"}, "\n".join(LOG.splitlines()[-200:])))
    assert found(short, "raw_log") == []
    assert tokens > 4_000


def test_a_log_that_the_user_pasted_counts_too_and_code_does_not(session):
    assert found([{"role": "user", "content": LOG}], "raw_log")
    assert found(session(("Read", {"path": "a.py"}, CODE)), "raw_log") == []


# echo


def test_what_was_read_twice_is_an_echo_of_the_first(session):
    entries = session(("Read", {"path": "a.py"}, CODE), ("Read", {"path": "a.py"}, CODE))
    ((place, tokens),) = found(entries, "echo")
    assert place == "history[4]"
    assert tokens > 4_000
    (finding,) = lint(entries, rules=["echo"])
    assert "history[2]" in finding.message


def test_line_numbers_and_edits_of_a_few_lines_do_not_hide_an_echo(session):
    bare = "\n".join(line[7:] for line in CODE.splitlines()).replace("handler_7(", "fixed_7(")
    entries = session(("Read", {"path": "a.py"}, CODE), ("Bash", {"command": "cat a.py"}, bare))
    assert [place for place, _ in found(entries, "echo")] == ["history[4]"]


def test_a_file_that_comes_back_after_it_was_written_is_an_echo_of_the_call(session):
    content = "\n".join(line[7:] for line in CODE.splitlines())
    wrote = ("Write", {"path": "a.py", "content": content}, "ok")
    entries = session(wrote, ("Read", {"path": "a.py"}, CODE))
    assert [place for place, _ in found(entries, "echo")] == ["history[4]"]


def test_two_different_texts_are_no_echo(session):
    entries = session(("Read", {}, prose(2_000, 1)), ("Read", {}, prose(2_000, 2)))
    assert found(entries, "echo") == []


# unused_result


def test_a_result_of_which_nothing_is_said_again_is_unused(session):
    entries = session(("Grep", {"pattern": "x"}, prose(1_500, 3)), after=10)
    assert [place for place, _ in found(entries, "unused_result")] == ["history[2]"]


def test_one_word_of_it_said_later_is_a_use(session):
    text = prose(1_500, 4)
    entries = session(("Grep", {"pattern": "x"}, text), after=10)
    entries[-2]["content"] = f"It was {text.split()[700]}."
    assert found(entries, "unused_result") == []


def test_a_result_that_may_still_be_used_is_left_in_peace(session):
    entries = session(("Grep", {"pattern": "x"}, prose(1_500, 5)), after=3)
    assert found(entries, "unused_result") == []


# whole_file, base64


def test_a_long_file_read_whole_is_named_and_a_part_of_it_is_not(session):
    whole = session(("Read", {"path": "a.py"}, CODE))
    assert [place for place, _ in found(whole, "whole_file")] == ["history[2]"]
    part = session(("Read", {"path": "a.py", "offset": 1, "limit": 400}, CODE))
    assert found(part, "whole_file") == []


def test_a_file_pasted_by_the_user_is_named():
    pasted = f"Fix this:\n```python\n{CODE}\n```"
    ((place, _),) = found([{"role": "user", "content": pasted}], "whole_file")
    assert place == "history[0]"


def test_base64_in_a_text_is_named_and_hexadecimal_and_images_are_not(session):
    data = random.Random(6).randbytes(3_000)
    encoded = base64.b64encode(data).decode()
    ((place, tokens),) = found(session(("Bash", {}, f"content: {encoded}")), "base64")
    assert place == "history[2]"
    assert tokens > 1_500
    assert found(session(("Bash", {}, data.hex())), "base64") == []
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png"}}
    image["source"]["data"] = encoded
    assert found([{"role": "user", "content": [image]}], "base64") == []


# heavy_tools


def test_heavy_schemas_are_weighed_against_a_name_and_a_line():
    properties = {f"field_{n}": {"type": "string", "description": prose(40, n)} for n in range(12)}
    schema = {"type": "object", "properties": properties}
    tools = [{"name": "book", "description": "Book a flight.", "input_schema": schema}] * 2
    body = {"messages": [{"role": "user", "content": "hi"}], "tools": tools}
    (finding,) = lint(body, rules=["heavy_tools"])
    assert finding.place == "tools[0]"
    assert finding.tokens > 2_000
    assert "book" in finding.message
    assert lint({**body, "tools": tools[:1]}, rules=["heavy_tools"]) == [] or finding.tokens > 4_000


# thinking


def test_thinking_of_turns_that_are_over_is_named_once():
    thought = {"type": "thinking", "thinking": prose(1_200, 7), "signature": "c2ln"}
    said = {"type": "text", "text": "Done."}
    entries = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [thought, said]},
    ]
    assert found(entries, "thinking") == []
    entries.append({"role": "user", "content": "go on"})
    ((place, tokens),) = found(entries, "thinking")
    assert place == "history[1]"
    assert tokens > 1_000


# growth


def test_growth_names_the_place_where_a_budget_is_crossed(session):
    entries = session(*[("Read", {"n": n}, prose(1_000, n)) for n in range(6)])
    (finding,) = lint(entries, rules=["growth"], budget=Budget(5_000, 100_000))
    assert (finding.severity, finding.rule) == ("warning", "growth")
    assert finding.place.startswith("history[")
    (finding,) = lint(entries, rules=["growth"], budget=Budget(2_000, 3_000))
    assert finding.severity == "error"


def test_growth_says_when_the_budget_will_be_crossed_and_is_silent_while_it_is_far(session):
    entries = session(*[("Read", {"n": n}, prose(1_000, n)) for n in range(6)])
    (finding,) = lint(entries, rules=["growth"], budget=Budget(25_000, 100_000))
    assert finding.severity == "info"
    assert "about" in finding.message
    assert lint(entries, rules=["growth"], budget=Budget(900_000, 900_000)) == []


# unstable_prefix


@pytest.mark.parametrize(
    ("text", "flagged"),
    [
        ("You are brief. Now it is 2026-03-02 14:05:11.", True),
        ("Session 126e79e2-e6ca-41d6-a1ad-bc4e10bfa287.", True),
        ("Started at 1772460911.", True),
        ("Dates look like 2026-03-02T14:05.", False),
        ("You are brief. Today is Monday.", False),
        ("Call 555-1234, room 12:30.", False),
    ],
)
def test_what_is_another_in_each_request_is_named_in_the_system_prompt(text, flagged):
    body = {"system": text, "messages": [{"role": "user", "content": "hi"}]}
    assert [place for place, _ in found(body, "unstable_prefix")] == ["system"] * flagged
    chat = [{"role": "system", "content": text}, {"role": "user", "content": "hi"}]
    assert [place for place, _ in found(chat, "unstable_prefix")] == ["history[0]"] * flagged


def test_times_in_what_the_user_says_break_nothing():
    said = [{"role": "user", "content": "It is 2026-03-02 14:05:11."}]
    assert found(said, "unstable_prefix") == []


# breakpoints


def marked(text):
    return {"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}


def test_a_fifth_mark_is_an_error():
    entries = [{"role": "user", "content": [marked(f"part {n}") for n in range(5)]}]
    spread = [{"role": ("user", "assistant")[n % 2], "content": [marked("x")]} for n in range(5)]
    for target in (entries, spread):
        assert any(
            "cache_control" in one.message or "breakpoints" in one.message
            for one in lint(target, rules=["breakpoints"])
            if one.severity == "error"
        )


def test_the_tools_and_cache_points_of_a_converse_request_are_read():
    point = {"cachePoint": {"type": "default"}}
    spec = {"name": "f", "description": prose(1_500, 8), "inputSchema": {"json": {}}}
    talk = [{"role": "user", "content": [{"text": prose(1_500, 9)}]}]
    body = {"system": [{"text": "Be brief."}], "toolConfig": {"tools": [{"toolSpec": spec}]}}
    weighed = lint({**body, "messages": talk}, rules=["heavy_tools", "breakpoints"])
    assert {each.rule for each in weighed} == {"heavy_tools", "breakpoints"}
    for marked_body in (
        {**body, "messages": [{"role": "user", "content": [*talk[0]["content"], point]}]},
        {**body, "messages": talk, "system": [*body["system"], point]},
        {**body, "messages": talk, "toolConfig": {"tools": [{"toolSpec": spec}, point]}},
    ):
        assert lint(marked_body, rules=["breakpoints"]) == []


def test_a_mark_under_the_minimum_and_a_request_without_marks_are_named():
    talk = [{"role": "user", "content": prose(1_500, 8)}]
    early = {"model": "claude-opus-4-5", "system": [marked("Be brief.")], "messages": talk}
    (finding,) = lint(early, rules=["breakpoints"])
    assert (finding.place, finding.severity) == ("system", "info")
    assert "4,096" in finding.message
    bare = {"model": "claude-sonnet-4-5", "system": "Be brief.", "messages": talk}
    (finding,) = lint(bare, rules=["breakpoints"])
    assert "no cache breakpoint" in finding.message
    assert lint({**bare, "model": "gpt-5"}, rules=["breakpoints"]) == []
    assert lint(talk, rules=["breakpoints"]) == []  # the content around them is unknown


def test_a_mark_on_what_changes_each_turn_is_named_in_a_compiled_prompt():
    segments = (
        Segment("rules", "system", 3_000, "a", "static", 1, True),
        Segment("hot", "message", 500, "b", "dynamic", 1, True),
    )
    request = {"system": "x", "messages": [{"role": "user", "content": "hi"}]}
    compiled = CompiledPrompt("anthropic", request, PromptIR(), segments, "claude-sonnet-4-5")
    assert [place for place, _ in found(compiled, "breakpoints")] == ["hot"]


# Inputs of lint


def test_an_ir_is_linted_by_its_sections_its_tools_and_its_history(session):
    history = session(("Read", {}, CODE), ("Read", {}, CODE))
    ir = PromptIR(
        ContextRequest("?", budget=Budget(1_000, 2_000)),
        (
            Section(
                "clock",
                "It is 2026-03-02 14:05:11.",
                Provenance("system"),
                stability=Stability.STATIC,
            ),
            Section("knowledge:log", LOG, Provenance("knowledge")),
        ),
        (ToolDef("grep", prose(3_000, 9)),),
        History(tuple(history), "anthropic", entry_indices=tuple(range(10, 10 + len(history)))),
    )
    places = {one.rule: one.place for one in lint(ir)}
    assert places["unstable_prefix"] == "clock"
    assert places["raw_log"] == "knowledge:log"
    assert places["heavy_tools"] == "tools[0]"
    assert places["echo"] == "history[14]"
    assert "growth" in places


@pytest.mark.parametrize("name", ["openai_chat", "openai_responses", "langchain"])
def test_the_same_log_is_found_in_every_format(name):
    call = {"name": "Bash", "arguments": "{}"}
    if name == "openai_chat":
        entries = [
            {"role": "user", "content": "hi"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c1", "type": "function", "function": call}],
            },
            {"role": "tool", "tool_call_id": "c1", "content": LOG},
        ]
    elif name == "openai_responses":
        entries = [
            {"role": "user", "content": "hi"},
            {"type": "function_call", "call_id": "c1", **call},
            {"type": "function_call_output", "call_id": "c1", "output": LOG},
        ]
    else:
        messages = pytest.importorskip("langchain_core.messages")
        asked = {"id": "c1", "name": "Bash", "args": {}}
        entries = [
            messages.HumanMessage("hi"),
            messages.AIMessage("", tool_calls=[asked]),
            messages.ToolMessage(LOG, tool_call_id="c1"),
        ]
    (finding,) = lint(entries, rules=["raw_log"])
    assert finding.place == "history[2]"
    assert "the result of Bash" in finding.message


def test_a_text_is_named_by_one_rule_only(session):
    entries = session(("Read", {"path": "a.py"}, CODE), ("Read", {"path": "a.py"}, CODE), after=9)
    rules = [one.rule for one in lint(entries) if one.place == "history[4]"]
    assert rules == ["echo"]


def test_an_unknown_rule_is_refused_with_the_known_ones():
    with pytest.raises(InvalidArgumentError, match="'raw_log'"):
        lint([], rules=["raw_logs"])


def test_nothing_to_lint_has_no_findings():
    assert lint([]) == []
    assert lint({"messages": []}) == []
    assert lint(PromptIR()) == []


def test_every_rule_says_what_it_looks_for():
    assert all(rule.about for rule in RULES.values())


def test_the_growth_of_a_transcript_counts_from_its_last_compaction_on():
    def line(number, words):
        message = {"role": "user", "content": prose(words, number)}
        return {"type": "user", "uuid": f"u{number}", "message": message}

    boundary = {"type": "system", "subtype": "compact_boundary", "uuid": "c"}
    lines = [line(1, 4_000), line(2, 4_000), boundary, line(3, 100)]
    budget = Budget(5_000, 100_000)
    assert lint(lines, rules=["growth"], budget=budget) == []
    without = [one for one in lines if one is not boundary]
    assert [one.severity for one in lint(without, rules=["growth"], budget=budget)] == ["warning"]
