"""A model to convert: a sentence-transformers folder, or an installed package that holds one.

It also reads tokenizer.json, or writes it from vocab.txt; the result cuts at max_tokens and never
pads.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from tools.convert.bert import (
    FILE,
    Architecture,
    ConversionError,
    Pooling,
    Weights,
    read_architecture,
    read_json,
    read_modules,
    read_weights,
)

_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_LONGEST_WORD = 100
# A word, or a single mark; each Chinese character and each underscore counts as a mark.
_WORDS = re.compile(r"[\u3400-\u9fff]|[^\W_\u3400-\u9fff]+|[^\w\s]|_")


class WordPiece:
    """A WordPiece vocabulary with its tokenizer.json."""

    def __init__(self, content: dict[str, Any], max_tokens: int) -> None:
        """Take a checked tokenizer.json; its cutting and padding are replaced."""
        self.max_tokens = max_tokens
        self.vocabulary: dict[str, int] = content["model"]["vocab"]
        self._lowercase = bool((content.get("normalizer") or {}).get("lowercase", True))
        # Files often carry the fixed padding of the training, which would only cost time.
        self._content = {
            **content,
            "truncation": {
                "direction": "Right",
                "max_length": max_tokens,
                "strategy": "LongestFirst",
                "stride": 0,
            },
            "padding": None,
        }

    def to_json(self) -> bytes:
        """Return the tokenizer.json of the converted folder."""
        return json.dumps(self._content, ensure_ascii=False, separators=(",", ":")).encode()

    def encode(self, text: str) -> list[int]:
        """Return token ids between [CLS] and [SEP], greedily, the longest piece first.

        Simple and slow, for the few texts that check a conversion. Normalisation is only roughly
        BERT's, which is enough to give both sides of a comparison the same input.
        """
        text = unicodedata.normalize("NFC", text)
        if self._lowercase:
            marked = unicodedata.normalize("NFD", text.lower())
            text = "".join([c for c in marked if unicodedata.category(c) != "Mn"])
        pieces = [piece for word in _WORDS.findall(text) for piece in self._pieces(word)]
        cls, sep = self.vocabulary["[CLS]"], self.vocabulary["[SEP]"]
        return [cls, *pieces[: self.max_tokens - 2], sep]

    def _pieces(self, word: str) -> list[int]:
        pieces: list[int] = []
        start = 0
        while start < len(word):
            for end in range(len(word), start, -1):
                piece = ("##" if start else "") + word[start:end]
                if piece in self.vocabulary:
                    break
            else:
                return [self.vocabulary["[UNK]"]]
            pieces.append(self.vocabulary[piece])
            start = end
        return pieces


def read_tokenizer(folder: Path, architecture: Architecture, max_tokens: int) -> WordPiece:
    """Read the tokenizer of a model folder.

    Raises:
        ConversionError: there is none, it is not WordPiece, or it does not fit the model.
    """
    file = folder / "tokenizer.json"
    if file.exists():
        content = read_json(file)
    else:
        file = folder / "vocab.txt"
        content = _from_vocabulary(file, folder / "tokenizer_config.json")
    model = content.get("model")
    kind = model.get("type", "WordPiece") if isinstance(model, dict) else None
    if not isinstance(model, dict) or kind != "WordPiece":
        problem = f"the tokenizer is {kind!r}, supported: 'WordPiece'"
        raise ConversionError(file, problem, "choose a model with BERT's own tokenizer")
    vocabulary = model.get("vocab")
    if not isinstance(vocabulary, dict) or not all(type(i) is int for i in vocabulary.values()):
        raise ConversionError(file, "its vocabulary isn't a map of ids", "get the file again")
    for token in ("[UNK]", "[CLS]", "[SEP]"):
        if token not in vocabulary:
            raise ConversionError(file, f"token {token!r} is missing", "get the file again")
    highest = max(vocabulary.values())
    if highest >= architecture.vocabulary:
        problem = f"token id {highest} is beyond the model's {architecture.vocabulary} tokens"
        raise ConversionError(file, problem, "check that the tokenizer is this model's")
    if max_tokens < 3:
        raise ConversionError(folder, f"max_tokens is {max_tokens}, expected 3", "get it again")
    return WordPiece(content, max_tokens)


def _from_vocabulary(file: Path, config_file: Path) -> dict[str, Any]:
    """Build what BERT's fast tokenizer saves from the slow one's files."""
    try:
        tokens = file.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        problem = "no such file, nor tokenizer.json"
        raise ConversionError(file, problem, "get the model's folder whole") from None
    except (OSError, ValueError) as error:
        raise ConversionError(file, f"cannot be read ({error})", "get the file again") from None
    config = read_json(config_file) if config_file.exists() else {}
    vocabulary = {token.rstrip("\r"): index for index, token in enumerate(tokens) if token}
    lowercase = bool(config.get("do_lower_case", True))

    def special(token: str, kind: int = 0) -> dict[str, Any]:
        return {"SpecialToken": {"id": token, "type_id": kind}}

    def sequence(name: str, kind: int) -> dict[str, Any]:
        return {"Sequence": {"id": name, "type_id": kind}}

    single = [special("[CLS]"), sequence("A", 0), special("[SEP]")]
    return {
        "version": "1.0",
        "added_tokens": [
            {
                "id": vocabulary[token],
                "content": token,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for token in _SPECIAL
            if token in vocabulary
        ],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": bool(config.get("tokenize_chinese_chars", True)),
            "strip_accents": config.get("strip_accents"),
            "lowercase": lowercase,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": single,
            "pair": [*single, sequence("B", 1), special("[SEP]", 1)],
            "special_tokens": {
                token: {"id": token, "ids": [vocabulary[token]], "tokens": [token]}
                for token in ("[CLS]", "[SEP]")
                if token in vocabulary
            },
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": _LONGEST_WORD,
            "vocab": vocabulary,
        },
    }


class Source(NamedTuple):
    """Everything read and checked before the graph is built."""

    architecture: Architecture
    pooling: Pooling
    max_tokens: int
    tokenizer: WordPiece
    weights: Weights
    sha256: str


class Located(NamedTuple):
    """A model's folder, and the name for it."""

    folder: Path
    name: str


def locate(source: str | Path) -> Located:
    """Return the model folder of `source`: the path itself, or an installed package's `model`
    folder.

    The package is found without being imported, so that none of its code runs.

    Raises:
        ConversionError: no such folder or package, or no model in it.
    """
    path = Path(source).expanduser()
    try:
        if path.is_dir():
            return _located_in(path)
    except OSError as error:
        raise ConversionError(path, f"cannot be read: {error.strerror}", "check it") from None
    if path.exists():
        remedy = "name the model's folder"
        if path.suffix == ".whl":
            remedy = f"install it, or unpack it: python -m zipfile -e {path} FOLDER"
        raise ConversionError(path, "is a file, expected a model's folder", remedy)
    places = _package_folders(str(source).replace("-", "_").replace(".", "_"))
    for place in places or ():
        if (place / "model" / "config.json").is_file():
            return Located(place / "model", str(source))
    found = "no folder and no installed package"
    if places is not None:
        found = "an installed package without a model"
    raise ConversionError(source, found, "name a sentence-transformers folder with safetensors")


def _located_in(path: Path) -> Located:
    for folder in (path, path / "model"):
        if (folder / "config.json").is_file():
            named = folder.resolve()
            return Located(folder, named.parent.name if named.name == "model" else named.name)
    raise ConversionError(path, "holds no config.json", "name the folder the model is in")


def _package_folders(module: str) -> list[Path] | None:
    """Return the folders of a package's files; None if there is no such package."""
    try:
        spec = find_spec(module) if module.isidentifier() else None
    except ValueError:  # a module without a spec, such as __main__
        spec = None
    return None if spec is None else [Path(p) for p in spec.submodule_search_locations or ()]


def read_source(folder: Path) -> Source:
    """Read and check a model folder, the small files first."""
    architecture = read_architecture(folder)
    pooling, max_tokens = read_modules(folder, architecture)
    tokenizer = read_tokenizer(folder, architecture, max_tokens)
    weights = read_weights(folder, architecture)
    with (folder / FILE).open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return Source(architecture, pooling, max_tokens, tokenizer, weights, sha256)
