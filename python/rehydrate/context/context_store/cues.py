"""Cues of decisions, corrections and errors in plain text; what tools do, by their names.

What users lay down the engine finds (`_engine.directives`); both sides say decisions. The names
of tools are those of Claude Code, Codex and other common tools. Edit `TOOLS` for your own:
``TOOLS["save_page"] = ToolUse("edited", ("page",))``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

MAX_SENTENCE = 400
"""Characters. A longer one is not a sentence."""

_DECISION = re.compile(
    r"""\b(?: (?:we|i) (?:'ve|\shave)? \s (?: decided | chose | settled \s on | agreed )
    | decision \s? :
    | let's \s (?: go \s with | use | keep | stick \s with ) | (?:we|i) (?:'ll|\swill) \s
      (?: go \s with | stick \s with ) | we(?:'ll|\swill) \s (?: use | keep )
    | we're \s (?:using|going \s with)
    | (?: wir | ich ) \s (?: haben | habe ) \s (?:uns|mich)? \s? .{0,60} \b entschieden
    | (?: wir | ich ) \s (?: nehmen | nehme | verwenden | verwende | bleiben \s bei
    | bleibe \s bei )
    | entscheidung \s? : | beschlossen
    | (?: nous | on | j ) \s? '? \s? (?: avons | a | ai ) \s décidé | décision \s? :
    | on \s (?: garde | utilise | prend | part \s sur ) | nous \s (?: utiliserons | gardons )
    | (?: hemos | he ) \s decidido | decidimos | decisión \s? : | vamos \s a \s usar | usaremos
    | nos \s quedamos \s con
    | decidi(?:mos|u)? \b | decisão \s? : | vamos \s usar | ficamos \s com
    | abbiamo \s deciso | ho \s deciso | decisione \s? : | useremo
    | (?: we | ik ) \s (?: hebben | heb ) \s besloten | we \s (?: gebruiken | kiezen )
    | besluit \s? :
    | (?: мы \s )? решили | решено | решение \s? : | будем \s использовать )
    | 决定 | 我们选择 | 我们用 | 就用 | 采用 | 決定
    | に決め | を使うことに | にしましょう | 결정 | 하기로 \s? 했
    | החלטנו | הוחלט | נשתמש | قررنا | تقرر | سنستخدم""",
    re.IGNORECASE | re.VERBOSE,
)
_CORRECTION = re.compile(
    r"""\b(?: from \s now \s on | going \s forward | from \s here \s on | instead | rather \s than
    | changed? \s my \s mind | scratch \s that | forget \s what | correction | i \s was \s wrong
    | no \s longer | not .{1,40} any \s? more | on \s second \s thoughts? | supersedes | replaces
    | (?: ab | von ) \s (?: jetzt | sofort | nun ) | künftig | stattdessen | anstatt | statt
    | nicht \s mehr | ich \s habe \s mich \s geirrt
    | désormais | dorénavant | à \s partir \s de \s maintenant | à \s la \s place | au \s lieu
    | plus \s jamais
    | a \s partir \s de \s ahora | de \s ahora \s en \s adelante | en \s (?: vez
    | lugar ) \s de | ya \s no
    | a \s partir \s de \s agora | daqui \s em \s diante | em \s vez \s de | mudei \s de \s ideia
    | d'ora \s in \s poi | da \s adesso | invece | al \s posto \s di | ho \s cambiato \s idea
    | non .{1,30} più
    | vanaf \s nu | voortaan | in \s plaats \s van | niet \s meer
    | od \s teraz | zamiast | już \s nie | artık | bundan \s sonra | yerine
    | отныне | впредь | теперь | вместо | больше \s не )\b
    | 从现在 | 今后 | 改用 | 改为
    | 改成 | 而不是 | 不再 | これから | 今後 | 代わりに | ではなく
    | 앞으로 | 대신 | 이제부터
    | מעכשיו | מעתה | במקום | من\s+الآن | بدلا | अब\s+से | के\s+बजाय""",
    re.IGNORECASE | re.VERBOSE,
)
_ERROR = re.compile(
    r"""^.{0,200} (?: (?:Error|Exception) \b [:\s] | \b(?: error | fatal | FAILED | panicked )\b
    (?: : | \[ | \s at | \s - ) | ^Traceback ) .*$""",
    re.VERBOSE | re.MULTILINE,
)
_EXIT = re.compile(
    r"^(?:process )?exit(?:ed with)?(?: code| status)?:? ([0-9]{1,3})\b",
    re.IGNORECASE | re.MULTILINE,
)
_LABELLED = re.compile(
    r"(?:^|(?<=[.!?] ))(?:[A-Z][A-Z'-]+ ){0,3}[A-Z][A-Z'-]{2,}: .+", re.MULTILINE
)
_ENDS = re.compile(r"(?<=[.!?\u061f])\s+|(?<=[\u3002\uff01\uff1f])|\n+")


class Cued(NamedTuple):
    """A sentence or a line, and where it begins in its text."""

    start: int
    text: str


def decisions(text: str) -> Iterator[Cued]:
    """Yield the sentences that say what was decided.

    >>> [found.text for found in decisions("It is slow. We decided to use SQLite. Fine?")]
    ['We decided to use SQLite.']
    """
    for sentence in sentences(text):
        if _DECISION.search(sentence.text) and not sentence.text.endswith(("?", "？", "؟")):
            yield sentence


def is_correction(text: str) -> bool:
    """Return whether a sentence says that something holds from now on, or instead of another thing.

    >>> is_correction("From now on, use spaces."), is_correction("Use tabs.")
    (True, False)
    """
    return _CORRECTION.search(text) is not None


def sentences(text: str) -> Iterator[Cued]:
    """Yield the sentences of a text, without white space around them."""
    at = 0
    for match in _ENDS.finditer(text):
        yield from _trimmed(text, at, match.start())
        at = match.end()
    yield from _trimmed(text, at, len(text))


def whole_sentences(text: str, start: int, end: int) -> Cued:
    """Return the sentences that a part of a text is in: a word before it may turn it round.

    Where they are longer than MAX_SENTENCE, what is returned is longer too.

    >>> whole_sentences("Hi. Never push to main.", 10, 14)
    Cued(start=4, text='Never push to main.')
    """
    begin, stop = max(start - MAX_SENTENCE, 0), min(end + MAX_SENTENCE, len(text))
    for match in _ENDS.finditer(text, begin, stop):
        if match.end() <= start:
            begin = match.end()
        elif match.start() >= end:
            stop = match.start()
            break
    part = text[begin:stop]
    stripped = part.strip()
    return Cued(begin + part.index(stripped), stripped)


def labelled(text: str) -> Iterator[Cued]:
    """Yield what the user put under a label in capitals, to the end of the line.

    >>> [found.text for found in labelled("Hello. GOAL: ship it. Friday at the latest.")]
    ['GOAL: ship it. Friday at the latest.']
    """
    for match in _LABELLED.finditer(text):
        yield from _trimmed(text, match.start(), match.end())


def first_error(text: str) -> Cued | None:
    """Return the first line that tells of an error.

    >>> first_error("ok\\nValueError: no port").text
    'ValueError: no port'
    """
    match = _ERROR.search(text)
    return None if match is None else next(_trimmed(text, match.start(), match.end()), None)


def exit_code(text: str) -> int | None:
    """Return the code that a command's result says it exited with; None where it says none.

    >>> exit_code("Exit code: 2\\nno such file"), exit_code("done")
    (2, None)
    """
    match = _EXIT.search(text, 0, MAX_SENTENCE)
    return None if match is None else int(match[1])


def _trimmed(text: str, start: int, end: int) -> Iterator[Cued]:
    part = text[start:end]
    stripped = part.strip()
    if stripped and len(stripped) <= MAX_SENTENCE:
        yield Cued(start + part.index(stripped), stripped)


class ToolUse(NamedTuple):
    """What a tool does."""

    use: str
    """edited, created, read, deleted, ran, planned."""
    arguments: tuple[str, ...] = ("file_path", "path", "filename", "notebook_path", "target_file")
    """Where its subject is, the first that is there."""


EDITED, CREATED, READ, DELETED, RAN, PLANNED, LOOKED_UP = (
    "edited", "created", "read", "deleted", "ran", "planned", "looked up",
)  # fmt: skip
CHANGES = frozenset({EDITED, CREATED, DELETED})
"""Uses that change a file."""
_LOOKING = frozenset({
    "[", "awk", "basename", "cat", "cd", "cut", "date", "diff", "dirname", "du", "echo", "env",
    "file", "find", "git blame", "git branch", "git diff", "git grep", "git log", "git show",
    "git status", "grep", "head", "jq", "less", "ls", "nl", "printf", "pwd", "rg", "sed", "sleep",
    "sort", "stat", "tail", "test", "tr", "tree", "true", "uniq", "wc", "which", "xargs",
})  # fmt: skip
"""Programs that look something up: where a command runs no other, an error in what it prints is
another's."""
_SHOWING = frozenset({"cat", "head", "less", "nl", "sed", "tail"})
"""Those that show the file that they name last."""

_COMMAND = ("command", "cmd", "script", "code")
_PLAN = ("todos", "plan", "items", "tasks")

TOOLS: dict[str, ToolUse] = {
    **dict.fromkeys(
        ("edit", "multiedit", "notebookedit", "str_replace_editor", "edit_file", "replace",
         "str_replace_based_edit_tool", "search_replace", "replace_in_file", "apply_diff"),
        ToolUse(EDITED),
    ),
    **dict.fromkeys(
        ("write", "write_file", "create_file", "write_to_file", "create", "save_file"),
        ToolUse(CREATED),
    ),
    **dict.fromkeys(
        ("read", "read_file", "view", "open_file", "cat", "view_file", "notebookread", "get_file"),
        ToolUse(READ),
    ),
    **dict.fromkeys(("delete_file", "remove_file"), ToolUse(DELETED)),
    **dict.fromkeys(
        ("bash", "shell", "exec_command", "run_terminal_cmd", "execute_command", "local_shell",
         "run_command", "terminal", "execute_bash", "python", "run_shell_command"),
        ToolUse(RAN, _COMMAND),
    ),
    **dict.fromkeys(
        ("todowrite", "update_plan", "write_todos", "todo_write", "update_todos"),
        ToolUse(PLANNED, _PLAN),
    ),
    "apply_patch": ToolUse(EDITED, ("input", "patch")),
}  # fmt: skip
"""By a tool's name in small letters."""

_PATCHED = re.compile(r"^\*\*\* (Add|Update|Delete) File: (.+)$", re.MULTILINE)
_PATCH_USES = {"Add": CREATED, "Update": EDITED, "Delete": DELETED}

_SEPARATORS = re.compile(r"\|\||&&|[|;\n]")
_QUOTED = re.compile(r"\\.|'[^']*'|\"(?:\\.|[^\"\\])*\"", re.DOTALL)
_WRITTEN = re.compile(r"(?<![=<-])[0-9&]?(>>?)\s*(\S+)")
_PATH = re.compile(r"^(?!/dev/|-|_)(?=[^./]*[./])[^*?$<>&(){}]+$")
_ASSIGNED = re.compile(r"^(?:\w+=\S*\s+)+")


class Subject(NamedTuple):
    """What a call is about."""

    use: str
    text: str
    """A path, a command, or the steps of a plan, as they are in the call's input."""


def subjects(tool_input: str) -> Iterator[Subject]:
    """Yield what a call is about; ``tool_input`` is its name, a blank and its input as JSON.

    >>> list(subjects('Edit {"file_path":"src/rows.py","old_string":"a"}'))
    [Subject(use='edited', text='src/rows.py')]
    >>> list(subjects('Bash {"command":"cat src/rows.py | head -5"}'))
    [Subject(use='looked up', text='cat src/rows.py'), Subject(use='read', text='src/rows.py')]
    """
    name, _, written = tool_input.partition(" ")
    known = TOOLS.get(name.rpartition("__")[2].rpartition(".")[2].lower())
    if known is None:
        return
    try:
        given = json.loads(written)
    except (ValueError, RecursionError):
        return
    if isinstance(given, str):
        given = {known.arguments[0]: given}
    if not isinstance(given, Mapping):
        return
    found = next((given[name] for name in known.arguments if given.get(name)), None)
    if known.use == PLANNED:
        for step in found if isinstance(found, list) else ():
            yield from _step(step)
    elif isinstance(found, list):  # the words of a command, or a shell and its script
        words = [str(word) for word in found]
        yield from _run(words[-1] if words[1:-1] in (["-lc"], ["-c"]) else " ".join(words))
    elif isinstance(found, str):
        patched = list(_PATCHED.finditer(found))
        if patched:
            for match in patched:
                yield Subject(_PATCH_USES[match[1]], match[2].strip())
        elif known.use == RAN and "code" not in given:
            yield from _run(found)
        elif "\n" not in found or known.use == RAN:
            yield Subject(known.use, found)


def _run(command: str) -> Iterator[Subject]:
    """Yield what a command is about: itself, without the programs that only cut what it prints, and
    the files that it shows and writes."""
    plain = _QUOTED.sub(lambda quoted: "_" * len(quoted[0]), command)
    piped = plain.split("|")
    while len(piped) > 1 and piped[-2] and _programs(piped[-1]) <= _LOOKING:
        piped.pop()
    shown = command[: len("|".join(piped))].strip().removesuffix("2>&1").rstrip()
    yield Subject(LOOKED_UP if _programs(plain) <= _LOOKING else RAN, shown)
    for part in _SEPARATORS.split(plain.partition("<<")[0]):
        written = _WRITTEN.findall(part)
        files = [(CREATED if sign == ">" else EDITED, path) for sign, path in written]
        program, *words = _WRITTEN.sub("", part).split() or [""]
        if program in _SHOWING and words:
            is_edited = program == "sed" and any(word.startswith("-i") for word in words)
            files.append((EDITED if is_edited else READ, words[-1]))
        yield from (Subject(use, path) for use, path in files if _PATH.match(path))


def _programs(command: str) -> set[str]:
    """Return the programs that a command runs; of git what it is to do too."""
    words = (_ASSIGNED.sub("", part.strip()).split()[:2] for part in _SEPARATORS.split(command))
    return {" ".join(each if each[0] == "git" else each[:1]) for each in words if each}


def _step(step: Any) -> Iterator[Subject]:
    """Yield a step of a plan that is not done yet."""
    if isinstance(step, str):
        yield Subject(PLANNED, step)
    elif isinstance(step, Mapping):
        text = step.get("content") or step.get("step") or step.get("title") or step.get("text")
        status = str(step.get("status", "")).lower()
        if isinstance(text, str) and status not in {"completed", "done", "cancelled"}:
            yield Subject(PLANNED, text)
