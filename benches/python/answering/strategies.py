"""Strategies of answering: the part of a conversation that a model is shown, and its answer."""

from __future__ import annotations

from dataclasses import dataclass

from benches.python.answering.data import Case, digest
from rehydrate import Budget, Context, count_tokens
from rehydrate.agent import Compacted, Interpreter, Model, PromptBuilt, Retry, TurnLimits
from rehydrate.context import ContextJIT
from rehydrate.prompt.counting import upper_bound
from rehydrate.retention import exact_cost, keep_last
from rehydrate.retention.reading import Message

STRATEGIES = ("whole", "keep_last", "context", "jit")
"""whole: all of the conversation, where it fits the window. keep_last: its last messages. context:
what a `Context` keeps. jit: the same, with the tools of `ContextJIT`."""
UNFIT = "does not fit"
"""Start of the error message for a prompt that is too long for the model."""

_INSTRUCTIONS = (
    "The messages are a conversation of several days; each begins with the day it was said on. The "
    "last one is a question about them. Answer it in a short phrase, with the messages' own words "
    "where you can, a date as 8 May 2023. If they do not say, answer: No information available."
)
_CUT = " Not all messages are shown."
_ASK_BACK = (
    " Where what you need is not shown, ask for it with request_context before you answer, in "
    "other words if nothing comes of it."
)


@dataclass(frozen=True, slots=True)
class Answer:
    """A model's answer, or why there is none, and its cost."""

    text: str = ""
    problem: str = ""
    prompt_tokens: int = 0
    """Tokens of the first prompt, o200k_base."""
    tokens_in: int = 0
    """Tokens of all prompts, as billed."""
    tokens_out: int = 0
    requests: int = 0
    dollars: float | None = None


@dataclass(frozen=True)
class Answering:
    """A model that answers questions, and the limits of its prompts."""

    model: Model
    budget_tokens: int = 4_000
    """Maximum of the first prompt except for `whole`, o200k_base: from instructions to question."""
    window_tokens: int = 180_000
    """Window of the model: a prompt that may be longer is not sent."""
    max_calls: int = 4
    """Maximum calls of request_context and similar tools, for one question."""
    retry: Retry = Retry()  # noqa: RUF009

    async def answer(self, case: Case, strategy: str) -> Answer:
        """Answer the question; a failure is returned in the answer, never raised."""
        if not self.fits(case, strategy):
            return Answer(problem=f"{UNFIT} {self.window_tokens:,} tokens (--window)")
        try:
            context = await self._context(case, strategy)
            return await asked(self.model, context, self.most_requests(strategy), self.retry)
        except Exception as error:  # a question that fails stops no other one
            return Answer(problem=_one_line(error))

    async def _context(self, case: Case, strategy: str) -> Context:
        """Return the context whose next prompt asks the question, limited only by the window."""
        instructions, is_ours = _instructions_for(strategy), strategy in ("context", "jit")
        context = Context(
            provider=self.model.provider,
            model=self.model.name,
            system=instructions,
            budget=Budget(soft_tokens=self.window_tokens, hard_tokens=self.window_tokens),
            thread=case.id,
            timeout=None,
            **({} if is_ours else {"passes": ()}),
        )
        turns = [*case.history.messages, {"role": "user", "content": case.question}]
        if strategy == "keep_last":
            turns = _last(turns, self.budget_tokens - count_tokens(instructions))
        for turn, at in zip(turns, [*case.history.times, case.at][-len(turns) :], strict=True):
            context.add(turn, at=at)
        if strategy == "jit":
            ContextJIT(context, max_calls=self.max_calls, timeout=None)
        if is_ours:
            await context.acompact(self.budget_tokens)
        return context

    def first_tokens(self, case: Case, strategy: str) -> int:
        """Return the maximum tokens of the first prompt."""
        whole = case.history.tokens + count_tokens(_instructions_for(strategy) + case.question)
        return whole if strategy == "whole" else min(whole, self.budget_tokens)

    def fits(self, case: Case, strategy: str) -> bool:
        """Return whether the prompt fits the model's window."""
        tokens = upper_bound(self.first_tokens(case, strategy), self.model.provider)
        return tokens <= self.window_tokens

    def most_requests(self, strategy: str) -> int:
        """Return the maximum requests for one question: each call, a refused one, and the
        answer."""
        return self.max_calls + 2 if strategy == "jit" else 1

    def key(self, case: Case, strategy: str) -> str:
        """Return a hash of everything that an answer depends on."""
        sizes = str((self.budget_tokens, self.window_tokens, self.max_calls))
        instructions = _instructions_for(strategy)
        return digest(
            case.digest, strategy, instructions, self.model.provider, self.model.name, sizes
        )


async def asked(model: Model, context: Context, most_requests: int, retry: Retry) -> Answer:
    """Return a model's answer to a context; a provider's failure is returned in it."""
    limits = TurnLimits(steps=most_requests)
    agent = Interpreter(model, jit=bool(context.jit), limits=limits, retry=retry)
    turn = await agent.arun(context)
    problem = _one_line(turn.error) if turn.error else ""
    if any(isinstance(each, Compacted) and each.why == "overflow" for each in turn.events):
        problem = f"{UNFIT} the model: its window is smaller than --window"
    return Answer(
        text="" if problem else turn.answer.strip(),
        problem=problem,
        prompt_tokens=next((e.tokens for e in turn.events if isinstance(e, PromptBuilt)), 0),
        tokens_in=turn.usage.input,
        tokens_out=turn.usage.output,
        requests=turn.steps,
        dollars=turn.dollars,
    )


def _one_line(error: BaseException) -> str:
    """Return an error as one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


def _instructions_for(strategy: str) -> str:
    cut = "" if strategy == "whole" else _CUT
    return _INSTRUCTIONS + cut + (_ASK_BACK if strategy == "jit" else "")


def _last(messages: list[Message], budget_tokens: int) -> list[Message]:
    """Return the last messages that fit, from a user's on, like trim_messages(start_on="human"):
    some providers refuse any other start."""
    share = min(1.0, budget_tokens / count_tokens(messages))
    kept = keep_last(exact_cost())(messages, None, share) or messages[-1:]
    first = next(place for place, message in enumerate(kept) if message["role"] == "user")
    return kept[first:]
