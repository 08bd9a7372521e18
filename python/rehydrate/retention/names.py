"""The names in a text: paths, identifiers and ids, what an agent must get right to the letter."""

import re

_RUN = re.compile(r"[\w./@~-]+")
_JOINER = re.compile(r"\w[./@_-]\w|\d")
_CAMEL = re.compile(r"[a-z][A-Z]")

MIN_CHARS = 4


def names_in(text: str) -> frozenset[str]:
    """The paths, identifiers, ids and numbers of at least four characters in a text.

    >>> sorted(names_in("Fix parse_row in src/rows.py, order HAT017, and the userName there."))
    ['HAT017', 'parse_row', 'src/rows.py', 'userName']
    """
    runs = (run.rstrip(".-").lstrip("-") for run in _RUN.findall(text))
    return frozenset(
        run
        for run in runs
        if len(run) >= MIN_CHARS and (_JOINER.search(run) or _CAMEL.search(run) or run[0] == "/")
    )
