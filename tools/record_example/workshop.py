"""A scratch clone and the tools of a coding agent that work in it for real."""

from __future__ import annotations

import difflib
import getpass
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

from record_example.steps import Bash, Call, Edit, Glob, Grep, Read, Write

HOME = "/home/dev"
CWD = f"{HOME}/rehydrate"
MAX_OUTPUT_CHARS = 30_000
MAX_READ_LINES = 2_000
MAX_LINE_CHARS = 2_000
TIMEOUT_SECONDS = 900
# The session would find itself: its script, its earlier recording, the test of both.
NOT_CLONED = ("examples/", "tools/record_example/", "tests/test_example.py")

ENVIRONMENT = {
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "NO_COLOR": "1",
    "COLUMNS": "100",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTEST_ADDOPTS": "-p no:cacheprovider",
    "CARGO_TERM_COLOR": "never",
    "CARGO_TERM_PROGRESS_WHEN": "never",
    "CARGO_NET_OFFLINE": "true",
    "RUST_BACKTRACE": "0",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_PAGER": "cat",
    "GIT_AUTHOR_NAME": "dev",
    "GIT_AUTHOR_EMAIL": "dev@example.org",
    "GIT_COMMITTER_NAME": "dev",
    "GIT_COMMITTER_EMAIL": "dev@example.org",
}


class WorkshopError(Exception):
    """The clone could not be prepared; the message says what is missing."""


class Outcome(NamedTuple):
    """A tool's result: the text that the model sees, and the client's record of it."""

    text: str
    record: Any
    is_error: bool = False


class Workshop:
    """The clone at `root`; every output has paths as in `CWD`."""

    def __init__(self, root: Path, environment: dict[str, str], hidden: dict[str, str]) -> None:
        """Take a prepared directory, the environment of its commands, the paths to replace."""
        self.root = root
        self._environment = environment
        self._hidden = hidden
        self._known: set[str] = set()  # files that the agent has read or written

    @classmethod
    @contextmanager
    def cloned(
        cls, source: Path, commit: str, *, target_dir: Path, progress: Callable[[str], None]
    ) -> Iterator[Workshop]:
        """Clone `source` at `commit` into a temporary directory, with its dependencies built."""
        checkout = Path(__file__).resolve().parents[2]
        python = _python_with_pytest(checkout)
        with tempfile.TemporaryDirectory(prefix="record-example-") as scratch:
            root = Path(scratch) / "rehydrate"
            _git(source, "clone", "--quiet", "--no-checkout", str(source), str(root))
            patterns = ["/*", *(f"!/{path}" for path in NOT_CLONED)]
            _git(root, "sparse-checkout", "set", "--no-cone", *patterns)
            _git(root, "checkout", "--quiet", "-B", "main", commit)
            for built in _native_modules(checkout):
                shutil.copy2(built, root / "python" / "rehydrate")
            cargo_home = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
            environment = ENVIRONMENT | {
                "HOME": scratch,
                "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
                "PYTHONPATH": str(root / "python"),
                "CARGO_HOME": str(cargo_home),
                "CARGO_TARGET_DIR": str(target_dir),
                "RUSTUP_HOME": os.environ.get("RUSTUP_HOME", str(Path.home() / ".rustup")),
            }
            hidden = {
                str(root): CWD,
                str(target_dir): f"{CWD}/target",
                str(python.parent.parent): f"{CWD}/.venv",
                str(source): CWD,
                str(checkout): CWD,
                str(cargo_home): f"{HOME}/.cargo",
                scratch: HOME,
                str(Path.home()): HOME,
            }
            progress("building the dependencies (minutes the first time)")
            build = "cargo test --quiet --no-run -p rehydrate-core --test pack"
            online = environment | {"CARGO_NET_OFFLINE": "false"}
            done = subprocess.run(
                build.split(), cwd=root, env=online, capture_output=True, text=True, check=False
            )
            if done.returncode:
                raise WorkshopError(f"{build} failed:\n{done.stderr[-2000:]}")
            yield cls(root, environment, hidden)

    def run(self, call: Call, clock: str) -> Outcome:
        """Run the call; `clock` is the time of a commit it makes."""
        match call:
            case Bash():
                return self._bash(call, clock)
            case Read():
                return self._read(call)
            case Grep():
                return self._grep(call)
            case Glob():
                return self._glob(call)
            case Edit():
                return self._edit(call)
            case Write():
                return self._write(call)
        raise TypeError(f"{type(call).__name__} isn't a tool")

    def input_of(self, call: Call) -> tuple[str, dict[str, Any]]:
        """Return the tool's name and its input, as the model writes them."""
        match call:
            case Bash():
                return "Bash", {"command": call.command, "description": call.description}
            case Read():
                window: dict[str, Any] = {}
                if call.start:
                    window["offset"] = self._first_line(call)
                if call.limit:
                    window["limit"] = call.limit
                return "Read", {"file_path": f"{CWD}/{call.path}", **window}
            case Grep():
                mode = "files_with_matches" if call.names_only else "content"
                place = {"path": f"{CWD}/{call.path}"} if call.path else {}
                numbers = {} if call.names_only else {"-n": True}
                return "Grep", {"pattern": call.pattern, **place, "output_mode": mode, **numbers}
            case Glob():
                return "Glob", {"pattern": call.pattern}
            case Edit():
                change = {"old_string": call.old, "new_string": call.new, "replace_all": False}
                return "Edit", {"file_path": f"{CWD}/{call.path}", **change}
            case Write():
                return "Write", {"file_path": f"{CWD}/{call.path}", "content": call.content}
        raise TypeError(f"{type(call).__name__} isn't a tool")

    def _bash(self, call: Bash, clock: str) -> Outcome:
        done = subprocess.run(
            ["bash", "-c", call.command],
            cwd=self.root,
            env=self._environment | {"GIT_AUTHOR_DATE": clock, "GIT_COMMITTER_DATE": clock},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
        output = _cut(self._normalised(done.stdout.rstrip("\n")))
        if done.returncode:
            text = f"Exit code {done.returncode}\n{output}"
            return Outcome(text, f"Error: {text}", is_error=True)
        record = {"stdout": output, "stderr": "", "interrupted": False, "isImage": False}
        return Outcome(output or "(Bash completed with no output)", record)

    def _read(self, call: Read) -> Outcome:
        path = self.root / call.path
        if not path.is_file():
            return _error("File does not exist.")
        self._known.add(call.path)
        lines = self._normalised(path.read_text(encoding="utf-8")).splitlines()
        start = self._first_line(call) if call.start else 1
        shown = lines[start - 1 :][: call.limit or MAX_READ_LINES]
        text = "\n".join(
            f"{number:>6}\u2192{line[:MAX_LINE_CHARS]}" for number, line in enumerate(shown, start)
        )
        content = "\n".join(shown)
        file = {"filePath": f"{CWD}/{call.path}", "content": content, "numLines": len(shown)}
        place = {"startLine": start, "totalLines": len(lines)}
        return Outcome(text, {"type": "text", "file": file | place})

    def _first_line(self, call: Read) -> int:
        lines = (self.root / call.path).read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines, 1):
            if re.search(call.start, line):
                return number
        raise LookupError(f"no line of {call.path} matches {call.start!r}")

    def _grep(self, call: Grep) -> Outcome:
        pattern = re.compile(call.pattern)
        found: list[str] = []
        names: list[str] = []
        for name in self._files(call.path):
            lines = (self.root / name).read_text(encoding="utf-8", errors="replace").splitlines()
            prefix = "" if name == call.path else f"{name}:"
            hits = [
                f"{prefix}{number}:{line[:MAX_LINE_CHARS]}"
                for number, line in enumerate(lines, 1)
                if pattern.search(line)
            ]
            found += hits
            names += [name] if hits else []
        if call.names_only:
            text = "\n".join([f"Found {len(names)} files", *names]) if names else "No files found"
            return Outcome(
                text, {"mode": "files_with_matches", "filenames": names, "numFiles": len(names)}
            )
        text = _cut("\n".join(found))
        record = {"mode": "content", "numFiles": 0, "filenames": [], "content": text}
        return Outcome(text or "No matches found", record | {"numLines": len(found)})

    def _glob(self, call: Glob) -> Outcome:
        names = [f"{CWD}/{name}" for name in self._files() if fnmatch(name, call.pattern)]
        record = {"filenames": names, "numFiles": len(names), "truncated": False}
        return Outcome("\n".join(names) or "No files found", record)

    def _edit(self, call: Edit) -> Outcome:
        path = self.root / call.path
        if call.path not in self._known:
            return _error("File has not been read yet. Read it first before writing to it.")
        before = path.read_text(encoding="utf-8")
        count = before.count(call.old)
        if count == 0:
            return _error(f"String to replace not found in file.\nString: {call.old}")
        if count > 1:
            what = f"Found {count} matches of the string to replace, but replace_all is false."
            return _error(f"{what}\nString: {call.old}")
        after = before.replace(call.old, call.new)
        path.write_text(after, encoding="utf-8")
        record = {
            "filePath": f"{CWD}/{call.path}",
            "oldString": call.old,
            "newString": call.new,
            "originalFile": None,
            "structuredPatch": _hunks(before, after),
            "userModified": False,
            "replaceAll": False,
        }
        return Outcome(f"The file {CWD}/{call.path} has been updated successfully.", record)

    def _write(self, call: Write) -> Outcome:
        path = self.root / call.path
        if path.exists() and call.path not in self._known:
            return _error("File has not been read yet. Read it first before writing to it.")
        self._known.add(call.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(call.content, encoding="utf-8")
        place = f"{CWD}/{call.path}"
        record: dict[str, Any] = {"type": "create", "filePath": place, "content": call.content}
        record |= {"structuredPatch": [], "originalFile": None}
        return Outcome(f"File created successfully at: {place}", record)

    def _files(self, under: str = "") -> list[str]:
        """Return files that git tracks or would track, as an agent's search tools see them."""
        listed = _git(self.root, "ls-files", "--cached", "--others", "--exclude-standard", under)
        present = [name for name in listed.splitlines() if (self.root / name).is_file()]
        return sorted(name for name in present if b"\0" not in (self.root / name).read_bytes())

    def _normalised(self, text: str) -> str:
        for hidden, shown in self._hidden.items():
            text = text.replace(hidden, shown)
        return text


def leaks() -> tuple[str, ...]:
    """Return names of this machine and of its user, which must never be in a recording.

    Names too common to mean anything are left out.
    """
    names = {str(Path.home()), socket.gethostname(), getpass.getuser()}
    return tuple(sorted(name for name in names if len(name) > 5 or name.startswith("/")))


def _git(directory: Path, *arguments: str) -> str:
    command = ["git", "-C", str(directory), *[argument for argument in arguments if argument]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise WorkshopError(f"{' '.join(command)} failed: {done.stderr.strip()}")
    return done.stdout


def _python_with_pytest(checkout: Path) -> Path:
    for python in (checkout / ".venv" / "bin" / "python", Path(sys.executable)):
        if python.is_file():
            probe = [str(python), "-c", "import pytest, hypothesis, numpy"]
            if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
                return python
    raise WorkshopError("no Python with pytest here; run `make test` once, it makes .venv")


def _native_modules(checkout: Path) -> list[Path]:
    built = sorted((checkout / "python" / "rehydrate").glob("_native*.so"))
    if not built:
        raise WorkshopError("the extension is not built; run `make test` once")
    return built


def _error(text: str) -> Outcome:
    return Outcome(f"<tool_use_error>{text}</tool_use_error>", f"Error: {text}", is_error=True)


def _cut(text: str) -> str:
    if len(text) <= MAX_OUTPUT_CHARS:
        return text
    kept = text[:MAX_OUTPUT_CHARS]
    left_out = text.count("\n", MAX_OUTPUT_CHARS) + 1
    return f"{kept}\n\n... [{left_out} lines truncated] ..."


def _hunks(before: str, after: str) -> list[dict[str, Any]]:
    old, new = before.splitlines(), after.splitlines()
    hunks = []
    for group in difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(3):
        lines: list[str] = []
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                lines += [f" {line}" for line in old[i1:i2]]
            else:
                lines += [f"-{line}" for line in old[i1:i2]] + [f"+{line}" for line in new[j1:j2]]
        first, last = group[0], group[-1]
        hunks.append(
            {
                "oldStart": first[1] + 1,
                "oldLines": last[2] - first[1],
                "newStart": first[3] + 1,
                "newLines": last[4] - first[3],
                "lines": lines,
            }
        )
    return hunks
