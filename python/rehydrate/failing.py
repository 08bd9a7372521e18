"""Failing parts: what may be said of an exception, and where its text can be read.

An exception's text may hold anything: a password, a connection string, a customer's data. So where
a source, a tool, an embedder or a memory fails, the model, `degraded` and telemetry are told the
exception's type alone. Who wants the text sets the level of one logger::

    logging.getLogger("rehydrate.errors").setLevel(logging.DEBUG)

Its own level counts, not the root's: a program that logs everything does not log this by accident.
"""

from __future__ import annotations

import sys

from rehydrate.errors import RehydrateError

LOGGER = "rehydrate.errors"


class OwnWordsError(Exception):
    """Raised by this package and caught by it, with words that are its own."""


def type_of(error: BaseException, part: str) -> str:
    """The exception's type; its text goes to the logger, where that was asked for.

    >>> type_of(RuntimeError("password=hunter2"), "source billing")
    'RuntimeError'
    """
    if "logging" in sys.modules:  # slow to import; who set a level has imported it
        import logging  # waits where another thread is at it

        log = logging.getLogger(LOGGER)
        if log.level and log.isEnabledFor(logging.DEBUG):
            log.debug("%s failed", part, exc_info=error)
    return type(error).__name__


def words_of(error: BaseException, part: str) -> str:
    """The exception's type, and of what this package raises the message too.

    >>> words_of(KeyError("hunter2"), "memory")
    'KeyError'
    >>> from rehydrate.errors import InvalidArgumentError
    >>> words_of(InvalidArgumentError("k is 0; pass a number from 1 up"), "memory")
    'InvalidArgumentError: k is 0; pass a number from 1 up'
    """
    name = type_of(error, part)
    if not isinstance(error, (RehydrateError, OwnWordsError)):
        return name
    return f"{name}: {' '.join(str(error).split())}"
