"""`rehydrate model`: converting, listing and timing from the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from rehydrate import cli
from tests.convert.tiny import edit_json, write_bert


@pytest.fixture
def home(tmp_path):
    return {"REHYDRATE_HOME": str(tmp_path / "home"), "HF_HUB_CACHE": str(tmp_path / "hub")}


@pytest.fixture
def bert(tmp_path) -> str:
    return str(write_bert(tmp_path / "tiny"))


def test_one_command_makes_a_model_that_list_finds(run, bert, home):
    done = run("model", "convert", bert, env=home)
    shown = done.stdout.decode()
    assert done.returncode == 0, done.stderr
    assert shown.startswith("tiny: 32 dimensions, 24 tokens, mean pooling\n")
    assert "fp32       model.onnx " in shown
    assert "int8       model_int8.onnx " in shown
    assert shown.endswith("next: rehydrate model bench tiny\n")
    assert b"reading" in done.stderr

    head, line = run("model", "list", env=home).stdout.decode().splitlines()
    assert head.split()[:4] == ["name", "dim", "tokens", "precision"]
    assert line.split()[:4] == ["tiny", "32", "24", "fp32+int8"]
    assert line.endswith(str(Path(home["REHYDRATE_HOME"]) / "models" / "tiny"))


def test_json_goes_to_standard_output_and_progress_does_not(run, bert, home):
    done = run("model", "convert", bert, "--json", "--name", "x", "--precision", "int8", env=home)
    result = json.loads(done.stdout)
    assert result["folder"].endswith("models/x")
    assert (result["name"], result["precisions"], result["warnings"]) == ("x", ["int8"], [])
    (listed,) = json.loads(run("model", "list", "--json", env=home).stdout)
    assert listed["sha256"] == {"int8": result["files"]["model_int8.onnx"]["sha256"]}
    assert (listed["where"], listed["dim"], listed["path"]) == ("home", 32, result["folder"])


def test_a_folder_can_be_named_and_is_what_comes_next(run, bert, home, tmp_path):
    done = run("model", "convert", bert, "-o", "here/it", env=home)
    folder = tmp_path / "here" / "it"
    assert (folder / "rehydrate.json").is_file()
    assert done.stdout.decode().endswith(f"next: rehydrate model bench {folder}\n")
    assert not Path(home["REHYDRATE_HOME"]).exists()


def test_a_model_that_is_there_stays_without_force(run, bert, home):
    assert run("model", "convert", bert, env=home).returncode == 0
    again = run("model", "convert", bert, env=home)
    assert again.returncode == 2
    assert again.stderr.startswith(b"rehydrate: ")
    assert again.stderr.endswith(b"is there already; pass --force to replace it\n")
    assert run("model", "convert", bert, "--force", env=home).returncode == 0


def test_a_model_that_is_not_understood_ends_in_one_line_and_exit_code_2(run, bert, home):
    edit_json(Path(bert) / "config.json", model_type="\x1b[31mgpt2")
    done = run("model", "convert", bert, env=home)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"Traceback" not in done.stderr
    assert b"\x1b" not in done.stderr
    assert b"model_type is" in done.stderr.splitlines()[-1]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit on a file's size to set")
def test_a_disk_that_takes_no_more_leaves_nothing_behind(bert, home, tmp_path):
    """The limit holds for root too; a read-only folder would not stop root."""
    import resource

    limit = Path(bert, "model.safetensors").stat().st_size // 2
    done = subprocess.run(
        [sys.executable, "-m", "rehydrate", "model", "convert", bert],
        env={**os.environ, **home},
        capture_output=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert done.returncode == 2
    assert b"cannot be written: File too large" in done.stderr
    assert list((tmp_path / "home" / "models").iterdir()) == []


def test_without_models_list_says_where_it_looked_and_what_to_do(run, home):
    done = run("model", "list", env=home)
    assert (done.returncode, done.stdout) == (0, b"")
    assert str(Path(home["REHYDRATE_HOME"]) / "models").encode() in done.stderr
    assert b"rehydrate model convert" in done.stderr
    assert json.loads(run("model", "list", "--json", env=home).stdout) == []


def test_a_damaged_model_is_warned_of_and_the_others_are_listed(run, bert, home):
    for name in ("broken", "sound"):
        run("model", "convert", bert, "--name", name, "--precision", "fp32", env=home)
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
    assert all(word in done.stdout for word in (b"convert", b"list", b"bench"))


@pytest.fixture
def loaded(monkeypatch, tmp_path) -> list[SimpleNamespace]:
    """The models loaded, in place of ONNX Runtime, which the timing does not need."""
    made: list[SimpleNamespace] = []

    def load_model(name: str, *, precision: str, threads: int) -> SimpleNamespace:
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
    return made


def test_bench_times_every_precision_and_thread_count_beside_the_built_in_model(
    loaded, bert, capfd
):
    assert cli.main(["model", "convert", bert, "--precision", "fp32"]) == 0
    capfd.readouterr()
    assert cli.main(["model", "bench", "tiny", "--rounds", "2", "--json"]) == 0
    result = json.loads(capfd.readouterr().out)
    assert [(row["model"], row["precision"], row["threads"]) for row in result["models"]] == [
        ("built-in", "int8", 1),
        *(("tiny", precision, threads) for precision in ("fp32", "int8") for threads in (1, 2)),
    ]
    assert all(row["texts_per_second"] > 0 for row in result["models"])
    assert 32 * 3 < result["tokens"] <= 32 * 24
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
    assert cli.main(["model", "bench", "any/model", "--threads", "1", "--rounds", "3"]) == 0
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
    assert cli.main(["model", "bench", "any/model", path, *arguments]) == 0
    assert loaded[0].seen[1:] == ["0.0 Hello", "0.1 Well, hello", "0.2 Bye"]
    empty = str(write("empty.json", [{"role": "user", "content": ""}]))
    assert cli.main(["model", "bench", "any/model", empty]) == 2
    assert "holds no text to embed" in capfd.readouterr().err


@pytest.mark.parametrize("arguments", [["--threads", "0"], ["--threads", "a"], ["--rounds", "0"]])
def test_bench_refuses_numbers_below_1(arguments):
    with pytest.raises(SystemExit) as caught:
        cli.main(["model", "bench", "x", *arguments])
    assert caught.value.code == 2
