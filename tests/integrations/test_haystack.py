"""RehydrateChatGenerator with the real Haystack and a scripted generator; strict as OpenAI is."""

from __future__ import annotations

import asyncio
import os
from itertools import count
from typing import Any

import pytest

from rehydrate import Budget, validate
from rehydrate.prompt import Caps
from tests.integrations import harbour

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
pytest.importorskip("haystack", reason="haystack-ai is not installed")

from haystack import Pipeline
from haystack.components.agents import Agent
from haystack.components.generators.chat import MockChatGenerator
from haystack.dataclasses import ChatMessage, ImageContent, ReasoningContent, ToolCall
from haystack.tools import create_tool_from_function

from rehydrate.integrations.haystack import CODEC, RehydrateChatGenerator, RehydrateWarning

BUDGET = Budget(soft_tokens=3_000)


def lookup(query: str) -> str:
    """Look something up in the harbour's books."""
    return harbour.looked_up(query)


LOOKUP = create_tool_from_function(lookup)


class Scripted(MockChatGenerator):
    """Calls `lookup` twice at once in a turn, then answers; without ids, as some models do."""

    def __init__(self, *, has_ids: bool = True) -> None:
        self.requests: list[list[ChatMessage]] = []
        numbers = count()

        def said(messages: list[ChatMessage]) -> ChatMessage:
            self.requests.append(list(messages))
            if messages[-1].tool_call_result is not None:
                return ChatMessage.from_assistant(harbour.words(str(len(messages)), 40))
            calls = [
                ToolCall("lookup", {"query": f"vault-{n * 7_919}"}, id=f"c{n}" if has_ids else None)
                for n in (next(numbers), next(numbers))
            ]
            thought = ReasoningContent("Look it up.")
            return ChatMessage.from_assistant("I look.", tool_calls=calls, reasoning=thought)

        super().__init__(response_fn=said)


def chats(messages: list[ChatMessage]) -> list[dict[str, Any]]:
    """Return the messages as OpenAI gets them, by Haystack's own conversion."""
    return [each.to_openai_dict_format(require_tool_call_ids=False) for each in messages]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("has_ids", [True, False])
def test_turns_with_tools_are_accepted_and_break_the_prefix_at_compactions_only(
    is_async: bool, has_ids: bool
) -> None:
    inner = Scripted(has_ids=has_ids)
    generator = RehydrateChatGenerator(inner, budget=BUDGET)
    agent = Agent(chat_generator=generator, tools=[LOOKUP], system_prompt=harbour.INSTRUCTIONS)
    messages: list[ChatMessage] = []
    for turn in range(20):
        messages = [*messages, ChatMessage.from_user(harbour.question(turn))]
        ran = asyncio.run(agent.run_async(messages)) if is_async else agent.run(messages)
        messages = ran["messages"][1:]  # the agent adds its system prompt in each run
    assert generator.report.failure == ""
    requests = inner.requests
    assert len(requests) == 40
    assert harbour.breaks(requests) == generator.report.compactions > 0
    if has_ids:
        assert all(validate(chats(request), format="openai_chat") == [] for request in requests)
    assert len(requests[-1]) < len(messages) / 2
    assert [m.text for m in messages if m.is_from("user")] == list(map(harbour.question, range(20)))


def test_a_pipeline_with_it_is_written_and_read() -> None:
    pipeline = Pipeline()
    inner = MockChatGenerator("Berth 4.", model="mock-1")
    pipeline.add_component("chat", RehydrateChatGenerator(inner, budget=BUDGET, namespace="a"))
    read = Pipeline.loads(pipeline.dumps(), allowed_modules=["rehydrate.integrations.haystack"])
    ran = read.run({"chat": {"messages": [ChatMessage.from_user("Which berth?")]}})
    assert ran["chat"]["replies"][0].text == "Berth 4."
    generator: Any = read.get_component("chat")
    assert (generator.chat_generator.model, generator._options) == (
        "mock-1",
        {"budget": BUDGET, "namespace": "a"},
    )


def test_a_text_alone_is_passed_on() -> None:
    assert RehydrateChatGenerator(MockChatGenerator()).run("Hello.")["replies"][0].text == "Hello."


def test_a_long_result_is_shown_in_part_and_a_picture_in_it_stays() -> None:
    call = ToolCall("lookup", {"query": "q"}, id="c1")
    picture = ImageContent("aGk=", mime_type="image/png", validation=False)
    reported: Any = [harbour.words("x", 900), picture]
    messages = [
        ChatMessage.from_user("Look."),
        ChatMessage.from_assistant(tool_calls=[call]),
        ChatMessage.from_tool([*CODEC.parts(ChatMessage.from_user(reported[0])), picture], call),
    ]
    shown = RehydrateChatGenerator(MockChatGenerator(), caps=Caps(default_tokens=400))._shown(
        messages, None
    )
    assert shown[:2] == messages[:2]
    text, kept = shown[2].tool_call_result.result
    assert len(text.text) < len(reported[0]) / 2
    assert kept is picture


def test_a_result_of_several_texts_keeps_those_that_are_shown_whole() -> None:
    call = ToolCall("lookup", {"query": "q"}, id="c1")
    texts = ["exit 1", harbour.words("x", 900), "3 warnings"]
    parts = [part for text in texts for part in CODEC.parts(ChatMessage.from_user(text))]
    messages = [
        ChatMessage.from_user("Look."),
        ChatMessage.from_assistant(tool_calls=[call]),
        ChatMessage.from_tool(parts, call),
    ]
    shown = RehydrateChatGenerator(MockChatGenerator(), caps=Caps(default_tokens=400))._shown(
        messages, None
    )
    first, second, third = shown[2].tool_call_result.result
    assert (first.text, third.text) == (texts[0], texts[2])
    assert len(second.text) < len(texts[1]) / 2


def test_where_something_fails_the_messages_go_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = RehydrateChatGenerator(MockChatGenerator())

    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("broken")

    monkeypatch.setattr(CODEC, "entries_of", broken)
    with pytest.warns(RehydrateWarning, match="RuntimeError"):
        assert generator.run([ChatMessage.from_user("Hello?")])["replies"][0].text == "Hello?"
