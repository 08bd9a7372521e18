"""What a memory on PostgreSQL finds in LoCoMo, compared with the file.

Three ways on the server: an index in this process, the server's candidates ranked by the engine
(what a large namespace gets), and the contract's one statement.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from benches.report.rows import Row
from rehydrate import Memory
from rehydrate.memory import Fusion
from rehydrate.retention import Conversation, read_locomo

FIRST = (5, 10)
WITHIN = 0.005
HELD, SERVER = "index in this process", "the server's candidates, ranked by the engine"
RANKED = (HELD, SERVER)
SERVER_ONLY = 1
"""Bytes for indexes in this process: none fits."""


def rows(url: str, locomo: Path) -> list[Row]:
    """Return the share of evidence among the first 5 and 10, for each way."""
    conversations = read_locomo(locomo)
    with (
        tempfile.TemporaryDirectory() as folder,
        Memory.open(f"{folder}/m.db", redact=False) as file,
        Memory.open(url, redact=False) as held,
        Memory.open(url, redact=False, index_bytes=SERVER_ONLY) as server,
    ):
        ways: list[tuple[str, Memory, Fusion | None]] = [
            ("file", file, None),
            (HELD, held, None),
            (SERVER, server, None),
            ("the contract's statement", server, "weighted"),
            ("the file with its weights", file, "weighted"),
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
    found = {name: [share / questions for share in row] for name, row in shares.items()}
    return [
        Row(
            f"LoCoMo, evidence among the first {most}, {name}",
            found[name][at],
            "",
            found["file"][at] - WITHIN if name in RANKED else None,
            more_is_better=True,
            beside=f"{questions} questions; the file {found['file'][at]:.4f}",
            limit="A large namespace's words are counted in a sample" if name == SERVER else "",
        )
        for at, most in enumerate(FIRST)
        for name, _, _ in ways[1:]
    ]


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
