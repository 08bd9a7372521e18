"""RehydrateFilter and RehydrateSession with the real Agents SDK, against the strict provider."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rehydrate import Budget, Context, validate
from rehydrate.context import Threads

pytest.importorskip("agents", reason="openai-agents is not installed")

import mcp
import openai
from agents import (
    Agent,
    ModelSettings,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    SQLiteSession,
    function_tool,
    handoff,
)
from agents.mcp import MCPServer
from agents.memory import Session, SessionSettings
from agents.testing import ScriptedModel, assistant_message
from pydantic import BaseModel

from rehydrate.integrations.openai_agents import (
    RehydrateFilter,
    RehydrateSession,
    RehydrateWarning,
)
from tests.integrations import harbour
from tests.integrations.agent_laws import AgentLaws, Script, Seen, Talked, lookup
from tests.provider import Call, ScriptedReply, StrictProvider
from tests.sizes import IS_DEEP

BUDGET = Budget(soft_tokens=2_000)


@asynccontextmanager
async def agent_of(
    provider: StrictProvider,
    rehydrate: RehydrateFilter,
    *,
    tools: Sequence[Callable[..., str]] = (lookup,),
    instructions: str = harbour.INSTRUCTIONS,
) -> AsyncIterator[Agent]:
    settings = ModelSettings(store=False, response_include=["reasoning.encrypted_content"])
    async with openai.AsyncOpenAI(
        api_key="key", base_url=provider.openai_url, max_retries=0
    ) as client:
        yield Agent(
            name="harbour",
            instructions=instructions,
            model=OpenAIResponsesModel("gpt-5.1", client),
            model_settings=settings,
            tools=[*map(function_tool, tools), *rehydrate.tools],
        )


def config_of(rehydrate: Any) -> RunConfig:
    return RunConfig(call_model_input_filter=rehydrate, tracing_disabled=True)


def inputs_of(provider: StrictProvider) -> list[list[Any]]:
    return [harbour.messages_of(exchange.body or {}) for exchange in provider.requests]


async def talk(
    provider: StrictProvider,
    questions: Sequence[str],
    rehydrate: RehydrateFilter,
    session: Any,
    *,
    streams: bool = False,
    **how: Any,
) -> list[str]:
    """Run an agent for each question in one session; return the answers."""
    answers = []
    options: dict[str, Any] = {"session": session, "run_config": config_of(rehydrate)}
    async with agent_of(provider, rehydrate, **how) as agent:
        for asked in questions:
            if streams:
                result: Any = Runner.run_streamed(agent, asked, **options)
                async for _ in result.stream_events():
                    pass
            else:
                result = await Runner.run(agent, asked, **options)
            answers.append(str(result.final_output))
    return answers


def run(
    respond: Any,
    questions: Sequence[str],
    rehydrate: RehydrateFilter,
    *,
    streams: bool = False,
    **how: Any,
) -> tuple[StrictProvider, list[Any], list[str]]:
    """Run an agent for each question; return the provider, the session's items and the answers."""

    async def all_of_it(provider: StrictProvider) -> tuple[list[Any], list[str]]:
        session = SQLiteSession("t-42")
        answers = await talk(provider, questions, rehydrate, session, streams=streams, **how)
        items: list[Any] = await session.get_items()
        session.close()
        return items, answers

    with StrictProvider(respond) as provider:
        items, answers = asyncio.run(all_of_it(provider))
    return provider, items, answers


@pytest.fixture(autouse=True)
def _unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenAI's SDK sends items as they are. It compares each with 25 shapes, to rename keys that
    none of them has: nine tenths of a run. CI's test of streams leaves it."""

    async def as_given(given: dict[str, Any], _shape: object) -> dict[str, Any]:
        return {key: value for key, value in given.items() if openai._utils.is_given(value)}

    monkeypatch.setattr("openai.resources.responses.responses.async_maybe_transform", as_given)


@pytest.mark.parametrize(("turns", "streams"), [(20, False), (10, True)])
def test_turns_with_tools_are_accepted_and_break_the_prefix_at_compactions_only(
    turns: int, streams: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if streams and IS_DEEP:
        monkeypatch.undo()
    rehydrate = RehydrateFilter(budget=BUDGET)
    questions = [harbour.question(turn) for turn in range(turns)]
    provider, items, _ = run(harbour.reply, questions, rehydrate, streams=streams)
    assert provider.refusals == provider.overflows == []
    inputs = inputs_of(provider)
    assert len(inputs) == 2 * turns
    thread = rehydrate.thread(items)
    assert thread is not None
    assert harbour.breaks(inputs) == thread.context.usage.compactions > turns / 40
    assert max(exchange.billed.prompt for exchange in provider.requests) < 2 * BUDGET.soft_tokens
    assert provider.usage.read > provider.usage.prompt / 2
    assert all(validate(each, format="openai_responses") == [] for each in inputs)
    assert any(item.get("type") == "reasoning" for item in inputs[-1])


def test_the_session_keeps_every_item() -> None:
    rehydrate = RehydrateFilter(budget=BUDGET)
    questions = [harbour.question(turn) for turn in range(10)]
    provider, items, _ = run(harbour.reply, questions, rehydrate)
    assert [item["content"] for item in items if item.get("role") == "user"] == questions
    thread = rehydrate.thread(items)
    assert thread is not None
    assert thread.context.usage.compactions > 0
    # All but the last reply, which no call has seen yet.
    history = thread.context.history
    assert history == items[: len(history)]
    assert provider.refusals == []


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

        def respond(body: Any, wire: str) -> ScriptedReply:
            last = harbour.since_user(body)[-1]
            offered[:] = [each["name"] for each in body["tools"]]
            text, is_result = last.get("output", last.get("content")), "output" in last
            answer = script(Seen(text, is_result, harbour.text_of({"": body["input"]})))
            if isinstance(answer, str):
                return ScriptedReply(answer)
            return ScriptedReply("", calls=(Call(*answer),))

        ours = RehydrateFilter(**options)
        how = {"tools": tools, "instructions": instructions}
        provider, items, answers = run(respond, said, ours, **how)
        assert provider.refusals == []
        kept = "".join(str(item.get("output", "")) for item in items)
        return Talked(answers[-1], ours.report, kept, offered)


def test_a_call_whose_arguments_are_no_json_is_answered() -> None:
    rehydrate = RehydrateFilter()

    def respond(body: Any, wire: str) -> ScriptedReply:
        if len(harbour.since_user(body)) == 1:
            return ScriptedReply("", calls=(Call("request_context", '{"query": '),))
        return ScriptedReply("Done.")

    provider, items, answers = run(respond, ["Go on."], rehydrate)
    (output,) = [item["output"] for item in items if "output" in item]
    assert "request_context" in output
    assert answers == ["Done."]
    assert provider.refusals == []


def test_two_conversations_of_one_filter_keep_their_threads() -> None:
    rehydrate = RehydrateFilter(budget=BUDGET)

    async def one_of(agent: Agent, name: str) -> list[Any]:
        session = SQLiteSession(name)
        for turn in range(6):
            asked = f"{name}: {harbour.question(turn)}" if turn else "Hello."
            await Runner.run(agent, asked, session=session, run_config=config_of(rehydrate))
        items: list[Any] = await session.get_items()
        session.close()
        return items

    async def both(provider: StrictProvider) -> list[list[Any]]:
        async with agent_of(provider, rehydrate) as agent:
            return await asyncio.gather(one_of(agent, "one"), one_of(agent, "two"))

    with StrictProvider(harbour.reply) as provider:
        talks = asyncio.run(both(provider))
    threads = [rehydrate.thread(items) for items in talks]
    assert threads[0] is not threads[1]
    for name, thread in zip(("one", "two"), threads, strict=True):
        other = "two" if name == "one" else "one"
        assert thread is not None
        assert not any(f"{other}:" in harbour.text_of(item) for item in thread.context.history)
    assert provider.refusals == []


def test_handoffs_are_followed_and_a_sub_agent_has_a_thread_of_its_own() -> None:
    rehydrate = RehydrateFilter(budget=BUDGET)
    queries, turns = iter(range(1_000)), 14

    def respond(body: Any, wire: str) -> ScriptedReply:
        said, names = harbour.since_user(body), [tool["name"] for tool in body["tools"]]
        transfer = next((name for name in names if name.startswith("transfer")), "")
        if transfer:
            return ScriptedReply("", calls=(Call(transfer, {}),))
        if "keeper" in names:
            if "Find it" not in harbour.text_of({"said": said}):
                return ScriptedReply(
                    "", calls=(Call("keeper", {"input": f"Find it: {next(queries)}"}),)
                )
            return ScriptedReply(f"Done. {harbour.words(str(next(queries)), 40)}")
        return harbour.reply(body, wire)

    async def go(provider: StrictProvider) -> list[Any]:
        async with agent_of(provider, rehydrate) as leaf:
            tool = leaf.as_tool("keeper", "Ask the keeper.", run_config=config_of(rehydrate))
            second = leaf.clone(name="second", tools=[tool, *rehydrate.tools])
            first = leaf.clone(name="first", handoffs=[second], tools=rehydrate.tools)
            session = SQLiteSession("t-42")
            options: dict[str, Any] = {"session": session, "run_config": config_of(rehydrate)}
            for turn in range(turns):
                await Runner.run(first, harbour.question(turn), **options)
            items: list[Any] = await session.get_items()
            session.close()
            return items

    with StrictProvider(respond) as provider:
        items = asyncio.run(go(provider))
    assert provider.refusals == []
    assert len(provider.requests) == 5 * turns
    thread = rehydrate.thread(items)
    assert thread is not None
    assert not thread.report.is_rebuilt
    assert thread.context.usage.compactions > 0
    assert len(thread.context.history) == len(items) - 1


def test_a_name_keeps_the_same_words_of_two_users_apart() -> None:
    rehydrate = RehydrateFilter(thread=lambda data: data.context)

    async def go(provider: StrictProvider) -> None:
        async with agent_of(provider, rehydrate) as agent:
            for user in ("alice", "bob"):
                await Runner.run(agent, "Hello.", context=user, run_config=config_of(rehydrate))

    with StrictProvider(harbour.reply) as provider:
        asyncio.run(go(provider))
    said = [{"role": "user", "content": "Hello."}]
    sent = inputs_of(provider)
    assert rehydrate.thread(said) is None
    assert rehydrate.thread(sent[1], "alice") is not None
    assert rehydrate.thread(sent[3], "bob") is not None
    assert rehydrate.thread(sent[1], "bob") is None


def test_a_name_that_cannot_be_read_sends_the_items_as_they_are() -> None:
    rehydrate = RehydrateFilter(thread=lambda data: data.context.user)
    with pytest.warns(RehydrateWarning):
        provider, _, answers = run(harbour.reply, ["Hello."], rehydrate)
    assert len(answers) == 1
    assert provider.refusals == []


class Books(MCPServer):
    """A server of tools, whose list the run has fetched."""

    name = "books"

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.tool_filter = {"blocked_tool_names": ["burn"]}
        schema = {"type": "object", "properties": {}}
        self._tools = [
            mcp.types.Tool(name=name, description=f"about {name}", inputSchema=schema)
            for name in names
        ]

    @property
    def cached_tools(self) -> Any:
        return self._tools

    async def connect(self) -> None: ...
    async def cleanup(self) -> None: ...
    async def list_tools(self, *_: Any, **__: Any) -> Any:
        return self._tools

    async def call_tool(self, *_: Any, **__: Any) -> Any: ...
    async def list_prompts(self) -> Any: ...
    async def get_prompt(self, *_: Any) -> Any: ...


class Berth(BaseModel):
    """A place for a ship."""

    number: int


def test_all_that_the_model_is_offered_counts() -> None:
    second = Agent(name="second", handoff_description="knows tides")
    third = handoff(Agent(name="third"), tool_description_override="knows storms")
    hidden = function_tool(lookup, name_override="hidden", is_enabled=False)
    later = function_tool(lookup, name_override="later", defer_loading=True)
    agent = Agent(
        name="harbour",
        tools=[function_tool(lookup), hidden, later],
        mcp_servers=[Books("pages", "burn")],
        handoffs=[second, third],
        output_type=Berth,
    )
    sent: list[str] = []

    class Filter(RehydrateFilter):
        def _sent(self, data: Any) -> list[str]:
            sent[:] = super()._sent(data)
            return sent

    rehydrate = Filter()
    model = ScriptedModel([[assistant_message('{"number": 4}')]])
    asyncio.run(Runner.run(agent, "Hello.", run_config=replace(config_of(rehydrate), model=model)))
    text = "".join(sent)
    for part in ("about pages", "knows tides", "knows storms", "A place for a ship", "books"):
        assert part in text, part
    for part in ("burn", "hidden", "later"):
        assert part not in text, part
    assert rehydrate.report.failure == ""
    assert rehydrate.report.tokens > 200


def test_a_run_whose_filter_failed_asks_nothing_of_the_run_before_it() -> None:
    rehydrate = RehydrateFilter(thread=lambda data: {"alice": "a"}[data.context])

    def respond(body: Any, wire: str) -> ScriptedReply:
        said = harbour.since_user(body)
        if "bob" in harbour.text_of(said[0]) and len(said) == 1:
            return ScriptedReply("", calls=(Call("request_context", {"query": "berth"}),))
        return harbour.reply(body, wire)

    async def go(provider: StrictProvider) -> Any:
        async with agent_of(provider, rehydrate) as agent:
            for user in ("alice", "bob"):
                said = f"{user}: which berth is free?"
                result = await Runner.run(
                    agent, said, context=user, run_config=config_of(rehydrate)
                )
        return result.to_input_list()

    with StrictProvider(respond) as provider, pytest.warns(RehydrateWarning):
        items = asyncio.run(go(provider))
    (output,) = [item["output"] for item in items if "output" in item]
    assert "there is nothing to ask" in output


# ------------------------------------------------------------------------------------------ session


def session_test(test: Callable[[Path], Awaitable[None]]) -> Callable[[Path], None]:
    def run_it(tmp_path: Path) -> None:
        asyncio.run(test(tmp_path / "threads.db"))

    run_it.__name__ = test.__name__
    return run_it


@session_test
async def test_a_session_has_the_protocols_methods(path: Path) -> None:
    session = RehydrateSession("t-42", path)
    assert isinstance(session, Session)
    assert await session.get_items() == []
    assert await session.pop_item() is None
    await session.add_items([])
    items: list[Any] = [
        {"role": "user", "content": "こんにちは"},
        {"role": "assistant", "content": "Robert'); DROP TABLE students;--"},
        {"type": "function_call", "call_id": "c1", "name": "ls", "arguments": "{}"},
    ]
    await session.add_items(items[:1])
    await session.add_items(items[1:])
    assert await session.get_items() == items
    assert await session.get_items(2) == items[1:]
    assert await session.get_items(0) == []
    assert await session.get_items(10) == items
    assert await session.pop_item() == items[2]
    assert await session.pop_item() == items[1]
    assert await session.get_items() == items[:1]
    await session.add_items(items[1:])
    assert await session.get_items() == items
    await session.clear_session()
    assert await session.get_items() == []
    assert await session.pop_item() is None
    await session.add_items(items[:1])
    assert await session.get_items() == items[:1]
    session.close()


@session_test
async def test_a_sessions_settings_limit_what_it_returns(path: Path) -> None:
    session = RehydrateSession("t-42", path, session_settings=SessionSettings(limit=2))
    items: list[Any] = [{"role": "user", "content": str(number)} for number in range(5)]
    await session.add_items(items)
    assert await session.get_items() == items[-2:]
    assert await session.get_items(3) == items[-3:]
    session.close()


@session_test
async def test_sessions_of_one_file_are_apart_and_outlive_the_process(path: Path) -> None:
    for name in ("one", "two"):
        session = RehydrateSession(name, path)
        await session.add_items([{"role": "user", "content": name}])
        session.close()
    session = RehydrateSession("one", path)
    assert await session.get_items() == [{"role": "user", "content": "one"}]
    await session.clear_session()
    session.close()
    other = RehydrateSession("two", path)
    assert await other.get_items() == [{"role": "user", "content": "two"}]
    other.close()


@session_test
async def test_any_number_of_writers_lose_nothing(path: Path) -> None:
    sessions = [RehydrateSession("t-42", path) for _ in range(4)]

    async def write(number: int) -> None:
        item: Any = {"role": "user", "content": str(number)}
        await sessions[number % 4].add_items([item])

    await asyncio.gather(*map(write, range(20)))
    stored = await sessions[0].get_items()
    assert {item["content"] for item in stored} == {str(number) for number in range(20)}
    for session in sessions:
        session.close()


@session_test
async def test_a_cancelled_call_writes_nothing_after_it_ended(path: Path) -> None:
    session = RehydrateSession("t-42", path, session_settings={"limit": 5})
    for number in range(20):
        writing = asyncio.ensure_future(
            session.add_items([{"role": "user", "content": str(number)}])
        )
        await asyncio.sleep(0)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        known = await session.get_items(1_000)
        await asyncio.sleep(0.001)
        assert await session.get_items(1_000) == known
        assert len(known) == number + 1
    session.close()


@session_test
async def test_a_context_goes_on_from_a_session(path: Path) -> None:
    session = RehydrateSession("t-42", path)
    items: list[Any] = [{"role": "user", "content": "one"}, {"role": "user", "content": "two"}]
    await session.add_items(items)
    await session.pop_item()
    session.close()
    with Context.open(
        path, thread="t-42", namespace="agents", provider="openai_responses"
    ) as context:
        assert context.history == items[:1]
        context.prompt("And now?")
    session = RehydrateSession("t-42", path)
    assert [item["content"] for item in await session.get_items()] == ["one", "And now?"]
    assert await session.pop_item() == {"role": "user", "content": "And now?"}
    session.close()
    with Threads.open(path, namespace="agents") as threads:
        assert [entry for _, entry in threads.history("t-42")] == items[:1]


@session_test
async def test_an_item_that_no_prompt_could_hold_is_kept(path: Path) -> None:
    session = RehydrateSession("t-42", path)
    odd: list[Any] = [{"role": "robot", "content": 17}]
    await session.add_items(odd)
    assert await session.get_items() == odd
    session.close()


@session_test
async def test_a_thread_in_another_format_is_not_written_to(path: Path) -> None:
    with Context.open(path, thread="t-42", namespace="agents") as context:
        context.add({"role": "user", "content": "Hello."})
    session = RehydrateSession("t-42", path)
    with pytest.raises(ValueError, match="format 'anthropic'"):
        await session.add_items([{"role": "user", "content": "Hello."}])
    session.close()


def test_an_agent_runs_with_session_and_filter(tmp_path: Path) -> None:
    rehydrate = RehydrateFilter(budget=BUDGET)

    async def go(provider: StrictProvider) -> list[Any]:
        for turn in range(20):  # each as after a restart
            session = RehydrateSession("t-42", tmp_path / "threads.db")
            async with agent_of(provider, rehydrate) as agent:
                await Runner.run(
                    agent,
                    harbour.question(turn),
                    session=session,
                    run_config=config_of(rehydrate),
                )
            items = await session.get_items()
            session.close()
        return items

    with StrictProvider(harbour.reply) as provider:
        items = asyncio.run(go(provider))
    thread = rehydrate.thread(items)
    assert thread is not None
    assert provider.refusals == []
    assert harbour.breaks(inputs_of(provider)) == thread.context.usage.compactions > 0
