"""RehydrateMiddleware in real agents of LangChain: valid, sticky, and the state untouched."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from rehydrate import Budget, Memory
from rehydrate.context import BackgroundCompaction

pytest.importorskip("langchain.agents", reason="langchain is not installed")

from langchain.agents import create_agent
from langchain.agents.middleware import ContextEditingMiddleware
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from rehydrate.integrations.langchain import (
    RehydrateEdit,
    RehydrateMiddleware,
    RehydrateWarning,
)
from tests.integrations.agents import (
    STEPS,
    CheckedModel,
    as_sent,
    called,
    lookup,
    prefix_breaks,
    question,
    scripted,
    words,
)

BUDGET = Budget(soft_tokens=8_000)
FACT = "The lock of berth nine opens with code 7319."
SYSTEM = "You are the harbour's assistant."
TURNS = 50


def config(thread: str = "t-1") -> Any:
    return {"configurable": {"thread_id": thread}, "recursion_limit": 100}


def agent_of(model: CheckedModel, *middleware: Any, **options: Any) -> Any:
    return create_agent(
        model,
        [lookup],
        system_prompt=SYSTEM,
        middleware=list(middleware),
        checkpointer=InMemorySaver(),
        **options,
    )


def run_turns(agent: Any, turns: int, *, is_async: bool = False, thread: str = "t-1") -> Any:
    """Return the state after some user turns."""

    async def run() -> Any:
        state = None
        for turn in range(turns):
            state = await agent.ainvoke({"messages": [question(turn)]}, config(thread))
        return state

    if is_async:
        return anyio.run(run)
    state = None
    for turn in range(turns):
        state = agent.invoke({"messages": [question(turn)]}, config(thread))
    return state


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_200_calls_are_valid_and_break_the_prefix_only_at_compactions(is_async: bool) -> None:
    model, plain = CheckedModel(), CheckedModel()
    middleware = RehydrateMiddleware(budget=BUDGET)
    state = run_turns(agent_of(model, middleware), TURNS, is_async=is_async)
    expected = run_turns(agent_of(plain), TURNS)
    thread = middleware.thread(config(), state["messages"])
    assert len(model.seen) == TURNS * STEPS
    assert prefix_breaks(model.seen) == thread.context.usage.compactions > 1
    assert as_sent(state["messages"]) == as_sent(expected["messages"])
    assert thread.report.failure == "" and not thread.report.is_rebuilt
    assert middleware.report == thread.report
    assert max(map(len, model.seen)) < len(plain.seen[-1])


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_the_model_brings_back_what_its_prompt_does_not_show(is_async: bool) -> None:
    asked = TURNS * STEPS

    def reply(messages: Sequence[BaseMessage], call: int) -> AIMessage:
        if call == asked:
            ask = called("request_context", call, query="code of the lock of berth nine")
            return AIMessage("I look back.", tool_calls=[ask])
        return AIMessage("7319.") if call > asked else scripted(messages, call)

    model = CheckedModel(reply=reply)
    agent = agent_of(model, RehydrateMiddleware(budget=BUDGET))
    agent.invoke({"messages": [HumanMessage(FACT)]}, config())
    run_turns(agent, TURNS - 1, is_async=is_async)
    # The fact's own turn was the first of them.
    assert not any(FACT in str(message.content) for message in model.seen[-1][2:])

    async def ask() -> Any:
        return await agent.ainvoke({"messages": [HumanMessage("Which code?")]}, config())

    asking = {"messages": [HumanMessage("Which code?")]}
    state = anyio.run(ask) if is_async else agent.invoke(asking, config())
    (answer,) = [each for each in state["messages"] if each.name == "request_context"]
    assert FACT in answer.content
    assert state["messages"][-1].content == "7319."
    assert {"request_context", "fetch_whole", "lookup"} <= set(model.offered)


def test_another_process_may_answer_the_call() -> None:
    ask = AIMessage("", tool_calls=[called("request_context", 1, query="code of berth nine")])
    said = [HumanMessage(FACT, id="m0"), *talk(60), HumanMessage("Which code?"), ask]
    fresh = RehydrateMiddleware(budget=BUDGET)
    agent = agent_of(CheckedModel(reply=lambda messages, call: AIMessage("7319.")), fresh)
    agent.update_state(config(), {"messages": said}, as_node="model")
    state = agent.invoke(None, config())
    assert FACT in state["messages"][-2].content


def talk(turns: int) -> list[BaseMessage]:
    """Return some turns without tools."""
    return [
        message
        for turn in range(turns)
        for message in (question(turn), AIMessage(words(f"talk{turn}", 300)))
    ]


def test_each_thread_has_a_context_of_its_own() -> None:
    def reply(messages: Sequence[BaseMessage], call: int) -> AIMessage:
        if messages[-1].content == "Which code?":
            ask = called("request_context", call, query="code of the lock of berth nine")
            return AIMessage("", tool_calls=[ask])
        return AIMessage("Done.")

    agent = agent_of(CheckedModel(reply=reply), RehydrateMiddleware(budget=BUDGET))
    agent.invoke({"messages": [HumanMessage(FACT)]}, config("alice"))
    state = agent.invoke({"messages": [HumanMessage("Which code?")]}, config("bob"))
    assert "7319" not in str(state["messages"])


def test_without_a_thread_the_first_message_names_the_conversation() -> None:
    model = CheckedModel()
    middleware = RehydrateMiddleware(budget=BUDGET)
    agent = create_agent(model, [lookup], middleware=[middleware])
    messages: list[Any] = []
    for turn in range(12):
        messages = agent.invoke({"messages": [*messages, question(turn)]})["messages"]
    thread = middleware.thread({}, messages)
    assert prefix_breaks(model.seen) == thread.context.usage.compactions > 0
    agent.invoke({"messages": [question(0)]})
    assert len(model.seen[-1]) == 2 * STEPS - 1  # another conversation


def test_an_agent_that_is_a_tool_has_a_context_of_its_own() -> None:
    middleware = RehydrateMiddleware(budget=BUDGET)
    helper_model = CheckedModel(reply=lambda messages, call: AIMessage("Helped."))
    helper = create_agent(helper_model, [], middleware=[middleware])

    @tool
    def help_me(task: str) -> str:
        """Ask the helper."""
        return str(helper.invoke({"messages": [HumanMessage(task)]})["messages"][-1].content)

    def reply(messages: Sequence[BaseMessage], call: int) -> AIMessage:
        if call % 2:
            return AIMessage("Done.")
        return AIMessage("", tool_calls=[called("help_me", call, task=f"task {call}")])

    model = CheckedModel(reply=reply)
    agent = create_agent(model, [help_me], middleware=[middleware], checkpointer=InMemorySaver())
    for turn in range(3):
        state = agent.invoke({"messages": [question(turn)]}, config())
    assert [len(messages) for messages in helper_model.seen] == [1, 1, 1]
    assert prefix_breaks(model.seen) == 0
    assert len(middleware.thread(config(), state["messages"]).context.history) == 11


def test_system_text_and_tools_count() -> None:
    long_system = words("system", 3_000)
    model = CheckedModel()
    middleware = RehydrateMiddleware(budget=BUDGET)
    agent = create_agent(
        model, [lookup], system_prompt=long_system, middleware=[middleware]
    )
    agent.invoke({"messages": [question(0)]})
    with_system = middleware.report.tokens
    agent = create_agent(model, [lookup], middleware=[middleware])
    agent.invoke({"messages": [question(0)]})
    assert with_system - middleware.report.tokens >= 3_000


def test_a_failure_sends_the_messages_as_they_are() -> None:
    def broken(ir: Any, target: Any) -> Any:
        raise RuntimeError("hunter2")

    model = CheckedModel()
    middleware = RehydrateMiddleware(passes=[broken])
    agent = create_agent(model, [lookup], middleware=[middleware])
    with pytest.warns(RehydrateWarning, match="as they are: RuntimeError$"):
        state = agent.invoke({"messages": [question(0)]})
    assert as_sent(model.seen[-1]) == as_sent(state["messages"][:-1])
    assert middleware.report.failure == "RuntimeError"


def test_an_artifact_that_cannot_be_compared_changes_nothing() -> None:
    class Table:
        def __eq__(self, other: object) -> bool:
            raise ValueError("the truth value of a table is ambiguous")

        __hash__ = None  # type: ignore[assignment]

    @tool(response_format="content_and_artifact")
    def read_table(query: str) -> tuple[str, Table]:
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
        model = CheckedModel(reply=lambda messages, call: AIMessage("Done."))
        middleware = RehydrateMiddleware(sources=memory)
        agent = agent_of(model, middleware)
        asked = HumanMessage("Which port does the staging server use?")
        agent.invoke({"messages": [asked]}, config())
        state = agent.invoke({"messages": [HumanMessage("Thanks.")]}, config())
    shown = [str(message.content) for message in model.seen[-1]]
    assert any("Harbour Master" in text for text in shown)
    assert any("port 8443" in text for text in shown)
    assert prefix_breaks(model.seen) == 0
    assert "8443" not in str(state["messages"])
    assert [each.name for each in middleware.tools][-1] == "load_memory"


def test_a_function_of_langchains_messages_writes_the_summaries() -> None:
    summary = AIMessage("The user asks about berths.")
    writer_model = CheckedModel(reply=lambda messages, call: summary)
    swapped = threading.Event()
    ready = threading.Event()

    def summarise(messages: list[BaseMessage]) -> str:
        assert all(isinstance(message, BaseMessage) for message in messages)
        return str(writer_model.invoke([HumanMessage(f"{len(messages)} messages")]).text)

    def note(event: Any) -> None:
        {"ready": ready, "swapped": swapped}.get(event.kind, threading.Event()).set()

    background = BackgroundCompaction(
        writer=summarise, keep_last=4, expected_turns=1000, on_event=note
    )
    model = CheckedModel()
    middleware = RehydrateMiddleware(budget=BUDGET, background=background)
    agent = agent_of(model, middleware)
    for turn in range(40):
        state = agent.invoke({"messages": [question(turn)]}, config())
    usage = middleware.thread(config(), state["messages"]).context.usage
    assert swapped.is_set() and len(writer_model.seen) > 1
    assert any("The user asks about berths." in str(each.content) for each in model.seen[-1])
    assert prefix_breaks(model.seen) == usage.compactions


def test_an_edit_of_langchains_own_middleware_does_the_same() -> None:
    model, plain = CheckedModel(), CheckedModel()
    edit = RehydrateEdit(budget=BUDGET)
    editing = ContextEditingMiddleware(edits=[edit])
    state = run_turns(agent_of(model, editing), 20)
    expected = run_turns(agent_of(plain), 20)
    assert prefix_breaks(model.seen) == edit.report.compactions > 0
    assert as_sent(state["messages"]) == as_sent(expected["messages"])


def test_an_edited_state_begins_a_new_context() -> None:
    model = CheckedModel(reply=lambda messages, call: AIMessage("Done."))
    middleware = RehydrateMiddleware(budget=BUDGET)
    agent = agent_of(model, middleware)
    first = HumanMessage("Which berth?", id="m0")
    agent.invoke({"messages": [first]}, config())
    agent.update_state(config(), {"messages": [HumanMessage("Which crane?", id="m0")]})
    agent.invoke({"messages": [question(1)]}, config())
    assert middleware.report.is_rebuilt
    assert model.seen[-1][1].content == "Which crane?"


def test_a_tool_message_of_an_answer_is_the_state_of_the_host_too() -> None:
    def reply(messages: Sequence[BaseMessage], call: int) -> AIMessage:
        if isinstance(messages[-1], ToolMessage):
            return AIMessage("Done.")
        return AIMessage("", tool_calls=[called("fetch_whole", call, handle="nothing")])

    model = CheckedModel(reply=reply)
    state = agent_of(model, RehydrateMiddleware()).invoke({"messages": [question(0)]}, config())
    assert "fetch_whole" in state["messages"][-2].content
