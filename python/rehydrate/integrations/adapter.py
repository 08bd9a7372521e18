"""The common part of adapters: their options, the threads of their conversations, and the loop.

PrefixThreads     the conversations of a host that does not name them: a list of messages goes to
                  the thread whose messages it begins with; one that goes back, or branches off,
                  gets a thread of its own
Adapter           messages in, the messages that a prompt shows out; contexts made from options
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from operator import eq
from threading import RLock
from typing import TYPE_CHECKING, Any, NamedTuple

from rehydrate._check import check_type
from rehydrate._concurrency.async_wrappers import computed
from rehydrate._text import safe_error_text
from rehydrate.context.context import Context, PromptOptions
from rehydrate.context.history import Same
from rehydrate.context.jit import ContextJIT
from rehydrate.context.prompt_builder import own_passes
from rehydrate.formats._reading import compact_json
from rehydrate.integrations.chat_dicts import Codec
from rehydrate.integrations.host_thread import (
    MAX_THREADS,
    NOTHING_KNOWN,
    HostReport,
    HostThread,
    Known,
    Shown,
    nothing_to_ask,
    warn_passed_through,
)
from rehydrate.integrations.signatures import shows_options
from rehydrate.messages import Provider
from rehydrate.prompt.caps import Caps, CapToolResults
from rehydrate.prompt.counting import room, text_tokens
from rehydrate.prompt.request import Budget

if TYPE_CHECKING:
    from rehydrate.prompt.sources import Given

CHAT: Provider = "openai_chat"
"""The format of chat dicts, for any model."""
_ANTHROPIC = ("claude", "anthropic")


class ContextOptions(PromptOptions, total=False):
    """The options of an adapter's contexts, as in `Context`.

    The host's instructions and tools count in ``budget``. ``provider`` is not of adapters that have
    a `Codec`: chat dicts are OpenAI's.
    """

    sources: Given
    """A `Memory`, folders or functions that are asked in each user turn."""
    caps: Caps | None
    """A tool's result over its cap is shown in part, with a handle of the whole."""
    namespace: str


class PassiveOptions(ContextOptions, total=False):
    """The options of an adapter that offers no tools."""

    max_threads: int
    """Conversations that are known; the longest unused goes first."""


class AdapterOptions(PassiveOptions, total=False):
    """The options of an adapter."""

    asks_back: bool
    """The model brings back by ``request_context`` and ``fetch_whole`` what its prompt does not
    show. The default is True."""


shows_adapter_options = partial(
    shows_options, givers=[Context], asks_back=True, caps=None, max_threads=MAX_THREADS
)
"""`shows_options` for a constructor that takes one of these."""


class Prompted(NamedTuple):
    """The messages to send, and the thread that made them."""

    thread: HostThread
    shown: list[Shown]
    given: Sequence[Any]
    """The host's messages."""
    scope: Hashable

    @property
    def messages(self) -> list[Any]:
        """The messages to send."""
        return [each.message for each in self.shown]


class PrefixThreads:
    """The threads of a host's conversations, within scopes; the longest unused goes first.

    Two conversations with the same beginning share a thread as long as they say the same. Nothing
    is shared between scopes: a scope is a user, a model, a conversation's name, or all of them.

    >>> threads = PrefixThreads(lambda scope: Context(provider="openai_chat"))
    >>> said = [{"role": "user", "content": "Which berth is free?"}]
    >>> thread = threads.prompt(said).thread
    >>> said.append({"role": "assistant", "content": "Berth 4."})
    >>> threads.prompt(said).thread is thread, threads.prompt(said[1:]).thread is thread
    (True, False)
    """

    def __init__(
        self,
        make: Callable[[Any], Context],
        *,
        asks_back: bool = False,
        max_threads: int = MAX_THREADS,
        same: Same = eq,
    ) -> None:
        """Take a function that makes an empty `Context` for a scope."""
        self._make = make
        self._asks_back = asks_back
        self._max_threads = max_threads
        self._same = same
        self._lock = RLock()
        self._threads: list[tuple[Hashable, HostThread]] = []
        """The last used is the last."""
        self.last: HostThread | None = None
        """The thread of the last prompt, whatever became of it."""

    @property
    def report(self) -> HostReport:
        """The outcome of the last list of messages, of any conversation."""
        return HostReport() if self.last is None else self.last.report

    def find(self, messages: Sequence[Any], scope: Hashable = "") -> HostThread | None:
        """Return the thread that a list goes on from, the one with the most messages; None: there
        is none."""
        return self._found(messages, scope)[0]

    def asking(self, messages: Sequence[Any], scope: Hashable = "") -> Prompted | None:
        """Return the facts that `answer` needs of a conversation that was prompted before; None: no
        thread knows it."""
        thread = self.find(messages, scope)
        return None if thread is None else Prompted(thread, [], tuple(messages), scope)

    def _found(self, messages: Sequence[Any], scope: Hashable) -> tuple[HostThread | None, Known]:
        with self._lock:
            threads = list(self._threads)
        known = [(thread, thread.known_of(messages)) for other, thread in threads if other == scope]
        thread, most = max(known, key=lambda found: found[1][1], default=(None, NOTHING_KNOWN))
        return (thread, most) if most[1] else (None, NOTHING_KNOWN)

    def prompt(
        self, messages: Sequence[Any], scope: Hashable = "", *, reserved_tokens: int = 0
    ) -> Prompted:
        """Return what to send, as `HostThread.prompt` does. It raises nothing."""
        thread, known = self._found(messages, scope)
        shown = None
        if thread is not None:
            shown = thread.shown_next(messages, known, reserved_tokens=reserved_tokens)
        if thread is None or shown is None:  # another list went on from it meanwhile
            thread = self._thread(scope)
            shown = thread.shown(messages, reserved_tokens=reserved_tokens)
        self.last = thread
        self._note(scope, thread)
        return Prompted(thread, shown, tuple(messages), scope)

    def answer(
        self, asking: Prompted | None, name: str, arguments: Mapping[str, Any] | str, call_id: str
    ) -> str:
        """Return the answer to a call that a prompt led to, as `HostThread.answer` does, from its
        own conversation and no other; None: the prompt is unknown."""
        if asking is None:
            return nothing_to_ask(name)
        thread = asking.thread
        text = thread.answer(name, arguments, call_id)
        if thread.report.failure or thread.known_of(asking.given)[1]:
            return text
        # Another conversation began with the same words, and has gone on since.
        alone = self._thread(asking.scope)
        alone.shown(asking.given)
        return alone.answer(name, arguments, call_id)

    aprompt = computed(prompt)
    aanswer = computed(answer)

    def _thread(self, scope: Hashable) -> HostThread:
        return HostThread(
            lambda: self._make(scope), asks_back=self._asks_back, same=self._same, copies=True
        )

    def _note(self, scope: Hashable, thread: HostThread) -> None:
        """Keep the thread as the last used; one that failed knows nothing, and is not kept."""
        with self._lock:
            kept = [each for each in self._threads if each[1] is not thread]
            if not thread.report.failure:
                kept.append((scope, thread))
            self._threads = kept[-self._max_threads :]


class Scope(NamedTuple):
    """The names that distinguish a conversation from others, besides its messages."""

    model: str = ""
    thread: str = ""
    """The host's name of the conversation."""
    place: Hashable = ""
    """The agent, the user, or what else the host knows."""


class Adapter:
    """Base of adapters of hosts with many conversations: threads, with contexts made from their
    options, which come before the scope's model and thread.
    """

    _threads: PrefixThreads
    _codec: Codec[Any] | None = None
    """None: the host's messages are of one of our own formats."""
    _tool_format: Provider = "anthropic"
    """The format of the definitions."""
    _usual: Mapping[str, Any] = {}
    """Options of each context if none is given."""
    _fixed: Mapping[str, Any] = {"provider": CHAT}
    """Options of each context that cannot be given."""

    def _set_up(self, options: Mapping[str, Any], *, can_ask: bool = True, same: Same = eq) -> None:
        """Take the options; raises InvalidArgumentError as `Context` does."""
        self._given = {"budget": Budget(), **options}
        asks_back = can_ask and self._given.pop("asks_back", True)
        max_threads = self._given.pop("max_threads", MAX_THREADS)
        self._threads = PrefixThreads(
            self._make_context, asks_back=asks_back, max_threads=max_threads, same=same
        )
        context = self._make_context(Scope())
        self._definitions = ContextJIT(context).tools(self._tool_format) if asks_back else []
        """The definitions of the tools by which a model asks back."""
        self._own_tools = {definition["name"] for definition in self._definitions}

    def _make_context(self, scope: Scope) -> Context:
        named = {"model": scope.model, "thread": scope.thread}
        return context_of({**named, **self._usual, **self._given}, **self._fixed)

    @property
    def report(self) -> HostReport:
        """The outcome of the last request's messages, of any conversation."""
        return self._threads.report

    def _prompted(
        self, messages: Sequence[Any], scope: Scope, sent: Iterable[str]
    ) -> tuple[Prompted, list[Any]]:
        """Return the prompt of a conversation, and the host's messages that it shows.

        ``sent`` are the texts that the model gets besides the messages: instructions and tools.
        """
        codec, reserved = self._codec, sum(text_tokens(list(sent)))
        if codec is None:
            prompted = self._threads.prompt(messages, scope, reserved_tokens=reserved)
            return prompted, prompted.messages
        entries = codec.entries_of(messages)
        chats = [entry.chat for entry in entries]
        prompted = self._threads.prompt(chats, scope, reserved_tokens=reserved)
        return prompted, codec.picked(messages, entries, prompted.shown)

    _aprompted = computed(_prompted)


@contextmanager
def passing_through() -> Iterator[None]:
    """Turn a failure into a warning; the messages go on as they are."""
    try:
        yield
    except Exception as error:
        warn_passed_through(safe_error_text(error, "rehydrate"))


def tool_text(name: str, description: str | None, parameters: Any) -> str:
    """Return a host's tool as its model reads it, to be counted."""
    return compact_json({"name": name, "description": description, "parameters": parameters})


def context_of(options: Mapping[str, Any], **fixed: Any) -> Context:
    """Return an empty context of an adapter's options; raises InvalidArgumentError as it does."""
    given = dict(options)
    if (caps := given.pop("caps", None)) is not None:
        check_type("caps", caps, Caps, "pass Caps(default_tokens=2_000)")
        cap = CapToolResults(caps)
        given["passes"] = [
            cap if isinstance(step, CapToolResults) else step for step in own_passes()
        ]
    if fixed.get("provider") == CHAT:
        given["budget"] = budget_for(given.get("model") or "", given["budget"])
    return Context(**given, **fixed)


def budget_for(model: str, budget: Budget) -> Budget:
    """Return the budget for messages in OpenAI's form that go to any provider's model.

    Anthropic counts more tokens than OpenAI for the same text, so fewer of OpenAI's have room.

    >>> budget_for("anthropic/claude-opus-4-6", Budget(soft_tokens=1_350)).soft_tokens
    1000
    """
    if not any(name in model.lower() for name in _ANTHROPIC):
        return budget
    soft, hard = (room(each, "anthropic") for each in (budget.soft_tokens, budget.hard_tokens))
    return replace(budget, soft_tokens=max(soft, 1), hard_tokens=max(hard, 1))
