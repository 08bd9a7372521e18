"""Rehydrate inside other agents and gateways: one adapter per package, each with its own extra."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rehydrate._front import front

if TYPE_CHECKING:
    from rehydrate.integrations.adapter import (
        AdapterOptions as AdapterOptions,
        PrefixThreads as PrefixThreads,
    )
    from rehydrate.integrations.host_thread import (
        HostReport as HostReport,
        HostThread as HostThread,
        RehydrateWarning as RehydrateWarning,
    )

__all__, __dir__, __getattr__ = front(__name__)
