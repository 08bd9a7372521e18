"""Check: what the doctor found of one thing."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Check(NamedTuple):
    """The result of one check."""

    name: str
    status: Literal["ok", "warn", "fail"]
    detail: str
    remedy: str = ""
