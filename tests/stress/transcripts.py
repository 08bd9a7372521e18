"""Real conversations through every door: the same conversation, the same count, valid prompts.

    python -m tests.stress.transcripts ~/.claude/projects ../shared/data

Each argument is a file or a folder. A file holds one conversation in any format, or many of them
(``messages``, ``traj``, or a LoCoMo ``conversation`` in each entry of a list). What `formats.parse`
reads of it is what every door must say: the same messages, the same tokens, and prompts that the
provider takes. One row is printed for each conversation, then each fault. `KNOWN` names what may
differ, and why.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import re
import shutil
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import rehydrate
from rehydrate import Budget, Context, cli, formats
from rehydrate._native import SessionOutline, last_turns, transcripts
from rehydrate.errors import RehydrateError
from rehydrate.integrations.claude_code import events
from rehydrate.integrations.mcp_server.jobs import Job
from rehydrate.integrations.mcp_server.session_index import SessionIndex, transcript_roots
from rehydrate.messages import PROVIDER_OF, PROVIDERS, Conversation, PieceKind
from rehydrate.prompt import ContextRequest, History, PromptIR, compile
from rehydrate.retention.reading import locomo
from rehydrate.rpc.server import Server
from tests.stress.host_messages import HOST_MESSAGES
from tests.stress.hosts import hosts, through as through_host

KNOWN: Mapping[str, str] = {
    "plain: of any provider": "a list of texts is found as plain, whoever it is for",
    "count: before a compaction": "lint's current tokens begin at the last compaction of a file",
    "count: rounding": "an excerpt is counted with its marks, to a token a message",
    "hooks: the last turns": "a hook reads the last turns, without thinking and media",
    "LangChain, hosts: arguments": "the JSON of a call's arguments is written in another way",
    "hosts: no system, no thinking": "the hosts keep instructions elsewhere, and thoughts apart",
    "converted: notes": "what another provider cannot take is named in `ir.meta.degraded`",
}
"""Differences that doors may have, by name."""

AGENTS = ("claude_code", "codex")
_WORD = re.compile(r"\w+")
_SUFFIXES = (".jsonl", ".json", ".traj")
_RATIOS = (0.1, 0.4, 0.8)
_PROMPTS = 4
"""How many prompts are made of a conversation that grows."""


class Transcript(NamedTuple):
    """One conversation, with its own file, and what `formats.parse` reads of it."""

    name: str
    path: Path
    entries: Sequence[Any]
    read: Conversation
    tokens: int
    violations: Counter[str]
    home: Path
    """A folder that the doors may write to."""

    @property
    def provider(self) -> str:
        """The provider that it is for; any for plain texts."""
        found: str = PROVIDER_OF.get(self.read.format, self.read.format)
        return found if found in PROVIDERS else "openai_chat"


class FaultError(Exception):
    """A door that says something else."""


def check(is_right: object, what: str) -> None:
    """Raise a fault that says what, unless it is right."""
    if not is_right:
        raise FaultError(what)


def same(what: str, found: object, expected: object) -> None:
    """Raise a fault unless the two are equal."""
    check(found == expected, f"{what}: {str(found)[:120]}, expected {str(expected)[:120]}")


def texts_of(conversation: Conversation) -> Counter[str]:
    """Return every text of a conversation but thinking, and how often each is there."""
    pieces = [piece for message in conversation.messages for piece in message.pieces]
    return Counter(piece.text for piece in pieces if piece.kind is not PieceKind.THINKING)


def _read(t: Transcript) -> None:
    found = formats.detect_format(t.entries)
    same("its format", found, t.read.format)
    members = [index for unit in t.read.units for index in unit.members]
    same("the messages in its units", sorted(members), [each.index for each in t.read.messages])
    same("count_tokens", rehydrate.count_tokens(t.entries, format=t.read.format), t.tokens)
    broken = Counter(each.rule for each in rehydrate.validate(t.entries))
    same("the violations of what is detected", broken, t.violations)


def _compact(t: Transcript) -> None:
    whole = rehydrate.compact_context(t.entries, target_ratio=1.0)
    same("the messages at ratio 1", whole.messages, [*t.entries])
    same("the tokens before", whole.stats.before_tokens, t.tokens)
    for granularity in ("message", "excerpt"):
        for ratio in _RATIOS:
            for thinking in ("auto", "strip") if ratio == 0.4 else ("auto",):
                _compact_to(t, ratio, granularity, thinking)


def _compact_to(t: Transcript, ratio: float, granularity: Any, thinking: Any) -> None:
    name = f"{ratio} {granularity} {thinking}"
    made = rehydrate.compact_context(
        t.entries, target_ratio=ratio, granularity=granularity, thinking=thinking
    )
    stats = made.stats
    if thinking != "strip":
        same(f"{name}: the tokens before", stats.before_tokens, t.tokens)
    check(stats.over_budget or stats.after_tokens <= stats.target_tokens, f"{name}: over budget")
    valid(f"{name}: what is kept", made.messages, t.read.format, t.violations)
    after = rehydrate.count_tokens(made.messages, format=t.read.format)
    rounding = stats.excerpted
    check(abs(after - stats.after_tokens) <= rounding, f"{name}: {after}, {stats.after_tokens}")
    check(made.indices == sorted(made.indices), f"{name}: the order changed")
    if granularity == "message" and not stats.stripped:
        kept = formats.parse(made.messages, t.read.format)
        more = texts_of(kept) - texts_of(t.read)
        check(not more, f"{name}: a text that nobody said: {str(more)[:200]}")
    again = rehydrate.compact_context(made.messages, budget_tokens=max(1, after))
    same(f"{name}: compacted again", again.messages, made.messages)


def valid(
    what: str, messages: Sequence[Any], format: str, before: Counter[str], *, is_open: bool = False
) -> None:
    """Raise a fault where messages break a rule more often than what they were made of."""
    found = Counter(each.rule for each in rehydrate.validate(messages, format))
    if is_open:
        found = Counter({rule: n for rule, n in found.items() if "unanswered" not in rule})
    more = found - before
    check(not more, f"{what}: {dict(more)}")


def _grow(t: Transcript) -> None:
    """The conversation is added turn by turn, and compacted on the way."""
    last = t.read.messages[-1].index if t.read.messages else 0
    turns = [m.index for m in t.read.messages if m.is_user_turn] or [last]
    stops = {turns[round(n * (len(turns) - 1) / _PROMPTS)] for n in range(1, _PROMPTS + 1)}
    for soft in (max(600, t.tokens // 3), 4 * t.tokens + 4_000):
        budget = Budget(soft_tokens=soft, hard_tokens=10 * t.tokens + 100_000)
        context = Context(provider=t.provider, format=t.read.format, budget=budget, passes=None)
        for index, entry in enumerate(t.entries):
            context.add(entry)
            if index in stops:
                prompt = context.prompt()
                valid(f"the prompt at {index}", prompt.messages, t.provider, _rules(t, context))
        same("its history", context.history, [*t.entries])
        prompt = context.prompt()
        valid("the last prompt", prompt.messages, t.provider, _rules(t, context), is_open=True)
        str(context.store)


def _rules(t: Transcript, context: Context) -> Counter[str]:
    """Return what the history breaks so far: it comes out as it came in."""
    if not t.violations:
        return Counter()
    return Counter(each.rule for each in rehydrate.validate(context.history, t.read.format))


def _compile(t: Transcript) -> None:
    said = texts_of(t.read)
    for provider in PROVIDERS:
        history = History(tuple(t.entries), t.read.format)
        budget = Budget(soft_tokens=10 * t.tokens + 1_000, hard_tokens=20 * t.tokens + 2_000)
        ir = PromptIR(ContextRequest("", budget=budget), (), (), history)
        prompt = compile(ir, provider, passes=())
        same("the tokens of a history", sum(prompt.ir.history.tokens), t.tokens)
        valid(f"compiled for {provider}", prompt.messages, provider, t.violations, is_open=True)
        shown = _strings(prompt.request)
        words = set(_WORD.findall(shown))
        missing = [each for each in said if each not in shown and _said_in(each) - words]
        notes = " ".join(prompt.ir.meta.degraded)
        if "is not sent" not in notes and "as text" not in notes:
            check(not missing, f"{provider} is not reported {len(missing)}: {str(missing)[:200]}")
        same("an IR as JSON", PromptIR.from_json(ir.to_json()).history.entries, ir.history.entries)
    found = rehydrate.hydrate("", messages=t.entries, timeout=None)
    same("the tokens of what is hydrated", sum(found.history.tokens), t.tokens)
    str(found.explain())


def _said_in(text: str) -> set[str]:
    """Return the words of a text, or of the values that a call passes: each provider writes these
    in its way."""
    tool, _, given = text.partition(" ")
    if given[:1] == "{":
        with contextlib.suppress(ValueError):
            return set(_WORD.findall(f"{tool} {_strings(json.loads(given))}"))
    return set(_WORD.findall(text))


def _strings(value: object) -> str:
    """Return every string in a value, one after the other, and those in JSON."""
    if isinstance(value, str):
        try:
            return f"{value}\n{_strings(json.loads(value)) if value[:1] == '{' else ''}"
        except ValueError:
            return value + "\n"
    if isinstance(value, Mapping):
        return "".join(map(_strings, value.values()))
    return "".join(map(_strings, value)) if isinstance(value, (list, tuple)) else ""


def _lint(t: Transcript) -> None:
    for finding in rehydrate.lint(t.entries):
        str(finding)


def _run(*arguments: str) -> str:
    """Run a command, and return what it printed."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = cli.main(arguments)
        except SystemExit as ended:
            code = int(ended.code or 0)
    printed, said = (each.buffer.getvalue().decode() for each in (out, err))
    check(code == 0, f"rehydrate {arguments[0]} ended with {code}: {said[:200]}")
    return printed


def _commands(t: Transcript) -> None:
    path = str(t.path)
    made = json.loads(_run("compact", path, "--json"))
    direct = rehydrate.compact_context(t.entries)
    same("compact: tokens before", made["stats"]["before_tokens"], t.tokens)
    same("compact: tokens after", made["stats"]["after_tokens"], direct.stats.after_tokens)
    same("compact: the messages", made["messages"], direct.messages)
    output = t.home / "compacted.jsonl"
    _run("compact", path, "-o", str(output))
    written = _run("compact", str(output), "--json", "--ratio", "1")
    same("compact: what it wrote", json.loads(written)["messages"], direct.messages)
    linted = json.loads(_run("lint", path, "--json", "--fail-on", "never"))
    same("lint: tokens", linted["tokens"], t.tokens)
    if formats.last_compaction(t.read, t.entries) is None:
        same("lint: tokens now", linted["current_tokens"], t.tokens)
    shown = PromptIR.from_json(
        _run("inspect", path, "--json", "--budget", "99000k", "--hard", "99000k")
    )
    seen = texts_of(formats.parse(shown.history.entries, shown.history.format))
    missing = texts_of(t.read) - seen
    check(not missing or shown.meta.degraded or shown.meta.trace, f"inspect: {str(missing)[:200]}")
    _run("compact", path, "--explain", "--top", "3")


def _batch(t: Transcript) -> None:
    import pyarrow as pa

    from rehydrate.batch import compact_batch, count_tokens_batch

    texts = [json.dumps([*t.entries])]
    table = pa.table({"id": ["a"], "messages": texts})
    counted = pa.table(count_tokens_batch(table)).to_pylist()[0]
    same("count_tokens_batch", counted["tokens"], t.tokens)
    (row,) = pa.table(compact_batch(table)).to_pylist()
    check(not row.get("error"), f"compact_batch: {row.get('error')}")
    direct = rehydrate.compact_context(t.entries).stats
    same("compact_batch", row["before_tokens"], direct.before_tokens)
    same("compact_batch", row["after_tokens"], direct.after_tokens)


def _rpc(t: Transcript) -> None:
    params = {"name": "compact_context", "arguments": {"messages": [*t.entries]}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    reply = json.loads(Server().answer(json.loads(json.dumps(request))) or "null")
    check("result" in reply, f"rpc: {str(reply)[:200]}")
    answer = reply["result"]["structuredContent"]
    direct = rehydrate.compact_context(t.entries)
    same("rpc: tokens", answer["stats"]["before_tokens"], t.tokens)
    same("rpc: the messages", answer["messages"], json.loads(json.dumps(direct.messages)))


def _thread(t: Transcript) -> None:
    store = t.home / "threads.db"
    options: dict[str, Any] = {"format": t.read.format, "provider": t.provider}
    with Context.open(store, thread=t.name, namespace="n", **options) as context:
        context.add(*t.entries)
    where = ("--store", str(store), "-n", "n")
    shown = json.loads(_run("thread", "show", t.name, *where, "--json"))
    entries = shown["entries"] if isinstance(shown, dict) else shown
    entries = [each.get("entry", each) if isinstance(each, dict) else each for each in entries]
    same("thread show", entries, [*t.entries])
    with Context.open(store, thread=t.name, namespace="n", **options) as context:
        same("a thread that is opened again", context.history, [*t.entries])
    _run("thread", "store", t.name, *where)
    exported = t.home / "exported.jsonl"
    _run("thread", "export", t.name, str(exported), *where)
    _run("thread", "import", str(exported), "--as", f"{t.name}-2", *where)
    with Context.open(store, thread=f"{t.name}-2", namespace="n", **options) as context:
        same("a thread that is imported", context.history, [*t.entries])


def _machine(home: Path) -> dict[str, str]:
    return {
        "HOME": str(home),
        "REHYDRATE_HOME": str(home / "data"),
        "CLAUDE_CONFIG_DIR": str(home / "claude"),
        "CODEX_HOME": str(home / "codex"),
    }


def _hooks(t: Transcript) -> None:
    """The hooks of Claude Code and Codex, with this file as the session's transcript."""
    agent = "codex" if t.read.format == "codex" else "claude_code"
    said = "\n".join(texts_of(t.read))
    own = re.sub("<system-reminder>.*?</system-reminder>", "", said, flags=re.DOTALL)
    for entry in last_turns(t.path, agent):
        read = formats.parse([entry], agent)
        for text in texts_of(read):
            is_media = text in ("[image]", "[document]")
            check(is_media or text in said or text in own, f"hooks: nobody said {text[:200]!r}")
    turns = last_turns(t.path, agent)
    valid("the last turns", turns, agent, t.violations + Counter(first_not_user=1), is_open=True)
    environ = _machine(t.home)
    common = {"session_id": "s", "transcript_path": str(t.path), "cwd": str(t.home)}
    given: dict[str, dict[str, Any]] = {
        "UserPromptSubmit": {"prompt": "Go on with what we decided."},
        "PostToolUse": {
            "tool_name": "Bash",
            "tool_use_id": "toolu_x",
            "tool_input": {"command": "ls"},
            "tool_response": {"stdout": said[:60_000], "stderr": ""},
        },
        "PreCompact": {"trigger": "auto"},
        "SessionStart": {"source": "compact"},
        "SessionEnd": {"reason": "exit"},
    }
    for event, more in given.items():
        deadline = time.monotonic() + 120
        reply = events.answer(
            event, {**common, **more}, agent=agent, environ=environ, deadline=deadline
        )
        json.dumps(reply)


def _sessions(t: Transcript) -> None:
    """The MCP server's search and outline."""
    environ = _machine(t.home)
    roots = transcript_roots(environ)
    agent = "codex" if t.read.format == "codex" else "claude_code"
    name = "rollout-2026-02-17T09-30-00-0199a213-81c0-7800-8aa1-bbab2a035a53.jsonl"
    place = roots[agent] / ("2026/02/17" if agent == "codex" else "-work") / name
    place.parent.mkdir(parents=True)
    shutil.copy(t.path, place)
    (file,) = transcripts([*roots.items()])
    outline = SessionOutline(file, 2_000, 1_000)
    same("session_outline: messages", outline.messages, len(t.read.messages))
    same("session_outline: broken lines", outline.broken_lines, 0)
    index = SessionIndex(t.home / "cache", roots)
    index.update(Job())
    found = index.search("", 5)
    index.close()
    has_words = any(message.is_user_turn and message.text.strip() for message in t.read.messages)
    check(found or not has_words, "search_sessions: it is not found")


def _langchain(t: Transcript) -> None:
    chats = _chats(t, with_system=True)
    made = formats.openai_to_langchain(chats)
    read = formats.parse(made, "langchain")
    same("LangChain's words", _words_of(texts_of(read)), _words(chats))
    back = formats.langchain_to_openai(made)
    same("LangChain's, back", _words(back), _words(chats))
    again = formats.openai_to_langchain(back)
    tokens = rehydrate.count_tokens(again), rehydrate.count_tokens(made)
    same("LangChain's tokens", *tokens)
    valid("LangChain's", made, "langchain", t.violations, is_open=True)
    compaction = rehydrate.compact_context(made)
    valid("LangChain's, compacted", compaction.messages, "langchain", t.violations, is_open=True)


def _chats(t: Transcript, *, with_system: bool) -> list[dict[str, Any]]:
    """Return the conversation as chat dicts, each text a string."""
    from tests.rendered import render_history

    rendered = render_history(t.entries, t.read.format, "openai_chat")
    chats = [each.message for each in rendered.messages]
    return [each for each in chats if with_system or each["role"] != "system"]


def _hosts(t: Transcript) -> None:
    """Messages that each framework's adapter reads and sends."""
    chats = _chats(t, with_system=False)
    for name, host in hosts().items():
        made = host.load(HOST_MESSAGES[name](chats))
        read = host.read(made)
        words = _words_of(texts_of(formats.parse(read, host.format)))
        same(f"{name}: the texts", words, _words(chats))
        valid(name, read, host.format, t.violations, is_open=True)
        for soft in (10 * t.tokens + 4_000, max(600, t.tokens // 3)):
            budget = Budget(soft_tokens=soft, hard_tokens=20 * t.tokens + 100_000)
            _, sent = through_host(host, made, budget)
            valid(f"{name}: what is sent", host.read(sent), host.format, t.violations, is_open=True)


def _words(chats: Sequence[Any]) -> Counter[str]:
    """Return the words of a conversation: hosts part texts and write arguments in their way."""
    return _words_of(texts_of(formats.parse(chats, "openai_chat")))


def _words_of(texts: Counter[str]) -> Counter[str]:
    found: Counter[str] = Counter()
    for text, count in texts.items():
        for word in _WORD.findall(text):
            found[word] += count
    return found


def _is_agents(t: Transcript) -> bool:
    return t.read.format in AGENTS and t.path.suffix == ".jsonl"


DOORS: dict[str, Callable[[Transcript], None]] = {
    "read": _read,
    "compact": _compact,
    "grow": _grow,
    "compile": _compile,
    "lint": _lint,
    "commands": _commands,
    "batch": _batch,
    "rpc": _rpc,
    "thread": _thread,
    "hooks": _hooks,
    "sessions": _sessions,
    "langchain": _langchain,
    "hosts": _hosts,
}
_OF_AGENTS = ("hooks", "sessions")


class Row(NamedTuple):
    """The outcome of one conversation."""

    name: str
    format: str
    messages: int
    tokens: int
    violations: int
    faults: dict[str, str]

    def __str__(self) -> str:
        """Return the row as it is printed."""
        faults = f"faults in {', '.join(self.faults)}" if self.faults else "the same at every door"
        return (
            f"{self.name[-44:]:<44} {self.format:<16} {self.messages:>6,} messages "
            f"{self.tokens:>9,} tokens {self.violations:>3} came in  {faults}"
        )


def through(path: Path, name: str, entries: Sequence[Any], only: Iterable[str] = ()) -> Row:
    """Put one conversation through every door. What is none must be refused by all of them."""
    try:
        read = formats.parse(entries)
    except RehydrateError as error:
        return Row(name, "none", 0, 0, 0, _refused(path, entries, type(error)))
    tokens = rehydrate.count_tokens(entries)
    broken = Counter(each.rule for each in rehydrate.validate(entries))
    faults = {}
    for door, run in DOORS.items():
        with tempfile.TemporaryDirectory() as home:
            t = Transcript(name, path, entries, read, tokens, broken, Path(home))
            if (only and door not in only) or (door in _OF_AGENTS and not _is_agents(t)):
                continue
            try:
                run(t)
            except FaultError as error:
                faults[door] = str(error)
            except Exception as error:
                frame = error.__traceback__
                while frame and frame.tb_next:
                    frame = frame.tb_next
                where = (
                    f" at {frame.tb_frame.f_code.co_filename}:{frame.tb_lineno}" if frame else ""
                )
                kind = "" if isinstance(error, RehydrateError) else where
                faults[door] = f"{type(error).__name__}: {str(error)[:300]}{kind}"
    return Row(name, read.format, len(read.messages), tokens, sum(broken.values()), faults)


def _refused(path: Path, entries: Sequence[Any], kind: type[Exception]) -> dict[str, str]:
    """Return the functions that do not refuse what isn't a conversation."""
    doors: dict[str, Callable[[], Any]] = {
        "count": lambda: rehydrate.count_tokens(entries),
        "compact": lambda: rehydrate.compact_context(entries),
        "validate": lambda: rehydrate.validate(entries),
        "lint": lambda: rehydrate.lint(entries),
        "context": lambda: Context(format="plain").add(*entries),
        "hydrate": lambda: rehydrate.hydrate("", messages=entries),
    }
    faults = {}
    for door, run in doors.items():
        try:
            run()
        except kind:
            continue
        faults[door] = f"it takes what is refused with {kind.__name__}"
    for command in ("compact", "lint", "inspect"):
        try:
            _run(command, str(path))
        except FaultError:
            continue
        faults[command] = "the command takes what isn't a conversation"
    return faults


def conversations(path: Path, home: Path) -> Iterator[tuple[Path, str, list[Any]]]:
    """Yield each conversation of a file: its own file, its name and its entries."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        yield path, path.name, [json.loads(line) for line in text.splitlines() if line.strip()]
        return
    found = json.loads(text)
    if isinstance(found, Mapping):
        key = next((key for key in ("messages", "input", "history") if key in found), None)
        if key is not None:
            yield path, path.name, found[key]
    elif (
        found
        and isinstance(found[0], Mapping)
        and {"traj", "messages", "conversation"} & {*found[0]}
    ):
        for number, each in enumerate(found):
            is_locomo = "conversation" in each
            entries = locomo(each).messages if is_locomo else each.get("traj", each.get("messages"))
            name = f"{path.stem}-{number}.json"
            own = home / name
            own.write_text(json.dumps(entries), encoding="utf-8")
            yield own, name, entries
    else:
        yield path, path.name, found


def files(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the files of conversations in these files and folders."""
    for path in paths:
        inside = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (each for each in inside if each.suffix in _SUFFIXES and each.is_file())


def run(paths: Iterable[Path], only: Sequence[str] = (), every: int = 1) -> Iterator[Row]:
    """Yield a row for each conversation, or for every so many of a file with many."""
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as home:
        for path in files(paths):
            for number, (own, name, entries) in enumerate(conversations(path, Path(home))):
                if number % every == 0:
                    yield through(own, name, entries, only)


def main() -> int:
    """Run the command; 1 where a door says something else."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--only", action="append", default=[], choices=[*DOORS], help="one door")
    parser.add_argument("--every", type=int, default=1, help="of a file with many conversations")
    given = parser.parse_args()
    rows = []
    for row in run(given.paths, given.only, given.every):
        print(row, flush=True)
        for door, what in row.faults.items():
            print(f"    {door}: {what}", flush=True)
        rows.append(row)
    faulty = sum(bool(row.faults) for row in rows)
    print(f"{len(rows):,} conversations, {faulty} of them with faults")
    return 1 if faulty or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
