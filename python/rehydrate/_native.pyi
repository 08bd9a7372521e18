"""Types of the Rust module; kept true by stubtest."""

from collections.abc import Sequence
from os import PathLike
from typing import Any, final

__all__ = [
    "BlockReader",
    "OnnxModel",
    "Prepared",
    "Selection",
    "__version__",
    "after_fork",
    "before_exit",
    "before_fork",
    "cached_bytes",
    "clear_cache",
    "close_onnx",
    "count",
    "divide",
    "embed",
    "isa",
    "open_onnx",
]

_Division = tuple[str, list[tuple[int, int, int, int, int]]]

__version__: str

@final
class BlockReader:
    def __new__(
        cls, piece: type[tuple[Any, ...]], kinds: tuple[Any, Any, Any, Any]
    ) -> BlockReader: ...
    def read(
        self, content: object
    ) -> tuple[tuple[Any, ...], int, tuple[str, ...], tuple[str, ...], bool] | None: ...

@final
class Prepared:
    def __new__(
        cls,
        *,
        texts: Sequence[str],
        kinds: Sequence[int],
        piece_ends: Sequence[int],
        roles: Sequence[int],
        structural: Sequence[float],
        media_tokens: Sequence[int],
        message_units: Sequence[int],
        pinned: Sequence[bool],
        may_lead: Sequence[bool],
        counter: str,
        counts: Sequence[int] | None,
        embed: bool,
        bags: bool,
        vectors: bool,
        terms: bool,
        mentions: bool,
        divisible: Sequence[bool] | None = None,
        mark_counts: tuple[int, int] | None = None,
        block_counts: Sequence[int] | None = None,
    ) -> Prepared: ...
    @property
    def message_tokens(self) -> list[int]: ...
    @property
    def dim(self) -> int | None: ...
    @property
    def divided(self) -> list[int]: ...
    def division(self, text: int) -> _Division: ...
    def parts(self) -> list[tuple[int, tuple[int, int] | None]] | None: ...
    def vectors(self) -> bytes: ...
    def rank(self, query: str) -> list[int]: ...
    def select(
        self,
        *,
        query: str | None,
        vectors: Any,
        places: Sequence[int] | None,
        query_vector: Any,
        memory_coverage: Sequence[float] | None,
        weights: tuple[float, float, float],
        calibrated: bool,
        coverage: bool,
        target_tokens: int,
    ) -> Selection: ...

@final
class Selection:
    @property
    def kept(self) -> list[bool]: ...
    @property
    def pinned_tokens(self) -> int: ...
    @property
    def embedding(self) -> bool: ...
    @property
    def leader(self) -> int | None: ...
    def signals(self) -> list[tuple[float, float, float, float, float, float]]: ...
    def units(self) -> list[tuple[int, int, float, float, float]]: ...
    def kept_blocks(self) -> list[bytes]: ...
    def blocks(self) -> list[list[tuple[int, float]]]: ...

@final
class OnnxModel:
    def __new__(
        cls,
        *,
        model: PathLike[str],
        tokenizer: PathLike[str],
        threads: int,
        max_tokens: int,
        first_token: bool,
        by_length: bool,
    ) -> OnnxModel: ...
    @property
    def dim(self) -> int: ...
    def embed(self, texts: Sequence[str], *, seconds: float | None) -> bytes: ...

def open_onnx(library: PathLike[str]) -> None: ...
def close_onnx() -> None: ...
def isa() -> str: ...
def count(text: str, counter: str) -> int: ...
def divide(text: str) -> _Division | None: ...
def embed(texts: Sequence[str]) -> tuple[bytes, int]: ...
def cached_bytes() -> int: ...
def clear_cache() -> None: ...
def before_exit() -> None: ...
def before_fork() -> None: ...
def after_fork() -> None: ...
