"""Helpers for tests: a model with scripted answers, and the checks of a memory's backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rehydrate._front import front

if TYPE_CHECKING:
    from rehydrate.testing.scripted_model import (
        ScriptedCall as ScriptedCall,
        ScriptedModel as ScriptedModel,
        call as call,
    )
    from rehydrate.testing.store_conformance import check_all as check_all

__all__, __dir__, __getattr__ = front(__name__)
