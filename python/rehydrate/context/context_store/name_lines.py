"""Names in the room that is left, each with the line that says what it was where that costs little.

A line costs little where it is not much longer than the names in it are in a list.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence

from rehydrate.compact.outline import NameIndex, OutlineName, write_outline
from rehydrate.prompt.counting import text_tokens

MAX_PRICE = 1.5
"""Characters of a line, at most, by those of its names in a list."""
_MAX_LINE = 300

_Lines = Mapping[OutlineName, str]
"""The lines of the names that are shown in one."""


def write_names(index: NameIndex, tokens: int) -> str:
    """Return the best names that are not visible, and lines of them, in at most so many tokens."""
    names = _fitting(index.best(max(tokens, 0)), {}, tokens)
    lines = _cheap_lines(names, index.hidden_texts())
    return _written(_fitting(names, lines, tokens), lines)


def _fitting(names: Sequence[OutlineName], lines: _Lines, tokens: int) -> Sequence[OutlineName]:
    most = bisect_right(
        range(1, len(names) + 1),
        tokens,
        key=lambda count: sum(text_tokens([_written(names[:count], lines)])),
    )
    return names[:most]


def _cheap_lines(names: Sequence[OutlineName], texts: Mapping[str, str]) -> _Lines:
    """Return the last line of each name in the text of its reference, of those that cost little."""
    shared: dict[tuple[str, str], list[OutlineName]] = {}
    folded = {
        reference: "\n".join(["", *(" ".join(line.split()) for line in text.splitlines()), ""])
        for reference, text in texts.items()
    }
    for each in names:
        text = folded.get(each.reference, "")
        at = text.rfind(each.name)
        if at >= 0:
            line = text[text.rfind("\n", 0, at) + 1 : text.find("\n", at)]
            shared.setdefault((each.reference, line), []).append(each)
    return {
        each: line
        for (_, line), of_line in shared.items()
        if len(line) <= min(MAX_PRICE * sum(len(each.name) + 2 for each in of_line) - 3, _MAX_LINE)
        and (len(of_line) > 1 or any(map(str.isalnum, line.replace(of_line[0].name, ""))))
        for each in of_line
    }


def _written(names: Sequence[OutlineName], lines: _Lines) -> str:
    """Return the names by what they were used for, then the lines by where they stood."""
    listed = write_outline([each for each in names if each not in lines], "", lambda _: True)
    quoted: dict[str, dict[str, None]] = {}
    for each in names:
        if each in lines:
            quoted.setdefault(f"{each.reference}:", {})[f"> {lines[each]}"] = None
    by_reference = ["\n".join([reference, *of_it]) for reference, of_it in quoted.items()]
    return "\n".join([*listed.split("\n")[1:], *by_reference])
