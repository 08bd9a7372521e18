"""What keeping ADK's, Agent Framework's and LlamaIndex' agents short costs.

`python -m benches.python.host_more`: the script and the table are those of
`benches.python.host_agents`; each host is run without anything, with what it brings itself, and
with Rehydrate.
"""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import AsyncIterator, Sequence
from typing import Any

from benches.python.host_agents import (
    BUDGET,
    CALLS,
    STEPS,
    Row,
    line_of,
    looked_up,
    query_of,
    question,
    timed,
    words,
)

WINDOW = 8
"""Turns that a window keeps: its prompts are about as large as ours."""


async def google_adk(name: str, plugin: Any = None, compaction: Any = None) -> Row:
    """Run ADK's runner with a plugin, with its own compaction of events, or with neither."""
    from google.adk.agents import LlmAgent
    from google.adk.apps import App
    from google.adk.models import BaseLlm, LlmResponse
    from google.adk.runners import InMemoryRunner
    from google.genai.types import Content, FunctionCall, Part

    sent: list[list[Any]] = []

    class Scripted(BaseLlm):
        async def generate_content_async(
            self,
            llm_request: Any,
            stream: bool = False,  # noqa: ARG002  the base class has it
        ) -> AsyncIterator[LlmResponse]:
            call = len(sent)
            sent.append([each.model_dump(exclude_none=True) for each in llm_request.contents])
            if call % STEPS != STEPS - 1:
                made = FunctionCall(name="lookup", args={"query": query_of(call)})
                part = Part(function_call=made)
            else:
                part = Part(text=words(f"answer {call}", 120))
            yield LlmResponse(content=Content(role="model", parts=[part]))

    def lookup(query: str) -> str:
        """Look something up."""
        return looked_up(query)

    seconds: list[float] = []
    if hasattr(plugin, "report"):
        plugin.before_model_callback = timed(seconds, plugin.before_model_callback)
    agent = LlmAgent(
        name="harbour", model=Scripted(model="scripted"), instruction="Be brief.", tools=[lookup]
    )
    plugins = [] if plugin is None else [plugin]
    app = App(
        name="harbour", root_agent=agent, plugins=plugins, events_compaction_config=compaction
    )
    runner = InMemoryRunner(app=app)
    runner.auto_create_session = True
    for turn in range(CALLS // STEPS):
        said = Content(role="user", parts=[Part(text=question(turn))])
        async for _ in runner.run_async(user_id="ada", session_id="s", new_message=said):
            pass
    return Row(name, sent, seconds, getattr(plugin, "_last", None))


def adk_compaction() -> Any:
    """Return ADK's compaction of events, with a summary of a hundred words."""
    from google.adk.apps.app import EventsCompactionConfig
    from google.adk.apps.base_events_summarizer import BaseEventsSummarizer
    from google.adk.events import Event, EventActions
    from google.adk.events.event_actions import EventCompaction
    from google.genai.types import Content, Part

    class Scripted(BaseEventsSummarizer):
        async def maybe_summarize_events(self, *, events: list[Event]) -> Event | None:
            summary = words(f"summary {len(events)}", 100)
            compaction = EventCompaction(
                start_timestamp=events[0].timestamp,
                end_timestamp=events[-1].timestamp,
                compacted_content=Content(role="model", parts=[Part(text=summary)]),
            )
            actions = EventActions(compaction=compaction)
            return Event(author="user", actions=actions, invocation_id=Event.new_id())

    return EventsCompactionConfig(
        summarizer=Scripted(), token_threshold=BUDGET.soft_tokens, event_retention_size=STEPS * 4
    )


async def adk_rows() -> list[Row]:
    """Return ADK's rows."""
    from google.adk.plugins.context_filter_plugin import ContextFilterPlugin

    from rehydrate.integrations.google_adk import RehydratePlugin

    window = ContextFilterPlugin(num_invocations_to_keep=WINDOW)
    return [
        await google_adk("ADK, nothing"),
        await google_adk(f"ADK, ContextFilterPlugin({WINDOW})", window),
        await google_adk("ADK, events compaction", compaction=adk_compaction()),
        await google_adk("ADK, RehydratePlugin", RehydratePlugin(budget=BUDGET)),
    ]


async def agent_framework(name: str, provider: Any = None, strategy: Any = None) -> Row:
    """Run an agent of Agent Framework with a provider, with a strategy of its own, or neither."""
    from agent_framework import (
        Agent,
        BaseChatClient,
        ChatMiddlewareLayer,
        ChatResponse,
        Content,
        FunctionInvocationLayer,
        Message,
        tool,
    )

    sent: list[list[Any]] = []

    class Scripted(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):  # type: ignore[misc]
        def _inner_get_response(self, *, messages: Any, **_: Any) -> Any:
            async def respond() -> ChatResponse:
                call = len(sent)
                sent.append([as_sent(each) for each in messages])
                if call % STEPS != STEPS - 1:
                    asked = {"query": query_of(call)}
                    made = Content.from_function_call(f"c{call}", "lookup", arguments=asked)
                else:
                    made = Content.from_text(words(f"answer {call}", 120))
                return ChatResponse(messages=[Message("assistant", [made])])

            return respond()

    def as_sent(message: Message) -> dict[str, Any]:
        fields = ("text", "call_id", "name", "arguments", "result")
        contents = [{field: getattr(each, field) for field in fields} for each in message.contents]
        return {"role": message.role, "contents": contents}

    @tool
    def lookup(query: str) -> str:
        """Look something up."""
        return looked_up(query)

    seconds: list[float] = []
    if provider is not None:
        provider._prompted = timed(seconds, provider._prompted)
    agent = Agent(
        client=Scripted(),
        name="harbour",
        instructions="Be brief.",
        tools=[lookup],
        context_providers=[] if provider is None else [provider],
        compaction_strategy=strategy,
    )
    session = agent.create_session()
    for turn in range(CALLS // STEPS):
        await agent.run(question(turn), session=session)
    return Row(name, sent, seconds, getattr(provider, "_last", None))


async def agent_framework_rows() -> list[Row]:
    """Return Agent Framework's rows."""
    from agent_framework import SlidingWindowStrategy, ToolResultCompactionStrategy

    from rehydrate.integrations.agent_framework import RehydrateProvider

    window = SlidingWindowStrategy(keep_last_groups=WINDOW * (STEPS + 1))
    tools = ToolResultCompactionStrategy(keep_last_tool_call_groups=WINDOW * (STEPS - 1))
    keeper = RehydrateProvider(budget=BUDGET)
    return [
        await agent_framework("Agent Framework, nothing"),
        await agent_framework("Agent Framework, SlidingWindowStrategy", strategy=window),
        await agent_framework("Agent Framework, ToolResultCompactionStrategy", strategy=tools),
        await agent_framework("Agent Framework, RehydrateProvider", keeper),
    ]


async def llama_index(name: str, memory: Any) -> Row:
    """Run a function agent of LlamaIndex with a memory."""
    from llama_index.core.agent.workflow import FunctionAgent
    from llama_index.core.base.llms.types import TextBlock, ToolCallBlock
    from llama_index.core.llms import ChatMessage, ChatResponse, LLMMetadata
    from llama_index.core.llms.llm import ToolSelection
    from llama_index.core.llms.mock import MockFunctionCallingLLM

    sent: list[list[Any]] = []
    fields = {"role", "blocks", "additional_kwargs"}

    class Scripted(MockFunctionCallingLLM):
        @property
        def metadata(self) -> LLMMetadata:
            return LLMMetadata(is_function_calling_model=True, is_chat_model=True)

        def _prepare_chat_with_tools(self, *_: Any, chat_history: Any = None, **__: Any) -> Any:
            return {"messages": chat_history}

        async def achat(self, messages: Any, **_: Any) -> ChatResponse:
            call = len(sent)
            sent.append([as_sent(each) for each in messages])
            if call % STEPS != STEPS - 1:
                asked = {"query": query_of(call)}
                made: Any = ToolCallBlock(
                    tool_call_id=f"c{call}", tool_name="lookup", tool_kwargs=asked
                )
            else:
                made = TextBlock(text=words(f"answer {call}", 120))
            return ChatResponse(message=ChatMessage(role="assistant", blocks=[made]))

        def get_tool_calls_from_response(self, response: Any, **_: Any) -> list[ToolSelection]:
            calls = [each for each in response.message.blocks if isinstance(each, ToolCallBlock)]
            return [
                ToolSelection(
                    tool_id=each.tool_call_id,
                    tool_name=each.tool_name,
                    tool_kwargs=each.tool_kwargs,
                )
                for each in calls
            ]

    def as_sent(message: ChatMessage) -> dict[str, Any]:
        # `Memory` notes a session in the messages that it flushes; no model gets that.
        dumped = message.model_dump(mode="json", include=fields)
        dumped["additional_kwargs"].pop("session_id", None)
        return dumped

    async def lookup(query: str) -> str:
        """Look something up."""
        return looked_up(query)

    seconds: list[float] = []
    if hasattr(memory, "report"):
        object.__setattr__(memory, "aget", timed(seconds, memory.aget))
    agent = FunctionAgent(
        llm=Scripted(), tools=[lookup], system_prompt="Be brief.", streaming=False
    )
    for turn in range(CALLS // STEPS):
        await agent.run(question(turn), memory=memory)
    return Row(name, sent, seconds, getattr(memory, "_thread", None))


async def llama_index_rows() -> list[Row]:
    """Return LlamaIndex' rows."""
    from llama_index.core.memory import ChatMemoryBuffer, Memory

    from rehydrate.integrations.llama_index import RehydrateMemory

    largest = BUDGET.soft_tokens
    buffer = ChatMemoryBuffer.from_defaults(token_limit=largest)
    return [
        await llama_index("LlamaIndex, nothing", Memory.from_defaults(token_limit=10_000_000)),
        await llama_index("LlamaIndex, ChatMemoryBuffer", buffer),
        await llama_index("LlamaIndex, Memory", Memory.from_defaults(token_limit=largest)),
        await llama_index("LlamaIndex, RehydrateMemory", RehydrateMemory(budget=BUDGET)),
    ]


async def rows() -> Sequence[Row]:
    """Return all rows."""
    from rehydrate.integrations.google_adk import RehydratePlugin

    await google_adk("", RehydratePlugin(budget=BUDGET))  # loads what is loaded once
    return [*await adk_rows(), *await agent_framework_rows(), *await llama_index_rows()]


def main() -> None:
    """Print the table."""
    warnings.simplefilter("ignore")  # experimental features of the hosts
    logging.disable(logging.WARNING)
    print("| | input units | largest | breaks | shown | found | added, p50 / p99 |")
    print("|---|---|---|---|---|---|---|")
    for row in asyncio.run(rows()):
        print(line_of(row))


if __name__ == "__main__":
    main()
