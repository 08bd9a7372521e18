"""The report of the benches: verdicts, numbers, parts, and a report without figures."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from itertools import count
from math import log
from pathlib import Path

import pytest

from benches.report import figures, load, machine, quick, running
from benches.report.__main__ import blemishes
from benches.report.figures import Figures, part_file
from benches.report.growing import exponent, of_n_log_n
from benches.report.rows import HEADER, Part, Row, number
from benches.report.running import PARTS, Step
from benches.report.sections import SECTIONS
from benches.report.sections.compaction import rows as compaction_rows
from benches.report.sections.loop import growth, loop
from benches.report.sections.preamble import preamble
from benches.report.sections.shapes import shapes
from benches.report.sections.threads import rows as threads_rows, threads
from benches.report.sections.tokens import rows as tokens_rows
from benches.report.size import FULL, QUICK
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


def test_peers_are_reported_as_multiples_of_ours():
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
    failed = {"threads": "exit 1, ValueError: no room"}
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


def test_two_threads_are_reported_next_to_one():
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
    for name in ("retention", "shapes", "footprint", "threads", "memory_loop", "run", "speed"):
        (tmp_path / f"{name}.json").write_text('{"half', encoding="utf-8")
    monkeypatch.setattr(figures, "KEPT", tmp_path)
    monkeypatch.setattr(figures, "CRITERION", tmp_path)
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
    run = {"about": {"commit": "abc1234", "packages": "usearch 1.0"}}
    text = "\n".join(preamble(nothing_measured(run=run)))
    assert "- commit: abc1234\n- packages: usearch 1.0" in text
    assert "Noisy" not in text


def test_steps_that_are_measured_again_are_reported_with_their_commit(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "KEPT", tmp_path)
    steps = [Step(name, (sys.executable, "-c", f"print('{name}')")) for name in ("jit", "growth")]
    monkeypatch.setattr(running, "steps", lambda data, size: steps)
    monkeypatch.setattr(load, "wait_until_quiet", lambda patience: 0.0)
    monkeypatch.setattr(machine, "about", lambda: {"commit": "abc1234"})
    assert running.run(None, QUICK)
    monkeypatch.setattr(machine, "about", lambda: {"commit": "def5678"})
    (tmp_path / "growth.json").write_text("as it was")
    assert running.again(["jit"], None, QUICK)
    assert (tmp_path / "growth.json").read_text() == "as it was"
    run = json.loads((tmp_path / "run.json").read_text())
    text = "\n".join(preamble(nothing_measured(run=run)))
    assert "- commit: abc1234\n- again at def5678: jit\n" in text
    assert set(run["seconds"]) == {"jit", "growth"}
    with pytest.raises(SystemExit, match="no step 'nope'; choose from jit, growth"):
        running.again(["nope"], None, QUICK)


def test_the_report_says_how_long_each_step_took_and_which_ones_others_disturbed():
    run = {"began": 0.0, "seconds": {"core": 300.0, "jit": 60.0}, "others": {"core": 0, "jit": 0.3}}
    text = "\n".join(preamble(nothing_measured(run=run)))
    assert "minutes: 6 (core 5.0, jit 1.0)" in text
    assert "took 5.0% of the processors" in text
    assert "so their times are too long: jit 30%.**" in text


def test_a_part_that_fails_is_reported_with_its_reason_and_the_others_go_on(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "KEPT", tmp_path)
    assert running.measure(Step("good", (sys.executable, "-c", "print(1)"))) == ""
    why = running.measure(
        Step("bad", (sys.executable, "-c", "print(2); raise ValueError('no room')"))
    )
    assert why == "exit 1, ValueError: no room"
    assert (tmp_path / "good.json").read_text(encoding="utf-8") == "1\n"


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processors are not chosen here")
def test_a_step_of_one_processor_has_one(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "KEPT", tmp_path)
    ask = "import os; print(len(os.sched_getaffinity(0)))"
    assert running.measure(Step("one", (sys.executable, "-c", ask), processors=1)) == ""
    assert (tmp_path / "one.json").read_text(encoding="utf-8") == "1\n"


def test_every_part_that_is_named_exists_and_has_a_file_of_its_own():
    parts = [ROOT / "benches" / "python" / name for name in PARTS]
    assert all(
        part.with_suffix(".py").is_file() or (part / "__main__.py").is_file() for part in parts
    )
    assert len({part_file(name) for name in PARTS}) == len(PARTS)


def test_the_readme_of_the_benches_shows_how_to_print_a_part(capsys):
    page = (ROOT / "benches" / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, re.S)
    exec(compile(example, "README", "exec"), {"__name__": "__main__"})
    (row,) = Part.from_json(capsys.readouterr().out).rows
    assert row.cells()[4] == "met"


def test_what_others_took_is_the_work_that_is_not_the_runs_own(monkeypatch):
    monkeypatch.setattr(load.os, "cpu_count", lambda: 2)
    before = load.Moment(clock=0.0, work=100.0, own=40.0)
    assert load.others(before, load.Moment(10.0, 112.0, 50.0)) == pytest.approx(0.1)
    assert load.others(before, load.Moment(10.0, 109.0, 50.0)) == 0.0
    assert load.others(before, before) == 0.0


def test_a_run_waits_until_others_are_quiet_and_no_longer_than_it_has_patience(monkeypatch):
    monkeypatch.setattr(load.time, "sleep", lambda _: None)

    def machine(work: float) -> Callable[[], load.Moment]:
        seconds = count()
        return lambda: load.Moment(t := next(seconds), t * work, 0.0)

    assert load.wait_until_quiet(60, machine(work=0.0)) == 0.0
    assert load.wait_until_quiet(6, machine(work=2.0)) == 6.0


def test_a_quick_run_leaves_out_only_steps_that_there_are():
    names = [[step.name for step in running.steps(ROOT, size)] for size in (FULL, QUICK)]
    full, quickly = map(set, names)
    assert full - quickly == QUICK.left_out
    assert quickly < full
    assert all(len(set(each)) == len(each) for each in names)


def test_the_quick_table_has_the_figures_with_a_target_next_to_the_quick_run_before(tmp_path):
    one = {"case": "cold", "threads": 1, "per_second": 40.0, "speedup": 1.0}
    two = {"case": "cold", "threads": 2, "per_second": 78.0, "speedup": 1.95}
    fast = Part(
        "Speed", "", [Row("search, p99", 2.0, "ms", 3, beside="FTS5 80 ms"), Row("p50", 1, "ms")]
    )
    slow = Part(
        "Speed", "", [Row("search, p99", 4.0, "ms", 3, beside="FTS5 90 ms"), Row("p50", 1, "ms")]
    )
    run = {"about": {"commit": "abc1234"}, "began": 0.0, "failed": {"jit": "exit 1, no room"}}
    first, second = (
        nothing_measured(threads=[one, two], parts={"speed": part, "jit": None}, run=run)
        for part in (fast, slow)
    )
    file = tmp_path / "before.jsonl"
    text = "\n".join(quick.report(first, quick.read_before(file)))
    assert "Before: this is the first quick run here." in text
    assert "| search, p99 | <= 3 ms | **2 ms** | met |  | FTS5 80 ms |" in text
    assert "p50" not in text
    quick.keep(first, file)
    text = "\n".join(quick.report(second, quick.read_before(file)))
    assert "Before: commit abc1234, " in text
    assert "| search, p99 | <= 3 ms | **4 ms** | NOT MET | 2 (2 x) | FTS5 90 ms |" in text
    assert "| cold: two threads against one | >= 1.8 x | **1.95 x** | met | 1.95 (1 x) |" in text
    assert "- **not measured: jit: exit 1, no room**" in text


def test_the_line_of_a_long_loop_has_an_interval():
    slope, half_width = growth(_flat(3600, 0.02))
    assert slope == pytest.approx(100 * 0.02 / 1.01, rel=0.01)
    assert half_width < 0.02  # stretches of two samples and of three
    restless = [
        sample | {"rss_bytes": sample["rss_bytes"] * (1.01 if number // 3 % 2 else 0.99)}
        for number, sample in enumerate(_flat(3600, 0.0))
    ]
    slope, half_width = growth(restless)
    assert abs(slope) < half_width < 10


@pytest.mark.parametrize("rows", [compaction_rows, tokens_rows, threads_rows])
def test_a_row_with_a_target_says_what_limits_it(rows):
    assert [row.case for row in rows(nothing_measured()) if row.is_wanted and not row.limit] == []


def test_a_report_of_record_refuses_what_it_must_not_say():
    table = [
        "- **Noisy: others took more**",
        "| import | <= 60 ms |  | **97 ms** | NOT MET | bare Python 22 ms | loading |",
        "| import | <= 60 ms |  | **97 ms** | NOT MET | bare Python 22 ms |  |",
        "| growth | <= 1 |  | not measured |  |  |  |",
        "| import | <= 60 ms |  | **17 ms** | met | bare Python 22 ms |  |",
    ]
    assert blemishes(table) == [table[0], table[2], table[3]]
