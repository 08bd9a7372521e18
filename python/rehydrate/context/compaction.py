"""BackgroundCompaction: summaries are written while user and agent go on, and swapped in later.

One job at a time for a thread. It starts when a prompt fills a share of the budget, and reads the
entries up to a snapshot index; later entries stay verbatim. At the next turn boundary, never in an
open tool loop, the summary replaces those entries. No prompt waits for a writer, unless it would
have to be compacted: then for a few seconds at most, and the verbatim compaction takes over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from rehydrate import _native, formats
from rehydrate._check import (
    check_choice,
    check_methods,
    check_share,
    check_timeout,
    check_whole,
)
from rehydrate._concurrency.workers import run_in_thread
from rehydrate._native import Activity
from rehydrate._text import safe_error_text, warn_once
from rehydrate.context.records import reading
from rehydrate.context.summaries import (
    Summary,
    head_of,
    is_summary,
    summarised,
    swapped,
)
from rehydrate.context.writers import (
    Job,
    ProviderWriter,
    StoreProposer,
    SummaryRequest,
    completion_of,
    writer_of,
)
from rehydrate.cost.prefix import worth_compacting
from rehydrate.cost.prices import minimum_prefix, price_of
from rehydrate.errors import InvalidArgumentError
from rehydrate.prompt.counting import prompt_tokens, section_tokens, text_of, upper_bound
from rehydrate.prompt.entries import History
from rehydrate.prompt.ir import PromptIR, ProviderSummary
from rehydrate.prompt.serialize import plain

if TYPE_CHECKING:
    from rehydrate.context.prompt_builder import PromptBuilder
    from rehydrate.context.thread import Thread


KEEP_LAST = 20
MIN_SUMMARY_TOKENS = 200
MOST_OF_BUDGET = 0.15
"""A summary takes at most this share of the soft budget."""
_MOST_FOR_CACHE = 1 / 3
"""Share of the soft budget: if the cache needs more, a short prompt is cheaper."""
CEILING = 0.9
"""From this share of the soft budget on a summary is swapped in whether it pays or not."""

EventKind = Literal["started", "ready", "swapped", "discarded", "proposed"]


class CompactionEvent(NamedTuple):
    """A step of a background summary, for a "context compressed" divider."""

    kind: EventKind
    thread: str
    until: int
    """The index of the first entry that stays verbatim."""
    before_tokens: int = 0
    """Tokens of the prompt, or of what is summarised."""
    after_tokens: int = 0
    """Tokens of the prompt after the swap, or of the summary."""
    elapsed_ms: float = 0.0
    detail: str = ""
    """Why a summary was discarded, or its problem; for "proposed", the outcome."""


@dataclass(frozen=True, slots=True)
class BackgroundCompaction:
    """How a `Context` compacts in the background.

    ``writer`` is a model, a function of the messages, or what has ``write(request)``, sync or
    async; None: the context store by itself, which needs no model. A summary that is empty,
    refused, cut off or an error's text is not used: the context store takes its place, and
    ``ir.meta.degraded`` says so.

    >>> from rehydrate import Budget, Context
    >>> small = Budget(soft_tokens=2_000)
    >>> context = Context(budget=small, background=BackgroundCompaction(keep_last=2))
    """

    writer: Any = None
    start_at: float = 0.7
    """The share of the soft budget at which a summary is begun."""
    size: float = 0.04
    """Its share of the tokens that it replaces."""
    keep_last: int = KEEP_LAST
    """Messages that stay verbatim, and more until the first of them is a plain user turn."""
    wait: float = 5.0
    """Seconds that a prompt waits for it if it would be compacted otherwise."""
    expected_turns: float = 10.0
    """Turns that are expected to follow: a summary is swapped in once it pays for the cache that
    it breaks, or the cache is cold. Models without a price: at once."""
    cold_after: float = 300.0
    """Seconds after which the provider's cache is cold."""
    on_event: Callable[[CompactionEvent], None] | None = None
    """Gets each step: "ready" from the writer's thread, the others with the context locked. It
    must be quick and not call the context; what it raises is ignored."""
    store_model: Any = None
    """A fast model, or a function, sync or async, of the prompt's text that returns a text. After
    each user turn it proposes operations for the context store; code checks them, and the next
    prompt applies them. Nobody waits for it."""

    def __post_init__(self) -> None:
        """Check the fields."""
        writer_of(self.writer)
        completion_of(self.store_model)
        for name in ("start_at", "size"):
            check_share(f"background: {name}", getattr(self, name))
            if getattr(self, name) == 0:
                raise InvalidArgumentError(f"background: {name} is 0; pass more, such as 0.05")
        check_whole("background: keep_last", self.keep_last)
        for name in ("wait", "expected_turns", "cold_after"):
            check_timeout(f"background: {name}", getattr(self, name))
        if self.on_event is not None:
            check_methods(
                "background: on_event", self.on_event, "__call__", "pass a function of one event"
            )


class _SummaryJob(Job):
    """One summary that is being written."""

    def __init__(self, until: int, compactions: int, tokens: int) -> None:
        super().__init__(until)
        self.compactions = compactions
        """The thread's number of them when it began: if it has changed, the summary is useless."""
        self.tokens = tokens
        self.summary = Summary("")
        self.valid_until = 0
        """For a summary by the provider itself: see `section_of`."""

    @classmethod
    @reading()
    def read(cls, content: Mapping[str, Any]) -> Self:
        """Return a job that an earlier process ended."""
        job = cls(content["until"], content["compactions"], content["tokens"])
        native = content.get("native")
        if native is not None:
            native = ProviderSummary(tuple(native["messages"]), native["text"], native["tokens"])
        job.summary = Summary(content["text"], content["degraded"], native)
        job.valid_until = content.get("valid_until", 0)
        job.done.set()
        return job

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        text, degraded, native = self.summary
        return {
            "until": self.until,
            "compactions": self.compactions,
            "tokens": self.tokens,
            "text": text,
            "degraded": degraded,
            "native": None if native is None else plain(native, "summary"),
            "valid_until": self.valid_until,
        }

    @property
    def is_empty(self) -> bool:
        return not self.summary.text and self.summary.native is None


class BackgroundCompactor:
    """The background summaries of one thread. Hold the thread's lock to use it."""

    def __init__(
        self,
        settings: BackgroundCompaction,
        thread: Thread,
        builder: PromptBuilder,
        name: str,
        clock: Callable[[], float],
    ) -> None:
        """Begin with no job."""
        self._settings = settings
        self._write_summary = writer_of(settings.writer)
        if isinstance(settings.writer, ProviderWriter):
            provider = settings.writer.model.provider
            check_choice("background: writer.model.provider", provider, [builder.target.provider])
        self._thread = thread
        self._builder = builder
        self._name = name
        self._clock = clock
        self._job: _SummaryJob | None = None
        self._written_last: _SummaryJob | None = None
        self._swapped: _SummaryJob | None = None
        """The last one that was swapped in: it is ready again if that was undone."""
        self._report_swap: Callable[[], None] | None = None
        """Reports the swap of the prompt that is being made, once it is sent."""
        self._activity = 0, Activity()
        """The number of entries of the last job, and the activity in them."""
        self._last_sent = clock()
        complete = completion_of(settings.store_model)
        self._proposer = (
            None
            if complete is None
            else StoreProposer(complete, thread, partial(self._report, "proposed"))
        )

    @property
    def _is_idle(self) -> bool:
        """Whether no writer is at work, not even one for whom nobody waits any more."""
        return self._written_last is None or self._written_last.done.is_set()

    # Starting

    def resume(self, summary: Mapping[str, Any] | None) -> None:
        """Go on with a summary that an earlier process had ready; begin one if it is due."""
        if summary is None or summary["compactions"] != self._thread.state.compactions:
            self.start_if_due()
            return
        self._job = _SummaryJob.read(summary)

    def note_sent(self) -> None:
        """Note that a prompt was sent, and begin a summary if it is due."""
        self._last_sent = self._clock()
        if self._report_swap is not None:
            self._report_swap()
            self._report_swap = None
        if self._proposer is not None:
            self._proposer.start_if_due()
        self.start_if_due()

    def apply_proposals(self) -> str:
        """Apply the proposals of the store's model, as a part of the prompt that is being made;
        return the problem, "" if there is none."""
        return "" if self._proposer is None else self._proposer.apply()

    def begin_prompt(self) -> list[str]:
        """Apply a ready summary, as a part of the prompt that is being made; return the problem.

        A summary is swapped in at the beginning of a user turn only, and never in a tool loop.
        """
        swapped, state = self._swapped, self._thread.state
        if swapped is not None and swapped.compactions == state.compactions:
            self._job, self._swapped = swapped, None  # that prompt failed, or nobody received it
        self._report_swap = None
        troubles = [self.apply_proposals()]
        entries, seen = self._thread.entries, state.seen
        if entries.turn is not None and seen <= entries.turn == len(entries) - 1:
            troubles.append(self.swap_if_ready(entries.tokens_since(seen)))
        return [trouble for trouble in troubles if trouble]

    def start_if_due(self) -> None:
        """Begin a summary if the last prompt fills enough of the budget and none is begun."""
        thread, state = self._thread, self._thread.state
        if self._job is not None or not self._is_idle or state.ir is None:
            return
        used = upper_bound(prompt_tokens(state.ir), self._builder.target.provider)
        if used < self._settings.start_at * self._builder.budget.soft_tokens:
            return
        history, least = state.ir.history, self._least(state.ir)
        keep_last = self._settings.keep_last
        row = _native.first_kept(history.conversation, keep_last, history.tokens, least)
        if row is None:
            return
        until = history.entry_index(row)
        thread.update_store()
        entries = thread.entries
        tokens = sum(entries.token_counts(index for index in history.indices if index < until))
        tokens += sum(section_tokens(each) for each in state.ir.sections if is_summary(each))
        most = int(MOST_OF_BUDGET * self._builder.budget.soft_tokens)
        replaced = 0
        for count in entries.token_counts(entries.indices(0, until)):
            replaced += count
            if self._settings.size * replaced > most:
                break  # a longer thread has no longer summary
        size = min(max(int(self._settings.size * replaced), MIN_SUMMARY_TOKENS), most)
        if tokens < 2 * size:
            return  # it would hardly make the prompt shorter
        job = _SummaryJob(until, state.compactions, tokens)
        job.valid_until = self._valid_until()
        # An earlier summary has the entries before.
        new = entries.between(state.summarised_until, until)
        prompt = partial(self._builder.rendered, head_of(state.ir, until))
        request = SummaryRequest((), new.format, "", _previous(state.ir), max(size, 1), prompt)
        try:
            run_in_thread(lambda: self._write(job, new, request))
        except RuntimeError:  # no more threads: the next prompt tries again
            return
        self._job = self._written_last = job
        self._report("started", job, before=job.tokens)

    def _least(self, ir: PromptIR) -> int:
        """Return the tokens of the history that must stay, so that the prompt is not too short for
        the provider's cache: it would be read at ten times the price."""
        builder = self._builder
        others = sum(section_tokens(each) for each in ir.sections if each.is_static)
        others += sum(tool.tokens or 0 for tool in ir.tools)
        least = minimum_prefix(builder.target.model) - others
        return least if least <= _MOST_FOR_CACHE * builder.budget.soft_tokens else 0

    def _write(self, job: _SummaryJob, new: History, request: SummaryRequest) -> None:
        """Write the summary, with the new entries since the one before; it raises nothing."""
        try:
            store = self._thread.store.as_of(job.until)
            markdown = store.render_with(self._activity_until(job.until), request.max_tokens)
            plain_entries = formats.FORMATS[new.format].without_thinking(new.entries)
            request = replace(request, messages=tuple(plain_entries), store=markdown)
            sources = self._texts(new, job.until)
            job.summary = summarised(self._write_summary, request, store, sources)
        except BaseException as error:
            why = safe_error_text(error, "summary")
            job.summary = Summary("", f"summary: {why}")
        finally:
            job.done.set()
            self._save(job)
            degraded, tokens = job.summary.degraded, job.summary.tokens
            self._report("ready", job, degraded, before=job.tokens, after=tokens)

    def _activity_until(self, until: int) -> Activity:
        """Return the activity before this entry; only entries after the last job's are read."""
        (known, activity), self._activity = self._activity, (0, Activity())
        new = self._thread.entries.between(known, until)
        if known > until or not new.is_by_row or not _read(activity, new):
            activity = Activity()
            _read(activity, self._thread.entries.between(0, until))
        if new.is_by_row:
            self._activity = until, activity
        return activity

    def _texts(self, new: History, until: int) -> Iterator[str]:
        """Yield the texts that a summary may be of; the older ones are read if somebody asks."""
        yield from (message.text for message in new.messages)
        head = self._thread.entries.between(0, until)
        yield from (message.text for message in head.messages)

    def _valid_until(self) -> int:
        """Return the index of the first entry whose thinking is refused after the summary.

        It is that of the next entry: its thinking may be made before the summary is sent.
        0 if the summary is of another model than the conversation's.
        """
        writer, builder = self._settings.writer, self._builder
        if not isinstance(writer, ProviderWriter):
            return 0
        is_same = writer.model.name == builder.target.model
        return len(self._thread.entries) if is_same else 0

    def _save(self, job: _SummaryJob) -> None:
        """Write a summary that is ready to the thread's log, for the next process."""
        with suppress(Exception), self._thread.reading():  # without it the next one begins again
            log = self._thread.log
            is_current = job.compactions == self._thread.state.compactions
            if log is not None and self._job is job and is_current and not job.is_empty:
                log.save_summary(job.to_dict())

    # Swapping

    def swap_if_ready(self, new_tokens: int) -> str:
        """Swap the summary in, if it is ready and worth it; this is the beginning of a turn.

        ``new_tokens`` come on top of the last prompt. Return the problem of the summary; "" if
        there was none, or no summary.
        """
        job, state = self._job, self._thread.state
        if job is None or state.ir is None:
            return ""
        soft = self._builder.budget.soft_tokens
        before = prompt_tokens(state.ir)
        used = upper_bound(before + new_tokens, self._builder.target.provider)
        if (why := self._why_useless(job, must_be_ready=used > soft)) is not None:
            self._discard(job, why)
            return job.summary.degraded
        if not job.done.is_set() or not self._pays(job, used, soft):
            return ""
        entries, provider = self._thread.entries, self._builder.target.provider
        ir = swapped(state.ir, entries, job.until, job.summary, provider, job.valid_until)
        after = prompt_tokens(ir)
        if after >= before:
            self._discard(job, "it would not make the prompt shorter")
            return ""
        self._thread.swap(ir)
        degraded = job.summary.degraded
        self._job, self._swapped = None, job
        self._report_swap = partial(
            self._report, "swapped", job, degraded, before=before, after=after
        )
        return degraded

    def _why_useless(self, job: _SummaryJob, *, must_be_ready: bool) -> str | None:
        """Return why the summary cannot be used; None if it can, now or later.

        It waits for the writer if it ``must_be_ready``.
        """
        is_other = self._thread.state.compactions != job.compactions
        if is_other or job.until > len(self._thread.entries):
            return "the conversation was compacted meanwhile"
        if must_be_ready and not job.done.wait(self._settings.wait):
            why = f"it was not ready within {self._settings.wait:g} s"
            why_late = f"summary: {why}; the conversation is compacted verbatim"
            warn_once("rehydrate.context", why_late)
            job.summary = job.summary._replace(degraded=why_late)
            return why
        if job.done.is_set() and job.is_empty:
            return job.summary.degraded or "there was nothing to summarise"
        return None

    def _pays(self, job: _SummaryJob, used: int, soft: int) -> bool:
        """Whether the swap is worth the cache that it breaks."""
        if used >= CEILING * soft or self._clock() - self._last_sent > self._settings.cold_after:
            return True
        model = self._builder.target.model
        try:
            price = price_of(model)
        except InvalidArgumentError:
            return True
        before = self._thread.state.shown.history.total_tokens
        after = max(before - job.tokens, 0) + job.summary.tokens
        worth = worth_compacting(
            max(before, after), after, expected_turns=self._settings.expected_turns, price=price
        )
        return worth.pays

    def _discard(self, job: _SummaryJob, detail: str) -> None:
        self._job = None
        self._report("discarded", job, detail)

    def _report(
        self,
        kind: EventKind,
        job: Job,
        detail: str = "",
        *,
        before: int = 0,
        after: int = 0,
    ) -> None:
        if self._settings.on_event is not None:
            event = CompactionEvent(
                kind, self._name, job.until, before, after, job.elapsed_ms, detail
            )
            with suppress(Exception):
                self._settings.on_event(event)


def _read(activity: Activity, new: History) -> bool:
    """Add entries; False if they belong to some of those before."""
    return activity.add(new.conversation.renumbered(new.indices))


def _previous(ir: PromptIR) -> str:
    """Return the text of the summary that a prompt has; "" if it has none."""
    texts = [text_of(each, ir.history.format) for each in ir.sections if is_summary(each)]
    return "\n".join(texts)
