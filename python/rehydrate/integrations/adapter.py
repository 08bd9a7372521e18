"""What adapters share: their options, and the threads that make a `Context` from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import eq
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from rehydrate._check import check_type
from rehydrate.context.context import Context
from rehydrate.context.history import Same
from rehydrate.context.jit import ContextJIT
from rehydrate.context.prompt_builder import own_passes
from rehydrate.integrations.host_thread import MAX_THREADS, HostReport
from rehydrate.integrations.prefix_threads import PrefixThreads
from rehydrate.messages import Provider
from rehydrate.prompt.caps import Caps, CapToolResults
from rehydrate.prompt.counting import room
from rehydrate.prompt.request import Budget
from rehydrate.prompt.target import Pass

if TYPE_CHECKING:
    from rehydrate.compact.outline import OutlineSize
    from rehydrate.context.compaction import BackgroundCompaction
    from rehydrate.context.threads import Threads
    from rehydrate.prompt.originals import Originals
    from rehydrate.prompt.request import ContextStrategy
    from rehydrate.prompt.section import Section
    from rehydrate.prompt.sources import Given

CHAT: Provider = "openai_chat"
"""The format of chat dicts, whatever model they go to."""
_ANTHROPIC = ("claude", "anthropic")


class PassiveOptions(TypedDict, total=False):
    """The options of an adapter that offers no tools: those of each `Context`, and two more."""

    budget: Budget
    """The host's instructions and tools count in it."""
    sources: Given
    """A `Memory`, folders or functions that are asked in each user turn."""
    background: BackgroundCompaction | None
    """Summaries are written meanwhile."""
    caps: Caps | None
    """A tool's result over its cap is shown in part, with a handle of the whole."""
    max_threads: int
    """Conversations that are known; the longest unused goes first."""
    provider: Provider
    model: str
    thinking: str
    granularity: str
    system: str | Section | Sequence[str | Section] | None
    tools: Iterable[Any]
    strategy: ContextStrategy
    namespace: str
    passes: Sequence[Pass] | None
    originals: Originals | None
    embedder: Any
    timeout: float | None
    outline: OutlineSize
    clock: Callable[[], float]
    threads: Threads | None


class AdapterOptions(PassiveOptions, total=False):
    """The options of an adapter; those without a description are as in `Context`."""

    asks_back: bool
    """The model brings back by ``request_context`` and ``fetch_whole`` what its prompt does not
    show. The default is True."""


class AdapterThreads(PrefixThreads):
    """The threads of an adapter's conversations, which make their contexts from its options."""

    _tool_format: Provider = "anthropic"

    def __init__(
        self, options: Mapping[str, Any], empty: Any, *, can_ask: bool = True, same: Same = eq
    ) -> None:
        """Take the options, and a scope that names nothing.

        Raises InvalidArgumentError as `Context` does.
        """
        self._options = {"budget": Budget(), **options}
        asks_back = can_ask and self._options.pop("asks_back", True)
        max_threads = self._options.pop("max_threads", MAX_THREADS)
        super().__init__(self._context, asks_back=asks_back, max_threads=max_threads, same=same)
        context = self._context(empty)
        self.definitions = ContextJIT(context).tools(self._tool_format) if asks_back else []
        """Of the tools by which a model asks back."""

    def _context(self, scope: Any) -> Context:
        raise NotImplementedError


class ChatThreads(AdapterThreads):
    """The threads of a host whose messages are judged as OpenAI's chat dicts.

    What a scope names (``named``) is given to its `Context`; the options come before it.

    >>> threads, scope = ChatThreads({}, AgentScope()), AgentScope(model="gpt-5.1")
    >>> threads.prompt([{"role": "user", "content": "Hello."}], scope).messages
    [{'role': 'user', 'content': 'Hello.'}]
    >>> [definition["name"] for definition in threads.definitions]
    ['request_context', 'fetch_whole']
    """

    def __init__(
        self,
        options: Mapping[str, Any],
        empty: Any,
        *,
        named: tuple[str, ...] = ("model",),
        can_ask: bool = True,
    ) -> None:
        """Take the options as `AdapterThreads` does."""
        self._named = named
        super().__init__(options, empty, can_ask=can_ask)

    def _context(self, scope: Any) -> Context:
        named = {name: getattr(scope, name) for name in self._named}
        return chat_context({**named, **self._options})


class AgentScope(NamedTuple):
    """What tells an agent's conversation from others, besides its messages."""

    agent: str = ""
    model: str = ""


class Adapter:
    """What adapters of hosts with many conversations have."""

    _threads: AdapterThreads

    @property
    def report(self) -> HostReport:
        """What became of the last request's messages, of any conversation."""
        return self._threads.report


def context_of(options: Mapping[str, Any], **fixed: Any) -> Context:
    """Return an empty context of an adapter's options; raises InvalidArgumentError as it does."""
    given = dict(options)
    if (caps := given.pop("caps", None)) is not None:
        check_type("caps", caps, Caps, "pass Caps(default_tokens=2_000)")
        cap = CapToolResults(caps)
        given["passes"] = [
            cap if isinstance(step, CapToolResults) else step for step in own_passes()
        ]
    return Context(**given, **fixed)


def chat_context(options: Mapping[str, Any]) -> Context:
    """Return an empty context for chat dicts that go to the model of these options."""
    budget = budget_for(options.get("model") or "", options["budget"])
    return context_of({**options, "budget": budget}, provider=CHAT)


def budget_for(model: str, budget: Budget) -> Budget:
    """Return the budget for messages of OpenAI's shape that go to any provider's model.

    Anthropic counts more tokens than OpenAI for the same text, so fewer of OpenAI's have room.

    >>> budget_for("anthropic/claude-opus-4-6", Budget(soft_tokens=1_350)).soft_tokens
    1000
    """
    if not any(name in model.lower() for name in _ANTHROPIC):
        return budget
    soft, hard = (room(each, "anthropic") for each in (budget.soft_tokens, budget.hard_tokens))
    return replace(budget, soft_tokens=max(soft, 1), hard_tokens=max(hard, 1))
