"""The sections of the report, in order: each is a function of all figures to lines of Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from benches.report.figures import Figures
from benches.report.sections.compaction import compaction
from benches.report.sections.core import core
from benches.report.sections.footprint import footprint
from benches.report.sections.growth import growth
from benches.report.sections.laws import laws
from benches.report.sections.loop import loop
from benches.report.sections.parts import parts
from benches.report.sections.preamble import preamble
from benches.report.sections.retention import retention
from benches.report.sections.shapes import shapes
from benches.report.sections.threads import threads
from benches.report.sections.tokens import tokens

SECTIONS: tuple[Callable[[Figures], Iterable[str]], ...] = (
    preamble,
    compaction,
    core,
    tokens,
    growth,
    retention,
    shapes,
    laws,
    parts,
    threads,
    footprint,
    loop,
)
