"""How the work for a string or a list that a stranger writes grows with its length.

    python -m tests.stress.growth --doors "memory search;lint"

Each door is given each generated text or list at n and at 4 n. The seconds are the processor's, the
least of several runs; the exponent is that of n. One above 1.15 is flagged, where there is enough
work to tell.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import json
import math
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from rehydrate import Context, Memory, RehydrateError, compact_context, count_tokens, lint, validate

MOST_EXPONENT = 1.15
LEAST_SECONDS = 0.08
"""Work of less tells nothing."""
_LIMIT_SECONDS = 60
LENGTH, ENTRIES = 16_000, 500
"""The n of a text and of a list."""
_RUNS = 5
"""Of what seems to grow too fast."""

Work = Callable[[], object]

# Texts

_UNITS = {
    "letters": "a",
    "digits": "1",
    "spaces": " ",
    "lines": "\n",
    "words": "ab ",
    "tabs": "\t",
    "quotes": '"',
    "escapes": "\\",
    "braces": "{",
    "brackets": "[",
    "angles": "<",
    "ticks": "`",
    "objects": '{"a":',
    "escaped": '[\\"',
    "dots": ".",
    "slashes": "a/b/",
    "back": "..\\",
    "reminder": "<system-reminder>",
    "closing": "</system-reminder>",
    "skill": "<skill>",
    "command": "<command-name>",
    "mark": "[rehydrate: ",
    "fence": "<context-",
    "code": "```\n",
    "heading": "# h\n",
    "list": "- x\n",
    "quoted": "> ",
    "diff": "@@ -1 +1 @@\n",
    "rule": "---\n",
    "password": "password=",
    "spaced": "password    =    ",
    "token": "token=token",
    "jwt": "eyJ",
    "dotted": "eyJaaaaaaaa.",
    "pem": "-----BEGIN PRIVATE KEY-----\n",
    "key": "sk-",
    "hook": "a://",
    "login": "a://x:",
    "auth": "authorization: bearer ",
    "curl": "curl -u a:",
    "base64": "QUFB",
    "escape": "\x1b[",
    "coloured": "\x1b[32mx",
    "c1": "\x90",
    "osc": "\x1b]8;;",
    "nul": "\0",
    "session": "session_id:",
    "date": "2026-01-01 ",
    "today": "today is ",
    "never": "never do. ",
    "always": "Always use x. ",
    "instead": "use x instead of y. ",
    "trace": '  File "a", line 1\n',
    "combining": "e\u0301",
    "joined": "👨\u200d",
    "han": "漢",
    "override": "\u202e",
    "half": "\ud800",
}
_COUNTED = {
    "distinct words": "w{}x ",
    "distinct lines": "line {} of it\n",
    "distinct paths": "src/m{}/f.py ",
    "distinct rules": "Never use tool{} for area{}. ",
    "distinct keys": '"k{}": {}, ',
    "distinct assignments": "K{}_SECRET=v{}aB3dE5gH7\n",
    "distinct tags": "<t{}>",
}


def texts() -> dict[str, Callable[[int], str]]:
    """Return what makes a text of about so many characters, by its name."""
    made = {name: _repeated(unit) for name, unit in _UNITS.items()}
    return {**made, **{name: _numbered(unit) for name, unit in _COUNTED.items()}}


def _repeated(unit: str) -> Callable[[int], str]:
    return lambda n: unit * (n // len(unit)) + "!"


def _numbered(unit: str) -> Callable[[int], str]:
    return lambda n: "".join(unit.replace("{}", str(i)) for i in range(n // (len(unit) + 4)))


# Doors for texts


def _said(*contents: Any) -> list[dict[str, Any]]:
    roles = ("user", "assistant")
    return [{"role": roles[i % 2], "content": content} for i, content in enumerate(contents)]


def _with_call(
    name: str = "Read", id_: str = "t", given: Any = None, output: str = "x"
) -> list[dict[str, Any]]:
    use = {"type": "tool_use", "id": id_, "name": name, "input": given or {"path": "a"}}
    result = {"type": "tool_result", "tool_use_id": id_, "content": output}
    return [*_said("Look."), *_said([result], [use])[::-1], *_said("And now?")]


def _through(messages: list[dict[str, Any]]) -> Work:
    def work() -> None:
        validate(messages, "anthropic")
        compact_context(messages, "which port?", 0.3, format="anthropic", outline=True)
        context = Context(timeout=None)
        context.add(*messages)
        context.prompt("And?")

    return work


def _folder() -> Path:
    folder = tempfile.mkdtemp(prefix="growth-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


@cache
def _memory() -> Memory:
    memory = Memory.open(_folder() / "memory.db", namespace="a")
    memory.add([f"note {number} about penguins" for number in range(200)])
    return memory


def _terminal(text: str) -> Work:
    from rehydrate.cli.terminal import Terminal

    return lambda: Terminal().safe(text)


def _redacted(text: str) -> Work:
    from rehydrate.memory import Redactor

    return lambda: Redactor()(text)


def _session_file(text: str, **fields: Any) -> Path:
    message = {"role": "assistant", "content": [{"type": "text", "text": text}], **fields}
    lines = [
        {"type": "user", "uuid": "1", "parentUuid": None, "sessionId": "s", **_user(text)},
        {"type": "assistant", "uuid": "2", "parentUuid": "1", "sessionId": "s", "message": message},
        {"type": "user", "uuid": "3", "parentUuid": "2", "sessionId": "s", **_user("Go on.")},
    ]
    file = _folder() / "session.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def _user(text: str) -> dict[str, Any]:
    return {"message": {"role": "user", "content": text}}


def _command(*arguments: str) -> Work:
    def work() -> None:
        import contextlib
        import io

        from rehydrate.cli import main

        nowhere = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
            main(list(arguments))

    return work


def _hook(event: str, text: str, **more: Any) -> Work:
    from rehydrate.integrations.claude_code.events import answer

    folder = str(_folder())
    payload = {
        "session_id": "s",
        "cwd": folder,
        "transcript_path": str(_session_file(text)),
        **more,
    }
    environ = {"REHYDRATE_HOME": f"{folder}/r", "HOME": folder}
    return lambda: answer(event, payload, environ=environ, deadline=time.monotonic() + 60)


def _asked(tool: str, **arguments: Any) -> Work:
    from rehydrate.integrations.mcp_server.jobs import Job
    from rehydrate.integrations.mcp_server.stores import Stores
    from rehydrate.integrations.mcp_server.tools import TOOLS, answer

    stores = Stores(memory=_memory()._store.path, namespace="a", has_sessions=False)  # type: ignore[attr-defined]
    return lambda: answer(TOOLS[tool], stores, arguments, Job())


def _notes(text: str) -> Work:
    folder = Path(tempfile.mkdtemp(prefix="growth-"))
    (folder / "notes.md").write_text(text, encoding="utf-8", errors="replace")
    return lambda: _memory().within("notes").sync_folder(folder)


def _model(text: str) -> Work:
    from rehydrate._native import known_name

    return lambda: known_name(f"claude-opus-4-5{text}", ["claude-opus-4-5", "gpt-5"])


DOORS: dict[str, Callable[[str], Work]] = {
    "message": lambda text: _through(_said(text, "ok", "go")),
    "reply": lambda text: _through(_said("hi", text, "go")),
    "tool name": lambda text: _through(_with_call(name=text)),
    "call id": lambda text: _through(_with_call(id_=text)),
    "argument": lambda text: _through(_with_call(given={"path": text, "command": text})),
    "argument name": lambda text: _through(_with_call(given={text: 1})),
    "result": lambda text: _through(_with_call(output=text)),
    "query": lambda text: lambda: compact_context(_said("hi", "ok", "go"), text, 0.5),
    "lint": lambda text: lambda: lint(_said(text, text, "go")),
    "count": lambda text: lambda: count_tokens(text),
    "redaction": _redacted,
    "terminal": _terminal,
    "model": _model,
    "memory text": lambda text: lambda: _memory().add(text),
    "memory metadata": lambda text: lambda: _memory().add("x", metadata={"a": text, text[:999]: 1}),
    "memory source": lambda text: lambda: _memory().add("x", source=text),
    "memory search": lambda text: lambda: _memory().search(text),
    "memory recall": lambda text: lambda: _memory().recall([text]),
    "memory filter": lambda text: lambda: _memory().search("penguins", sources=[text]),
    "namespace": lambda text: lambda: _memory().add("x", namespace=text),
    "notes folder": _notes,
    "thread name": lambda text: (
        lambda: Context.open(
            _memory()._store.path,
            thread=text,
            namespace="a",  # type: ignore[attr-defined]
        ).close()
    ),
    "session file, compact": lambda text: _command("compact", str(_session_file(text))),
    "session file, lint": lambda text: _command("lint", str(_session_file(text))),
    "session file, model": lambda text: _command("compact", str(_session_file("x", model=text))),
    "plain file": lambda text: _command("lint", str(_plain_file(text))),
    "hook prompt": lambda text: _hook("UserPromptSubmit", "x", prompt=text),
    "hook transcript": lambda text: _hook("PreCompact", text, trigger="auto"),
    "hook result": lambda text: _hook(
        "PostToolUse", "x", tool_name="Bash", tool_response={"stdout": text}
    ),
    "MCP query": lambda text: _asked("search_memory", query=text),
    "MCP messages": lambda text: _asked("compact_context", messages=_said(text, "ok", "go")),
    "MCP memory": lambda text: _asked("add_memory", text=text),
}


def _plain_file(text: str) -> Path:
    file = Path(tempfile.mkdtemp(prefix="growth-")) / "text.txt"
    file.write_text(text, encoding="utf-8", errors="replace")
    return file


# Doors for lists


def _list_calls(n: int, *, is_same: bool) -> Work:
    uses, results = [], []
    for i in range(n):
        name = "same" if is_same else f"t{i}"
        uses.append({"type": "tool_use", "id": name, "name": "f", "input": {"a": i}})
        results.append({"type": "tool_result", "tool_use_id": name, "content": f"r{i}"})
    return _through([*_said("Look.", uses), *_said(results), *_said("", "go")[1:]])


def _pairs(n: int) -> Work:
    reported = _said("Look.")
    for i in range(n):
        reported += _with_call(id_=f"t{i}", given={"path": f"src/a{i}.py"}, output=f"line {i}")[1:3]
    return _through([*reported, *_said("", "go")[1:]])


def _rows(n: int) -> Work:
    lines = []
    for i in range(n):
        role = ("user", "assistant")[i % 2]
        content = f"said {i}" if role == "user" else [{"type": "text", "text": f"reply {i}"}]
        message = {"role": role, "content": content}
        parent = None if i == 0 else f"u{i - 1}"
        lines.append({"type": role, "uuid": f"u{i}", "parentUuid": parent, "message": message})
    file = _folder() / "session.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return _command("compact", str(file))


def _deep(n: int) -> Work:
    inside: Any = 1
    for _ in range(min(n, 150)):
        inside = [inside]
    return _through(_with_call(given={"path": [inside] * (n // 10)}))


LISTS: dict[str, Callable[[int], Work]] = {
    "messages": lambda n: _through(_said(*[f"said {i} of it" for i in range(n)], *["go"][n % 2 :])),
    "same messages": lambda n: _through(_said(*["the same"] * n)),
    "parts": lambda n: _through(
        _said([{"type": "text", "text": f"part {i}"} for i in range(n)], "ok", "go")
    ),
    "calls of a turn": lambda n: _list_calls(n, is_same=False),
    "calls of one id": lambda n: _list_calls(n, is_same=True),
    "calls in turn": _pairs,
    "argument names": lambda n: _through(_with_call(given={f"k{i}": i for i in range(n)})),
    "deep arguments": _deep,
    "session lines": _rows,
    "lint messages": lambda n: lambda: lint(_said(*[f"said {i}" for i in range(n)])),
    "memories": lambda n: lambda: _memory().add([f"memory {n} {i} of it" for i in range(n)]),
    "sources": lambda n: lambda: _memory().search("penguins", sources=[f"s{i}" for i in range(n)]),
    "handles": lambda n: lambda: _memory().forget([f"mem_{i:026d}" for i in range(n)]),
    "recalled": lambda n: lambda: _memory().recall([f"note {i}" for i in range(n // 8)]),
    "tools": lambda n: lambda: _offered(n),
    "rules": lambda n: _through(
        _said(*[f"Always use tool{i} for area{i}." if i % 2 == 0 else "ok" for i in range(n)])
    ),
}


def _offered(n: int) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    context = Context(timeout=None)
    context.offer([{"name": f"f{i}", "description": "x", "input_schema": schema} for i in range(n)])
    context.prompt("And?")


ALL = (*DOORS, *LISTS)

# The measure


def _seconds(work: Work) -> float:
    began = time.process_time()
    with contextlib.suppress(RehydrateError):
        work()
    return time.process_time() - began


def exponent(make: Callable[[int], Work], n: int, runs: int = 1) -> tuple[float, int, float, float]:
    """Return the exponent of n, n, and the seconds at n and at 4 n, where they are enough to tell;
    n grows fourfold once where they are not."""

    def least(size: int) -> float:
        return min(_seconds(make(size)) for _ in range(runs))

    few, many = least(n), least(4 * n)
    if many < LEAST_SECONDS:
        n, few, many = 4 * n, many, least(16 * n)
    return math.log(max(many, 1e-6) / max(few, 1e-6), 4), n, few, many


def cases(doors: set[str] | None = None) -> Iterator[tuple[str, str, Callable[[int], Work], int]]:
    """Yield each door with each text, and each door for a list, with its n."""
    for door, opened in DOORS.items():
        if doors is None or door in doors:
            for name, text in texts().items():
                yield door, name, _of(opened, text), LENGTH
    for door, made in LISTS.items():
        if doors is None or door in doors:
            yield door, "list", made, ENTRIES


def _of(opened: Callable[[str], Work], text: Callable[[int], str]) -> Callable[[int], Work]:
    return lambda n: opened(text(n))


class _SlowError(BaseException):
    pass


def _on_alarm(*_: object) -> None:
    raise _SlowError


def _once(doors: set[str] | None, every: int) -> int:
    """Do each once, at a length of which the square would take minutes; SIGPROF ends it then."""
    for number, (door, name, make, n) in enumerate(cases(doors)):
        if number % every == 0:
            print(door, name, flush=True)
            signal.setitimer(signal.ITIMER_PROF, _LIMIT_SECONDS)
            _seconds(make(8 * n))
            signal.setitimer(signal.ITIMER_PROF, 0)
    return 0


def main() -> int:
    """Run the command; 1 where something grows faster than it may."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--doors", help="names, separated by semicolons; all without")
    parser.add_argument("--flagged", action="store_true", help="print only what is flagged")
    parser.add_argument("--once", action="store_true", help="at 8 n, once: a square takes minutes")
    parser.add_argument("--every", type=int, default=1, help="only every nth text")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    doors = given.doors and set(given.doors.split(";"))
    if given.once:
        return _once(doors, given.every)
    signal.signal(signal.SIGVTALRM, _on_alarm)
    flagged = measured = 0
    door_before = ""
    for door, name, make, first in cases(doors):
        signal.setitimer(signal.ITIMER_VIRTUAL, _LIMIT_SECONDS)
        try:
            if door != door_before:
                _seconds(make(first))  # imports and caches
                door_before = door
            grown, n, few, many = exponent(make, first)
            is_bad = grown > MOST_EXPONENT and many > LEAST_SECONDS
            for size in (n, 4 * n):
                # Noise is gone in the least of several, a cache that is full in a longer text.
                if is_bad:
                    grown, n, few, many = exponent(make, size, _RUNS)
                    is_bad = grown > MOST_EXPONENT
        except _SlowError:
            print(f"*** {door:22} {name:20} took more than {_LIMIT_SECONDS} s", flush=True)
            flagged += 1
            continue
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        measured += 1
        flagged += is_bad
        if is_bad or not given.flagged:
            mark = "***" if is_bad else "   "
            line = f"{mark} {door:22} {name:20} n={n:<7} {few:6.3f} {many:6.3f} s  n^{grown:.2f}"
            print(line, flush=True)
    print(f"{measured} measured, {flagged} flagged")
    return 1 if flagged else 0


if __name__ == "__main__":
    sys.exit(main())
