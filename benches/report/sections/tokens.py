"""Counting and tokenising."""

from __future__ import annotations

from collections.abc import Iterable

from benches.report.figures import Figures
from benches.report.markdown import rows_table, section
from benches.report.rows import Row
from benches.report.running import CORE, PYTHON
from benches.report.timings import speed, times

WANTS = {"o200k_base": 8.0, "o200k_base, fresh thread": 10.0}
"""How many times the speed of `tiktoken`."""
BEYOND = 20.0
LIMITS = {
    "": "Words that no cache holds are merged byte pair by byte pair",
    ", fresh thread": "A fresh thread has no cache of words: it merges each word once, byte pair "
    "by byte pair",
}


def tokens(of: Figures) -> Iterable[str]:
    """Counting and tokenising."""
    yield from section(
        "Tokens",
        "One thread on both sides, text by text, the processor's own time; MB are 10^6 bytes. A "
        "fresh thread starts with an empty cache of words.",
        f"{CORE}; {PYTHON}",
    )
    yield from rows_table(row for row in rows(of) if row.value is not None)


def rows(of: Figures) -> list[Row]:
    """Return a row for each encoding and each way of counting, then WordPiece."""
    found = []
    for encoding in ("o200k_base", "cl100k_base"):
        peer = of[f"bench_tiktoken[{encoding}]"]
        for name, bench in (
            ("", "bench_rehydrate"),
            (", fresh thread", "bench_rehydrate_fresh_thread"),
        ):
            ours = of[f"{bench}[{encoding}]"]
            equal = ours and peer and ours.extra["tokens"] == peer.extra["tokens"]
            want = WANTS.get(encoding + name)
            found.append(
                Row(
                    f"{encoding}{name}, against tiktoken",
                    peer.seconds / ours.seconds if ours and peer else None,
                    "x",
                    want,
                    want and BEYOND,
                    more_is_better=True,
                    beside=f"{speed(ours)}; tiktoken {speed(peer)}; counts "
                    f"{'equal' if equal else 'NOT EQUAL'}",
                    limit=LIMITS[name],
                )
            )
        for state in ("warm", "cold"):
            core_ours, crate = of[f"tokens/{encoding}/{state}"], of[f"tokens/{encoding}/bpe-openai"]
            found.append(
                Row(
                    f"{encoding}, in the core, {state}",
                    core_ours.megabytes_per_second if core_ours else None,
                    "MB/s",
                    more_is_better=True,
                    beside=times(core_ours, [("bpe-openai", crate)]),
                )
            )
    in_python = of["bench_tokenizers_wordpiece"]
    for corpus in ("sources", "scripts", "coding", "airline", "chat"):
        ours, twin = of[f"wordpiece/{corpus}/rehydrate"], of[f"wordpiece/{corpus}/tokenizers"]
        bounded = corpus != "scripts"
        found.append(
            Row(
                f"WordPiece, {corpus}",
                ours.megabytes_per_second if ours else None,
                "MB/s",
                30 if bounded else None,
                80 if bounded else None,
                more_is_better=True,
                beside=f"{times(ours, [('the `tokenizers` crate', twin)])}",
                limit="Text that is hardly ASCII: each character is normalised by table"
                if not bounded
                else "Each word is looked up piece by piece, the longest piece first",
            )
        )
    found.append(
        Row(
            "peer: `tokenizers` WordPiece from Python",
            in_python.megabytes_per_second if in_python else None,
            "MB/s",
        )
    )
    return found
