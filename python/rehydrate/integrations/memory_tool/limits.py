"""FileLimits: how much the files of a memory tool may hold."""

from __future__ import annotations

from dataclasses import dataclass

from rehydrate._check import check_whole


@dataclass(frozen=True, slots=True)
class FileLimits:
    """Limits on the files of one namespace. What goes beyond is refused, and nothing is dropped.

    >>> FileLimits(max_files=50).max_file_bytes
    1000000
    """

    max_file_bytes: int = 1_000_000
    max_bytes: int = 10_000_000
    """Of all files together."""
    max_files: int = 1_000

    def __post_init__(self) -> None:
        """Refuse a value that cannot be a limit."""
        for name in ("max_file_bytes", "max_bytes", "max_files"):
            check_whole(f"FileLimits: {name}", getattr(self, name), 1)
