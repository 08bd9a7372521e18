"""Live threads as a closed queueing network, event by event.

A thread waits for its model or its user, then makes a call: first on a core of a process, then on a
core of the server, through one of its connections. A call's times are drawn from those measured. A
process is one core, since Python's lock lets it use little more; a thread belongs to one process.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

_SPREAD = 0.6
"""Of the logarithm of a model's seconds."""


class Load(NamedTuple):
    """What the threads do."""

    threads: int = 10_000
    model_seconds: float = 6.0
    """From a prompt to the next call, the model and the tools."""
    user_seconds: float = 60.0
    """From an answer to the next request."""
    calls_a_turn: float = 4.0
    """Calls of the model for each request."""

    @property
    def calls_a_second(self) -> float:
        """As many as there are where nothing waits."""
        cycle = self.calls_a_turn * self.model_seconds + self.user_seconds
        return self.threads * self.calls_a_turn / cycle

    def pause(self, dice: random.Random) -> float:
        """Return the seconds from a prompt to the thread's next call."""
        pause = dice.lognormvariate(0, _SPREAD) / math.exp(_SPREAD**2 / 2) * self.model_seconds
        if self.user_seconds and dice.random() < 1 / self.calls_a_turn:
            pause += dice.expovariate(1 / self.user_seconds)
        return pause


class Machines(NamedTuple):
    """What serves them."""

    processes: int
    server_cores: int
    connections: int
    """To the server, of all processes together."""


class Trouble(NamedTuple):
    """An event at a moment: the server is away, or a process restarts and has no threads."""

    at: float = 0.0
    server_away: float = 0.0
    restarted_processes: int = 0


class Times(NamedTuple):
    """Times of calls to draw from, in seconds, of one core each."""

    app: Sequence[float]
    server: float
    """The mean; each is drawn from an exponential distribution."""
    network: float
    """That a call waits for the network with a connection in its hands."""
    reopen_app: float
    reopen_server: float


class Outcome(NamedTuple):
    """What the calls waited and took, and how busy the machines were."""

    calls: int
    p50_ms: float
    p99_ms: float
    longest_ms: float
    busy_processes: float
    """Share of the time, 0 to 1."""
    busy_server: float
    settled_seconds: float
    """From the trouble until calls were as quick as before; 0 without one."""


class _Station:
    """Servers with one queue."""

    def __init__(self, servers: int) -> None:
        self.free = servers
        self.waiting: deque[Callable[[], None]] = deque()
        self.busy = 0.0

    def take(self, begin: Callable[[], None]) -> None:
        if self.free:
            self.free -= 1
            begin()
        else:
            self.waiting.append(begin)

    def release(self) -> None:
        if self.waiting:
            self.waiting.popleft()()
        else:
            self.free += 1


class Simulation:
    """One run; `run` returns its outcome."""

    def __init__(
        self,
        load: Load,
        machines: Machines,
        times: Times,
        trouble: Trouble | None = None,
        *,
        seed: int = 1,
    ) -> None:
        """Take the load, the machines, and what each call costs them."""
        self._load, self._machines, self._times = load, machines, times
        self._trouble = trouble or Trouble()
        self._dice = random.Random(seed)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._now = 0.0
        self._processes = [_Station(1) for _ in range(machines.processes)]
        self._server = _Station(machines.server_cores)
        self._connections = _Station(machines.connections)
        self._away_until = 0.0
        self._is_cold = [False] * load.threads
        self._finished: list[tuple[float, float]] = []

    def run(self, seconds: float) -> Outcome:
        """Let the threads live for so long, the first tenth of it uncounted."""
        for thread in range(self._load.threads):
            cycle = self._load.user_seconds + self._load.model_seconds * self._load.calls_a_turn
            self._at(self._dice.uniform(0, cycle), self._call_of(thread))
        if self._trouble.at:
            self._at(self._trouble.at, self._begin_trouble)
        while self._events and self._events[0][0] <= seconds:
            self._now, _, act = heapq.heappop(self._events)
            act()
        return self._outcome(seconds)

    def _at(self, moment: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._events, (moment, next(self._order), act))

    def _begin_trouble(self) -> None:
        self._away_until = self._now + self._trouble.server_away
        for thread in range(self._load.threads):
            if thread % self._machines.processes < self._trouble.restarted_processes:
                self._is_cold[thread] = True

    def _call_of(self, thread: int) -> Callable[[], None]:
        def begin() -> None:
            _Call(self, thread).begin()

        return begin

    def next_call(self, thread: int) -> None:
        """Let a thread wait for its model, or its user, and call again."""
        self._at(self._now + self._load.pause(self._dice), self._call_of(thread))

    def _outcome(self, seconds: float) -> Outcome:
        begin = seconds / 10
        waits = sorted(took for moment, took in self._finished if moment >= begin)
        busy = sum(one.busy for one in self._processes) / len(self._processes) / seconds
        return Outcome(
            len(waits),
            waits[len(waits) // 2] * 1e3,
            waits[int(len(waits) * 0.99)] * 1e3,
            waits[-1] * 1e3,
            busy,
            self._server.busy / self._machines.server_cores / seconds,
            self._settled(begin),
        )

    def _settled(self, begin: float) -> float:
        """Return how long calls of a second were slower than the slowest hundredth before."""
        at = self._trouble.at
        if not at:
            return 0.0
        before = sorted(took for moment, took in self._finished if begin <= moment < at)
        usual = before[int(len(before) * 0.99)]
        after: dict[int, list[float]] = {}
        for moment, took in self._finished:
            if moment >= at:
                after.setdefault(int(moment - at), []).append(took)
        slow = [second for second, took in after.items() if sorted(took)[len(took) // 2] > usual]
        return max(slow, default=-1) + 1.0


class _Call:
    """A call on its way: a process, a connection, a core of the server, and back."""

    def __init__(self, world: Simulation, thread: int) -> None:
        self._world, self._thread, self._began = world, thread, world._now
        self._process = world._processes[thread % len(world._processes)]
        dice, times = world._dice, world._times
        self._app, self._server = dice.choice(times.app), dice.expovariate(1 / times.server)
        if world._is_cold[thread]:
            world._is_cold[thread] = False
            self._app += times.reopen_app
            self._server += times.reopen_server

    def begin(self) -> None:
        self._process.take(self._on_process)

    def _on_process(self) -> None:
        self._process.busy += self._app
        self._world._at(self._world._now + self._app, self._off_process)

    def _off_process(self) -> None:
        self._process.release()
        self._world._connections.take(self._connected)

    def _connected(self) -> None:
        world = self._world
        if world._now < world._away_until:
            world._at(world._away_until + world._dice.uniform(0, 1), self._connected)
        else:
            world._server.take(self._on_server)

    def _on_server(self) -> None:
        self._world._server.busy += self._server
        self._world._at(self._world._now + self._server, self._off_server)

    def _off_server(self) -> None:
        self._world._server.release()
        self._world._at(self._world._now + self._world._times.network, self._done)

    def _done(self) -> None:
        world = self._world
        world._connections.release()
        world._finished.append((world._now, world._now - self._began))
        world.next_call(self._thread)
