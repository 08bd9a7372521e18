"""The MCP server: what `rehydrate mcp` offers to agents that speak the Model Context Protocol.

    client -> server / http -> tools -> stores: a memory, threads, transcripts

Only `server` and `http` import the SDK (`pip install "rehydrate[mcp]"`).
docs/integrations/mcp.md is the user's page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rehydrate._front import front

if TYPE_CHECKING:
    from rehydrate.integrations.mcp_server.server import make_server as make_server
    from rehydrate.integrations.mcp_server.stores import Stores as Stores

__all__, __dir__, __getattr__ = front(__name__)
