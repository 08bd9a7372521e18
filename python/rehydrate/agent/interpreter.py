"""Interpreter: the agent loop. It runs the turns of any number of conversations.

model_of: a model by its name.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from importlib import import_module
from random import Random
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import anyio

from rehydrate._check import check_type
from rehydrate._concurrency.locks import ForkSafeLock
from rehydrate._concurrency.loops import in_trio, is_cancellation
from rehydrate.agent.events import Event, OnEvent, Turn
from rehydrate.agent.loop import AgentConfig, TurnLimits, TurnLoop
from rehydrate.agent.model import Model, Retry, Sleep
from rehydrate.agent.tools import tools_of
from rehydrate.context.context import Context
from rehydrate.context.thread import ToolHandler
from rehydrate.cost.prices import Price, price_of
from rehydrate.errors import InvalidArgumentError
from rehydrate.messages import PROVIDERS
from rehydrate.prompt.request import TimeRange
from rehydrate.prompt.section import ToolDef

if TYPE_CHECKING:
    from rehydrate.agent.sdk import SdkModel

_running: WeakSet[Context] = WeakSet()
_lock = ForkSafeLock()


class Interpreter:
    """The agent loop: it asks the model, runs the tools that it calls, and stops at an answer.

    ``tools`` are typed functions, sync or async, `Tool`s, or pairs of a definition and a function.
    With ``jit`` the model may ask for context that its prompt does not show; pass a function of
    the Context to make the ContextJIT yourself. ``on_event`` gets each event on the event loop and
    must not block; if it raises, the turn goes on and a note says so. ``price`` is the model's, if
    the table does not have it.

    A turn ends valid wherever it stops: at a cancellation, a timeout, a budget. Each call of the
    model has a result in the history, or an error that says what is known of it.

    Raises InvalidArgumentError for a limit in dollars if no price is known.

    >>> from rehydrate.agent.model import Reply
    >>> class Harbour:
    ...     provider, name = "anthropic", "harbour-1"
    ...     async def reply(self, prompt, *, on_text=None):
    ...         return Reply(({"role": "assistant", "content": "Berth 4."},), "Berth 4.")
    >>> turn = Interpreter(Harbour(), jit=False).run(Context(), "Which berth is free?")
    >>> turn.answer, turn.stopped, len(turn.history)
    ('Berth 4.', 'answer', 2)
    """

    def __init__(
        self,
        model: Model,
        tools: Iterable[Any] = (),
        *,
        jit: bool | Callable[[Context], ToolHandler] = True,
        limits: TurnLimits = TurnLimits(),  # noqa: B008  it is frozen
        retry: Retry = Retry(),  # noqa: B008
        on_event: OnEvent | None = None,
        price: Price | None = None,
        random: Random | None = None,
        sleep: Sleep = anyio.sleep,
    ) -> None:
        """Take the parts of the agent. Sends no request yet.

        ``random`` draws the waits between attempts, and ``sleep`` waits.
        """
        _check_model(model)
        own, hosted = tools_of(tools)
        offered: tuple[ToolDef, ...] = (*[tool.definition for tool in own.values()], *hosted)
        self._agent = AgentConfig(
            model=model,
            tools=own,
            offered=offered,
            jit=_default_jit if jit is True else jit or None,
            limits=limits,
            retry=retry,
            price=_known_price(model.name, limits) if price is None else price,
            random=Random() if random is None else random,
            sleep=sleep,
        )
        self._on_event = on_event

    async def arun(
        self,
        context: Context,
        query: str | None = None,
        *,
        time_range: TimeRange | None = None,
    ) -> Turn:
        """`run` for asyncio and trio: run one turn, from the user's query to the model's answer.

        Without ``query``, or with a blank one, the turn goes on from what was added to the context.
        ``time_range`` is the time that the query is about. A failure of the provider or a tool is
        in the Turn. Raises InvalidArgumentError for a context of another provider, for one whose
        last turn still runs, and for a query while a tool call waits for its result;
        InvalidMessageError if what was added is in a shape that the model's provider does not take.
        """
        return await self._run(context, query, time_range)

    def run(
        self,
        context: Context,
        query: str | None = None,
        *,
        time_range: TimeRange | None = None,
    ) -> Turn:
        """`arun` for synchronous code. Ctrl-C cancels the turn.

        Raises InvalidArgumentError if an event loop runs in this thread: it would block the loop.
        """
        import asyncio

        is_in_loop = in_trio()
        with suppress(RuntimeError):
            is_in_loop = is_in_loop or asyncio.get_running_loop() is not None
        if is_in_loop:
            raise InvalidArgumentError(
                "run was called where an event loop runs; await interpreter.arun(...) there"
            )
        return anyio.run(partial(self.arun, context, query, time_range=time_range))

    def astream(
        self,
        context: Context,
        query: str | None = None,
        *,
        time_range: TimeRange | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Run one turn and yield its events as they happen; the last is a `TurnEnded`.

        Closing the iterator cancels the turn, and so does cancelling the task that reads it. Raises
        as `arun` does.
        """

        return stream_events(lambda listener: self._run(context, query, time_range, listener))

    async def _run(
        self,
        context: Context,
        query: str | None,
        time_range: TimeRange | None,
        reader: OnEvent | None = None,
    ) -> Turn:
        self._check_context(context)
        check_type("query", query, (str, type(None)), "pass a string, or None")
        with _lock:
            if context in _running:
                raise InvalidArgumentError(
                    "this context is in the midst of a turn; await that one first, or give each "
                    "conversation a Context of its own"
                )
            _running.add(context)
        try:
            listeners = [each for each in (self._on_event, reader) if each is not None]
            return await TurnLoop(self._agent, context, query, time_range, listeners).run()
        finally:
            _running.discard(context)

    def _check_context(self, context: Any) -> None:
        check_type("context", context, Context, "pass a rehydrate.Context")
        provider = self._agent.model.provider
        if not context.goes_to(provider):
            raise InvalidArgumentError(
                f"the context's provider is {context.provider!r} and its format "
                f"{context.format!r}, the model's provider is {provider!r}; make it with "
                f"Context(provider={provider!r})"
            )


def _check_model(model: Any) -> None:
    needed = "provider, name and reply(prompt, on_text=...), as AnthropicModel has"
    check_type("model", model, Model, f"pass what has {needed}")
    if model.provider not in PROVIDERS:
        names = ", ".join(map(repr, PROVIDERS))
        raise InvalidArgumentError(f"model.provider is {model.provider!r}; choose one of {names}")


def _default_jit(context: Context) -> ToolHandler:
    from rehydrate.context.jit import ContextJIT

    return ContextJIT(context)


def _known_price(model: str, limits: TurnLimits) -> Price | None:
    try:
        return price_of(model)
    except InvalidArgumentError as error:
        if limits.dollars is None:
            return None
        raise InvalidArgumentError(f"limits.dollars is {limits.dollars:g}, and {error}") from None


async def stream_events(
    run_turn: Callable[[OnEvent], Awaitable[object]],
) -> AsyncGenerator[Event, None]:
    """Yield each event that `run_turn` passes to its listener; then raise what it raised.

    The turn runs in a task of its own. As a child of the reader's task, its cancel scopes and the
    reader's would overlap without nesting, which anyio forbids.
    """
    sender, receiver = anyio.create_memory_object_stream[Event](math.inf)
    scope, ended = anyio.CancelScope(), anyio.Event()
    errors: list[BaseException] = []

    async def body() -> None:
        try:
            with sender, scope:
                await run_turn(sender.send_nowait)
        except BaseException as error:
            if is_cancellation(error):
                raise
            errors.append(error)
        finally:
            ended.set()

    # In a copy of the caller's context.
    if in_trio():
        import trio

        task: object = trio.lowlevel.spawn_system_task(body, context=copy_context())
    else:
        import asyncio

        task = asyncio.get_running_loop().create_task(body())
    try:
        with receiver:
            async for event in receiver:
                yield event
    finally:
        scope.cancel()
        with anyio.CancelScope(shield=True):
            await ended.wait()
        del task  # until here: asyncio holds only a weak reference to its tasks
    if errors:
        try:
            raise errors[0]
        finally:
            errors.clear()  # breaks the cycle of error, traceback and this frame


def model_of(name: str, **options: Any) -> SdkModel:
    """Return a model by one string, such as ``anthropic:claude-opus-4-6`` in a settings file.

    ``openai:`` is the Responses API; ``openai_chat:`` is chat completions, of any server that
    speaks them with ``base_url=``. ``options`` are those of the class. Raises InvalidArgumentError
    for any other name.

    >>> model_of("openai_chat:qwen3", base_url="http://localhost:11434/v1")
    OpenAIChatModel('qwen3')
    """
    kinds = {
        "anthropic": "AnthropicModel",
        "openai": "OpenAIResponsesModel",
        "openai_chat": "OpenAIChatModel",
        "gemini": "GeminiModel",
        "bedrock": "BedrockModel",
    }
    api, colon, model = name.partition(":")
    if api not in kinds or not colon or not model:
        names = ", ".join(f"'{each}:...'" for each in kinds)
        raise InvalidArgumentError(f"model is {name!r}; choose one of {names}")
    agent = import_module("rehydrate.agent")  # its clients are of another distribution
    made: SdkModel = getattr(agent, kinds[api])(model, **options)
    return made
