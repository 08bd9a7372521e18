"""Reading strangers' texts takes time as their length does: its square would take minutes here."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice

import pytest

import rehydrate
from tests.conftest import IS_WHOLE
from tests.sizes import sized
from tests.stress.attacks import attacks, patterns
from tests.stress.programs import run_module, run_python

_LIMIT_SECONDS = 15
"""A case takes a fraction of a second, and hundreds of times as long where it is not linear."""

# Used with `match` on one line or from one place: a search would begin anywhere.
_MATCHED = {
    *("_OWN_LINE", "_LINE", "_COLON", "_EPISODE", "_SCALAR", "_OPENING", "_ROW_START", "_mark"),
    *("MATCH", "PATH", "LOG", "SIGNATURE", "CODE", "_DATA_URL"),
}
# Of models' names, which are cut, of the requirements of this package and of what a server says
# when it refuses a connection.
_SHORT = {"_REQUIREMENT", "_REVISION", "_VENDOR", "_REMEDIES"}

_CASES = {
    "user_text": """
from rehydrate._native import user_text
text = "<system-reminder>" * 300_000
assert user_text({"role": "user", "content": text}) == text
""",
    "words_of_user": """
from rehydrate._native import words_of_user
text = "<skill>" * 500_000
assert words_of_user({"role": "user", "content": text}) == text
""",
    "terminal": r"""
from rehydrate.cli.terminal import Terminal
assert Terminal().safe("log " + "\x90" * 2_000_000 + "\x1b.") == "log"
""",
    "named_ids": """
from rehydrate import lint
said = [{"role": "user", "content": "session_id:" * 100_000}]
lint([*said, {"role": "assistant", "content": "ok"}, {"role": "user", "content": "go"}])
""",
    "model": """
from rehydrate._native import known_name
assert known_name("claude-opus-4-5@x" + "-v1" * 300_000 + "!", ["claude-opus-4-5"]) is None
""",
    "many_tools_of_a_ui_message": """
from rehydrate.formats import parse
tool = {"type": "tool-w", "state": "output-available", "input": {}, "output": "done"}
parts = [{**tool, "toolCallId": f"t{i}"} for i in range(100_000)]
said = {"id": "1", "role": "user", "parts": [{"type": "text", "text": "go"}]}
assert parse([said, {"id": "2", "role": "assistant", "parts": parts}], "ai_sdk_ui").pins()
""",
    "many_responses_of_gemini": """
from rehydrate.formats import parse
for id in ("", "x"):
    calls = [{"name": f"f{n}", **({"id": f"x{n}"} if id else {})} for n in range(100_000)]
    answers = [{"functionResponse": {**each, "response": {}}} for each in reversed(calls)]
    turn = {"role": "model", "parts": [{"functionCall": each} for each in calls]}
    said = [{"role": "user", "parts": [{"text": "Go."}]}, turn, {"role": "user", "parts": answers}]
    _, called, answered = parse(said, "gemini").messages
    assert called.calls == answered.answers[::-1]
""",
    "pieces_of_an_event": """
from rehydrate._native import EventDecoder
decoder = EventDecoder()
decoder.feed(b"data: ")
for _ in range(600_000):
    decoder.feed(b"x" * 16)
(found,) = decoder.feed(b"\\n\\n")
assert len(found) == 16 * 600_000
""",
    "many_calls_of_a_message": """
from rehydrate import compact_context
texts = {"content": "l o n g\\n" * 100}
ids = [f"t{i}" for i in range(24_000)]
uses = [{"type": "tool_use", "id": id, "name": "w", "input": texts} for id in ids]
results = [{"type": "tool_result", "tool_use_id": id, "content": "done"} for id in ids]
said = [("user", "go"), ("assistant", uses), ("user", results), ("assistant", "ok"), ("user", "?")]
messages = [{"role": role, "content": content} for role, content in said]
compact_context(messages, budget_tokens=500, granularity="excerpt", embedder=None)
compact_context(messages, budget_tokens=500, embedder=None)
""",
    "ids": """
from rehydrate._native import render_entries
used = {"type": "tool_use", "id": "same", "name": "f", "input": {}}
said = [{"role": "assistant", "content": [used]} for _ in range(50_000)]
_, made, _ = render_entries(said, "anthropic", "openai_chat", 0)
ids = [call["id"] for each in made for call in each.message["tool_calls"]]
assert len(set(ids)) == 50_000
""",
    "rules": """
from rehydrate import formats
from rehydrate.context import ContextStore
laid_down = " ".join(f"Always use tool{i} for area{i}." for i in range(3_000))
turned = " ".join(f"From now on never use thing{i} for area{i} instead." for i in range(3_000))
said = [{"role": "user", "content": laid_down}, {"role": "user", "content": turned}]
assert len(ContextStore().update(formats.parse(said, "anthropic").messages)) > 6_000
""",
    "thoughts": """
from rehydrate.formats import FORMATS
thought = [{"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}]
said = [{"role": "assistant", "content": thought} for _ in range(50_000)]
assert FORMATS["anthropic"].without_thinking(said) == [None] * 50_000
""",
    "overtaken": """
from rehydrate._native import render_entries
calls = [{"type": "function_call", "call_id": f"c{n}", "name": "f"} for n in range(40_000)]
outputs = [{"type": "shell_call_output", "id": f"s{n}", "output": []} for n in range(40_000)]
_, made, _ = render_entries([*calls, *outputs], "openai_responses", "anthropic", 0)
assert all("'tool_use'" not in str(each.message) for each in made)
""",
    "summary": """
from rehydrate import formats
from rehydrate.context import ContextStore
lines = [f"- Always use tool {n} for area {n}. (#{n})" for n in range(60_000)]
said = [{"role": "user", "content": "\\n".join(["## User Preferences", *lines])}]
store = ContextStore()
store.update(formats.parse(said, "anthropic").messages)
assert len(store.items()) == 60_000
""",
    "excerpt": """
from rehydrate.prompt.splicing import Match, excerpt
text = "".join([f"line {n}\\n" for n in range(200_000)])
matches = [Match(0, (start, start + 7), 1.0) for start in range(0, len(text) - 7, 100)]
content, spans = excerpt(text, matches, 10**8)
assert len(spans) > 1 and len(content) > len(text) // 3
""",
    "citations": """
from rehydrate._native import AnswerJoiner
joiner = AnswerJoiner("anthropic")
block = {"type": "text", "text": "", "citations": None}
joiner.add({"type": "message_start", "message": {"role": "assistant", "content": []}})
joiner.add({"type": "content_block_start", "index": 0, "content_block": block})
for n in range(100_000):
    delta = {"type": "citations_delta", "citation": {"n": n}}
    joiner.add({"type": "content_block_delta", "index": 0, "delta": delta})
joiner.add({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}})
(block,) = joiner.body()["content"]
assert [each["n"] for each in block["citations"]] == [*range(100_000)]
""",
    "anchored_sections": """
from rehydrate.prompt import History, Meta, PromptIR, Provenance, Section, Trace
many = range(64_000)
notes = [Section(f"s{n}", "x", Provenance("w"), tokens=1, anchor=n) for n in many]
trace = Trace("order", len(many), len(many), tuple([note.id for note in notes]))
entries = tuple([{"role": "user", "content": "x"} for _ in many])
history = History(entries, "plain", (1,) * len(many), tuple([n + 1 for n in many]))
ir = PromptIR(sections=tuple(notes), history=history)
for each in (ir, ir.replace(meta=Meta(trace=(trace,)))):
    assert len(each.explain().rows) >= 2 * len(many) - 1
""",
    "names": """
from rehydrate._native import FreeNames
names = FreeNames((), "~")
assert len({names.take("note") for _ in range(100_000)}) == 100_000
""",
}


@contextmanager
def _limited(what: str) -> Iterator[None]:
    """Fail after so many of the processor's seconds: `re` looks for signals while it matches."""

    def late(*_: object) -> None:
        raise AssertionError(f"{what} takes more than {_LIMIT_SECONDS} s")

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, _LIMIT_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@pytest.mark.filterwarnings("ignore")  # of other people's modules
def test_no_pattern_takes_the_square_of_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    # In this process: the modules of all hosts take 15 s to import, and are here already.
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # no network
    names = 0
    for name, pattern in patterns():
        short = name.rpartition(".")[2]
        with _limited(f"{name} {pattern.pattern[:200]!r}"):
            for text in islice(attacks(pattern, 50_000), 30):
                if short in _MATCHED | _SHORT:
                    pattern.match(text[:256] if short in _SHORT else text)
                else:
                    for _ in pattern.finditer(text):
                        pass
        names += 1
    assert names > (20 if IS_WHOLE else 5)


def test_what_strangers_write_is_read_in_one_pass() -> None:
    # SIGPROF ends the process: native code looks for no signal.
    program = "import gc, signal\ngc.disable()  # half of the time\n"
    for case, code in _CASES.items():
        limit = f"signal.setitimer(signal.ITIMER_PROF, {_LIMIT_SECONDS})"
        program += f"print({case!r}, flush=True)\n{limit}\n{code}\n"
    ended = run_python(program)
    last = ended.out.strip().rpartition("\n")[2]
    assert ended.code == 0, f"{ended.code} {last} {ended.err[-800:]}"


def test_no_generated_text_or_list_takes_its_square() -> None:
    # Of each door another share of the texts: each text is given to several doors.
    ended = run_module("tests.stress.growth", "--once", "--every", str(sized(23, 12)))
    assert ended.code == 0, f"{ended.code} {ended.out[-400:]} {ended.err[-800:]}"


# Huge conversations: what one takes grows with its size, and nothing about it is cut short.


MEGABYTES = 10
MANY = sized(50_000, 150_000)

BYTES_A_BYTE = 16
"""The most that a compaction may hold for each byte of text, the text itself included."""

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
    ended = run_python(_ONE_TEXT, kind, str(MEGABYTES))
    assert ended.code == 0, ended.err
    figures = json.loads(ended.out)
    assert figures["dropped"] == 2
    assert figures["before"] > MEGABYTES * 1e5
    # The list of parts that the text was made of counts too; 40 MB are for tables.
    assert figures["peak"] < BYTES_A_BYTE * figures["bytes"] + 40e6, figures


def test_tokens_of_a_long_text_are_the_sum_over_its_lines():
    # A paragraph's end isn't part of a longer token, so the long way round is exact.
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
