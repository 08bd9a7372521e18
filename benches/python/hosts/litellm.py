"""A client of a LiteLLM gateway: nothing, `litellm.compress` in each call, RehydrateProxyHook.

The hook and `compress` are called as the gateway calls them; what is sent is counted.
"""

from __future__ import annotations

import json
from typing import Any

from litellm import compress

from benches.python.hosts import script
from benches.python.hosts.table import Row, as_texts, timed
from rehydrate.context import BackgroundCompaction
from rehydrate.integrations.litellm import RehydrateProxyHook

MODEL = "gpt-5.1"


async def rows() -> list[Row]:
    """Return the rows of this host."""
    return [
        await _run("LiteLLM, nothing"),
        await _run("LiteLLM, `litellm.compress`", _compressed),
        await _run_hook("LiteLLM, `RehydrateProxyHook`"),
        await _run_hook("LiteLLM, `RehydrateProxyHook`, background", BackgroundCompaction()),
    ]


async def _run_hook(name: str, background: BackgroundCompaction | None = None) -> Row:
    hook = RehydrateProxyHook(budget=script.BUDGET, background=background)

    async def send(request: dict[str, Any]) -> Any:
        return await hook.async_pre_call_hook(None, None, request, "acompletion")

    return (await _run(name, send))._replace(thread=hook._threads.last)


async def _compressed(request: dict[str, Any]) -> dict[str, Any]:
    made = compress(
        request["messages"],
        model=MODEL,
        compression_trigger=script.BUDGET.soft_tokens,
        compression_target=int(script.BUDGET.soft_tokens * script.BUDGET.compact_to),
    )
    return {**request, "messages": made["messages"]}


async def _run(name: str, send: Any = None) -> Row:
    sent: list[list[str]] = []
    seconds: list[float] = []
    messages: list[Any] = [{"role": "system", "content": script.INSTRUCTIONS}]
    for call in range(script.CALLS):
        if script.is_tool_call(call):
            messages.append({"role": "user", "content": script.question(call // 2)})
        request: dict[str, Any] = {"model": MODEL, "messages": list(messages)}
        if send is not None:
            request = await timed(seconds, send)(request)
        sent.append(as_texts(request["messages"]))
        if not script.is_tool_call(call):
            messages.append({"role": "assistant", "content": script.answer(call)})
            continue
        query = script.query_of(call)
        function = {"name": "lookup", "arguments": json.dumps({"query": query})}
        # `compress` fails at a content of None.
        made = {"id": f"c{call}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": "", "tool_calls": [made]})
        found = script.looked_up(query)
        messages.append({"role": "tool", "tool_call_id": f"c{call}", "content": found})
    return Row(name, sent, seconds)
