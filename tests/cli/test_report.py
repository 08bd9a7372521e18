"""The report: every line fits, columns stay aligned, and the sums are true."""

from __future__ import annotations

import json
import re

import pytest

import rehydrate
from rehydrate import _native
from rehydrate.cli import compact_report as report_module
from rehydrate.cli.compact_report import Report
from rehydrate.cli.terminal import Column, Terminal, display_width, table
from rehydrate.memory import Memory
from rehydrate.prompt import CompiledPrompt, Law, PromptIR
from tests.page.reading import Page
from tests.prompt.test_verify import FOUND, LAWFUL

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
WIDTHS = [20, 40, 60, 80, 100, 120, 160, 200]


WEIRD = "wei\x1b[31mrd-röle-名前"
SCORING = rehydrate.Scoring(structural={WEIRD: 0.5})  # else the role is unknown


def lines_of(messages, width=120, query=None, ratio=0.4, top=None, **terminal):
    compaction = rehydrate.compact_context(messages, query, ratio, scoring=SCORING)
    report = Report("chat.json", compaction, query is not None, Terminal(width, **terminal), top)
    return [*report.lines()], compaction


def table_of(lines, units):
    header = next(place for place, line in enumerate(lines) if line.lstrip().startswith("#"))
    return lines[header], lines[header + 1 : header + 1 + units]


@pytest.fixture
def hostile():
    """Previews with wide characters, emoji, escapes, controls and right-to-left text."""
    texts = [
        "日本語のテキスト" * 30,
        "\x1b[2J\x1b]0;owned\x07 alert \x9b31m",
        "👩‍👩‍👧 family 🇩🇪 👍🏽 " * 20,
        "שלום עולם \u202e reversed " * 10,
        "tab\there\r\nnew\0line " * 20,
        "z" + "\u0336" * 300,
        "\ud800 half a pair",
        "",
    ]
    return [{"role": role, "content": text} for text in texts for role in ("user", "assistant")] + [
        {"role": WEIRD, "content": "x"},
        {"role": "user", "content": "end"},
    ]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("colour", [False, True])
def test_no_line_is_wider_than_the_terminal(chat, hostile, width, colour):
    for messages in (chat, hostile):
        for line in lines_of(messages, width, colour=colour)[0]:
            assert display_width(ESCAPE.sub("", line)) <= width, line


def test_a_short_coloured_cell_below_a_long_one_is_no_wider_than_the_terminal():
    names = Column("", ["berth" * 20, "b"], styles=["green", "green"])
    lines = list(table([names], Terminal(width=20, colour=True)))
    assert [display_width(ESCAPE.sub("", line)) for line in lines] == [20, 1]


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_in_a_message_reaches_the_terminal_as_a_command(hostile, width):
    text = "\n".join(lines_of(hostile, width)[0])
    assert not re.search(
        r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", text
    )


@pytest.mark.parametrize("width", [80, 120, 200])
def test_columns_start_at_the_same_cell_on_every_line(hostile, width):
    lines, compaction = lines_of(hostile, width)
    header, rows = table_of(lines, compaction.stats.units)
    decisions = {display_width(row[: re.search(r" (keep|drop) ", row).start()]) for row in rows}
    assert len(decisions) == 1
    assert header.rstrip().endswith("preview")


def test_colour_changes_no_character(chat):
    plain, _ = lines_of(chat)
    coloured, _ = lines_of(chat, colour=True)
    # The last figure of the head is a time, which differs from run to run.
    assert [ESCAPE.sub("", line) for line in coloured[1:]] == plain[1:]
    assert any(ESCAPE.search(line) for line in coloured)


def test_dropped_units_are_dim_and_kept_ones_are_not(chat):
    lines, compaction = lines_of(chat, colour=True)
    header = next(place for place, line in enumerate(lines) if re.search(r"tokens +score", line))
    rows = lines[header + 1 : header + 1 + compaction.stats.units]
    for row, unit in zip(rows, compaction.explain(), strict=True):
        assert row.startswith("\x1b[2m") is not unit.kept


def test_ascii_is_enough(chat, hostile):
    for messages in (chat, hostile):
        lines, _ = lines_of(messages, unicode=False, encoding="ascii")
        assert all(line.isascii() for line in lines)


def test_there_is_one_line_for_every_unit(chat):
    lines, compaction = lines_of(chat)
    _, rows = table_of(lines, compaction.stats.units)
    for row, unit in zip(rows, compaction.explain(), strict=True):
        assert row.split()[0] == str(unit.messages[0])
        assert f" {'keep' if unit.kept else 'drop'} " in row


def test_top_shows_the_units_that_decide_most_in_their_order(chat):
    lines, compaction = lines_of(chat, top=4)
    units = compaction.explain().units
    _, rows = table_of(lines, 4)
    shown = [int(row.split()[0]) for row in rows]
    assert shown == sorted(shown)
    dropped = [unit for unit in units if not unit.kept]
    largest = sorted(dropped, key=lambda unit: -unit.tokens)[:2]
    assert {unit.messages[0] for unit in largest} <= set(shown)
    assert f"and {len(units) - 4:,} more units; without --top all are shown" in lines
    assert len(lines) < len(lines_of(chat)[0])


def test_wider_terminals_show_more_columns(chat):
    headers = [
        len(table_of(lines_of(chat, width)[0], 1)[0].split()) for width in (40, 80, 120, 200)
    ]
    assert headers == sorted(headers)
    assert {"recency", "semantic", "coverage", "gain", "messages"} <= set(
        table_of(lines_of(chat, 200)[0], 1)[0].split()
    )


def test_the_sums_by_role_add_up(chat):
    lines, compaction = lines_of(chat)
    (total,) = [line for line in lines if line.startswith("total")]
    numbers = [int(number.replace(",", "")) for number in re.findall(r"[\d,]+", total)[:4]]
    stats, units = compaction.stats, compaction.explain().units
    assert numbers == [
        sum(unit.kept for unit in units),
        stats.after_tokens,
        sum(not unit.kept for unit in units),
        stats.before_tokens - stats.after_tokens,
    ]


def test_the_head_says_before_and_after_and_what_it_was_made_of(chat):
    lines, compaction = lines_of(chat, 160)
    stats = compaction.stats
    head = lines[0]
    assert head.startswith(f"{stats.before_tokens:,} → {stats.after_tokens:,} tokens")
    assert f"-{stats.dropped_pct}%" in head and head.endswith("ms")
    for part in ("built-in embedding", "plain", "o200k_base"):
        assert part in lines[1]


def test_the_map_is_dark_where_tokens_are_kept(chat):
    everything, _ = lines_of(chat, ratio=1.0)
    (line,) = [line for line in everything if line.startswith("oldest")]
    assert set(line[len("oldest ") : -len(" newest")]) == {"█"}


def test_a_compaction_over_its_budget_says_so_and_what_to_do(chat):
    lines, compaction = lines_of([{"role": "system", "content": "x " * 999}, *chat], ratio=0.05)
    assert compaction.stats.over_budget
    assert any(line.startswith("over budget: ") for line in lines)
    assert any("raise --ratio or --budget" in line for line in lines)


def test_the_next_step_names_the_query_until_there_is_one(chat):
    assert any("--query" in line for line in lines_of(chat)[0])
    assert not any("--query" in line for line in lines_of(chat, query="Lisbon")[0])


def test_the_next_steps_name_excerpts_and_the_page(chat):
    steps = lines_of(chat)[0][-4:]
    for option in ("--granularity excerpt", "--html PAGE", "--pin N"):
        assert any(option in line for line in steps)


@pytest.mark.parametrize(
    ("value", "figure"),
    [
        *((148.7, "149"), (99.6, "100"), (8.44, "8.4"), (1, "1.0"), (0.996, "1.0")),
        *((0.31, "0.31"), (0.004, "0.004"), (0.00002, "2e-05"), (0, "0")),
    ],
)
def test_figures_keep_the_digits_that_count(value, figure):
    assert report_module._figure(value) == figure


def test_an_empty_conversation_has_a_report_too():
    lines, _ = lines_of([])
    assert "nothing to compact" in lines[-1]


@pytest.mark.parametrize("ratio", [0.05, 0.3, 0.8])
@pytest.mark.parametrize("scoring", ["balanced", "chitta"])
def test_every_reason_has_a_short_form(chat, transcript, ratio, scoring):
    for messages in (chat, [json.loads(line) for line in transcript]):
        for unit in rehydrate.compact_context(messages, None, ratio, scoring=scoring).explain():
            short, sentence, is_pin = _native.short_reason(unit.reason)
            assert 0 < len(short) <= 14
            assert not any(character.isdigit() for character in sentence)
            assert is_pin <= unit.kept
    assert _native.short_reason("pinned by the caller") == ("pinned", "pinned with --pin", True)


def test_in_a_pipe_the_report_is_plain(run, chat, write):
    write("chat.json", chat)
    assert b"\x1b" not in run("compact", "chat.json", "--explain").stdout
    forced = run("compact", "chat.json", "--explain", env={"FORCE_COLOR": "1"}).stdout
    assert b"\x1b[" in forced
    assert (
        b"\x1b"
        not in run(
            "compact", "chat.json", "--explain", env={"FORCE_COLOR": "1", "NO_COLOR": "1"}
        ).stdout
    )


def test_an_encoding_without_blocks_gets_ascii(run, chat, write):
    write("chat.json", [*chat[:-1], {"role": "user", "content": "日本 é"}])
    done = run("compact", "chat.json", "--explain", env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert done.stdout.isascii()


@pytest.mark.parametrize("width", WIDTHS)
def test_what_is_kept_of_a_text_fits_the_terminal(width):
    log = "".join(f"request_{n} served\n" for n in range(200))
    messages = [
        {"role": "user", "content": "Begin."},
        {"role": "user", "content": log},
        {"role": "user", "content": "Go on."},
    ]
    compaction = rehydrate.compact_context(messages, target_ratio=0.4, granularity="excerpt")
    lines = [*Report("chat.json", compaction, False, Terminal(width)).lines()]
    assert all(display_width(ESCAPE.sub("", line)) <= width for line in lines)
    assert sum("└" in line for line in lines) == 1


# `rehydrate inspect`: sessions of every format and IRs, as a table, a page, or JSON.


ANTHROPIC = [
    {"role": "user", "content": "Which port?"},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "g", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "8443"}]},
]
CHAT = [
    {"role": "user", "content": "Which port?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "g", "arguments": "{}"}}
        ],
    },
    {"role": "tool", "tool_call_id": "c", "content": "8443"},
]
RESPONSES = [
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Which port?"}]},
    {"type": "function_call", "id": "f", "call_id": "c", "name": "g", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c", "output": "8443"},
]


def test_without_a_page_the_prompt_is_a_table(run, write, chat):
    write("chat.json", chat)
    done = run("inspect", "chat.json")
    text = done.stdout.decode()
    assert (done.returncode, done.stderr) == (0, b"")
    for part in ("of 50,000 tokens", "history[", "kept", "source", "pass", "breaks no law"):
        assert part in text, part


@pytest.mark.parametrize("entries", [ANTHROPIC, CHAT, RESPONSES], ids=["a", "o", "r"])
def test_a_session_of_every_provider_has_a_page(run, write, tmp_path, entries):
    write("session.json", entries)
    done = run("inspect", "session.json", "-o", "page.html", "--query", "the port")
    assert (done.returncode, done.stdout) == (0, b"")
    assert done.stderr.startswith(b"wrote page.html: the prompt of session.json, ")
    page = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    for part in ("8443", "keeps every law", "the port", "session.json", "Scores", "Passes"):
        assert part in page.text, part


def test_a_transcript_has_a_page_with_the_scores_of_its_units(run, write, tmp_path, transcript):
    write("session.jsonl", transcript)
    done = run("inspect", "session.jsonl", "-o", "page.html", "--budget", "1k")
    assert done.returncode == 0
    text = Page((tmp_path / "page.html").read_text(encoding="utf-8")).text
    assert "of 1,000" in text and "Left out" in text and "tool use" in text


def test_the_json_is_an_ir_that_can_be_inspected_again(run, write, tmp_path, chat):
    write("chat.json", chat)
    first = run("inspect", "chat.json", "--json", "-o", "one.html")
    ir = PromptIR.from_json(first.stdout)
    assert list(ir.history.entries) == chat and ir.verify() == []
    (tmp_path / "ir.json").write_bytes(first.stdout)
    second = run("inspect", "ir.json", "--json")
    assert second.stdout == first.stdout
    done = run("inspect", "-", "-o", "-", stdin=first.stdout)
    assert Page(done.stdout.decode()).text.startswith("\n")


def test_memory_knowledge_and_the_rest_of_a_request_come_in(run, write, tmp_path):
    with Memory.open(tmp_path / "m.db", namespace="alice") as memory:
        memory.add("Staging listens on port 8443.")
    write("notes.md", "# Ports\nThe staging port is 8443 since March.\n")
    tool = {"name": "grep", "description": "Search.", "input_schema": {"type": "object"}}
    write("request.json", {"model": "m", "system": [{"type": "text", "text": "Be careful."}],
                           "tools": [tool], "messages": ANTHROPIC[:1]})  # fmt: skip
    arguments = ["--memory", "m.db", "--namespace", "alice", "--knowledge", "notes.md"]
    done = run("inspect", "request.json", "--query", "staging port", "--json", *arguments)
    assert done.stderr == b""
    ir = PromptIR.from_json(done.stdout)
    assert [tool.name for tool in ir.tools] == ["grep"]
    assert ir.sections[0].content == "Be careful."
    sources = {section.provenance.source for section in ir.sections}
    assert "knowledge" in sources and sources & {"semantic", "temporal", "hot"}
    assert ir.verify() == []


def test_inspecting_does_not_write_to_the_memory(run, write, tmp_path, transcript):
    write("session.jsonl", transcript)
    with Memory.open(tmp_path / "m.db", namespace="alice") as memory:
        memory.add("Staging listens on port 8443.")
        before = memory.stats().items
    run("inspect", "session.jsonl", "--budget", "1k", "--memory", "m.db", "--namespace", "alice")
    with Memory.open(tmp_path / "m.db", namespace="alice") as memory:
        assert memory.stats().items == before


def test_broken_laws_are_named_in_the_table(run, write):
    write("ir.json", LAWFUL.with_sections([FOUND, FOUND]).to_json())
    text = run("inspect", "ir.json").stdout.decode()
    assert "two sections have the id 'mem_1'" in text and f"({Law.ONCE})" in text


def test_a_compiled_prompt_can_be_inspected(run, write):
    write("compiled.json", CompiledPrompt("anthropic", {"messages": []}, LAWFUL, ()).to_json())
    assert b"tools.grep" in run("inspect", "compiled.json").stdout


def test_what_cannot_fit_is_shown_as_it_is_with_a_warning(run, write, chat):
    write("chat.json", [chat[0], {"role": "user", "content": "word " * 900}])
    done = run("inspect", "chat.json", "--budget", "100", "--hard", "200")
    assert done.returncode == 0
    assert b"warning:" in done.stderr and b"over the hard budget" in done.stdout


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("ir.json", '{"rehydrate": "prompt_ir", "version": 9}', "upgrade rehydrate"),
        ("ir.json", '{"rehydrate": "prompt_ir", "version": 1, "a": 1}', "unknown field 'a'"),
        ("ir.json", '{"rehydrate": "soup", "version": 1}', "'soup'"),
        ("x.json", "nonsense", "is not JSON"),
        ("x.jsonl", '{"role": "user", "content": "hi"}\n{"role": 3}\n', "line 2"),
        ("x.json", "[]", "no message"),
    ],
)
def test_what_cannot_be_inspected_is_one_line(run, write, name, text, said):
    write(name, text)
    done = run("inspect", name)
    assert done.returncode == 2
    (line,) = done.stderr.decode().splitlines()
    assert said in line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ir.json", "--query", "x"], "--query makes a prompt of a conversation"),
        (["ir.json", "-o", "ir.json"], "would overwrite the input"),
        (["ir.json", "--json", "-o", "-"], "both write to standard output"),
        (["ir.json", "--budget", "0"], "a number of tokens"),
        (["none.json"], "no such file"),
    ],
)
def test_arguments_that_do_not_go_together_are_one_line(run, write, arguments, said):
    write("ir.json", LAWFUL.to_json())
    done = run("inspect", *arguments)
    assert done.returncode == 2
    (line,) = done.stderr.decode().splitlines()
    assert said in line


def test_a_conversation_that_speaks_of_rehydrate_is_still_one(run, write):
    write("chat.json", {"messages": [{"role": "user", "content": 'what is "rehydrate"?'}]})
    assert run("inspect", "chat.json").returncode == 0


def test_messages_without_tools_have_no_source_of_tools(run, chat, write):
    write("chat.json", chat)
    meta = json.loads(run("inspect", "chat.json", "--json").stdout)["meta"]
    assert [source["name"] for source in meta["sources"]] == ["history"]
