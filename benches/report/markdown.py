"""Sections and tables in Markdown, line by line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benches.report.rows import HEADER, Row


def section(title: str, about: str, command: str) -> Iterable[str]:
    yield from (f"## {title}", "", about, "", f"`{command}`", "")


def table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> Iterable[str]:
    yield f"| {' | '.join(header)} |"
    yield "|" + "---|" * len(header)
    yield from (f"| {' | '.join(line)} |" for line in lines)
    yield ""


def rows_table(rows: Iterable[Row]) -> Iterable[str]:
    """Return a table of targets."""
    return table(HEADER, [row.cells() for row in rows])
