"""The lines of a transcript that the model saw, of Claude Code or of Codex, without ballast.

Session: a session as a stored thread: what was said in it, and whole results, for the MCP server.
"""

from __future__ import annotations

import mmap
import re
import stat
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rehydrate._native import (
    codex_lines,
    codex_turns_taken_back,
    line_content,
    line_is_seen,
    line_is_users,
    transcript_branch,
)
from rehydrate._text import without_elements
from rehydrate.integrations.claude_code.home import Home
from rehydrate.integrations.mcp_server.session_lines import (
    Agent,
    TranscriptReader,
    line_in,
    message_of,
    said_in,
    words_of_user,
)
from rehydrate.messages import PROVIDER_OF

if TYPE_CHECKING:
    from rehydrate.context import ContextStore
    from rehydrate.integrations.claude_code.home import Records

LAST_TURNS = 60
"""User and assistant lines that a compaction looks at."""
TAIL_BYTES = (1_000_000, 4_000_000, 24_000_000)
"""Last bytes of a transcript that are read, more where they hold too few lines; reading the most of
them takes 0.2 s. A file may have 500 MB."""

_KEPT_KEYS = ("type", "uuid", "parentUuid", "timestamp", "sessionId")
_LINK_KEYS = ("type", "subtype", "uuid", "parentUuid", "logicalParentUuid", "timestamp")
_UNSEEN = ("isSidechain", "isMeta", "isCompactSummary", "isApiErrorMessage")
"""A subagent's, a harness's, a summary of what is there already, an error."""
_MAX_STEPS = 10_000
"""From a line to the last one before it that was said."""
_HARNESS = ("<task-notification>", "[Request interrupted", "Caveat: The messages below")
_THINKING = frozenset({"thinking", "redacted_thinking"})
_BINARY = frozenset({"image", "document"})
_CODEX_ITEMS = frozenset({
    *("message", "function_call", "function_call_output", "custom_tool_call"),
    *("custom_tool_call_output", "local_shell_call"),
})  # fmt: skip


def transcript_path(text: object) -> Path | None:
    """Return the path of a transcript; None for what is not a regular file of JSON Lines.

    A link is not followed, and nothing is read that could wait for a writer.
    """
    if not isinstance(text, str) or not text.endswith(".jsonl") or "\0" in text:
        return None
    path = Path(text)
    try:
        status = path.lstat()
    except OSError:
        return None
    return path if stat.S_ISREG(status.st_mode) else None


def last_turns(path: Path, agent: Agent) -> list[dict[str, Any]]:
    """Return the last lines that were said, oldest first; raises OSError.

    Broken lines are left out, and so are results whose calls are not there.
    """
    size = path.stat().st_size
    found: list[dict[str, Any]] = []
    for most in TAIL_BYTES:
        begin = max(0, size - most)
        reader = TranscriptReader(path, begin, skips=begin > 0)
        found = list(said(reader.objects(size - begin), agent))
        if agent != "claude_code":
            found = [found[index] for index, *_ in codex_lines(found)]
        if len(found) >= LAST_TURNS or not begin:
            break
    return paired(found[-LAST_TURNS:], agent)


def said(
    lines: Iterable[Mapping[str, Any]], agent: Agent, ancestor: Callable[[str], str] = str
) -> Iterator[dict[str, Any]]:
    """Yield the entries in these lines, in the format of the agent's.

    What the user took back is left out, as far as these lines tell it. Each line of Claude Code
    names the last one before it that was said; ``ancestor`` finds that one for a line that is not
    among these. Of Codex the events stay by which turns were taken back, with these turns.
    """
    if agent != "claude_code":
        yield from filter(None, (_tried(_codex_entry, line) for line in lines))
        return
    read = [_tried(_claude_entry, line) or _link(line) for line in lines]
    branch = transcript_branch(read)
    links: dict[object, Any] = {
        line["uuid"]: line.get("parentUuid") or line.get("logicalParentUuid")
        for line in read
        if isinstance(line.get("uuid"), str) and not _is_entry(line)
    }
    for index in range(len(read)) if branch is None else branch:
        entry = read[index]
        if not _is_entry(entry):
            continue
        parent = _past(links, entry.get("parentUuid"))
        if isinstance(parent, str) and line_is_users(entry):
            # Only there the user can have gone back.
            parent = ancestor(parent)
        yield entry if "parentUuid" not in entry else {**entry, "parentUuid": parent}


def ancestor_in(path: Path, before: int, known: Container[object]) -> Callable[[str], str]:
    """Return a function from the id of a line to that of the last one, at it or before it, that is
    known: it reads the file before an offset. The id itself where there is none."""

    def ancestor(name: str) -> str:
        if name in known:
            return name
        with (
            suppress(OSError, ValueError),  # an empty file cannot be mapped
            path.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            end, found = min(before, len(data)), name
            for _ in range(_MAX_STEPS):
                line, end = line_in(data, found, end)
                parent = line.get("parentUuid") or line.get("logicalParentUuid")
                if not isinstance(parent, str):
                    break
                if parent in known:
                    return parent
                found = parent
        return name

    return ancestor


def _past(links: Mapping[object, Any], name: object) -> object:
    """Return the first line at this one, or before it, that is none of the links."""
    for _ in range(_MAX_STEPS):
        if name not in links:
            break
        name = links[name]
    return name


def _tried(read: Callable[[Mapping[str, Any]], Any], line: Mapping[str, Any]) -> Any:
    try:
        return read(line)
    except (AttributeError, TypeError, RecursionError):
        return None  # a line of no shape that we know


def _is_entry(line: Mapping[str, Any]) -> bool:
    return "message" in line or "attachment" in line


def _link(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is left of a line that was not said: what hangs on what."""
    return {key: line[key] for key in _LINK_KEYS if key in line}


def paired(entries: list[dict[str, Any]], agent: Agent) -> list[dict[str, Any]]:
    """Return the entries without results whose calls are missing, and without calls that were
    never answered, where others were made after them."""
    if agent != "claude_code":
        items = [entry["payload"] for entry in entries]
        asked = {item.get("call_id") for item in items if not _is_output(item)}
        return [
            entry
            for entry, item in zip(entries, items, strict=True)
            if not _is_output(item) or item["call_id"] in asked
        ]
    asked = {block.get("id") for entry in entries for block in _blocks(entry, "tool_use")}
    kept = (
        _with_blocks(
            entry,
            lambda block: block.get("type") != "tool_result" or block.get("tool_use_id") in asked,
        )
        for entry in entries
    )
    return [entry for entry in kept if entry is not None]


def _claude_entry(line: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what counts of a line; Claude Code keeps the whole result a second time next to it."""
    if not line_is_seen(line) or any(line.get(key) for key in _UNSEEN):
        return None
    content = line_content(line)
    if not isinstance(content, str | list):
        return None
    entry = {
        key: line[key]
        for key in _KEPT_KEYS
        if isinstance(line.get(key), str) or (key == "parentUuid" and key in line)
    }
    if line["type"] == "attachment":
        if not line_is_users(line):
            return None
        entry["attachment"] = {"type": "queued_command", "prompt": content, "commandMode": "prompt"}
    else:
        # A line without its role is not a message; the type says the same.
        own = own_words(content) if line["type"] == "user" else content
        body = {"role": line["type"], "content": own}
        message_id = line["message"].get("id")
        entry["message"] = body | ({"id": message_id} if isinstance(message_id, str) else {})
    light = _with_blocks(entry, lambda block: block.get("type") not in _THINKING)
    if light is None or (line["type"] == "user" and _is_harness(line, light)):
        return None
    return light


_REMINDER = re.compile(r"<(/?)(system-reminder)>")


def own_words(content: Any) -> Any:
    """Return the content of a user's line without what the harness adds to the words: that is not
    the user's, and nothing to be remembered as such."""
    if isinstance(content, str):
        return without_elements(content, _REMINDER) if "<system-reminder>" in content else content
    return [
        {**block, "text": own_words(block["text"])}
        if isinstance(block, Mapping)
        and block.get("type") == "text"
        and isinstance(block.get("text"), str)
        else block
        for block in content
    ]


def _codex_entry(line: Mapping[str, Any]) -> dict[str, Any] | None:
    item = line.get("payload")
    if not isinstance(item, Mapping):
        return None
    entry = {key: line[key] for key in ("type", "timestamp", "payload") if key in line}
    if codex_turns_taken_back(line):
        return entry
    if line.get("type") != "response_item" or item.get("type") not in _CODEX_ITEMS:
        return None
    if item["type"] != "message":
        return entry if isinstance(item.get("call_id"), str) else None
    role = item.get("role")
    if role not in ("user", "assistant") or not isinstance(item.get("content"), str | list):
        return None
    return entry if role == "assistant" or words_of_user(item) else None


def _is_harness(line: Mapping[str, Any], entry: Mapping[str, Any]) -> bool:
    """Return whether a line of the user's role holds nothing that a user or a tool said."""
    if any(_blocks(entry, "tool_result")) or any(_blocks(entry, "text", has=("[image]",))):
        return False
    message = message_of(entry)
    words = "" if message is None or not line_is_users(line) else words_of_user(message)
    return not words or words.startswith(_HARNESS)


def _blocks(
    entry: Mapping[str, Any], kind: str, has: tuple[str, ...] = ()
) -> Iterator[Mapping[str, Any]]:
    content = line_content(entry)
    for block in content if isinstance(content, list) else ():
        if block.get("type") == kind and (not has or block.get("text") in has):
            yield block


def _with_blocks(entry: dict[str, Any], keeps: Any) -> dict[str, Any] | None:
    """Return the entry with the blocks that are kept; None where nothing is left."""
    content = line_content(entry)
    if isinstance(content, str):
        return entry if content.strip() else None
    kept = [_light(block) for block in content if isinstance(block, Mapping) and keeps(block)]
    if not kept:
        return None
    if "attachment" in entry:
        return {**entry, "attachment": {**entry["attachment"], "prompt": kept}}
    return {**entry, "message": {**entry["message"], "content": kept}}


def _light(block: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a block with a word in the place of binary data."""
    if block.get("type") in _BINARY:
        return {"type": "text", "text": f"[{block['type']}]"}
    if block.get("type") == "tool_result" and isinstance(block.get("content"), list):
        inner = [_light(each) for each in block["content"] if isinstance(each, Mapping)]
        return {**block, "content": inner}
    return block


def _is_output(item: Mapping[str, Any]) -> bool:
    return str(item.get("type", "")).endswith("_output")


FIRST_BYTES = 64_000_000
"""Of a longer transcript the first reading begins so far before its end."""
STEP_BYTES = 2_000_000
"""Of a transcript that are read and stored in one step, which takes 0.1 s."""


class StoredSession(NamedTuple):
    """A session after it was stored."""

    store: ContextStore
    text: str
    """The store as markdown."""
    taken_back: str
    """The texts that the user took back, word for word."""


class Session(NamedTuple):
    """One session of an agent."""

    home: Home
    project: str
    id: str
    agent: Agent

    def store_new(
        self, path: Path, records: Records, deadline: float, store_tokens: int
    ) -> StoredSession:
        """Store what the transcript has since the last call, secrets removed; return the session's
        context store, as far as the deadline let the transcript be read.

        Raises OSError and StoreError. What is stored stays stored.
        """
        from rehydrate import formats
        from rehydrate.context.context import Context
        from rehydrate.memory.redaction import Redactor

        redactor = Redactor()
        size = path.stat().st_size
        begin = max(0, size - FIRST_BYTES)
        offset, skips = records.offset(str(path)) or (begin, begin > 0)
        if offset > size:  # it was written anew
            offset, skips = begin, begin > 0
        reader = TranscriptReader(path, offset, skips=skips)
        with self.home.open_threads(self.project) as threads:
            context = Context(
                provider=PROVIDER_OF[self.agent],
                format=self.agent,
                namespace=self.project,
                thread=self.id,
                threads=threads,
                embedder=None,
            )
            known_lines = {entry.get("uuid") for entry in context.history}
            while reader.offset < size and time.monotonic() < deadline:
                before = reader.offset
                lines = list(reader.objects(STEP_BYTES))
                entries = list(said(lines, self.agent, ancestor_in(path, before, known_lines)))
                known_lines.update(entry.get("uuid") for entry in entries)
                if entries:
                    context.add(*map(redactor.inside, entries))
                records.note_offset(str(path), reader.offset, reader.skips)
                if reader.is_at_end or reader.offset == before:
                    break
            store = context.store
            known = threads.native.thread(self.project, self.id) is not None
            text = threads.render_store(self.id, store_tokens) if known else ""
            gone = formats.taken_back(context.history, self.agent)
            taken = [said.text for index in gone for said in said_in(context.history[index])]
            return StoredSession(store, text, "\n".join(taken))

    def keep(self, text: str) -> str:
        """Keep a whole text in the session's thread, secrets removed, and return its handle."""
        from rehydrate.memory.redaction import Redactor

        with self.home.open_threads(self.project) as threads:
            return threads.keep(self.id, Redactor()(text).text, format=self.agent)

    def whole(self, handle: str) -> str:
        """Return the text under a handle; raises UnknownThreadError, UnknownHandleError."""
        from rehydrate.context.jit import ThreadReader

        with self.home.open_threads(self.project) as threads:
            return ThreadReader(threads, self.id).whole(handle)
