"""HostThread: the conversation of a host that passes its whole list of messages each time.

The host keeps its messages. What is new in the list is added to one persistent `Context`, so that
the prompts extend one another and are compacted rarely. A host that went back, or changed what it
had said, gets a new `Context`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from operator import eq
from typing import Any, NamedTuple

from rehydrate import _native
from rehydrate._concurrency.async_wrappers import WaitingLock, computed
from rehydrate._text import safe_error_text
from rehydrate.context.context import Context
from rehydrate.context.history import Same
from rehydrate.context.jit import ContextJIT
from rehydrate.prompt.compiler import BEGINNING
from rehydrate.prompt.counting import fenced, text_of, upper_bound
from rehydrate.prompt.ir import CompiledPrompt
from rehydrate.prompt.request import Budget
from rehydrate.prompt.section import Section

MAX_THREADS = 1_024
_LEAST_SHARE = 4
"""At least one part in this many of the budget is for the messages."""


class RehydrateWarning(UserWarning):
    """Something failed, and the host's messages were passed through as they are."""


class HostReport(NamedTuple):
    """The outcome of the host's last list of messages."""

    new: int = 0
    """Messages that were new in it."""
    is_rebuilt: bool = False
    """Whether the list did not go on from the one before, so that a new context was begun."""
    extends: bool = True
    """Whether what was sent extends what was sent before."""
    compactions: int = 0
    tokens: int = 0
    """The prompt's tokens, with what the host sends besides its messages."""
    failure: str = ""
    """Why the messages were passed through as they are; "" if they were not."""


class Shown(NamedTuple):
    """A message that is sent."""

    index: int | None  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    """Its index in the host's list; None: a section of context."""
    message: Any


Known = tuple[Context | None, int]
"""The messages that a thread knows of a host's list: its context, and how many it has."""
NOTHING_KNOWN: Known = (None, 0)


class HostThread:
    """One conversation of a host.

    >>> thread = HostThread(lambda: Context(provider="openai_chat"))
    >>> said = [{"role": "user", "content": "Which berth is free?"}]
    >>> thread.prompt(said) == said
    True
    """

    def __init__(
        self,
        make: Callable[[], Context],
        *,
        asks_back: bool = False,
        same: Same = eq,
        copies: bool = False,
    ) -> None:
        """Take what makes an empty `Context`; with ``asks_back`` its model gets the tools of a
        `ContextJIT`. ``same`` is for messages that cannot be compared by `==`. With ``copies`` it
        keeps copies of dicts: the host, or a hook after this one, may change them in place."""
        self._make = make
        self._asks_back = asks_back
        self._same = same
        self._copies = copies
        self._lock = WaitingLock()
        self._context: Context | None = None
        self._count = 0
        """The number of the host's messages that the context has."""
        self._budget = Budget()
        self._jit: ContextJIT | None = None
        self.report = HostReport()

    @property
    def context(self) -> Context:
        """The context of the last list; an empty one before the first."""
        with self._lock:
            return self._begin() if self._context is None else self._context

    def prompt(self, messages: Sequence[Any], *, reserved_tokens: int = 0) -> list[Any]:
        """Return the messages to send: the host's own, the same objects, with sections of context
        between them as user messages in its format.

        ``reserved_tokens`` are those of what the host sends besides its messages: its system text
        and its tools, without those of the `ContextJIT`.

        It raises nothing: if something fails, the messages are returned as they are, with a
        RehydrateWarning, and ``report.failure`` says why.
        """
        shown = self.shown(messages, reserved_tokens=reserved_tokens)
        return [each.message for each in shown]

    def shown(self, messages: Sequence[Any], *, reserved_tokens: int = 0) -> list[Shown]:
        """Return the prompt as `prompt` does, each message with its index in the host's list."""
        with self._lock:
            return self._shown(messages, reserved_tokens, self._shared(messages))

    def shown_next(
        self, messages: Sequence[Any], known: Known, *, reserved_tokens: int = 0
    ) -> list[Shown] | None:
        """Return the messages as `shown` does; None if the list does not go on from what it knows.

        ``known`` is what `known_of` returned for these messages: they are not compared again.
        """
        with self._lock:
            is_current = known == (self._context, self._count)
            shared = known[1] if is_current else self._shared(messages)
            if shared < self._count:
                return None
            return self._shown(messages, reserved_tokens, shared)

    def known_of(self, messages: Sequence[Any]) -> Known:
        """Return the messages that it knows, if the list begins with all of them; else none."""
        context, count = self._context, self._count  # another thread may be adding
        if context is None or not 0 < count <= len(messages):
            return NOTHING_KNOWN
        # Most lists are of other conversations, and end otherwise.
        last = count - 1
        if not context.shared_with(messages[last:count], last, self._same):
            return NOTHING_KNOWN
        is_known = context.shared_with(messages, same=self._same) >= count
        return (context, count) if is_known else NOTHING_KNOWN

    def _shared(self, messages: Sequence[Any]) -> int:
        """Return with how many of the messages that it knows a list begins."""
        if self._context is None:
            return 0
        shared = self._context.shared_with(messages, same=self._same)
        return min(shared, self._count)

    def answer(self, name: str, arguments: Mapping[str, Any] | str, call_id: str) -> str:
        """Return the answer to a call of `request_context`, `fetch_whole` or `load_memory`, as the
        text of the call's result. ``arguments`` may be JSON. It raises nothing."""
        if self.context is None or (jit := self._jit) is None:
            return nothing_to_ask(name)
        call = {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
        try:
            return jit.answer(call).content
        except Exception as error:
            return f"{name}: {safe_error_text(error, name)}; answer with what you have"

    aanswer = computed(answer)

    def note_failure(self, why: str) -> None:
        """Report that the host's last messages were passed through as they are."""
        self.report = HostReport(failure=why)

    def _shown(self, messages: Sequence[Any], reserved_tokens: int, shared: int) -> list[Shown]:
        try:
            return self._prompted(messages, reserved_tokens, shared)
        except Exception as error:
            why = safe_error_text(error, "rehydrate")
            self._context, self._count, self._jit = None, 0, None
            self.note_failure(why)
            warn_passed_through(why)
            return [Shown(index, message) for index, message in enumerate(messages)]

    def _prompted(self, messages: Sequence[Any], reserved_tokens: int, shared: int) -> list[Shown]:
        context, is_rebuilt = self._context, shared < self._count
        if is_rebuilt or context is None:
            context, shared = self._begin(), 0
        context.budget = _without(self._budget, upper_bound(reserved_tokens, context.provider))
        new = messages[shared:]
        context.add(*(_copied(new) if self._copies else new))
        self._count += len(new)
        compiled = context.prompt()
        usage, prefix = context.usage, context.prefix
        self.report = HostReport(
            len(new),
            is_rebuilt,
            prefix is None or prefix.extends,
            usage.compactions,
            usage.tokens + reserved_tokens,
        )
        return [
            Shown(index, messages[index])
            if index is not None and context.is_whole(index, message)
            else Shown(index, message)
            for index, message in shown_messages(compiled)
        ]

    def _begin(self) -> Context:
        self._count = 0
        self._context = context = self._make()
        self._budget = context.budget
        self._jit = ContextJIT(context) if self._asks_back else None
        return context


def _copied(messages: Sequence[Any]) -> list[Any]:
    """Return the messages with a copy of each dict; an object of an SDK may hold anything."""
    return [deepcopy(each) if isinstance(each, dict) else each for each in messages]


def nothing_to_ask(name: str) -> str:
    """Return the answer of a tool whose conversation is unknown."""
    return f"{name}: there is nothing to ask; answer with what you have"


def warn_passed_through(why: str) -> None:
    """Warn that a host's messages were sent as they are."""
    warnings.warn(f"the messages were sent as they are: {why}", RehydrateWarning, stacklevel=3)


def _without(budget: Budget, tokens: int) -> Budget:
    """Return the budget less these tokens."""
    soft = max(budget.soft_tokens - tokens, budget.soft_tokens // _LEAST_SHARE, 1)
    hard = max(budget.hard_tokens - tokens, soft)
    return replace(budget, soft_tokens=soft, hard_tokens=hard)


def shown_messages(prompt: CompiledPrompt) -> list[Shown]:
    """Return a prompt's messages in the format of its history.

    Entries are the same objects that were added. A section of context is a user message, hot memory
    too: the system text is the host's. A list that the user began begins with the user.
    """
    own = prompt.ir.history.format

    def write(section: Section) -> str:
        return fenced(section, text_of(section, own))

    return [Shown(*each) for each in _native.shown_messages(prompt, BEGINNING, write)]
