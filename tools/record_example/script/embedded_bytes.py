"""First task: a PDF in a tool result counts as tens of thousands of tokens of text."""
# ruff: noqa: E501  the code and the commands of a session are as wide as they are

from __future__ import annotations

from record_example.steps import Bash, Edit, Glob, Grep, Read, Say, Step, Together, User, Write

READING = "python/rehydrate/formats/_reading.py"
ANTHROPIC = "python/rehydrate/formats/anthropic.py"
OPENAI = "python/rehydrate/formats/openai_chat.py"
TEST = "tests/formats/test_embedded_resources.py"

REPRODUCE = """\
python - <<'EOF'
import base64, random
from rehydrate import count_tokens

blob = base64.b64encode(random.Random(7).randbytes(90_000)).decode()
resource = {"uri": "file:///report.pdf", "mimeType": "application/pdf", "blob": blob}
call = {"type": "tool_use", "id": "t1", "name": "mcp__files__read", "input": {"path": "report.pdf"}}
result = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "resource", "resource": resource}]}
messages = [
    {"role": "user", "content": "Summarise the report."},
    {"role": "assistant", "content": [call]},
    {"role": "user", "content": [result]},
]
print(count_tokens(messages), "tokens")
EOF"""

FIRST_TEST = '''\
"""MCP resources in tool results: their bytes are a medium, their text is text."""

from __future__ import annotations

import base64
import random
from typing import Any

import pytest

from rehydrate.formats import parse

BLOB = base64.b64encode(random.Random(7).randbytes(600)).decode()


def resource(**body: str) -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": "file:///report.pdf", **body}}


def anthropic(part: dict[str, Any]) -> list[dict[str, Any]]:
    call = {"type": "tool_use", "id": "a", "name": "read", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": [part]}
    return [
        {"role": "user", "content": "Read it."},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]


def openai_chat(part: dict[str, Any]) -> list[dict[str, Any]]:
    function = {"name": "read", "arguments": "{}"}
    call = {"id": "a", "type": "function", "function": function}
    return [
        {"role": "user", "content": "Read it."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": [part]},
    ]


BOTH = pytest.mark.parametrize("conversation", [anthropic, openai_chat])


@BOTH
def test_the_bytes_of_a_resource_are_never_read_as_text(conversation):
    result = parse(conversation(resource(mimeType="application/pdf", blob=BLOB))).messages[-1]
    assert BLOB not in result.text


@BOTH
def test_a_resource_with_bytes_counts_as_one_medium(conversation):
    result = parse(conversation(resource(mimeType="application/pdf", blob=BLOB))).messages[-1]
    assert result.images == 1


@BOTH
def test_the_text_and_the_address_of_a_resource_are_read(conversation):
    result = parse(conversation(resource(text="Revenue grew."))).messages[-1]
    assert (result.images, "Revenue grew." in result.text) == (0, True)
    assert "file:///report.pdf" in result.text
'''

STEPS: list[Step] = [
    User(
        """
        Morning. A bug first, then a few smaller things today, so let me say how I want them.

        RH-2291: Meridian Labs runs an agent with a file server behind MCP. After one tool call
        that returned a two-page PDF, our count of the conversation jumped by about eighty thousand
        tokens, and compact_context threw away half of their history to make room for it. Their
        provider billed under 4,000 for the same request. Please find out why and fix it.

        House rules for the whole session:

        - Never touch rust/rehydrate-core/src/embed/ or tools/distill, Noa is in the middle of
          something there.
        - No new dependencies, and no new modules in python/rehydrate/formats.
        - Failing test first, test names are sentences.
        - Do not commit until I say so. Then one commit a task, with a `Refs: RH-...` trailer, and
          anything that you find and leave alone goes under RH-2304.
        """
    ),
    Say("I'll start with where things stand and how the formats read tool results."),
    Together(
        Bash("git status --short | head; git log --oneline | head -5", "Show where things stand"),
        Glob("python/rehydrate/*.py"),
        Bash("wc -l python/rehydrate/formats/*.py tests/formats/*.py", "Size of the formats"),
    ),
    Read(path="python/rehydrate/formats/__init__.py"),
    Say(
        """
        `parse` picks the format and hands over to its module. The count depends on what the module
        turns into pieces, so next: the shared reading helpers and where media get their price.
        """
    ),
    Together(
        Read(path=READING, expect="_OPAQUE_KEYS"),
        Grep(pattern=r"1_600|MEDIA_TOKENS", path="python"),
    ),
    Read(path="python/rehydrate/counting.py"),
    Read(path="python/rehydrate/_engine.py", start="^def prepare", limit=45),
    Say(
        """
        So a message costs its pieces plus `images * MEDIA_TOKENS`, 1,600 each. A PDF that is
        understood costs 1,600; the jump means that its bytes became a *piece*.

        First suspicion: Meridian feed Claude Code transcripts, and there every result stands twice
        in its line, in the message and in `toolUseResult`. Perhaps we read both.
        """
    ),
    Read(path="python/rehydrate/formats/claude_code.py"),
    Bash(
        """\
python - <<'EOF'
from rehydrate import count_tokens

text = "word " * 5_000
call = {"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "a.txt"}}
result = {"type": "tool_result", "tool_use_id": "t1", "content": text}
lines = [
    {"type": "user", "uuid": "1", "message": {"role": "user", "content": "Read it."}},
    {"type": "assistant", "uuid": "2", "message": {"id": "m1", "role": "assistant", "content": [call]}},
    {"type": "user", "uuid": "3", "message": {"role": "user", "content": [result]}},
]
print("without toolUseResult", count_tokens(lines))
lines[2]["toolUseResult"] = {"file": {"content": text}}
print("with toolUseResult   ", count_tokens(lines))
EOF""",
        "Count a transcript line with and without toolUseResult",
        capture={"once": r"with toolUseResult +(\d+)"},
        expect=r"without toolUseResult (\d+)\nwith toolUseResult    \1",
    ),
    Say(
        """
        {once} both times, so that was wrong: `toolUseResult` is never looked at, only
        `message.content` is. The bytes must come in through the content itself. Data URLs are the
        next candidate, since `readable_texts` knows them by their beginning only.
        """
    ),
    Bash(
        """\
python - <<'EOF'
from rehydrate.formats._reading import readable_texts

payload = "QUJD" * 50
for name, block in {
    "data url": {"type": "x", "url": f"data:application/pdf;base64,{payload}"},
    "long parameters": {"type": "x", "url": f"data:application/pdf;name={'n' * 300};base64,{payload}"},
    "source": {"type": "x", "source": {"type": "base64", "data": payload}},
    "blob": {"type": "resource", "resource": {"uri": "file:///a.pdf", "blob": payload}},
    "b64_json": {"type": "x", "b64_json": payload},
}.items():
    leaked = any(payload in text for text in readable_texts(block))
    print(f"{name:16} {'LEAKS' if leaked else 'ok'}")
EOF""",
        "Which shapes of base64 are read as text",
        expect=r"blob +LEAKS",
    ),
    Say(
        """
        There it is: `blob`. That is where MCP puts the bytes of an embedded resource
        (`{"type": "resource", "resource": {"uri", "mimeType", "blob"}}`), and it is not among the
        opaque keys. `b64_json` and a data URL with very long parameters slip through as well, but
        neither is a shape that MCP sends. I'll reproduce `blob` at Meridian's size before I
        believe it.
        """
    ),
    Bash(REPRODUCE, "Reproduce with a 90 kB PDF", capture={"tokens": r"(\d+) tokens"}),
    Say(
        """
        {tokens} tokens for three short messages and a 90 kB file: this is RH-2291. Now who
        else reads blocks of unknown shape.
        """
    ),
    Together(
        Grep(pattern=r"readable_texts|add_readable", path="python"),
        Grep(pattern=r"blob|b64", path="python", names_only=True),
        Grep(pattern=r"blob|resource", path="tests"),
    ),
    Together(
        Read(path=ANTHROPIC),
        Read(path=OPENAI),
    ),
    Say(
        """
        The cause is clear, the fix needs a decision of yours:

        `_read_other` (Anthropic, and through it Claude Code) and `_read_content` (OpenAI chat)
        both hand a `resource` to `readable_texts`, which skips `data` but not `blob`. If I only
        make `blob` opaque, a PDF costs nothing at all, and a conversation full of PDFs would be
        under budget on paper and refused by the provider. Should a resource with bytes cost the
        same constant as an image, or something by its size?
        """
    ),
    User(
        """
        The constant, 1,600 like every other medium. By size would be a guess too and we would have
        to explain it. What a resource says in words (its text, its uri) goes on counting as text.
        Do it for Anthropic and OpenAI chat alike. And b64_json: leave it for now.
        """,
        pause=160,
    ),
    Say("Constant it is, in both formats. The existing tests first, to write the new ones alike."),
    Together(
        Read(path="tests/formats/test_openai_chat.py", limit=85),
        Read(path="tests/formats/test_anthropic.py"),
    ),
    Write(path=TEST, content=FIRST_TEST),
    Bash(
        f"python -m pytest {TEST}",
        "Run the new tests, which must fail",
        fails=True,
        expect="4 failed, 2 passed",
    ),
    Say(
        """
        Four fail for the reason reported, and the two about text pass already and must go on
        passing. The opaque key first, since it serves every format at once.
        """
    ),
    Edit(path=READING, old='*("data", "signature",', new='*("data", "blob", "signature",'),
    Bash(
        f"python -m pytest {TEST} --tb=line",
        "Run the new tests again",
        fails=True,
        expect="2 failed, 4 passed",
    ),
    Say(
        """
        The bytes are gone from the text; what is missing is the price. Both formats need the same
        question answered, so it goes beside `readable_texts`, which both import already.
        """
    ),
    Edit(
        path=READING,
        old="def readable_texts(value: object, depth: int = 0)",
        new='''\
def holds_bytes(block: Mapping[str, Any]) -> bool:
    """Whether it is an MCP resource with bytes in it: a medium, whatever its MIME type.

    >>> holds_bytes({"type": "resource", "resource": {"uri": "file:///a.pdf", "blob": "JVBE"}})
    True
    """
    resource = block.get("resource")
    return isinstance(resource, Mapping) and isinstance(resource.get("blob"), str)


def readable_texts(value: object, depth: int = 0)''',
    ),
    Edit(
        path=READING,
        old='    "readable_texts",\n',
        new='    "holds_bytes",\n    "readable_texts",\n',
    ),
    Edit(
        path=ANTHROPIC,
        old='        draft.images += 1\n    elif block_type == "document":',
        new="        draft.images += 1\n    elif holds_bytes(block):\n        draft.images += 1\n"
        '        draft.add_readable(block, kind)\n    elif block_type == "document":',
    ),
    Edit(path=ANTHROPIC, old="    as_role,\n", new="    as_role,\n    holds_bytes,\n"),
    Bash(
        f"python -m pytest {TEST} --tb=line",
        "Run the new tests again",
        fails=True,
        expect="1 failed, 5 passed",
    ),
    Say("Anthropic is right, and Claude Code with it. Now OpenAI chat."),
    Edit(path=OPENAI, old="    as_role,\n", new="    as_role,\n    holds_bytes,\n"),
    Edit(
        path=OPENAI,
        old="            images += 1\n        else:\n",
        new="            images += 1\n        else:\n            images += holds_bytes(part)\n",
    ),
    Together(
        Bash(f"python -m pytest {TEST}", "Run the new tests", expect="6 passed"),
        Bash(REPRODUCE, "Reproduce with a 90 kB PDF again", capture={"after": r"(\d+) tokens"}),
    ),
    Say("From {tokens} to {after}. Now everything else that reads messages, in full."),
    Bash("python -m pytest tests/test_formats.py", "Run the format tests", fails=True),
    Say("There is no such file, the format tests are a folder."),
    Bash(
        "python -m pytest tests/formats -vv 2>&1 | cut -c1-150",
        "Run all format tests",
        expect=r"\d+ passed",
        capture={"passed": r"(\d+) passed"},
    ),
    Say("All {passed} pass. The linter, the formatter, and the whole change to read."),
    Bash(
        f"ruff check {READING} {ANTHROPIC} {OPENAI} {TEST} && "
        f"ruff format --check {READING} {ANTHROPIC} {OPENAI} {TEST}",
        "Lint and check the formatting",
    ),
    Together(
        Bash("git diff", "Show the whole change"),
        Bash("git status --short", "Check that nothing else changed"),
    ),
    Say(
        """
        RH-2291 is fixed in the working tree, not committed, as you asked.

        - **Cause**: MCP resources carry their bytes under `resource.blob`, and `readable_texts`
          skipped `data` but not `blob`, so base64 was counted as text.
        - **Fix**: `blob` is opaque in `_reading.py`; a resource that holds bytes counts as one
          medium (1,600) in Anthropic, Claude Code and OpenAI chat; its `uri` and `text` still
          count as text.
        - **Measured**: the reproduction went from {tokens} to {after} tokens.
        - **Left alone**, for RH-2304: `b64_json`, and a data URL whose parameters are longer
          than 200 characters, are still read as text.

        One limit to tell Meridian: if their client puts the result into an OpenAI tool message as
        a JSON *string*, we see one string, and the bytes inside still count.
        """
    ),
    User(
        """
        Good catch about the string, I'll tell them. Before the next task, a question: a second
        result for the same call id, what happens to it when we compact? Meridian's client retries
        calls and sometimes leaves both results in.
        """,
        pause=240,
    ),
    Together(
        Read(path="python/rehydrate/formats/_grouping.py"),
        Grep(pattern="duplicate_result", path="python"),
    ),
    Read(path="python/rehydrate/formats/_anthropic_rules.py", start="^class _Pairing", limit=80),
    Bash(
        """\
python - <<'EOF'
from rehydrate import compact_context, validate

call = {"type": "tool_use", "id": "t1", "name": "fetch", "input": {"url": "a"}}
def result(text):
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": text}]}

messages = [
    {"role": "user", "content": "Fetch a."},
    {"role": "assistant", "content": [call]},
    result("timed out " * 40),
    {"role": "assistant", "content": "It timed out, the client tries again."},
    result("<html>a</html> " * 40),
    {"role": "assistant", "content": "Here it is."},
    {"role": "user", "content": "Thanks. What next?"},
]
print([(v.index, v.rule) for v in validate(messages)])
for ratio in (0.9, 0.5, 0.1):
    kept = compact_context(messages, target_ratio=ratio)
    print(ratio, [messages.index(m) for m in kept.messages])
EOF""",
        "Compact a conversation with a repeated result",
        expect="duplicate_result",
    ),
    Say(
        """
        It stays with its call, or both go. `group` pairs a result with the latest unanswered call
        of its id; if there is none, it joins the call that was already answered, so the call, the
        first result and the second are one unit, and compaction keeps or drops them whole.

        `validate` does report it (`duplicate_result`), because the provider would refuse the
        request with both results in it. We do not repair that: input that was invalid stays as
        invalid as it was, and no call is ever left without its result by us. So for Meridian: safe
        with us, but their client should drop the first result before sending.
        """
    ),
]
