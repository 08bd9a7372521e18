"""used_names: the paths, identifiers and numbers that a conversation worked with."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from rehydrate.retention.reading import is_tool_result, names_in, text_of, tool_inputs

MAX_NAMES = 2_000
_LABEL = re.compile(r"\[redacted:\w+\]")
"""Where a secret was."""


def used_names(entries: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the names in what was said and in what tools were called with, in their order.

    Names that only results hold are left out: nobody has used them.

    >>> used_names([{"role": "user", "content": "Fix parse_row in src/rows.py."}])
    ('parse_row', 'src/rows.py')
    """
    found: dict[str, None] = {}
    for entry in entries:
        message = dict(entry)
        text = tool_inputs(message) if is_tool_result(message) else text_of(message)
        found |= dict.fromkeys(sorted(names_in(_LABEL.sub(" ", text))))
    return tuple(found)[-MAX_NAMES:]
