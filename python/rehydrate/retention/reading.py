"""A minimal reader of messages in any format: role, text, tool inputs, and a session's steps.

It does not use the product's parser: a measure that shares code with what it measures shares its
mistakes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rehydrate import formats
from rehydrate._text import without_elements

_RUN = re.compile(r"[\w./@~-]+")
_JOINER = re.compile(r"\w[./@_-]\w|\d")
_CAMEL = re.compile(r"[a-z][A-Z]")

MIN_CHARS = 4
MIN_LINE_CHARS = 15
"""A shorter line, such as `return None`, is typed again by chance."""
_MARK = re.compile(r"\[\.\.\. [^\n\[]*? \.\.\.\]")
_ESCAPE = re.compile(r'\\(["\\/nrt])')
_ESCAPED = {"n": "\n", "r": "\n", "t": "\t"}


def names_in(text: str) -> frozenset[str]:
    """Return the paths, identifiers, ids and numbers of at least four characters in a text.

    >>> sorted(names_in("Fix parse_row in src/rows.py, order HAT017, and the userName there."))
    ['HAT017', 'parse_row', 'src/rows.py', 'userName']
    """
    runs = (run.rstrip(".-").lstrip("-") for run in _RUN.findall(text))
    return frozenset(
        run
        for run in runs
        if len(run) >= MIN_CHARS and (_JOINER.search(run) or _CAMEL.search(run) or run[0] == "/")
    )


def lines_in(text: str) -> frozenset[str]:
    """Return the lines of at least 15 characters, each run of white space in them as one blank.

    >>> sorted(lines_in("def total(rows):\\n    return  sum(rows.values())\\n}"))
    ['def total(rows):', 'return sum(rows.values())']
    """
    return frozenset(
        line
        for raw in text.splitlines()
        if len(raw) >= MIN_LINE_CHARS and len(line := " ".join(raw.split())) >= MIN_LINE_CHARS
    )


def find_lines(lines: frozenset[str], text: str) -> frozenset[str]:
    """Return those of these lines of `lines_in` that are in a text, alone or within a longer one.

    A text with escapes, as JSON has them, is searched without them too.

    >>> lines = frozenset(["return sum(rows)", "return min(rows)"])
    >>> sorted(find_lines(lines, "7: return  sum(rows);"))
    ['return sum(rows)']
    """
    if not lines:
        return lines
    if "\\" in text:
        text += "\n" + _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[1]), text)
    in_lines = [" ".join(line.split()) for line in text.splitlines()]
    whole = lines.intersection(in_lines)
    text = "\n".join(in_lines)
    words = set(text.split())  # most lines have a word that is not there
    others = lines - whole
    return whole | {
        line for line in others if words.issuperset(line.split(" ")[1:-1]) and line in text
    }


def without_marks(text: str) -> str:
    """Return the text without the marks that an excerpt writes in place of what it left out.

    >>> without_marks("a\\n[... 42 lines omitted, 118-159 ...]\\nb")
    'a\\n\\nb'
    """
    return _MARK.sub("", text) if "[... " in text else text


Message = dict[str, Any]
_Object = Mapping[str, Any]

_ITEM_CALLS = ("function_call", "custom_tool_call")
_ITEM_RESULTS = ("function_call_output", "custom_tool_call_output")
# Text that a harness writes into the user's messages, around or next to the user's own.
_HARNESS = re.compile(r"<(/?)(system-reminder|command-[a-z]+|local-command-[a-z]+|bash-[a-z]+)>")


def payload(message: Message) -> _Object:
    """Return the API message itself; a transcript entry holds it under `message`, and what was
    queued while the agent worked under `attachment`. A line of Codex holds its item under
    `payload`, and its summary there."""
    inner = message.get("message")
    item = message.get("payload")
    if isinstance(item, Mapping) and "role" not in message:
        if message.get("type") == "compacted":
            return {"role": "user", "content": item.get("message")}
        return item
    queued = message.get("attachment")
    if isinstance(queued, Mapping) and "message" not in message:
        return {"role": "user", "content": queued.get("prompt")}
    return inner if isinstance(inner, Mapping) else message


def role_of(message: Message) -> str:
    """Return the role as written; for OpenAI Responses items, that of the item type."""
    body = payload(message)
    kind = body.get("type")
    if kind in _ITEM_CALLS or kind == "reasoning":
        return "assistant"
    if kind in _ITEM_RESULTS:
        return "tool"
    return str(body.get("role", ""))


def is_system(message: Message) -> bool:
    """Return whether it is a system or a developer message, which every method keeps."""
    return role_of(message) in ("system", "developer")


def text_of(message: Message) -> str:
    """Return all text of the message: text, tool calls with their inputs, tool results.

    Thinking is left out, since providers drop it, and so is every payload that is not text.
    """
    return "\n".join(_texts(payload(message)))


def tool_inputs(message: Message) -> str:
    """Return the values that the message passes to tools, one a line, without parameter names."""
    body = payload(message)
    inputs = [block.get("input") for block in _blocks(body) if block.get("type") == "tool_use"]
    inputs += [_arguments(call.get("function", {})) for call in _calls(body)]
    if body.get("type") in _ITEM_CALLS:
        inputs.append(_arguments(body))
    return "\n".join(leaf for value in inputs for leaf in _leaves(value))


def tool_texts(message: Message) -> str:
    """Return the values that the message passes to tools, and the texts of the results in it."""
    body = payload(message)
    if role_of(message) == "tool":
        return "\n".join(_texts(body))
    results = [block for block in _blocks(body) if block.get("type") == "tool_result"]
    texts = [text for block in results for text in _texts(block)]
    return "\n".join(filter(None, [tool_inputs(message), *texts]))


def is_tool_result(message: Message) -> bool:
    """Return whether the message answers a tool call."""
    return role_of(message) == "tool" or any(
        block.get("type") == "tool_result" for block in _blocks(payload(message))
    )


def user_text(message: Message) -> str:
    """Return the user's own words in it: no tool result, and nothing that a harness adds.

    >>> user_text({"role": "user", "content": "Go on. <system-reminder>x</system-reminder>"})
    'Go on.'
    """
    body = payload(message)
    if role_of(message) != "user" or not _is_of_the_user(message):
        return ""
    content = body.get("content")
    texts = [content] if isinstance(content, str) else [b.get("text") for b in _blocks(body)]
    said = "\n".join(text for text in texts if isinstance(text, str))
    return without_elements(said, _HARNESS).strip()


def _is_of_the_user(message: Message) -> bool:
    queued = message.get("attachment")
    source = queued if isinstance(queued, Mapping) else message
    origin = source.get("origin")
    kind = origin.get("kind", "human") if isinstance(origin, Mapping) else "human"
    is_said = source.get("commandMode", "prompt") == "prompt" and kind == "human"
    return is_said and not (message.get("isMeta") or is_summary(message))


def is_summary(message: Message) -> bool:
    """Return whether it is an agent's summary, written when its window was full."""
    return message.get("isCompactSummary") is True or (
        message.get("type") == "compacted" and isinstance(message.get("payload"), Mapping)
    )


def count_messages(messages: Sequence[Message]) -> int:
    """Return the number of messages; a transcript's entries with one id count once."""
    return len({str(payload(m).get("id") or f"#{i}") for i, m in enumerate(messages)})


def estimate_cost(message: Message) -> int:
    """Estimate tokens by characters, without an exact counter: ceil(chars / 3.5)."""
    return math.ceil(len(text_of(message)) / 3.5)


def steps(messages: Sequence[Message]) -> list[range]:
    """Group the indices of the messages into steps, so that no tool call is apart from its results.

    A step starts at a message that answers no tool call and continues no earlier assistant message:
    transcripts write one message as several entries with one id, results in between. Responses
    items stay together from a reasoning, or the first of parallel calls, to the last result.

    >>> call = {"role": "assistant", "tool_calls": []}
    >>> steps([{"role": "user", "content": "Hi"}, call, {"role": "tool", "content": "42"}])
    [range(0, 1), range(1, 3)]
    """
    seen: set[str] = set()
    open_items: set[str] = set()  # calls of Responses items without a result yet
    follows_reasoning = False
    starts: list[int] = []
    for index, message in enumerate(messages):
        body = payload(message)
        kind = body.get("type")
        identity = body.get("id") if role_of(message) == "assistant" else None
        continues = isinstance(identity, str) and identity in seen
        continues = continues or follows_reasoning or (bool(open_items) and kind in _ITEM_CALLS)
        if not starts or not (continues or is_tool_result(message)):
            starts.append(index)
            open_items.clear()
        if isinstance(identity, str):
            seen.add(identity)
        follows_reasoning = kind == "reasoning"
        if kind in _ITEM_CALLS:
            open_items.add(str(body.get("call_id")))
        elif kind in _ITEM_RESULTS:
            open_items.discard(str(body.get("call_id")))
    return [range(a, b) for a, b in zip(starts, [*starts[1:], len(messages)], strict=True)]


def _texts(body: _Object) -> Iterator[str]:
    content = body.get("content")
    if isinstance(content, str):
        yield content
    for block in _blocks(body):
        kind = block.get("type")
        if kind == "tool_use":
            yield str(block.get("name", ""))
            yield from _leaves(block.get("input"))
        elif kind == "tool_result":
            yield from _texts(block)
        elif kind not in ("thinking", "redacted_thinking") and isinstance(block.get("text"), str):
            yield block["text"]
    functions = [call.get("function", {}) for call in _calls(body)]
    for function in [*functions, *([body] if body.get("type") in _ITEM_CALLS else [])]:
        yield str(function.get("name", ""))
        yield from _leaves(_arguments(function))
    yield from _texts({"content": body["output"]}) if "output" in body else ()


def _blocks(body: _Object) -> list[_Object]:
    content = body.get("content")
    return [b for b in content if isinstance(b, Mapping)] if isinstance(content, list) else []


def _calls(body: _Object) -> list[_Object]:
    calls = body.get("tool_calls")
    return [c for c in calls if isinstance(c, Mapping)] if isinstance(calls, list) else []


def _arguments(function: _Object) -> Any:
    """Return the arguments of a call, decoded; the raw text where it is not JSON."""
    raw = function.get("arguments", function.get("input"))
    if not isinstance(raw, str):
        return raw
    try:
        return json.loads(raw)
    except ValueError:
        return raw


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)


_BINDING = re.compile(
    # At the head of a clause these bind; elsewhere ("I don't know", "they never stop") they tell.
    r"(?:^|[,;:(*-] ?|\b(?:please|and|but|then|should|must|to) )"
    r"(?:never|always|do not|don't|only|avoid|prefer|use only|stick to|remember|keep in mind)\b"
    r"|\b(?:must(?:n't| not)?(?!['’-]| (?:have|be|feel)\b)"
    r"|shall not|may not|not allowed|forbidden"
    r"|prefer|no more than|at most|at least|upper limit|limit of|budget|deadline|cap (?:of|is)"
    r"|make sure|from now on|for the whole|without (?:asking|my)|unless|requirement)\b"
    r"|\b(?:niemals|immer|müssen|muss|darf(?:st)? (?:nicht|kein)|höchstens|mindestens)\b"
    r"|\b(?:ne \w+ jamais|toujours|dois|doit|interdit|au plus|au moins)\b"
    r"|\b(?:nunca|siempre|sempre|debe|deve|prohibido|proibido|como máximo|al menos|vietato)\b"
    r"|никогда|всегда|нельзя|должн|не более|обязательно|запрещ"
    r"|必须|不要|不得|禁止|务必|永远|总是|不能|至少|最多|必ず|しないで|絶対|してはいけない|以内",
    re.I,
)
_CODE = re.compile(r"```.*?(?:```|\Z)", re.S)
_SENTENCE = re.compile(r"(?<=[.!?;])\s+(?=\S)|(?<=[。！？；])")
_WORD = re.compile(r"\w+")
_BLANK = re.compile(r"\s+")

MIN_SENTENCE_CHARS, MAX_SENTENCE_CHARS = 12, 400
"""Length of a sentence that counts: a shorter one is empty talk, a longer one is pasted."""
MAX_SENTENCES = 200
"""The first sentences of a session count: a user pastes a handbook once."""
WORDS_SHARE = 0.75
"""The share of a sentence's words that one line must hold, to count as the same instruction."""


def binding_instructions(messages: Iterable[Message]) -> tuple[str, ...]:
    """Return the sentences of user turns that bind the rest of the session, each once.

    >>> turn = {"role": "user", "content": "Fix the test. Never touch src/engine.rs! Thanks."}
    >>> binding_instructions([turn])
    ('Never touch src/engine.rs!',)
    """
    found: dict[str, None] = {}
    for message in messages:
        for line in _CODE.sub("\n", user_text(message)).splitlines():
            for sentence in map(str.strip, _SENTENCE.split(line)):
                # In other scripts a word may be one or two characters: half as many say as much.
                min_chars = MIN_SENTENCE_CHARS // (1 if sentence.isascii() else 2)
                is_question = sentence.endswith(("?", "？"))
                if is_question or not min_chars <= len(sentence) <= MAX_SENTENCE_CHARS:
                    continue
                if _BINDING.search(sentence):
                    found[sentence] = None
        if len(found) >= MAX_SENTENCES:
            break
    return tuple(found)[:MAX_SENTENCES]


def instructions_kept(sentences: Sequence[str], kept: Sequence[Message]) -> float | None:
    """Return the share of these sentences that is still there; None where there are none.

    >>> summary = {"role": "user", "content": "Rules: src/engine.rs is never touched."}
    >>> instructions_kept(["Never touch src/engine.rs!"], [summary])
    1.0
    """
    if not sentences:
        return None
    whole = "\n".join(text_of(message) for message in kept)
    missing = [sentence for sentence in sentences if sentence not in whole]
    if missing:
        whole = single_spaced(whole)
        missing = [sentence for sentence in missing if single_spaced(sentence) not in whole]
    if not missing:
        return 1.0
    text = "\n".join(text_of(message) for message in kept if not is_tool_result(message))
    lines = [_words(line) for line in dict.fromkeys(text.splitlines())]
    lost = 0
    for sentence in missing:
        words = _words(sentence)
        needed = max(1, WORDS_SHARE * len(words))
        lost += not any(len(line) >= needed and len(words & line) >= needed for line in lines)
    return 1 - lost / len(sentences)


def single_spaced(text: str) -> str:
    """Return the text with each run of white space as one blank."""
    return _BLANK.sub(" ", text)


def _words(text: str) -> frozenset[str]:
    """Return the words cut to their first letters, so that `touch` equals `touched`."""
    return frozenset(word[:5] for word in _WORD.findall(text.casefold()))


_TURN_ID = re.compile(r"D\d+:\d+")


@dataclass(frozen=True, slots=True)
class Question:
    """A question, the indices of the messages that answer it, and its answer if there is one."""

    text: str
    evidence: tuple[int, ...]
    answer: str = ""


@dataclass(frozen=True, slots=True)
class Summary:
    """An agent's summary, written in place of messages `start` to `end` when its window was full.

    The previous summary, if there is one, came before these messages.
    """

    message: Message
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation to measure on; `format` is its name in `compact_context`."""

    name: str
    messages: list[Message]
    format: str = "plain"
    questions: tuple[Question, ...] = ()
    summaries: tuple[Summary, ...] = ()


def read_locomo(path: str | Path) -> list[Conversation]:
    """Read LoCoMo (ACL 2024): long two-person conversations; the first speaker is the user.

    A question counts where its evidence names at least one turn that exists.
    """
    return [locomo(sample) for sample in json.loads(Path(path).read_text(encoding="utf-8"))]


def read_tau_bench(path: str | Path) -> list[Conversation]:
    """Read tau-bench trajectories in OpenAI chat format, without their system prompt.

    Every method keeps the prompt, which is longer than most of these conversations: it alone would
    use up a small budget.
    """
    return [tau_bench(each) for each in json.loads(Path(path).read_text(encoding="utf-8"))]


def read_claude_code(path: str | Path) -> Conversation:
    """Read a Claude Code transcript: the entries of its conversation unchanged, in order.

    Progress lines, snapshots and the like are left out, and so is what the user took back. So is
    the agent's own summary of an automatic compaction: the messages it replaced are in the file,
    and they are to be compacted.
    """
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    entries = [json.loads(line) for line in lines if line.strip()]
    read = formats.parse(entries, "claude_code")
    spoken = [entries[message.index] for message in read.messages]
    kept = [entry for entry in spoken if not entry.get("isCompactSummary")]
    return Conversation(Path(path).stem, kept, "claude_code")


def tau_bench(trajectory: dict[str, Any]) -> Conversation:
    """Read one trajectory of tau-bench."""
    name = f"task {trajectory['task_id']} trial {trajectory['trial']}"
    spoken = [message for message in trajectory["traj"] if message["role"] != "system"]
    return Conversation(name, spoken, "openai_chat")


def locomo(sample: dict[str, Any]) -> Conversation:
    """Read one conversation of LoCoMo."""
    record = sample["conversation"]
    messages: list[Message] = []
    index_of: dict[str, int] = {}
    for _, turn in locomo_turns(record):
        index_of[turn["dia_id"]] = len(messages)
        role = "user" if turn["speaker"] == record["speaker_a"] else "assistant"
        messages.append({"role": role, "content": f"{turn['speaker']}: {turn['text']}"})
    questions: list[Question] = []
    for entry in sample["qa"]:
        # Some evidence is written as "D8:6; D9:17" or names a turn that does not exist.
        named = [turn for text in entry.get("evidence", ()) for turn in _TURN_ID.findall(text)]
        evidence = tuple(sorted({index_of[turn] for turn in named if turn in index_of}))
        if evidence:
            answer = str(entry.get("answer", ""))
            questions.append(Question(str(entry["question"]), evidence, answer))
    return Conversation(str(sample["sample_id"]), messages, "plain", tuple(questions))


def locomo_turns(record: dict[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield every turn of a LoCoMo conversation, in order, with the number of its session."""
    session = 1
    while f"session_{session}" in record:
        for turn in record[f"session_{session}"]:
            yield session, turn
        session += 1
