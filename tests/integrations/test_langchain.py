"""RehydrateMiddleware in real agents of LangChain: valid, sticky, and the state untouched."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import pytest

from rehydrate import Budget, Memory
from rehydrate.context import BackgroundCompaction, compact_history
from rehydrate.errors import InvalidArgumentError

pytest.importorskip("langchain.agents", reason="langchain is not installed")

from langchain.agents import create_agent
from langchain.agents.middleware import (
    ContextEditingMiddleware,
    HumanInTheLoopMiddleware,
    SummarizationMiddleware,
    wrap_model_call,
)
from langchain.agents.structured_output import ToolStrategy
from langchain.tools import ToolRuntime
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    HumanMessage,
    ToolMessage,
)
from langchain_core.messages.tool import invalid_tool_call
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command
from pydantic import BaseModel

from rehydrate.integrations.langchain import (
    ChatModelWriter,
    ExtractiveSummarizer,
    RehydrateEdit,
    RehydrateMiddleware,
    RehydrateWarning,
)
from rehydrate.integrations.langchain.agents import is_same_message
from rehydrate.integrations.langgraph import RehydrateStore
from tests.integrations import harbour
from tests.integrations.agent_laws import AgentLaws, Script, Seen, Talked, lookup as look_up
from tests.integrations.langchain_agents import (
    STEPS,
    CheckedModel,
    agent_of,
    as_sent,
    asking,
    called,
    config,
    lookup,
    prefix_breaks,
    query_of,
    question,
    text_of,
)

BUDGET = Budget(soft_tokens=2_000)
APPROVED = {"type": "approve"}
QUERIES = [query_of(call) for call in range(200) if call % STEPS != STEPS - 1]


def says(text: str) -> CheckedModel:
    """A model that always says the same."""
    return CheckedModel(reply=lambda messages, call: AIMessage(text))


def run_turns(
    agent: Any, turns: int, *, way: str = "invoke", thread: str = "t-1"
) -> list[BaseMessage]:
    """Return the state's messages after some user turns."""

    async def run() -> None:
        for turn in range(turns):
            given = {"messages": [question(turn)]}
            if way == "ainvoke":
                await agent.ainvoke(given, config(thread))
            else:
                async for _ in agent.astream(given, config(thread), stream_mode="messages"):
                    pass

    if way.startswith("a"):
        anyio.run(run)
    for turn in range(0 if way.startswith("a") else turns):
        if way == "stream":
            for _ in agent.stream({"messages": [question(turn)]}, config(thread)):
                pass
        else:
            agent.invoke({"messages": [question(turn)]}, config(thread))
    messages: list[BaseMessage] = agent.get_state(config(thread)).values["messages"]
    return messages


@pytest.fixture(scope="module")
def plain_state() -> list[Any]:
    """The messages of 14 turns without rehydrate; fewer turns are a beginning of them."""
    return as_sent(run_turns(agent_of(CheckedModel()), 14))


@pytest.mark.parametrize(
    ("way", "turns"), [("invoke", 14), ("ainvoke", 8), ("stream", 8), ("astream", 8)]
)
def test_turns_are_valid_break_the_prefix_at_compactions_only_and_keep_the_state(
    way: str, turns: int, plain_state: list[Any]
) -> None:
    model = CheckedModel()
    middleware = RehydrateMiddleware(budget=BUDGET)
    messages = run_turns(agent_of(model, middleware), turns, way=way)
    assert len(model.seen) == turns * STEPS
    thread = middleware.thread(config(), messages)
    assert thread is not None
    assert prefix_breaks(model.seen) == thread.context.usage.compactions > turns / 15
    assert thread.report.failure == "" and not thread.report.is_rebuilt
    assert middleware.report == thread.report
    assert max(map(len, model.seen)) < len(messages) / 2
    assert as_sent(messages) == plain_state[: len(messages)]


class TestAgent(AgentLaws):
    is_async = False

    def talk(
        self,
        script: Script,
        *said: str,
        tools: Sequence[Callable[..., str]] = (look_up,),
        instructions: str = harbour.INSTRUCTIONS,
        **options: Any,
    ) -> Talked:
        def reply(messages: Sequence[BaseMessage], call: int) -> AIMessage:
            last, shown = messages[-1], text_of(messages)
            answer = script(Seen(str(last.content), isinstance(last, ToolMessage), shown))
            if isinstance(answer, str):
                return AIMessage(answer)
            return AIMessage("", tool_calls=[called(answer[0], call, **answer[1])])

        model, middleware = CheckedModel(reply=reply), RehydrateMiddleware(**options)
        made = list(map(tool, tools))
        agent = agent_of(model, middleware, tools=made, system_prompt=instructions)

        async def run() -> Any:
            return [await agent.ainvoke(asking(each), config()) for each in said][-1]

        if self.is_async:
            state = anyio.run(run)
        else:
            state = [agent.invoke(asking(each), config()) for each in said][-1]
        messages = state["messages"]
        answer = str(messages[-1].content)
        return Talked(answer, middleware.report, text_of(messages), model.offered)


class TestAsyncAgent(TestAgent):
    is_async = True


def test_another_process_may_answer_the_call() -> None:
    said: list[BaseMessage] = []
    for call, query in enumerate(QUERIES[:60]):
        look = AIMessage("", tool_calls=[called("lookup", call, query=query)])
        said += [HumanMessage(query), look]
        said += [ToolMessage(harbour.looked_up(query), tool_call_id=f"call_{call}")]
        said += [AIMessage("Found.")]
    ask = called("request_context", 99, query=f"code of the lock of {QUERIES[20]}")
    said += [HumanMessage("Which code?"), AIMessage("", tool_calls=[ask])]
    agent = agent_of(says("Done."), RehydrateMiddleware(budget=BUDGET))
    agent.update_state(config(), {"messages": said}, as_node="model")
    state = agent.invoke(None, config())
    assert harbour.code(QUERIES[20]) in state["messages"][-2].content


# ------------------------------------------------------------------------------- conversations


def test_each_thread_has_a_context_of_its_own() -> None:
    def reply(messages: Sequence[BaseMessage], call: int) -> AIMessage:
        if messages[-1].content == "Which code?":
            return AIMessage("", tool_calls=[called("request_context", call, query="which code")])
        return AIMessage("Done.")

    agent = agent_of(CheckedModel(reply=reply), RehydrateMiddleware(budget=BUDGET))
    agent.invoke(asking("The lock of berth nine opens with code 7319."), config("alice"))
    state = agent.invoke(asking("Which code?"), config("bob"))
    assert "7319" not in str(state["messages"])


def test_threads_may_run_at_once() -> None:
    models = [CheckedModel() for _ in range(3)]
    middleware = RehydrateMiddleware(budget=BUDGET)
    agents = [agent_of(model, middleware) for model in models]

    def run(number: int) -> int:
        messages = run_turns(agents[number], 8, thread=f"t-{number}")
        thread = middleware.thread(config(f"t-{number}"), messages)
        assert thread is not None
        return thread.context.usage.compactions

    with ThreadPoolExecutor(3) as pool:
        compactions = list(pool.map(run, range(3)))
    assert [prefix_breaks(model.seen) for model in models] == compactions
    assert min(compactions) > 0


@pytest.mark.parametrize("keeps_ids", [True, False])
def test_without_a_thread_a_list_that_goes_on_is_followed(keeps_ids: bool) -> None:
    model = CheckedModel()
    middleware = RehydrateMiddleware(budget=BUDGET)
    agent = create_agent(model, [lookup], middleware=[middleware])
    messages: list[Any] = []
    for turn in range(8):
        messages = agent.invoke({"messages": [*messages, question(turn)]})["messages"]
        if not keeps_ids:
            messages = [message.model_copy(update={"id": None}) for message in messages]
    thread = middleware.thread({}, messages)
    assert thread is not None
    assert prefix_breaks(model.seen) == thread.context.usage.compactions > 0
    agent.invoke({"messages": [question(99)]})
    assert len(model.seen[-1]) < 2 * STEPS  # another conversation


def test_an_agent_that_is_a_tool_has_a_context_for_each_task() -> None:
    middleware = RehydrateMiddleware(budget=BUDGET)
    helper_model = says("Helped.")
    helper = create_agent(helper_model, [], middleware=[middleware])

    @tool
    def help_me(task: str) -> str:
        """Ask the helper."""
        return str(helper.invoke(asking(task))["messages"][-1].content)

    def reply(messages: Sequence[BaseMessage], call: int) -> AIMessage:
        if call % 2:
            return AIMessage("Done.")
        tasks = [called("help_me", 10 * call + n, task=f"task {call} {n}") for n in range(2)]
        return AIMessage("", tool_calls=tasks)

    model = CheckedModel(reply=reply)
    agent = agent_of(model, middleware, tools=[help_me])
    for turn in range(3):
        state = agent.invoke({"messages": [question(turn)]}, config())
    assert [len(messages) for messages in helper_model.seen] == [1] * 6
    assert prefix_breaks(model.seen) == 0
    thread = middleware.thread(config(), state["messages"])
    assert thread is not None and len(thread.context.history) == 14


def test_an_agent_that_is_a_node_of_a_graph_is_followed() -> None:
    model = CheckedModel()
    middleware = RehydrateMiddleware(budget=BUDGET)
    inner = agent_of(model, middleware, checkpointer=None)
    graph = StateGraph(MessagesState)
    graph.add_node("harbour", inner)
    graph.add_edge(START, "harbour")
    graph.add_edge("harbour", END)
    outer = graph.compile(checkpointer=InMemorySaver())
    run_turns(outer, 8)
    assert prefix_breaks(model.seen) == middleware.report.compactions > 0


def test_an_edited_state_begins_a_new_context() -> None:
    model = says("Done.")
    middleware = RehydrateMiddleware(budget=BUDGET)
    agent = agent_of(model, middleware)
    agent.invoke({"messages": [HumanMessage("Which berth?", id="m0")]}, config())
    agent.update_state(config(), {"messages": [HumanMessage("Which crane?", id="m0")]})
    agent.invoke({"messages": [question(1)]}, config())
    assert [message.content for message in model.seen[-1]][1:3] == ["Which crane?", "Done."]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            ToolMessage("No answer.", tool_call_id="c"),
            ToolMessage("No answer.", tool_call_id="c", status="error"),
        ),
        (AIMessage(""), AIMessage("", invalid_tool_calls=[invalid_tool_call(name="f", args="{")])),
        (ChatMessage("Hello.", role="user"), ChatMessage("Hello.", role="assistant")),
    ],
)
def test_an_edit_of_anything_that_is_sent_begins_a_new_context(before: Any, after: Any) -> None:
    assert is_same_message(before, before.model_copy(update={"id": "another"}))
    assert not is_same_message(before, after)


def test_structured_output_is_returned() -> None:
    class Berth(BaseModel):
        number: int

    def reply(messages: Sequence[BaseMessage], call: int) -> AIMessage:
        if call % 2 == 0:
            return AIMessage("", tool_calls=[called("lookup", call, query=f"berth {call}")])
        return AIMessage("", tool_calls=[called("Berth", call, number=call)])

    model = CheckedModel(reply=reply)
    middleware = RehydrateMiddleware(budget=BUDGET)
    agent = agent_of(model, middleware, response_format=ToolStrategy(Berth))
    for turn in range(16):
        state = agent.invoke({"messages": [question(turn)]}, config())
        assert state["structured_response"].number == 2 * turn + 1
    assert prefix_breaks(model.seen) == middleware.report.compactions > 0


# ------------------------------------------------------------------------- budget, and failures


def test_a_list_without_messages_is_passed_on() -> None:
    seen: list[Any] = []

    @wrap_model_call
    def answer(request: Any, handler: Any) -> Any:
        seen.append(request.messages)
        return AIMessage("Hello.")

    agent = create_agent(says(""), [], middleware=[RehydrateMiddleware(), answer])
    assert agent.invoke({"messages": []})["messages"][-1].content == "Hello."
    assert seen == [[]]


def test_calls_that_a_person_approves_go_on_in_the_same_thread() -> None:
    model = CheckedModel()
    middleware = RehydrateMiddleware(budget=BUDGET)
    approving = HumanInTheLoopMiddleware(interrupt_on={"lookup": True})
    agent = agent_of(model, middleware, approving)
    for turn in range(8):
        state = agent.invoke({"messages": [question(turn)]}, config())
        while "__interrupt__" in state:
            number = len(model.seen)
            edited = {"name": "lookup", "args": {"query": query_of(number)}}
            decision = {"type": "edit", "edited_action": edited} if number % 2 else APPROVED
            state = agent.invoke(Command(resume={"decisions": [decision]}), config())
    assert len(model.seen) == 8 * STEPS
    assert prefix_breaks(model.seen) == middleware.report.compactions > 0


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_failure_sends_the_messages_as_they_are(is_async: bool) -> None:
    def broken(ir: Any, target: Any) -> Any:
        raise RuntimeError("hunter2")

    model = CheckedModel()
    middleware = RehydrateMiddleware(passes=[broken])
    agent = create_agent(model, [lookup], middleware=[middleware])
    given = {"messages": [question(0)]}

    async def run() -> Any:
        return await agent.ainvoke(given)

    with pytest.warns(RehydrateWarning, match="as they are: RuntimeError$"):
        state = anyio.run(run) if is_async else agent.invoke(given)
    assert as_sent(model.seen[-1]) == as_sent(state["messages"][:-1])
    assert middleware.report.failure == "RuntimeError"


def test_a_tool_that_cannot_be_described_sends_the_messages_as_they_are() -> None:
    @tool
    def sort(key: Callable[[str], int]) -> str:
        """Sort the books by a function, which JSON cannot describe."""
        return str(key)

    agent = create_agent(says("Done."), [sort], middleware=[RehydrateMiddleware()])
    with pytest.warns(RehydrateWarning, match="as they are"):
        state = agent.invoke({"messages": [question(0)]})
    assert state["messages"][-1].content == "Done."


def test_wrong_options_are_refused_at_once() -> None:
    with pytest.raises(InvalidArgumentError, match="granularity"):
        RehydrateMiddleware(granularity="word")
    with pytest.raises(InvalidArgumentError, match="both name a writer"):
        RehydrateMiddleware(summarizer=str, background=BackgroundCompaction(writer=str))


def test_an_artifact_that_cannot_be_compared_changes_nothing() -> None:
    class Table:
        def __eq__(self, other: object) -> bool:
            raise ValueError("the truth value of a table is ambiguous")

        __hash__ = None  # type: ignore[assignment]

    @tool(response_format="content_and_artifact")
    def read_table(query: str) -> Any:
        """Read a table."""
        return "rows", Table()

    def reply(messages: Sequence[BaseMessage], call: int) -> AIMessage:
        if call % 2:
            return AIMessage("Done.")
        return AIMessage("", tool_calls=[called("read_table", call, query="all")])

    model = CheckedModel(reply=reply)
    middleware = RehydrateMiddleware(budget=BUDGET)
    agent = create_agent(model, [read_table], middleware=[middleware])
    messages: list[Any] = []
    for turn in range(3):
        copies = [message.model_copy() for message in messages]
        messages = agent.invoke({"messages": [*copies, question(turn)]})["messages"]
    assert prefix_breaks(model.seen) == 0
    assert middleware.report.failure == ""


def test_memories_come_with_the_turn_and_not_into_the_state(tmp_path: Any) -> None:
    with Memory.open(tmp_path / "memory.db", namespace="alice") as memory:
        memory.add("Alice signs as Harbour Master.", tier="hot")
        memory.add("The staging server listens on port 8443.")
        model = says("Done.")
        middleware = RehydrateMiddleware(sources=memory)
        agent = agent_of(model, middleware)
        agent.invoke(asking("Which port does the staging server use?"), config())
        state = agent.invoke(asking("Thanks."), config())
    shown = [str(message.content) for message in model.seen[-1]]
    assert any("Harbour Master" in text for text in shown)
    assert any("port 8443" in text for text in shown)
    assert prefix_breaks(model.seen) == 0
    assert "8443" not in str(state["messages"])
    assert [each.name for each in middleware.tools][-1] == "load_memory"


def test_an_agents_tool_reads_what_another_threads_tool_put_into_the_store(tmp_path: Any) -> None:
    @tool
    def note(text: str, runtime: ToolRuntime) -> str:
        """Note something."""
        assert runtime.store is not None
        runtime.store.put(("notes", "alice"), text[:12], {"text": text})
        return "Noted."

    @tool
    def look(query: str, runtime: ToolRuntime) -> str:
        """Look into the notes."""
        assert runtime.store is not None
        found = runtime.store.search(("notes",), query=query, limit=1)
        return str(found[0].value["text"])

    def reply(messages: Sequence[BaseMessage], call: int) -> AIMessage:
        text = str(messages[-1].content)
        if isinstance(messages[-1], ToolMessage):
            return AIMessage(text)
        name, argument = ("look", "query") if text.endswith("?") else ("note", "text")
        return AIMessage("", tool_calls=[called(name, call, **{argument: text})])

    with Memory.open(tmp_path / "memory.db") as memory:
        store = RehydrateStore(memory)
        agent = agent_of(CheckedModel(reply=reply), tools=[note, look], store=store)
        agent.invoke(asking("Staging listens on port 8443."), config("a"))
        agent.invoke(asking("Anna prefers tea."), config("a"))
        state = agent.invoke(asking("Which port does staging use?"), config("b"))
    assert state["messages"][-1].content == "Staging listens on port 8443."


# ------------------------------------------------------------------------------------ summaries

SUMMARY = "The user asks about berths of the harbour. Each lock's code was looked up and read out."


def summarise(messages: list[BaseMessage]) -> str:
    assert all(isinstance(message, BaseMessage) for message in messages)
    return SUMMARY


async def asummarise(messages: list[BaseMessage]) -> str:
    return summarise(messages)


@pytest.mark.parametrize(
    "summarizer",
    [
        *(summarise, asummarise, RunnableLambda(summarise)),
        *(says(SUMMARY), says(SUMMARY).with_config(tags=["own"])),
        RunnableLambda(lambda messages: AIMessage(summarise(messages))),
    ],
)
def test_summaries_are_written_meanwhile(summarizer: Any) -> None:
    ready = threading.Event()
    kinds: list[str] = []

    def note(event: Any) -> None:
        kinds.append(event.kind)
        if event.kind == "ready":
            ready.set()

    background = BackgroundCompaction(keep_last=4, expected_turns=1000, on_event=note)
    model = CheckedModel()
    middleware = RehydrateMiddleware(budget=BUDGET, summarizer=summarizer, background=background)
    agent = agent_of(model, middleware)
    streamed = []
    for turn in range(10):
        given = {"messages": [question(turn)]}
        streamed += [part for part, _ in agent.stream(given, config(), stream_mode="messages")]
        if "started" in kinds:
            assert ready.wait(600)
    assert "swapped" in kinds
    assert SUMMARY in text_of(model.seen[-1])
    assert prefix_breaks(model.seen) == middleware.report.compactions
    assert SUMMARY not in text_of(streamed)


def test_a_compacted_history_is_of_langchains_messages() -> None:
    said: list[BaseMessage] = []
    for turn in range(10):
        said += [question(turn), AIMessage(harbour.words(f"a{turn}", 60))]
    compacted = compact_history(said, summarise, keep_last=2)
    assert SUMMARY in str(compacted.messages[0].content)
    assert [type(message) for message in compacted.messages] == [
        *(HumanMessage, AIMessage, HumanMessage, AIMessage)
    ]


@pytest.mark.parametrize(
    ("name", "stop"),
    [
        *(("finish_reason", "length"), ("finish_reason", "MAX_TOKENS")),
        *(("stopReason", "max_tokens"), ("status", "incomplete"), ("done_reason", "length")),
    ],
)
def test_a_summary_that_is_cut_off_is_not_used(name: str, stop: str) -> None:
    cut = AIMessage(SUMMARY, response_metadata={name: stop})
    writer = ChatModelWriter(CheckedModel(reply=lambda messages, call: cut))
    details = []
    background = BackgroundCompaction(
        writer=writer, keep_last=4, wait=30, on_event=lambda event: details.append(event.detail)
    )
    model = CheckedModel()
    run_turns(agent_of(model, RehydrateMiddleware(budget=BUDGET, background=background)), 8)
    assert any(f"the model did not finish: {stop}" in detail for detail in details)
    assert SUMMARY not in text_of(model.seen[-1])


def test_langchains_own_middleware_summarises_without_a_model() -> None:
    def reply(messages: Sequence[BaseMessage], call: int) -> AIMessage:
        return AIMessage(harbour.words(f"a{call}", 60))

    model, unused = CheckedModel(reply=reply), says("unused")
    middleware = SummarizationMiddleware(
        unused,
        trigger=("tokens", 2_000),
        keep=("messages", 6),
        summarizer=ExtractiveSummarizer(max_tokens=300),
        trim_tokens_to_summarize=None,
    )
    agent = agent_of(model, middleware)
    agent.invoke(asking("Always answer in one line. Never push to main."), config())
    run_turns(agent, 20)
    assert unused.seen == []
    assert len(model.seen[-1]) < 30
    assert "Never push to main." in text_of(model.seen[-1][:3])


def test_what_the_user_said_survives_each_summary_of_langchains_own_middleware() -> None:
    task = "Find a free pier for the Halvard, whose mast is 24.5 m. Never book pier 13."
    summarise, said = ExtractiveSummarizer(max_tokens=200), [HumanMessage(task)]
    for number in range(40):
        call = {"name": "look", "args": {"n": number}, "id": f"c{number}", "type": "tool_call"}
        said += [
            AIMessage("", tool_calls=[call]),
            ToolMessage("It is free. " * 40, tool_call_id=call["id"]),
        ]
        summary = summarise(said)
        assert summary.count(task) == 1
        assert "summary of the conversation" not in summary
        said = [HumanMessage(f"Here is a summary of the conversation to date:\n\n{summary}")]


def test_an_edit_of_langchains_own_middleware_does_the_same(
    plain_state: list[Any],
) -> None:
    model = CheckedModel()
    edit = RehydrateEdit(budget=BUDGET)
    messages = run_turns(agent_of(model, ContextEditingMiddleware(edits=[edit])), 10)
    assert prefix_breaks(model.seen) == edit.report.compactions > 0
    assert as_sent(messages) == plain_state[: len(messages)]
