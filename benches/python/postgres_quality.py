"""What a memory on PostgreSQL finds, beside the file: `python -m benches.python.postgres_quality`.

Needs LoCoMo (`REHYDRATE_DATA`) and a server: `tools/postgres python -m ...`. Three ways on the
server: an index in this process, the server's candidates ranked by the engine (what a large
namespace gets), and the contract's one statement.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from rehydrate import Memory
from rehydrate.memory import Fusion
from rehydrate.retention import Conversation, read_locomo

FIRST = (5, 10)
SERVER_ONLY = 1
"""Bytes for indexes in this process: none fits."""


def main() -> None:
    """Print the share of evidence among the first 5 and 10, for each way."""
    data, url = os.environ.get("REHYDRATE_DATA"), os.environ.get("REHYDRATE_POSTGRES_URL")
    if not data or not url:
        sys.exit("postgres_quality: set REHYDRATE_DATA, and run it under tools/postgres")
    conversations = read_locomo(Path(data) / "locomo_dev.json")
    with (
        tempfile.TemporaryDirectory() as folder,
        Memory.open(f"{folder}/m.db", redact=False) as file,
        Memory.open(url, redact=False) as held,
        Memory.open(url, redact=False, index_bytes=SERVER_ONLY) as server,
    ):
        ways: list[tuple[str, Memory, Fusion | None]] = [
            ("file", file, None),
            ("server, index in this process", held, None),
            ("server, its candidates ranked by the engine", server, None),
            ("server, the contract's statement", server, "weighted"),
            ("file, weighted", file, "weighted"),
        ]
        shares = {name: [0.0] * len(FIRST) for name, _, _ in ways}
        questions = 0
        for conversation in conversations:
            places = _added(conversation, (file, held))
            questions += len(conversation.questions)
            for name, memory, fusion in ways:
                ask = _asking(memory, conversation.name, fusion, places)
                for question in conversation.questions:
                    found = ask(question.text)
                    for at, most in enumerate(FIRST):
                        evidence = set(question.evidence)
                        shares[name][at] += len(evidence.intersection(found[:most])) / len(evidence)
            print(f"  {conversation.name}", file=sys.stderr, flush=True)
    print(f"LoCoMo, {questions} questions: share of the evidence among the first 5 / 10")
    for name, found in shares.items():
        print(f"{name:45} {found[0] / questions:.4f} / {found[1] / questions:.4f}")


def _added(conversation: Conversation, memories: tuple[Memory, ...]) -> dict[str, int]:
    texts = [message["content"] for message in conversation.messages]
    places: dict[str, int] = {}
    for memory in memories:
        added = memory.add(texts, source="conversation", namespace=conversation.name)
        for place, one in enumerate(added):
            places.setdefault(one.handle, place)
    return places


def _asking(
    memory: Memory, namespace: str, fusion: Fusion | None, places: dict[str, int]
) -> Callable[[str], list[int]]:
    def ask(question: str) -> list[int]:
        hits = memory.search(question, FIRST[-1], namespace=namespace, fusion=fusion)
        return [places[hit.handle] for hit in hits]

    return ask


if __name__ == "__main__":
    main()
