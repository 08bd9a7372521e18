"""Many transcripts: a table of rows that no two runs of a cache have in common, made by number.

    python -m benches.python.batch.transcripts out.parquet [--rows 100000] [--seed 0] [--real]

Row `number` of a seed is always the same, whoever makes it. Its JSON is about as long as a
lognormal draw with a median of 12 KB and a sigma of 0.8 (mean 16 KB), from 500 bytes to 200 KB.
Of 20 rows, 8 are OpenAI chats with tool calls, 7 Anthropic messages with blocks, 5 plain chats.
Words are those of this project's documentation, results are lines of its sources, with numbers and
paths that no other row has. Half of the rows have a query. One row in 200 is bad, in one of four
ways.

`--real` puts the conversations of `REHYDRATE_DATA` first.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from benches.python.inputs import ROOT, Message
from rehydrate.retention import read_claude_code, read_locomo, read_tau_bench

MEDIAN_CHARS, SIGMA = 12_000, 0.8
MIN_CHARS, MAX_CHARS = 500, 200_000
BAD_EVERY = 200
ROW_GROUP = 1_000
"""16 MB of JSON."""
SCHEMA = pa.schema([("id", pa.string()), ("messages", pa.large_string()), ("query", pa.string())])
_TOOLS = ("read_file", "run_tests", "search", "list_folder")
_FOLDERS = ("src", "lib", "app", "tests", "core", "server", "tools", "docs")


class Transcript(NamedTuple):
    """A row: `messages` is JSON, or what a bad row has instead."""

    id: str
    messages: str | None
    query: str | None


def generated(number: int, seed: int = 0) -> Transcript:
    """Return row `number`.

    >>> generated(7) == generated(7), generated(7) == generated(8)
    (True, False)
    """
    dice = random.Random(seed * 1_000_003 + number)
    size = min(max(int(dice.lognormvariate(0, SIGMA) * MEDIAN_CHARS), MIN_CHARS), MAX_CHARS)
    write = dice.choices((_openai_chat, _anthropic_blocks, _plain_chat), (8, 7, 5))[0]
    text = json.dumps(write(_Writer(dice, number), size))
    query = _Writer(dice, number).prose(60) if dice.random() < 0.5 else None
    return Transcript(f"t{number:08}", _damaged(dice, text) if is_bad(number) else text, query)


def is_bad(number: int) -> bool:
    """Return whether row `number` isn't a conversation."""
    return number % BAD_EVERY == 137


def real_transcripts(folder: str | Path | None = None) -> Iterator[Transcript]:
    """Yield the conversations of a folder, by default `REHYDRATE_DATA`; none if it is not there."""
    named = folder or os.environ.get("REHYDRATE_DATA")
    if not named or not Path(named).is_dir():
        return
    data = Path(named)
    for chat in read_locomo(data / "locomo_dev.json"):
        query = chat.questions[0].text
        yield Transcript(f"real-{chat.name}", json.dumps(chat.messages), query)
    for number, support in enumerate(read_tau_bench(data / "airline_dev.json")):
        yield Transcript(f"real-airline-{number}", json.dumps(support.messages), None)
    for file in sorted((data / "claude_code").glob("*.jsonl")):
        yield Transcript(f"real-{file.stem}", json.dumps(read_claude_code(file).messages), None)


def record_batch(first: int, rows: int, seed: int = 0) -> Any:
    """Return rows `first` to `first + rows` as a pyarrow.RecordBatch (id, messages, query)."""
    return as_batch([generated(number, seed) for number in range(first, first + rows)])


def as_batch(rows: list[Transcript]) -> Any:
    """Return rows as a pyarrow.RecordBatch (id, messages, query)."""
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    arrays = [
        pa.array(list(column), kind) for column, kind in zip(columns, SCHEMA.types, strict=True)
    ]
    return pa.record_batch(arrays, schema=SCHEMA)


def write_parquet(
    path: str | Path,
    rows: int,
    *,
    first: int = 0,
    seed: int = 0,
    real: bool = False,
    row_group: int = ROW_GROUP,
    processes: int = 2,
) -> int:
    """Write a Parquet file, a row group at a time; return the number of its rows.

    Its rows are generated, those from `first` on, by so many processes; none holds more than a few
    row groups.
    """
    written = 0
    end = first + rows
    starts = deque(range(first, end, row_group))
    pending: deque[Future[Any]] = deque()
    with (
        pq.ParquetWriter(
            path, SCHEMA, compression="zstd", compression_level=1, use_dictionary=False
        ) as writer,
        ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as workers,
    ):

        def write(batch: Any) -> None:
            nonlocal written
            writer.write_batch(batch, row_group_size=row_group)
            written += batch.num_rows

        if real:
            for row in real_transcripts():
                write(as_batch([row]))  # some have megabytes
        while starts or pending:
            while starts and len(pending) < processes + 2:
                start = starts.popleft()
                count = min(row_group, end - start)
                pending.append(workers.submit(record_batch, start, count, seed))
            write(pending.popleft().result())
    return written


class _Writer:
    """Texts of a row. Each has numbers and paths that no other row has."""

    def __init__(self, dice: random.Random, number: int) -> None:
        self.dice = dice
        self._unique = number * 10_000
        self.calls = 0

    def unique(self) -> int:
        self._unique += 1
        return self._unique

    def path(self) -> str:
        folders = "/".join(self.dice.choices(_FOLDERS, k=self.dice.randrange(1, 4)))
        return f"{folders}/{self.dice.choice(_words())}_{self.unique()}.rs"

    def prose(self, size: int) -> str:
        """Return about `size` characters of sentences."""
        phrases = self.dice.choices(_phrases(), k=max(size // 38, 1))
        for at in range(0, len(phrases), 6):
            phrases[at] = f"{phrases[at]} {self.unique()}"
        return ". ".join(phrases) + "."

    def result(self, tool: str, size: int) -> str:
        """Return about `size` characters of what a tool prints."""
        lines = self.dice.choices(_lines(), k=max(size // 56, 1))
        first = self.unique() * 7
        match tool:
            case "run_tests":
                took = self.dice.randrange(1, 900)
                found = [f"[{first + at}] {took + at}ms {line}" for at, line in enumerate(lines)]
                return "\n".join([*found, f"FAILED {self.path()}: {self.unique()} != {took}"])
            case "list_folder":
                return "\n".join(self.path() for _ in range(max(size // 36, 1)))
            case _:
                return "\n".join(f"{first + at:>6}\t{line}" for at, line in enumerate(lines))

    def call(self) -> tuple[str, str, dict[str, Any]]:
        """Return a call's id, its tool and its input."""
        self.calls += 1
        tool = self.dice.choice(_TOOLS)
        given = {"path": self.path(), "limit": self.dice.randrange(10, 2_000)}
        return f"call_{self.unique():012}", tool, given

    def turns(self, size: int, mean: int) -> Iterator[int]:
        """Yield sizes of parts, each a half to one and a half times the mean, until all is used."""
        while size > 0:
            part = int(mean * self.dice.uniform(0.5, 1.5))
            yield min(part, max(size, 40))
            size -= part


def _openai_chat(write: _Writer, size: int) -> list[Message]:
    messages: list[Message] = [{"role": "system", "content": write.prose(min(size // 8, 2_000))}]
    messages.append({"role": "user", "content": write.prose(160)})
    for at, part in enumerate(write.turns(size - 500, 1_400)):
        if at % 9 == 8:
            messages.append({"role": "assistant", "content": write.prose(part // 4)})
            messages.append({"role": "user", "content": write.prose(part // 6)})
            continue
        name, tool, given = write.call()
        call = {
            "id": name,
            "type": "function",
            "function": {"name": tool, "arguments": json.dumps(given)},
        }
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        result = write.result(tool, part)
        messages.append({"role": "tool", "tool_call_id": name, "content": result})
    messages.append({"role": "assistant", "content": write.prose(300)})
    return messages


def _anthropic_blocks(write: _Writer, size: int) -> list[Message]:
    asked = [{"type": "text", "text": write.prose(200)}]
    messages: list[Message] = [{"role": "user", "content": asked}]
    for part in write.turns(size - 500, 1_600):
        name, tool, given = write.call()
        said = {"type": "text", "text": write.prose(100)}
        call = {"type": "tool_use", "id": name, "name": tool, "input": given}
        messages.append({"role": "assistant", "content": [said, call]})
        answer = {
            "type": "tool_result",
            "tool_use_id": name,
            "content": write.result(tool, part - 250),
        }
        messages.append({"role": "user", "content": [answer]})
    last = [{"type": "text", "text": write.prose(300)}]
    return [*messages, {"role": "assistant", "content": last}]


def _plain_chat(write: _Writer, size: int) -> list[Message]:
    return [
        {"role": ("user", "assistant")[at % 2], "content": write.prose(part)}
        for at, part in enumerate(write.turns(size, 350))
    ]


def _damaged(dice: random.Random, text: str) -> str | None:
    ways: tuple[Callable[[], str | None], ...] = (
        lambda: None,
        lambda: text[: len(text) // 2],
        lambda: '{"messages": 1}',
        lambda: '[{"role": 5, "content": "hi"}]',
    )
    return dice.choice(ways)()


@cache
def _words() -> list[str]:
    pages = sorted((ROOT / "docs").rglob("*.md"))
    text = " ".join(page.read_text(encoding="utf-8") for page in pages)
    return re.findall(r"[a-z]{2,}", text.lower())


@cache
def _phrases() -> list[str]:
    """Six words in a row each, as the documentation has them."""
    words = _words()
    return [" ".join(words[at : at + 6]) for at in range(0, len(words) - 6, 2)]


@cache
def _lines() -> list[str]:
    files = sorted((ROOT / "rust" / "rehydrate-core" / "src").rglob("*.rs"))
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    return [line for line in text.splitlines() if line.strip()]


def main() -> None:
    """Write a file, and print its size."""
    parser = argparse.ArgumentParser()
    parser.add_argument("path", type=Path)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--row-group", type=int, default=ROW_GROUP)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    started = time.perf_counter()
    written = write_parquet(
        options.path,
        options.rows,
        seed=options.seed,
        real=options.real,
        row_group=options.row_group,
        processes=options.processes,
    )
    took, size = time.perf_counter() - started, options.path.stat().st_size
    print(f"{written:,} rows in {took:.0f} s: {size / 1e6:,.0f} MB")


if __name__ == "__main__":
    main()
