"""RehydratePlugin with the real Strands Agents and a scripted model; strict as Converse is."""

from __future__ import annotations

import copy
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from rehydrate import Budget, validate
from rehydrate.prompt import Caps
from tests.integrations import harbour
from tests.provider import converse

pytest.importorskip("strands", reason="strands-agents is not installed")

from strands import Agent, tool
from strands.agent.conversation_manager import NullConversationManager
from strands.models import Model
from strands.vended_plugins.context_injector import ContextInjector

from rehydrate.integrations.strands_agents import RehydratePlugin, RehydrateWarning

BUDGET = Budget(soft_tokens=3_000)


@tool
def lookup(query: str) -> str:
    """Look something up in the harbour's books."""
    return harbour.looked_up(query)


def asked_for(number: int) -> str:
    return f"vault-{number * 7_919}"


class Scripted(Model):
    """Calls `lookup` once a turn, then answers; or calls what it is asked to."""

    def __init__(self, *scripted: Any) -> None:
        self.scripted = list(scripted)
        self.requests: list[dict[str, Any]] = []

    def get_config(self) -> Any:
        return {"model_id": "scripted"}

    def update_config(self, **_: Any) -> None:
        pass

    async def structured_output(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def stream(
        self, messages: Any, tool_specs: Any = None, system_prompt: Any = None, **_: Any
    ) -> AsyncIterator[Any]:
        sent = [{"role": each["role"], "content": each["content"]} for each in messages]
        tools = [{"toolSpec": each} for each in tool_specs or ()]
        self.requests.append(copy.deepcopy({"messages": sent, "toolConfig": {"tools": tools}}))
        has_result = any("toolResult" in block for block in sent[-1]["content"])
        scripted = self.scripted.pop(0) if self.scripted else None
        if scripted is None and not has_result:
            scripted = ("lookup", {"query": asked_for(len(self.requests))})
        yield {"messageStart": {"role": "assistant"}}
        if isinstance(scripted, tuple):
            name, arguments = scripted
            use = {"toolUseId": f"t{len(self.requests)}", "name": name}
            yield {"contentBlockStart": {"start": {"toolUse": use}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(arguments)}}}}
        else:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": scripted or "It is done."}}}
        yield {"contentBlockStop": {}}
        yield {
            "messageStop": {"stopReason": "tool_use" if isinstance(scripted, tuple) else "end_turn"}
        }


def agent_of(model: Scripted, rehydrate: RehydratePlugin, **options: Any) -> Agent:
    return Agent(
        model=model,
        tools=[lookup],
        plugins=[rehydrate],
        system_prompt=harbour.INSTRUCTIONS,
        conversation_manager=NullConversationManager(),
        callback_handler=None,
        **options,
    )


def test_turns_with_tools_are_accepted_and_break_the_prefix_at_compactions_only() -> None:
    rehydrate, model = RehydratePlugin(budget=BUDGET), Scripted()
    agent = agent_of(model, rehydrate)
    questions = [harbour.question(turn) for turn in range(25)]
    for asked in questions:
        agent(asked)
    assert rehydrate.report.failure == ""
    requests = [request["messages"] for request in model.requests]
    assert len(requests) == 50
    assert harbour.breaks(requests) == rehydrate.report.compactions > 0
    for request in model.requests:
        assert converse.refusal(request) is None
        assert validate(request["messages"], format="bedrock") == []
    assert len(requests[-1]) < len(agent.messages) / 2
    said = [each["content"][0].get("text") for each in agent.messages if each["role"] == "user"]
    assert [text for text in said if text] == questions, "the agent's messages are whole"
    assert not any("cachePoint" in block for each in requests[-1] for block in each["content"])


def test_the_hosts_own_cache_points_stay_in_joined_messages_too() -> None:
    model, point = Scripted(*["Yes."] * 3), {"cachePoint": {"type": "default"}}
    agent = agent_of(model, RehydratePlugin(budget=BUDGET))
    said = [{"text": "Berth 4 is free."}], [{"text": "Note it."}, point]
    agent.messages += [{"role": "user", "content": content} for content in said]
    agent("Which one is it?")
    (message,) = model.requests[-1]["messages"]
    assert [[*block] for block in message["content"]] == [
        *(["text"], ["text"], ["cachePoint"], ["text"]),
    ]
    agent("And the next?")
    assert model.requests[-1]["messages"][0] == message, "each call has copies of its own"


def test_the_model_asks_for_what_its_prompt_does_not_show() -> None:
    rehydrate, model = RehydratePlugin(budget=BUDGET), Scripted()
    agent = agent_of(model, rehydrate)
    for turn in range(25):
        agent(harbour.question(turn))
    model.scripted = [("request_context", {"query": f"the code of {asked_for(1)}"})]
    agent("Which code is it?")
    shown, asked = model.requests[-2]["messages"], model.requests[-1]["messages"]
    assert harbour.code(asked_for(1)) not in str(shown)
    assert harbour.code(asked_for(1)) in str(asked[-1])


def test_agents_of_one_plugin_share_nothing() -> None:
    rehydrate = RehydratePlugin(budget=BUDGET)
    models = [Scripted(), Scripted()]
    for number, model in enumerate(models):
        agent_of(model, rehydrate, agent_id=f"a{number}")(harbour.question(number))
    assert harbour.question(0) not in str(models[1].requests)


def test_a_long_result_is_capped_and_a_tool_of_the_hosts_own_stays() -> None:
    @tool
    def fetch_whole(handle: str) -> str:
        """The host's own."""
        return handle

    rehydrate = RehydratePlugin(caps=Caps(default_tokens=400))
    model = Scripted(("lookup", {"query": "xyz"}))
    agent = Agent(
        model=model,
        tools=[lookup, fetch_whole],
        plugins=[rehydrate],
        callback_handler=None,
        conversation_manager=NullConversationManager(),
    )
    agent("Look it up.")
    assert len(str(model.requests[-1]["messages"][-1])) < len(str(agent.messages[2]))
    assert agent.tool_registry.registry["fetch_whole"].tool_spec["description"] == "The host's own."


def test_where_something_fails_the_messages_go_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    rehydrate, model = RehydratePlugin(), Scripted("Hello.")
    agent = agent_of(model, rehydrate)

    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("broken")

    monkeypatch.setattr(rehydrate, "_sent", broken)
    with pytest.warns(RehydrateWarning, match="RuntimeError"):
        agent("Hello?")
    assert model.requests[0]["messages"] == [{"role": "user", "content": [{"text": "Hello?"}]}]


def test_a_turn_that_failed_leaves_two_messages_of_the_user_in_a_row() -> None:
    """Converse takes them as one; the agent's own list keeps both."""
    rehydrate, model = RehydratePlugin(budget=BUDGET), Scripted("Hello.", "Hello.")
    agent = agent_of(model, rehydrate, messages=[{"role": "user", "content": [{"text": "Hi?"}]}])
    agent("Hello?")
    assert rehydrate.report.failure == ""
    agent("Are you there?")
    (asked, *_) = model.requests[-1]["messages"]
    assert [block["text"] for block in asked["content"]] == ["Hi?", "Hello?"]
    assert converse.refusal(model.requests[-1]) is None
    assert harbour.breaks([each["messages"] for each in model.requests]) == 0


def test_what_another_plugin_adds_to_each_call_is_sent_and_is_no_part_of_the_history() -> None:
    rehydrate, model = RehydratePlugin(budget=BUDGET), Scripted()
    clock = ContextInjector(lambda _: f"It is {len(model.requests)} o'clock.", trigger="everyTurn")
    agent = Agent(
        model=model,
        tools=[lookup],
        plugins=[clock, rehydrate],
        conversation_manager=NullConversationManager(),
        callback_handler=None,
    )
    for turn in range(25):
        agent(harbour.question(turn))
    sent = []
    for number, request in enumerate(model.requests):
        assert converse.refusal(request) is None
        *content, last = request["messages"][-1]["content"]
        assert last["text"].strip() == f"It is {number} o'clock."
        sent.append([*request["messages"][:-1], {**request["messages"][-1], "content": content}])
    assert "o'clock" not in str(sent)
    assert harbour.breaks(sent) == rehydrate.report.compactions > 0
