"""A strict provider: the HTTP APIs of Anthropic and OpenAI on loopback, for tests.

It refuses what the real ones refuse, in their words, signs thoughts, keeps a prompt cache and bills
for it, and fails on command. It knows nothing of rehydrate: its rules are the providers' own.

    def brain(request, wire):
        return Says("I will look.", calls=(Call("read", {"path": "a.txt"}),))

    with StrictProvider(brain, window_tokens=50_000, minimum_prefix=512) as provider:
        client = anthropic.Anthropic(api_key="key", base_url=provider.url, max_retries=0)
        provider.rate_limit_next(retry_after=0.01)
        ...
    assert provider.refusals == []
    assert provider.usage.read > 0
"""

from tests.provider.billed import Billed
from tests.provider.faults import Fault, FaultOf
from tests.provider.provider import Exchange, StrictProvider
from tests.provider.says import Brain, Call, Says, Wire
from tests.provider.verdict import refusal

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
    "refusal",
]
