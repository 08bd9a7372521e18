"""Model names: the row of a table that a name means, with or without vendor, date and revision.

THINKING_MODELS: what each model takes back of its thinking, with the source of each row.

Entries without the model's thinking, as far as their formats have parts in common.

A format says with `without_thinking(entries)` what each entry is once its thinking is gone: the
entry itself where it has none, a copy without it, or None where nothing else is left to say. The
entries themselves are never changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from rehydrate.formats._reading import type_of

__all__ = [
    "THINKING_BLOCKS",
    "THINKING_MODELS",
    "UNBOUND",
    "UNKNOWN_CLAUDE",
    "Nothing",
    "ThinkingModel",
    "content_without_thinking",
    "is_thinking",
    "known_name",
    "thinking_model",
]


# What may follow a model's name without making it another model: a date, a revision, a variant.
_REVISION = re.compile(
    r"(-\d{8}|-\d{4}-\d\d-\d\d|-latest|-v\d+|@[\w.-]+|:[\w.-]+|\[[\w.-]+\])*", re.ASCII
)
_VENDOR = re.compile(r"^.*/|^(\w+\.)*anthropic\.")


def known_name(model: str, names: Iterable[str]) -> str | None:
    """The one of these names that a model's name means; None for a model that is none of them.

    >>> known_name("us.anthropic.claude-opus-4-5-20251101-v1:0", ["claude-opus-4-5"])
    'claude-opus-4-5'
    >>> known_name("anthropic/claude-sonnet-4.5", ["claude-sonnet-4-5"])
    'claude-sonnet-4-5'
    """
    names = list(names)
    if model in names:
        return model
    name = _VENDOR.sub("", model.lower())
    for spelled in (name, name.replace(".", "-")):  # some gateways write claude-sonnet-4.5
        fits = [
            key
            for key in names
            if spelled.startswith(key) and _REVISION.fullmatch(spelled, len(key))
        ]
        if fits:
            return max(fits, key=len)
    return None


AS_OF = "2026-11"
"""When the table was last compared with what the provider publishes."""

OnMismatch = Literal["error", "drop"]
OpenLoop = Literal["any", "leading"]


class ThinkingModel(NamedTuple):
    """What one model takes back of the thinking in a conversation."""

    binds_prefix: bool
    """Whether a thinking block is taken only while system, tools and every message before it are
    what they were when it was made."""
    on_mismatch: OnMismatch = "error"
    """What the API does with a block whose prefix changed, unless a request says otherwise: it
    refuses the request (400), or drops the block. Without ``binds_prefix`` it means nothing."""
    open_loop: OpenLoop = "any"
    """What an open tool loop must have: "any" takes it with and without thinking, "leading" refuses
    it (where thinking has a manual budget) unless its first assistant message begins with some."""
    reads: tuple[str, ...] = ()
    """Other models whose blocks it is documented to read, on the Claude API. Any other's are
    dropped, without an error; send them all the same, since the next model may read them."""
    source: str = ""
    """Where the provider says so."""

    @property
    def refuses_changed_prefix(self) -> bool:
        """Whether a request with thinking behind a change is refused: then it has to go."""
        return self.binds_prefix and self.on_mismatch == "error"


_DOCS = "https://platform.claude.com/docs/en/"
_PRESERVED = _DOCS + "build-with-claude/preserved-thinking"
_CHECKS = _PRESERVED + "/prefix-checks"
_CONFIGURATIONS = _DOCS + "build-with-claude/thinking-troubleshooting#rejected-configurations"

_BEFORE_5 = (
    *("claude-opus-4-8", "claude-opus-4-7", "claude-opus-4-6", "claude-opus-4-5"),
    *("claude-opus-4-1", "claude-opus-4", "claude-sonnet-4-6", "claude-sonnet-4-5"),
    *("claude-sonnet-4", "claude-haiku-4-5", "claude-3-7-sonnet"),
)
_BEFORE_FABLE = ("claude-opus-5", "claude-sonnet-5", *_BEFORE_5)
_BEFORE_FABLE_5_1 = (
    *("claude-opus-5-5", "claude-fable-5", "claude-mythos-5", "claude-mythos-preview"),
    *_BEFORE_FABLE,
)


def _binding(source: str, *reads: str) -> ThinkingModel:
    return ThinkingModel(True, "error", "any", reads, source)


def _free(*reads: str) -> ThinkingModel:
    return ThinkingModel(False, "error", "any", reads, _CONFIGURATIONS)


def _manual() -> ThinkingModel:
    return ThinkingModel(False, "error", "leading", (), _CONFIGURATIONS)


THINKING_MODELS: dict[str, ThinkingModel] = {
    "claude-fable-5-2": _binding(
        _DOCS + "models/fable-5-2/whats-new-fable-5-2", "claude-mythos-5-2"
    ),
    "claude-mythos-5-2": _binding(
        _DOCS + "models/fable-5-2/whats-new-fable-5-2", "claude-fable-5-2"
    ),
    "claude-fable-5-1": _binding(_PRESERVED, "claude-mythos-5-1", *_BEFORE_FABLE_5_1),
    "claude-mythos-5-1": _binding(_CHECKS, "claude-fable-5-1", *_BEFORE_FABLE_5_1),
    "claude-opus-5-5": _binding(
        _DOCS + "models/opus-5-5/whats-new-opus-5-5", "claude-sonnet-5-5", *_BEFORE_FABLE
    ),
    "claude-sonnet-5-5": _binding(
        _DOCS + "models/sonnet-5-5/whats-new-sonnet-5-5", "claude-sonnet-5", *_BEFORE_5
    ),
    "claude-haiku-5-5": _binding(_DOCS + "models/haiku-5-5/migration-guide"),
    "claude-fable-5": _free("claude-mythos-5", *_BEFORE_FABLE),
    "claude-mythos-5": _free("claude-fable-5", *_BEFORE_FABLE),
    "claude-mythos-preview": _manual(),
    "claude-opus-5": _free(*_BEFORE_5),
    "claude-sonnet-5": _free(*_BEFORE_5),
    "claude-opus-4-8": _free(),
    "claude-opus-4-7": _free(),
    "claude-opus-4-6": _manual(),
    "claude-opus-4-5": _manual(),
    "claude-opus-4-1": _manual(),
    "claude-opus-4": _manual(),
    "claude-sonnet-4-6": _manual(),
    "claude-sonnet-4-5": _manual(),
    "claude-sonnet-4": _manual(),
    "claude-haiku-4-5": _manual(),
    "claude-3-7-sonnet": _manual(),
}
"""By model, `AS_OF`. Yours to edit: what you put there holds from the next call on, for every
compaction, `Context`, `compile` and `validate` of the process.

>>> THINKING_MODELS["claude-next"] = ThinkingModel(True, source="https://example.com/next")
>>> thinking_model("claude-next-20270101").refuses_changed_prefix
True
>>> del THINKING_MODELS["claude-next"]
"""

UNKNOWN_CLAUDE = ThinkingModel(True, "error", "leading", (), _CHECKS)
"""A Claude model that nobody named, or that the table lacks: the strictest of all, so that whatever
it turns out to be takes what is sent."""

UNBOUND = ThinkingModel(False)
"""Any other provider's: none refuses thinking for what stands before it. OpenAI's newer models drop
reasoning behind a change, without an error
(https://developers.openai.com/api/docs/guides/keep-prefix-unchanged)."""

_CLAUDE = re.compile(r"claude|fable|mythos|opus|sonnet|haiku", re.IGNORECASE)
_BESIDE = "thinking_blocks"
"""Where gateways put Claude's thinking, beside the content."""
_OWN_FORMATS = ("anthropic", "claude_code")
"""What is written in them goes to Claude, or to a server that speaks as its API does."""


def thinking_model(model: str, format: str = "", entries: Sequence[Any] = ()) -> ThinkingModel:  # noqa: A002
    """The row of a model; of the one that the entries name or come from where ``model`` is "".

    A transcript of Claude Code and LangChain's messages name the model that answered. Without any
    name Anthropic's own formats, and blocks with Claude's signatures in others, mean a Claude.

    >>> thinking_model("us.anthropic.claude-sonnet-4-5-20250929-v1:0").binds_prefix
    False
    >>> thinking_model("claude-opus-9") is UNKNOWN_CLAUDE, thinking_model("gpt-5") is UNBOUND
    (True, True)
    """
    name = model or _name_in(entries, format)
    known = known_name(name, THINKING_MODELS) if name else None
    if known is not None:
        return THINKING_MODELS[known]
    if format in _OWN_FORMATS or _CLAUDE.search(name):
        return UNKNOWN_CLAUDE
    if format in ("plain", "openai_responses"):  # no block of Claude's stands in them
        return UNBOUND
    # On the hot path: most messages are texts, which hold none.
    rich = [
        each
        for each in entries
        if type(each) is not dict or type(each.get("content")) is not str or _BESIDE in each
    ]
    return UNKNOWN_CLAUDE if any(map(_is_claudes, rich)) else UNBOUND


def _name_in(entries: Sequence[Any], format: str) -> str:  # noqa: A002
    """The model that answered last, where the entries say so; "" where they do not."""
    for entry in reversed(entries) if format in ("claude_code", "langchain") else ():
        about: Any = getattr(entry, "response_metadata", None)
        if format == "claude_code":
            about = entry.get("message") if entry.get("type") == "assistant" else None
        if not isinstance(about, Mapping):
            continue
        names = [about.get(key) for key in ("model_name", "model", "model_id")]
        name = next((each for each in names if isinstance(each, str) and each), "")
        if name and not name.startswith("<"):  # the harness's own words, "<synthetic>"
            return name
    return ""


def _is_claudes(entry: Any) -> bool:
    """Whether it holds a thinking block as only Claude signs them."""
    return any(
        is_thinking(block) and (block.get("signature") or block.get("data"))
        for block in _blocks_of(entry)
    )


def _blocks_of(entry: Any) -> Iterator[Any]:
    for key in ("content", _BESIDE):
        blocks = entry.get(key) if isinstance(entry, Mapping) else getattr(entry, key, None)
        if isinstance(blocks, (list, tuple)):
            yield from blocks


THINKING_BLOCKS = frozenset({"thinking", "redacted_thinking"})


class Nothing:
    """What is left of a content that was nothing but thinking, and white space around it."""


def is_thinking(block: object, kinds: frozenset[str] = THINKING_BLOCKS) -> bool:
    """Whether a block of a content is of one of these types."""
    return isinstance(block, Mapping) and type_of(block) in kinds


def content_without_thinking(content: Any, kinds: frozenset[str] = THINKING_BLOCKS) -> Any:
    """The content without blocks of these types: itself where it has none, or `Nothing`.

    >>> content_without_thinking([{"type": "thinking", "thinking": "hm"}, "Done."])
    ['Done.']
    >>> content_without_thinking([{"type": "thinking", "thinking": "hm"}, "\\n"]) is Nothing
    True
    """
    if not isinstance(content, (list, tuple)) or not any(is_thinking(b, kinds) for b in content):
        return content
    rest = [block for block in content if not is_thinking(block, kinds)]
    if all(map(_is_blank, rest)):  # which the providers refuse
        return Nothing
    return tuple(rest) if isinstance(content, tuple) else rest


def _is_blank(block: object) -> bool:
    if isinstance(block, Mapping) and type_of(block) == "text":
        block = block.get("text")
    return isinstance(block, str) and not block.strip()
