"""A library, graph or tokenizer that is missing or broken: a typed error, soon, also at exit."""

from __future__ import annotations

import ctypes.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("onnx", reason="writes the tiny model; pip install onnx")

from rehydrate.embedding import load_model
from rehydrate.embedding.onnx import OVERRIDE, onnxruntime_library
from rehydrate.errors import ModelError
from tests.embedding.tiny_onnx import write_model
from tests.sizes import PATIENCE_SECONDS


def load_elsewhere(folder: Path, **environment: str) -> dict[str, str]:
    """Load a model in another process, which must end by itself; return its report."""
    script = (
        "import json, sys\n"
        "from rehydrate.embedding.onnx import load_model\n"
        "from rehydrate.errors import ModelError\n"
        "for attempt in range(2):\n"
        "    try:\n"
        "        load_model(sys.argv[1])\n"
        "    except ModelError as error:\n"
        "        said = vars(error)\n"
        "    else:\n"
        "        said = {}\n"
        "print(json.dumps(said))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said: dict[str, str] = json.loads(done.stdout)
    return said


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("tiny"))


def test_the_library_is_found_without_importing_its_package(folder: Path) -> None:
    script = (
        "import sys\n"
        "from rehydrate.embedding.onnx import load_model\n"
        "load_model(sys.argv[1]).embed(['a'])\n"
        "assert 'onnxruntime' not in sys.modules\n"
    )
    command = [sys.executable, "-c", script, str(folder)]
    subprocess.run(command, check=True, timeout=PATIENCE_SECONDS)
    library = onnxruntime_library()
    assert library.path.is_absolute() and library.version.startswith("1.")


def test_a_working_library_says_nothing(folder: Path) -> None:
    assert load_elsewhere(folder) == {}


def test_a_library_that_is_not_there(folder: Path, tmp_path: Path) -> None:
    said = load_elsewhere(folder, **{OVERRIDE: str(tmp_path / "gone.so")})
    assert said["path"].endswith("gone.so") and said["problem"] == "no such file"
    assert OVERRIDE in said["remedy"]


def test_a_text_file_for_a_library(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("I am no library. " * 1000)
    said = load_elsewhere(folder, **{OVERRIDE: str(tmp_path / "text.so")})
    assert said["path"].endswith("text.so")


@pytest.mark.parametrize("share", [0.0, 0.00001, 0.5, 0.999])
def test_a_part_of_a_library(folder: Path, tmp_path: Path, share: float) -> None:
    whole = onnxruntime_library().path.read_bytes()
    part = tmp_path / "part.so"
    part.write_bytes(whole[: int(len(whole) * share)])
    said = load_elsewhere(folder, **{OVERRIDE: str(part)})
    assert said["path"] == str(part)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="names the library of Linux")
def test_a_library_that_is_something_else(folder: Path) -> None:
    maths = ctypes.util.find_library("m")
    assert maths is not None
    found = [path for path in Path("/lib").glob(f"*/{maths}") if path.is_file()]
    if not found:
        pytest.skip(f"no {maths} under /lib")
    said = load_elsewhere(folder, **{OVERRIDE: str(found[0])})
    assert "cannot be loaded as ONNX Runtime" in said["problem"]


def test_a_library_that_is_too_old(folder: Path, tmp_path: Path) -> None:
    source = tmp_path / "old.c"
    source.write_text(
        "static const void *api(unsigned version) { return 0; }\n"
        'static const char *name(void) { return "1.12.1"; }\n'
        "static const struct { const void *(*a)(unsigned); const char *(*n)(void); } "
        "base = { api, name };\n"
        "const void *OrtGetApiBase(void) { return &base; }\n"
    )
    command = ["cc", "-shared", "-fPIC", str(source), "-o", str(tmp_path / "old.so")]
    try:
        subprocess.run(command, check=True, timeout=PATIENCE_SECONDS)
    except FileNotFoundError:
        pytest.skip("no C compiler to make a library with")
    said = load_elsewhere(folder, **{OVERRIDE: str(tmp_path / "old.so")})
    assert said["problem"] == "is ONNX Runtime 1.12.1, needed: 1.17 or newer"


def test_a_package_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(OVERRIDE, raising=False)
    monkeypatch.setattr("rehydrate.embedding.onnx.find_spec", lambda name: None)
    with pytest.raises(ModelError, match="not installed; install it: pip install onnxruntime") as e:
        onnxruntime_library()
    assert OVERRIDE in e.value.remedy  # the remedy where it has no wheels


def test_without_onnxruntime_all_but_onnx_models_works_and_those_say_what_to_do(
    folder: Path, tmp_path: Path
) -> None:
    script = (
        "import sys\n"
        "sys.modules['onnxruntime'] = None\n"  # neither imported nor found
        "import rehydrate\n"
        "from rehydrate import cli\n"
        "chat = [{'role': 'user', 'content': f'House {n} is {n} metres high.'} for n in range(9)]\n"
        "assert rehydrate.compact_context(chat, 'house 3', 0.5).stats.embedding\n"
        "kept = rehydrate.compact_context(chat, 'house 3', 0.5, embedder=sys.argv[1])\n"
        "assert kept.stats.changed and 'pip install onnxruntime' in kept.stats.degraded[0]\n"
        "with rehydrate.Memory.open(sys.argv[2], namespace='a') as memory:\n"
        "    memory.add('Berth 4 is free.')\n"
        "    prompt = rehydrate.Context(memory).prompt('Which berth is free?')\n"
        "    assert 'Berth 4' in str(prompt.request)\n"
        "with rehydrate.Memory.open(sys.argv[2], namespace='a', embedder=sys.argv[1]) as memory:\n"
        "    assert memory.search('berth 4')[0].snippet == 'Berth 4 is free.'\n"
        "    assert 'pip install onnxruntime' in str(memory.degraded)\n"
        "try:\n"
        "    rehydrate.load_model(sys.argv[1])\n"
        "except rehydrate.errors.ModelError as error:\n"
        "    assert 'pip install onnxruntime' in error.remedy\n"
        "else:\n"
        "    sys.exit('it was loaded')\n"
        "sys.exit(cli.main(['doctor']))\n"
    )
    command = [sys.executable, "-c", script, str(folder), str(tmp_path / "memory.db")]
    environment = {key: value for key, value in os.environ.items() if key != OVERRIDE}
    subprocess.run(
        command, check=True, timeout=PATIENCE_SECONDS, env=environment, stdout=subprocess.PIPE
    )


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_part_of_a_graph(tmp_path: Path, share: float) -> None:
    graph = write_model(tmp_path) / "model.onnx"
    whole = graph.read_bytes()
    graph.write_bytes(whole[: int(len(whole) * share)])
    said = load_elsewhere(tmp_path)
    assert said["path"] == str(graph) and "convert" in said["remedy"]


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", '{"model": {"type": "WordPiece"}}', "\x00\xff", "[" * 100_000],
)
def test_a_broken_tokenizer(tmp_path: Path, content: str) -> None:
    (write_model(tmp_path) / "tokenizer.json").write_text(content, encoding="latin-1")
    said = load_elsewhere(tmp_path)
    assert said["path"] == str(tmp_path / "tokenizer.json")


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_a_missing_file(tmp_path: Path, name: str) -> None:
    (write_model(tmp_path) / name).unlink()
    with pytest.raises(ModelError, match=f"holds no {name}; .* python -m tools.convert"):
        load_model(tmp_path)


def test_an_error_in_a_thread_that_outlives_the_interpreter_does_not_hang(folder: Path) -> None:
    script = (
        "import sys, threading\n"
        "from rehydrate.embedding.onnx import load_model\n"
        "def forever():\n"
        "    while True:\n"
        "        try:\n"
        "            load_model(sys.argv[1])\n"
        "        except Exception: pass\n"
        "threading.Thread(target=forever, daemon=True).start()\n"
        "import time; time.sleep(0.5)\n"
    )
    command = [sys.executable, "-c", script, str(folder)]
    done = subprocess.run(command, timeout=PATIENCE_SECONDS, check=False, capture_output=True)
    assert done.returncode == 0, done.stderr
