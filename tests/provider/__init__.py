"""A strict provider: the HTTP APIs of Anthropic and OpenAI on loopback, for tests.

It refuses what the real ones refuse, in their words, signs thoughts, keeps a prompt cache and bills
for it, and fails on command. It knows nothing of rehydrate: its rules are the providers' own.
"""

from tests.provider.billed import Billed
from tests.provider.faults import Fault, FaultOf
from tests.provider.provider import Exchange, StrictProvider
from tests.provider.says import Brain, Call, Says, Wire

__all__ = [
    "Billed",
    "Brain",
    "Call",
    "Exchange",
    "Fault",
    "FaultOf",
    "Says",
    "StrictProvider",
    "Wire",
]
