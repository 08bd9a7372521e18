"""Records of a thread on disk: what each kind holds, and the state of a thread from all of them.

A thread is an append-only log. Its first record says what its entries are. Each entry is a record;
so is each change of what the next prompt extends. Such a state names only what is new besides the
one before, so a turn's record does not grow with the conversation.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import IntEnum
from hashlib import blake2b
from itertools import compress, count
from operator import is_not, ne
from typing import Any, NamedTuple

from rehydrate._text import as_json
from rehydrate.context.history import Entries, StoredEntry
from rehydrate.context.prompt_state import PromptState
from rehydrate.errors import InvalidArgumentError, RehydrateError, UnreadableIRError
from rehydrate.prompt.entries import History
from rehydrate.prompt.ir import CompiledPrompt, PromptIR
from rehydrate.prompt.request import ContextRequest
from rehydrate.prompt.section import Section
from rehydrate.prompt.serialize import IR_KIND, VERSION as IR_VERSION, document, plain

VERSION = 1
"""The version of the records. A reader takes this one and older ones."""


class Kind(IntEnum):
    """What a record holds."""

    HEADER = 0
    """The format of the entries, and where a fork is from."""
    ENTRY = 1
    STATE = 2
    """What the next prompt extends, and what was spent."""
    WAITING = 3
    """Sections in answers to tool calls whose results no prompt has shown yet: all of them."""
    ORIGINAL = 4
    """A text behind a handle that is not a text of an entry."""
    REMAINDER = 5
    """What an answer had no room for, behind its handle."""
    OPERATIONS = 7
    """Operations of the context store, and how many entries it has read then."""
    SUMMARY = 8
    """A summary that is ready and not swapped in yet."""
    UNDO = 6
    """The number of a record: it and all after it do not count, since nobody received them."""


class Record(NamedTuple):
    """One step of a thread."""

    kind: Kind
    time: float
    """In seconds since 1970."""
    content: dict[str, Any]

    def body(self) -> str:
        """Return its content as JSON."""
        return as_json(self.content)


_FIELDS: dict[Kind, dict[str, type]] = {
    Kind.HEADER: {"format": str},
    Kind.ENTRY: {"entry": object, "tokens": int},
    Kind.STATE: dict.fromkeys(("seen", "job_tokens", "prompts", "compactions"), int),
    Kind.WAITING: {"waiting": dict},
    Kind.ORIGINAL: {"handle": str, "text": str},
    Kind.REMAINDER: {"handle": str, "sections": list},
    Kind.OPERATIONS: {"operations": list, "seen": int},
    Kind.SUMMARY: {"until": int, "compactions": int, "tokens": int, "text": str},
    Kind.UNDO: {"to": int},
}
"""What a record of each kind says at least: a store may come from somebody else."""
_MOST = 1 << 53
"""No count of ours is larger, and sums of them are exact in every number."""


def read_record(kind: int, time: float, body: str) -> Record:
    """Read a record from its columns; raises UnreadableIRError for what none of ours says."""
    try:
        return checked_record(Kind(kind), time, json.loads(body))
    except (ValueError, RecursionError) as error:
        raise UnreadableIRError(
            "record", f"is of kind {kind} or no JSON ({error})", "upgrade rehydrate to read it"
        ) from None


def checked_record(kind: Kind, time: float, content: Any) -> Record:
    """Return the record of a content; raises UnreadableIRError for one without its fields."""
    fields = content if isinstance(content, dict) else {}
    for name, form in _FIELDS[kind].items():
        value = fields.get(name)
        is_count = type(value) is int and 0 <= value < _MOST
        if name not in fields or (form is int and not is_count):
            problem = f"is of kind {kind.name.lower()} and has no {name!r}"
        elif not isinstance(value, form):
            problem = f"is of kind {kind.name.lower()} and its {name!r} is {type(value).__name__}"
        else:
            continue
        raise UnreadableIRError("record", problem, _REMEDY, [name])
    return Record(kind, time, content)


_REMEDY = "restore the store from a copy or an export"


@contextmanager
def reading() -> Iterator[None]:
    """Raise UnreadableIRError where records do not fit each other, or say what none of ours does.

    Their hashes say that they are as somebody wrote them, not who.
    """
    try:
        yield
    except RehydrateError:
        raise
    except (
        *(KeyError, TypeError, ValueError, AttributeError, IndexError),
        *(OverflowError, RecursionError),
    ) as error:
        problem = f"says what no thread does ({type(error).__name__}: {error})"
        raise UnreadableIRError("the thread", problem, _REMEDY) from error


def header(format: str, **more: Any) -> Record:  # noqa: A002  the field's word
    """Return the first record of a thread."""
    return Record(Kind.HEADER, 0.0, {"version": VERSION, "format": format, **more})


def effective(records: Iterable[Record]) -> list[Record]:
    """Return the records that count, in order.

    >>> one, two = Record(Kind.ENTRY, 0.0, {"entry": 1}), Record(Kind.ENTRY, 0.0, {"entry": 2})
    >>> effective([header("plain"), one, Record(Kind.UNDO, 0.0, {"to": 1}), two])[1:] == [two]
    True
    """
    return [record for _, record in numbered(records)]


def numbered(records: Iterable[Record]) -> list[tuple[int, Record]]:
    """Return the records that count, each with its number in the log."""
    counting: list[tuple[int, Record]] = []
    for number, record in enumerate(records):
        if record.kind is Kind.UNDO:
            while counting and counting[-1][0] >= record.content["to"]:
                counting.pop()
        else:
            counting.append((number, record))
    return counting


_SEEING = (Kind.STATE, Kind.OPERATIONS)
"""Kinds that say how many entries they were made from."""
_PASSING = (Kind.WAITING, Kind.SUMMARY)
"""Kinds that hold for the end of a thread only."""


def first_entries(records: Sequence[Record], count: int) -> list[Record]:
    """Return the records of a thread that ends after so many entries.

    What the next prompt extends is the last prompt that was made from no more.
    """
    kept, entries = [], 0
    for record in records:
        if record.kind is Kind.ENTRY:
            entries += 1
            if entries > count:
                continue
        elif record.kind in _PASSING or (record.kind in _SEEING and record.content["seen"] > count):
            continue
        kept.append(record)
    if entries < count:
        raise InvalidArgumentError(
            f"entries is {count:,}, and the thread has {entries:,}; pass at most that"
        )
    return kept


# States

_LISTS = ("sections", "tools", "late_bound")
_COUNTS = ("seen", "turn", "job_tokens", "prompts", "compactions")


def state_record(state: PromptState, before: PromptState, entries: Entries, time: float) -> Record:
    """Return the record of a state, compared with the one that was recorded before it.

    The trace of the passes is left out: nothing goes on from it.
    Raises UnreadableIRError for content that JSON cannot hold.
    """
    ir, old = state.shown, before.shown
    lists = {name: _new_of(getattr(ir, name), getattr(old, name), name) for name in _LISTS}
    content = {
        **{name: getattr(state, name) for name in _COUNTS},
        "missing_hot": None if state.missing_hot is None else sorted(state.missing_hot),
        "has_ir": state.ir is not None,
        "sent": None if state.sent is None else _sent(state, before),
        "request": _changed(plain(ir.request, "request"), plain(old.request, "request")),
        "counter": ir.counter,
        "breakpoints": list(ir.breakpoints),
        "meta": {
            **plain(replace(ir.meta, dropped=(), trace=()), "meta"),
            "dropped": _new_of(ir.meta.dropped, old.meta.dropped, "meta.dropped"),
        },
        "history": _new_of_history(ir.history, old.history, entries),
        **lists,
    }
    return Record(Kind.STATE, time, content)


def _changed(now: Mapping[str, Any], old: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are not what they were."""
    return {name: value for name, value in now.items() if value != old[name]}


def _sent(state: PromptState, before: PromptState) -> dict[str, Any] | str:
    """Return what identifies the prompt that was sent; "before": it is the one sent before."""
    sent = state.sent
    if sent is None or sent is before.sent:
        return "before"
    return {"provider": sent.provider, "model": sent.model, "digest": digest_of(sent)}


def digest_of(prompt: CompiledPrompt) -> str:
    """Return 128 bits of all that a provider is sent, hexadecimal."""
    hashed = blake2b(digest_size=16)
    for segment in prompt.segments:
        hashed.update(segment.digest.encode())
    return hashed.hexdigest()


def _new_of(now: Sequence[Any], old: Sequence[Any], path: str) -> list[Any]:
    """Return how many items at the beginning are those of before, and the others as JSON."""
    same = _shared(now, old)
    return [same, plain(now[same:], path)]


def _shared(now: Sequence[Any], old: Sequence[Any]) -> int:
    return min(len(now), len(old), _first_true(map(is_not, now, old)))


def _first_true(flags: Iterable[bool]) -> int:
    return next(compress(count(), flags), sys.maxsize)


def _new_of_history(now: History, old: History, entries: Entries) -> dict[str, Any]:
    """Return how many entries at the beginning are those of before; of each other one the index,
    the tokens, and, where it is not shown as it was added, what is shown."""
    is_now = now.indices
    same = min(_shared(now.entries, old.entries), _first_true(map(ne, is_now, old.indices)))
    rest: list[list[Any]] = []
    for position in range(same, len(now.entries)):
        index, entry = is_now[position], now.entries[position]
        told = [index, now.tokens[position]]
        if not (index < len(entries) and entry is entries.at(index)):
            told.append(plain(entry, f"history[{index}]"))
        rest.append(told)
    return {"same": same, "rest": rest}


@dataclass(slots=True)
class StoredThread:
    """A thread as its records tell it."""

    format: str
    entries: list[StoredEntry] = field(default_factory=list)
    state: dict[str, Any] | None = None
    """The last state, whole."""
    sent: dict[str, Any] | None = None
    """The state of the last prompt that was sent, whole."""
    waiting: dict[str, list[Any]] = field(default_factory=dict)
    originals: dict[str, str] = field(default_factory=dict)
    remainders: dict[str, list[Any]] = field(default_factory=dict)
    operations: list[dict[str, Any]] = field(default_factory=list)
    seen: int = 0
    """How many entries the context store has read."""
    summary: dict[str, Any] | None = None

    @classmethod
    @reading()
    def of(cls, records: Sequence[Record]) -> StoredThread:
        """Read the records that count; raises UnreadableIRError for a later version's."""
        first = records[0].content if records and records[0].kind is Kind.HEADER else {}
        version = first.get("version")
        if type(version) is not int or not 1 <= version <= VERSION:
            raise UnreadableIRError(
                "version",
                f"is {version!r}, and this package reads up to {VERSION}",
                "upgrade rehydrate to read the thread",
            )
        thread = cls(first["format"])
        for kind, time, content in records:
            if kind is Kind.ENTRY:
                entry = StoredEntry(content["entry"], time, content["tokens"])
                thread.entries.append(entry)
            elif kind is Kind.STATE:
                thread._take_state(content)
            elif kind is Kind.WAITING:
                thread.waiting = content["waiting"]
            elif kind is Kind.ORIGINAL:
                thread.originals[content["handle"]] = content["text"]
            elif kind is Kind.REMAINDER:
                thread.remainders[content["handle"]] = content["sections"]
            elif kind is Kind.OPERATIONS:
                thread.operations += content["operations"]
                thread.seen = content["seen"]
            elif kind is Kind.SUMMARY:
                thread.summary = content
        return thread

    def _take_state(self, content: Mapping[str, Any]) -> None:
        empty = {"history": [], "meta": {"dropped": []}, "request": plain(ContextRequest())}
        old = self.state or empty
        state = {**content, "request": {**old["request"], **content["request"]}}
        for name in _LISTS:
            same, rest = content[name]
            state[name] = [*old.get(name, ())[:same], *rest]
        same, rest = content["meta"]["dropped"]
        state["meta"] = {**content["meta"], "dropped": [*old["meta"]["dropped"][:same], *rest]}
        history = content["history"]
        state["history"] = [*old["history"][: history["same"]], *history["rest"]]
        self.state = state
        if isinstance(content["sent"], dict):
            self.sent = state

    @reading()
    def section_lists(self, lists: Mapping[str, Sequence[Any]]) -> dict[str, tuple[Section, ...]]:
        """Read the sections behind each key."""
        read = {}
        for key, sections in lists.items():
            whole = {"sections": sections, "history": [], "late_bound": [], "tools": []}
            read[key] = _ir_of(whole, Entries(self.format)).sections
        return read


def ir_of(state: Mapping[str, Any], entries: Entries) -> PromptIR | None:
    """Return the IR of a whole state; entries that are shown as they were added are those given."""
    return _ir_of(state, entries) if state["has_ir"] else None


_IR_FIELDS = ("request", "sections", "tools", "late_bound", "counter", "breakpoints", "meta")


def _ir_of(state: Mapping[str, Any], entries: Entries) -> PromptIR:
    fields = {name: state[name] for name in _IR_FIELDS if name in state}
    ir = PromptIR.from_dict({**document(IR_KIND), "version": IR_VERSION, **fields})
    shown = state["history"]
    history = History(
        tuple([told[2] if len(told) > 2 else entries.at(told[0]) for told in shown]),
        entries.format,
        tuple([told[1] for told in shown]),
        tuple([told[0] for told in shown]),
    )
    return ir.replace(history=history)


# Lines of an export

_FORMAT = "rehydrate thread"


def to_lines(records: Iterable[Record], namespace: str, thread: str) -> Iterable[str]:
    """Yield an export's lines, without their ends: a header, then a record each."""
    yield as_json({"format": _FORMAT, "version": VERSION, "namespace": namespace, "thread": thread})
    for record in records:
        yield as_json({"kind": record.kind.name.lower(), "time": record.time, **record.content})


def from_lines(lines: Iterable[str]) -> tuple[str, list[Record]]:
    """Return the thread's name and its records; raises InvalidArgumentError, with the line's
    number, for anything that `to_lines` did not write."""
    name, records = "", []
    for number, line in enumerate(lines, 1):
        try:
            read = json.loads(line)
            if number == 1:
                if read.pop("format") != _FORMAT or read["version"] > VERSION:
                    raise ValueError(f"it is no {_FORMAT!r} of version {VERSION} or older")
                name = read["thread"]
                continue
            kind, time = Kind[read.pop("kind").upper()], float(read.pop("time"))
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise InvalidArgumentError(
                f"line {number} is no line of an exported thread "
                f"({type(error).__name__}: {error}); pass a file that an export wrote"
            ) from None
        records.append(checked_record(kind, time, read))
    return name, records
