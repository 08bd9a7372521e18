"""ChatThreads: the conversations of a host whose messages are judged as OpenAI's chat dicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rehydrate.context.context import Context
from rehydrate.context.jit import ContextJIT
from rehydrate.integrations.host_thread import MAX_THREADS
from rehydrate.integrations.model_budget import budget_for
from rehydrate.integrations.prefix_threads import PrefixThreads
from rehydrate.integrations.tool_caps import passes_with
from rehydrate.messages import Provider
from rehydrate.prompt.caps import Caps

FORMAT: Provider = "openai_chat"
"""Of the dicts, whatever model they go to."""


def chat_context(options: Mapping[str, Any], caps: Caps | None) -> Context:
    """Return an empty context for chat dicts that go to the model of these options.

    Raises InvalidArgumentError as `Context` does.
    """
    given = dict(options)
    given["budget"] = budget_for(given.get("model") or "", given["budget"])
    if caps is not None:
        given["passes"] = passes_with(caps)
    return Context(**given, provider=FORMAT)


class ChatThreads(PrefixThreads):
    """The threads of such a host. What a scope names is given to its `Context`, ``model`` among it.

    >>> from typing import NamedTuple
    >>> from rehydrate.prompt import Budget
    >>> class Scope(NamedTuple):
    ...     model: str = ""
    >>> threads = ChatThreads({"budget": Budget()}, Scope(), named=("model",))
    >>> threads.prompt([{"role": "user", "content": "Hello."}], Scope("gpt-5.1")).messages
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
        caps: Caps | None = None,
        asks_back: bool = True,
        max_threads: int = MAX_THREADS,
    ) -> None:
        """Take the options of each `Context`, which come before what a scope names (``named``), and
        a scope that names nothing. Raises InvalidArgumentError as `Context` does."""
        self._options, self._named, self._caps = dict(options), named, caps
        super().__init__(self._context_of, asks_back=asks_back, max_threads=max_threads)
        context = self._context_of(empty)
        self.definitions = ContextJIT(context).tools("anthropic") if asks_back else []
        """Of the tools by which a model asks back, as Anthropic has them."""

    def _context_of(self, scope: Any) -> Context:
        named = {name: getattr(scope, name) for name in self._named}
        return chat_context({**named, **self._options}, self._caps)
