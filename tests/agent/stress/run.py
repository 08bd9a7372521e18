"""Run: one conversation by its plan, through the official SDK, to its end."""

from __future__ import annotations

import asyncio
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anthropic
import anyio
import openai

from rehydrate import Budget, Context, ContextJIT
from rehydrate.agent import (
    AnthropicModel,
    Interpreter,
    OpenAIChatModel,
    OpenAIResponsesModel,
    Retry,
    Turn,
    TurnEnded,
    TurnLimits,
)
from rehydrate.context import BackgroundCompaction, CompactionEvent, ProviderWriter, Threads
from rehydrate.cost import minimum_prefix
from tests.agent.stress.plan import Plan
from tests.agent.stress.recording import RecordingJIT, RecordingModel
from tests.agent.stress.responder import RandomResponder, words
from tests.agent.stress.tools import Sources, Tools
from tests.provider import StrictProvider

MAX_TURN_SECONDS = 300
"""A turn that takes longer hangs: its tools and waits are far shorter."""
_MODELS = {
    "anthropic": AnthropicModel,
    "openai_chat": OpenAIChatModel,
    "openai_responses": OpenAIResponsesModel,
}


def _writes(_messages: list[Any]) -> str:
    return "The harbour was spoken of, and some berths of it; nothing else is known of it."


def _late(messages: list[Any]) -> str:
    time.sleep(0.05)
    return _writes(messages)


def _hangs(messages: list[Any]) -> str:
    time.sleep(3)
    return _writes(messages)


def _fails(messages: list[Any]) -> str:
    raise RuntimeError(f"no summary of {len(messages)} messages")


WRITERS: dict[str, Any] = {
    "store": None,
    "invents": lambda messages: _writes(messages) + " See src/harbour/invented_file.py, line 4711.",
    "late": _late,
    "hangs": _hangs,
    "fails": _fails,
    "errs": lambda _messages: "429 Too Many Requests",
}


class Trigger:
    """Cancels a turn at a numbered point of it, from any thread."""

    def __init__(self) -> None:
        self._left = 0
        self._cancel: Callable[[], object] = bool
        self.has_cancelled = False

    def arm(self, points: int, cancel: Callable[[], object]) -> None:
        """Cancel at this point; 0 means never. Must be called on the turn's loop."""
        self._left, self._cancel, self.has_cancelled = points, cancel, False
        self._thread, self._schedule = threading.get_ident(), _callback_scheduler()

    def disarm(self) -> None:
        self._left = 0

    def point(self) -> None:
        self._left -= 1
        if self._left == 0:
            self.has_cancelled = True
            if threading.get_ident() == self._thread:
                self._cancel()
            else:
                self._schedule(self._cancel)


def _client(wire: str, url: str) -> Any:
    sdk, kind = anthropic, "AsyncAnthropic"
    if wire != "anthropic":
        sdk, kind = openai, "AsyncOpenAI"
    # Loading the CA certificates takes longer than a run; loopback needs none.
    http = sdk.DefaultAsyncHttpxClient(verify=False)
    return getattr(sdk, kind)(api_key="key", base_url=url, http_client=http)


class Compacting:
    """A model of a run that compacts, with a client of its own."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.provider, self.name = run.plan.wire, run.plan.model

    async def compact(self, prompt):
        plan = self._run.plan
        options = {"thinking": plan.thinking} if plan.thinking else {}
        async with _client(plan.wire, self._run._url) as client:
            return await _MODELS[plan.wire](plan.model, client=client, **options).compact(prompt)


class Run:
    """One run, and its records."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan = plan
        self.log: list[tuple[str, object]] = []
        """In order: the user's messages, the replies that arrived, and where a turn was cut off."""
        self.ended: list[tuple[Turn | None, bool]] = []
        """The result of each turn, if it is known, and whether it was cancelled."""
        self.trigger = Trigger()
        self.responder = RandomResponder(plan, self.trigger.point)
        self.tools = Tools(plan, self.trigger.point)
        self.sources = Sources(plan, folder)
        self.jit: RecordingJIT
        self.model: RecordingModel
        self.provider = StrictProvider(
            self.responder,
            faults=self.responder.fault,
            minimum_prefix=minimum_prefix(plan.model if plan.is_named else ""),
            binds_thinking=None,  # depends on the model
        )
        self.threads: Threads | None = None
        if plan.is_stored:
            self.threads = Threads.open(folder / "threads.db", namespace="run")
        self.swaps = 0
        self.answers: dict[str, Any] = {}
        self.context = self._opened()

    def _opened(self) -> Context:
        plan = self.plan
        background = None
        if plan.writer is not None:
            background = BackgroundCompaction(
                writer=self._writer(plan.writer),
                start_at=0.3,
                keep_last=2,
                wait=0.02,
                expected_turns=1e6,
                on_event=self._on_compaction,
            )
        return Context(
            self.sources.all,
            provider=plan.wire,
            model=plan.model if plan.is_named else "",
            system=("You are the harbour's assistant. " * 200)[: plan.system_chars] or None,
            budget=Budget(plan.soft_tokens, 10_000_000, max_job_tokens=plan.max_job_tokens),
            timeout=0.06,
            thread="one" if plan.is_stored else "",
            threads=self.threads,
            background=background,
        )

    def _writer(self, name: str) -> Any:
        """Return the writer of a name; the provider writes where its API does so."""
        if name != "provider":
            return WRITERS[name]
        return None if self.plan.wire == "openai_chat" else ProviderWriter(Compacting(self))

    def _on_compaction(self, event: CompactionEvent) -> None:
        self.swaps += event.kind == "swapped"

    def _restart(self) -> None:
        """End the process, as far as the conversation goes, and begin another one."""
        if self.plan.is_stored:
            self._wait_until_quiet()
            self.context.close()
            self.context = self._opened()
            self.model.context = self.context

    def _wait_until_quiet(self) -> None:
        """Let the threads of a cancelled turn end: what they add belongs to this context."""
        said = [what for kind, what in self.log if kind == "user"]
        deadline, calm, length = time.monotonic() + 5, 0, -1
        while calm < 4 and time.monotonic() < deadline:
            time.sleep(0.005)
            history = self.context.history
            is_calm = len(history) == length and not self.context.is_busy
            is_calm = is_calm and (not said or said[-1] in str(history))
            calm, length = calm + 1 if is_calm else 0, len(history)

    def run(self) -> None:
        """Run all turns; in the last one nothing goes wrong."""
        try:
            with self.provider:
                if self.plan.mode == "sync":
                    agent = self._agent(api_key="key", base_url=self._url)
                    for number in range(self.plan.turns + 1):
                        self._turn_sync(agent, number)
                else:
                    anyio.run(self._turns, backend=self.plan.backend)
        finally:
            self.sources.close()
            if self.threads is not None:
                self.context.close()
                self.threads.close()

    @property
    def _url(self) -> str:
        is_anthropic = self.plan.wire == "anthropic"
        return self.provider.url if is_anthropic else self.provider.openai_url

    async def _turns(self) -> None:
        async with _client(self.plan.wire, self._url) as one:
            agent = self._agent(client=one)
            for number in range(self.plan.turns + 1):
                with anyio.fail_after(MAX_TURN_SECONDS):
                    await self._turn(agent, number)

    def _agent(self, **client_options) -> Interpreter:
        plan = self.plan
        options = {"timeout": plan.timeout, **client_options}
        if plan.wire == "anthropic":
            options["max_tokens"] = 4_096
            options |= {"thinking": plan.thinking} if plan.thinking else {}
        model = _MODELS[plan.wire](plan.model, **options)
        self.model = RecordingModel(model, self.context, self.provider, self.log)
        return Interpreter(
            self.model,
            self.tools.all,
            jit=self._jit_of,
            limits=TurnLimits(
                plan.steps, plan.seconds, plan.dollars, plan.tool_seconds, plan.parallel_calls
            ),
            retry=Retry(plan.attempts, base_seconds=0.004, total_seconds=5),
            on_event=self._on_event if plan.streams else None,
            random=plan.dice("waits"),
        )

    def _jit_of(self, context: Context) -> RecordingJIT:
        jit = ContextJIT(
            context,
            budget_tokens=self.plan.jit_tokens,
            max_calls=self.plan.jit_calls,
            timeout=0.1,
        )
        self.jit = RecordingJIT(jit, self.answers)
        return self.jit

    def _on_event(self, event) -> None:
        if isinstance(event, TurnEnded):
            self._last = event.turn
        else:
            self.trigger.point()

    def _query(self, number: int) -> str:
        """Return the user's query; the last turn is a calm one."""
        dice = self.plan.dice("user", number)
        self.responder.is_calm = number == self.plan.turns
        self._last: Turn | None = None
        text = f"[u{number}] {words(dice, max(2, int(dice.expovariate(10 / self.plan.wordiness))))}"
        self.log.append(("user", text))
        return text

    def _turn_sync(self, agent: Interpreter, number: int) -> None:
        self._restart()
        self.trigger.disarm()
        turn = agent.run(self.context, self._query(number))
        self._note(turn, False)

    async def _turn(self, agent: Interpreter, number: int) -> None:
        self._restart()
        query = self._query(number)
        dice = self.plan.dice("cancel", number)
        cancel_at = 0
        if not self.responder.is_calm and dice.random() < self.plan.cancel_rate:
            cancel_at = dice.randrange(1, dice.choice([8, 40]))
        events = self._read_events(agent, query) if self.plan.mode == "events" else None
        turn = None
        if self.plan.native:
            work = asyncio.ensure_future(events or agent.arun(self.context, query))
            self.trigger.arm(cancel_at, work.cancel)
            try:
                turn = await work
            except asyncio.CancelledError:
                assert self.trigger.has_cancelled, "cancelled without a cause"
        else:
            with anyio.CancelScope() as scope:
                self.trigger.arm(cancel_at, scope.cancel)
                turn = await (events or agent.arun(self.context, query))
        was_cancelled = self.trigger.has_cancelled
        self.trigger.disarm()
        assert turn is not None or was_cancelled, "a turn without an end"
        self._note(turn or self._last, was_cancelled)

    async def _read_events(self, agent: Interpreter, query: str) -> Turn | None:
        """Run a turn by reading its events."""
        turn = None
        async with aclosing(agent.astream(self.context, query)) as events:
            async for event in events:
                if isinstance(event, TurnEnded):
                    turn = event.turn
        return turn

    def _note(self, turn: Turn | None, was_cancelled: bool) -> None:
        self.ended.append((turn, was_cancelled))
        is_cut = was_cancelled or (turn is not None and turn.stopped == "time_limit")
        if is_cut:
            self.log.append(("cut", None))


def run_plan(plan: Plan) -> Run:
    """Run a plan to its end."""
    with tempfile.TemporaryDirectory(prefix="stress-") as folder:
        one = Run(plan, Path(folder))
        one.run()
    return one


def _callback_scheduler() -> Callable:
    try:
        return asyncio.get_running_loop().call_soon_threadsafe
    except RuntimeError:
        import trio

        return trio.lowlevel.current_trio_token().run_sync_soon
