"""Progress: one line on standard error that is drawn again and again, and gone at the end."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Self

from rehydrate.cli.terminal import Terminal

BAR_CELLS = 30
DRAWN_EVERY_SECONDS = 0.1
SHOWN_AFTER_SECONDS = 0.3
"""What is done sooner needs no bar."""
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Progress:
    """How far something is, shown while the block runs; nothing where nobody watches.

    With a total it is a bar, without one a count. A thread draws it, so that the seconds go on
    where one step takes long.
    """

    def __init__(self, doing: str, unit: str, total: int | None = None) -> None:
        """Say what goes on, what is counted, and how many there will be."""
        self._doing = doing
        self._unit = unit
        self._total = total
        self._done = 0
        self._started = time.monotonic()
        self._ended = threading.Event()
        self._drawing: threading.Thread | None = None
        self._terminal = Terminal.of(sys.stderr)

    def advance(self, steps: int) -> None:
        """So many more are done."""
        self._done += steps

    def __enter__(self) -> Self:
        """Begin to draw, if standard error is a terminal."""
        if sys.stderr is not None and sys.stderr.isatty():
            self._drawing = threading.Thread(target=self._draw, daemon=True)
            self._drawing.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Take the line away: what comes next stands where it stood."""
        self._ended.set()
        if self._drawing is not None:
            self._drawing.join()

    def line(self) -> str:
        """What is shown now."""
        terminal = self._terminal
        seconds = time.monotonic() - self._started
        if self._total:
            share = min(self._done / self._total, 1.0)
            bar = terminal.bar(share, BAR_CELLS)
            figures = f"{share:4.0%}  {self._done:,} of {self._total:,} {self._unit}"
            begin = f"{self._doing} {terminal.paint(bar, 'green')}"
            plain = f"{self._doing} {bar}{figures}"
        else:
            wheel = terminal.glyph(_SPINNER, "|/-\\")
            begin = terminal.paint(wheel[int(seconds / DRAWN_EVERY_SECONDS) % len(wheel)], "cyan")
            figures = f"  {self._doing}"
            if self._done:
                figures += f": {self._done:,} {self._unit}"
            plain = f" {figures}"
        line = f"{begin}{figures}  {seconds:.0f} s"
        # A line that wraps would leave its upper half behind.
        return line if len(plain) + 8 < terminal.width else terminal.cut(plain, terminal.width - 1)

    def _draw(self) -> None:
        if self._ended.wait(SHOWN_AFTER_SECONDS):
            return
        clear = "\r\x1b[K"
        while True:
            print(f"{clear}{self.line()}", end="", file=sys.stderr, flush=True)
            if self._ended.wait(DRAWN_EVERY_SECONDS):
                break
        print(clear, end="", file=sys.stderr, flush=True)
