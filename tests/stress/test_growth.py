"""What strangers write takes time as its length does: a square of it would take minutes here."""

from __future__ import annotations

import pytest

from tests.sizes import sized
from tests.stress import growth
from tests.stress.programs import run_module, run_python

_LIMIT_SECONDS = 20
"""A case takes a fraction of a second, and hundreds of times as long where it is not linear."""

_PATTERNS = f"""
import os, signal

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # no network
from tests.stress.attacks import attacks, patterns

# Used with `match` on one line or from one place: a search would begin anywhere.
MATCHED = {{
    *("_OWN_LINE", "_LINE", "_COLON", "_EPISODE", "_SCALAR", "_OPENING", "_ROW_START"),
    *("MATCH", "PATH", "LOG", "SIGNATURE", "CODE", "_DATA_URL"),
}}
# Of models' names, which are cut, of the requirements of this package and of what a server says
# when it refuses a connection.
SHORT = {{"_REQUIREMENT", "_REVISION", "_VENDOR", "_REMEDIES"}}
names = 0
signal.signal(signal.SIGPROF, signal.SIG_DFL)
for name, pattern in patterns():
    print(name, repr(pattern.pattern[:200]), flush=True)
    signal.setitimer(signal.ITIMER_PROF, {_LIMIT_SECONDS})
    for number, text in enumerate(attacks(pattern, 100_000)):
        if number == 30:
            break
        short = name.rpartition(".")[2]
        if short in MATCHED | SHORT:
            pattern.match(text[:256] if short in SHORT else text)
        else:
            for _ in pattern.finditer(text):
                pass
    signal.setitimer(signal.ITIMER_PROF, 0)  # the next module is imported
    names += 1
assert names > 100, names
"""

_CASES = {
    "user_text": """
from rehydrate.retention.reading import user_text
text = "<system-reminder>" * 300_000
assert user_text({"role": "user", "content": text}) == text
""",
    "words_of_user": """
from rehydrate.integrations.mcp_server.session_lines import words_of_user
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
from rehydrate.formats.thinking import known_name
assert known_name("claude-opus-4-5@x" + "-v1" * 300_000 + "!", ["claude-opus-4-5"]) is None
""",
    "ids": """
from rehydrate.formats.neutral import Call, NeutralMessage, normalized
calls = [NeutralMessage("assistant", (Call("same", "f", {}),), (i,)) for i in range(50_000)]
ids = [part.id for message in normalized(calls) for part in message.parts]
assert len(set(ids)) == 50_000
""",
    "rules": """
from rehydrate import formats
from rehydrate.context.context_store.store import ContextStore
laid_down = " ".join(f"Always use tool{i} for area{i}." for i in range(3_000))
turned = " ".join(f"From now on never use thing{i} for area{i} instead." for i in range(3_000))
said = [{"role": "user", "content": laid_down}, {"role": "user", "content": turned}]
assert len(ContextStore().update(formats.parse(said, "anthropic").messages)) > 6_000
""",
    "thoughts": """
from rehydrate.formats import anthropic
thought = [{"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}]
said = [{"role": "assistant", "content": thought} for _ in range(50_000)]
assert anthropic.without_thinking(said) == [None] * 50_000
""",
    "overtaken": """
from rehydrate.formats.translation import _overtaken
calls = [{"type": "function_call", "call_id": f"c{n}", "name": "f"} for n in range(40_000)]
outputs = [{"type": "shell_call_output", "id": f"s{n}", "output": []} for n in range(40_000)]
assert len(_overtaken([*calls, *outputs])) == 40_000
""",
    "names": """
from rehydrate._text import FreeNames
names = FreeNames((), "~")
assert len({names.take("note") for _ in range(100_000)}) == 100_000
""",
}


def _run(program: str) -> None:
    ended = run_python(program)
    last = ended.out.strip().rpartition("\n")[2]
    assert ended.code == 0, f"{ended.code} {last} {ended.err[-800:]}"


def test_no_pattern_takes_the_square_of_a_text() -> None:
    _run(_PATTERNS)


@pytest.mark.parametrize("case", _CASES)
def test_what_strangers_write_is_read_in_one_pass(case: str) -> None:
    _run(f"import signal\nsignal.setitimer(signal.ITIMER_PROF, {_LIMIT_SECONDS})\n{_CASES[case]}")


@pytest.mark.parametrize("door", [*growth.DOORS, *growth.LISTS])
def test_no_generated_text_or_list_takes_its_square(door: str) -> None:
    every = str(sized(11, 1))
    ended = run_module("tests.stress.growth", "--once", "--doors", door, "--every", every)
    assert ended.code == 0, f"{ended.code} {ended.out[-400:]} {ended.err[-800:]}"
