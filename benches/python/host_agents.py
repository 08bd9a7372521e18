"""What keeping other agents short costs: `python -m benches.python.host_agents`.

The real runner of the OpenAI Agents SDK, a real Pydantic AI agent, and LiteLLM's hook as its proxy
calls it, each with the same script of 120 calls: three calls of a tool and an answer in each turn.
Beside them the same without anything, and the SDK's own ToolOutputTrimmer. The cost is in
input-token units, as Anthropic bills them: 1.25 a token that is written to the cache, 0.1 one that
is read from it. ``added`` is the time of the adapter in a call, p50 and p99. A code is planted in
each tool's result; ``shown`` is the share that the last prompt shows, ``found`` the share of twenty
others that one call of `request_context` brings back.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from rehydrate import Budget, count_tokens
from rehydrate.integrations import HostThread

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # no look-up in the network

CALLS, STEPS = 120, 4
BUDGET = Budget(soft_tokens=20_000)
ASKED_ABOUT = 20
"""Codes that are asked for."""
WRITTEN, READ = 1.25, 0.1
WORDS = (
    "berth crane ferry harbour pilot tide anchor cargo manifest customs invoice buoy mooring "
    "schedule weather depth channel tug container captain port signal lamp winch rope deck hull "
)
_WORDS = WORDS.split()


def words(seed: str, most: int) -> str:
    """Return up to so many words, the same for the same seed."""
    chance = random.Random(seed)
    return " ".join(chance.choice(_WORDS) for _ in range(chance.randint(most // 6, most)))


def code(query: str) -> str:
    """Return the code that a tool's result has."""
    return str(random.Random(f"code {query}").randint(100_000, 999_999))


def looked_up(query: str) -> str:
    """Return a tool's result."""
    return f"{words(query, 900)} The lock of {query} opens with {code(query)}. {words(query, 300)}"


def query_of(call: int) -> str:
    """Return what the tool is asked in a call."""
    return f"berth {call} of quay {call * 7 % 31}"


def question(turn: int) -> str:
    """Return what the user says."""
    return words(f"question {turn}", 60)


class Row(NamedTuple):
    """One way of keeping the conversation."""

    name: str
    sent: list[list[Any]]
    """The lists that the model got, as chat dicts or items."""
    seconds: list[float]
    thread: HostThread | None


def line_of(row: Row) -> str:
    """Return a row as text."""
    units, largest, breaks = 0.0, 0, 0
    earlier: list[str] = []
    for messages in row.sent:
        sent = [json.dumps(message, sort_keys=True) for message in messages]
        tokens = [count_tokens([{"role": "user", "content": text}]) for text in sent]
        shared = 0
        while shared < min(len(sent), len(earlier)) and sent[shared] == earlier[shared]:
            shared += 1
        breaks += shared < len(earlier)
        units += READ * sum(tokens[:shared]) + WRITTEN * sum(tokens[shared:])
        largest = max(largest, sum(tokens))
        earlier = sent
    queries = [query_of(call) for call in range(CALLS) if call % STEPS != STEPS - 1]
    text = "".join(earlier)
    shown = sum(code(query) in text for query in queries) / len(queries)
    found = "-" if row.thread is None else f"{share_found(row.thread, queries):.2f}"
    added = "-"
    if row.seconds:
        cuts = statistics.quantiles(row.seconds, n=100)
        added = f"{cuts[49] * 1e3:.1f} / {cuts[98] * 1e3:.1f} ms"
    return (
        f"| {row.name} | {units / 1e3:,.0f}k | {largest:,} | {breaks} | {shown:.2f} | {found} | "
        f"{added} |"
    )


def share_found(thread: HostThread, queries: Sequence[str]) -> float:
    """Return the share of codes that `request_context` brings back, of those that are not shown.

    Each is asked for in a thread of its own, just behind a compaction: where a turn has no room
    left, an answer is a handle only.
    """
    hits = []
    for query in random.Random(1).sample(list(queries), len(queries)):
        fresh = HostThread(thread._make, asks_back=True)
        shown = fresh.prompt(thread.context.history)
        if code(query) not in str(shown):
            answer = fresh.answer("request_context", {"query": f"the lock of {query}"}, query)
            hits.append(code(query) in answer)
            if len(hits) == ASKED_ABOUT:
                break
    return sum(hits) / len(hits)


def timed(seconds: list[float], call: Callable[..., Any]) -> Callable[..., Any]:
    """Return an async function that notes how long each call took."""

    async def run(*given: Any, **more: Any) -> Any:
        started = time.perf_counter()
        done = await call(*given, **more)
        seconds.append(time.perf_counter() - started)
        return done

    return run


async def agents_sdk(name: str, make: Callable[[], Any]) -> Row:
    """Run the Agents SDK with a filter, or None."""
    from agents import Agent, RunConfig, Runner, SQLiteSession, function_tool
    from agents.items import ModelResponse
    from agents.models.interface import Model
    from agents.usage import Usage
    from openai.types.responses import (
        ResponseFunctionToolCall,
        ResponseOutputMessage,
        ResponseOutputText,
    )

    sent: list[list[Any]] = []

    class Scripted(Model):
        async def get_response(self, *_: Any, **given: Any) -> Any:
            call = len(sent)
            sent.append(list(given["input"]))
            if call % STEPS != STEPS - 1:
                arguments = json.dumps({"query": query_of(call)})
                made: Any = ResponseFunctionToolCall(
                    type="function_call", call_id=f"c{call}", name="lookup", arguments=arguments
                )
            else:
                text = ResponseOutputText(
                    type="output_text", text=words(f"answer {call}", 120), annotations=[]
                )
                made = ResponseOutputMessage(
                    id=f"msg_{call}",
                    type="message",
                    role="assistant",
                    status="completed",
                    content=[text],
                )
            return ModelResponse(output=[made], usage=Usage(), response_id=None)

        def stream_response(self, *_: Any, **_more: Any) -> Any:
            raise NotImplementedError

    @function_tool
    def lookup(query: str) -> str:
        """Look something up."""
        return looked_up(query)

    filtering, seconds = make(), list[float]()
    config = RunConfig(tracing_disabled=True)
    if filtering is not None:
        is_ours = hasattr(filtering, "report")
        config.call_model_input_filter = timed(seconds, filtering) if is_ours else filtering
    agent = Agent(name="harbour", instructions="Be brief.", model=Scripted(), tools=[lookup])
    session = SQLiteSession("bench")
    for turn in range(CALLS // STEPS):
        await Runner.run(agent, question(turn), session=session, run_config=config)
    items = await session.get_items()
    session.close()
    thread = filtering.thread(items) if hasattr(filtering, "thread") else None
    return Row(name, sent, seconds, thread)


async def pydantic_ai(name: str, capability: Any) -> Row:
    """Run a Pydantic AI agent with a capability, or None."""
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    sent: list[list[Any]] = []

    def scripted(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        call = len(sent)
        fields = ("content", "args", "tool_call_id", "part_kind")
        sent.append(
            [
                {field: repr(getattr(part, field, "")) for field in fields}
                for message in messages
                for part in message.parts
            ]
        )
        if call % STEPS != STEPS - 1:
            asked = {"query": query_of(call)}
            return ModelResponse([ToolCallPart("lookup", asked, tool_call_id=f"c{call}")])
        return ModelResponse([TextPart(words(f"answer {call}", 120))])

    def lookup(query: str) -> str:
        """Look something up."""
        return looked_up(query)

    seconds: list[float] = []
    if capability is not None:
        capability.prepare_model_request = timed(seconds, capability.prepare_model_request)
    agent = Agent(
        FunctionModel(scripted),
        capabilities=[] if capability is None else [capability],
        instructions="Be brief.",
        tools=[lookup],
    )
    history: list[ModelMessage] = []
    for turn in range(CALLS // STEPS):
        done = await agent.run(question(turn), message_history=history)
        history = done.all_messages()
    return Row(name, sent, seconds, None if capability is None else capability._last)


async def litellm(name: str, hook: Any) -> Row:
    """Have a conversation as a client of a gateway has it, with a hook or None."""
    sent: list[list[Any]] = []
    seconds: list[float] = []
    messages: list[Any] = [{"role": "system", "content": "Be brief."}]
    for call in range(CALLS):
        if call % STEPS == 0:
            messages.append({"role": "user", "content": question(call // STEPS)})
        request: dict[str, Any] = {"model": "gpt-5.1", "messages": list(messages)}
        if hook is not None:
            send = timed(seconds, hook.async_pre_call_hook)
            request = await send(None, None, request, "acompletion")
        sent.append(request["messages"])
        if call % STEPS == STEPS - 1:
            messages.append({"role": "assistant", "content": words(f"answer {call}", 120)})
            continue
        function = {"name": "lookup", "arguments": json.dumps({"query": query_of(call)})}
        made = {"id": f"c{call}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [made]})
        found = looked_up(query_of(call))
        messages.append({"role": "tool", "tool_call_id": f"c{call}", "content": found})
    return Row(name, sent, seconds, None)


async def rows() -> Sequence[Row]:
    """Return all rows."""
    from agents.extensions import ToolOutputTrimmer

    from rehydrate.integrations.litellm import RehydrateProxyHook
    from rehydrate.integrations.openai_agents import RehydrateFilter
    from rehydrate.integrations.pydantic_ai import RehydrateCapability

    return [
        await agents_sdk("Agents SDK, nothing", lambda: None),
        await agents_sdk("Agents SDK, ToolOutputTrimmer()", ToolOutputTrimmer),
        await agents_sdk("Agents SDK, RehydrateFilter", lambda: RehydrateFilter(budget=BUDGET)),
        await pydantic_ai("Pydantic AI, nothing", None),
        await pydantic_ai("Pydantic AI, RehydrateCapability", RehydrateCapability(budget=BUDGET)),
        await litellm("LiteLLM, nothing", None),
        await litellm("LiteLLM, RehydrateProxyHook", RehydrateProxyHook(budget=BUDGET)),
    ]


def main() -> None:
    """Print the table."""
    print("| | input units | largest | breaks | shown | found | added, p50 / p99 |")
    print("|---|---|---|---|---|---|---|")
    for row in asyncio.run(rows()):
        print(line_of(row))


if __name__ == "__main__":
    main()
