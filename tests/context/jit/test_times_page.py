"""docs/request-context-times.md: its tables are what is read."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rehydrate.context import parse_time_range

PAGE = (Path(__file__).parents[3] / "docs/request-context-times.md").read_text("utf-8")
NOW = datetime(2026, 11, 24, 15, 40, tzinfo=UTC)
ROWS = re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE)
WRITTEN = [text for row in ROWS for text in re.findall(r"`([^`]+)`", row)]


@pytest.mark.parametrize("written", WRITTEN)
def test_each_form_of_the_tables_is_read(written: str):
    if written in ("this", "last"):
        written += " week"
    elif written in ("month", "year", "weekend"):
        written = f"last {written}"
    elif re.search(r"\b[ab]\b", written) and "ago" not in written:
        written = re.sub(r"\ba\b", "2026-02-01", re.sub(r"\bb\b", "2026-02-10", written))
    assert parse_time_range(written, NOW, "Europe/Berlin") != (None, None)


def test_the_tables_were_found():
    assert len(WRITTEN) > 40
