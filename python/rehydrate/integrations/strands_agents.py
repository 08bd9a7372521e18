"""Rehydrate inside Strands Agents: ``pip install rehydrate[strands-agents]``.

RehydratePlugin     for ``Agent(plugins=[...])``: prompts that extend one another
HostReport          the outcome of the last call's messages
RehydrateWarning    something failed, and the messages were sent as they are

``agent.messages`` stay as they are. What the model gets is made from them for each call.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Coroutine, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack
from weakref import WeakKeyDictionary

from rehydrate._concurrency.async_wrappers import computed
from rehydrate.errors import MissingPackageError
from rehydrate.formats._reading import compact_json
from rehydrate.integrations.adapter import (
    Adapter,
    AdapterOptions,
    Prompted,
    Scope,
    passing_through,
    shows_adapter_options,
)
from rehydrate.integrations.host_thread import HostReport, RehydrateWarning
from rehydrate.messages import Provider

try:
    from strands.middleware import InvokeModelStage
    from strands.plugins import Plugin
    from strands.tools import PythonAgentTool
except ImportError:
    raise MissingPackageError("rehydrate[strands-agents]", "brings Strands Agents") from None

if TYPE_CHECKING:
    from strands import Agent
    from strands.middleware import InvokeModelContext

__all__ = ["HostReport", "RehydratePlugin", "RehydrateWarning"]

FORMAT: Provider = "bedrock"
"""The format of Strands' messages, whatever model they go to."""


class RehydratePlugin(Adapter, Plugin):
    """Keep the prompts of agents within a budget, without breaking the provider's cache.

    One plugin serves any number of agents. A conversation is an agent's list of messages that goes
    on: it has a persistent `Context`, and its prompts extend one another byte for byte until a
    compaction. ``agent.messages`` keep all that was said. Give the agent a
    ``NullConversationManager``: Strands' own one would cut the messages first.

    The model brings back by ``request_context`` and ``fetch_whole`` what its prompt does not show.
    If something fails, the model gets the messages as they are, with a `RehydrateWarning`.
    `report` has the outcome of the last call.
    """

    name = "rehydrate"
    _usual: Mapping[str, Any] = {"provider": FORMAT}
    _fixed: Mapping[str, Any] = {}

    @shows_adapter_options(AdapterOptions)
    def __init__(self, **options: Unpack[AdapterOptions]) -> None:
        """Check the arguments; raises InvalidArgumentError as `Context` does."""
        super().__init__()
        self._set_up(options, same=_says_the_same)
        self._prompted_of: WeakKeyDictionary[Agent, Prompted] = WeakKeyDictionary()
        """The prompt of each agent's last call, for the tools that it calls."""

    def init_agent(self, agent: Agent) -> None:
        """Give the agent the tools, and the middleware that makes its prompts."""
        agent.add_middleware(InvokeModelStage.Input, self._with_prompt)
        for definition in self._definitions:
            name = definition["name"]
            if name not in agent.tool_names:
                spec = {
                    "name": name,
                    "description": definition["description"],
                    "inputSchema": {"json": definition["input_schema"]},
                }
                tool = PythonAgentTool(name, spec, _tool(partial(self._answer, name)))
                agent.tool_registry.register_tool(tool)

    async def _with_prompt(self, call: InvokeModelContext) -> InvokeModelContext:
        """Return the call with the thread's prompt; Strands asks before each call of a model."""
        with passing_through():
            self._prompted_of[call.agent], messages = await self._amessages(call)
            return call.replace(messages=messages)
        return call

    def _messages(self, call: InvokeModelContext) -> tuple[Prompted, list[Any]]:
        """Return the prompt of a call, and its messages.

        The blocks at the end that other plugins make anew for each call are not of the history.
        """
        *before, last = call.messages
        end = len(last["content"]) - call.dynamic_trailing_blocks
        said, added = last["content"][:end], last["content"][end:]
        messages = [*before, {**last, "content": said}] if added else call.messages
        config = call.model.get_config()
        model = config.get("model_id") if isinstance(config, Mapping) else None
        scope = Scope(str(model or ""), place=str(call.agent.agent_id))
        sent = [*self._sent(call), *map(compact_json, added)]
        prompted, shown = self._prompted(messages, scope, sent)
        # The call has copies of the messages, and the thread the copies that came first.
        entries = prompted.thread.context.history
        own = {id(block) for each in (*messages, *entries) for block in each["content"]}
        made = [_without_marks(each, own) for each in shown]
        if added:
            made[-1] = {**made[-1], "content": [*made[-1]["content"], *added]}
        return prompted, made

    _amessages = computed(_messages)

    def _sent(self, call: InvokeModelContext) -> Iterator[str]:
        """Yield the texts that the model gets besides the messages: instructions and tools."""
        system = call.system_prompt
        yield system if isinstance(system, str) else compact_json(system or "")
        for spec in call.tool_specs:
            if spec["name"] not in self._own_tools:
                yield compact_json(spec)

    async def _answer(self, name: str, use: Mapping[str, Any], agent: Agent) -> str:
        prompted = self._prompted_of.get(agent)
        return await self._threads.aanswer(prompted, name, use["input"], use["toolUseId"])


def _tool(
    answer: Callable[[Mapping[str, Any], Any], Coroutine[Any, Any, str]],
) -> Callable[..., Coroutine[Any, Any, dict[str, Any]]]:
    """Return a function of Strands' for a tool."""

    async def run(use: Mapping[str, Any], *, agent: Any, **_: Any) -> dict[str, Any]:
        text = await answer(use, agent)
        return {"toolUseId": use["toolUseId"], "status": "success", "content": [{"text": text}]}

    return run


def _says_the_same(one: Any, other: Any) -> bool:
    """Return whether two copies of messages say the same: a plugin that adds to one makes another
    without the agent's marks of it."""
    return bool(one["role"] == other["role"] and one["content"] == other["content"])


def _without_marks(message: Any, own: Container[int]) -> Any:
    """Return a message without cache points that are not the host's ``own``, by their ids: those
    are its model's."""
    content = message["content"]
    kept = [block for block in content if "cachePoint" not in block or id(block) in own]
    return message if len(kept) == len(content) else {**message, "content": kept}
