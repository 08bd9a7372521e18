"""RehydrateProvider in Agent Framework's real agents, against the strict provider."""

from __future__ import annotations

import json
import warnings
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from rehydrate import Budget, count_tokens

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its own imports
    pytest.importorskip("agent_framework", reason="agent-framework-core is not installed")
    from agent_framework import (
        Agent,
        BaseChatClient,
        ChatMiddlewareLayer,
        ChatResponse,
        ChatResponseUpdate,
        Content,
        FunctionInvocationLayer,
        InMemoryHistoryProvider,
        Message,
        tool,
    )

from rehydrate.integrations.agent_framework import (
    CODEC,
    RehydrateProvider,
    RehydrateWarning,
)
from rehydrate.integrations.host_thread import Shown
from tests.integrations import harbour
from tests.integrations.agent_laws import AgentLaws, Script, Seen, Talked, lookup
from tests.integrations.codec_cases import ODD, shown_of
from tests.provider import StrictProvider

pytestmark = pytest.mark.filterwarnings("ignore:(?!the messages were sent)")  # its own

BUDGET = Budget(soft_tokens=2_000)
TURNS = 16


def result(call_id: str, answer: Any) -> Content:
    return Content.from_function_result(call_id, result=answer)


def call(call_id: str, name: str, **arguments: Any) -> Content:
    return Content.from_function_call(call_id, name, arguments=arguments)


class Client(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):  # type: ignore[misc]
    """A chat client of the host's own layers."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[list[Message]] = []

    async def _respond(self, options: Mapping[str, Any]) -> list[Content]:
        raise NotImplementedError

    def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **_: Any) -> Any:
        async def respond() -> ChatResponse:
            self.seen.append(list(messages))
            said = await self._respond(options)
            return ChatResponse(messages=[Message("assistant", said)])

        async def updates() -> AsyncIterator[ChatResponseUpdate]:
            said = (await respond()).messages[0]
            for each in said.contents:
                yield ChatResponseUpdate(role="assistant", contents=[each])

        return self._build_response_stream(updates()) if stream else respond()


class Scripted(Client):
    """Answers by a function of the messages."""

    def __init__(self, respond: Callable[[list[Message]], list[Content]]) -> None:
        super().__init__()
        self._function = respond
        self.tools: list[str] = []

    async def _respond(self, options: Mapping[str, Any]) -> list[Content]:
        self.tools = [each.name for each in options.get("tools") or ()]
        return self._function(self.seen[-1])


class OnWire(Client):
    """Sends the messages to OpenAI's chat API, as agent-framework-openai does."""

    def __init__(self, openai: Any) -> None:
        super().__init__()
        self._openai = openai

    async def _respond(self, options: Mapping[str, Any]) -> list[Content]:
        system = [{"role": "system", "content": options["instructions"]}]
        tools = [each.to_json_schema_spec() for each in options["tools"]]
        sent = [each for message in self.seen[-1] for each in on_wire(message)]
        answer = await self._openai.chat.completions.create(
            model="gpt-5.1", messages=[*system, *sent], tools=tools
        )
        said = answer.choices[0].message
        calls = [
            Content.from_function_call(
                each.id, each.function.name, arguments=each.function.arguments
            )
            for each in said.tool_calls or ()
        ]
        return [Content.from_text(said.content), *calls] if said.content else calls


def on_wire(message: Message) -> list[dict[str, Any]]:
    """Return a message as the chat API has it."""
    if message.role == "tool":
        return [
            {"role": "tool", "tool_call_id": each.call_id, "content": each.result}
            for each in message.contents
        ]
    said: dict[str, Any] = {"role": message.role, "content": message.text or None}
    calls = [each for each in message.contents if each.type == "function_call"]
    if calls:
        said["tool_calls"] = [
            {
                "id": each.call_id,
                "type": "function",
                "function": {
                    "name": each.name,
                    "arguments": each.arguments
                    if isinstance(each.arguments, str)
                    else json.dumps(each.arguments),
                },
            }
            for each in calls
        ]
    return [said]


@asynccontextmanager
async def opened(provider: StrictProvider) -> AsyncIterator[Client]:
    openai = pytest.importorskip("openai")
    options = {"api_key": "key", "base_url": provider.openai_url, "max_retries": 0}
    async with openai.AsyncOpenAI(**options) as client:
        yield OnWire(client)


def agent_of(client: Client, *providers: Any, **options: Any) -> Agent:
    options = {"instructions": harbour.INSTRUCTIONS, "tools": [tool(lookup)], **options}
    return Agent(client=client, name="harbour", context_providers=list(providers), **options)


def stored(session: Any) -> list[Message]:
    return list(session.state["in_memory"]["messages"])


async def talk(agent: Agent, said: Sequence[str]) -> tuple[str, Any]:
    """Return the last answer, and the session."""
    session, answer = agent.create_session(), ""
    for each in said:
        answer = (await agent.run(each, session=session)).text
    return answer, session


def run(agent: Agent, *said: str) -> tuple[str, Any]:
    return anyio.run(talk, agent, said)


def test_turns_are_accepted_and_break_the_prefix_at_compactions_only() -> None:
    keeper = RehydrateProvider(budget=BUDGET)

    async def go(provider: StrictProvider) -> tuple[Client, Any]:
        async with opened(provider) as client:
            questions = list(map(harbour.question, range(TURNS)))
            return client, (await talk(agent_of(client, keeper), questions))[1]

    with StrictProvider(harbour.reply) as provider:
        client, session = anyio.run(go, provider)
    assert provider.refusals == provider.overflows == []
    assert len(provider.requests) == 2 * TURNS
    inputs = [harbour.messages_of(exchange.body or {}) for exchange in provider.requests]
    assert harbour.breaks(inputs) == keeper.report.compactions > 1
    whole = stored(session)
    assert len(whole) == 4 * TURNS
    assert len(client.seen[-1]) < len(whole) / 2
    texts = [each.text for each in whole]
    assert all(each in texts for each in map(harbour.question, range(TURNS)))
    assert not any(each.additional_properties.get("_excluded") for each in whole)


def test_two_results_in_one_message_stay_with_their_calls() -> None:
    def respond(messages: list[Message]) -> list[Content]:
        if messages[-1].role == "tool":
            return [
                Content.from_text(f"Answer: {harbour.words(messages[-1].contents[0].result, 40)}")
            ]
        asked = harbour.words(messages[-1].text, 2)
        return [call(f"{each}{asked}", "lookup", query=f"{each} {asked}") for each in ("b", "c")]

    client, keeper = Scripted(respond), RehydrateProvider(budget=BUDGET)
    run(agent_of(client, keeper), *map(harbour.question, range(14)))
    assert keeper.report.compactions > 1
    for messages in client.seen:
        waiting: set[str] = set()
        for message in messages:
            answered = {e.call_id for e in message.contents if e.type == "function_result"}
            assert answered == waiting
            waiting = {e.call_id for e in message.contents if e.type == "function_call"}
        assert not waiting


def test_a_list_of_messages_that_goes_on_needs_no_session() -> None:
    client = Scripted(lambda messages: [Content.from_text(harbour.words(messages[-1].text, 300))])
    keeper = RehydrateProvider(budget=BUDGET)
    agent = agent_of(client, keeper)

    async def go() -> None:
        said: list[Message] = []
        for turn in range(15):
            said.append(Message("user", [harbour.question(turn)]))
            said += (await agent.run(list(said))).messages

    anyio.run(go)
    sent = [[each.text for each in messages] for messages in client.seen]
    assert harbour.breaks(sent) == keeper.report.compactions > 0
    assert not keeper.report.is_rebuilt


def test_a_stream_gets_the_same_prompts() -> None:
    def respond(messages: list[Message]) -> list[Content]:
        if messages[-1].role == "tool":
            return [Content.from_text("Well.")]
        return [call(f"c{len(messages)}", "lookup", query=harbour.words(messages[-1].text, 2))]

    async def go(client: Client, is_stream: bool) -> None:
        agent = agent_of(client, RehydrateProvider(budget=BUDGET))
        session = agent.create_session()
        for turn in range(10):
            running = agent.run(harbour.question(turn), session=session, stream=is_stream)
            if is_stream:
                assert [update.text async for update in running][-1] == "Well."
            else:
                await running

    sent = []
    for is_stream in (False, True):
        client = Scripted(respond)
        anyio.run(go, client, is_stream)
        sent.append([[on_wire(each) for each in messages] for messages in client.seen])
    assert sent[0] == sent[1]
    assert len(sent[0][-1]) < 70  # of 78


class TestAgent(AgentLaws):
    def talk(
        self,
        script: Script,
        *said: str,
        tools: Sequence[Callable[..., str]] = (lookup,),
        instructions: str = harbour.INSTRUCTIONS,
        **options: Any,
    ) -> Talked:
        def respond(messages: list[Message]) -> list[Content]:
            last, shown = messages[-1], "".join(json.dumps(each.to_dict()) for each in messages)
            if is_result := last.role == "tool":
                assert last.contents[0].items[0].text == last.contents[0].result
            text = last.contents[0].result if is_result else last.text
            answer = script(Seen(text, is_result, shown))
            if isinstance(answer, str):
                return [Content.from_text(answer)]
            return [call(f"c{len(client.seen)}", answer[0], **answer[1])]

        client, keeper = Scripted(respond), RehydrateProvider(**options)
        agent = agent_of(client, keeper, tools=list(map(tool, tools)), instructions=instructions)
        answer, session = run(agent, *said)
        kept = [str(each.result) for message in stored(session) for each in message.contents]
        return Talked(answer, keeper.report, "".join(kept), client.tools)


def test_a_tool_of_the_same_name_stays_the_agents() -> None:
    @tool
    def request_context(query: str) -> str:
        """Ask the harbour master."""
        return "the master's answer"

    def respond(messages: list[Message]) -> list[Content]:
        if messages[-1].role == "tool":
            return [Content.from_text(messages[-1].contents[0].result)]
        return [call("c1", "request_context", query="berth 4")]

    agent = agent_of(Scripted(respond), RehydrateProvider(), tools=[request_context])
    assert run(agent, "Hello.")[0] == "the master's answer"


def test_a_service_that_holds_the_conversation_is_left_alone() -> None:
    client = Scripted(lambda messages: [Content.from_text("Hello.")])
    keeper = RehydrateProvider()
    agent = agent_of(client, keeper)
    anyio.run(lambda: agent.run("Hello.", options={"conversation_id": "conv_1"}))
    assert [each.text for each in client.seen[0]] == ["Hello."]
    assert keeper.report.new == 0


def test_a_conversation_that_begins_as_another_one_does_not_see_it() -> None:
    """Both share a context until one goes on; then the other's question is about its own."""
    asked, reported = anyio.Event(), anyio.Event()
    answers: list[str] = []

    class Waiting(Scripted):
        async def _respond(self, options: Mapping[str, Any]) -> list[Content]:
            said = await super()._respond(options)
            if said[0].type == "function_call":
                asked.set()
                await reported.wait()
            return said

    is_bob = False

    def respond(messages: list[Message]) -> list[Content]:
        if messages[-1].role == "tool":
            answers.append(messages[-1].contents[0].result)
            return [Content.from_text("Well.")]
        if is_bob:
            return [call("ask", "request_context", query="Question 3 " + harbour.words("q3", 8))]
        return [Content.from_text("Hello.")]

    async def go() -> None:
        nonlocal is_bob
        keeper = RehydrateProvider(budget=Budget(soft_tokens=1_500))
        agent = agent_of(Waiting(respond), keeper)
        ada, bob = agent.create_session(), agent.create_session()
        await agent.run("Hello.", session=ada)
        is_bob = True
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: agent.run("Hello.", session=bob))
            await asked.wait()
            is_bob = False
            for turn in range(30):
                await agent.run(harbour.question(turn), session=ada)
            assert keeper.report.compactions > 0
            reported.set()

    anyio.run(go)
    assert "Nothing was found" in answers[0]
    assert harbour.words("q3", 30) not in answers[0]


def test_a_history_that_is_loaded_after_the_providers_is_left_alone() -> None:
    keeper = RehydrateProvider(budget=Budget(soft_tokens=1_500))
    client = Scripted(lambda messages: [Content.from_text("Hello.")])
    history = InMemoryHistoryProvider()
    agent = agent_of(
        client, history, keeper, tools=[], require_per_service_call_history_persistence=True
    )
    with pytest.warns(RehydrateWarning, match="require_per_service_call_history_persistence"):
        run(agent, *map(harbour.question, range(40)))
    assert len(client.seen[-1]) == 79
    assert keeper.report.new == 0


# --------------------------------------------------------------------------------------- messages

IMAGE = Content.from_data(b"png", "image/png")
MESSAGES = [
    Message("system", ["Be brief."]),
    Message("user", [Content.from_text("Look."), IMAGE]),
    Message(
        "assistant",
        [
            Content.from_text_reasoning(text="Two of them."),
            Content.from_text("I look."),
            Content.from_function_call(
                "c1", "lookup", arguments='{"query":"b"}', additional_properties={"fc_id": "fc_1"}
            ),
            call("c2", "lookup", query="c"),
        ],
    ),
    Message("tool", [result("c1", "found"), result("c2", {"berth": 4})]),
    Message("user", ["And?"]),
    Message("assistant", ["Four.", "Or five."]),
]


def pick(*indices: int | str, **changed: Any) -> list[Message]:
    entries = CODEC.entries_of(MESSAGES)
    return CODEC.picked(MESSAGES, entries, shown_of(entries, *indices, **changed))


def test_messages_become_chat_dicts() -> None:
    entries = CODEC.entries_of(MESSAGES)
    roles = [entry.chat["role"] for entry in entries]
    assert roles == ["system", "user", "assistant", "tool", "tool", "user", "assistant"]
    assert [part["type"] for part in entries[1].chat["content"]] == ["text", "image_url"]
    said = entries[2].chat
    assert (said["content"], said["reasoning_content"]) == ("I look.", "Two of them.")
    assert [each["id"] for each in said["tool_calls"]] == ["c1", "c2"]
    arguments = [each["function"]["arguments"] for each in said["tool_calls"]]
    assert arguments == ['{"query":"b"}', '{"query":"c"}']
    assert [json.loads(entries[4].chat["content"])] == [{"berth": 4}]
    json.dumps([entry.chat for entry in entries])


def test_files_of_any_content_count_once_and_never_as_text() -> None:
    png = Content.from_data(b"\x89PNG" * 50_000, "image/png")
    answered = Content.from_function_result("c1", result=[png])
    for said in (
        Message("user", [png]),
        Message("assistant", [png]),
        Message("tool", [answered]),
        Message("assistant", [call("c1", "draw"), answered]),
    ):
        (entry,) = CODEC.entries_of([said])
        assert 1_600 <= count_tokens([entry.chat]) < 1_640


def test_a_reply_with_a_file_is_shown_in_part() -> None:
    said = [Message("assistant", [Content.from_text("One."), IMAGE, Content.from_text("Two.")])]
    entries = CODEC.entries_of(said)
    whole = entries[0].chat["content"]
    less = {"content": [whole[0], whole[1], {"type": "text", "text": "T"}]}
    (made,) = CODEC.picked(said, entries, shown_of(entries, 0, e0=less))
    assert [each.text for each in made.contents] == ["One.", None, "T"]
    assert made.contents[1] is IMAGE


def test_calls_that_the_service_answers_itself_are_text() -> None:
    hosted = Content.from_function_call("h1", "search", arguments="{}", hosted=True)
    beside = [call("c1", "lookup"), result("c1", "found")]
    for contents, name in (([hosted], "search"), (beside, "lookup")):
        (entry,) = CODEC.entries_of([Message("assistant", contents)])
        assert "tool_calls" not in entry.chat
        assert name in str(entry.chat["content"])


def test_whole_messages_are_the_very_objects() -> None:
    assert all(a is b for a, b in zip(pick(*range(7)), MESSAGES, strict=True))


def test_sections_are_messages_of_their_own() -> None:
    made = pick(0, 1, 2, 3, 4, "Remember.", 5, 6, "Last.")
    assert [each.text for each in made][4:] == ["Remember.", "And?", "Four. Or five.", "Last."]
    assert made[3] is MESSAGES[3]
    assert made[4].role == made[7].role == "user"


def test_what_is_shown_in_part_is_a_copy() -> None:
    made = pick(
        *range(7),
        e1={"content": [{"type": "text", "text": "L"}, {"type": "image_url"}]},
        e2={"tool_calls": [{"function": {"arguments": '{"query":"b..."}'}}] * 2},
        e3={"content": "f..."},
        e6={"content": [{"type": "text", "text": "Four."}, {"type": "text", "text": "Or"}]},
    )
    assert made[1].contents[0].text == "L"
    assert made[1].contents[1] is IMAGE
    assert made[2].contents[2].arguments == '{"query":"b..."}'
    assert made[3].contents[0].result == made[3].contents[0].items[0].text == "f..."
    assert made[3].contents[1] is MESSAGES[3].contents[1]
    assert [each.text for each in made[5].contents] == ["Four.", "Or"]
    assert MESSAGES[3].contents[0].result == "found"


def test_thinking_that_a_prompt_drops_is_dropped_with_the_ids_that_need_it() -> None:
    shown = shown_of(CODEC.entries_of(MESSAGES), 2)
    for key in ("thinking_blocks", "reasoning_content"):
        del shown[0].message[key]
    (made,) = CODEC.picked(MESSAGES, CODEC.entries_of(MESSAGES), shown)
    assert [each.type for each in made.contents] == ["text", "function_call", "function_call"]
    assert made.contents[1].additional_properties == {}
    assert MESSAGES[2].contents[2].additional_properties == {"fc_id": "fc_1"}


def test_what_was_thinking_alone_is_left_out() -> None:
    alone = Message("assistant", [Content.from_text_reasoning(text="Hm.")])
    entries = CODEC.entries_of([alone])
    assert CODEC.picked([alone], entries, [Shown(0, entries[0].chat)]) == [alone]
    assert CODEC.picked([alone], entries, [Shown(0, {"role": "assistant", "content": ""})]) == []


@pytest.mark.parametrize("odd", [None, *ODD], ids=range(len(ODD) + 1))
def test_odd_values_in_fields_are_read_as_texts(odd: Any) -> None:
    messages = [
        Message("user", ["Look."]),
        Message("assistant", [Content.from_text_reasoning(text=odd), call("c", "f", path=odd)]),
        Message("tool", [result("c", "ok")]),
        Message("user", ["Thanks."], additional_properties={"about": odd}),
    ]
    for content in (messages[1].contents[1], messages[2].contents[0]):
        content.call_id, content.name = odd, odd
    messages[2].contents[0].result = odd
    chats = [entry.chat for entry in CODEC.entries_of(messages)]
    assert [each["role"] for each in chats] == ["user", "assistant", "tool", "user"]
    made, answered = chats[1]["tool_calls"][0], chats[2]
    assert isinstance(made["id"], str)
    assert made["id"] == answered["tool_call_id"]
    for text in (made["function"]["name"], made["function"]["arguments"], answered["content"]):
        assert isinstance(text, str)
    count_tokens(chats, format="openai_chat")


def test_words_next_to_a_result_that_is_left_out_are_the_users() -> None:
    said = Message("tool", [result("c1", "found"), Content.from_text("And book it.")])
    messages = [Message("user", ["Look."]), Message("assistant", [call("c1", "lookup")]), said]
    entries = CODEC.entries_of(messages)
    assert [each.chat["role"] for each in entries] == ["user", "assistant", "tool", "user"]
    assert CODEC.picked(messages, entries, shown_of(entries, *range(4))) == messages
    _, alone = CODEC.picked(messages, entries, shown_of(entries, 0, 3, e3={"content": "And"}))
    assert (alone.role, alone.text) == ("user", "And")
    assert (said.role, said.text) == ("tool", "And book it.")


def test_the_result_of_a_computer_call_stays_with_it() -> None:
    asked = Content.from_computer_tool_call(id="i1", call_id="c1", actions=[{"type": "wait"}])
    seen = Content.from_computer_tool_result(call_id="c1", screenshot=IMAGE)
    messages = [Message("user", ["Look."]), Message("assistant", [asked]), Message("tool", [seen])]
    entries = CODEC.entries_of(messages)
    (called,) = entries[1].chat["tool_calls"]
    assert called["id"] == entries[2].chat["tool_call_id"] == "c1"
    assert 1_600 <= count_tokens([entries[2].chat]) < 1_640
    made = CODEC.picked(messages, entries, shown_of(entries, *range(3)))
    assert all(a is b for a, b in zip(made, messages, strict=True))


def test_a_message_without_contents_says_nothing() -> None:
    messages = [Message(role, []) for role in ("user", "assistant", "tool")]
    for message in messages:
        message.contents = None
    assert [entry.chat["role"] for entry in CODEC.entries_of(messages)] == ["user", "assistant"]
