"""lay_out: the layout of a prompt, of the parts that the last prompt had and of new ones.

The engine lays it out (`rust/rehydrate-py/src/layout.rs`); here is what it asks of Python.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from rehydrate import _engine, formats
from rehydrate._native import Layout
from rehydrate.formats.rendering import RENDERERS
from rehydrate.messages import Provider
from rehydrate.prompt.counting import entry_tokens, fenced, section_tokens, text_of
from rehydrate.prompt.ir import PromptIR, Target
from rehydrate.prompt.section import Section

BEGINNING = "(Earlier messages are not shown.)"
"""The first user message where the provider requires one and the assistant would be first."""


def lay_out(ir: PromptIR, target: Target) -> Layout:
    """Return the layout of a prompt."""
    provider = target.provider
    known, last = target.render_cache.known(Layout, ir.history)
    return Layout(
        ir,
        provider,
        known,
        last,
        partial(_written, format=ir.history.format, provider=provider),
        lambda: (RENDERERS[provider].user(BEGINNING), _engine.count(BEGINNING, ir.counter)),
        lambda messages: entry_tokens(formats.parse(messages, provider), len(messages)),
    )


def _written(
    section: Section,
    is_system: bool,
    *,
    format: str,  # noqa: A002  the field's word
    provider: Provider,
) -> tuple[dict[str, Any], int]:
    """Return a section as a system block, with its title, or as a user message, in its fence; and
    its tokens."""
    tokens, renderer = section_tokens(section), RENDERERS[provider]
    if is_system:
        content = str(section.content)
        return renderer.system(
            f"# {section.title}\n{content}" if section.title else content
        ), tokens
    return renderer.user(fenced(section, text_of(section, format))), tokens
