"""JSON-RPC 2.0 on a pair of streams: `compact_context` for programs that are not Python.

`serve` reads values from bytes and writes the replies of `Server`, a line each; `tool` is what it
calls. `rehydrate rpc` runs it on standard input and output. docs/rpc.md is the user's page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rehydrate._front import front

if TYPE_CHECKING:
    from rehydrate.rpc.server import (
        Server as Server,
        serve as serve,
    )

__all__, __dir__, __getattr__ = front(__name__)
