"""RehydrateMiddleware in LangChain's agents, against the strict provider over HTTP.

The chat models are two thin ones over the official SDKs, and LangChain's own where they are there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import anyio
import pytest

from rehydrate import Budget

pytest.importorskip("langchain.agents", reason="langchain is not installed")
pytest.importorskip("anthropic", reason="anthropic is not installed")
pytest.importorskip("openai", reason="openai is not installed")

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, convert_to_openai_messages
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.utils.function_calling import convert_to_openai_tool

from rehydrate.integrations.langchain import RehydrateMiddleware
from tests.integrations import harbour
from tests.integrations.langchain_agents import agent_of, asking, config, query_of
from tests.provider import Call, ScriptedReply, StrictProvider
from tests.provider.sdk_clients import anthropic_client, openai_client

BUDGET = Budget(soft_tokens=2_000)


class SdkModel(BaseChatModel):
    """A chat model over an SDK's client."""

    client: Any
    tools: Sequence[Mapping[str, Any]] = ()

    @property
    def _llm_type(self) -> str:
        return "sdk"

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> Any:
        described = [convert_to_openai_tool(each) for each in tools]
        return self.model_copy(update={"tools": described})

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **more: Any
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.answer(messages))])

    def answer(self, messages: Sequence[BaseMessage]) -> AIMessage:
        raise NotImplementedError


class OpenAIModel(SdkModel):
    """Chat completions."""

    def answer(self, messages: Sequence[BaseMessage]) -> AIMessage:
        sent: Any = convert_to_openai_messages(messages)
        for message in sent:
            message.pop("name", None)  # of a tool's message, which has none there
        reply = self.client.chat.completions.create(
            model="gpt-5.1", messages=sent, tools=self.tools
        )
        said = reply.choices[0].message
        calls = [
            {"name": each.function.name, "args": json.loads(each.function.arguments), "id": each.id}
            for each in said.tool_calls or ()
        ]
        return AIMessage(said.content or "", tool_calls=calls)


class AnthropicModel(SdkModel):
    """Anthropic's messages, with thinking."""

    def answer(self, messages: Sequence[BaseMessage]) -> AIMessage:
        functions = [each["function"] for each in self.tools]
        reply = self.client.messages.create(
            model="claude-opus-4-6",
            max_tokens=4_096,
            thinking={"type": "adaptive"},
            cache_control={"type": "ephemeral"},
            system=messages[0].content,
            messages=anthropic_messages(messages[1:]),
            tools=[
                {
                    "name": each["name"],
                    "description": each["description"],
                    "input_schema": each["parameters"],
                }
                for each in functions
            ],
        )
        blocks = [each.model_dump(exclude_none=True) for each in reply.content]
        calls = [
            {"name": each["name"], "args": each["input"], "id": each["id"]}
            for each in blocks
            if each["type"] == "tool_use"
        ]
        return AIMessage(blocks, tool_calls=calls)


def anthropic_messages(messages: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    """Return messages as Anthropic takes them: the results of one message's calls in one."""
    sent: list[dict[str, Any]] = []
    for message in messages:
        if message.type == "tool":
            block = {
                "type": "tool_result",
                "tool_use_id": message.tool_call_id,
                "content": message.content,
            }
            if sent[-1]["role"] == "user" and isinstance(sent[-1]["content"], list):
                sent[-1]["content"].append(block)
            else:
                sent.append({"role": "user", "content": [block]})
        else:
            role = "assistant" if message.type == "ai" else "user"
            sent.append({"role": role, "content": message.content})
    return sent


@contextmanager
def anthropic_model(provider: StrictProvider) -> Iterator[Any]:
    with anthropic_client(provider) as client:
        yield AnthropicModel(client=client)


@contextmanager
def openai_model(provider: StrictProvider) -> Iterator[Any]:
    with openai_client(provider) as client:
        yield OpenAIModel(client=client)


@contextmanager
def chat_anthropic(provider: StrictProvider) -> Iterator[Any]:
    package = pytest.importorskip("langchain_anthropic", reason="langchain-anthropic is missing")
    yield package.ChatAnthropic(
        model="claude-opus-4-6", api_key="key", base_url=provider.url, max_retries=0
    )


@contextmanager
def chat_openai(provider: StrictProvider, **options: Any) -> Iterator[Any]:
    package = pytest.importorskip("langchain_openai", reason="langchain-openai is missing")
    yield package.ChatOpenAI(
        model="gpt-5.1", api_key="key", base_url=provider.openai_url, max_retries=0, **options
    )


def responses(provider: StrictProvider) -> Any:
    return chat_openai(provider, use_responses_api=True)


def said_in(body: Mapping[str, Any]) -> list[str]:
    """Return the messages of a request, without marks of the cache."""

    def plain(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: plain(part) for key, part in value.items() if key != "cache_control"}
        return [plain(part) for part in value] if isinstance(value, list) else value

    return [json.dumps(plain(each), sort_keys=True) for each in harbour.messages_of(body)]


@pytest.mark.parametrize(
    ("open_model", "turns", "is_async"),
    [
        (anthropic_model, 15, False),
        (openai_model, 12, False),
        (openai_model, 8, True),
        (chat_anthropic, 8, False),
        (chat_openai, 8, False),
        (responses, 8, True),
    ],
)
def test_turns_are_accepted_and_break_the_prefix_at_compactions_only(
    open_model: Any, turns: int, is_async: bool
) -> None:
    middleware = RehydrateMiddleware(budget=BUDGET)
    questions = [harbour.question(turn) for turn in range(turns)]
    with StrictProvider(harbour.reply) as provider, open_model(provider) as model:
        agent = agent_of(model, middleware)

        async def run() -> None:
            for asked in questions:
                await agent.ainvoke(asking(asked), config())

        if is_async:
            anyio.run(run)
        for asked in () if is_async else questions:
            agent.invoke(asking(asked), config())
    messages = agent.get_state(config()).values["messages"]
    assert provider.refusals == provider.overflows == []
    assert len(provider.requests) == 2 * turns
    assert len(messages) == 4 * turns
    thread = middleware.thread(config(), messages)
    assert thread is not None
    assert thread.report.failure == ""
    sent = [said_in(exchange.body or {}) for exchange in provider.requests]
    assert harbour.breaks(sent) == thread.context.usage.compactions > turns / 40
    assert max(exchange.billed.prompt for exchange in provider.requests) < 2 * BUDGET.soft_tokens
    assert thread.context.provider == (
        "anthropic" if "anthropic" in open_model.__name__ else "openai_chat"
    )


def looking_up(body: Mapping[str, Any], wire: str) -> ScriptedReply:
    """Look up the berth that the user names; ask back for one of which the user wants the code."""
    said = harbour.since_user(body)
    asked = harbour.text_of(said[0])
    if harbour.ASKED in asked:
        return harbour.asking_back(body, wire)
    query = "berth " + asked.partition("berth ")[2].partition(".")[0]
    calls = (Call("lookup", {"query": query}),) if len(said) == 1 else ()
    return ScriptedReply("I look." if calls else "Seen.", calls=calls)


@pytest.mark.parametrize("open_model", [anthropic_model, openai_model])
def test_a_planted_code_is_brought_back(open_model: Any) -> None:
    middleware = RehydrateMiddleware(budget=BUDGET)
    queries = [query_of(turn) for turn in range(16)]
    with StrictProvider(looking_up) as provider, open_model(provider) as model:
        agent = agent_of(model, middleware)
        for query in queries:
            agent.invoke(asking(f"Look at {query}."), config())
        last = harbour.messages_of(provider.requests[-1].body or {})
        query = harbour.forgotten(queries, last)
        state = agent.invoke(asking(f"{harbour.ASKED}{query}?"), config())
    assert provider.refusals == []
    assert harbour.code(query) in str(state["messages"][-1].content)
