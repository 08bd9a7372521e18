"""ADK's runner: nothing, ContextFilterPlugin, its compaction of events, RehydratePlugin."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.apps.app import EventsCompactionConfig
from google.adk.apps.base_events_summarizer import BaseEventsSummarizer
from google.adk.events import Event, EventActions
from google.adk.events.event_actions import EventCompaction
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.plugins.context_filter_plugin import ContextFilterPlugin
from google.adk.runners import InMemoryRunner
from google.genai.types import Content, FunctionCall, Part

from benches.python.hosts import script
from benches.python.hosts.table import Row, as_texts, timed
from rehydrate.context import BackgroundCompaction
from rehydrate.integrations.google_adk import RehydratePlugin

logging.getLogger("google_adk").setLevel(logging.ERROR)  # it misses the usage in each response
WINDOW = 16
"""Turns that the window keeps: its prompts are about as large as ours."""


async def rows() -> list[Row]:
    """Return the rows of this host."""
    window = ContextFilterPlugin(num_invocations_to_keep=WINDOW)
    compaction = EventsCompactionConfig(
        summarizer=_Summarizer(),
        token_threshold=script.BUDGET.soft_tokens,
        event_retention_size=4 * WINDOW // 2,
    )
    stored = RehydratePlugin(budget=script.BUDGET, background=BackgroundCompaction())
    return [
        await _run("ADK, nothing"),
        await _run(f"ADK, `ContextFilterPlugin({WINDOW})`", window),
        await _run("ADK, events compaction", compaction=compaction),
        await _run("ADK, `RehydratePlugin`", RehydratePlugin(budget=script.BUDGET)),
        await _run("ADK, `RehydratePlugin`, background", stored),
    ]


class _Summarizer(BaseEventsSummarizer):
    """A summary of a hundred words; writing it costs nothing here."""

    async def maybe_summarize_events(self, *, events: list[Event]) -> Event | None:
        summary = script.words(f"summary {len(events)}", 100)
        compaction = EventCompaction(
            start_timestamp=events[0].timestamp,
            end_timestamp=events[-1].timestamp,
            compacted_content=Content(role="model", parts=[Part(text=summary)]),
        )
        actions = EventActions(compaction=compaction)
        return Event(author="user", actions=actions, invocation_id=Event.new_id())


class _Scripted(BaseLlm):
    sent: list[list[str]]

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,  # noqa: ARG002  the base class has it
    ) -> AsyncIterator[LlmResponse]:
        call = len(self.sent)
        contents = [each.model_dump(exclude_none=True) for each in llm_request.contents]
        self.sent.append(as_texts(contents))
        if script.is_tool_call(call):
            made = FunctionCall(name="lookup", args={"query": script.query_of(call)})
            part = Part(function_call=made)
        else:
            part = Part(text=script.answer(call))
        yield LlmResponse(content=Content(role="model", parts=[part]))


def lookup(query: str) -> str:
    """Look something up."""
    return script.looked_up(query)


async def _run(
    name: str, plugin: Any = None, compaction: EventsCompactionConfig | None = None
) -> Row:
    seconds: list[float] = []
    is_ours = isinstance(plugin, RehydratePlugin)
    if is_ours:
        plugin.before_model_callback = timed(seconds, plugin.before_model_callback)
    model = _Scripted(model="scripted", sent=[])
    agent = LlmAgent(name="harbour", model=model, instruction=script.INSTRUCTIONS, tools=[lookup])
    app = App(
        name="harbour",
        root_agent=agent,
        plugins=[] if plugin is None else [plugin],
        events_compaction_config=compaction,
    )
    runner = InMemoryRunner(app=app)
    runner.auto_create_session = True
    for turn in range(script.TURNS):
        said = Content(role="user", parts=[Part(text=script.question(turn))])
        async for _ in runner.run_async(user_id="ada", session_id="s", new_message=said):
            pass
    return Row(name, model.sent, seconds, plugin._threads.last if is_ours else None)
