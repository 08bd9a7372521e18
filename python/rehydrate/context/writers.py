"""Writers: of summaries (a model, a function, the provider), and of proposals for the store."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Any, Protocol

from rehydrate import _native, formats
from rehydrate._concurrency import loops
from rehydrate._concurrency.workers import run_in_thread
from rehydrate._text import OwnMessageError, safe_error_text
from rehydrate.context.context_store import Heading
from rehydrate.errors import InvalidArgumentError
from rehydrate.prompt.compiler import compile as compile_ir
from rehydrate.prompt.counting import text_tokens
from rehydrate.prompt.ir import PromptIR, ProviderSummary
from rehydrate.prompt.request import Budget, ContextRequest

if TYPE_CHECKING:
    from rehydrate._native import ContextStore, Item, Operation
    from rehydrate.agent.model import Model
    from rehydrate.context.thread import Thread
    from rehydrate.messages import Provider
    from rehydrate.prompt.entries import History
    from rehydrate.prompt.ir import CompiledPrompt


Complete = Callable[[str], str]
"""A function of the text of a prompt that returns the text of the answer."""


class UnfinishedReplyError(OwnMessageError):
    """A reply that is not whole."""


def is_model(given: Any) -> bool:
    """Return whether it is a model of this package, or one like it."""
    return callable(getattr(given, "reply", None)) and hasattr(given, "provider")


def reply_text(model: Model, text: str) -> str:
    """Return a model's reply to a text, as `areply_text` does, from any thread."""
    return str(awaited(areply_text(model, text)))


async def areply_text(model: Model, text: str) -> str:
    """Return a model's reply to a text; raises UnfinishedReplyError for one that is refused or cut
    off, and the model's own errors."""
    limit = 2**31
    budget = Budget(soft_tokens=limit, hard_tokens=limit)
    ir = PromptIR(ContextRequest(text, budget=budget))
    prompt = compile_ir(ir, model.provider, model=model.name)
    reply = await model.reply(prompt)
    if reply.stop != "answer":
        raise UnfinishedReplyError(f"the model did not finish: {reply.stop}")
    return reply.text


def awaited(found: Any) -> Any:
    """Return what a caller's function returned, awaited where it is async."""
    if not hasattr(found, "__await__"):
        return found
    run = loops.runner()
    if not loops.in_trio():
        return run(found, None)
    with ThreadPoolExecutor(1) as thread:  # trio runs no loop within another one
        return thread.submit(run, found, None).result()


def completion_of(store_model: Any) -> Complete | None:
    """Return the completion for a model, or a function of a text; None: without either."""
    if store_model is None:
        return None
    if is_model(store_model):
        return partial(reply_text, store_model)
    if callable(store_model):
        return lambda text: awaited(store_model(text))
    raise InvalidArgumentError(
        f"store_model is of type {type(store_model).__name__}; pass a model, a function of the "
        "prompt's text that returns a text, or None"
    )


@dataclass(frozen=True, slots=True)
class SummaryRequest:
    """The entries that a writer is to summarise, and the size of the summary."""

    messages: tuple[Any, ...]
    """The entries since the previous summary, without the model's thinking, in `format`."""
    format: str
    store: str
    """The context store of all entries up to there, as markdown in at most `max_tokens`."""
    previous: str
    """The summary of the entries before them; "" if there is none."""
    max_tokens: int
    """The most that the summary may have."""
    prompt: Callable[[], CompiledPrompt] | None = None
    """Makes the prompt of these entries as it was sent, for the provider's own compaction."""


Write = Callable[[SummaryRequest], "str | ProviderSummary"]
"""Writes a summary, in a thread of its own; it may take any time. Whatever it raises, the context
store takes its place."""


def summary_prompt(request: SummaryRequest) -> str:
    """Return the text that asks a model for a summary: decisions and their reasons, files, the
    state of the task, preferences, errors and how they were resolved, constraints, open questions.
    """
    messages = formats.parse(request.messages, request.format).messages
    return _native.summary_prompt(messages, request.store, request.previous, request.max_tokens)


class Compacts(Protocol):
    """A model whose provider compacts conversations by itself."""

    @property
    def provider(self) -> Provider:
        """The provider for which its prompts are compiled."""

    @property
    def name(self) -> str:
        """The model's name."""

    async def compact(self, prompt: CompiledPrompt) -> ProviderSummary:
        """Return the provider's summary of a prompt's messages."""


class ProviderWriter:
    """The provider's own compaction, of Anthropic's Messages API or OpenAI's Responses.

    The summary is sent back as the provider gave it, before the messages that stay. If the model
    is that of the conversation, Anthropic accepts the thinking in these messages as it did before.
    The provider gets the messages as they were sent to it, thinking included.

    >>> from rehydrate.agent import AnthropicModel
    >>> ProviderWriter(AnthropicModel("claude-opus-5-5", api_key="...")).model.name
    'claude-opus-5-5'
    """

    def __init__(self, model: Compacts) -> None:
        """Take the model; raises InvalidArgumentError for one that does not compact."""
        if not callable(getattr(model, "compact", None)):
            raise InvalidArgumentError(
                f"{type(model).__name__} has no compact(prompt); pass an AnthropicModel or an "
                "OpenAIResponsesModel"
            )
        self.model = model

    def write(self, request: SummaryRequest) -> ProviderSummary:
        """Return the provider's summary; raises ProviderError if there is none."""
        import anyio

        if request.prompt is None:
            raise InvalidArgumentError("a ProviderWriter works only in a BackgroundCompaction")
        return anyio.run(self.model.compact, request.prompt())


def writer_of(given: Any) -> Write | None:
    """Return a writer of summaries: an object with ``write(request)``, a model, or a function of
    the messages; both functions may be async. None is for the context store as it is: verbatim
    spans with handles, in milliseconds, without a model."""
    if given is None:
        return None
    if callable(getattr(given, "write", None)):
        return lambda request: awaited(given.write(request))
    if is_model(given):
        return lambda request: reply_text(given, summary_prompt(request))
    if callable(given):
        return partial(_written_by, given)
    raise InvalidArgumentError(
        f"writer is of type {type(given).__name__}; pass a model, a function of the messages, what "
        "has write(request), or None for the context store by itself"
    )


def _written_by(function: Callable[[list[Any]], Any], request: SummaryRequest) -> Any:
    """Return a function's summary of the messages, as LangChain's ``summarizer``."""
    previous = request.previous
    first = [_native.summary_message(previous, request.format, "user")] if previous else []
    return awaited(function([*first, *request.messages]))


def tokens_of(texts: Sequence[str]) -> int:
    """Return the tokens of some texts together."""
    return sum(text_tokens(texts))


class Job:
    """Work of a thread of its own, about the entries before the index ``until``."""

    def __init__(self, until: int) -> None:
        """Begin now."""
        self.until = until
        self._started = time.perf_counter()
        self.done = Event()

    @property
    def elapsed_ms(self) -> float:
        """The time since it began."""
        return (time.perf_counter() - self._started) * 1e3


class ProposalJob(Job):
    """One turn that the model reads."""

    def __init__(self, turn: History, items: Sequence[Item], until: int) -> None:
        """Take the entries, the valid items, and the index of the first entry after them."""
        super().__init__(until)
        self.failure = ""
        self._turn = turn
        self._items = items
        self._answer = ""
        self._applied: list[Operation] = []
        """The first of its operations, if it has any, which is the store's `_position`."""
        self._position = 0

    def run(self, complete: Complete) -> None:
        """Ask the model; it raises nothing."""
        try:
            prompt = _native.proposal_prompt(self._items, self._turn.numbered_messages)
            answer = complete(prompt)
            if not isinstance(answer, str):
                raise TypeError("an answer is a text")
            self._answer = answer
        except BaseException as error:
            why = safe_error_text(error, "the store's model")
            self.failure = f"store: its model failed ({why}); rules alone keep it"
        finally:
            self.done.set()

    def apply(self, thread: Thread) -> str:
        """Apply the valid part of the answer; return its outcome, in words."""
        if self.failure:
            return ""
        gone = thread.entries.taken_back
        still = [each for each in self._turn.numbered_messages if each.index not in gone]
        self._position, _ = thread.store.mark()
        applied = thread.store.apply(self._answer, self._items, still)
        self._applied = applied.operations[:1]
        return applied.summary

    def is_in(self, store: ContextStore) -> bool:
        """Return whether its operations were not taken back."""
        at = store.operations_since(self._position)
        return at[: len(self._applied)] == self._applied


class StoreProposer:
    """Asks a model for changes to the context store of one thread. Hold the thread's lock to use
    it.

    ``report`` gets each answer, and its outcome.
    """

    def __init__(
        self, complete: Complete, thread: Thread, report: Callable[[ProposalJob, str], None]
    ) -> None:
        """Begin with no job; the last turn of a stored thread is still to be read."""
        self._complete = complete
        self._thread = thread
        self._report = report
        self._read = thread.entries.turn or 0
        """The index of the first entry that no job has read."""
        self._job: ProposalJob | None = None
        self._applied: list[ProposalJob] = []
        """Those that the last prompt applied: they are applied again if it was taken back."""

    def start_if_due(self) -> None:
        """Begin to read the entries before the present user turn, if nothing else is being read."""
        thread, turn = self._thread, self._thread.entries.turn
        if self._job is not None or turn is None or turn <= self._read:
            return
        thread.update_store()
        items = [item for heading in Heading for item in thread.store.items(heading)]
        job = ProposalJob(thread.entries.between(self._read, turn), items, turn)
        try:
            run_in_thread(lambda: job.run(self._complete))
        except RuntimeError:  # no more threads: the next prompt tries again
            return
        self._job, self._read = job, turn

    def apply(self) -> str:
        """Apply what is ready; return the problem, "" if there is none."""
        thread, job = self._thread, self._job
        undone = [each for each in self._applied if not each.is_in(thread.store)]
        is_ready = job is not None and job.done.is_set()
        if undone or is_ready:
            thread.update_store()  # the rules read first
        for each in undone:
            each.apply(thread)
        self._applied = undone
        if job is None or not is_ready:
            return ""
        self._job = None
        self._applied.append(job)
        became = job.apply(thread)
        self._report(job, job.failure or became)
        return job.failure
