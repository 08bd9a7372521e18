"""RehydratePlugin in ADK's real runner, on a scripted model and against the strict provider."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from itertools import count
from typing import Any

import anyio
import pytest

from rehydrate import Budget
from rehydrate.prompt import Caps

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # it asks the network otherwise
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its own imports
    pytest.importorskip("google.adk", reason="google-adk is not installed")
    from google.adk.agents import LlmAgent
    from google.adk.apps import App
    from google.adk.events import Event
    from google.adk.models import BaseLlm, LlmRequest, LlmResponse
    from google.adk.runners import InMemoryRunner
    from google.genai import types
    from pydantic import BaseModel, Field

from rehydrate.integrations.adapter import Scope
from rehydrate.integrations.google_adk import RehydratePlugin, _content, _parted
from tests.integrations import harbour
from tests.integrations.agent_laws import AgentLaws, Script, Seen, Talked, lookup
from tests.provider import StrictProvider

pytestmark = pytest.mark.filterwarnings("ignore:(?!the messages were sent)")  # ADK's own

logging.getLogger("google_adk").setLevel(logging.ERROR)  # it misses the usage in each response

BUDGET = Budget(soft_tokens=2_000)
TURNS = 16


def text(said: str) -> types.Part:
    return types.Part(text=said)


def call(name: str, id: str | None = None, **args: Any) -> types.Part:
    return types.Part(function_call=types.FunctionCall(id=id, name=name, args=args))


def result(name: str, answer: Any, id: str | None = None) -> types.Part:
    response = answer if isinstance(answer, dict) else {"result": answer}
    return types.Part(function_response=types.FunctionResponse(id=id, name=name, response=response))


def content(role: str, *parts: types.Part) -> types.Content:
    return types.Content(role=role, parts=list(parts))


def faults(contents: list[types.Content]) -> list[str]:
    """Return what Gemini would refuse: a beginning that is not the user's, calls that are not
    answered by as many results in the next content."""
    found = [] if contents[0].role == "user" else ["the first content is the model's"]
    waiting: list[str] = []
    for index, each in enumerate(contents):
        parts = each.parts or []
        found += [f"{index}: nothing is in it"] * (not parts)
        results = [part.function_response.name for part in parts if part.function_response]
        if results != waiting:
            found.append(f"{index}: {results} for {waiting}")
        waiting = [part.function_call.name for part in parts if part.function_call]
    return found + ["the end is unanswered"] * bool(waiting)


class Scripted(BaseLlm):
    """A model that refuses what a provider would refuse."""

    model: str = "gemini-3-pro"
    respond: Any
    seen: list[list[types.Content]] = Field(default_factory=list)
    tools: list[str] = Field(default_factory=list)

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncIterator[LlmResponse]:
        assert faults(llm_request.contents) == []
        self.seen.append(list(llm_request.contents))
        self.tools = list(llm_request.tools_dict)
        yield LlmResponse(content=content("model", *self.respond(llm_request)))

    @property
    def sent(self) -> list[list[str]]:
        return [[each.model_dump_json() for each in contents] for contents in self.seen]


class Talk:
    """A session of an app, with or without the plugin."""

    def __init__(self, model: BaseLlm, *plugins: Any, **options: Any) -> None:
        options = {"instruction": harbour.INSTRUCTIONS, "tools": [lookup], **options}
        agent = LlmAgent(name="harbour", model=model, **options)
        app = App(name="harbour", root_agent=agent, plugins=list(plugins))
        self._runner = InMemoryRunner(app=app)
        self._runner.auto_create_session = True
        self._who = {"user_id": "ada", "session_id": "s"}

    async def say(self, said: str) -> str:
        """Return what the agent answers."""
        message, answer = content("user", text(said)), ""
        async for event in self._runner.run_async(**self._who, new_message=message):
            parts = event.content.parts or [] if event.content else []
            answer = next((part.text for part in parts if part.text), answer)
        return answer

    async def events(self) -> list[Event]:
        session = await self._runner.session_service.get_session(app_name="harbour", **self._who)
        assert session is not None
        return session.events

    def run(self, *said: str) -> str:
        """Return the last answer."""

        async def go() -> str:
            return [await self.say(each) for each in said][-1]

        return anyio.run(go)


def two_calls(request: LlmRequest) -> list[types.Part]:
    """Look two things up at once, then answer."""
    said = [each.model_dump_json() for each in request.contents]
    last = request.contents[-2 if harbour.INSTRUCTIONS in said[-1] else -1]
    number = harbour.words(last.model_dump_json()[-80:], 2)
    if last.parts and last.parts[-1].function_response:
        return [text(f"Answer: {harbour.words(number, 40)}")]
    calls = [call("lookup", query=f"{name}{number}") for name in ("b", "c")]
    return [text(f"I look at {number}."), *calls]


def test_turns_break_the_prefix_at_compactions_only_and_keep_the_events(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # ADK copies every event of the session in each step, unless a flag of its own is set.
    sessions = "google.adk.sessions.in_memory_session_service"
    monkeypatch.setattr(f"{sessions}._copy_session", import_module(sessions)._light_copy)
    model, plugin = Scripted(respond=two_calls), RehydratePlugin(budget=BUDGET)
    talk = Talk(model, plugin)
    talk.run(*map(harbour.question, range(TURNS)))
    assert len(model.seen) == 2 * TURNS
    events = anyio.run(talk.events)
    whole = [each.content for each in events if each.content]
    assert len(whole) == 4 * TURNS
    assert faults(whole) == []
    assert harbour.breaks(model.sent) == plugin.report.compactions > 2
    assert len(model.seen[-1]) < 3 * TURNS


@pytest.mark.parametrize("options", [{}, {"static_instruction": "Be brief."}])
def test_an_instruction_that_moves_stays_where_it_is_and_begins_no_new_context(
    options: dict[str, Any],
) -> None:
    model, plain = Scripted(respond=two_calls), Scripted(respond=two_calls)
    plugin = RehydratePlugin(budget=BUDGET)
    questions = list(map(harbour.question, range(8)))
    Talk(model, plugin, **options).run(*questions)
    Talk(plain, **options).run(*questions)
    assert [each[-2:] for each in model.sent] == [each[-2:] for each in plain.sent]
    assert model.sent[:6] == plain.sent[:6]
    assert 0 < plugin.report.compactions < 5
    assert plugin.report.new == 2
    assert plugin.report.failure == ""


class TestAgent(AgentLaws):
    def talk(
        self,
        script: Script,
        *said: str,
        tools: Sequence[Callable[..., str]] = (lookup,),
        instructions: str = harbour.INSTRUCTIONS,
        **options: Any,
    ) -> Talked:
        def respond(request: LlmRequest) -> list[types.Part]:
            last = request.contents[-1].parts[-1]
            found = last.function_response
            shown = "".join(each.model_dump_json() for each in request.contents)
            answer = script(Seen(_returned(found) if found else last.text, bool(found), shown))
            return [text(answer)] if isinstance(answer, str) else [call(answer[0], **answer[1])]

        model, plugin = Scripted(respond=respond), RehydratePlugin(**options)
        talk = Talk(model, plugin, tools=list(tools), instruction=instructions)
        answer = talk.run(*said)
        events = anyio.run(talk.events)
        kept = [_returned(each) for event in events for each in event.get_function_responses()]
        return Talked(answer, plugin.report, "".join(kept), model.tools)


def _returned(response: types.FunctionResponse) -> str:
    return str(response.response.get("result", response.response))


def test_sub_agents_have_contexts_of_their_own() -> None:
    def transfer(request: LlmRequest) -> list[types.Part]:
        return [call("transfer_to_agent", agent_name="pilot")]

    pilot = Scripted(respond=two_calls)
    helper = LlmAgent(name="pilot", model=pilot, description="Knows tides.", tools=[lookup])
    plugin = RehydratePlugin(budget=BUDGET)
    talk = Talk(Scripted(respond=transfer), plugin, sub_agents=[helper])
    talk.run(*map(harbour.question, range(16)))
    assert len(pilot.seen) == 32
    assert harbour.breaks(pilot.sent) == plugin.report.compactions > 1


def test_a_tool_of_the_same_name_stays_the_agents() -> None:
    def request_context(query: str) -> str:
        """Ask the harbour master."""
        return "the master's answer"

    def respond(request: LlmRequest) -> list[types.Part]:
        found = request.contents[-1].parts[-1].function_response
        if found is not None:
            return [text(found.response["result"])]
        return [call("request_context", query="berth 4")]

    talk = Talk(Scripted(respond=respond), RehydratePlugin(), tools=[request_context])
    assert talk.run("Hello.") == "the master's answer"


def test_a_static_instruction_with_a_file_stays_at_the_head_as_it_is() -> None:
    steps = count()
    model, plugin = Scripted(respond=two_calls), RehydratePlugin(budget=BUDGET)
    talk = Talk(
        model,
        plugin,
        static_instruction=content("user", text("Be brief."), IMAGE),
        instruction=lambda _: f"Step {next(steps)}.",
    )
    talk.run(*map(harbour.question, range(8)))
    assert all(seen[0].parts[-1] == IMAGE for seen in model.seen)
    assert all(f"Step {n}." in seen[1].parts[0].text for n, seen in enumerate(model.seen))
    assert 0 < plugin.report.compactions < 5
    assert plugin.report.new == 2


def test_a_callback_that_changes_contents_begins_no_new_context() -> None:
    def mask(callback_context: Any, llm_request: LlmRequest) -> None:
        for part in [part for each in llm_request.contents for part in each.parts]:
            part.text = part.text and part.text.replace("Question", "Q.")

    model, plugin = Scripted(respond=two_calls), RehydratePlugin(budget=BUDGET)
    Talk(model, plugin, before_model_callback=mask).run(*map(harbour.question, range(8)))
    assert "Question" not in str(model.sent)
    assert plugin.report.new == 2
    assert 0 < plugin.report.compactions < 5


class Berth(BaseModel):
    number: int


def test_an_agent_with_a_schema_and_no_functions_gets_none() -> None:
    def berth(request: LlmRequest) -> list[types.Part]:
        return [text('{"number": 4}')]

    for tools, offered in (([], 0), ([lookup], 2)):
        model = Scripted(respond=berth)
        Talk(model, RehydratePlugin(), tools=tools, output_schema=Berth).run("Hello.")
        assert len({"request_context", "fetch_whole"} & set(model.tools)) == offered


def test_a_task_that_no_event_has_begins_the_conversation() -> None:
    task = content("user", text('{"berth": 4}'))
    assert _parted([task], []) == ([task], [])


# --------------------------------------------------------------------------------------- contents


IMAGE = types.Part(inline_data=types.Blob(data=b"png", mime_type="image/png"))
SIGNED = types.Part(
    function_call=types.FunctionCall(name="lookup", args={"query": "b"}),
    thought_signature=b"signature",
)
LONG = "\n".join(f"line {number}: {harbour.words(str(number), 12)}" for number in range(200))


def shown(contents: list[types.Content], **options: Any) -> list[types.Content]:
    """Return what a plugin sends of these contents."""
    plugin = RehydratePlugin(**options)
    prompted = plugin._threads.prompt(contents, Scope())
    assert plugin.report.failure == ""
    return list(map(_content, prompted.messages))


def test_whole_contents_are_the_very_objects_and_what_is_shown_in_part_is_a_copy() -> None:
    blob = types.FunctionResponseBlob(mime_type="image/png", data=b"png")
    shot = result("lookup", LONG)
    shot.function_response.parts = [types.FunctionResponsePart(inline_data=blob)]
    thought = types.Part(text="Two of them.", thought=True)
    whole = [
        content("user", text("Look."), IMAGE),
        content("model", thought, text("I look."), SIGNED, call("lookup", query="c")),
        content("user", shot, result("lookup", {"berth": 4}), text("And?")),
        content("model", text("Four."), IMAGE),
        content("user", text("Thanks.")),
    ]
    made = shown(whole, caps=Caps(default_tokens=400))
    assert [one is other for one, other in zip(made, whole, strict=True)] == [
        *(True, True, False, True, True)
    ]
    cut, other, said = made[2].parts
    assert len(cut.function_response.response["result"]) < len(LONG) / 2
    assert cut.function_response.parts == shot.function_response.parts
    assert [other, said] == whole[2].parts[1:]
    assert shot.function_response.response == {"result": LONG}


def test_signatures_and_files_of_a_copy_are_the_same_bytes() -> None:
    png = bytes(range(256))
    image = types.Part(inline_data=types.Blob(data=png, mime_type="image/png"))
    signed = types.Part(
        function_call=types.FunctionCall(name="lookup", args={}), thought_signature=png
    )
    whole = [content("user", text("Look."), image), content("model", text("I look."), signed)]
    assert [_content(each.model_dump(mode="json", by_alias=True)) for each in whole] == whole


def test_files_of_any_part_count_once_and_never_as_text() -> None:
    png = b"\x89PNG" * 50_000
    blob = types.FunctionResponseBlob(mime_type="image/png", data=png)
    shot = types.FunctionResponse(
        id="c1", name="shot", response={}, parts=[types.FunctionResponsePart(inline_data=blob)]
    )
    image = types.Part(inline_data=types.Blob(data=png, mime_type="image/png"))
    file = types.Part(
        file_data=types.FileData(file_uri="gs://x/y.pdf", mime_type="application/pdf")
    )
    answered = [
        content("model", call("shot", id="c1")),
        content("user", types.Part(function_response=shot)),
    ]
    for said, medium in (
        ([content("user", image)], 1_120),
        ([content("user", text("Draw.")), content("model", image)], 1_120),
        ([content("user", file)], 1_600),
        ([content("user", text("Shoot.")), *answered], 1_120),
    ):
        plugin = RehydratePlugin()
        plugin._threads.prompt(said, Scope())
        assert medium + 400 < plugin.report.tokens < medium + 650


def test_what_a_source_finds_is_where_the_provider_takes_it() -> None:
    def berths(request: Any) -> str:
        return "Berth 4 is closed."

    model, plugin = Scripted(respond=two_calls), RehydratePlugin(budget=BUDGET, sources=[berths])
    Talk(model, plugin).run(*map(harbour.question, range(20)))
    assert "Berth 4 is closed." in "".join(model.sent[0])
    assert harbour.breaks(model.sent) == plugin.report.compactions > 0
    assert plugin.report.failure == ""


# --------------------------------------------------------------------------------------- providers


@asynccontextmanager
async def litellm(provider: StrictProvider) -> AsyncIterator[BaseLlm]:
    pytest.importorskip("litellm")
    from google.adk.models.lite_llm import LiteLlm

    yield LiteLlm("openai/gpt-5.1", api_base=provider.openai_url, api_key="key")


@asynccontextmanager
async def responses(provider: StrictProvider) -> AsyncIterator[BaseLlm]:
    openai = pytest.importorskip("openai")
    from google.adk.integrations.openai import OpenAIResponsesLlm

    options = {"api_key": "key", "base_url": provider.openai_url, "max_retries": 0}
    async with openai.AsyncOpenAI(**options) as client:
        yield OpenAIResponsesLlm(model="gpt-5.1", client=client)


@asynccontextmanager
async def anthropic(provider: StrictProvider) -> AsyncIterator[BaseLlm]:
    sdk = pytest.importorskip("anthropic")
    from google.adk.models.anthropic_llm import AnthropicLlm

    async with sdk.AsyncAnthropic(api_key="key", base_url=provider.url, max_retries=0) as client:
        yield AnthropicLlm(model="claude-opus-4-6", client=client)


@pytest.mark.parametrize("open_model", [litellm, responses, anthropic])
def test_turns_are_accepted_by_a_strict_provider(open_model: Callable[..., Any]) -> None:
    plugin = RehydratePlugin(budget=BUDGET)

    async def go(provider: StrictProvider) -> None:
        async with open_model(provider) as model:
            talk = Talk(model, plugin)
            for turn in range(9):
                await talk.say(harbour.question(turn))

    with StrictProvider(harbour.reply) as provider:
        anyio.run(go, provider)
    assert provider.refusals == provider.overflows == []
    assert len(provider.requests) == 18
    inputs = [harbour.messages_of(exchange.body or {}) for exchange in provider.requests]
    assert harbour.breaks(inputs) == plugin.report.compactions > 0
