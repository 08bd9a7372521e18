"""BERT's uncased WordPiece, plain and slow: counts the tokens that the built-in model reads."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

from benches.python.inputs import ROOT

VOCABULARY = ROOT / "rust" / "rehydrate-core" / "model" / "vocab.txt"
LONGEST_WORD = 100


class WordPiece:
    """Counts the tokens of a vocabulary in which `##` marks the parts within a word."""

    def __init__(self, vocabulary: set[str]) -> None:
        """Take the tokens."""
        self._vocabulary = vocabulary
        self._seen: dict[str, int] = {}

    @staticmethod
    def of_the_model(path: Path = VOCABULARY) -> WordPiece:
        """Use the vocabulary of the built-in embedder."""
        return WordPiece(set(path.read_text(encoding="utf-8").splitlines()))

    def count(self, text: str) -> int:
        """Return the tokens of a text, without the special ones around it."""
        return sum(self._pieces(word) for word in _words(text))

    def _pieces(self, word: str) -> int:
        if word not in self._seen:
            self._seen[word] = self._longest_first(word)
        return self._seen[word]

    def _longest_first(self, word: str) -> int:
        if len(word) > LONGEST_WORD:
            return 1  # [UNK]
        start, pieces = 0, 0
        while start < len(word):
            prefix = "##" if start else ""
            ends = range(len(word), start, -1)
            end = next((end for end in ends if prefix + word[start:end] in self._vocabulary), None)
            if end is None:
                return 1  # [UNK] stands for the whole word
            start, pieces = end, pieces + 1
        return pieces


def _words(text: str) -> list[str]:
    plain = unicodedata.normalize("NFD", text.lower())
    spaced = "".join([_apart(char) for char in plain if unicodedata.category(char) != "Mn"])
    return spaced.split()


def _apart(char: str) -> str:
    """Punctuation, symbols of ASCII and CJK ideographs are words by themselves."""
    if re.match(r"[!-/:-@\[-`{-~\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff]", char):
        return f" {char} "
    category = unicodedata.category(char)
    if category[0] == "P":
        return f" {char} "
    return "" if category[0] == "C" and not char.isspace() else char
