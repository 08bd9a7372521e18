"""A strict provider: the HTTP APIs of Anthropic and OpenAI on loopback, for tests.

It refuses what the real APIs refuse, with the same messages; it signs thinking, keeps and bills
a prompt cache, and fails on command. It shares no code with rehydrate: its rules come from the
providers' documentation.

    def respond(request, wire):
        return ScriptedReply("I will look.", calls=(Call("read", {"path": "a.txt"}),))

    with StrictProvider(respond, window_tokens=50_000, minimum_prefix=512) as provider:
        client = anthropic.Anthropic(api_key="key", base_url=provider.url, max_retries=0)
        provider.rate_limit_next(retry_after=0.01)
        ...
    assert provider.refusals == []
    assert provider.usage.read > 0
"""

from tests.provider.apis import refusal
from tests.provider.billed import Billed
from tests.provider.faults import Fault, FaultOf
from tests.provider.provider import Exchange, StrictProvider
from tests.provider.replies import Call, Responder, ScriptedReply, Wire

__all__ = [
    "Billed",
    "Call",
    "Exchange",
    "Fault",
    "FaultOf",
    "Responder",
    "ScriptedReply",
    "StrictProvider",
    "Wire",
    "refusal",
]
