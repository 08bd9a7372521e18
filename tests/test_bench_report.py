"""The report of the benches: verdicts, numbers, parts, and a report without figures."""

from __future__ import annotations

import re
from math import log
from pathlib import Path

import pytest

from benches.report import figures, running
from benches.report.figures import Figures, part_file
from benches.report.growing import exponent, of_n_log_n
from benches.report.rows import HEADER, Part, Row, number
from benches.report.running import PARTS
from benches.report.sections import SECTIONS
from benches.report.sections.preamble import preamble
from benches.report.sections.shapes import shapes
from benches.report.sections.threads import loop, threads
from benches.report.timings import Timing, times

ROOT = Path(__file__).parents[1]


def nothing_measured(**more: object) -> Figures:
    return Figures({}, None, None, {}, **more)


@pytest.mark.parametrize(
    ("value", "verdict"), [(None, ""), (61, "NOT MET"), (60, "met"), (25.1, "met"), (25, "beyond")]
)
def test_a_row_says_whether_the_target_is_met(value, verdict):
    cells = Row("cold", value, "ms", 60, 25).cells()
    assert len(cells) == len(HEADER)
    assert cells[1:3] == ["<= 60 ms", "<= 25 ms"]
    assert cells[4] == verdict


def test_more_may_be_better():
    assert Row("speed", 8, "x", 8, 20, more_is_better=True).cells()[1:5] == [
        *(">= 8 x", ">= 20 x", "**8 x**", "met")
    ]
    assert Row("speed", 7.9, "x", 8, more_is_better=True).cells()[4] == "NOT MET"
    assert Row("violations", 0, "", 0).cells()[1:5] == ["<= 0", "", "**0**", "met"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (1234567, "1,234,567"), (1234.5, "1,234"), (99.94, "99.9"), (0.012345, "0.0123")],
)
def test_a_number_has_the_digits_that_count(value, text):
    assert number(value) == text


def test_peers_are_told_as_multiples_of_ours():
    assert times(Timing(2.0), [("slow", Timing(5.0)), ("unmeasured", None)]) == "slow takes 2.5 x"
    assert times(None, [("slow", Timing(5.0))]) == ""


def test_every_section_can_be_written_without_figures():
    lines = [line for section in SECTIONS for line in section(nothing_measured())]
    assert lines[0] == "# Results"
    assert "**Criterion's figures are missing: run `make bench`.**" in " ".join(lines)
    assert all(isinstance(line, str) for line in lines)


def test_a_part_is_a_section_and_a_failed_one_says_so():
    part = Part("Excerpts", "On sessions.", [Row("kept", 1.0, "", 1)], notes="Mind this.")
    assert Part.from_json(part.to_json()) == part
    failed = {"part-threads": "exit 1, ValueError: no room"}
    of = nothing_measured(
        parts={"excerpts": part, "threads": None, "jit": None}, run={"failed": failed}
    )
    text = "\n".join(line for section in SECTIONS for line in section(of))
    assert "## Excerpts\n\nOn sessions.\n\n`python -m benches.python.excerpts`" in text
    assert "| kept | <= 1 |  | **1** | met |  |  |\n\nMind this." in text
    assert "## Threads\n\nNot measured: exit 1, ValueError: no room." in text
    assert "## Jit\n\nNot measured: the command was not run to its end." in text


def test_what_goes_beyond_may_have_no_want_before_it():
    assert Row("share", 51, "%", beyond=50, more_is_better=True).cells()[4] == "beyond"
    assert Row("share", 49, "%", beyond=50, more_is_better=True).cells()[4] == ""


def test_the_exponent_of_a_straight_line_is_one_and_of_a_square_two():
    assert exponent({n: n * 2e-6 for n in (10, 1000, 100_000)}) == pytest.approx(1)
    assert exponent({n: n * n * 3.0 for n in (10, 1000)}) == pytest.approx(2)
    assert exponent({10: 1.0}) is None
    sizes = (1_000, 1_000_000)
    grown = exponent({n: n * log(n) for n in sizes})
    assert of_n_log_n(*sizes) == pytest.approx(grown)


def test_two_threads_are_told_beside_one():
    one = {"case": "cold", "threads": 1, "per_second": 40.0, "speedup": 1.0}
    two = {"case": "cold", "threads": 2, "per_second": 78.0, "speedup": 1.95}
    text = "\n".join(threads(nothing_measured(threads=[one, two])))
    assert "| cold: two threads against one | >= 1.8 x |  | **1.95 x** | met |" in text


def _flat(seconds: int, an_hour: float) -> list[dict[str, float]]:
    return [
        {"t_seconds": t, "rss_bytes": 1e8 * (1 + an_hour * t / 3600), "compactions": t}
        for t in range(0, seconds + 1, 60)
    ]


@pytest.mark.parametrize(("an_hour", "verdict"), [(0.0, "met"), (0.2, "NOT MET")])
def test_a_long_loop_is_judged_by_its_second_half(an_hour, verdict):
    (row,) = [line for line in loop(nothing_measured(rss=_flat(3600, an_hour))) if "growth" in line]
    assert f"| {verdict} |" in row


def test_a_loop_of_a_few_minutes_is_not_judged():
    assert "not measured" in "\n".join(loop(nothing_measured(rss=_flat(300, 0.0))))


def test_figures_that_were_cut_short_are_not_there(tmp_path, monkeypatch):
    for name in ("retention", "shapes", "footprint", "threads", "rss", "run", "speed"):
        (tmp_path / f"{name}.json").write_text('{"half', encoding="utf-8")
    monkeypatch.setattr(figures, "KEPT", tmp_path)
    monkeypatch.setattr(figures, "TARGET", tmp_path)
    of = figures.read()
    assert (of.retention, of.footprint, of.threads, of.rss) == (None, {}, [], [])
    assert of.shapes == []


def test_the_shapes_table_has_a_line_for_each_strategy_with_its_intervals():
    figures_of = {
        "retained": {"0.1": 0.5, "0.2": 0.75, "0.4": 1.0},
        "interval": {"0.1": "0.40-0.60", "0.2": "0.70-0.80"},
        "violations": 3,
    }
    counts = {"sessions": 8, "messages": 151.4, "tokens": 10_200.0, "cuts": 30, "questions": 32}
    found = {"shape": "support", **counts, "measures": {"asked": {"keep last": figures_of}}}
    text = "\n".join(shapes(nothing_measured(shapes=[found])))
    assert "Support: 8 sessions of 151 messages and 10,200 tokens on average" in text
    assert (
        "| support | asked | keep last | 0.500 (0.40-0.60) | 0.750 (0.70-0.80) | 1.000 | 3 |"
        in text
    )
    assert "Not measured." in "\n".join(shapes(nothing_measured()))


def test_the_report_names_the_machine_that_the_figures_were_made_on_not_the_one_that_writes_it():
    run = {"about": {"commit": "abc1234", "packages": "usearch 1.0"}, "load": {"before": 9.0}}
    text = "\n".join(preamble(nothing_measured(run=run)))
    assert "- commit: abc1234\n- packages: usearch 1.0" in text
    assert "**Noisy" in text


def test_a_part_that_fails_is_told_with_its_reason_and_the_others_go_on(tmp_path, monkeypatch):
    for module in (figures, running):
        monkeypatch.setattr(module, "KEPT", tmp_path)
    assert running._python("-c", "print(1)", into="good") == ""
    why = running._python("-c", "print(2); raise ValueError('no room')", into="bad")
    assert why == "exit 1, ValueError: no room"
    assert (tmp_path / "good.json").read_text(encoding="utf-8") == "1\n"


def test_every_part_that_is_named_exists_and_has_a_file_of_its_own():
    assert all((ROOT / "benches" / "python" / f"{name}.py").is_file() for name in PARTS)
    assert len({part_file(name) for name in PARTS}) == len(PARTS)


def test_the_readme_of_the_benches_shows_how_to_print_a_part(capsys):
    page = (ROOT / "benches" / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, re.S)
    exec(compile(example, "README", "exec"), {"__name__": "__main__"})
    (row,) = Part.from_json(capsys.readouterr().out).rows
    assert row.cells()[4] == "met"
