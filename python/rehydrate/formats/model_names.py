"""Model names: the row of a table that a name means, with or without vendor, date and revision."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["known_name"]

# What may follow a model's name without making it another model: a date, a revision, a variant.
_REVISION = re.compile(
    r"(-\d{8}|-\d{4}-\d\d-\d\d|-latest|-v\d+|@[\w.-]+|:[\w.-]+|\[[\w.-]+\])*", re.ASCII
)
_VENDOR = re.compile(r"^.*/|^(\w+\.)*anthropic\.")


def known_name(model: str, names: Iterable[str]) -> str | None:
    """The one of these names that a model's name means; None for a model that is none of them.

    >>> known_name("us.anthropic.claude-opus-4-5-20251101-v1:0", ["claude-opus-4-5"])
    'claude-opus-4-5'
    >>> known_name("anthropic/claude-sonnet-4.5", ["claude-sonnet-4-5"])
    'claude-sonnet-4-5'
    """
    names = list(names)
    if model in names:
        return model
    name = _VENDOR.sub("", model.lower())
    for spelled in (name, name.replace(".", "-")):  # some gateways write claude-sonnet-4.5
        fits = [
            key
            for key in names
            if spelled.startswith(key) and _REVISION.fullmatch(spelled, len(key))
        ]
        if fits:
            return max(fits, key=len)
    return None
