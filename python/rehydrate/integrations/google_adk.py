"""Rehydrate inside Google's ADK: ``pip install rehydrate[google-adk]``.

RehydratePlugin        for ``App(plugins=[...])``: prompts that extend one another
HostReport             the outcome of the last request's contents
RehydrateWarning       something failed, and the contents were sent as they are

The session's events stay as they are. What the model gets is made from them in each request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from rehydrate.errors import MissingPackageError
from rehydrate.formats._reading import compact_json
from rehydrate.integrations.adapter import (
    Adapter,
    AdapterOptions,
    Scope,
    passing_through,
    shows_adapter_options,
)
from rehydrate.integrations.host_thread import HostReport, HostThread, RehydrateWarning

try:
    from google.adk.plugins.base_plugin import BasePlugin
    from google.adk.tools.base_tool import BaseTool
    from google.genai.types import Content, FunctionDeclaration, GenerateContentConfig
except ImportError:
    raise MissingPackageError("rehydrate[google-adk]", "brings Google's ADK") from None

if TYPE_CHECKING:
    from google.adk.agents.callback_context import CallbackContext
    from google.adk.models.llm_request import LlmRequest
    from google.adk.tools.tool_context import ToolContext

__all__ = ["HostReport", "RehydratePlugin", "RehydrateWarning"]


class RehydratePlugin(Adapter, BasePlugin):
    """Keep the prompts of an app's agents within a budget, without breaking the provider's cache.

    Each agent of a session has a persistent `Context`. Its prompts extend one another byte for byte
    until a compaction. The contents are the request's own objects; some parts of a user's content
    may be left out.

    The model brings back by ``request_context`` and ``fetch_whole`` what its prompt does not show.
    If something fails, the model gets the contents as they are, with a `RehydrateWarning`.
    `report` has the outcome of the last request.

    >>> from rehydrate.prompt import Budget
    >>> RehydratePlugin(budget=Budget(soft_tokens=60_000)).report.compactions
    0
    """

    _fixed: Mapping[str, Any] = {"provider": "gemini"}

    @shows_adapter_options(AdapterOptions)
    def __init__(self, name: str = "rehydrate", **options: Unpack[AdapterOptions]) -> None:
        """Check the arguments; raises InvalidArgumentError as `Context` does."""
        super().__init__(name)
        self._set_up(options)

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> None:
        """Put the thread's prompt into the request; the runner calls it before each request."""
        if llm_request.previous_interaction_id:
            return  # the provider holds the conversation
        with passing_through():
            llm_request.contents = await self._prompt(callback_context, llm_request)

    async def _prompt(
        self, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> list[Content]:
        head = getattr(llm_request, "_static_instruction_prefix_end_index", None) or 0
        static, contents = llm_request.contents[:head], llm_request.contents[head:]
        lasting, passing = _parted(contents, callback_context.session.events)
        beside = [*static, *[each for _, each in passing]]
        texts = [part.text or "" for each in beside for part in each.parts or ()]
        scope = _scope(callback_context, llm_request)
        prompted, shown = await self._aprompted(lasting, scope, [*_sent(llm_request), *texts])
        # The thread keeps the new ones, and a later callback may change what is sent.
        new = set(map(id, lasting[len(lasting) - prompted.thread.report.new :]))
        made = [each.model_copy(deep=True) if id(each) in new else _content(each) for each in shown]
        for after, content in passing:
            made.insert(max(len(made) - after, 0), content)
        if _takes_functions(llm_request.config):
            tools = [_AskingTool(each, prompted.thread) for each in self._definitions]
            llm_request.append_tools([t for t in tools if t.name not in llm_request.tools_dict])
        return [*static, *made]


class _AskingTool(BaseTool):
    """A tool of `ContextJIT`, for the thread that the request is of."""

    def __init__(self, definition: Mapping[str, Any], thread: HostThread) -> None:
        super().__init__(name=definition["name"], description=definition["description"])
        self._schema = definition["input_schema"]
        self._thread = thread

    def _get_declaration(self) -> FunctionDeclaration:
        return FunctionDeclaration(
            name=self.name, description=self.description, parameters_json_schema=self._schema
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> str:
        call_id = tool_context.function_call_id or self.name
        return await self._thread.aanswer(self.name, args, call_id)


def _content(shown: Any) -> Content:
    """Return a content that is shown whole; else what is shown of it, or a section of context."""
    is_whole = isinstance(shown, Content)
    return shown if is_whole else Content.model_validate_json(compact_json(shown))


def _scope(callback_context: CallbackContext, llm_request: LlmRequest) -> Scope:
    session = callback_context.session
    agent = callback_context.agent_name, callback_context.branch, callback_context.isolation_scope
    place = session.app_name, session.user_id, session.id, *agent
    return Scope(str(llm_request.model or ""), place=place)


def _takes_functions(config: GenerateContentConfig) -> bool:
    """Return whether our functions may be added: Gemini 2 takes none beside a schema of the answer,
    nor beside its own tools. Where the agent has functions too, they go together."""
    tools = config.tools or []
    is_alone = not any(getattr(each, "function_declarations", None) for each in tools)
    return not (is_alone and (tools or config.response_schema or config.response_json_schema))


def _sent(llm_request: LlmRequest) -> list[str]:
    """Return the texts that the model gets besides the contents: instructions and tools."""
    config = llm_request.config
    system = config.system_instruction
    texts = [system if isinstance(system, str) else str(system or "")]
    for tool in config.tools or ():
        declarations = getattr(tool, "function_declarations", None) or ()
        texts += [compact_json(each.model_dump(exclude_none=True)) for each in declarations]
    return texts


def _parted(
    contents: Sequence[Content], events: Sequence[Any]
) -> tuple[list[Content], list[tuple[int, Content]]]:
    """Return the contents that last, and those of this request alone, each with the number of
    lasting ones after it.

    ADK writes an instruction that may change, and what a run brings along, into each request before
    the last thing that the user said; no event has them.
    """
    start = len(contents)
    while start and _is_said(contents[start - 1]):
        start -= 1
    lasting, passing = list(contents[:start]), list[tuple[int, Content]]()
    for content in contents[start:]:
        if _is_of_an_event(content, events):
            lasting.append(content)
        else:
            passing.append((len(lasting), content))
    if not lasting:  # a task that another agent gave, which no event has either
        return list(contents), []
    return lasting, [(len(lasting) - before, content) for before, content in passing]


def _is_said(content: Content) -> bool:
    """Return whether a content is a user's, without a tool's answer."""
    parts = content.parts or []
    return content.role == "user" and not any(part.function_response for part in parts)


def _is_of_an_event(content: Content, events: Sequence[Any]) -> bool:
    """Return whether a content is an event's, or tells of another agent's."""
    parts = content.parts or []
    if parts and (parts[0].text or "").startswith("For context:"):
        return True
    said = (event.content for event in reversed(events) if event.content is not None)
    return any(each.role == "user" and each.parts == parts for each in said)
