"""A row: one target, its measured value, peers, and its limits; a part: a list of rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

HEADER = ["case", "want", "beyond", "measured", "", "compared in the same run", "what limits it"]
"""The header of a row's cells."""


@dataclass(frozen=True, slots=True)
class Row:
    """One target: `value` against `want` and `beyond`; smaller is better by default."""

    case: str
    value: float | None
    unit: str
    want: float | None = None
    beyond: float | None = None
    more_is_better: bool = False
    beside: str = ""
    limit: str = ""

    def cells(self) -> list[str]:
        """Return it as a line of a table."""
        sign = ">= " if self.more_is_better else "<= "
        bounds = [
            f"{sign}{number(bound)} {self.unit}".strip() if bound is not None else ""
            for bound in (self.want, self.beyond)
        ]
        measured = (
            "not measured"
            if self.value is None
            else f"**{f'{number(self.value)} {self.unit}'.strip()}**"
        )
        return [self.case, *bounds, measured, self._verdict(), self.beside, self.limit]

    @property
    def is_wanted(self) -> bool:
        """Whether it has a target."""
        return self.want is not None or self.beyond is not None

    def _verdict(self) -> str:
        if self.value is None:
            return ""
        if self.beyond is not None and self._reaches(self.beyond):
            return "beyond"
        if self.want is None:
            return ""
        return "met" if self._reaches(self.want) else "NOT MET"

    def _reaches(self, bound: float) -> bool:
        assert self.value is not None
        return self.value >= bound if self.more_is_better else self.value <= bound


@dataclass(frozen=True, slots=True)
class Part:
    """The results of a module of `benches/python`: a section of its own in the report."""

    title: str
    about: str
    """What was measured, on what, how: a sentence or two above the rows."""
    rows: Sequence[Row]
    notes: str = ""
    """Below the rows."""

    def to_json(self) -> str:
        """Return it as JSON for the process that writes the report."""
        return json.dumps(asdict(self), indent=1)

    @staticmethod
    def from_json(text: str) -> Part:
        """Read what `to_json` wrote."""
        reported = json.loads(text)
        return Part(**reported | {"rows": [Row(**row) for row in reported["rows"]]})


def number(value: float) -> str:
    """Return three significant digits, or all of a whole number."""
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
