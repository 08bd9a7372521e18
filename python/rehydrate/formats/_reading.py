"""Reading of entries: checks, texts and paths that every format shares."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from json import JSONEncoder
from reprlib import Repr
from typing import Any

from rehydrate._native import Columns, first_telling, read_entries, read_transcript
from rehydrate.errors import InvalidMessageError
from rehydrate.messages import Piece, PieceKind, normal_role

__all__ = [
    "HINT",
    "MEDIA_TYPES",
    "NONE",
    "PROOF",
    "Columns",
    "Draft",
    "Path",
    "Places",
    "as_content",
    "as_entry",
    "as_list",
    "as_parts",
    "as_role",
    "as_sequence",
    "compact_json",
    "content_places",
    "first_telling",
    "holds_bytes",
    "is_langchain_message",
    "json_object",
    "read_entries",
    "read_transcript",
    "readable_texts",
    "replace_texts",
    "tool_input_text",
    "type_of",
    "wrong_content",
]


# The result of `detect` for one entry: how strongly it shows the format of the whole list.
NONE, HINT, PROOF = 0, 1, 2


def json_object(value: object) -> dict[str, Any] | None:
    """Return an object, or a text that is the JSON of one, as a dict; None for anything else.

    >>> json_object('{"path": "src"}'), json_object("src")
    ({'path': 'src'}, None)
    """
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


compact_json = JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode
"""A value as JSON without blanks, or its `str` if it is no JSON; used to count and to compare."""


class _Bounded(Repr):
    """A bounded `repr` of inputs that are no JSON: nested too deeply, cyclic, or with odd keys."""

    def repr1(self, x: object, level: int) -> str:
        try:
            return super().repr1(x, level)
        except Exception:  # a number with more digits than Python prints, a container that raises
            return f"<{type(x).__name__}>"


_bounded = _Bounded()
_bounded.maxlevel = 12
_bounded.maxdict = _bounded.maxlist = _bounded.maxtuple = 200
_bounded.maxstring = _bounded.maxother = 4000

_OPAQUE_KEYS = frozenset(
    {
        *("type", "id", "tool_use_id", "file_id", "caller", "cache_control", "media_type"),
        *("data", "blob", "signature", "encrypted_content", "encrypted_index", "encrypted_stdout"),
        *("call_id", "tool_call_id", "approval_request_id", "container_id", "base64", "file_data"),
        "b64_json",
    }
)
_MAX_DEPTH = 8
_LONGEST_DATA_URL_HEADER = 4_096

# Media parts of any provider or gateway; each costs a constant.
MEDIA_TYPES = frozenset(
    {
        *("image", "image_url", "input_image", "input_audio", "audio", "video", "video_url"),
        *("file", "container_upload", "input_file", "computer_screenshot"),
    }
)


def as_sequence(messages: object) -> Sequence[Any]:
    """Return the list of entries; raises InvalidMessageError for anything else."""
    if isinstance(messages, (list, tuple)):
        return messages
    if isinstance(messages, Sequence) and not isinstance(messages, (str, bytes, bytearray)):
        return list(messages)
    if isinstance(messages, Mapping):
        remedy = "pass its 'messages'" if "messages" in messages else "wrap it in a list"
    elif isinstance(messages, (str, bytes, bytearray)):
        remedy = "parse it first, with json.loads for JSON, line by line for JSONL"
    else:
        remedy = "pass list(messages)"
    raise InvalidMessageError(None, "", messages, "a list of messages", remedy)


def as_entry(value: object, index: int, part: str = "") -> Mapping[str, Any]:
    """Return the mapping; else raise an error that says how to convert the value."""
    # Nearly always a dict: the check against an abstract class costs ten times as much.
    if type(value) is dict or isinstance(value, Mapping):
        return value
    if is_langchain_message(value):
        remedy = "convert all with rehydrate.formats.langchain_to_openai, or none"
    elif hasattr(value, "__dataclass_fields__"):
        remedy = "convert it with dataclasses.asdict()"
    elif isinstance(value, str) and not part:
        remedy = "wrap it as {'role': 'user', 'content': ...}"
    else:
        remedy = "convert it to a dict or leave it out"
    raise InvalidMessageError(index, part, value, "a mapping", remedy)


def as_role(entry: Mapping[str, Any], index: int) -> str:
    """Return the entry's role, normalised; raises InvalidMessageError if it has none."""
    role: object = entry.get("role")
    # Nearly always a str; an Enum of strings gives its value, not its repr.
    if type(role) is str and role:
        return normal_role(role)
    if isinstance(role, str) and role:
        return normal_role(str.__str__(role))
    expected = "a role: 'system', 'user', 'assistant' or 'tool'"
    if "lc" in entry or ("role" not in entry and isinstance(entry.get("data"), Mapping)):
        remedy = (
            "LangChain's stored form? load it with langchain_core's load() or "
            "messages_from_dict(), and pass the messages or their langchain_to_openai()"
        )
    elif "type" in entry and "role" not in entry:
        remedy = (
            "a transcript line or a Responses item among messages? "
            "pass nothing but such entries, or only messages"
        )
    else:
        remedy = "add the role of whoever speaks"
    raise InvalidMessageError(index, "role", role, expected, remedy)


def as_content(entry: Mapping[str, Any], index: int) -> object:
    """Return the content; raises InvalidMessageError for an entry with its text elsewhere."""
    content = entry.get("content")
    if content is None and entry.get("parts"):
        remedy = "Gemini's? convert its parts to OpenAI's or Anthropic's content first"
        raise InvalidMessageError(index, "content", None, "a string or a list of blocks", remedy)
    return content


def type_of(block: Mapping[str, Any]) -> str:
    """Return the block's type; "" where it has none, or one that is no string."""
    kind = block.get("type")
    return kind if isinstance(kind, str) else ""


def as_list(value: object, index: int, part: str) -> Sequence[Any]:
    """Return a list inside an entry; raises InvalidMessageError for anything else."""
    if isinstance(value, (list, tuple)):
        return value
    raise InvalidMessageError(index, part, value, "a list", "wrap it in a list or leave it out")


def as_parts(content: object, index: int, part: str = "content") -> Sequence[Any]:
    """Return a content as a list of parts: a string is one part, None is an empty list."""
    if isinstance(content, str):
        return (content,)
    if content is None:
        return ()
    if isinstance(content, (list, tuple)):
        return content
    raise wrong_content(content, index, part)


def wrong_content(value: object, index: int, part: str = "content") -> InvalidMessageError:
    """Return the error for a content that is neither text nor blocks."""
    is_block = isinstance(value, Mapping)
    remedy = "wrap the block in a list" if is_block else "convert it to a string"
    return InvalidMessageError(index, part, value, "a string, a list of blocks or None", remedy)


def tool_input_text(name: object, value: object) -> str:
    """Return a tool call as text: its name, a blank, its input as compact JSON.

    Never fails: input that is no JSON (nested thousands deep, cyclic, a tuple as a key) becomes a
    bounded text, which is enough to count and to score it.

    >>> tool_input_text("Read", {"path": "a.py", "limit": 20})
    'Read {"path":"a.py","limit":20}'
    """
    if not isinstance(value, str):
        try:
            value = compact_json(value)
        # Any error: `default=str` runs the code of whatever object is in the input.
        except Exception:
            value = _bounded.repr(value)
    return f"{name} {value}" if isinstance(name, str) else value


def is_langchain_message(value: object) -> bool:
    """Return whether it is a LangChain message object, by the attributes that all of them have.

    >>> is_langchain_message({"type": "human", "content": "hi"})
    False
    """
    return (
        hasattr(value, "additional_kwargs")
        and hasattr(value, "response_metadata")
        and hasattr(value, "content")
        and isinstance(getattr(value, "type", None), str)
    )


def holds_bytes(block: Mapping[str, Any]) -> bool:
    """Return whether it is an MCP resource with bytes, or a generated image: always media.

    >>> holds_bytes({"type": "resource", "resource": {"uri": "file:///a.pdf", "blob": "JVBE"}})
    True
    """
    resource = block.get("resource")
    holds_blob = isinstance(resource, Mapping) and isinstance(resource.get("blob"), str)
    return holds_blob or isinstance(block.get("b64_json"), str)


def _is_base64_url(text: str) -> bool:
    """Return whether it is a base64 data URL, in any spelling and with any parameters."""
    if text[:5].lower() != "data:":
        return False
    header, comma, _ = text[:_LONGEST_DATA_URL_HEADER].partition(",")
    return bool(comma) and header[-7:].lower() == ";base64"


def readable_texts(value: object, depth: int = 0) -> Iterator[str]:
    """Yield the strings of an unknown block that a model would read: no ids, no base64."""
    if isinstance(value, str):
        if value and not _is_base64_url(value):
            yield value
    elif depth < _MAX_DEPTH:
        if isinstance(value, Mapping):
            for key, item in list(value.items()):  # another thread may change it meanwhile
                if key not in _OPAQUE_KEYS:
                    yield from readable_texts(item, depth + 1)
        elif isinstance(value, (list, tuple)):
            for item in value:
                yield from readable_texts(item, depth + 1)


class Draft:
    """The pieces read from an entry so far, and the path of each text that an excerpt may replace.

    `places` is parallel to `pieces`; None marks a text that must not change.
    """

    __slots__ = ("images", "pieces", "places")

    def __init__(self) -> None:
        """Start with nothing read."""
        self.pieces: list[Piece] = []
        self.places: list[Path | None] = []
        self.images = 0

    def add(self, text: object, kind: PieceKind, path: Path | None = None) -> None:
        """Add a text, unless it is empty or no string."""
        if text and isinstance(text, str):
            self.pieces.append(Piece(text, kind))
            self.places.append(path)

    def add_readable(self, value: object, kind: PieceKind) -> None:
        """Add every text in an unknown value that a model would read."""
        for text in readable_texts(value):
            self.add(text, kind)


Path = tuple[str | int, ...]
"""Keys and indices from the entry to the string."""

Places = list[Path | None]
"""The path of each piece's text in an entry; None where it must not change."""


def replace_texts(entry: Any, texts: Mapping[Path, Any]) -> Any:
    """Return the entry with these texts or inputs at their paths; the entry never changes.

    >>> entry = {"role": "user", "content": [{"type": "text", "text": "long"}]}
    >>> replace_texts(entry, {("content", 0, "text"): "short"})
    {'role': 'user', 'content': [{'type': 'text', 'text': 'short'}]}
    >>> entry["content"][0]["text"]
    'long'
    """
    if () in texts:
        return texts[()]
    inner: dict[str | int, dict[Path, Any]] = {}
    for (step, *rest), text in texts.items():
        inner.setdefault(step, {})[tuple(rest)] = text
    copy: Any = dict(entry) if isinstance(entry, Mapping) else list(entry)
    for step, below in inner.items():
        copy[step] = replace_texts(copy[step], below)
    return tuple(copy) if isinstance(entry, tuple) else copy


def _part_places(part: Mapping[str, Any], path: Path) -> Places:
    """Return paths for the pieces that `readable_texts` reads of a part."""
    texts = list(readable_texts(part))
    is_plain = type_of(part) == "text" and texts == [part.get("text")]
    return [(*path, "text")] if is_plain else [None] * len(texts)


def content_places(content: object, path: Path, media: frozenset[str] = frozenset()) -> Places:
    """Return paths for a content: a string, or a list of strings and parts. `readable_texts` reads
    the parts, unless their type is in `media`."""
    if isinstance(content, str):
        return [path] if content else []
    if not isinstance(content, Sequence):
        return []
    places: Places = []
    for index, part in enumerate(content):
        if isinstance(part, str):
            places += [(*path, index)] if part else []
        else:
            places += [] if type_of(part) in media else _part_places(part, (*path, index))
    return places
