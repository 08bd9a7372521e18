"""Redaction: secrets are removed from memories before anything is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from rehydrate import _native
from rehydrate._check import check_type
from rehydrate.errors import InvalidArgumentError
from rehydrate.memory.items import MemoryItem, Redaction

_NAMES = tuple(_native.secret_kinds())


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

    names = _NAMES

    def __init__(self, off: Iterable[str] = ()) -> None:
        """Take the names of the kinds that are kept."""
        check_type("redaction off", off, Iterable, "pass a list of kinds of secrets")
        names = [off] if isinstance(off, str) else list(off)
        for name in names:
            if name not in _NAMES:
                raise InvalidArgumentError(
                    f"redaction off={name!r} is no kind of secret; choose from {', '.join(_NAMES)}"
                )
        self.off = tuple(names)
        self._off = [kind for kind, name in enumerate(_NAMES) if name in names]

    def __call__(self, text: str, known: Iterable[Redaction] = ()) -> Redacted:
        """Return the text without secrets. `known` are redactions that it has already."""
        spans = _found(text, self._off)
        if not spans and not known:
            return Redacted(text, ())
        labelled = [span for span in known if text[span.start : span.end] == _label(span.name)]
        if not spans and not labelled:
            return Redacted(text, ())
        parts: list[str] = []
        redactions: list[Redaction] = []
        length = read = 0
        for name, start, end in sorted([*spans, *labelled], key=lambda span: (span[1:], span[0])):
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


def secrets_in(text: str) -> list[Redaction]:
    """Return the secrets of a text and where they are; overlapping ones are merged and named by the
    most exact.

    >>> secrets_in("password=hunter22")
    [Redaction(name='password', start=9, end=17)]
    """
    return _found(text, ())


def _found(text: str, off: Sequence[int]) -> list[Redaction]:
    return [Redaction(_NAMES[kind], *span) for *span, kind in _native.secrets(text, off)]


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
