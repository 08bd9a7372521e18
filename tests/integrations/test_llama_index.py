"""RehydrateMemory in LlamaIndex' real agents, against the strict provider."""

from __future__ import annotations

import json
import pickle
import warnings
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from copy import deepcopy
from typing import Any

import anyio
import pytest

from rehydrate import Budget, count_tokens
from rehydrate.prompt import Caps

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its own imports
    pytest.importorskip("llama_index.core", reason="llama-index-core is not installed")
    from llama_index.core.agent.workflow import FunctionAgent
    from llama_index.core.llms import ChatMessage, ChatResponse, LLMMetadata
    from llama_index.core.llms.llm import ToolSelection
    from llama_index.core.llms.mock import MockFunctionCallingLLM

from llama_index.core.base.llms.types import (
    CitableBlock,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.bridge.pydantic import PrivateAttr

from rehydrate.integrations.host_thread import Shown
from rehydrate.integrations.llama_index import CODEC, RehydrateMemory, RehydrateWarning
from tests.integrations import harbour
from tests.integrations.agent_laws import AgentLaws, Script, Seen, Talked, lookup as look_up
from tests.integrations.codec_cases import ODD, shown_of
from tests.provider import StrictProvider

pytestmark = pytest.mark.filterwarnings("ignore:(?!the messages were sent)")  # its own

BUDGET = Budget(soft_tokens=2_000)
TURNS = 16


async def lookup(query: str) -> str:
    """Look something up in the harbour's books."""
    return harbour.looked_up(query)


def said(text: str, *calls: ToolCallBlock) -> ChatMessage:
    return ChatMessage(role="assistant", blocks=[TextBlock(text=text), *calls])


def call(call_id: str, name: str, **arguments: Any) -> ToolCallBlock:
    return ToolCallBlock(tool_call_id=call_id, tool_name=name, tool_kwargs=arguments)


def result(call_id: str, text: str) -> ChatMessage:
    return ChatMessage(role="tool", content=text, additional_kwargs={"tool_call_id": call_id})


class Llm(MockFunctionCallingLLM):
    """A function calling model; what it says comes from a function of the messages."""

    _respond: Any = PrivateAttr()
    _seen: list[list[ChatMessage]] = PrivateAttr(default_factory=list)
    _tools: list[Any] = PrivateAttr(default_factory=list)

    def __init__(self, respond: Callable[[list[ChatMessage], list[Any]], Any]) -> None:
        super().__init__()
        self._respond = respond

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(is_function_calling_model=True, is_chat_model=True)

    @property
    def seen(self) -> list[list[ChatMessage]]:
        return self._seen

    @property
    def sent(self) -> list[list[str]]:
        return [[each.model_dump_json() for each in messages] for messages in self._seen]

    def _prepare_chat_with_tools(self, tools: Any, chat_history: Any = None, **_: Any) -> Any:
        return {
            "messages": chat_history,
            "tools": [each.metadata.to_openai_tool() for each in tools],
        }

    async def achat(self, messages: Any, tools: Any = (), **_: Any) -> ChatResponse:
        self._seen.append(list(messages))
        self._tools = list(tools)
        answer = self._respond(list(messages), list(tools))
        return ChatResponse(message=answer if isinstance(answer, ChatMessage) else await answer)

    def get_tool_calls_from_response(
        self, response: Any, error_on_no_tool_call: bool = True, **_: Any
    ) -> list[ToolSelection]:
        blocks = [each for each in response.message.blocks if isinstance(each, ToolCallBlock)]
        return [
            ToolSelection(
                tool_id=each.tool_call_id, tool_name=each.tool_name, tool_kwargs=each.tool_kwargs
            )
            for each in blocks
        ]


def agent_of(llm: Llm, *tools: Any, **options: Any) -> FunctionAgent:
    options = {"system_prompt": harbour.INSTRUCTIONS, "streaming": False, **options}
    return FunctionAgent(llm=llm, tools=[*tools], **options)


def run(agent: FunctionAgent, memory: Any, *asked: str) -> str:
    """Return the last answer."""

    async def go() -> str:
        answer = ""
        for each in asked:
            answer = str((await agent.run(each, memory=memory)).response.content)
        return answer

    return anyio.run(go)


def on_wire(message: ChatMessage) -> dict[str, Any]:
    """Return a message as llama-index-llms-openai sends it."""
    role = message.role.value
    if role == "tool":
        call_id = message.additional_kwargs["tool_call_id"]
        return {"role": role, "content": message.content, "tool_call_id": call_id}
    calls = [
        {
            "id": each.tool_call_id,
            "type": "function",
            "function": {
                "name": each.tool_name,
                "arguments": each.tool_kwargs
                if isinstance(each.tool_kwargs, str)
                else json.dumps(each.tool_kwargs),
            },
        }
        for each in message.blocks
        if isinstance(each, ToolCallBlock)
    ]
    more = {"tool_calls": calls} if calls else {}
    return {"role": role, "content": message.content or None, **more}


@asynccontextmanager
async def opened(provider: StrictProvider) -> AsyncIterator[Llm]:
    openai = pytest.importorskip("openai")
    options = {"api_key": "key", "base_url": provider.openai_url, "max_retries": 0}
    async with openai.AsyncOpenAI(**options) as client:

        async def respond(messages: Sequence[ChatMessage], tools: list[Any]) -> ChatMessage:
            answer = await client.chat.completions.create(
                model="gpt-5.1", messages=list(map(on_wire, messages)), tools=tools
            )
            made = answer.choices[0].message
            calls = [
                call(each.id, each.function.name, **json.loads(each.function.arguments))
                for each in made.tool_calls or ()
            ]
            return said(made.content or "", *calls)

        yield Llm(respond)


def test_turns_are_accepted_and_break_the_prefix_at_compactions_only() -> None:
    memory = RehydrateMemory(budget=BUDGET)

    async def go(provider: StrictProvider) -> Llm:
        async with opened(provider) as llm:
            agent = agent_of(llm, lookup, *memory.tools())
            for turn in range(TURNS):
                await agent.run(harbour.question(turn), memory=memory)
            return llm

    with StrictProvider(harbour.reply) as provider:
        llm = anyio.run(go, provider)
    assert provider.refusals == provider.overflows == []
    assert len(provider.requests) == 2 * TURNS
    inputs = [harbour.messages_of(exchange.body or {}) for exchange in provider.requests]
    unsent = not memory.report.extends  # an agent asks once more when it is done
    assert harbour.breaks(inputs) == memory.report.compactions - unsent > 1
    whole = memory.get_all()
    assert len(whole) == 4 * TURNS
    assert len(llm.seen[-1]) < len(whole) / 2
    known = set(map(id, whole))
    assert sum(id(each) in known for each in memory.get()) > 10


def test_what_was_asked_for_is_in_the_next_prompt_once() -> None:
    queries = [f"berth {number} of quay {number * 7}" for number in range(30)]
    asked = queries[3]

    def respond(messages: list[ChatMessage], tools: list[Any]) -> ChatMessage:
        last = messages[-1]
        if last.role.value == "tool":
            return said("Found.")
        if last.content == "And then?":
            return said("Well.")
        if last.content != "the code":
            return said("I look.", call(f"c-{last.content}", "lookup", query=last.content))
        query = f"code of the lock of {asked}"
        return said("I ask.", call("ask", "request_context", query=query))

    llm, memory = Llm(respond), RehydrateMemory(budget=Budget(soft_tokens=3_000))
    agent = agent_of(llm, lookup, *memory.tools())
    run(agent, memory, *queries, "the code", "And then?")
    before, *last = llm.sent[-3:]
    assert harbour.code(asked) not in "".join(before)
    assert harbour.breaks(last) == 0
    assert ["".join(sent).count(harbour.code(asked)) for sent in last] == [1, 1]
    assert llm._tools[1]["function"]["parameters"]["required"] == ["query"]


def test_a_long_result_is_shown_in_part_from_the_next_turn_on() -> None:
    whole = "\n".join(f"line {number}: {harbour.words(str(number), 12)}" for number in range(400))
    shown: list[str] = []

    def respond(messages: list[ChatMessage], tools: list[Any]) -> ChatMessage:
        last = messages[-1]
        if last.content == "Read the log.":
            return said("I read.", call("c1", "read"))
        shown.append(next(str(e.content) for e in messages if e.role.value == "tool"))
        if last.content == "And then?":
            handle = "orig_" + shown[-1].split("orig_")[1][:26]
            return said("I ask.", call("c2", "fetch_whole", handle=handle, lines="300-304"))
        return said(
            str(last.content) if last.additional_kwargs["tool_call_id"] == "c2" else "Read."
        )

    async def read() -> str:
        """Read the log."""
        return whole

    memory = RehydrateMemory(caps=Caps(default_tokens=1_000))
    agent = agent_of(Llm(respond), read, *memory.tools())
    answer = run(agent, memory, "Read the log.", "And then?")
    assert shown[0] == whole
    assert len(shown[1]) < len(whole) / 3
    assert whole.splitlines()[301] in answer
    assert whole in [each.content for each in memory.get_all()]


def test_a_state_that_the_agent_writes_into_a_message_is_not_kept() -> None:
    llm = Llm(lambda messages, tools: said("Well."))
    memory = RehydrateMemory(budget=BUDGET)
    agent = agent_of(llm, initial_state={"berth": 4})
    run(agent, memory, "One.", "Two.")
    assert "berth" in str(llm.seen[-1][-1].content)
    assert [each.content for each in memory.get_all()] == ["One.", "Well.", "Two.", "Well."]
    assert not memory.report.is_rebuilt


def test_what_is_reserved_counts_in_the_budget() -> None:
    plain, loaded = RehydrateMemory(), RehydrateMemory(reserved_tokens=2_000)
    for memory in (plain, loaded):
        memory.put(ChatMessage(role="user", content="Hello."))
        memory.get()
    assert loaded.report.tokens == plain.report.tokens + 2_000


class TestAgent(AgentLaws):
    # Results come in part from the next turn on, and a memory does not see the instructions.
    test_a_long_result_is_shown_in_part_and_read_whole_by_its_handle = None
    test_instructions_and_tools_count_in_the_budget = None

    def talk(
        self,
        script: Script,
        *asked: str,
        tools: Sequence[Callable[..., str]] = (look_up,),
        instructions: str = harbour.INSTRUCTIONS,
        **options: Any,
    ) -> Talked:
        def respond(messages: list[ChatMessage], offered: list[Any]) -> ChatMessage:
            last, shown = messages[-1], "".join(each.model_dump_json() for each in messages)
            answer = script(Seen(str(last.content), last.role.value == "tool", shown))
            if isinstance(answer, str):
                return said(answer)
            return said("I ask.", call(f"c{len(llm.seen)}", answer[0], **answer[1]))

        llm, memory = Llm(respond), RehydrateMemory(**options)
        agent = agent_of(llm, *tools, *memory.tools(), system_prompt=instructions)
        answer = run(agent, memory, *asked)
        kept = "".join(str(each.content) for each in memory.get_all())
        names = [each["function"]["name"] for each in llm._tools]
        return Talked(answer, memory.report, kept, names)


def test_a_history_can_be_given_and_taken_away() -> None:
    memory = RehydrateMemory.from_defaults(MESSAGES)
    assert all(a is b for a, b in zip(memory.get()[:-1], MESSAGES, strict=False))
    memory.reset()
    assert memory.get() == []


@pytest.mark.parametrize("copied", [deepcopy, lambda memory: pickle.loads(pickle.dumps(memory))])
def test_a_copy_has_the_messages_and_the_options(copied: Callable[..., RehydrateMemory]) -> None:
    options = {"budget": BUDGET, "reserved_tokens": 40, "chat_store_key": "alice"}
    memory = RehydrateMemory.from_defaults(MESSAGES, **options)
    copy = copied(memory)
    copy.put(ChatMessage(role="user", content="And berth 5?"))
    assert copy.get_all()[:-1] == memory.get_all() == MESSAGES
    assert copy._options == memory._options
    assert copy._thread.context.budget == BUDGET


# --------------------------------------------------------------------------------------- messages

IMAGE = ImageBlock(url="https://example.com/crane.png")
MESSAGES = [
    ChatMessage(role="system", content="Be brief."),
    ChatMessage(role="user", blocks=[TextBlock(text="Look."), IMAGE]),
    ChatMessage(
        role="assistant",
        blocks=[
            ThinkingBlock(content="Two of them."),
            TextBlock(text="I look."),
            call("c1", "lookup", query="b"),
            ToolCallBlock(tool_call_id="c2", tool_name="lookup", tool_kwargs='{"query": "c"}'),
        ],
    ),
    result("c1", "found"),
    result("c2", "not so"),
    ChatMessage(role="user", content="And?"),
    ChatMessage(role="assistant", blocks=[TextBlock(text="Four."), TextBlock(text="Or five.")]),
]
ENTRIES = CODEC.entries_of(MESSAGES)
CHATS = [entry.chat for entry in ENTRIES]


def pick(*indices: int | str, **changed: Any) -> list[ChatMessage]:
    return CODEC.picked(MESSAGES, ENTRIES, shown_of(ENTRIES, *indices, **changed))


def test_messages_become_chat_dicts() -> None:
    roles = [chat["role"] for chat in CHATS]
    assert roles == ["system", "user", "assistant", "tool", "tool", "user", "assistant"]
    assert [part["type"] for part in CHATS[1]["content"]] == ["text", "image_url"]
    assert (CHATS[2]["content"], CHATS[2]["reasoning_content"]) == ("I look.", "Two of them.")
    assert [each["id"] for each in CHATS[2]["tool_calls"]] == ["c1", "c2"]
    arguments = [each["function"]["arguments"] for each in CHATS[2]["tool_calls"]]
    assert arguments == ['{"query":"b"}', '{"query": "c"}']
    assert CHATS[3]["tool_call_id"] == "c1"
    json.dumps(CHATS)


def test_files_of_any_block_count_once_and_never_as_text() -> None:
    pdf = DocumentBlock(data=b"%PDF" * 50_000, title="Timetable")
    citable = CitableBlock(title="Timetable", source="a.pdf", content=[pdf])
    words = CitableBlock(title="T", source="s", content=[TextBlock(text="The ferry is free.")])
    for role in ("user", "assistant", "tool"):
        for block in (pdf, citable, ImageBlock(image=b"png" * 50_000)):
            (entry,) = CODEC.entries_of([ChatMessage(role=role, blocks=[block])])
            assert 1_600 <= count_tokens([entry.chat]) < 1_640
        (entry,) = CODEC.entries_of([ChatMessage(role=role, blocks=[words])])
        assert 5 <= count_tokens([entry.chat]) < 20


def test_calls_next_to_the_blocks_are_calls() -> None:
    made = {"id": "c1", "type": "function", "function": {"name": "lookup", "arguments": "{}"}}
    message = ChatMessage(role="assistant", additional_kwargs={"tool_calls": [made]})
    assert CODEC.entries_of([message])[0].chat == {
        "role": "assistant",
        "content": None,
        "tool_calls": [made],
    }


def test_whole_messages_are_the_very_objects() -> None:
    assert all(a is b for a, b in zip(pick(*range(7)), MESSAGES, strict=True))


def test_sections_are_messages_of_their_own() -> None:
    made = pick(5, "Remember.", 6)
    assert [each.content for each in made] == ["And?", "Remember.", "Four.\nOr five."]


def test_what_is_shown_in_part_is_a_copy() -> None:
    made = pick(
        *range(7),
        e1={"content": [{"type": "text", "text": "L"}, CHATS[1]["content"][1]]},
        e2={"tool_calls": [{"function": {"arguments": '{"query":"b..."}'}}] * 2},
        e3={"content": "f..."},
        e6={"content": [{"type": "text", "text": "Four."}, {"type": "text", "text": "Or"}]},
    )
    assert made[1].blocks == [TextBlock(text="L"), IMAGE]
    assert made[2].blocks[2].tool_kwargs == '{"query":"b..."}'
    assert made[3].content == "f..."
    assert made[3].additional_kwargs == {"tool_call_id": "c1"}
    assert made[6].content == "Four.\nOr"
    assert MESSAGES[3].content == "found"


def test_thinking_that_a_prompt_drops_is_dropped() -> None:
    shown = shown_of(ENTRIES, 2)
    for key in ("thinking_blocks", "reasoning_content"):
        del shown[0].message[key]
    (made,) = CODEC.picked(MESSAGES, ENTRIES, shown)
    assert made.blocks == MESSAGES[2].blocks[1:]


def test_what_was_thinking_alone_is_left_out() -> None:
    alone = ChatMessage(role="assistant", blocks=[ThinkingBlock(content="Hm.")])
    entries = CODEC.entries_of([alone])
    assert CODEC.picked([alone], entries, [Shown(0, entries[0].chat)]) == [alone]
    assert CODEC.picked([alone], entries, [Shown(0, {"role": "assistant", "content": ""})]) == []


def test_a_message_that_cannot_be_read_is_passed_on_with_a_warning() -> None:
    odd = ChatMessage(role="assistant", content="x", additional_kwargs={"tool_calls": ["odd"]})
    memory = RehydrateMemory()
    memory.put(ChatMessage(role="user", content="Which berth is free?"))
    memory.put(odd)
    with pytest.warns(RehydrateWarning, match="sent as they are"):
        assert memory.get() == memory.get_all()
    with pytest.warns(RehydrateWarning, match="sent as they are"):
        assert anyio.run(memory.aget) == memory.get_all()
    assert memory.report.failure
    memory.set(memory.get_all()[:1])
    assert [each.content for each in memory.get()] == ["Which berth is free?"]
    assert not memory.report.failure


@pytest.mark.parametrize("odd", ODD, ids=range(len(ODD)))
def test_odd_values_in_fields_are_read_as_texts(odd: Any) -> None:
    called = ToolCallBlock(tool_name="f", tool_call_id="c", tool_kwargs={"path": odd})
    called.tool_call_id, called.tool_name = odd, odd
    thought = ThinkingBlock(content="hm")
    thought.content = odd
    answer = ChatMessage(role="tool", content="", additional_kwargs={"tool_call_id": odd})
    answer.blocks[0].text = odd
    beside = {"tool_calls": [{"id": odd, "function": {"name": odd, "arguments": odd}}]}
    messages = [
        ChatMessage(role="user", content="Look.", additional_kwargs={"about": odd}),
        ChatMessage(role="assistant", blocks=[thought, called]),
        answer,
        ChatMessage(role="assistant", content="", additional_kwargs=beside),
    ]
    chats = [entry.chat for entry in CODEC.entries_of(messages)]
    for made in (chats[1]["tool_calls"][0], chats[3]["tool_calls"][0]):
        assert made["id"] == chats[2]["tool_call_id"]
        assert {type(each) for each in (made["id"], *made["function"].values())} == {str}
    assert isinstance(chats[2]["content"], str)
    count_tokens(chats, format="openai_chat")


def test_a_message_without_blocks_says_nothing() -> None:
    message = ChatMessage(role="assistant", content="")
    message.blocks = None
    assert CODEC.entries_of([message])[0].chat == {"role": "assistant", "content": ""}
