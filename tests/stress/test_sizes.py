"""Huge conversations: what one takes grows with its size, and nothing about it is cut short."""

from __future__ import annotations

import json

import pytest

import rehydrate
from tests.sizes import sized
from tests.stress.programs import run_python

MEGABYTES = {"prose": sized(10, 30), "unbroken": sized(10, 30)}
"""How long the text of a kind is; the others have 10 MB."""
MANY = sized(50_000, 300_000)

BYTES_A_BYTE = 16
"""What a compaction may need at its peak for each byte of text, the text itself included."""

_ONE_TEXT = """
import json, resource, sys
import rehydrate

lines = {
    "prose": "The quick brown fox of part_%d.py jumped over line %d.\\n",
    "numbers": "%d %d ",
    "hebrew": "\\u05e9\\u05dc\\u05d5\\u05dd %d \\u05e2\\u05d5\\u05dc\\u05dd %d\\n",
    "escapes": "\\\\n%d\\\\\\\\%d\\\\t",
    "unbroken": "abc%dxyz%d",
}
line = lines[sys.argv[1]]
wanted = int(float(sys.argv[2]) * 1e6)
rehydrate.compact_context([{"role": "user", "content": "warm up"}], "what?")

def peak():
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

before = peak()
parts, size = [], 0
while size < wanted:
    parts.append(line % (size * 7919 % 1_000_003, size))
    size += len(parts[-1].encode())
text = "".join(parts)
del parts
call = {"id": "t", "function": {"name": "x", "arguments": text}}
messages = [
    {"role": "user", "content": "Read it."},
    {"role": "assistant", "tool_calls": [call]},
    {"role": "tool", "tool_call_id": "t", "content": "short"},
    {"role": "assistant", "content": "Done."},
    {"role": "user", "content": "And now?"},
]
compaction = rehydrate.compact_context(messages, "the fox of part_9.py", budget_tokens=100)
print(json.dumps({
    "bytes": size,
    "peak": peak() - before,
    "before": compaction.stats.before_tokens,
    "dropped": compaction.stats.dropped,
}))
"""


@pytest.mark.parametrize("kind", ["prose", "numbers", "hebrew", "escapes", "unbroken"])
def test_memory_for_one_text_grows_with_the_text(kind: str):
    megabytes = MEGABYTES.get(kind, 10)
    ended = run_python(_ONE_TEXT, kind, str(megabytes))
    assert ended.code == 0, ended.err
    figures = json.loads(ended.out)
    assert figures["dropped"] == 2
    assert figures["before"] > megabytes * 1e5
    # The list of parts that the text was made of counts too; 40 MB are for tables.
    assert figures["peak"] < BYTES_A_BYTE * figures["bytes"] + 40e6, figures


def test_tokens_of_a_long_text_are_the_sum_over_its_lines():
    # A paragraph's end is no part of a longer token, so the long way round is exact.
    line = "The quick brown fox of part_{}.py, שלום 漢字, jumped over line {}.\nx"
    lines = [line.format(n * 7919 % 1_003, n % 97) for n in range(30_000)]
    whole = rehydrate.count_tokens("\n".join(lines))
    assert whole == rehydrate.count_tokens([{"role": "user", "content": "\n".join(lines)}])
    parts = sum(rehydrate.count_tokens(one + "\n") for one in lines[:-1])
    assert whole == parts + rehydrate.count_tokens(lines[-1])


def test_a_great_many_messages_fit_the_budget():
    messages = [
        {
            "role": ("user", "assistant")[n % 2],
            "content": f"Note {n} on thing_{n * 7919 % 100_003} and src/part_{n % 977}.py",
        }
        for n in range(MANY)
    ]
    compaction = rehydrate.compact_context(messages, "thing_7919", budget_tokens=20_000)
    assert compaction.stats.after_tokens <= 20_000
    assert any("thing_7919 " in message["content"] for message in compaction.messages)
    assert compaction.stats.dropped == MANY - len(compaction.messages)
