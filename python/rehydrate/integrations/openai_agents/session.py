"""RehydrateSession: a Session of the Agents SDK in a file of stored threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeVar

from rehydrate._concurrency.async_wrappers import hand_over
from rehydrate._concurrency.workers import STORING
from rehydrate.context.threads import Threads
from rehydrate.integrations.openai_agents.filter import MISSING
from rehydrate.integrations.stored_entries import StoredEntries

if TYPE_CHECKING:
    from agents.memory import SessionSettings

NAMESPACE = "agents"
_T = TypeVar("_T")


class RehydrateSession:
    """A conversation's items, each on disk when `add_items` returns.

    It keeps all items, and `get_items` returns all of them: `RehydrateFilter` decides what the
    model gets. The thread is one of `Threads`, so ``rehydrate thread`` lists, exports, forks and
    redacts it, and `Context.open` goes on from it. Any number of processes may use one session.
    A popped item stays in the file until `clear_session`, which leaves no byte of the thread.
    """

    def __init__(
        self,
        session_id: str,
        path: str | PathLike[str],
        *,
        namespace: str = NAMESPACE,
        session_settings: SessionSettings | Mapping[str, Any] | None = None,
    ) -> None:
        """Open the file (or create it), or a postgresql:// URL; raises StoreError, and
        MissingPackageError without the SDK."""
        try:
            from agents.memory import SessionSettings
        except ImportError:
            raise MISSING from None
        if not isinstance(session_settings, SessionSettings):
            session_settings = SessionSettings(**(session_settings or {}))
        self.session_id = session_id
        self.session_settings: SessionSettings | None = session_settings
        self._threads = Threads.open(path, namespace=namespace)
        self._entries = StoredEntries(self._threads, session_id, format="openai_responses")

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Return the items in order; the last ``limit`` of them, by default as many as the
        session's settings say."""
        settings = self.session_settings
        if limit is None and settings is not None:
            limit = settings.limit
        items = await hand_over(self._entries.all, STORING)
        return items if limit is None else items[max(len(items) - limit, 0) :]

    async def add_items(self, items: Sequence[Any]) -> None:
        """Add items at the end."""
        if items:
            await _to_its_end(lambda: self._entries.extend(items))

    async def pop_item(self) -> Any | None:
        """Remove the last item and return it; None where there is none."""
        return await _to_its_end(self._entries.pop)

    async def clear_session(self) -> None:
        """Delete the thread."""
        await _to_its_end(self._entries.clear)

    def close(self) -> None:
        """Close the file."""
        self._threads.close()


async def _to_its_end(change: Callable[[], _T]) -> _T:
    """Make a change, and wait for it even where the caller is cancelled meanwhile.

    The SDK undoes what a cancelled call wrote, so it must know that nothing is written after.
    """
    task = asyncio.ensure_future(hand_over(change, STORING))
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        task.exception()  # it is known now, and nobody else asks
        raise cancelled
    return task.result()
