"""`rehydrate doctor`: checks the installation, and names a remedy for each problem."""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import import_module, util
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rehydrate._distributions import HOMES, OTHERS
from rehydrate._text import error_text
from rehydrate.cli.options import COLOR, Commands, json_option, option
from rehydrate.cli.terminal import Terminal, answer
from rehydrate.errors import MissingPackageError

Status = Literal["ok", "warn", "fail"]


class Check(NamedTuple):
    """The result of one check."""

    name: str
    status: Status
    detail: str
    remedy: str = ""


Found = tuple[Status, str] | tuple[Status, str, str]
"""A check without its name."""

REINSTALL = "reinstall it: python -m pip install --force-reinstall rehydrate"

# The two vocabularies disagree on Japanese, so this text distinguishes them from each other and
# from any rule of thumb.
KNOWN_TEXT = "お誕生日おめでとう"
KNOWN_TOKENS: dict[Any, int] = {"o200k_base": 8, "cl100k_base": 9}
SAMPLE_TURNS = 100
KNOWN_FACT = "The staging server listens on port 8443."


command = Commands()


@command(
    "check the installation: each line ok, warn or fail, with what to do",
    option("--hosts", "load the adapter of each host that is installed; it takes some seconds"),
    *(json_option("the checks"), COLOR),
)
def _doctor(options: argparse.Namespace) -> int:
    checks = list(examine())
    if options.hosts:
        checks += import_module("rehydrate.cli.host_checks").load_hosts()
    failed = any(check.status == "fail" for check in checks)
    shown = {"ok": not failed, "checks": checks}
    answer(options, shown, lambda terminal: _lines(checks, terminal))
    return int(failed)


def examine() -> Iterator[Check]:
    """Yield every check; a check that raises has failed."""
    for name, check in _CHECKS.items():
        try:
            yield Check(name, *check())
        except Exception as error:  # after any error the rest is still checked
            yield Check(name, "fail", error_text(error), REINSTALL)


def _installed(package: str) -> str | None:
    """Return the version of an installed package."""
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _version() -> Found:
    from rehydrate import __version__

    installed = _installed("rehydrate")
    if installed is None:
        remedy = "install it where this Python finds it: python -m pip install rehydrate"
        return "warn", f"{__version__}, not installed as a package", remedy
    if installed != __version__:
        detail = f"the package is {installed}, its native module {__version__}"
        return "fail", detail, REINSTALL
    return "ok", __version__


def _native() -> Found:
    spec = util.find_spec("rehydrate._native")
    if spec is None or spec.origin is None:
        return "fail", "not found", REINSTALL
    file = Path(spec.origin)
    build = "abi3: one build for Python 3.11 and newer" if ".abi3." in file.name else "not abi3"
    return "ok", f"{file.name} ({build}, {file.stat().st_size / 1e6:.1f} MB)"


def _embedding() -> Found:
    import numpy as np

    from rehydrate import _engine

    started = time.perf_counter()
    near, same, far = _engine.embed(
        ["The login test fails.", "Signing in is broken in the tests.", "Bananas are yellow."]
    )
    elapsed_ms = (time.perf_counter() - started) * 1e3
    length = float(np.linalg.norm(near))
    detail = f"{len(near)} dimensions, length {length:.4f}, {elapsed_ms:.1f} ms for three sentences"
    if abs(length - 1) > 1e-3:
        return "fail", f"{detail}: a vector must have length 1", REINSTALL
    if near @ same <= near @ far:
        return "fail", f"{detail}: nearer to a stranger than to its kin", REINSTALL
    return "ok", detail


def _encodings() -> Found:
    from rehydrate.tokens import count_tokens

    counted = {encoding: count_tokens(KNOWN_TEXT, encoding) for encoding in KNOWN_TOKENS}
    wrong = [
        f"{encoding} counts {counted[encoding]} tokens in {KNOWN_TEXT!r}, expected {tokens}"
        for encoding, tokens in KNOWN_TOKENS.items()
        if counted[encoding] != tokens
    ]
    if wrong:
        return "fail", "; ".join(wrong), REINSTALL
    return "ok", f"{' and '.join(counted)} count exactly, offline"


def _compaction() -> Found:
    from rehydrate.compact.api import compact_context
    from rehydrate.formats import validate

    topics = ("the parser", "the login test", "the release notes", "a slow query")
    messages = [
        {"role": role, "content": f"Turn {turn}: {text} {topics[turn % 4]} in src/part_{turn}.py."}
        for turn in range(SAMPLE_TURNS)
        for role, text in (("user", "Please look at"), ("assistant", "I have changed"))
    ]
    result = compact_context(messages, query="the login test")
    stats = result.stats
    detail = (
        f"{len(messages)} messages, {stats.before_tokens:,} -> {stats.after_tokens:,} tokens "
        f"in {stats.elapsed_ms:.1f} ms"
    )
    if not 0 < stats.after_tokens <= stats.target_tokens or validate(result.messages):
        return "fail", f"{detail}: over its budget or invalid", REINSTALL
    if not stats.embedding:
        return "fail", f"{detail}, without its embedding", REINSTALL
    return "ok", detail


def _memory() -> Found:
    """Check a new memory: an item is found, in its own namespace only, and the file is sound."""
    from rehydrate.memory.memory import Memory

    started = time.perf_counter()
    with (
        tempfile.TemporaryDirectory(prefix="rehydrate-") as folder,
        Memory.open(Path(folder) / "memory.db") as memory,
    ):
        memory.add([KNOWN_FACT, "Lunch was at noon."], namespace="doctor")
        hits = memory.search("which port does staging use?", 1, namespace="doctor")
        strangers = memory.search("staging", namespace="patient")
        report = memory.verify()
    elapsed_ms = (time.perf_counter() - started) * 1e3
    detail = f"added, found and checked in {elapsed_ms:.0f} ms"
    if [hit.item.text for hit in hits] != [KNOWN_FACT]:
        return "fail", "what was added is not found", REINSTALL
    if strangers:
        return "fail", "another namespace sees what was added", REINSTALL
    if not report.ok:
        return "fail", f"damaged as soon as written: {report.problems[0]}", REINSTALL
    return "ok", detail


def _dependencies() -> Found:
    versions = {package: _installed(package) for package in ("numpy", "anyio")}
    if missing := [package for package, version in versions.items() if version is None]:
        remedy = f"python -m pip install {' '.join(missing)}"
        return "fail", f"missing: {', '.join(missing)}", remedy
    return "ok", ", ".join(f"{package} {version}" for package, version in versions.items())


def _onnx() -> Found:
    """Check the library that runs converted models; nothing else needs it."""
    from rehydrate.embedding.onnx import onnxruntime_library
    from rehydrate.errors import ModelError

    try:
        library = onnxruntime_library()
    except ModelError as error:
        return "warn", "only load_model and embedder='folder' need it", str(error)
    return "ok", f"ONNX Runtime {library.version} (rehydrate model list)"


def _distributions() -> Found:
    """Report the other distributions, which must have the version of this one."""
    homes = {extra: module for module, extra in reversed(HOMES.items())}
    versions = {other: _installed(f"rehydrate-{other}") for other in OTHERS}
    found = [f"{other} {version}" for other, version in versions.items() if version]
    wanted = _installed("rehydrate")
    # Hosts may be released alone: 0.1.0.post3 is of 0.1.0.
    odd = [each for each, of in versions.items() if of and of.partition(".post")[0] != wanted]
    if wanted and odd:
        remedy = f'python -m pip install --upgrade "rehydrate[{",".join(odd)}]"'
        return "fail", f"{', '.join(found)}; rehydrate is {wanted}", remedy
    for other in [other for other, version in versions.items() if not version]:
        is_here = util.find_spec(homes[other]) is not None
        found.append(f"{other} from a checkout" if is_here else f"without rehydrate[{other}]")
    return "ok", ", ".join(found)


def _of_hosts(check: str) -> Found:
    try:
        hosts = import_module("rehydrate.cli.host_checks")
    except MissingPackageError as missing:
        return "ok", f"without {missing.name} there is no adapter"
    if check == "check_hosts" and _installed("rehydrate-hosts") is None:
        problem = "is unknown: rehydrate-hosts is from a checkout, not installed as a package"
        return "warn", problem, "python -m pip install --no-deps --editable python/hosts"
    found: Found = getattr(hosts, check)()
    return found


def _terminal() -> Found:
    terminal = Terminal.of(sys.stdout)
    colour = "colour" if terminal.colour else "no colour"
    detail = f"{terminal.width} columns, {colour}, {terminal.encoding}"
    if not terminal.unicode:
        return "warn", f"{detail}: bars are drawn in ASCII", "set PYTHONUTF8=1"
    return "ok", detail


_CHECKS: dict[str, Callable[[], Found]] = {
    "rehydrate": _version,
    "python": lambda: (
        "ok",
        f"{platform.python_implementation()} {platform.python_version()} ({sys.executable})",
    ),
    "platform": lambda: ("ok", f"{platform.system()} {platform.release()} {platform.machine()}"),
    "dependencies": _dependencies,
    "native module": _native,
    "embedded model": _embedding,
    "token counts": _encodings,
    "onnx models": _onnx,
    "memory": _memory,
    "compaction": _compaction,
    "distributions": _distributions,
    "hosts": lambda: _of_hosts("check_hosts"),
    "agents": lambda: _of_hosts("check_agents"),
    "terminal": _terminal,
}


def _lines(checks: list[Check], terminal: Terminal) -> Iterator[str]:
    styles = {"ok": "green", "warn": "yellow", "fail": "red"}
    cells = max(len(check.name) for check in checks)
    for check in checks:
        status = terminal.paint(f"{check.status:<4}", styles[check.status], "bold")
        yield f"{status}  {check.name:<{cells}}  {terminal.safe(check.detail)}"
        if check.remedy:
            yield f"{'':<4}  {'':<{cells}}  {terminal.safe(check.remedy)}"
    counts = {status: sum(check.status == status for check in checks) for status in styles}
    yield ""
    if counts["fail"]:
        yield terminal.paint(f"{counts['fail']} of {len(checks)} checks failed", "red", "bold")
    else:
        warnings = f", {counts['warn']} with a warning" if counts["warn"] else ""
        yield terminal.paint(f"all {len(checks)} checks passed{warnings}", "green", "bold")
        yield "next: rehydrate compact FILE --explain"
