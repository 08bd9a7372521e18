"""The report of the benches: verdicts, numbers, parts, and that it is written without figures."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benches.report.figures import Figures, part_file
from benches.report.rows import HEADER, Part, Row, number
from benches.report.running import PARTS
from benches.report.sections import SECTIONS
from benches.report.timings import Timing, times

ROOT = Path(__file__).parents[1]


def nothing_measured(**more: object) -> Figures:
    return Figures({}, None, None, {}, 0.0, 0.0, **more)


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
    of = nothing_measured(parts={"excerpts": part, "threads": None})
    text = "\n".join(line for section in SECTIONS for line in section(of))
    assert "## Excerpts\n\nOn sessions.\n\n`python -m benches.python.excerpts`" in text
    assert "| kept | <= 1 |  | **1** | met |  |  |\n\nMind this." in text
    assert "## Threads\n\nNot measured: the command failed." in text


def test_every_part_that_is_named_exists_and_has_a_file_of_its_own():
    assert all((ROOT / "benches" / "python" / f"{name}.py").is_file() for name in PARTS)
    assert len({part_file(name) for name in PARTS}) == len(PARTS)


def test_the_readme_of_the_benches_shows_how_to_print_a_part(capsys):
    page = (ROOT / "benches" / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, re.S)
    exec(compile(example, "README", "exec"), {"__name__": "__main__"})
    (row,) = Part.from_json(capsys.readouterr().out).rows
    assert row.cells()[4] == "met"
