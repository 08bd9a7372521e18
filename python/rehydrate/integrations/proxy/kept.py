"""Kept: what later requests need of earlier ones, in memory and, with a store, after a restart."""

from __future__ import annotations

import json
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from rehydrate._text import safe_error_text
from rehydrate.integrations.proxy.asking import Exchange
from rehydrate.messages import Provider

if TYPE_CHECKING:
    from rehydrate.context.threads import Threads

LOGGER = "rehydrate.proxy"
MAX_PLANS = 1_024
MAX_EXCHANGES = 1_024
MAX_ANSWERS = 8
"""To the same messages: a client may ask again, and several may ask at once."""
KEPT = timedelta(days=30)
"""The time in a store. A conversation that goes on after it is compacted again, once."""
_MAX_DELETED = 100
_MAX_SECONDS = 2.0
"""At once: a request waits for it, and each deletion writes the store's whole file again."""
_SCOPES = "proxy"
"""A namespace with a thread for each scope, which changes on each day that something is kept."""
_ANSWER = "answer "
"""Before the name of a stored `Exchange`."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Plan(NamedTuple):
    """The messages that are sent in place of the first ones of a list."""

    digest: bytes
    """The digest of those messages."""
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody needs here
    pieces: tuple[int | str, ...]
    """The index of a message that is sent as the client writes it, or the text of one of ours."""
    tokens: int
    """The tokens of our messages."""

    def pieces_of(self, count: int) -> tuple[int | str, ...]:
        """Return what is sent for a list of this many messages."""
        return *self.pieces, *range(self.count, count)


NO_PLAN = Plan(b"", 0, (), 0)


class Recent(OrderedDict[K, V]):
    """A table of the last used; not for several threads at once.

    >>> recent = Recent(2)
    >>> recent.put("a", 1); recent.put("b", 2); recent.use("a"); recent.put("c", 3)
    1
    >>> list(recent)
    ['a', 'c']
    """

    def __init__(self, most: int) -> None:
        """Take the number of entries."""
        super().__init__()
        self._most = most

    def use(self, key: K) -> V | None:
        """Return the value of a key, which is now the last used; None if there is none."""
        value = self.get(key)
        if value is not None:
            self.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> None:
        """Set a value; the longest unused goes."""
        self[key] = value
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)


class Kept:
    """The plans and the exchanges of all scopes; for any number of threads.

    A store has a thread for each, named by the hash of the messages before it, in a namespace for
    each scope; what is older than `KEPT` is deleted as requests come, of any scope.
    """

    def __init__(self, threads: Threads | None = None) -> None:
        """Take the store; None: they are forgotten at the end."""
        self._threads = threads
        self.on_failure: Callable[[str], object] = logging.getLogger(LOGGER).warning
        """It gets what went wrong with the store; the request goes on."""
        self._lock = Lock()
        self._plans: Recent[tuple[str, bytes], Plan] = Recent(MAX_PLANS)
        self._exchanges: Recent[tuple[str, bytes], tuple[Exchange, ...]] = Recent(MAX_EXCHANGES)
        self._stored: Recent[str, set[str]] = Recent(MAX_PLANS)
        self._noted: Recent[str, str] = Recent(MAX_PLANS)
        """The day on which each scope's thread was changed."""

    def plan(self, scope: str, chain: Sequence[bytes]) -> Plan:
        """Return the plan of the longest beginning of a list."""
        stored = self._names(scope)
        for digest in reversed(chain):
            with self._lock:
                plan = self._plans.use((scope, digest))
            if plan is None and digest.hex() in stored:
                plan = self._load(scope, digest)
            if plan is not None:
                return plan
        return NO_PLAN

    def keep(self, scope: str, plan: Plan, wire: Provider) -> None:
        """Keep a plan."""
        with self._lock:
            self._plans.put((scope, plan.digest), plan)
        self._store(scope, plan.digest.hex(), plan[1:], wire)

    def exchanges(self, scope: str, digest: bytes) -> tuple[Exchange, ...]:
        """Return what the client did not see of the answers to the messages with this hash, the
        last first."""
        with self._lock:
            known = self._exchanges.use((scope, digest))
        name = f"{_ANSWER}{digest.hex()}"
        if known is None and name in self._names(scope):
            stored = self._values(scope, name)[:MAX_ANSWERS]
            known = tuple(Exchange(*map(tuple, each)) for each in stored)
            with self._lock:
                self._exchanges.put((scope, digest), known)
        return known or ()

    def keep_exchange(self, scope: str, digest: bytes, exchange: Exchange, wire: Provider) -> None:
        """Keep an exchange, after the messages with this hash."""
        others = [each for each in self.exchanges(scope, digest) if each.shown != exchange.shown]
        with self._lock:
            self._exchanges.put((scope, digest), (exchange, *others)[:MAX_ANSWERS])
        self._store(scope, f"{_ANSWER}{digest.hex()}", exchange, wire)

    def look_again(self, scope: str) -> None:
        """Look into the store again the next time."""
        with self._lock:
            self._stored.pop(scope, None)

    def _names(self, scope: str) -> set[str]:
        if self._threads is None:
            return set()
        with self._lock:
            names = self._stored.use(scope)
        if names is None:
            try:
                _forget_a_scope(self._threads)
                names = _kept_names(self._threads, _namespace(scope))
            except Exception as error:
                self.on_failure(safe_error_text(error, "threads"))
                return set()
            with self._lock:
                self._stored.put(scope, names)
        return names

    def _load(self, scope: str, digest: bytes) -> Plan | None:
        stored = self._values(scope, digest.hex())
        if not stored:
            return None
        count, pieces, tokens = stored[0]
        plan = Plan(digest, count, tuple(pieces), tokens)
        with self._lock:
            self._plans.put((scope, digest), plan)
        return plan

    def _values(self, scope: str, name: str) -> list[Any]:
        """Return what was stored under a name, the last first."""
        assert self._threads is not None
        try:
            rows = self._threads.native.records(_namespace(scope), name)
            texts = [found["text"] for *_, row in rows if "text" in (found := json.loads(row))]
            return list(map(json.loads, reversed(texts)))
        except Exception as error:
            self.on_failure(safe_error_text(error, "threads"))
            return []

    def _store(self, scope: str, name: str, value: Any, wire: Provider) -> None:
        if self._threads is None:
            return
        try:
            self._note(self._threads, scope)
            self._threads.keep(name, json.dumps(value), format=wire, namespace=_namespace(scope))
        except Exception as error:
            self.on_failure(safe_error_text(error, "threads"))
            return
        with self._lock:
            if (names := self._stored.use(scope)) is not None:
                names.add(name)

    def _note(self, threads: Threads, scope: str) -> None:
        today = f"{datetime.now(UTC):%Y-%m-%d}"
        with self._lock:
            is_noted = self._noted.use(scope) == today
        if not is_noted:
            threads.keep(scope, today, namespace=_SCOPES)
            with self._lock:
                self._noted.put(scope, today)


def _kept_names(threads: Threads, namespace: str) -> set[str]:
    """Return what a store has of a scope, and delete some of what is too old."""
    listed = threads.list(namespace=namespace)
    names = {each.name for each in listed}
    oldest, until = datetime.now(UTC) - KEPT, time.monotonic() + _MAX_SECONDS
    for name in [each.name for each in listed if each.changed < oldest][:_MAX_DELETED]:
        threads.purge(name, namespace=namespace)
        names.discard(name)
        if time.monotonic() >= until:
            break
    return names


def _forget_a_scope(threads: Threads) -> None:
    """Delete what is too old of the last scope: its client may never come back."""
    for last in threads.list(namespace=_SCOPES)[-1:]:
        is_old = last.changed < datetime.now(UTC) - KEPT
        if is_old and not _kept_names(threads, _namespace(last.name)):
            threads.purge(last.name, namespace=_SCOPES)


def _namespace(scope: str) -> str:
    return f"proxy {scope}"
