"""How far each estimate of tokens is from o200k_base, by kind of text: writes docs/tokens.md.

`python -m benches.python.token_table` writes it, with `--check` it only says whether it would
change. Everything it reads is in the repository or generated from a seed.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from benches.python.inputs import ROOT
from benches.python.token_texts import texts
from benches.python.wordpiece import WordPiece
from rehydrate import count_tokens, estimate_tokens

PAGE = ROOT / "docs" / "tokens.md"
PIECE_CHARACTERS = 1_000
"""Errors of a whole text average out; pieces show the error for one message."""

BOUNDS = (3.0, 2.5, 2.0, 1.5, 1.0)
"""Characters a token that an upper bound may assume, from bold to safe."""


class Estimate(NamedTuple):
    """A way to count without o200k_base."""

    name: str
    how: str
    count: Callable[[str], int]


@cache
def estimates() -> list[Estimate]:
    """Return the columns of the table."""
    return [
        Estimate("words", '`estimate_tokens(text, "words")`: 1.3 a word', _words),
        Estimate("chars", "`estimate_tokens(text)`: a token in 3.5 characters", estimate_tokens),
        Estimate("chars/4", "a token in 4 characters", lambda text: math.ceil(len(text) / 4)),
        Estimate(
            "bytes/4", "a token in 4 bytes of UTF-8", lambda text: -(-len(text.encode()) // 4)
        ),
        Estimate("cl100k", '`count_tokens(text, "cl100k_base")`: its predecessor', _older_encoding),
        Estimate("WordPiece", "BERT's, uncased", WordPiece.of_the_model().count),
    ]


class Line(NamedTuple):
    """One kind of text."""

    kind: str
    tokens: int
    characters: int
    errors: list[float]
    """Error of each estimate over the whole text, as a share: -0.2 counts a fifth too little."""
    worst: list[float]
    """For each estimate, the largest factor of a piece's tokens over its estimate."""
    shortest: float
    """The fewest characters a token in any piece."""


def measure() -> list[Line]:
    """Return a line for each kind."""
    return [_line(kind, text, estimates()) for kind, text in texts().items()]


def _line(kind: str, text: str, columns: Iterable[Estimate]) -> Line:
    pieces = list(_pieces(text))
    exact = [count_tokens(piece) for piece in pieces]
    counted = [[column.count(piece) for piece in pieces] for column in columns]
    return Line(
        kind,
        sum(exact),
        len(text),
        [sum(counts) / sum(exact) - 1 for counts in counted],
        [max(map(_factor, exact, counts)) for counts in counted],
        min(len(piece) / true for piece, true in zip(pieces, exact, strict=True)),
    )


def _factor(exact: int, estimated: int) -> float:
    return exact / max(estimated, 1)


def _pieces(text: str) -> Iterable[str]:
    """Yield pieces of about equal length, so that none is a short rest."""
    parts = max(1, round(len(text) / PIECE_CHARACTERS))
    edges = [len(text) * part // parts for part in range(parts + 1)]
    return (text[start:end] for start, end in itertools.pairwise(edges))


def _words(text: str) -> int:
    return estimate_tokens(text, "words")


def _quarter_of_the_bytes(text: str) -> int:
    return math.ceil(len(text.encode()) / 4)


def _older_encoding(text: str) -> int:
    return count_tokens(text, "cl100k_base")


def page(lines: list[Line]) -> str:
    """Return the whole of docs/tokens.md."""
    return "\n".join([*_introduction(), *_errors(lines), *_bounds(lines)])


INTRODUCTION = """\
# Counting and estimating tokens

`rehydrate.count_tokens` is exact for `o200k_base` and `cl100k_base`, offline, at tens of megabytes
a second. Estimate only where you cannot call it, or where a model's encoding is not public. The
table shows by how much each rule of thumb misses `o200k_base`, by kind of text.

Written by `python -m benches.python.token_table`, from texts that are in the repository or made
from a seed (`benches/python/token_texts.py`); a test checks that it is up to date.
"""

ERRORS = """\

## Error by kind of text

`-20%` counts a fifth too little: what was thought to fit does not. Errors beyond 25% are bold.
"""

BOUNDS_TEXT = """\

## Upper bounds

Where a limit must hold and only characters can be counted, divide them by what the kind of text
allows; no piece above has more tokens than that gives:
"""

END = """\

The last isn't a measurement: every token of a byte-pair encoding stands for at least one byte, so
`len(text.encode())` is never too little, for any such encoding.
"""


def _introduction() -> Iterable[str]:
    yield INTRODUCTION
    yield from (f"- **{estimate.name}**: {estimate.how}" for estimate in estimates())


def _errors(lines: list[Line]) -> Iterable[str]:
    columns = estimates()
    names = [estimate.name for estimate in columns]
    yield ERRORS
    yield f"| kind of text | tokens | characters a token | {' | '.join(names)} |"
    yield "|---|---:|---:|" + "---:|" * len(names)
    for line in lines:
        cells = [_percent(error) for error in line.errors]
        ratio = line.characters / line.tokens
        yield f"| {line.kind} | {line.tokens:,} | {ratio:.2f} | {' | '.join(cells)} |"
    absolute = [sorted(abs(line.errors[column]) for line in lines) for column in range(len(names))]
    middle = [f"{errors[len(errors) // 2]:.0%}" for errors in absolute]
    yield f"| *median error, either way* | | | {' | '.join(middle)} |"
    worst = [max(line.worst[column] for line in lines) for column in range(len(names))]
    cells = [f"x {factor:.1f}" if factor < 10 else f"x {factor:,.0f}" for factor in worst]
    yield f"| *what the worst piece needs* | | | {' | '.join(cells)} |"
    yield ""
    yield (
        "The last line is the factor by which an estimate must be multiplied to cover every piece "
        f"of some {PIECE_CHARACTERS:,} characters above."
    )


def _bounds(lines: list[Line]) -> Iterable[str]:
    yield BOUNDS_TEXT
    yield "| at most one token in | holds for |"
    yield "|---|---|"
    rest = sorted(lines, key=lambda line: line.kind)
    for bound in BOUNDS:
        held = [line.kind for line in rest if line.shortest >= bound]
        rest = [line for line in rest if line.shortest < bound]
        if held:
            yield f"| {bound:g} character{'s' if bound > 1 else ''} | {'; '.join(held)} |"
    yield f"| 1 byte of UTF-8 | any text at all{_also(rest)} |"
    yield END


def _also(rest: list[Line]) -> str:
    return f", and so {'; '.join(line.kind for line in rest)}" if rest else ""


def _percent(error: float) -> str:
    text = f"{error:+.0%}".replace("+0%", "0%").replace("-0%", "0%")
    return f"**{text}**" if abs(error) > 0.25 else text


def main() -> None:
    """Write the page, or say whether it would change."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit with 1 unless it is up to date")
    parser.add_argument("--output", type=Path, default=PAGE)
    asked = parser.parse_args()
    text = page(measure())
    if asked.check:
        sys.exit(asked.output.read_text(encoding="utf-8") != text)
    asked.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
