"""The public API: exported names, signatures, docstrings that run, and the cost of an import."""

from __future__ import annotations

import ast
import doctest
import importlib
import importlib.util
import inspect
import json
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import rehydrate
from rehydrate._distributions import is_here

ROOT = Path(rehydrate.__file__).parent
PROJECT = Path(__file__).parent.parent
AT_THE_TOP = [
    "Budget",
    "Compaction",
    "CompiledPrompt",
    "Context",
    "ContextJIT",
    "ContextRequest",
    "ContextStrategy",
    "Embedder",
    "HydrationSource",
    "Interpreter",
    "Memory",
    "PromptIR",
    "RehydrateError",
    "Scoring",
    "Section",
    "__version__",
    "acompact_context",
    "acompile",
    "ahydrate",
    "awarm_up",
    "compact_context",
    "compile",
    "count_tokens",
    "detect_format",
    "estimate_tokens",
    "hydrate",
    "lint",
    "load_model",
    "validate",
    "warm_up",
]
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(rehydrate.__path__, "rehydrate.")
    if not module.name.endswith(("__main__", "._native"))
)


def _examples() -> Iterator[Path]:
    yield from (PROJECT / "examples").rglob("*.py")


FRONTS = sorted(
    ".".join(("rehydrate", *file.parent.relative_to(ROOT).parts))
    for file in ROOT.rglob("__init__.py")
    if "= front(" in file.read_text(encoding="utf-8")
)


def test_the_names_at_the_top_are_these():
    left_out = {name for name, module in _typed_names(ROOT / "__init__.py") if not is_here(module)}
    assert rehydrate.__all__ == [name for name in AT_THE_TOP if name not in left_out]


def test_every_room_that_users_import_has_a_front():
    rooms = "agent compact context cost embedding linting memory prompt retention testing"
    assert {room for each in rooms.split() if is_here(room := f"rehydrate.{each}")} <= set(FRONTS)


@pytest.mark.parametrize("package", FRONTS)
def test_every_name_of_a_front_loads_and_type_checkers_see_the_same_names(package: str):
    module = importlib.import_module(package)
    names = {name for name, home in _typed_names(Path(module.__file__)) if is_here(home)}
    assert names == set(module.__all__)
    assert module.__all__ == sorted(module.__all__) == dir(module)
    with _hosts_that_are_installed():
        assert all(hasattr(module, name) for name in module.__all__)


@contextmanager
def _hosts_that_are_installed() -> Iterator[None]:
    """Skip where an adapter's host is not installed, as it may be where wheels are tested."""
    try:
        yield
    except ImportError as missing:
        is_ours = (missing.name or "").startswith("rehydrate")
        if is_ours and not isinstance(missing, rehydrate.errors.MissingPackageError):
            raise
        pytest.skip(str(missing))


def _typed_names(front: Path) -> Iterator[tuple[str, str]]:
    """Yield names that a package imports for type checkers under the same name, ``X as X``, and
    their modules."""
    for node in ast.walk(ast.parse(front.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            yield from (
                (each.name, str(node.module)) for each in node.names if each.name == each.asname
            )


def test_every_exported_name_is_shown_by_dir_before_anything_is_loaded():
    program = "import rehydrate; print(sorted(set(rehydrate.__all__) - set(dir(rehydrate))))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_a_name_that_nobody_knows_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'compakt'"):
        _ = rehydrate.compakt


@pytest.mark.parametrize(
    ("package", "name", "meant"),
    [
        ("rehydrate", "compact_contex", "rehydrate.compact_context"),
        ("rehydrate", "MemoryItem", "rehydrate.memory.MemoryItem"),
        ("rehydrate", "memry", "rehydrate.memory"),
        ("rehydrate", "StoreEror", "rehydrate.errors.StoreError"),
        ("rehydrate.memory", "Memry", "rehydrate.memory.Memory"),
        ("rehydrate.memory", "Context", "rehydrate.Context"),
    ],
)
def test_a_name_that_is_elsewhere_or_mistyped_is_answered_with_the_place(package, name, meant):
    module = importlib.import_module(package)
    assert not hasattr(module, name)
    for use in (lambda: getattr(module, name), lambda: exec(f"from {package} import {name}")):
        with pytest.raises((AttributeError, ImportError)) as raised:
            use()
        assert str(raised.value).endswith(f"; did you mean {meant}?")


def test_pages_load_as_an_attribute():
    program = "import rehydrate; rehydrate.page.side_by_side, rehydrate.page.evaluation_page"
    if is_here("rehydrate.page"):
        subprocess.run([sys.executable, "-c", program], check=True)


def test_who_asks_for_a_mistyped_module_without_importing_it_gets_none():
    for name in ("compact_contex", "memry", "context.contex", "nothing_like_it"):
        assert importlib.util.find_spec(f"rehydrate.{name}") is None


@pytest.mark.parametrize("file", sorted(_examples()), ids=lambda file: file.name)
def test_examples_import_what_fronts_offer(file: Path):
    """Modules after a front may move; tests and benches follow them, users need not."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rehydrate."):
            offered = importlib.import_module(node.module).__all__
            assert {alias.name for alias in node.names} <= set(offered), node.module


@pytest.mark.parametrize("name", sorted({*AT_THE_TOP} - {"__version__"}))
def test_an_exported_name_has_a_docstring_and_every_public_part_of_it_too(name: str):
    exported = getattr(rehydrate, name)
    assert inspect.getdoc(exported)
    if inspect.isclass(exported):
        for part, value in vars(exported).items():
            if inspect.isfunction(value) and not part.startswith("_"):
                assert value.__doc__, f"{name}.{part}"


@pytest.mark.parametrize("name", ["rehydrate", "rehydrate._native", *MODULES])
def test_the_examples_in_docstrings_run(name: str):
    with _hosts_that_are_installed():
        module = importlib.import_module(name)
    assert module.__doc__
    if name == "rehydrate.batch.compaction":
        pytest.importorskip("pyarrow")  # makes the table of its example
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize(
    "documented",
    [
        *(rehydrate.compact_context, rehydrate.count_tokens, rehydrate.estimate_tokens),
        *(rehydrate.validate, rehydrate.detect_format, rehydrate.Scoring, rehydrate.Embedder),
        *(
            rehydrate.Memory,
            rehydrate.memory.MemoryItem,
            rehydrate.memory.Redactor,
            rehydrate.memory.LoadMemory,
        ),
    ],
    ids=lambda documented: documented.__name__,
)
def test_what_a_newcomer_calls_first_has_an_example(documented: object):
    assert ">>> " in inspect.getdoc(documented)


def test_the_signature_of_compact_context_is_the_contracts():
    parameters = inspect.signature(rehydrate.compact_context).parameters
    by_position = {
        name: parameter.default
        for name, parameter in parameters.items()
        if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    }
    by_keyword = {
        name: parameter.default
        for name, parameter in parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    assert by_position == {"messages": inspect.Parameter.empty, "query": None, "target_ratio": 0.4}
    assert by_keyword == {
        "budget_tokens": None,
        "memory": None,
        "scoring": "balanced",
        "embedder": "auto",
        "counter": None,
        "format": "auto",
        "granularity": "message",
        "thinking": "auto",
        "model": "",
        "provider": None,
        "pin": (),
        "timeout": None,
        "archive": False,
        "outline": False,
    }


def test_the_fields_of_the_results_are_these():
    assert rehydrate.compact.Stats._fields == (
        *("before_tokens", "after_tokens", "target_tokens", "dropped", "dropped_pct"),
        *("dropped_messages_pct", "units", "pinned_tokens", "over_budget", "changed"),
        *("covered_pct", "excerpted", "stripped", "stripped_tokens", "outline_tokens"),
        *("embedding", "query_share", "distilled"),
        *("distilled_kinds", "ignored", "degraded", "counter", "format", "elapsed_ms"),
    )
    assert rehydrate.compact.Dropped._fields == (
        *("index", "role", "tokens", "unit", "score", "reason", "handle"),
    )
    assert rehydrate.compact.UnitReport._fields == (
        *("unit", "messages", "role", "tokens", "structural", "recency", "semantic"),
        *(
            "coverage",
            "odds",
            "score",
            "gain",
            "kept",
            "reason",
            "preview",
            "kept_tokens",
            "blocks",
            "stripped_tokens",
            "stripped",
        ),
    )
    assert rehydrate.compact.BlockReport._fields == (
        *("message", "text", "measure", "first", "last", "tokens", "gain", "kept", "handle"),
    )
    assert rehydrate.errors.Violation._fields == ("index", "rule", "message")


def test_every_error_is_a_rehydrate_error_and_a_builtin_one():
    tree = {
        rehydrate.errors.InvalidArgumentError: ValueError,
        rehydrate.errors.UnknownFormatError: rehydrate.errors.InvalidArgumentError,
        rehydrate.errors.InvalidMessageError: (ValueError, TypeError),
        rehydrate.errors.UnknownBlockError: rehydrate.errors.InvalidMessageError,
        rehydrate.errors.InvalidConversationError: ValueError,
        rehydrate.errors.EmbedderError: RuntimeError,
        rehydrate.errors.ModelError: RuntimeError,
        rehydrate.errors.MissingPackageError: ImportError,
        rehydrate.errors.MissingNamespaceError: rehydrate.errors.InvalidArgumentError,
        rehydrate.errors.UnreadableIRError: rehydrate.errors.InvalidArgumentError,
        rehydrate.errors.UnreadableSessionError: rehydrate.errors.InvalidArgumentError,
        rehydrate.errors.BudgetExceededError: ValueError,
        rehydrate.errors.UnknownHandleError: KeyError,
        rehydrate.errors.OriginalGoneError: rehydrate.errors.UnknownHandleError,
        rehydrate.errors.OriginalsFullError: ValueError,
        rehydrate.errors.OtherNamespaceError: ValueError,
        rehydrate.errors.StoreError: RuntimeError,
        rehydrate.errors.StoreBusyError: rehydrate.errors.StoreError,
        rehydrate.errors.StoreClosedError: rehydrate.errors.StoreError,
        rehydrate.errors.StoreCorruptError: rehydrate.errors.StoreError,
        rehydrate.errors.StoreFullError: rehydrate.errors.StoreError,
        rehydrate.errors.StoreReadOnlyError: rehydrate.errors.StoreError,
        rehydrate.errors.NewerStoreError: rehydrate.errors.StoreError,
        rehydrate.errors.PurgeIncompleteError: rehydrate.errors.StoreError,
        rehydrate.errors.NotAStoreError: rehydrate.errors.StoreError,
        rehydrate.errors.StoreConflictError: rehydrate.errors.StoreError,
        rehydrate.errors.UnknownThreadError: LookupError,
        rehydrate.errors.ProviderError: RuntimeError,
        rehydrate.errors.ContextOverflowError: rehydrate.errors.ProviderError,
        rehydrate.errors.RateLimitError: rehydrate.errors.ProviderError,
        rehydrate.errors.ProviderUnavailableError: rehydrate.errors.ProviderError,
        rehydrate.errors.RequestRefusedError: rehydrate.errors.ProviderError,
        rehydrate.errors.InternalError: RuntimeError,
        rehydrate.errors.FileError: rehydrate.RehydrateError,
    }
    for error, builtin in tree.items():
        assert issubclass(error, rehydrate.RehydrateError)
        assert all(
            issubclass(error, base)
            for base in (builtin if isinstance(builtin, tuple) else (builtin,))
        )
    raised = {error for name, error in vars(rehydrate.errors).items() if name.endswith("Error")}
    assert raised == {rehydrate.RehydrateError, *tree}
    assert {error.__name__ for error in raised} == {*rehydrate.errors.__all__} - {"Violation"}


def test_importing_the_package_loads_nothing_but_itself_and_the_standard_library():
    script = """
import json, sys
before = set(sys.modules)
import rehydrate
print(json.dumps(sorted(set(sys.modules) - before)))
"""
    run = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    loaded = {name.partition(".")[0] for name in json.loads(run.stdout)}
    assert loaded - sys.stdlib_module_names == {"rehydrate"}
    # Slow to import, and used by few calls.
    assert loaded.isdisjoint({"asyncio", "inspect", "logging", "unittest"})


def test_the_version_is_that_of_the_distribution():
    from importlib.metadata import version

    assert rehydrate.__version__ == version("rehydrate")


def test_the_package_says_that_it_is_typed():
    from importlib.resources import files

    assert files("rehydrate").joinpath("py.typed").is_file()
