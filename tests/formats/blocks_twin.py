"""Draft: one entry as it is read, slowly and plainly: the twin of the native reader of blocks.

Every format reads its blocks by `Draft.add_block`: texts are pieces, pictures and files are media,
and a block of a type that no format knows counts by what can be read in it, or as a medium where
nothing can. Base64 is never text, except in a text block, which a model reads as it is.

A block that looks like a call or a result, and that no format can pair, is refused: a compaction
would drop one half of the pair.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rehydrate.errors import InvalidMessageError, UnknownBlockError
from rehydrate.formats._reading import Path, Places, compact_json
from rehydrate.messages import FORMAT_NAMES, Conversation, Piece, PieceKind
from tests.formats.checks_twin import as_entry, type_of

__all__ = [
    "CALLS",
    "MEDIA_BLOCKS",
    "STATE_BLOCKS",
    "TEXT_BLOCKS",
    "Draft",
    "Notes",
    "as_content",
    "check_no_chat_calls",
    "check_pair",
    "has_only_results",
    "is_anthropic",
    "is_call",
    "readable_texts",
    "tool_input_text",
    "wrong_content",
]


def tool_input_text(name: object, value: object) -> str:
    """Return a tool call as text: its name, a blank, its input as compact JSON."""
    if not isinstance(value, str):
        value = compact_json(value)
    return f"{name} {value}" if isinstance(name, str) else value


def wrong_content(value: object, index: int, part: str = "content") -> InvalidMessageError:
    """Return the error for a content that is neither text nor blocks."""
    remedy = "wrap the block in a list" if isinstance(value, Mapping) else "convert it to a string"
    return InvalidMessageError(index, part, value, "a string, a list of blocks or None", remedy)


MEDIA_BLOCKS = frozenset(
    {
        *("image", "image_url", "input_image", "input_audio", "audio", "video", "video_url"),
        *("file", "container_upload", "input_file", "computer_screenshot", "media"),
        "document_url",
    }
)
"""Pictures and files of any provider or gateway; each costs a constant."""

TEXT_BLOCKS = frozenset(
    {
        *("text", "input_text", "output_text", "text-plain", "summary_text", "reasoning_text"),
    }
)
STATE_BLOCKS = frozenset({"compaction", "compaction_summary"})
"""Summaries that a provider itself wrote: it ignores all before the last one."""
_READABLE_BLOCKS = STATE_BLOCKS | frozenset(
    {
        *("refusal", "search_result", "tool_reference", "resource", "resource_link"),
        *("reasoning", "reasoning_content", "non_standard"),
        *("executable_code", "code_execution_result"),
        *("server_tool_call", "server_tool_result", "web_search_call", "file_search_call"),
        *("code_interpreter_call", "image_generation_call", "mcp_call", "mcp_list_tools"),
        *("mcp_approval_request", "mcp_approval_response", "citation", "logs", "tool_addition"),
        *("tool_removal", "fallback", "cache_point", "cachePoint", "reference"),
    }
)
"""Blocks of known types, of which the strings that a model reads are read."""

_UNREAD_KEYS = frozenset(
    {
        *("type", "id", "tool_use_id", "file_id", "caller", "cache_control", "signature"),
        *("encrypted_content", "encrypted_index", "encrypted_stdout", "call_id", "tool_call_id"),
        *("approval_request_id", "container_id", "media_type", "mime_type", "mimeType"),
    }
)
_PAYLOAD_KEYS = frozenset({"data", "blob", "base64", "b64_json", "file_data", "bytes"})
_FILE_KEYS = frozenset({"media_type", "mime_type", "mimeType", "format", "url", "b64_json"})
_TEXT_KEYS = frozenset({"text", "content", "stdout", "stderr", "logs", "thinking", "reasoning"})
_MAX_DEPTH = 8
_LONGEST_DATA_URL_HEADER = 4_096
_SHORTEST_BASE64 = 512
"""Characters. A shorter string is read as text: it may be an id or a hash."""
_SHORTEST_DATA = 64
"""Characters of `data`, which names many things; shorter, it is no file."""
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}", re.ASCII)

_SOURCES = {"text": "data", "content": "content"}

_PAIR = re.compile(
    r"tool(call|use|result|return|invocation|response|output|error|approval)"
    r"|function(call|result|response|output)"
)
_PAIR_KEYS = frozenset(
    {
        *("tooluse", "toolresult", "toolcall", "toolcalls", "toolcallresult", "toolinvocation"),
        *("functioncall", "functionresponse", "functionresult"),
        *("toolcallid", "tooluseid", "callid", "functioncallid"),
    }
)
"""Keys of a block, without case and punctuation, that hold a call, a result, or the id of one."""
_TYPE_KEYS = ("type", "part_kind", "block_type", "$type", "__type__", "content_type", "kind")
_SERVER_BEGINNINGS = ("server_", "mcp_")
_SERVER_ENDS = ("_tool_result", "_approval_request", "_approval_response")
_OUTPUT_END = "_call_output"
"""Types of blocks inside a result, which is paired already, end so."""
_LETTERS = re.compile(r"[^a-z]")
_REMEDY = "convert the messages to one of these formats, or to LangChain's message objects"
_DIALECTS = {
    "toolUse": "Bedrock Converse's",
    "toolResult": "Bedrock Converse's",
    "functionCall": "Gemini's",
    "functionResponse": "Gemini's",
    "tool-call": "the AI SDK's",
    "tool-result": "the AI SDK's",
}
"""Whose blocks these are, by type or key."""

_OTHER_FIELDS = {
    "parts": "Gemini's, or the AI SDK's UIMessage",
    "contents": "Agent Framework's",
    "blocks": "LlamaIndex'",
    "items": "Semantic Kernel's",
    "toolInvocations": "the AI SDK's UIMessage",
    "_content": "Haystack's",
}
"""Fields of a message, beside `content`, in which others keep what was said."""


class Notes:
    """What the reader of a list finds out beside its messages."""

    __slots__ = ("state", "unknown", "unread")

    def __init__(self) -> None:
        """Start with nothing found."""
        self.state: int | None = None
        """The index of the last entry with a summary that the provider itself wrote."""
        self.unread: list[int] = []
        """The indices of entries with blocks that nobody can read, and that may be state."""
        self.unknown: dict[str, int] = {}
        """Types of blocks that no format knows, and how many there are of each."""

    def take(self, draft: Draft) -> None:
        """Note what was found in an entry."""
        if draft.has_state:
            self.state = draft.index
        if draft.has_unread:
            self.unread.append(draft.index)
        for name in draft.unknown:
            self.unknown[name] = self.unknown.get(name, 0) + 1

    @property
    def bound(self) -> tuple[int, ...]:
        """The indices of entries that stay, ascending: the provider ignores all before its last
        summary, and what nobody can read may be state too."""
        state = [] if self.state is None else [self.state]
        return tuple(sorted({*state, *self.unread}))

    def added_to(
        self, read: Conversation, *, bound: Iterable[int] = (), **facts: Any
    ) -> Conversation:
        """Return the conversation with what was found out, with these facts and bound indices."""
        bound = sorted({*bound, *self.bound})
        return read.replace(bound=bound, unknown=self.unknown, **facts)


class Draft:
    """What was read of an entry so far.

    `places` is parallel to `pieces`: the path of each text, None where it must not change. `calls`
    and `answers` are the ids of the calls and results among the blocks, `unknown` the types of
    blocks that no format knows. `has_state` says whether a block is a summary that the provider
    itself wrote, and that stands for all before it; `has_unread` whether nobody can read one;
    `has_pair` whether one is a call or a result, with an id or without.
    """

    __slots__ = (
        *("_depth", "answers", "calls", "has_pair", "has_state", "has_unread", "images", "index"),
        *("pieces", "places", "unknown"),
    )

    def __init__(self, index: int = 0) -> None:
        """Start with nothing read of the entry of this index."""
        self.index = index
        self.pieces: list[Piece] = []
        self.places: Places = []
        self.images = 0
        self.calls: list[str] = []
        self.answers: list[str] = []
        self.unknown: list[str] = []
        self.has_state = self.has_unread = self.has_pair = False
        self._depth = 0  # of the block that is being read: a result may hold blocks

    def add(self, text: object, kind: PieceKind, path: Path | None = None) -> None:
        """Add a text, unless it is empty or no string."""
        if text and isinstance(text, str):
            self.pieces.append(Piece(text, kind))
            self.places.append(path)

    def add_readable(self, value: object, kind: PieceKind) -> None:
        """Add every text in a value that a model would read, and every medium."""
        for text in _readable(value):
            if text is None:
                self.images += 1
            else:
                self.add(text, kind)

    def add_pictures(self, entry: Mapping[str, Any]) -> None:
        """Add the pictures that Ollama keeps beside a message's content."""
        pictures = entry.get("images")
        if isinstance(pictures, (list, tuple)):
            self.images += len(pictures)

    def add_content(
        self, content: object, kind: PieceKind, path: Path, part: str = "content"
    ) -> None:
        """Add a content: a string, or a list of strings and blocks; raises InvalidMessageError."""
        if isinstance(content, str):
            self.add(content, kind, path)
            return
        for number, block in enumerate(as_parts(content, self.index, part)):
            here = (*path, number)
            if isinstance(block, str):
                self.add(block, kind, here)
            else:
                place = f"{part}[{number}]"
                self.add_block(as_entry(block, self.index, place), kind, here, place)

    def add_block(
        self, block: Mapping[str, Any], kind: PieceKind, path: Path, part: str = ""
    ) -> None:
        """Add a block; raises UnknownBlockError for a call or a result of a foreign format."""
        name = type_of(block)
        if self._depth == _MAX_DEPTH or (self._depth and is_anthropic(block)):
            self.add_readable(block, kind)
            return
        self._depth += 1
        self._add_block(block, name, kind, path, part)
        self._depth -= 1

    def _add_block(
        self, block: Mapping[str, Any], name: str, kind: PieceKind, path: Path, part: str
    ) -> None:
        if is_anthropic(block):
            self._add_anthropic(block, name, path, part)
        elif (not name or name in TEXT_BLOCKS) and isinstance(block.get("text"), str):
            # Citations point into the text by character number.
            is_cited = block.get("annotations") or block.get("citations")
            self.add(block["text"], kind, None if is_cited else (*path, "text"))
        elif name in MEDIA_BLOCKS:
            if block.get("source_type") == "text":  # LangChain's file with a text in it
                self.add(block.get("text"), kind, (*path, "text"))
            else:
                self.images += 1
        elif name == "document":
            self._add_document(block, kind, path, part)
        else:
            check_pair(block, self.index, part, in_result=kind is PieceKind.TOOL_RESULT)
            self.has_state |= name in STATE_BLOCKS
            if name in _READABLE_BLOCKS or name in TEXT_BLOCKS or _is_of_server(name):
                self.add_readable(block, kind)
            else:
                self.add_unknown(block, kind)

    def _add_anthropic(self, block: Mapping[str, Any], name: str, path: Path, part: str) -> None:
        """Add a call, a result or a thought of Anthropic's, which gateways write in chat too."""
        self.has_pair |= name not in ("thinking", "redacted_thinking")
        if is_call(name):
            call = block.get("id")
            if isinstance(call, str):
                self.calls.append(call)
            self.add(tool_input_text(block.get("name"), block.get("input")), PieceKind.TOOL_INPUT)
            return
        answer = block.get("tool_use_id")
        if isinstance(answer, str):
            self.answers.append(answer)
        content = block.get("content")
        if name == "thinking":
            thought = block.get("thinking")
            if isinstance(thought, (list, tuple)):
                self.add_readable(thought, PieceKind.THINKING)
            else:
                self.add(thought, PieceKind.THINKING)
        elif name == "tool_result":
            place = f"{part}.content"
            if isinstance(content, Mapping):
                raise wrong_content(content, self.index, place)
            self.add_content(content, PieceKind.TOOL_RESULT, (*path, "content"), place)
        else:
            self.add_readable(content, PieceKind.TOOL_RESULT)

    def add_unknown(self, block: Mapping[str, Any], kind: PieceKind) -> None:
        """Add a block of a type that no format knows, and note it; it is never free."""
        self.unknown.append(_name_of(block))
        texts, images = len(self.pieces), self.images
        self.add_readable(block, kind)
        has_text, has_media = len(self.pieces) > texts, self.images > images
        is_file = has_media and not _FILE_KEYS.isdisjoint(block)
        is_encrypted = any(isinstance(key, str) and key.startswith("encrypted") for key in block)
        self.has_unread |= is_encrypted or not (has_text or is_file)
        self.images += len(block) > 1 and not (has_text or has_media)

    def _add_document(
        self, block: Mapping[str, Any], kind: PieceKind, path: Path, part: str
    ) -> None:
        for key in ("title", "context"):
            self.add(block.get(key), kind)
        source = block.get("source")
        where = _SOURCES.get(type_of(source)) if isinstance(source, Mapping) else None
        if not isinstance(source, Mapping) or where is None:
            self.images += 1
            return
        value = source.get(where)
        if isinstance(value, str):
            is_cited = block.get("citations") or block.get("title") or block.get("context")
            self.add(value, kind, None if is_cited or where != "data" else (*path, "source", where))
        else:
            start = len(self.places)
            self.add_content(value, kind, (*path, "source", where), f"{part}.source.{where}")
            self.places[start:] = [None] * (len(self.places) - start)


CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
"""Anthropic's blocks that call a tool."""


def _is_of_server(name: str) -> bool:
    """Return whether a block of this type has its pair in the same message: the provider makes the
    call and answers it."""
    return name.startswith(_SERVER_BEGINNINGS) or name.endswith(_SERVER_ENDS)


def as_parts(content: object, index: int, part: str = "content") -> Sequence[Any]:
    """Return a content as a list of parts: a string is one part, None is an empty list."""
    if isinstance(content, str):
        return (content,)
    if content is None:
        return ()
    if isinstance(content, (list, tuple)):
        return content
    raise wrong_content(content, index, part)


def is_call(kind: str) -> bool:
    """Return whether a block of this type is a call of Anthropic's; a new server tool's may have
    its own name."""
    return kind in CALLS or kind.endswith("_tool_use")


def is_anthropic(block: Mapping[str, Any]) -> bool:
    """Return whether it is a call, a result or a thought in the shape that Anthropic has for it."""
    kind = type_of(block)
    return (
        is_call(kind)
        or kind in ("thinking", "redacted_thinking", "tool_result")
        or kind.endswith("_tool_result")
        or isinstance(block.get("tool_use_id"), str)
    )


def has_only_results(content: object) -> bool:
    """Return whether a content has nothing but results of tools."""
    return (
        isinstance(content, (list, tuple))
        and bool(content)
        and all(isinstance(each, Mapping) and each.get("type") == "tool_result" for each in content)
    )


def check_pair(
    block: Mapping[str, Any],
    index: int,
    part: str,
    *,
    in_result: bool = False,
    whose: str = "another format's",
) -> None:
    """Raise UnknownBlockError for a block that looks like a call or a result of a foreign format.

    >>> check_pair({"toolUse": {"toolUseId": "t1"}}, 3, "content[0]")
    Traceback (most recent call last):
    rehydrate.errors.UnknownBlockError: message 3: content[0] is 'toolUse', a foreign block whose \
call or result cannot be paired (formats here: claude_code, codex, openai_responses, openai_chat, \
anthropic, langchain, plain); it is Bedrock Converse's: convert the messages to one of these \
formats, or to LangChain's message objects
    """
    names = [name for key in _TYPE_KEYS if isinstance(name := block.get(key), str)]
    for name in names:
        if _is_of_server(name) or (in_result and name.endswith(_OUTPUT_END)):
            return
    marks = [name for name in names if _PAIR.search(_letters(name))]
    marks += [key for key in block if isinstance(key, str) and _letters(key) in _PAIR_KEYS]
    if marks:
        raise _unknown(marks[0], index, part, _DIALECTS.get(marks[0], whose))


def _unknown(name: str, index: int, part: str, whose: str) -> UnknownBlockError:
    return UnknownBlockError(index, part, name, FORMAT_NAMES, f"it is {whose}: {_REMEDY}")


def _letters(name: str) -> str:
    return _LETTERS.sub("", name.lower())


def _name_of(block: Mapping[str, Any]) -> str:
    """Return the type of a block, or its first key where it has none."""
    return type_of(block) or str(next(iter(block), ""))


def check_no_chat_calls(entry: Mapping[str, Any], index: int) -> None:
    """Raise InvalidMessageError for a message with OpenAI chat's calls or results, which pair with
    no block."""
    for key in ("tool_calls", "tool_call_id", "function_call"):
        if entry.get(key):
            remedy = "pass format='openai_chat', or convert it to blocks"
            expected = "no call of OpenAI chat's"
            raise InvalidMessageError(index, key, entry[key], expected, remedy)


def as_content(entry: Mapping[str, Any], index: int) -> object:
    """Return the content; raises UnknownBlockError for an entry that keeps it elsewhere."""
    content = entry.get("content")
    for key, whose in _OTHER_FIELDS.items():
        parts = entry.get(key)
        found = parts if isinstance(parts, (list, tuple)) else ()
        blocks = [
            (f"{key}[{n}]", part) for n, part in enumerate(found) if isinstance(part, Mapping)
        ]
        for place, part in blocks:
            check_pair(part, index, place, whose=whose)
        if blocks and not content:
            place, part = blocks[0]
            raise _unknown(_name_of(part), index, place, whose)
    return content


def readable_texts(value: object) -> Iterator[str]:
    """Yield the strings of an unknown block that a model would read: no ids, no base64.

    >>> block = {"type": "search_result", "title": "Piers", "source": "https://example.com"}
    >>> list(readable_texts(block))
    ['Piers', 'https://example.com']
    """
    return (text for text in _readable(value) if text is not None)


def _readable(value: object, depth: int = 0, key: object = "") -> Iterator[str | None]:
    """Yield each string in a value that a model would read, and None for each medium.

    What is deeper than `_MAX_DEPTH` is one string of JSON: it counts, whatever it is.
    """
    if isinstance(value, str):
        if _is_binary(value, key):
            if key != "data" or len(value) >= _SHORTEST_DATA:
                yield None
        elif value:
            yield value
    elif isinstance(value, (bytes, bytearray, memoryview)) or (
        depth and isinstance(value, Mapping) and type_of(value) in MEDIA_BLOCKS
    ):
        yield None
    elif depth == _MAX_DEPTH and isinstance(value, (Mapping, list, tuple)):
        yield compact_json(value)
    elif isinstance(value, Mapping):
        for name, item in list(value.items()):  # another thread may change it meanwhile
            if name not in _UNREAD_KEYS:
                yield from _readable(item, depth + 1, name)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _readable(item, depth + 1, key)


def _is_binary(text: str, key: object) -> bool:
    """Return whether a string under this key is a data URL, or nothing but base64."""
    if _is_base64_url(text):
        return True
    is_text = key in _TEXT_KEYS or (key not in _PAYLOAD_KEYS and len(text) < _SHORTEST_BASE64)
    return not is_text and _BASE64.fullmatch(text) is not None


def _is_base64_url(text: str) -> bool:
    """Return whether it is a base64 data URL, in any spelling and with any parameters."""
    if text[:5].lower() != "data:":
        return False
    header, comma, _ = text[:_LONGEST_DATA_URL_HEADER].partition(",")
    return bool(comma) and header[-7:].lower() == ";base64"
