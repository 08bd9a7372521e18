"""Redaction: secrets are removed from memories before anything is written."""

from __future__ import annotations

from collections.abc import Iterable
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
                    f"redaction off={name!r} isn't a kind of secret; "
                    f"choose from {', '.join(_NAMES)}"
                )
        self.off = tuple(names)
        self._off = [kind for kind, name in enumerate(_NAMES) if name in names]

    def __call__(self, text: str, known: Iterable[Redaction] = ()) -> Redacted:
        """Return the text without secrets. `known` are redactions that it has already."""
        redacted, labels = _native.redacted_text(text, self._off, list(known))
        return Redacted(redacted, tuple([Redaction(*label) for label in labels]))

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
        return _native.redact_inside(value, self._off)


def secrets_in(text: str) -> list[Redaction]:
    """Return the secrets of a text and where they are; overlapping ones are merged and named by the
    most exact.

    >>> secrets_in("password=hunter22")
    [Redaction(name='password', start=9, end=17)]
    """
    return [Redaction(_NAMES[kind], *span) for *span, kind in _native.secrets(text, ())]


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
