"""`rehydrate proxy`: ``pip install rehydrate[proxy]``.

Proxy        the application: requests of conversations are shortened, and all else passes
Shortener    what a request's messages become
Outcome      the outcome of one request
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rehydrate._front import front

if TYPE_CHECKING:
    from rehydrate.integrations.proxy.app import Proxy as Proxy
    from rehydrate.integrations.proxy.shortening import (
        Outcome as Outcome,
        Shortener as Shortener,
    )

__all__, __dir__, __getattr__ = front(__name__)
