"""RehydrateHook and RehydrateProxyHook in the real LiteLLM, against the strict provider."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import warnings
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from rehydrate import Budget

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # it asks the network otherwise
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its own imports
    litellm = pytest.importorskip("litellm", reason="litellm is not installed")

from rehydrate.integrations.adapter import Scope
from rehydrate.integrations.litellm import (
    RehydrateHook,
    RehydrateProxyHook,
    RehydrateWarning,
    scope_of,
)
from tests.integrations import harbour
from tests.provider import StrictProvider

pytestmark = pytest.mark.filterwarnings("ignore")  # LiteLLM's own, of what it imports late

BUDGET = Budget(soft_tokens=3_000)
LOOKUP = {
    "type": "function",
    "function": {
        "name": "lookup",
        "description": "Look something up in the harbour's books.",
        "parameters": {"type": "object", "properties": {"query": {"type": "string"}}},
    },
}
Ask = Callable[[list[Any]], Awaitable[Any]]


@pytest.fixture
def hook() -> Iterator[RehydrateHook]:
    hook = RehydrateHook(budget=BUDGET)
    before = list(litellm.callbacks)
    litellm.callbacks.append(hook)
    yield hook
    litellm.callbacks[:] = before


async def talk(ask: Ask, turns: int) -> list[Any]:
    """Have a conversation as a client has it, with all its messages; return them."""
    messages: list[Any] = [{"role": "system", "content": harbour.INSTRUCTIONS}]
    for turn in range(turns):
        messages.append({"role": "user", "content": harbour.question(turn)})
        while True:
            said = (await ask(messages)).choices[0].message
            calls = [call.model_dump() for call in said.tool_calls or ()]
            more = {"tool_calls": calls} if calls else {}
            messages.append({"role": "assistant", "content": said.content, **more})
            if not calls:
                break
            for call in calls:
                found = harbour.looked_up(json.loads(call["function"]["arguments"])["query"])
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": found})
    return messages


def inputs_of(provider: StrictProvider) -> list[list[Any]]:
    return [harbour.messages_of(exchange.body or {}) for exchange in provider.requests]


def asks(provider: StrictProvider, model: str, **options: Any) -> Ask:
    base = provider.url if model.startswith("anthropic") else provider.openai_url

    async def ask(messages: list[Any]) -> Any:
        return await litellm.acompletion(
            model=model,
            messages=messages,
            tools=[LOOKUP],
            api_base=base,
            api_key="key",
            max_tokens=500,
            **options,
        )

    return ask


@pytest.mark.parametrize("model", ["openai/gpt-5.1", "anthropic/claude-opus-4-6"])
def test_turns_of_a_program_are_accepted_and_break_the_prefix_at_compactions_only(
    model: str, hook: RehydrateHook
) -> None:
    turns = 20
    with StrictProvider(harbour.reply) as provider:
        messages = asyncio.run(talk(asks(provider, model), turns))
    assert provider.refusals == provider.overflows == []
    inputs = inputs_of(provider)
    assert len(inputs) == 2 * turns
    assert harbour.breaks(inputs) == hook.report.compactions > 1
    assert len(inputs[-1]) < len(messages) * 0.75
    assert max(exchange.billed.prompt for exchange in provider.requests) < 2 * BUDGET.soft_tokens


def test_conversations_at_once_keep_their_threads(hook: RehydrateHook) -> None:
    async def both(provider: StrictProvider) -> None:
        await asyncio.gather(
            *[
                talk(asks(provider, "openai/gpt-5.1", metadata={"session_id": name}), 6)
                for name in ("one", "two", "three")
            ]
        )

    with StrictProvider(harbour.reply) as provider:
        asyncio.run(both(provider))
    assert provider.refusals == []
    assert not hook.report.is_rebuilt


def test_a_failure_sends_the_messages_as_they_are() -> None:
    hook = RehydrateHook(budget=Budget(soft_tokens=20, hard_tokens=20))
    messages = [{"role": "user", "content": harbour.question(0)}]
    call = {"model": "gpt-5.1", "messages": messages}
    with pytest.warns(RehydrateWarning):
        sent = asyncio.run(hook.async_pre_call_deployment_hook(dict(call), "acompletion"))
    assert sent == call
    assert hook.report.failure


@pytest.mark.parametrize(
    "request_",
    [
        {"model": "m", "input": "text", "call": "aembedding"},
        {"model": "m", "messages": "no list", "call": "acompletion"},
        {"model": "m", "messages": [], "call": "acompletion"},
        {"model": "m", "messages": [{"role": "user", "content": "hi"}], "call": "aresponses"},
    ],
)
def test_other_requests_are_left_alone(request_: Mapping[str, Any]) -> None:
    hook, call = RehydrateProxyHook(), str(request_["call"])
    sent = asyncio.run(hook.async_pre_call_hook(None, None, dict(request_), call))
    assert sent == request_
    assert hook.report.new == 0


def test_a_request_without_messages_that_can_be_read_goes_on() -> None:
    hook = RehydrateProxyHook()
    odd = {"model": "m", "messages": [{"role": "robot", "content": 17}]}
    with pytest.warns(RehydrateWarning):
        assert asyncio.run(hook.async_pre_call_hook(None, None, dict(odd), "acompletion")) == odd


@pytest.mark.parametrize(
    ("request_", "thread"),
    [
        ({"metadata": {"session_id": "t-42", "trace_id": "r-1"}}, "t-42"),
        ({"litellm_metadata": {"thread_id": 7}, "user": "alice"}, "7"),
        ({"litellm_session_id": "s", "user": "alice"}, "s"),
        ({"user": "alice", "metadata": {"trace_id": "r-1"}}, "alice"),
        (
            {
                "metadata": {"session_id": "r-1"},
                "litellm_session_id": "r-1",
                "litellm_trace_id": "r-1",
                "user": "alice",
            },
            "alice",
        ),
        ({"metadata": None}, ""),
    ],
)
def test_what_names_a_conversation(request_: Mapping[str, Any], thread: str) -> None:
    assert scope_of({"model": "m", **request_}, "key") == Scope("m", thread, "key")


def test_what_is_sent_besides_the_messages_counts() -> None:
    class Berth(BaseModel):
        """A place for a ship."""

        number: int

    def tokens(**more: Any) -> int:
        hook = RehydrateProxyHook()
        call = {"model": "m", "messages": [{"role": "user", "content": "Hello."}], **more}
        asyncio.run(hook.async_pre_call_hook(None, None, call, "acompletion"))
        return hook.report.tokens

    assert tokens(response_format=Berth) > tokens() + 20
    assert tokens(functions=[LOOKUP["function"]]) > tokens() + 20


def test_clients_with_other_keys_share_nothing() -> None:
    class Key:
        def __init__(self, token: str) -> None:
            self.token = token

    hook = RehydrateProxyHook()

    async def send(key: str, messages: list[Any]) -> None:
        await hook.async_pre_call_hook(
            Key(key), None, {"model": "m", "messages": messages}, "acompletion"
        )

    async def both() -> list[int]:
        said = [{"role": "user", "content": "Hello."}]
        new = []
        for key, messages in (
            ("one", said),
            ("two", said),
            ("one", [*said, {"role": "assistant", "content": "Hi."}]),
        ):
            await send(key, messages)
            new.append(hook.report.new)
        return new

    assert asyncio.run(both()) == [1, 1, 1]


# -------------------------------------------------------------------------------------------- proxy

HANDLER = """\
from rehydrate import Budget
from rehydrate.integrations.litellm import RehydrateProxyHook

hook = RehydrateProxyHook(budget=Budget(soft_tokens=6_000))
"""


def test_a_client_of_the_proxy_needs_to_know_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = pytest.importorskip(
        "litellm.proxy.proxy_server",
        reason="litellm's proxy is not installed whole",
        exc_type=ImportError,
    )
    httpx, openai = pytest.importorskip("httpx"), pytest.importorskip("openai")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(litellm, "callbacks", [])
    (tmp_path / "harbour_hook.py").write_text(HANDLER, encoding="utf-8")

    async def go(provider: StrictProvider) -> None:
        parameters = {"model": "openai/gpt-5.1", "api_key": "key", "api_base": provider.openai_url}
        config = {
            "model_list": [{"model_name": "harbour", "litellm_params": parameters}],
            "litellm_settings": {"callbacks": "harbour_hook.hook"},
        }
        path = tmp_path / "config.yaml"
        path.write_text(json.dumps(config), encoding="utf-8")
        await server.initialize(config=str(path))
        transport = httpx.ASGITransport(server.app)
        async with (
            httpx.AsyncClient(transport=transport, base_url="http://proxy") as http,
            openai.AsyncOpenAI(
                api_key="sk-1", base_url="http://proxy/v1", http_client=http, max_retries=0
            ) as client,
        ):
            await talk(
                lambda messages: client.chat.completions.create(
                    model="harbour", messages=messages, tools=[LOOKUP]
                ),
                60,
            )

    with StrictProvider(harbour.reply) as provider:
        asyncio.run(go(provider))
    (hook,) = [each for each in litellm.callbacks if isinstance(each, RehydrateProxyHook)]
    sys.modules.pop("harbour_hook", None)
    assert provider.refusals == provider.overflows == []
    assert len(provider.requests) == 120
    assert harbour.breaks(inputs_of(provider)) == hook.report.compactions > 1
