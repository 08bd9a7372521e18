"""Peers: today's usual tools, set up to do the same work on the same texts."""

from __future__ import annotations

import base64
import gzip
import json
import re
import subprocess
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tiktoken
import tiktoken_ext.openai_public as openai_encodings  # type: ignore[import-untyped]

from benches.python.inputs import ROOT
from rehydrate.retention.baselines import Turns

if TYPE_CHECKING:
    from tokenizers import Tokenizer


@cache
def encoding(name: str) -> tiktoken.Encoding:
    """Return tiktoken's own encoding, its vocabulary from the `bpe-openai` crate, not the network.

    Everything else, mainly the split pattern, is what tiktoken ships.
    """
    vocabulary = _crate_folder("bpe-openai") / "data" / f"{name}.tiktoken.gz"

    def ranks(*_: object, **__: object) -> dict[bytes, int]:
        pairs = (
            line.split() for line in gzip.decompress(vocabulary.read_bytes()).splitlines() if line
        )
        return {base64.b64decode(token): int(rank) for token, rank in pairs}

    download = openai_encodings.load_tiktoken_bpe
    openai_encodings.load_tiktoken_bpe = ranks
    try:
        return tiktoken.Encoding(**getattr(openai_encodings, name)())
    finally:
        openai_encodings.load_tiktoken_bpe = download


@cache
def _crate_folder(name: str) -> Path:
    command = ["cargo", "metadata", "--format-version", "1", "--offline", "--locked"]
    reported = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    crates = json.loads(reported.stdout)["packages"]
    return next(Path(crate["manifest_path"]).parent for crate in crates if crate["name"] == name)


@cache
def wordpiece() -> Tokenizer:
    """Return the `tokenizers` package's WordPiece with the built-in model's vocabulary."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    vocabulary = (ROOT / "rust" / "rehydrate-core" / "model" / "vocab.txt").read_text(
        encoding="utf-8"
    )
    ids = {token: index for index, token in enumerate(vocabulary.splitlines())}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def o200k_counter() -> Callable[[Turns], int]:
    """Return tiktoken's counter over a message's text, calls, and results."""
    encode = encoding("o200k_base").encode_ordinary

    def count(messages: Turns) -> int:
        return sum(len(encode(text)) for message in messages for text in _counted_texts(message))

    return count


def _counted_texts(message: Any) -> list[str]:
    calls = getattr(message, "tool_calls", ())
    called = [call["name"] + json.dumps(call["args"], ensure_ascii=False) for call in calls]
    return [str(message.content), *called]


_NAME = re.compile(r"[\w./@~-]+")
_TELLING = re.compile(r"\w[./@_-]\w|\d|[a-z][A-Z]")


def plain_python(texts: Sequence[str], query: str, ratio: float) -> list[int]:
    """Compact as one would write it without a model; return the indices of the texts kept.

    WordPiece by `tokenizers`, cosine of token counts in numpy, names by regular expression, exact
    tokens by `tiktoken`, the three-signal formula, a sort, greedy.
    """
    tokenizer, encode = wordpiece(), encoding("o200k_base").encode_ordinary
    size = tokenizer.get_vocab_size()

    def bag(text: str) -> np.ndarray[Any, np.dtype[np.float32]]:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        counts = np.bincount(np.asarray(ids, dtype=np.int64), minlength=size).astype(np.float32)
        return counts / max(float(np.linalg.norm(counts)), 1e-9)

    asked = bag(query)
    similarity = [float(bag(text) @ asked) for text in texts]
    tokens = [len(encode(text)) for text in texts]
    names = [names_of(text) for text in texts]
    return keep_best(tokens, similarity, names, ratio)


def names_of(text: str) -> set[str]:
    """Return paths, identifiers and ids, by regular expression."""
    return {run for run in _NAME.findall(text) if _TELLING.search(run)}


def keep_best(
    tokens: Sequence[int],
    similarity: Sequence[float],
    names: Sequence[set[str]],
    ratio: float,
    coverage: Sequence[float] | None = None,
) -> list[int]:
    """Apply the three-signal formula, a sort, greedy: texts that a memory covers are worth less."""
    seen: set[str] = set()
    score = [0.0] * len(tokens)
    for index in reversed(range(len(tokens))):
        fresh = len(names[index] - seen) / max(1, len(names[index]))
        seen |= names[index]
        if coverage is not None:
            fresh = 1.0 - coverage[index]
        recency = 0.1 + 0.9 * index / max(1, len(tokens) - 1)
        score[index] = 0.3 * recency + 0.4 * similarity[index] + 0.3 * fresh
    left = int(sum(tokens) * ratio)
    kept = []
    for index in sorted(range(len(tokens)), key=lambda i: (-score[i], -i)):
        if tokens[index] <= left:
            left -= tokens[index]
            kept.append(index)
    return sorted(kept)
