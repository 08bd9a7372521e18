"""Models by name: a folder or org/name is loaded once, on first use; a failure is a message."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from rehydrate import compact_context
from rehydrate.embedding import onnx
from rehydrate.embedding.choice import model_of
from rehydrate.embedding.onnx import NamedModel
from rehydrate.errors import EmbedderError
from tests.compact.cases import talk
from tests.embedding.doubles import lengths
from tests.sizes import PATIENCE_SECONDS


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a model of this name that is loaded by this function."""

    def made(name: str, load: Any) -> NamedModel:
        monkeypatch.setattr(onnx, "load_model", load)
        return NamedModel(name)

    return made


TALK = talk("user: one", "assistant: two", "user: three")


class Loaded:
    space = "loaded"

    def embed(self, texts: Any, *, deadline: float | None = None) -> Any:
        return lengths(texts)


def test_it_is_loaded_once_by_many_threads(named: Any):
    loads = []

    def load(name: str) -> Any:
        loads.append(name)
        return Loaded()

    model = named("org/name", load)
    got = []
    threads = [threading.Thread(target=lambda: got.append(model.model())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert loads == ["org/name"]
    assert len(set(map(id, got))) == 1


def test_a_deadline_holds_while_it_is_loaded_and_the_loading_goes_on(named: Any):
    opened = threading.Event()

    def load(name: str) -> Any:
        assert opened.wait(PATIENCE_SECONDS)
        return Loaded()

    model = named("org/name", load)
    with pytest.raises(EmbedderError, match="'org/name' is still being loaded"):
        model.model(time.monotonic())
    opened.set()
    assert model.model().space == "loaded"


def test_a_model_that_cannot_be_loaded_is_not_tried_at_every_call(named: Any):
    loads = []

    def load(name: str) -> Any:
        loads.append(name)
        raise FileNotFoundError("no model.onnx")

    model = named("org/name", load)
    for _ in range(3):
        with pytest.raises(EmbedderError, match=r"'org/name' cannot be loaded: FileNotFoundError;"):
            model.model()
    assert loads == ["org/name"]


@pytest.mark.parametrize("kind", [str, Path])
def test_a_folder_names_a_model_and_its_failure_is_degraded(
    kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: Any
):
    monkeypatch.chdir(tmp_path)
    Path("minilm").mkdir()
    embedder = kind("minilm")

    def load(name: str) -> Any:
        raise FileNotFoundError("no model.onnx")

    monkeypatch.setitem(onnx._models, "minilm", named("minilm", load))
    compaction = compact_context(TALK, "one", embedder=embedder)
    assert not compaction.stats.embedding
    (said,) = compaction.stats.degraded
    assert "cannot be loaded: FileNotFoundError;" in said
    assert said.endswith("went on with the built-in model")


def test_a_named_model_is_used(monkeypatch: pytest.MonkeyPatch, named: Any):
    monkeypatch.setitem(onnx._models, "org/name", named("org/name", lambda name: Loaded()))
    compaction = compact_context(TALK, "one", embedder="org/name")
    assert compaction.stats.embedding
    assert compaction.stats.degraded == ()


def test_the_same_name_is_the_same_model():
    assert model_of("org/another") is model_of("org/another")


def test_a_folder_is_another_one_from_another_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    found = []
    for name in ("one", "other"):
        (tmp_path / name / "model").mkdir(parents=True)
        monkeypatch.chdir(tmp_path / name)
        found.append(model_of("./model"))
    assert found[0] is not found[1]
    assert found[0] is model_of(tmp_path / "one" / "model")
