"""Code: what is defined and imported in it, and the lines that name most of the rest."""

from __future__ import annotations

from rehydrate.compiler.caps.cutting import MOST_LINES, Outline, Shown, short_mark
from rehydrate.compiler.caps.names import take_by_names
from rehydrate.compiler.caps.patterns import LINE, NUMBERED, SIGNATURE

SIGNATURES_SHARE = 0.5
_LONGEST_LINE = 400


def cap_code(lines: list[str], limit: int) -> Shown:
    """Signatures as far as half of the room goes, outer ones first; then the lines with the most
    names that are not shown yet, and what else fits, from the top.

    >>> lines = [line for n in range(40) for line in (f"def f{n}():", f"    x = {n} + 1", "")]
    >>> print(cap_code(lines, 900).text[:73])
    def f0():
        x = 0 + 1
    <BLANKLINE>
    def f1():
        x = 1 + 1
    <BLANKLINE>
    def f2():
        x = 2 + 1
    """
    numbered = sum(1 for line in lines[:LINE] if NUMBERED.match(line[:LINE]))
    is_numbered = numbered > min(len(lines), LINE) / 2
    outline = Outline(
        lines,
        limit,
        mark_of=(lambda _first, _last: "[...]") if is_numbered else short_mark,
        mark_length=6 if is_numbered else 24,
        longest_line=_LONGEST_LINE,
    )
    room = outline.left
    signatures = []
    for place, line in enumerate(lines[:MOST_LINES]):
        start = line[:LINE]
        found = NUMBERED.match(start)
        bare = start[found.end() :] if found else start
        if SIGNATURE.match(bare):
            signatures.append((len(bare) - len(bare.lstrip()), place))
    for _, place in sorted(signatures):
        if outline.left < room * (1 - SIGNATURES_SHARE):
            break
        outline.take(place)
    take_by_names(outline, lines)
    for place in range(len(lines)):
        if outline.left < 0 or (not outline.take(place) and outline.left < _LONGEST_LINE):
            break
    return outline.render()
