"""`rehydrate eval`: reads sessions, writes a table, JSON and a page; lists unreadable files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.page.reading import Page
from tests.retention.sessions_made import EXAMPLE, transcript, work, write_lines


def test_a_session_is_measured_and_a_ratio_recommended(run):
    done = run("eval", str(EXAMPLE), "--ratios", "0.2,40%")
    assert done.returncode == 0 and done.stderr == b""
    said = done.stdout.decode()
    for text in (
        "1 session · 5 cuts",
        "of the names used later, the share still there",
        "kept of the tokens  20%   40%",
        "keep last ",
        "trim_messages ",
        "laid down  last turn   size  rules broken",
        "recommended  compact_context(messages, target_ratio=0.",
        "rehydrate compact FILE --ratio 0.",
        "it comes from one session and says nothing about others",
        "lost at that, and used later",
        "next  --html page.html",
    ):
        assert text in said
    assert "\x1b" not in said


def test_several_sessions_have_intervals_and_short_ones_are_named(run, tmp_path: Path):
    folder = tmp_path / "sessions"
    folder.mkdir()
    for seed in range(3):
        write_lines(folder / f"{seed}.jsonl", work(40, seed))
    write_lines(folder / "short.jsonl", work(2))
    write_lines(folder / "bad.jsonl", [{"time": 3}])
    done = run("eval", "sessions", "--ratios", "0.3", "--color", "always")
    assert done.returncode == 0
    said, warned = done.stdout.decode(), done.stderr.decode()
    assert "95% interval" in said and "Chosen without each of the 3 sessions" in said
    assert "skipped short: fewer than 20 messages" in warned
    assert "skipped sessions/bad.jsonl: no messages in it (it holds time)" in warned


def test_the_figures_are_json_and_the_page_is_a_page(run, tmp_path: Path):
    write_lines(tmp_path / "one.jsonl", transcript(work(40), summary_at=61))
    done = run("eval", "one.jsonl", "--json", "--html", "page.html")
    assert done.returncode == 0
    assert done.stderr.decode() == "wrote page.html: what survives of 1 session\n"
    figures = json.loads(done.stdout)
    assert figures["recommendation"]["strategy"] in ("compact_context", "excerpts")
    assert figures["summaries"][0]["strategy"] == "own summary"
    page = Page((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert figures["recommendation"]["code"] in page.text


def test_a_strategy_of_ones_own_is_listed_with_the_others(run, tmp_path: Path):
    write_lines(tmp_path / "one.jsonl", work(40))
    (tmp_path / "mine.py").write_text(
        "def first(messages, query, ratio):\n"
        "    return messages[: int(len(messages) * ratio)]\n"
        "def fails(messages, query, ratio):\n"
        "    raise OSError('no disk')\n"
    )
    done = run(
        "eval", "one.jsonl", "--strategy", "mine:first", "--strategy", "mine:fails", "--json"
    )
    assert done.returncode == 0
    assert "warning: mine:fails failed on one at 0.70: OSError: no disk; it is left out" in (
        done.stderr.decode()
    )
    names = {row["strategy"] for row in json.loads(done.stdout)["rows"]}
    assert "mine:first" in names and "mine:fails" not in names


def test_of_many_sessions_so_many_are_measured_and_that_is_said(run, tmp_path: Path):
    for seed in range(6):
        write_lines(tmp_path / f"{seed}.jsonl", work(30, seed))
    done = run("eval", ".", "--cuts", "3", "--ratios", "0.3")
    assert "3 sessions · 3 cuts" in done.stdout.decode()
    assert "3 of 6 files read, drawn at random" in done.stdout.decode()


@pytest.mark.parametrize(
    ("width", "encoding"),
    [(40, "utf-8"), (40, "ascii"), (120, "utf-8")],
)
def test_no_line_of_the_tables_is_wider_than_the_terminal(
    run, tmp_path: Path, width: int, encoding: str
):
    for seed in range(2):
        write_lines(tmp_path / f"{'long name ' * 5}{seed}.jsonl", transcript(work(40, seed), 61))
    env = {"COLUMNS": str(width), "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    done = run("eval", ".", "--cuts", "2", env=env)
    assert done.returncode == 0
    lines = done.stdout.decode(encoding).splitlines()
    assert [line for line in lines if len(line) > width and " compact" not in line] == []


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["none.jsonl"], "none.jsonl: no such file or folder; check the path"),
        (["empty"], "no session in empty; folders are searched for .jsonl"),
        (["short.jsonl"], "no session to measure on: all were skipped; name others"),
        (["talk.jsonl"], "nothing to measure: 1 session not measured"),
        (["talk.jsonl", "--html", "talk.jsonl"], "--html talk.jsonl would overwrite the input"),
        ([".", "--html", "talk.jsonl"], "--html talk.jsonl would overwrite the input"),
        (["talk.jsonl", "--strategy", "x"], "strategy is 'x'; write it as module:function"),
        (["talk.jsonl", "--ratios", "2"], "'2' isn't a share of the tokens"),
        (["talk.jsonl", "--goal", "3"], "'3' isn't a share; pass a number up to 1"),
        (["talk.jsonl", "--cuts", "0"], "'0' isn't a count; pass a whole number from 1 up"),
        (["talk.jsonl", "--judge", "nobody"], "model is 'nobody'; choose one of 'anthropic:...'"),
    ],
)
def test_a_mistake_is_one_line_that_names_it(run, tmp_path: Path, arguments, problem: str):
    (tmp_path / "empty").mkdir()
    write_lines(tmp_path / "short.jsonl", work(2))
    write_lines(tmp_path / "talk.jsonl", [{"role": "user", "content": "Hello there."}] * 30)
    done = run("eval", *arguments)
    assert done.returncode == 2 and done.stdout == b""
    last = done.stderr.decode().splitlines()[-1]
    assert last.startswith("rehydrate") and problem in last


def test_without_langchain_the_last_messages_are_compared_instead(run, tmp_path: Path):
    blocked = tmp_path / "blocked" / "langchain_core"
    blocked.mkdir(parents=True)
    (blocked / "__init__.py").write_text("raise ImportError('blocked')")
    shutil.copy(EXAMPLE, tmp_path / "one.jsonl")
    import os

    path = os.pathsep.join(filter(None, [str(blocked.parent), os.environ.get("PYTHONPATH", "")]))
    done = run("eval", "one.jsonl", "--ratios", "0.2", "--json", env={"PYTHONPATH": path})
    names = {row["strategy"] for row in json.loads(done.stdout)["rows"]}
    assert names == {"keep last", "compact_context", "excerpts", "outline"}


def test_all_get_the_size_that_must_be_kept_and_those_that_keep_more_are_named(run, tmp_path: Path):
    pasted = {"role": "user", "content": "Mend all of what you have read, please. " * 200}
    turns = [*work(30), pasted, *work(30, 1)[1:]]
    write_lines(tmp_path / "one.jsonl", turns)
    (tmp_path / "mine.py").write_text("def all(messages, query, ratio):\n    return messages\n")
    done = run("eval", "one.jsonl", "--strategy", "mine:all", "--ratios", "0.05,0.6")
    assert done.returncode == 0
    said = done.stdout.decode()
    (given,) = {line for line in said.splitlines() if line.startswith("given to each")}
    sizes = given.split()[3:]
    assert float(sizes[0].rstrip("%")) > 20 and sizes[1] == "60%"
    assert f"* mine:all keeps more than it is asked for: 100% at {sizes[0]}" in said
    assert "(compact_context keeps 1.00 there)" in " ".join(said.split())
    assert "1.00*" in said
    rows = json.loads(run("eval", "one.jsonl", "--ratios", "0.05", "--json").stdout)["rows"]
    assert len({row["asked"] for row in rows}) == 1 and rows[0]["asked"] > 0.2
    assert all(row["cost_ratio"] <= row["asked"] for row in rows)


def test_lines_that_are_typed_again_have_a_table_of_their_own(run, tmp_path: Path):
    code = "\n".join(f"    total_{n} = count_of(rows[{n}])" for n in range(5))
    call = {"path": "src/a.py", "old": code, "new": "pass"}
    edit = {"type": "tool_use", "id": "e", "name": "edit", "input": call}
    result = {"type": "tool_result", "tool_use_id": "e", "content": code}
    done = {"type": "tool_result", "tool_use_id": "e", "content": "ok"}
    turns = work(30)
    turns[4] = {"role": "user", "content": [{**result, "tool_use_id": "t1"}]}
    turns += [{"role": "assistant", "content": [edit]}, {"role": "user", "content": [done]}]
    write_lines(tmp_path / "one.jsonl", turns)
    said = run("eval", "one.jsonl", "--ratios", "0.2,0.5").stdout.decode()
    assert "of the lines typed again later, the share still there, at 1 cut" in said
    assert "used later  typed again  laid down" in said
    assert "of the lines typed again" in said.split("recommended")[1]
