"""ContextFacts: facts about a `Context`; ContextUsage: its figures."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from operator import eq
from typing import TYPE_CHECKING, Any, NamedTuple

from rehydrate._check import check_type
from rehydrate._text import notebook_html, plural
from rehydrate.context.history import Same
from rehydrate.context.prompt_builder import PromptBuilder
from rehydrate.context.thread import Thread, ToolHandler
from rehydrate.cost.prefix import PrefixReport
from rehydrate.embedding.choice import Choice
from rehydrate.entry_id import EntryId
from rehydrate.errors import InvalidArgumentError
from rehydrate.messages import Provider
from rehydrate.prompt.counting import prompt_tokens, upper_bound
from rehydrate.prompt.entries import History
from rehydrate.prompt.ir import PromptIR
from rehydrate.prompt.originals import Originals
from rehydrate.prompt.reports import Why
from rehydrate.prompt.request import Budget, ContextRequest

if TYPE_CHECKING:
    from rehydrate._native import ContextStore, PromptRecords
    from rehydrate.prompt.sources import Given


class ContextUsage(NamedTuple):
    """Figures of a context. Tokens are in its counter's unit."""

    tokens: int
    """Tokens of the last prompt."""
    upper_bound_tokens: int
    """The most that a provider may count for it; the budgets are compared with this."""
    soft_tokens: int
    hard_tokens: int
    """The limit for one request."""
    job_tokens: int
    """The new tokens that this job has sent: of each prompt, those after the prefix it shares with
    the one before, since the cache has the rest."""
    max_job_tokens: int | None
    """None: no limit."""
    prompts: int
    compactions: int
    entries: int
    """Added so far."""
    visible_entries: int
    """In the last prompt."""
    sections: int
    """In the last prompt."""

    @property
    def soft_share(self) -> float:
        """The share of the soft budget in use; above 1.0 the next prompt is compacted."""
        return self.upper_bound_tokens / self.soft_tokens

    @property
    def hard_share(self) -> float:
        """The share of the hard budget in use; above 1.0 the prompt is refused."""
        return self.upper_bound_tokens / self.hard_tokens

    @property
    def job_share(self) -> float | None:
        """The share of the job's budget that is spent; None if it has none."""
        limit = self.max_job_tokens
        return None if limit is None else self.job_tokens / limit


class ContextFacts:
    """The read side of a `Context`; its budget alone can be set."""

    _follows: bool
    """Whether its provider is still open."""
    _thread: Thread
    _builder: PromptBuilder

    @property
    def store(self) -> ContextStore:
        """The continuous context store: directives, decisions, changes and open points.

        >>> from rehydrate import Context
        >>> context = Context()
        >>> context.add({"role": "user", "content": "Always use French. Which berth is free?"})
        >>> [item.text for item in context.store.items("User Preferences")]
        ['Always use French.']
        """
        with self._thread.reading():
            self._thread.update_store()
            return self._thread.store

    def left_out(self) -> tuple[History, list[datetime]]:
        """Return the entries that the last prompt does not show, and when each was said."""
        with self._thread.reading():
            return self._thread.left_out()

    @property
    def room_tokens(self) -> int:
        """The tokens that the running turn has room for, within the job's limit."""
        with self._thread.reading():
            return self._thread.room_tokens(self.budget, self.provider)

    @property
    def request(self) -> ContextRequest:
        """The request that all its prompts share: strategy, budget, thread and namespace."""
        return self._builder.request

    @property
    def budget(self) -> Budget:
        """The limits of its prompts; set another one at any time, for the prompts to come.

        >>> from rehydrate import Context
        >>> context = Context()
        >>> context.budget = Budget(soft_tokens=100_000, max_job_tokens=2_000_000)
        >>> context.usage.soft_tokens
        100000
        """
        return self._builder.budget

    @budget.setter
    def budget(self, budget: Budget) -> None:
        check_type("budget", budget, Budget, "pass a Budget, as in Budget(soft_tokens=100_000)")
        with self._thread.lock:
            self._builder.limit(budget)

    @property
    def sources(self) -> Given:
        """The sources asked once a user turn."""
        return self._builder.sources

    @property
    def provider(self) -> Provider:
        """The provider its prompts are compiled for."""
        return self._builder.target.provider

    def goes_to(self, provider: str) -> bool:
        """Return whether this provider takes its prompts, or may still become its provider."""
        return self._is_open or self.provider == self.format == provider

    @property
    def _is_open(self) -> bool:
        """Whether the provider may still follow from an entry or a model."""
        thread = self._thread
        is_written = thread.log is not None and thread.log.records > 0
        return self._follows and thread.state.ir is None and not is_written

    @property
    def format(self) -> str:
        """The format of what is added, and of `history`."""
        return self._thread.entries.format

    @property
    def turn(self) -> int | None:
        """The index in `history` of the last user turn."""
        return self._thread.entries.turn

    @property
    def history(self) -> list[Any]:
        """Everything that was added, in order: the same objects, also those that were left out."""
        # Without the lock: it must be there at once, also while a prompt waits for its sources.
        return self._thread.history()

    def shared_with(self, entries: Sequence[Any], since: int = 0, same: Same = eq) -> int:
        """Return with how many of its entries, those from the index ``since`` on, a list begins."""
        return self._thread.entries.shared_with(entries, since, same)

    def is_whole(self, index: int, shown: Any) -> bool:
        """Return whether this is all of the entry at an index, not a part of it."""
        return shown is self._thread.entries.at(index)

    def why(self, what: Any) -> Why:
        """Return whether the last prompt shows something, how much of it, and why.

        ``what`` is an entry, its index in `history`, or the id of a section or the name of a
        source. What a compaction decided is known as long as the conversation, also in a stored
        thread. Raises InvalidArgumentError for what is nothing of these.

        >>> from rehydrate import Context
        >>> context = Context(lambda request: "Berth 4 is free.")
        >>> sent = context.prompt("Which berth is free?")
        >>> context.why(0).shown, context.why("function").shown
        ('whole', 'whole')
        """
        with self._thread.reading():
            entries, records = self._thread.entries, self._thread.prompt_records()
            index, id_ = what, what
            if not isinstance(what, str):
                if isinstance(what, bool) or not isinstance(what, int):
                    index = entries.index_of(what)
                if not isinstance(index, int) or not -len(entries) <= index < len(entries):
                    raise InvalidArgumentError(
                        f"why: no such {type(what).__name__} was added; pass one of the "
                        f"{len(entries)} entries, its index, or an id"
                    )
                id_ = EntryId.of(index % len(entries))
            found = records.why(id_) or self._why_else(id_)
            if found.shown == "whole" and self._is_changed(records, id_):
                came = "when it came: a result over its cap, or what the model sees elsewhere"
                found = found._replace(shown="in part", reason=found.reason or f"cut {came}")
            return found

    def _is_changed(self, records: PromptRecords, id_: str) -> bool:
        """Return whether an entry is not shown as it was added."""
        index = EntryId.index_of(id_)
        position = None if index is None else records.position(index)
        if index is None or position is None:
            return False
        return records.ir.history.entries[position] is not self._thread.entries.at(index)

    def _why_else(self, id_: str) -> Why:
        """Return why there is no record of an entry."""
        thread, index = self._thread, EntryId.index_of(id_)
        if index is None or index >= len(thread.entries):
            known = sorted({report.name for report in thread.state.shown.meta.sources})
            raise InvalidArgumentError(
                f"why: the last prompt had nothing of the id {id_!r}; its sources are "
                f"{', '.join(known) or 'none'}"
            )
        if index in thread.entries.taken_back:
            return Why(id_, "not", "the user took it back")
        if index >= thread.state.seen:
            return Why(id_, "not", "it was added after the last prompt; the next one has it")
        if index < thread.state.summarised_until:
            return Why(id_, "not", "a summary is in its place")
        return Why(id_, "not", "it was left out before this was recorded")

    @property
    def ir(self) -> PromptIR | None:
        """The IR of the last prompt; None before the first."""
        return self._thread.state.ir

    @property
    def prefix(self) -> PrefixReport | None:
        """Whether the last prompt extends the one before; None before the second."""
        return self._thread.state.prefix

    @property
    def originals(self) -> Originals:
        """The store of the originals of shortened texts: ``originals.get(handle)``."""
        originals = self._builder.target.originals
        assert originals is not None  # a context has one of its own
        return originals

    @property
    def embedder(self) -> Choice:
        """The model by which its messages are compared with a query."""
        return self._builder.target.embedder

    @property
    def jit(self) -> ToolHandler | None:
        """The last `ContextJIT` made for it, or another `offer` handler; None: there is none."""
        return self._thread.tool_handler

    @property
    def is_busy(self) -> bool:
        """Whether a call on it is under way at this moment, which another would wait for."""
        return self._thread.lock.is_held

    @property
    def usage(self) -> ContextUsage:
        """How full the window is, and what the job has spent; as of the last prompt where one is
        being made."""
        # Without the lock, as `history` is: a server asks for it on its event loop.
        budget, state = self._builder.budget, self._thread.state
        tokens = prompt_tokens(state.ir) if state.ir else 0
        return ContextUsage(
            tokens=tokens,
            upper_bound_tokens=upper_bound(tokens, self.provider),
            soft_tokens=budget.soft_tokens,
            hard_tokens=budget.hard_tokens,
            job_tokens=state.job_tokens,
            max_job_tokens=budget.max_job_tokens,
            prompts=state.prompts,
            compactions=state.compactions,
            entries=len(self._thread.entries),
            visible_entries=len(state.ir.history.entries) if state.ir else 0,
            sections=len(state.ir.sections) if state.ir else 0,
        )

    def __repr__(self) -> str:
        """Return the provider and the figures in a line."""
        usage = self.usage
        return (
            f"<Context for {self.provider}: {plural(usage.entries, 'entry', 'entries')}, "
            f"{plural(usage.prompts, 'prompt')}, {plural(usage.compactions, 'compaction')}, "
            f"{usage.tokens:,} tokens in the last prompt>"
        )

    def _repr_html_(self) -> str:
        """Return that and the table of the last prompt, as a notebook shows them."""
        return notebook_html(self, *([self.ir.explain()] if self.ir else []))
