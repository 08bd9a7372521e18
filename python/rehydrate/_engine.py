"""The importer of the native engine: conversations in, selections out."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from rehydrate import _native
from rehydrate._text import error_text
from rehydrate.errors import InvalidArgumentError
from rehydrate.messages import Conversation, Message

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

ArrowColumns = _native.ArrowColumns
ArrowReader = _native.ArrowReader
ArrowStream = _native.ArrowStream
ArrowTable = _native.ArrowTable
Echoes = _native.Echoes
SeenLines = _native.SeenLines
Parted = _native.Parted
"""A conversation's entries with parallel calls parted."""
Decision = _native.Decision
"""A selection, and the units and messages that it keeps."""
NameIndex = _native.NameIndex
"""The names in the texts of a conversation, and which of them are still visible."""
ShortenedText = _native.ShortenedText
Subjects = _native.Subjects

# The engine's own functions, which need nothing of Python.
cached_bytes = _native.cached_bytes
capped_results = _native.capped_results
clear_cache = _native.clear_cache
limit_cache = _native.set_cache_limit
chunks = _native.chunks
"""The chunks of a text: where the headings above each are, and where it is itself."""
command_subjects = _native.command_subjects
"""What a shell command is about: what is done, and with what."""
cap_text = _native.cap_text
"""The shown part of a text, its kind, and the tokens left out; None if it fits whole. It has at
most `limit` tokens, of which `notice` are left for a notice."""
counts = _native.counts
Division = _native.Division
"""The blocks of a text: each has its begin and end in characters, its share of the measure, and the
numbers of its first and last line."""
divide = _native.divide
"""The division of a text; None if it is not long enough."""
mark = _native.mark
"""The mark for a gap in a text; the handle says where a memory has the whole of it."""
memory_kind = _native.memory_kind
"""The kind of memory that a text is, by the first kind with a cue in it: correction, preference,
habit, wisdom (of the assistant's texts alone), or "episode" for a text without a cue."""
question_share = _native.question_share
"""The share of a text that is in questions, 0 to 1."""
decisions = _native.decisions
"""Where the sentences of a text are that say what was decided."""
exit_code = _native.exit_code
"""The code that a command's result says it exited with; None where it says none."""
fair_share = _native.fair_share
"""The size to which the largest of some sizes must be cut so that all fit: of [10, 200, 300] in 210
it is 100."""
first_error = _native.first_error
"""Where the first line about an error is."""
handles = _native.handles
"""The handles of sources and texts, the same in every store."""
json_parts = _native.json_parts
"""Of a text that is JSON the parts of the object or array that begins at an index: each one's name
("" in an array), where the white space before it begins, and where its value begins and ends. None
where it is nested too deeply."""
isa = _native.isa
"""This machine's widest instructions that change an int8 model's results."""
hidden_windows = _native.hidden_windows
"""Where the windows of a text are that hold a line which is not shown: of whole lines and about
`size` characters. A line of more than `max_line` becomes several, which overlap a little."""
is_correction = _native.is_correction
"""Whether a sentence says that something holds from now on, or instead of another thing."""
is_refusal = _native.is_refusal
"""Whether what a writer of summaries returned is the text of an error or a refusal."""
item_index = _native.ItemIndex
"""An index in memory, for items that are kept elsewhere."""
kind_of_text = _native.kind_of
"""The kind of a text that a tool returned, such as "log" or "diff"."""
outline_slot = _native.outline_slot
"""The index of the first gap of a conversation where an outline may go, and the index that it is
put before; None if there is none. `compact.outline` says more."""
read_outline = _native.read_outline
"""The names in the lines of an outline; None for any other text."""
write_outline = _native.write_outline
"""The lines of as many names of an outline as fit, the first first; "" if none fits. `how` tells
the reader how to ask for a name."""
long_results = _native.long_results
result_texts = _native.result_texts
notice = _native.notice
labelled = _native.labelled
"""Where the parts of a text are that are under a label in capitals."""
names = _native.names
"""The best `limit` of the names that no shown text has, the best first: each with the number of the
last text that has it, of the last tool input that has it, and whether it is a proper name."""
passage_excerpt = _native.passage_excerpt
pasted = _native.pasted
"""The parts of a text that its author did not say: in fences, in tags, quoted lines."""
read_time = _native.read_time
"""What a text means as of a time of a zone's clock, in microseconds since the year 1 began: "clock"
or "moments" (of UTC) and both ends, or "since" or "around", a count and its unit. Of a text that is
not a time, the reason in two parts, of which the first is to be quoted."""
secret_kinds = _native.secret_kinds
"""The names of all kinds of secrets; the more exact ones come first."""
secrets = _native.secrets
"""The start, the end and the kind, a place in `secret_kinds`, of each secret in a text but those of
the kinds that are `off`."""
sentences = _native.sentences
"""Where the sentences of a text are."""
set_alone = _native.set_alone
"""Has this thread compute without a helper thread, or with one again; returns how it was before."""
snippets = _native.snippets
"""Where the part of each text that a query is about begins and ends, in characters."""
summary_lines = _native.summary_lines
"""What a summary of ours says, line by line: the place of each line's heading, its kind, where its
text is, and where the words are that say what was done with a file. None for any other text."""
unit_text = _native.unit_text
without_calls = _native.without_calls
whole_sentences = _native.whole_sentences
"""Where the sentences are that a part of a text is in."""

VERSION = _native.__version__
"""Version of the package, for rooms that may not import its front."""

CounterName = Literal["words", "chars", "o200k_base", "cl100k_base"]

COUNTERS: tuple[CounterName, ...] = ("words", "chars", "o200k_base", "cl100k_base")
"""Token counters inside the build."""

MEDIA_TOKENS = 1_600
"""Tokens counted for an image or a document: what Anthropic bills for its largest unscaled image,
an upper bound for OpenAI's too. Their base64 payload is never counted as text."""

CACHE_BYTES = 256 << 20
"""Default bytes of a process's cache; `limit_cache` changes it."""

CustomCounter = Callable[[str], int]

DividedTexts = tuple[_native.Prepared, Conversation, Sequence[bytearray], Mapping[int, str]]
"""The conversation that was prepared with excerpts; for each divided text a byte for each block, 1
where it is kept; and the handle of each whole text in memory."""

atexit.register(_native.before_exit)
if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(
        before=_native.before_fork,
        after_in_parent=_native.after_fork,
        after_in_child=_native.after_fork,
    )


class Excerpting(NamedTuple):
    """The texts that may be divided, and the cost of the mark in a gap."""

    divisible: list[bool]
    """For each piece of the conversation."""
    mark_counts: tuple[int, int]
    """Counts of a mark with small numbers, and with large ones."""
    block_counts: list[int] | None
    """For a counter of the caller's: the tokens of each block of each divided text."""


def prepare(
    conversation: Conversation,
    *,
    counter: str | CustomCounter,
    weight_of: Callable[[str], float] = lambda _role: 1.0,
    pinned: Sequence[bool] = (),
    embed: bool = False,
    calibrated: bool = False,
    coverage: bool = False,
    asked: bool = False,
    recalled: bool = False,
    excerpting: Excerpting | None = None,
) -> _native.Prepared:
    """Count and analyse a conversation; texts seen before come from the cache.

    `weight_of` is the weight of a role, `pinned` are the units that are always kept; () for none.
    `asked` says that messages will be compared with a query, `recalled` with memories. Without
    either, only the newest text is embedded, and only the names of a query are searched. With
    `excerpting`, long texts are divided into blocks, which may be kept one by one.
    """
    return _native.Prepared(
        conversation=conversation,
        structural=[weight_of(role) for role in conversation.roles],
        media_tokens=MEDIA_TOKENS,
        pinned=pinned or [False] * conversation.unit_count,
        counter=counter if isinstance(counter, str) else "chars",
        counts=None
        if isinstance(counter, str)
        else [_custom_count(counter, text) for text in conversation.texts()],
        embed=embed,
        bags=asked,
        vectors=recalled or (asked and not calibrated),
        terms=asked and calibrated,
        mentions=coverage,
        **(excerpting._asdict() if excerpting else {}),
    )


def message_tokens(
    messages: Conversation | Sequence[Message], counter: str | CustomCounter
) -> list[int]:
    """Return the tokens of each message, media included."""
    if not isinstance(messages, Conversation):
        messages = Conversation("", tuple(messages))
    return prepare(messages, counter=counter).message_tokens


class Directive(NamedTuple):
    """A sentence by which a user lays something down."""

    start: int
    """In characters of its text."""
    end: int
    strength: int
    """2 to 6."""
    is_plain: bool
    """Whether words in it do so by themselves, as "always" does; an order for now has but signs."""
    subject: list[int]
    """Its content words, by number."""


def directives(text: str) -> list[Directive]:
    """The sentences of a text by which a user lays something down."""
    return list(map(Directive._make, _native.directives(text)))


def message_vectors(prepared: _native.Prepared) -> Vectors:
    """Return the built-in model's vectors, shape (messages, 256), float32.

    Rows have length 1, or 0 for a text without known words.
    """
    import numpy as np

    dim = prepared.dim or 0
    return np.frombuffer(prepared.vectors(), dtype=np.float32).reshape(-1, dim)


def embed(texts: Sequence[str]) -> Vectors:
    """Return the built-in model's vectors of texts, shape (texts, 256), float32."""
    import numpy as np

    rows, dim = _native.embed(list(texts))
    return np.frombuffer(rows, dtype=np.float32).reshape(-1, dim)


def load_onnx(
    library: Path,
    *,
    model: Path,
    tokenizer: Path,
    threads: int,
    max_tokens: int,
    first_token: bool,
    by_length: bool,
) -> _native.OnnxModel:
    """Load a transformer through ONNX Runtime's library, which was checked before."""
    _native.open_onnx(library)
    _close_onnx_at_exit()
    return _native.OnnxModel(
        model=model,
        tokenizer=tokenizer,
        threads=threads,
        max_tokens=max_tokens,
        first_token=first_token,
        by_length=by_length,
    )


@cache
def _close_onnx_at_exit() -> None:
    atexit.register(_native.close_onnx)


def open_store(path: str | os.PathLike[str], **options: Any) -> _native.Store:
    """Open a memory's file, or create it; the options are those of ``_native.Store``."""
    return cast("_native.Store", _TypedStore(_native.Store(path, **options)))


class _TypedStore:
    """The engine's store, whose one error that is not ours is made ours: no file can hold half of
    a surrogate pair, in whatever name or filter it is."""

    def __init__(self, store: _native.Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not callable(found):
            return found

        @wraps(found)
        def typed(*given: Any, **named: Any) -> Any:
            try:
                return found(*given, **named)
            except UnicodeEncodeError as error:
                raise InvalidArgumentError(
                    f"a text for the store's {name} holds half of a surrogate pair at character "
                    f"{error.start}, which UTF-8 cannot hold; leave it out"
                ) from None

        setattr(self, name, typed)
        return typed


def count(text: str, counter: str | CustomCounter) -> int:
    """Return the tokens of one text."""
    return (
        _native.count(text, counter) if isinstance(counter, str) else _custom_count(counter, text)
    )


def count_raw(text: str, counter: str | CustomCounter) -> int:
    """Return the raw count of a text: words, characters, or tokens, before it becomes tokens."""
    if counter == "words":
        return len(text.split())
    return len(text) if counter == "chars" else count(text, counter)


def check_counter(counter: object) -> str | CustomCounter:
    """Return a counter's name or a callable of the caller's.

    Raises InvalidArgumentError for anything else.
    """
    if callable(counter) or (isinstance(counter, str) and counter in COUNTERS):
        return counter
    names = ", ".join(map(repr, COUNTERS))
    raise InvalidArgumentError(
        f"counter is {counter!r}; choose one of {names}, or pass a callable of str -> int"
    )


def counter_name(counter: str | CustomCounter) -> str:
    """Return the name of a counter for reports."""
    return (
        counter
        if isinstance(counter, str)
        else getattr(counter, "__name__", type(counter).__name__)
    )


def _custom_count(counter: CustomCounter, text: str) -> int:
    try:
        tokens: Any = counter(text)
    except Exception as error:
        raise InvalidArgumentError(
            f"counter {counter_name(counter)} raised {error_text(error)} "
            f"for {len(text)} characters; it must return a whole number for any text"
        ) from error
    try:
        exact = int(tokens)
        is_whole = bool(exact == tokens)
    except (TypeError, ValueError, OverflowError):  # not one number, NaN, infinite
        exact, is_whole = -1, False
    if not (is_whole and 0 <= exact < 2**32):
        raise InvalidArgumentError(
            f"counter {counter_name(counter)} returned {tokens!r} for {len(text)} characters; "
            "it must return a whole number from 0 up"
        )
    return exact
