"""Resident memory of a process (Linux)."""

from __future__ import annotations

import os
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")


def resident_bytes(process: int | str = "self") -> int:
    """Return the resident memory of this process, or of another by its number."""
    pages = Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * _PAGE
