"""RehydrateMiddleware with LangChain's own chat models, against the strict provider over HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import anyio
import pytest

from rehydrate import Budget

pytest.importorskip("langchain.agents", reason="langchain is not installed")

from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver

from rehydrate.integrations.langchain import RehydrateMiddleware
from tests.integrations.agents import STEPS, lookup, question, words

strict = pytest.importorskip("tests.provider")

TURNS = 50
BUDGET = Budget(soft_tokens=12_000)
CONFIG: Any = {"configurable": {"thread_id": "t-1"}, "recursion_limit": 100}


def chat_anthropic(provider: Any) -> Any:
    package = pytest.importorskip("langchain_anthropic", reason="langchain-anthropic is missing")
    return package.ChatAnthropic(
        model="claude-opus-4-6", api_key="key", base_url=provider.url, max_retries=0
    )


def chat_openai(provider: Any, **options: Any) -> Any:
    package = pytest.importorskip("langchain_openai", reason="langchain-openai is missing")
    return package.ChatOpenAI(
        model="gpt-5.1", api_key="key", base_url=provider.openai_url, max_retries=0, **options
    )


def responses(provider: Any) -> Any:
    return chat_openai(provider, use_responses_api=True)


def middleware_of(chat: Callable[[Any], Any]) -> list[Any]:
    """Return what an agent of the model needs, so that its provider keeps a cache."""
    if chat is not chat_anthropic:
        return []
    caching = pytest.importorskip("langchain_anthropic.middleware")
    return [caching.AnthropicPromptCachingMiddleware()]


def said_in(body: Mapping[str, Any]) -> list[str]:
    """Return the messages of a request, without marks of the cache."""

    def plain(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: plain(part) for key, part in value.items() if key != "cache_control"}
        if isinstance(value, list):
            return [plain(part) for part in value]
        return value

    messages = body.get("messages", body.get("input"))
    return [json.dumps(plain(_as_blocks(message)), sort_keys=True) for message in messages]


def _as_blocks(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """A text that is marked becomes a list of one block."""
    content = message.get("content")
    if isinstance(content, str):
        return {**message, "content": [{"type": "text", "text": content}]}
    return message


def breaks(requests: list[list[str]]) -> int:
    pairs = zip(requests, requests[1:], strict=False)
    return sum(later[: len(earlier)] != earlier for earlier, later in pairs)


def respond(count: list[int]) -> Callable[..., Any]:
    """Return a responder that looks three things up, then answers."""

    def reply(request: Mapping[str, Any], wire: str) -> Any:
        call = count[0]
        count[0] += 1
        if call % STEPS != STEPS - 1:
            asked = strict.Call("lookup", {"query": f"b{call}"})
            return strict.ScriptedReply(f"I look at {call}.", calls=(asked,))
        return strict.ScriptedReply(f"Answer {call}: {words(f'a{call}', 40)}")

    return reply


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("chat", [chat_anthropic, chat_openai, responses])
def test_200_calls_are_accepted_and_read_from_the_providers_cache(
    chat: Callable[[Any], Any], is_async: bool
) -> None:
    with strict.StrictProvider(respond([0])) as provider:
        middleware = RehydrateMiddleware(budget=BUDGET)
        agent = create_agent(
            chat(provider),
            [lookup],
            system_prompt=f"You are the harbour's assistant. {words('rules', 900)}",
            middleware=[*middleware_of(chat), middleware],
            checkpointer=InMemorySaver(),
        )

        async def run() -> Any:
            state = None
            for turn in range(TURNS):
                state = await agent.ainvoke({"messages": [question(turn)]}, CONFIG)
            return state

        if is_async:
            state = anyio.run(run)
        else:
            for turn in range(TURNS):
                state = agent.invoke({"messages": [question(turn)]}, CONFIG)
    assert provider.refusals == provider.overflows == []
    assert len(provider.requests) == TURNS * STEPS
    thread = middleware.thread(CONFIG, state["messages"])
    sent = [said_in(exchange.body or {}) for exchange in provider.requests]
    assert breaks(sent) == thread.context.usage.compactions > 1
    assert provider.usage.read > 2 * (provider.usage.prompt - provider.usage.read)
    assert thread.context.provider == ("anthropic" if chat is chat_anthropic else "openai_chat")
