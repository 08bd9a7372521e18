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
