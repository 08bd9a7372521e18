"""Widths, colours and bars; foreign text that cannot break a layout."""

from __future__ import annotations

import io
import os
import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from rehydrate._jsonl import new_draft
from rehydrate.batch import parts
from rehydrate.cli import terminal as writing
from rehydrate.cli.terminal import PIPE_WIDTH, Progress, Terminal, display_width, pad


class _Screen(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


@given(st.floats(0, 1), st.integers(1, 60), st.booleans())
def test_a_bar_is_always_as_wide_as_it_was_asked_for(share, cells, unicode):
    assert display_width(Terminal(unicode=unicode).bar(share, cells)) == cells


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_larger_share_never_has_a_shorter_bar(one, other):
    small, large = sorted((one, other))

    def eighths(share):
        return sum(" ▏▎▍▌▋▊▉█".index(cell) for cell in Terminal().bar(share, 9))

    assert eighths(small) <= eighths(large)


def test_the_smallest_share_still_shows():
    assert Terminal().bar(0.0001, 3) == "▏  "
    assert Terminal(unicode=False).bar(0.0001, 3) == "#  "
    assert Terminal().bar(0, 3) == "   "


@given(st.text() | st.text("\x1b[]0;m\x07\x9b\u202e👩‍🇩日a\u0301"), st.integers(0, 40))
def test_no_text_is_wider_than_its_column_or_holds_a_control_character(text, cells):
    for terminal in (Terminal(), Terminal(unicode=False, encoding="ascii")):
        shown = terminal.fit(text, cells)
        assert display_width(shown) <= cells
        assert not any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") for c in shown)
        shown.encode(terminal.encoding)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[31mred\x1b[0m", "a red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9b2Jgone", "gone"),
        ("\x1bPdevice\x1b\\x", "x"),
        ("\x1b(0x", "x"),
        ("cut off \x1b[3", "cut off 3"),
        ("tab\tnew\r\nline\x00\x7f.", "tab new line ."),
        ("a\u202eb\u200bc\u2028d", "abc d"),
        ("\U0001f469\u200d\U0001f4bb \U0001f44d\U0001f3fd", "\U0001f469\U0001f4bb \U0001f44d"),
        ("\U0001f1e9\U0001f1ea", "DE"),
        ("e\u0301", "\xe9"),
        ("z" + "\u0335" * 50, "z\u0335\u0335"),
        ("\ud800x\ue000", "\ufffdx\ufffd"),
    ],
)
def test_foreign_text_is_made_safe(text, shown):
    assert Terminal().safe(text) == shown


def test_wide_characters_are_cut_between_not_through():
    assert Terminal().fit("日本語テキスト", 6) == "日本…"
    assert Terminal().fit_end("/日本語/x.json", 8) == "…/x.json"
    assert pad("日本", 6, ">") == "  日本"


def test_what_the_encoding_lacks_becomes_a_question_mark():
    assert Terminal(encoding="latin-1").safe("é 日") == "é ?"


@pytest.mark.parametrize(
    ("stream", "mode", "environ", "coloured"),
    [
        (_Screen(), "auto", {}, True),
        (io.StringIO(), "auto", {}, False),
        (_Screen(), "never", {"FORCE_COLOR": "1"}, False),
        (io.StringIO(), "always", {"NO_COLOR": "1"}, True),
        (_Screen(), "auto", {"NO_COLOR": "1"}, False),
        (_Screen(), "auto", {"NO_COLOR": ""}, True),
        (_Screen(), "auto", {"TERM": "dumb"}, False),
        (io.StringIO(), "auto", {"FORCE_COLOR": "1"}, True),
        (_Screen(), "auto", {"FORCE_COLOR": "0"}, False),
        (io.StringIO(), "auto", {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_colour_follows_the_option_then_the_environment_then_the_stream(
    stream, mode, environ, coloured
):
    assert Terminal.of(stream, mode, environ).colour is coloured


def test_the_width_is_that_of_the_environment_or_a_fixed_one_in_a_pipe():
    assert Terminal.of(io.StringIO(), environ={"COLUMNS": "77"}).width == 77
    assert Terminal.of(io.StringIO(), environ={"COLUMNS": "x"}).width == PIPE_WIDTH


def test_bars_are_ascii_where_the_encoding_has_no_blocks():
    class Old(io.StringIO):
        encoding = "latin-1"

    terminal = Terminal.of(Old(), environ={})
    assert not terminal.unicode
    assert terminal.bar(0.5, 4).isascii()


def test_paint_adds_nothing_without_colour():
    assert Terminal().paint("x", "bold") == "x"
    assert re.sub(r"\x1b\[[0-9;]*m", "", Terminal(colour=True).paint("x", "bold", "red")) == "x"


def test_a_file_is_written_through_no_link_and_for_its_owner_alone(tmp_path: Path) -> None:
    victim = tmp_path / "key"
    victim.write_text("years of work")
    target = tmp_path / "out.html"
    for name in (f".rehydrate-{os.getpid()}.tmp", f".{target.name}-{os.getpid()}.tmp"):
        (tmp_path / name).symlink_to(victim)
    writing._write_file(target, b"<p>")
    with parts.whole_file(tmp_path / "part") as draft:
        assert draft.stat().st_mode & 0o777 == 0o600
        draft.write_bytes(b"x")
    assert target.read_bytes() == b"<p>"
    assert target.stat().st_mode & 0o777 == 0o600
    assert victim.read_text() == "years of work"
    drafts = {new_draft(target) for _ in range(20)}
    assert len(drafts) == 20


@pytest.mark.parametrize("width", (30, 60, 120))
@pytest.mark.parametrize("total", (None, 10_000))
def test_a_line_of_progress_fits_the_terminal_and_goes_when_it_ends(monkeypatch, width, total):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    screen = _Screen()
    monkeypatch.setattr("sys.stderr", screen)
    with Progress("syncing [red]notes\x1b[2J", "rows", total, shows_rate=True) as progress:
        progress.skip(4_000)
        progress.advance(1_000)
        drawn = progress.bar(screen)
        lines = drawn.console.render_lines(drawn.get_renderable())
    assert len(lines) == 1
    assert screen.getvalue().endswith("\x1b[2K")  # the line is cleared
    assert "\x1b[2J" not in screen.getvalue()
    assert "syncing" in screen.getvalue()
    assert width < 120 or "5000" in screen.getvalue()
