"""`rehydrate model`: listing and timing from the command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from rehydrate import cli


@pytest.fixture
def home(tmp_path):
    return {"REHYDRATE_HOME": str(tmp_path / "home"), "HF_HUB_CACHE": str(tmp_path / "hub")}


def test_without_models_list_says_where_it_looked_and_what_to_do(run, home):
    done = run("model", "list", env=home)
    assert (done.returncode, done.stdout) == (0, b"")
    assert str(Path(home["REHYDRATE_HOME"]) / "models").encode() in done.stderr
    assert b"python -m tools.convert" in done.stderr
    assert json.loads(run("model", "list", "--json", env=home).stdout) == []


def test_a_damaged_model_is_warned_of_and_the_others_are_listed(run, tmp_path, home):
    pytest.importorskip("onnx", reason="writes the model; pip install --group convert")
    from tests.convert.tiny import write_bert
    from tools.convert import convert

    bert = str(write_bert(tmp_path / "tiny"))
    for name in ("broken", "sound"):
        folder = Path(home["REHYDRATE_HOME"]) / "models" / name
        convert(bert, folder, name=name, precisions=("fp32",))
    (Path(home["REHYDRATE_HOME"]) / "models" / "broken" / "rehydrate.json").write_text("{}")
    done = run("model", "list", "--json", env=home)
    assert [model["name"] for model in json.loads(done.stdout)] == ["sound"]
    assert b"broken" in done.stderr
    assert b"--force" in done.stderr


def test_models_in_the_hubs_cache_are_listed_where_they_hold_onnx(run, home):
    def snapshot(name: str, *files: str) -> Path:
        folder = Path(home["HF_HUB_CACHE"]) / f"models--{name}" / "snapshots" / "abc"
        for file in files:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text('{"hidden_size": 384}')
        return folder

    usable = snapshot("org--mini", "onnx/model.onnx", "tokenizer.json", "config.json")
    snapshot("org--torch", "model.safetensors", "tokenizer.json", "config.json")
    snapshot("org--bare", "model.onnx")
    (listed,) = json.loads(run("model", "list", "--json", env=home).stdout)
    assert (listed["name"], listed["where"], listed["dim"]) == ("org/mini", "hub", 384)
    assert listed["path"] == str(usable)


def test_model_alone_shows_its_help(run):
    done = run("model")
    assert done.returncode == 0
    assert all(word in done.stdout for word in (b"tools.convert", b"list", b"bench"))


@pytest.fixture
def loaded(monkeypatch, tmp_path) -> list[SimpleNamespace]:
    """The models loaded, in place of ONNX Runtime, which the timing does not need."""
    made: list[SimpleNamespace] = []

    def load_model(name: Path, *, precision: str, threads: int) -> SimpleNamespace:
        model = SimpleNamespace(precision=precision, threads=threads, seen=[])

        def embed(texts: Sequence[str]) -> np.ndarray:
            model.seen += texts
            return np.ones((len(texts), 4), np.float32) / 2

        model.embed = embed
        made.append(model)
        return model

    module = ModuleType("rehydrate.embedding.onnx")
    module.load_model = load_model  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "rehydrate.embedding.onnx", module)
    monkeypatch.setenv("REHYDRATE_HOME", str(tmp_path / "home"))
    manifest = tmp_path / "home" / "models" / "tiny" / "rehydrate.json"
    manifest.parent.mkdir(parents=True)
    manifest.write_text("{}")
    return made


def test_bench_does_not_ask_the_hub_for_a_mistyped_name(loaded, monkeypatch, tmp_path, capfd):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert cli.main(["model", "bench", "tinny"]) == 2
    assert "'tinny' isn't a model here" in capfd.readouterr().err
    assert not loaded


def test_bench_times_every_precision_and_thread_count_next_to_the_built_in_model(loaded, capfd):
    assert cli.main(["model", "bench", "tiny", "--rounds", "2", "--json"]) == 0
    result = json.loads(capfd.readouterr().out)
    assert [(row["model"], row["precision"], row["threads"]) for row in result["models"]] == [
        ("built-in", "int8", 1),
        *(("tiny", precision, threads) for precision in ("fp32", "int8") for threads in (1, 2)),
    ]
    assert all(row["texts_per_second"] > 0 for row in result["models"])
    assert [(model.precision, model.threads) for model in loaded] == [
        *(("fp32", 1), ("fp32", 2), ("int8", 1), ("int8", 2))
    ]


@pytest.mark.parametrize("there", ["fp32", "int8"])
def test_bench_times_the_one_precision_that_is_there_and_calls_it_by_its_name(run, tmp_path, there):
    pytest.importorskip("onnx", reason="writes the tiny model; pip install onnx")
    from tests.embedding.tiny_onnx import write_model

    folder = write_model(tmp_path / "only")
    if there == "int8":
        (folder / "model.onnx").rename(folder / "model_int8.onnx")
    arguments = ["--threads", "1", "--rounds", "1", "--json"]
    done = run("model", "bench", str(folder), *arguments)
    assert done.returncode == 0, done.stderr
    timed = [row["precision"] for row in json.loads(done.stdout)["models"][1:]]
    assert timed == [there]
    other = {"fp32": "int8", "int8": "fp32"}[there]
    assert f"without {other}: ".encode() in done.stderr


def test_bench_never_shows_a_model_the_same_text_twice(loaded, capfd):
    assert cli.main(["model", "bench", "tiny", "--threads", "1", "--rounds", "3"]) == 0
    for model in loaded:
        assert len(model.seen) == 1 + 3 * 32
        assert len(set(model.seen)) == len(model.seen)
    head = capfd.readouterr().out.splitlines()
    assert head[0] == "32 texts"
    assert head[2].split()[:3] == ["model", "precision", "threads"]


def test_bench_takes_the_texts_of_a_conversation(loaded, write, capfd):
    messages = [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": [{"type": "text", "text": "Well, hello"}]},
        {"type": "user", "message": {"role": "user", "content": "Bye"}},
        {"role": "user", "content": " "},
    ]
    path = str(write("talk.json", messages))
    arguments = ["--precision", "int8", "--threads", "1", "--rounds", "1"]
    assert cli.main(["model", "bench", "tiny", path, *arguments]) == 0
    assert loaded[0].seen[1:] == ["0.0 Hello", "0.1 Well, hello", "0.2 Bye"]
    empty = str(write("empty.json", [{"role": "user", "content": ""}]))
    assert cli.main(["model", "bench", "tiny", empty]) == 2
    assert "holds no text to embed" in capfd.readouterr().err


@pytest.mark.parametrize("arguments", [["--threads", "0"], ["--threads", "a"], ["--rounds", "0"]])
def test_bench_refuses_numbers_below_1(arguments):
    with pytest.raises(SystemExit) as caught:
        cli.main(["model", "bench", "x", *arguments])
    assert caught.value.code == 2
