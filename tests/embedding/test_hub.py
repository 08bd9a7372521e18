"""Finding a model: folders, the hub's cache, and the hub itself through its own package."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from rehydrate.embedding.model_files import FILES, cached_snapshot, find_model_folder, hub_cache
from rehydrate.errors import ModelError

REPOSITORY = "sentence-transformers/all-MiniLM-L6-v2"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("REHYDRATE_HOME", str(tmp_path / "rehydrate"))
    return tmp_path / "hf" / "hub"


def put_snapshot(cache: Path, *files: str, commit: str = "abc123") -> Path:
    folder = cache / ("models--" + REPOSITORY.replace("/", "--"))
    (folder / "refs").mkdir(parents=True)
    (folder / "refs/main").write_text(commit)
    for file in files:
        path = folder / "snapshots/abc123" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    return folder / "snapshots/abc123"


def without_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rehydrate.embedding.model_files.find_spec", lambda name: None)


def test_a_folder_or_a_file_in_it_is_the_model(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_text("")
    assert find_model_folder(tmp_path) == tmp_path
    assert find_model_folder(str(tmp_path / "model.onnx")) == tmp_path


@pytest.mark.parametrize("name", [REPOSITORY, "all-MiniLM-L6-v2"])
@pytest.mark.parametrize("graph", ["model.onnx", "onnx/model.onnx", "onnx/model_quantized.onnx"])
def test_a_cached_snapshot_is_found_with_and_without_its_owner(
    cache: Path, name: str, graph: str
) -> None:
    snapshot = put_snapshot(cache, "tokenizer.json", graph)
    assert find_model_folder(name) == snapshot


def test_a_converted_model_comes_before_the_hub(cache: Path, tmp_path: Path) -> None:
    put_snapshot(cache, "tokenizer.json", "model.onnx")
    converted = tmp_path / "rehydrate/models/all-MiniLM-L6-v2"
    converted.mkdir(parents=True)
    (converted / "rehydrate.json").write_text("{}")
    assert find_model_folder("all-MiniLM-L6-v2") == converted


def test_the_cache_is_where_the_hub_has_it() -> None:
    assert hub_cache({"HF_HUB_CACHE": "/a", "HF_HOME": "/b"}) == Path("/a")
    assert hub_cache({"XDG_CACHE_HOME": "/c"}) == Path("/c/huggingface/hub")
    assert hub_cache({}) == Path.home() / ".cache/huggingface/hub"


@pytest.mark.parametrize("commit", ["../../../etc", "", "gone"])
def test_a_branch_that_leads_elsewhere_is_no_snapshot(cache: Path, commit: str) -> None:
    put_snapshot(cache, "tokenizer.json", "model.onnx", commit=commit)
    assert cached_snapshot(REPOSITORY) is None


def test_weights_without_a_graph_are_to_be_converted(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_the_hub(monkeypatch)
    snapshot = put_snapshot(cache, "tokenizer.json", "model.safetensors")
    with pytest.raises(ModelError) as caught:
        find_model_folder(REPOSITORY)
    assert f"python -m tools.convert {snapshot}" in caught.value.remedy


def test_what_is_nowhere_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    without_the_hub(monkeypatch)
    with pytest.raises(ModelError, match="pip install huggingface_hub"):
        find_model_folder(REPOSITORY)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ModelError, match="and offline"):
        find_model_folder(REPOSITORY)


@pytest.mark.parametrize("name", ["/no/where", "../no/where", "a/b/c", "a/..", " ", "https://x/y"])
def test_what_can_be_no_repository_is_no_folder(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    with pytest.raises(ModelError, match="no such folder"):
        find_model_folder(name)


def test_the_hub_is_asked_for_the_files_that_serve(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def snapshot_download(repository: str, *, allow_patterns: list[str]) -> str:
        asked.append((repository, tuple(allow_patterns)))
        return str(put_snapshot(cache, "tokenizer.json", "onnx/model.onnx"))

    hub = SimpleNamespace(snapshot_download=snapshot_download)
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)  # type: ignore[arg-type]
    monkeypatch.setattr("rehydrate.embedding.model_files.find_spec", lambda name: hub)
    assert find_model_folder("all-MiniLM-L6-v2").name == "abc123"
    assert asked == [(REPOSITORY, FILES)]


def test_a_hub_that_fails_is_a_typed_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def snapshot_download(repository: str, **_: object) -> str:
        raise ConnectionError("no route\nto host")

    hub = SimpleNamespace(snapshot_download=snapshot_download)
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)  # type: ignore[arg-type]
    monkeypatch.setattr("rehydrate.embedding.model_files.find_spec", lambda name: hub)
    with pytest.raises(ModelError, match="could not be fetched: ConnectionError: no route;"):
        find_model_folder(REPOSITORY)
