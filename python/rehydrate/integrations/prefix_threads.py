"""PrefixThreads: the conversations of a host that does not name them.

A list of messages goes to the thread whose messages it begins with. So a conversation is followed
wherever it goes on, and one that goes back, or branches off, gets a thread of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from operator import eq
from threading import RLock
from typing import Any, NamedTuple

from rehydrate._concurrency.async_wrappers import hand_over
from rehydrate.context.context import Context
from rehydrate.context.history import Same
from rehydrate.integrations.host_thread import MAX_THREADS, HostReport, HostThread, Known, Shown


class Prompted(NamedTuple):
    """What to send, and the thread that made it."""

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
        """Take what makes an empty `Context` for a scope."""
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
        """What became of the last list of messages, of any conversation."""
        return HostReport() if self.last is None else self.last.report

    def find(self, messages: Sequence[Any], scope: Hashable = "") -> HostThread | None:
        """Return the thread that a list goes on from, the one with the most messages; None: there
        is none."""
        return self._found(messages, scope)[0]

    def asking(self, messages: Sequence[Any], scope: Hashable = "") -> Prompted | None:
        """Return what `answer` needs to know of a conversation that was prompted before; None: no
        thread knows it."""
        thread = self.find(messages, scope)
        return None if thread is None else Prompted(thread, [], tuple(messages), scope)

    def _found(self, messages: Sequence[Any], scope: Hashable) -> tuple[HostThread | None, Known]:
        with self._lock:
            threads = list(self._threads)
        known = [(thread, thread.known_of(messages)) for other, thread in threads if other == scope]
        thread, most = max(known, key=_count, default=(None, Known()))
        return (thread, most) if most.count else (None, Known())

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

    async def aprompt(
        self, messages: Sequence[Any], scope: Hashable = "", *, reserved_tokens: int = 0
    ) -> Prompted:
        """`prompt` for asyncio and trio, in a worker thread."""
        return await hand_over(
            lambda: self.prompt(messages, scope, reserved_tokens=reserved_tokens)
        )

    def answer(
        self, asking: Prompted, name: str, arguments: Mapping[str, Any] | str, call_id: str
    ) -> str:
        """Return the answer to a call that a prompt led to, as `HostThread.answer` does, from what
        its own conversation said and no other."""
        thread = asking.thread
        text = thread.answer(name, arguments, call_id)
        if thread.report.failure or thread.known_of(asking.given).count:
            return text
        # Another conversation began with the same words, and has gone on since.
        alone = self._thread(asking.scope)
        alone.shown(asking.given)
        return alone.answer(name, arguments, call_id)

    async def aanswer(
        self, asking: Prompted, name: str, arguments: Mapping[str, Any] | str, call_id: str
    ) -> str:
        """`answer` for asyncio and trio, in a worker thread."""
        return await hand_over(lambda: self.answer(asking, name, arguments, call_id))

    def _thread(self, scope: Hashable) -> HostThread:
        return HostThread(lambda: self._make(scope), asks_back=self._asks_back, same=self._same)

    def _note(self, scope: Hashable, thread: HostThread) -> None:
        """Keep the thread as the last used; one that failed knows nothing, and is not kept."""
        with self._lock:
            kept = [each for each in self._threads if each[1] is not thread]
            if not thread.report.failure:
                kept.append((scope, thread))
            self._threads = kept[-self._max_threads :]


def _count(found: tuple[HostThread | None, Known]) -> int:
    return found[1].count
