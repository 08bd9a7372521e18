"""The sections that the modules of `benches/python` write themselves."""

from __future__ import annotations

from collections.abc import Iterable

from benches.report.figures import Figures
from benches.report.markdown import rows_table, section


def parts(of: Figures) -> Iterable[str]:
    """Yield every part, in the order of `running.PARTS`; one that failed says so."""
    for name, part in of.parts.items():
        command = f"python -m benches.python.{name}"
        if part is None:
            why = of.run.get("failed", {}).get(name, "the command was not run to its end")
            yield from section(name.capitalize(), f"Not measured: {why}.", command)
            continue
        yield from section(part.title, part.about, command)
        yield from rows_table(part.rows)
        if part.notes:
            yield from (part.notes, "")
