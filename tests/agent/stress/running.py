"""Running one conversation as its plan says, through the official SDK, to its end."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

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
from rehydrate.cost import minimum_prefix
from tests.agent.stress.doing import Sources, Tools
from tests.agent.stress.hearing import HeardJIT, HeardModel
from tests.agent.stress.plan import Plan
from tests.agent.stress.saying import Brain, words
from tests.provider import StrictProvider

PATIENCE_SECONDS = 40
"""A turn that takes longer hangs: all its tools and all its waits are far below."""
_MODELS = {
    "anthropic": AnthropicModel,
    "openai_chat": OpenAIChatModel,
    "openai_responses": OpenAIResponsesModel,
}


class Trigger:
    """Cancels a turn at a numbered point of it, from whichever thread that comes."""

    def __init__(self) -> None:
        self._left = 0
        self._cancel: Callable[[], object] = bool
        self.is_pulled = False

    def arm(self, points: int, cancel: Callable[[], object]) -> None:
        """Cancel at this point; 0 is never. Called on the loop that is to be cancelled."""
        self._left, self._cancel, self.is_pulled = points, cancel, False
        self._thread, self._soon = threading.get_ident(), _soon()

    def disarm(self) -> None:
        self._left = 0

    def point(self) -> None:
        self._left -= 1
        if self._left == 0:
            self.is_pulled = True
            if threading.get_ident() == self._thread:
                self._cancel()
            else:
                self._soon(self._cancel)


class Run:
    """One run; what is to be seen of it afterwards."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan = plan
        self.log: list[tuple[str, object]] = []
        """What was said, in order: the user's words, the replies that arrived, cuts."""
        self.ended: list[tuple[Turn | None, bool]] = []
        """What came of each turn, where that is known, and whether it was cancelled."""
        self.trigger = Trigger()
        self.brain = Brain(plan, self.trigger.point)
        self.tools = Tools(plan, self.trigger.point)
        self.sources = Sources(plan, folder)
        self.jit: HeardJIT
        self.model: HeardModel
        self.provider = StrictProvider(
            self.brain,
            faults=self.brain.fault,
            minimum_prefix=minimum_prefix(plan.model if plan.is_named else ""),
            binds_thinking=None,  # as the model does
        )
        self.context = Context(
            self.sources.all,
            provider=plan.wire,
            model=plan.model if plan.is_named else "",
            system=("You are the harbour's assistant. " * 200)[: plan.system_chars] or None,
            budget=Budget(plan.soft_tokens, 10_000_000, max_job_tokens=plan.max_job_tokens),
            timeout=0.06,
        )

    def go(self) -> None:
        """All of it; the last turn is a calm one, in which nothing goes wrong."""
        try:
            with self.provider:
                if self.plan.way == "sync":
                    agent = self._agent(api_key="key", base_url=self._url)
                    for number in range(self.plan.turns + 1):
                        self._turn_sync(agent, number)
                else:
                    anyio.run(self._turns, backend=self.plan.backend)
        finally:
            self.sources.close()

    @property
    def _url(self) -> str:
        is_anthropic = self.plan.wire == "anthropic"
        return self.provider.url if is_anthropic else self.provider.openai_url

    async def _turns(self) -> None:
        sdk, kind = anthropic, "AsyncAnthropic"
        if self.plan.wire != "anthropic":
            sdk, kind = openai, "AsyncOpenAI"
        # Loading the certificates of the world takes longer than a run, which needs none of them.
        http = sdk.DefaultAsyncHttpxClient(verify=False)
        async with getattr(sdk, kind)(api_key="key", base_url=self._url, http_client=http) as one:
            agent = self._agent(client=one)
            for number in range(self.plan.turns + 1):
                with anyio.fail_after(PATIENCE_SECONDS):
                    await self._turn(agent, number)

    def _agent(self, **way) -> Interpreter:
        plan = self.plan
        options = {"timeout": plan.timeout, **way}
        if plan.wire == "anthropic":
            options["max_tokens"] = 4_096
            options |= {"thinking": plan.thinking} if plan.thinking else {}
        model = _MODELS[plan.wire](plan.model, **options)
        self.model = HeardModel(model, self.context, self.provider, self.log)
        return Interpreter(
            self.model,
            self.tools.all,
            jit=self._jit_of,
            limits=TurnLimits(
                plan.steps, plan.seconds, plan.dollars, plan.tool_seconds, plan.parallel_calls
            ),
            retry=Retry(plan.attempts, base_seconds=0.004, total_seconds=5),
            on_event=self._told if plan.streams else None,
            random=plan.dice("waits"),
        )

    def _jit_of(self, context: Context) -> HeardJIT:
        jit = ContextJIT(
            context,
            budget_tokens=self.plan.jit_tokens,
            max_calls=self.plan.jit_calls,
            timeout=0.1,
        )
        self.jit = HeardJIT(jit)
        context.offer((), handler=self.jit)
        return self.jit

    def _told(self, event) -> None:
        if isinstance(event, TurnEnded):
            self._last = event.turn
        else:
            self.trigger.point()

    def _says(self, number: int) -> str:
        """What the user says; the last turn is a calm one."""
        dice = self.plan.dice("user", number)
        self.brain.is_calm = number == self.plan.turns
        self._last: Turn | None = None
        text = f"[u{number}] {words(dice, max(2, int(dice.expovariate(10 / self.plan.wordiness))))}"
        self.log.append(("user", text))
        return text

    def _turn_sync(self, agent: Interpreter, number: int) -> None:
        self.trigger.disarm()
        turn = agent.run(self.context, self._says(number))
        self._note(turn, False)

    async def _turn(self, agent: Interpreter, number: int) -> None:
        said = self._says(number)
        dice = self.plan.dice("cancel", number)
        at = 0
        if not self.brain.is_calm and dice.random() < self.plan.cancels:
            at = dice.randrange(1, dice.choice([8, 40]))
        reading = self._read(agent, said) if self.plan.way == "events" else None
        turn = None
        if self.plan.native:
            work = asyncio.ensure_future(reading or agent.arun(self.context, said))
            self.trigger.arm(at, work.cancel)
            try:
                turn = await work
            except asyncio.CancelledError:
                assert self.trigger.is_pulled, "cancelled by nobody"
        else:
            with anyio.CancelScope() as scope:
                self.trigger.arm(at, scope.cancel)
                turn = await (reading or agent.arun(self.context, said))
        pulled = self.trigger.is_pulled
        self.trigger.disarm()
        assert turn is not None or pulled, "a turn without an end"
        self._note(turn or self._last, pulled)

    async def _read(self, agent: Interpreter, said: str) -> Turn | None:
        """By the events; a pulled trigger closes them, where it does not cancel the reader."""
        turn = None
        async with aclosing(agent.astream(self.context, said)) as events:
            async for event in events:
                if isinstance(event, TurnEnded):
                    turn = event.turn
        return turn

    def _note(self, turn: Turn | None, was_cancelled: bool) -> None:
        self.ended.append((turn, was_cancelled))
        is_cut = was_cancelled or (turn is not None and turn.stopped == "time_limit")
        if is_cut:
            self.log.append(("cut", None))


def run(plan: Plan) -> Run:
    """The run of a plan, over."""
    with tempfile.TemporaryDirectory(prefix="knock-") as folder:
        one = Run(plan, Path(folder))
        one.go()
    return one


def _soon() -> Callable:
    try:
        return asyncio.get_running_loop().call_soon_threadsafe
    except RuntimeError:
        import trio

        return trio.lowlevel.current_trio_token().run_sync_soon
