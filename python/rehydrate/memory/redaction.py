"""Redaction: secrets are removed from memories before anything is written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from rehydrate import _engine
from rehydrate._check import check_type
from rehydrate.errors import InvalidArgumentError
from rehydrate.memory.items import MemoryItem, Redaction
from rehydrate.memory.secrets import NAMES, SECRETS, Secret, decoded_text

if TYPE_CHECKING:
    from rehydrate._native import Needles


class Redacted(NamedTuple):
    """A text without its secrets, and where they were."""

    text: str
    redactions: tuple[Redaction, ...]


class Redactor:
    """Replaces secrets by ``[redacted:their_name]``; everything else stays as it is.

    `off` lists kinds of secrets to keep; `Redactor.names` lists all kinds. Raises
    InvalidArgumentError for an unknown name.

    >>> redactor = Redactor(off=["jwt"])
    >>> redactor("connect to postgres://app:hunter2@db/main")
    Redacted(text='connect to postgres://app:[redacted:url_password]@db/main', \
redactions=(Redaction(name='url_password', start=26, end=49),))
    """

    names = NAMES

    def __init__(self, off: Iterable[str] = ()) -> None:
        """Take the names of the kinds that are kept."""
        check_type("redaction off", off, Iterable, "pass a list of kinds of secrets")
        names = [off] if isinstance(off, str) else list(off)
        for name in names:
            if name not in NAMES:
                raise InvalidArgumentError(
                    f"redaction off={name!r} is no kind of secret; choose from {', '.join(NAMES)}"
                )
        self.off = tuple(names)
        self._off = {rank for rank, name in enumerate(NAMES) if name in names}

    def __call__(self, text: str, known: Iterable[Redaction] = ()) -> Redacted:
        """Return the text without secrets. `known` are redactions that it has already."""
        spans = self._spans(text)
        if not spans and not known:
            return Redacted(text, ())
        labelled = [span for span in known if text[span.start : span.end] == _label(span.name)]
        if not spans and not labelled:
            return Redacted(text, ())
        parts: list[str] = []
        redactions: list[Redaction] = []
        length = read = 0
        for start, end, name in sorted(spans + [(s.start, s.end, s.name) for s in labelled]):
            if start < read:  # an earlier label inside of a secret found now
                continue
            label = _label(name)
            length += start - read
            parts += (text[read:start], label)
            redactions.append(Redaction(name, length, length + len(label)))
            length += len(label)
            read = end
        return Redacted("".join([*parts, text[read:]]), tuple(redactions))

    def item(self, item: MemoryItem) -> MemoryItem:
        """Return the item without secrets in its text, metadata and provenance."""
        found = self(item.text, item.redactions)
        changed: dict[str, Any] = {
            name: self(value).text
            for name in ("kind", "source", "thread", "tool", "principal")
            if (value := getattr(item, name))
        }
        if item.metadata:
            try:
                changed["metadata"] = self.inside(item.metadata)
            except RecursionError:
                raise InvalidArgumentError(
                    "metadata is nested too deep to look for secrets in it; flatten it"
                ) from None
        same = all(getattr(item, name) == value for name, value in changed.items())
        if same and found == (item.text, item.redactions):
            return item
        return replace(item, text=found.text, redactions=found.redactions, **changed)

    def inside(self, value: Any) -> Any:
        """Return any JSON value with secrets removed from each of its strings.

        >>> Redactor().inside({"env": [{"password": "hunter2!"}, 3]})
        {'env': [{'password': '[redacted:password]'}, 3]}
        """
        if isinstance(value, str):
            return self(value).text
        if isinstance(value, Mapping):
            # {"name": "DB_PASSWORD", "value": "..."}: the value's name is next to it.
            called = value.get("name", value.get("key")) if "value" in value else None
            return {
                self(name).text: self._entry(
                    called if name == "value" and isinstance(called, str) else name, value[name]
                )
                for name in value
            }
        if isinstance(value, (list, tuple)):
            return [self.inside(entry) for entry in value]
        return value

    def _entry(self, name: str, value: Any) -> Any:
        """Redact a value of a mapping: {"password": "..."} is an assignment too."""
        if not isinstance(value, str):
            return self.inside(value)
        quote = next((mark for mark in "\"'`" if mark not in value), "")
        assigned = f"{name}={quote}"
        found = self(f"{assigned}{value}{quote}").text
        if found.startswith(assigned):
            return found[len(assigned) : len(found) - len(quote)]
        return self(value).text

    def _spans(self, text: str) -> list[tuple[int, int, str]]:
        """Return the spans of secrets; overlapping ones are merged and named by the most exact."""
        found = [
            (*match.span("secret" if "secret" in match.re.groupindex else 0), rank)
            for rank, match in secrets_in(text)
            if rank not in self._off
        ]
        merged: list[tuple[int, int, int]] = []
        for start, end, rank in sorted(found):
            if merged and start < merged[-1][1]:
                before = merged[-1]
                merged[-1] = (before[0], max(end, before[1]), min(rank, before[2]))
            else:
                merged.append((start, end, rank))
        return [(start, end, SECRETS[rank].name) for start, end, rank in merged]


def secrets_in(text: str) -> list[tuple[int, re.Match[str]]]:
    """Return all secrets in the text, each with its index in the table of secrets."""
    # Nearly every text ends here, after one pass over it in Rust.
    found = _plain_secrets(text)
    rank = len(SECRETS) - 1  # of runs of base64 in which a secret is
    for match in SECRETS[rank].pattern.finditer(text):
        if (inside := decoded_text(match[0])) and _plain_secrets(inside):
            found.append((rank, match))
    return found


def _plain_secrets(text: str) -> list[tuple[int, re.Match[str]]]:
    return [
        (rank, match)
        for rank, positions in _needles().find(text)
        for match in _matches(SECRETS[rank], text, memoryview(positions).cast("I"))
    ]


@cache  # made on first use
def _needles() -> Needles:
    return _engine.needles([secret.needles for secret in SECRETS])


def _matches(secret: Secret, text: str, positions: Iterable[int]) -> Iterator[re.Match[str]]:
    """Yield the valid matches of the pattern, tried at the given positions only."""
    if secret.also and secret.also not in text.lower():
        return
    read = 0
    for position in positions:
        for start in range(max(position - secret.lead, read), position + 1):
            if match := secret.pattern.match(text, start):
                if secret.is_one(match):
                    yield match
                read = match.end()
                break


def redactor_of(redact: bool | Redactor) -> Redactor | None:
    """Return the redactor for `Memory.open(redact=)`: True, False, or a `Redactor` with some kinds
    off."""
    if isinstance(redact, Redactor):
        return redact
    if not isinstance(redact, bool):
        raise InvalidArgumentError(
            f"redact is {redact!r}; pass True, False, or Redactor(off=[...]) for some kinds only"
        )
    return Redactor() if redact else None


def _label(name: str) -> str:
    return f"[redacted:{name}]"
