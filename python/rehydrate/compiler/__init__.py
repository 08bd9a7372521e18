"""The prompt compiler: hydrate brings together what may go into a prompt."""

from rehydrate.compiler.hydrate import (
    Hydrated,
    ahydrate,
    ahydrate_source,
    hydrate,
    hydrate_source,
)

__all__ = ["Hydrated", "ahydrate", "ahydrate_source", "hydrate", "hydrate_source"]
