"""RehydrateCapability with real agents, on scripted models and against the strict provider."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
import pytest

from rehydrate import Budget, compact_context, count_tokens

pytest.importorskip("pydantic_ai", reason="pydantic-ai-slim is not installed")

from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput, Tool
from pydantic_ai.capabilities import Hooks, ModelFallback
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import (
    BinaryContent,
    CompactionPart,
    FilePart,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    NativeToolReturnPart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    ToolSearchCallPart,
    ToolSearchReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.profiles.google import GoogleModelProfile

from rehydrate.integrations.pydantic_ai import (
    CODEC,
    RehydrateCapability,
)
from tests.integrations import harbour
from tests.integrations.agent_laws import AgentLaws, Script, Seen, Talked, lookup
from tests.integrations.codec_cases import shown_of
from tests.provider import StrictProvider

BUDGET = Budget(soft_tokens=3_000)
TURNS = 15


def run(agent: Agent, asked: str, **options: Any) -> Any:
    """Run an agent; its `run_sync` leaves an event loop open."""
    return anyio.run(partial(agent.run, asked, **options))


def faults(messages: list[ModelMessage]) -> list[str]:
    """Return what a provider would refuse: calls and returns that aren't pairs, no user."""
    found, waiting = [], set[str]()
    if not isinstance(messages[0], ModelRequest):
        found.append("the first message is a response")
    for index, message in enumerate(messages):
        if isinstance(message, ModelResponse):
            found += [f"{index}: unanswered {waiting}"] * bool(waiting)
            waiting = {part.tool_call_id for part in message.parts if part.part_kind == "tool-call"}
            continue
        for part in message.parts:
            if isinstance(part, ToolReturnPart):
                found += [f"{index}: no call"] * (part.tool_call_id not in waiting)
                waiting.discard(part.tool_call_id)
    return found + ["the end is unanswered"] * bool(waiting)


def as_sent(message: ModelMessage) -> str:
    """Return what of a message is sent."""
    fields = ("content", "args", "tool_call_id", "part_kind")
    return repr([[getattr(part, name, None) for name in fields] for part in message.parts])


class Scripted:
    """A model of two calls at once, then an answer. It refuses what a provider would refuse."""

    def __init__(self) -> None:
        self.seen: list[list[ModelMessage]] = []

    def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        assert faults(messages) == []
        self.seen.append(list(messages))
        number = len(self.seen)
        if isinstance(messages[-1].parts[-1], ToolReturnPart):
            return ModelResponse([TextPart(f"Answer: {harbour.words(f'a{number}', 40)}")])
        calls = [
            ToolCallPart("lookup", {"query": f"{name}{number}"}, tool_call_id=f"{name}{number}")
            for name in ("b", "c")
        ]
        return ModelResponse([TextPart(f"I look at {number}."), *calls])

    @property
    def sent(self) -> list[list[str]]:
        return [list(map(as_sent, messages)) for messages in self.seen]


def test_turns_break_the_prefix_at_compactions_only_and_keep_the_history() -> None:
    model, rehydrate = Scripted(), RehydrateCapability(budget=BUDGET)
    agent = Agent(
        FunctionModel(model),
        capabilities=[rehydrate],
        system_prompt=harbour.INSTRUCTIONS,
        tools=[lookup],
    )
    history: list[ModelMessage] = []
    for turn in range(TURNS):
        history = run(agent, harbour.question(turn), message_history=history).all_messages()
    assert len(model.seen) == 2 * TURNS
    assert len(history) == 4 * TURNS
    assert faults(history) == []
    assert harbour.breaks(model.sent) == rehydrate.report.compactions > TURNS / 40
    known = set(map(id, history))
    shown = model.seen[-1]
    assert sum(id(message) in known for message in shown) > len(shown) / 2
    assert len(shown) < 100


class TestAgent(AgentLaws):
    def talk(
        self,
        script: Script,
        *said: str,
        tools: Sequence[Callable[..., str]] = (lookup,),
        instructions: str = harbour.INSTRUCTIONS,
        **options: Any,
    ) -> Talked:
        offered: list[str] = []

        def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            offered[:] = [each.name for each in info.function_tools]
            part, shown = messages[-1].parts[-1], "".join(map(as_sent, messages))
            is_result = isinstance(part, ToolReturnPart)
            answer = script(Seen(str(part.content), is_result, shown))
            is_answer = isinstance(answer, str)
            return ModelResponse([TextPart(answer) if is_answer else ToolCallPart(*answer)])

        ours = RehydrateCapability(**options)
        agent = Agent(
            FunctionModel(model), capabilities=[ours], tools=list(tools), instructions=instructions
        )
        history: list[ModelMessage] = []
        for each in said:
            result = run(agent, each, message_history=history)
            history = result.all_messages()
        parts = [part for message in history for part in message.parts]
        kept = "".join(str(getattr(part, "content", "")) for part in parts)
        return Talked(str(result.output), ours.report, kept, offered)


def test_tools_that_were_found_stay_there() -> None:
    """The framework reads which tools there are from the messages that are sent."""
    offered: list[set[str]] = []

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        assert faults(messages) == []
        offered.append({each.name for each in info.function_tools})
        number = len(offered)
        if number == 1:
            return ModelResponse([ToolCallPart("search_tools", {"queries": ["look"]})])
        if isinstance(messages[-1].parts[-1], ToolReturnPart) and number > 2:
            return ModelResponse([TextPart(f"Answer: {harbour.words(f'a{number}', 40)}")])
        return ModelResponse([ToolCallPart("look", {"query": f"b{number}"})])

    def look(query: str) -> str:
        return harbour.looked_up(query)

    rehydrate = RehydrateCapability(budget=Budget(soft_tokens=800))
    agent = Agent(
        FunctionModel(model), capabilities=[rehydrate], tools=[Tool(look, defer_loading=True)]
    )
    history: list[ModelMessage] = []
    for turn in range(TURNS):
        history = run(agent, harbour.question(turn), message_history=history).all_messages()
    assert rehydrate.report.compactions > 3
    assert rehydrate.report.failure == ""
    assert all("look" in each for each in offered[1:])


def test_a_search_for_tools_is_sent_whole_whatever_a_prompt_shows_of_it() -> None:
    found = ToolSearchReturnPart(content={"discovered_tools": [{"name": "a", "description": None}]})
    search = ToolSearchCallPart(args={"queries": ["a"]}, tool_call_id=found.tool_call_id)
    messages: list[ModelMessage] = [
        ModelRequest([UserPromptPart("Go on.")]),
        ModelResponse([ThinkingPart("A tool?", signature="c2ln"), search]),
        ModelRequest([found, UserPromptPart("And?")]),
    ]
    entries = CODEC.entries_of(messages)
    for shown in (shown_of(entries, 3), shown_of(entries, 0, 1, 2, 3, e2={"content": "{..."})):
        *_, asked, answered = CODEC.picked(messages, entries, shown)
        assert asked.parts[-1] is search
        assert answered is messages[2]
    first, asked, _ = CODEC.picked(messages, entries, shown_of(entries, 3))
    assert isinstance(first, ModelRequest)
    assert asked.parts == [search]


def test_a_model_that_another_one_stands_in_for_asks_back() -> None:
    def broken(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        raise ModelHTTPError(500, "first")

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        last = messages[-1].parts[-1]
        if isinstance(last, ToolReturnPart):
            return ModelResponse([TextPart(str(last.content))])
        return ModelResponse([ToolCallPart("request_context", {"query": "the tide"})])

    second = ModelFallback(FunctionModel(model, model_name="second"))
    first = FunctionModel(broken, model_name="first")
    agent = Agent(first, capabilities=[second, RehydrateCapability()])
    answer = run(agent, "When is the tide?").output
    assert "Nothing was found" in answer, answer


def test_a_request_that_another_capability_changed_is_asked_about() -> None:
    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        last = messages[-1].parts[-1]
        if isinstance(last, ToolReturnPart):
            return ModelResponse([TextPart(str(last.content))])
        return ModelResponse([ToolCallPart("request_context", {"query": "the tide"})])

    async def described(ctx: Any, request_context: Any) -> Any:
        request = ModelRequest([UserPromptPart("When is the tide? (A picture of the quay.)")])
        return replace(request_context, messages=[request, *request_context.messages[1:]])

    hooks = Hooks(prepare_model_request=described)
    agent = Agent(FunctionModel(model), capabilities=[hooks, RehydrateCapability()])
    answer = run(agent, ["When is the tide?", IMAGE]).output
    assert "Nothing was found" in answer, answer


class Berth(BaseModel):
    """A place for a ship."""

    number: int


def test_what_is_offered_counts_and_what_is_hidden_does_not() -> None:
    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse([TextPart('{"number": 4}')])

    def look(query: str) -> str:
        return query

    about = harbour.words("about", 400)
    Berth.__doc__ = about

    def tokens(**options: Any) -> int:
        rehydrate = RehydrateCapability()
        run(Agent(FunctionModel(model), capabilities=[rehydrate], **options), "Hello.")
        return rehydrate.report.tokens

    plain = tokens()
    assert tokens(tools=[Tool(look, description=about)]) > plain + 350
    assert tokens(tools=[Tool(look, description=about, defer_loading=True)]) < plain + 350
    assert tokens(output_type=NativeOutput(Berth)) > plain


@pytest.mark.parametrize("output", [NativeOutput(Berth), str])
def test_gemini_2_gets_no_functions_beside_its_own_tools_or_a_schema(output: Any) -> None:
    offered: list[str] = []

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        offered[:] = [each.name for each in info.function_tools]
        return ModelResponse([TextPart('{"number": 4}')])

    for takes_both in (True, False):
        profile = GoogleModelProfile(
            supports_json_schema_output=True, google_supports_tool_combination=takes_both
        )
        agent = Agent(
            FunctionModel(model, profile=profile),
            capabilities=[RehydrateCapability()],
            output_type=output,
        )
        run(agent, "Hello.")
        assert bool(offered) == (takes_both or output is str)


# --------------------------------------------------------------------------------------- messages


IMAGE = ImageUrl("https://example.com/crane.png")
MESSAGES: list[ModelMessage] = [
    ModelRequest(
        [
            SystemPromptPart("Be brief."),
            UserPromptPart(["Look.", IMAGE, BinaryContent(b"pdf", media_type="application/pdf")]),
        ]
    ),
    ModelResponse(
        [
            ThinkingPart("Two of them.", signature="c2ln"),
            TextPart("I look."),
            ToolCallPart("lookup", {"query": "b"}, tool_call_id="c1"),
            ToolCallPart("lookup", '{"query": "c"}', tool_call_id="c2"),
        ]
    ),
    ModelRequest(
        [
            ToolReturnPart("lookup", "found", tool_call_id="c1"),
            ToolReturnPart("lookup", "not so", tool_call_id="c2", outcome="retried"),
            UserPromptPart("And?"),
        ]
    ),
    ModelResponse([TextPart("Four."), TextPart("Or five.")]),
]


def test_half_a_surrogate_pair_in_arguments_and_results_is_read() -> None:
    call = ToolCallPart("look", {"a": "x\ud83d"}, "c1")
    back = ToolReturnPart("look", {"a": "y\ud83d"}, "c1")
    asked, answered = CODEC.entries_of([ModelResponse([call]), ModelRequest([back])])
    (made,) = asked.chat["tool_calls"]
    assert made["function"]["arguments"] == '{"a":"x\ud83d"}'
    assert answered.chat["content"] == '{"a":"y\ud83d"}'


def test_messages_become_chat_dicts_one_for_each_part() -> None:
    entries = CODEC.entries_of(MESSAGES)
    assert [(entry.message, entry.part) for entry in entries] == [
        *((0, 0), (0, 1), (1, None), (2, 0), (2, 1), (2, 2), (3, None)),
    ]
    roles = [entry.chat["role"] for entry in entries]
    assert roles == ["system", "user", "assistant", "tool", "tool", "user", "assistant"]
    said = entries[2].chat
    assert said["content"] == "I look."
    assert said["reasoning_content"] == "Two of them."
    assert [call["id"] for call in said["tool_calls"]] == ["c1", "c2"]
    assert [call["function"]["arguments"] for call in said["tool_calls"]] == [
        *('{"query":"b"}', '{"query":"c"}'),
    ]
    assert [part["type"] for part in entries[1].chat["content"]] == ["text", "image_url", "file"]
    json.dumps([entry.chat for entry in entries])


def pick(*indices: int | str, **changed: Any) -> list[ModelMessage]:
    entries = CODEC.entries_of(MESSAGES)
    return CODEC.picked(MESSAGES, entries, shown_of(entries, *indices, **changed))


def test_whole_messages_are_the_very_objects() -> None:
    assert all(a is b for a, b in zip(pick(*range(7)), MESSAGES, strict=True))


def test_files_of_any_part_count_once_and_never_as_text() -> None:
    png = BinaryContent(b"\x89PNG" * 50_000, media_type="image/png")
    parts: list[Any] = [
        FilePart(png),
        NativeToolReturnPart("draw", {"image": png}, tool_call_id="c"),
        NativeToolReturnPart("draw", {"b64_json": "iVBO" * 20_000}, tool_call_id="c"),
        NativeToolReturnPart("draw", [{"inside": [png]}], tool_call_id="c"),
    ]
    for part in parts:
        (entry,) = CODEC.entries_of([ModelResponse([part])])
        assert 1_600 <= count_tokens([entry.chat]) < 1_620
    for asked in (UserPromptPart([png]), ToolReturnPart("shot", [png], tool_call_id="c")):
        (entry,) = CODEC.entries_of([ModelRequest([asked])])
        assert 1_600 <= count_tokens([entry.chat]) < 1_620
    seen = NativeToolReturnPart("search", {"title": "The ferry leaves at noon."}, tool_call_id="c")
    (entry,) = CODEC.entries_of([ModelResponse([seen])])
    assert count_tokens([entry.chat]) == count_tokens("The ferry leaves at noon.")


def test_a_return_of_any_depth_is_read_and_what_is_far_down_is_a_text() -> None:
    deep: Any = "The ferry leaves at noon."
    for _ in range(900):
        deep = {"inside": [deep]}
    for value in (deep, [deep, "and returns at four"]):
        found = NativeToolReturnPart("search", value, tool_call_id="c")
        (entry,) = CODEC.entries_of([ModelResponse([found])])
        assert 100 < count_tokens([entry.chat]) < 10_000


def test_a_reply_with_a_file_is_shown_in_part() -> None:
    png = BinaryContent(b"png", media_type="image/png")
    said = ModelResponse([TextPart("One."), FilePart(png), TextPart("Two.")])
    entries = CODEC.entries_of([said])
    content = entries[0].chat["content"]
    shown = {"content": [content[0], content[1], {"type": "text", "text": "T"}]}
    (made,) = CODEC.picked([said], entries, shown_of(entries, 0, e0=shown))
    assert [getattr(part, "content", None) for part in made.parts] == ["One.", png, "T"]


def test_a_compaction_of_the_provider_stays_whatever_goes() -> None:
    compaction = CompactionPart("Summary of what was.", provider_name="anthropic")
    said: list[ModelMessage] = [
        ModelRequest([UserPromptPart("Old question. " * 40)]),
        ModelResponse([compaction, TextPart("We go on.")]),
    ]
    for number in range(30):
        said.append(ModelRequest([UserPromptPart(f"Question {number}? " * 20)]))
        said.append(ModelResponse([TextPart(f"Answer {number}. " * 30)]))
    said.append(ModelRequest([UserPromptPart("And now?")]))
    chats = [entry.chat for entry in CODEC.entries_of(said)]
    for ratio in (0.05, 0.2, 0.5):
        kept = compact_context(chats, target_ratio=ratio)
        assert kept.stats.changed
        assert 1 in kept.indices


def test_a_part_of_a_request_may_be_left_out() -> None:
    first, *rest = pick(0, 2, 3, 4, 6)
    assert first.parts == MESSAGES[0].parts[:1]
    assert rest[0] is MESSAGES[1]
    assert rest[1].parts == MESSAGES[2].parts[:2]


def test_a_section_is_in_the_request_that_it_is_before() -> None:
    made = pick(0, 1, 2, 3, 4, "Remember.", 5, "Later.", 6, "Last.")
    assert [part.content for part in made[2].parts][-2:] == ["Remember.", "And?"]
    assert [part.content for part in made[3].parts] == ["Later."]
    assert made[4] is MESSAGES[3]
    assert [part.content for part in made[5].parts] == ["Last."]


def test_what_a_prompt_shows_in_part_is_a_changed_copy() -> None:
    made = pick(
        *range(7),
        e1={
            "content": [
                {"type": "text", "text": "L"},
                *CODEC.entries_of(MESSAGES)[1].chat["content"][1:],
            ]
        },
        e3={"content": "f..."},
        e6={"content": [{"type": "text", "text": "Four."}, {"type": "text", "text": "Or"}]},
    )
    assert made[0].parts[1].content == ["L", *MESSAGES[0].parts[1].content[1:]]
    assert made[2].parts[0].content == "f..."
    assert made[2].parts[0].tool_call_id == "c1"
    assert [part.content for part in made[3].parts] == ["Four.", "Or"]
    assert MESSAGES[2].parts[0].content == "found"


def test_an_error_that_is_cut_is_marked_once() -> None:
    failed = ToolReturnPart("lookup", "broken " * 900, tool_call_id="c1", outcome="failed")
    (entry,) = entries = CODEC.entries_of([ModelRequest([failed])])
    cut = {"content": entry.chat["content"][:6]}
    (made,) = CODEC.picked([ModelRequest([failed])], entries, shown_of(entries, 0, e0=cut))
    assert made.parts[0].model_response_str() == '{"error":"broken"}'


def test_thinking_that_a_prompt_drops_is_dropped() -> None:
    shown = shown_of(CODEC.entries_of(MESSAGES), 2)
    for key in ("thinking_blocks", "reasoning_content"):
        del shown[0].message[key]
    (made,) = CODEC.picked(MESSAGES, CODEC.entries_of(MESSAGES), shown)
    assert made.parts == MESSAGES[1].parts[1:]


# --------------------------------------------------------------------------------------- providers


@asynccontextmanager
async def chat(provider: StrictProvider) -> AsyncIterator[Any]:
    openai = pytest.importorskip("openai")
    module = pytest.importorskip("pydantic_ai.models.openai")
    providers = pytest.importorskip("pydantic_ai.providers.openai")
    options = {"api_key": "key", "base_url": provider.openai_url, "max_retries": 0}
    async with openai.AsyncOpenAI(**options) as client:
        yield module.OpenAIChatModel(
            "gpt-5.1", provider=providers.OpenAIProvider(openai_client=client)
        )


@asynccontextmanager
async def responses(provider: StrictProvider) -> AsyncIterator[Any]:
    openai = pytest.importorskip("openai")
    module = pytest.importorskip("pydantic_ai.models.openai")
    providers = pytest.importorskip("pydantic_ai.providers.openai")
    options = {"api_key": "key", "base_url": provider.openai_url, "max_retries": 0}
    async with openai.AsyncOpenAI(**options) as client:
        yield module.OpenAIResponsesModel(
            "gpt-5.1", provider=providers.OpenAIProvider(openai_client=client)
        )


@asynccontextmanager
async def anthropic(provider: StrictProvider) -> AsyncIterator[Any]:
    sdk = pytest.importorskip("anthropic")
    module = pytest.importorskip("pydantic_ai.models.anthropic")
    providers = pytest.importorskip("pydantic_ai.providers.anthropic")
    options = {"api_key": "key", "base_url": provider.url, "max_retries": 0}
    async with sdk.AsyncAnthropic(**options) as client:
        yield module.AnthropicModel(
            "claude-opus-4-6", provider=providers.AnthropicProvider(anthropic_client=client)
        )


@pytest.mark.parametrize("open_model", [chat, responses, anthropic])
def test_turns_are_accepted_by_a_strict_provider(open_model: Callable[..., Any]) -> None:
    rehydrate = RehydrateCapability(budget=BUDGET)

    async def go(provider: StrictProvider) -> None:
        async with open_model(provider) as model:
            agent = Agent(
                model,
                capabilities=[rehydrate],
                instructions=harbour.INSTRUCTIONS,
                tools=[lookup],
            )
            history: list[ModelMessage] = []
            for turn in range(12):
                result = await agent.run(harbour.question(turn), message_history=history)
                history = result.all_messages()

    with StrictProvider(harbour.reply) as provider:
        anyio.run(go, provider)
    assert provider.refusals == provider.overflows == []
    assert len(provider.requests) == 24
    inputs = [harbour.messages_of(exchange.body or {}) for exchange in provider.requests]
    assert harbour.breaks(inputs) == rehydrate.report.compactions > 0
