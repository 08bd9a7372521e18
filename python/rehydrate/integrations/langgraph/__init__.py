"""Rehydrate inside LangGraph: ``pip install rehydrate[langchain]``.

RehydrateStore    LangGraph's long-term store over a `Memory`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rehydrate._front import front

if TYPE_CHECKING:
    from rehydrate.integrations.langgraph.store import RehydrateStore as RehydrateStore

__all__, __dir__, __getattr__ = front(__name__)
