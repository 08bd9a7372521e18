"""JSON-RPC 2.0 on a pair of streams: `compact_context` for programs that are not Python.

    bytes -> reading.Splitter -> values -> answering.Server -> replies, a line each
                                              `-> tools.compact_context

`serve` joins them; `rehydrate rpc` runs it on standard input and output. docs/rpc.md is the
user's page.
"""

from rehydrate.rpc.serving import serve

__all__ = ["serve"]
