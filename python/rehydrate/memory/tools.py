"""load_memory: the tool that a model reads its memory with, and the answer to its calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rehydrate._check import check_methods, check_whole
from rehydrate._concurrency.async_wrappers import stored
from rehydrate._native import fence_tags, tool_definition
from rehydrate._text import failure_text
from rehydrate.errors import InvalidArgumentError, RehydrateError, UnknownHandleError
from rehydrate.formats.calls import ToolCall
from rehydrate.memory.folder import CHARS_A_TOKEN
from rehydrate.memory.items import MemoryItem

if TYPE_CHECKING:
    from rehydrate.memory.items import Hit
    from rehydrate.memory.memory import Memory


NAME = "load_memory"
MAX_TOKENS = 8_000
HITS = 5

DESCRIPTION = (
    "Read from long-term memory. With `query`, finds the passages that match best, in words or in "
    "meaning; each comes with its handle. With `name`, loads a whole note by its source, such as "
    "decisions.md or daily/2026-02-17.md, or one item by its handle. What is in the archive is "
    "found by `query` only."
)
ARGUMENTS: Mapping[str, dict[str, str]] = {
    "name": {
        "type": "string",
        "description": "A source, such as decisions.md, or a handle from a search: mem_...",
    },
    "query": {"type": "string", "description": "What to look for."},
}


def memory_of_tool(memory: Memory, namespace: str | None) -> Memory:
    """Return the memory within its namespace, or within this one; raises InvalidArgumentError
    if neither names one."""
    check_methods("memory", memory, "within", "pass a rehydrate.Memory")
    bound = memory if namespace is None else memory.within(namespace)
    if bound.namespace is None:
        raise InvalidArgumentError(
            "the tool's memory names no namespace; pass namespace=, or memory.within(...)"
        )
    return bound


class LoadMemory:
    """The tool for one memory and one namespace: its definition, and the answer to a call.

    Pass ``definition(provider)`` to the model with your other tools. For a tool call that
    ``handles(call)``, add what ``handle(call)`` returns to the conversation. Any bad argument of
    the model is answered with text that tells it what to correct; `handle` raises only for a call
    that is not this tool's.

    >>> import tempfile
    >>> from rehydrate import Memory
    >>> with tempfile.TemporaryDirectory() as folder, Memory.open(f"{folder}/m.db") as memory:
    ...     alice = memory.within("alice")
    ...     _ = alice.add("Staging listens on 8443.", source="notes/decisions.md")
    ...     tool = LoadMemory(alice)
    ...     tool.handle({"id": "call_1", "name": "load_memory", "input": {"name": "decisions.md"}})
    {'type': 'tool_result', 'tool_use_id': 'call_1', 'content': 'Staging listens on 8443.'}
    """

    name = NAME

    def __init__(
        self, memory: Memory, *, namespace: str | None = None, max_tokens: int = MAX_TOKENS
    ) -> None:
        """Take the memory; it must be bound to a namespace unless one is given."""
        self._memory = memory_of_tool(memory, namespace)
        check_whole("max_tokens", max_tokens, 1)
        self._max_chars = int(max_tokens * CHARS_A_TOKEN)

    @staticmethod
    def definition(provider: str) -> dict[str, Any]:
        """Return the tool as a request to `provider` lists it.

        >>> sorted(LoadMemory.definition("anthropic"))
        ['description', 'input_schema', 'name']
        """
        schema = {
            "type": "object",
            "properties": {name: dict(argument) for name, argument in ARGUMENTS.items()},
            "additionalProperties": False,
        }
        return tool_definition(provider, NAME, DESCRIPTION, schema)

    @staticmethod
    def handles(call: Any) -> bool:
        """Return whether `call` is a call of this tool, in any provider's shape."""
        read = ToolCall.read(call)
        return read is not None and read.name == NAME

    def handle(self, call: Any) -> Any:
        """Return the result of a call, in the shape of the call's provider."""
        read = ToolCall.of_tool(call, NAME)
        text, is_error = self.answer(read)
        return read.result(text, is_error=is_error)

    ahandle = stored(handle)

    def answer(self, call: ToolCall) -> tuple[str, bool]:
        """Return the text that answers a call, and whether it is an error."""
        try:
            return self._answer(call.arguments()), False
        except (InvalidArgumentError, UnknownHandleError) as error:
            return f"{NAME}: {error}", True
        except RehydrateError as error:  # the store's: do not show the model its path
            return f"{failure_text(error, NAME)}; go on without it", True

    def found(self, arguments: Mapping[str, Any]) -> tuple[str, list[Hit] | list[MemoryItem]]:
        """Return the query or name, and what memory has for it: hits of a query, or items of a
        note.

        Raises InvalidArgumentError with a text that the model can act on.
        """
        argument, value = _query_or_name(arguments)
        if argument == "query":
            return value, self._memory.search(value, HITS)
        return value, self._load(value)

    def _answer(self, arguments: Mapping[str, Any]) -> str:
        argument, value = _query_or_name(arguments)
        if argument == "query":
            hits = self._memory.search(value, HITS)
            if not hits:
                return f"Nothing in memory matches {value!r}."
            return "\n\n".join(self._fitting([], ((hit.item, hit.snippet) for hit in hits)))
        items = self._load(value)
        # A caller that names a handle knows which item it wants, and gets its exact text.
        least = 0.0 if [item.handle for item in items] == [value] else FULL_TRUST
        own = [item.text for item in items if item.trust >= least]
        note = own[0] if len(own) == 1 else "\n\n".join(text.rstrip("\n") for text in own)
        parts = [cut(note, self._max_chars)] if own else []
        # A less trusted text is under the same name, and not the note itself.
        lesser = ((item, item.text) for item in items if item.trust < least)
        return "\n\n".join(self._fitting(parts, lesser))

    def _fitting(self, parts: list[str], texts: Iterable[tuple[MemoryItem, str]]) -> Iterator[str]:
        """Yield the parts, and the texts in fences as far as there is room. No fence is cut."""
        left = self._max_chars
        for part in parts:
            yield part
            left -= len(part)
        omitted = 0
        for item, text in texts:
            if left < _LEAST_ROOM:
                omitted += 1
                continue
            fenced = _fenced(item, cut(text, left))
            yield fenced
            left -= len(fenced)
        if omitted:
            yield f"[{omitted} more: send a query]"

    def _load(self, name: str) -> list[MemoryItem]:
        if name.startswith("mem_"):
            with suppress(UnknownHandleError, InvalidArgumentError):
                return [self._memory.get(name)]
        items = self._of_source(name)
        if warm := [item for item in items if item.tier != "cold"]:
            return warm
        if items:
            raise InvalidArgumentError(f"{name} is in the archive; send a query to search it")
        if name.startswith("mem_"):
            raise InvalidArgumentError(
                f"memory holds no {name}; it was forgotten, or mistyped. Try a query"
            )
        sources = self._memory.sources()
        more = f" and {len(sources) - _NAMED} more" if len(sources) > _NAMED else ""
        names = (", ".join(sources[:_NAMED]) + more) or "none"
        raise InvalidArgumentError(
            f"memory holds no note {name!r}; its notes are {names}. Or send a query"
        )

    def _of_source(self, name: str) -> list[MemoryItem]:
        """Return items of the source, by its whole name or without its folder's label."""
        items = self._memory.list(sources=[name], limit=None, newest_first=False)
        if items:
            return items
        # A synced folder usually has a core.md, whose source begins with the folder's label.
        hot = self._memory.list(tiers=["hot"])
        labels = sorted({item.source.rpartition("/")[0] for item in hot} - {""})
        found = self._memory.list(
            sources=[f"{label}/{name}" for label in labels], limit=None, newest_first=False
        )
        if not found:
            ends = [source for source in self._memory.sources() if source.endswith(f"/{name}")]
            found = self._memory.list(sources=ends, limit=None, newest_first=False)
        # Two folders may have such a note: use one, so that their lines are not mixed.
        return [item for item in found if item.source == found[0].source]


_LEAST_ROOM = 200
"""Characters for another text."""
_NAMED = 20


def cut(text: str, max_chars: int) -> str:
    """Return the text, or its head and how much is missing.

    >>> cut("a" * 100, 93).splitlines()[-1]
    '[truncated: 2 tokens omitted. call again with stricter filters to see specific parts.]'
    """
    if len(text) <= max_chars:
        return text
    omitted = round((len(text) - max_chars) / CHARS_A_TOKEN)
    return (
        f"{text[:max_chars]}\n\n[truncated: {omitted:,} tokens omitted. call again with stricter "
        "filters to see specific parts.]"
    )


def _query_or_name(arguments: Mapping[str, Any]) -> tuple[str, str]:
    """Return "name" or "query", and its value."""
    given = {
        name: value
        for name, value in arguments.items()
        if not (value is None or (isinstance(value, str) and not value.strip()))
    }
    if unknown := sorted(given.keys() - ARGUMENTS):
        raise InvalidArgumentError(f'there is no {unknown[0]!r}; send "name" or "query"')
    if len(given) != 1:
        raise InvalidArgumentError('send one of "name" and "query"')
    ((argument, value),) = given.items()
    if not isinstance(value, str):
        raise InvalidArgumentError(f'"{argument}" is {value!r}; send a string')
    return argument, value


FULL_TRUST = 1.0
"""Trust of what the user said or wrote."""


def _fenced(item: MemoryItem, text: str) -> str:
    """Return a text in a fence that says where it is from, which the text cannot imitate."""
    is_data = item.trust < FULL_TRUST
    about = [f"{item.time:%Y-%m-%d}"] if item.time else []
    about += [f"trust {item.trust:g}"] if is_data else []
    handle, origin = item.handle or "memory", item.source or item.kind
    opening, closing = fence_tags(handle, "", origin, ", ".join(about), None, is_data, text)
    return f"{opening}\n{text}\n{closing}"
