"""The arguments of Context, checked when it is made, before any prompt."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from rehydrate._check import check_callable, check_choice, check_timeout, check_type
from rehydrate.compact.options import GRANULARITIES
from rehydrate.errors import InvalidArgumentError
from rehydrate.formats import FORMATS
from rehydrate.messages import PROVIDERS
from rehydrate.prompt.sources import check_names, sources_of, with_documents
from rehydrate.prompt.sources.given import system as system_source


def check_target(provider: Any, model: Any, format: Any) -> None:  # noqa: A002
    """Check the provider, the model and the format of the entries."""
    check_choice("provider", provider, PROVIDERS)
    check_type("model", model, str, "pass the model's name, or leave it out")
    if format != "":
        check_choice("format", format, FORMATS)


def checked_sources(given: Any) -> tuple[Any, ...]:
    """Return the sources: memories and functions as they are, documents by their paths."""
    sources = with_documents(given)
    check_names(sources_of(sources))
    return tuple(sources)


def check_system(system: Any) -> None:
    """Check what every prompt begins with: texts and Sections."""
    if system is not None:
        system_source(*(system if isinstance(system, (list, tuple)) else (system,)))


def check_working(passes: Any, originals: Any, timeout: Any, clock: Any, granularity: Any) -> None:
    """Check how prompts are made."""
    check_choice("granularity", granularity, GRANULARITIES)
    if passes is not None:
        check_passes(passes)
    if originals is not None and not all(
        callable(getattr(originals, name, None)) for name in ("put", "get")
    ):
        raise InvalidArgumentError(
            f"originals is of type {type(originals).__name__}; pass what has put and get, as "
            "HeldOriginals and MemoryOriginals have"
        )
    check_timeout("timeout", timeout)
    check_callable("clock", clock, "pass a function that gives seconds since 1970, as time.time")


def check_passes(passes: Any) -> None:
    """Check functions of an IR."""
    if isinstance(passes, str) or not isinstance(passes, Iterable):
        raise InvalidArgumentError(
            f"passes is of type {type(passes).__name__}; pass a list of functions"
        )
    for step in passes:
        check_callable("a pass", step, "pass a function (ir, target) -> ir")


def seconds_of(at: datetime) -> float:
    """Return a time in seconds since 1970."""
    check_type("at", at, datetime, "pass a datetime, or leave it out for now")
    return at.timestamp()
