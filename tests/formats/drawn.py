"""IRs over conversations of every format, drawn to become requests of another one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from rehydrate.messages import PROVIDERS
from rehydrate.prompt import ContextRequest, History, PromptIR, ToolDef
from tests.prompt.example_irs import lawful_irs
from tests.provider.sendable import sendable
from tests.strategies import BY_FORMAT


def drawn_ir(
    data: st.DataObject,
    format: str,
    spec: dict[str, Any],
    **closed: Callable[[list[Any]], list[Any]],
) -> PromptIR:
    """Draw an IR over a conversation of a format, without open calls; `closed` ends those of
    formats that `sendable` does not know."""
    entries = data.draw(BY_FORMAT[format]())
    if format in closed:
        entries = closed[format](entries)
    elif format in ("anthropic", "openai_chat", "openai_responses"):
        entries = sendable(format, entries)
    sections = data.draw(lawful_irs()).sections if format in PROVIDERS else ()
    history = History(tuple(entries), format)
    return PromptIR(ContextRequest("Go on."), sections, (ToolDef.read(spec),), history)
