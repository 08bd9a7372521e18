"""Fixtures: a tiny model to convert, a runner for its graphs, and a home for tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

collect_ignore_glob = [] if find_spec("onnx") and find_spec("onnxruntime") else ["test_*.py"]
"""Conversion needs both, which have no wheels for musl and some free-threaded interpreters."""
Embed = Callable[[Sequence[Sequence[int]]], np.ndarray]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    monkeypatch.setenv("REHYDRATE_HOME", str(home))
    return home / "models"


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    from tests.convert.tiny import write_bert

    return write_bert(tmp_path / "tiny")


@pytest.fixture
def load() -> Callable[..., Embed]:
    """`load(file)`: a function of padded rows; `padding` is the id under the mask's zeros."""

    def load(file: Path, *, padding: int = 0) -> Embed:
        import onnxruntime

        session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])

        def embed(rows: Sequence[Sequence[int]]) -> np.ndarray:
            ids = np.full((len(rows), max(map(len, rows))), padding, np.int64)
            mask = np.zeros_like(ids)
            for place, row in enumerate(rows):
                ids[place, : len(row)] = row
                mask[place, : len(row)] = 1
            return session.run(None, {"input_ids": ids, "attention_mask": mask})[0]

        return embed

    return load
