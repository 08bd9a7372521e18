"""LangChain's message objects to OpenAI chat dicts, to the dicts that a store has, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rehydrate._native import (
    as_sequence,
    chat_entries,
    langchain_fields,
    langchain_to_openai as as_openai,
)
from rehydrate.errors import InvalidMessageError, MissingPackageError


def langchain_to_openai(messages: Sequence[Any]) -> list[dict[str, Any]]:
    """Convert LangChain message objects to OpenAI chat dicts; LangChain need not be installed.

    Texts, blocks, tool calls (invalid ones too), results, ids, names and refusals are kept. Fields
    that no provider is sent are dropped: a message's own id, its metadata, a tool's artifact.
    Raises InvalidMessageError with the index for an entry that isn't a message or can't be in a
    request.

    >>> from langchain_core.messages import HumanMessage
    >>> langchain_to_openai([HumanMessage("hi")])
    [{'role': 'user', 'content': 'hi'}]
    """
    return as_openai(as_sequence(messages))


def openai_to_langchain(messages: Sequence[Any]) -> list[Any]:
    """Convert OpenAI chat dicts to LangChain message objects, made by langchain-core.

    Arguments of a call that aren't a JSON object become an invalid tool call, which keeps their
    text. Raises MissingPackageError without langchain-core, InvalidMessageError for an entry that
    isn't a message.

    >>> openai_to_langchain([{"role": "user", "content": "hi"}])[0].content
    'hi'
    """
    entries = chat_entries(messages)
    try:
        from langchain_core.messages import convert_to_messages
    except ImportError:
        raise MissingPackageError("langchain-core", "makes LangChain's messages") from None
    converted = []
    for index, entry in enumerate(entries):
        rest, calls = langchain_fields(entry, index)
        try:
            (message,) = convert_to_messages([rest])
        except (ValueError, TypeError, KeyError, NotImplementedError) as error:
            remedy = f"LangChain says: {str(error).splitlines()[0]}"
            raise InvalidMessageError(index, "", entry, "an OpenAI chat message", remedy) from error
        converted.append(message.model_copy(update=calls) if any(calls.values()) else message)
    return converted


def stored_to_langchain(values: Sequence[Any]) -> list[Any]:
    """Return LangChain messages from what their `model_dump` gave; anything else stays as it is.

    Raises MissingPackageError without langchain-core, InvalidMessageError for fields that
    aren't a message's.

    >>> from langchain_core.messages import HumanMessage
    >>> stored_to_langchain([HumanMessage("hi").model_dump()]) == [HumanMessage("hi")]
    True
    """
    try:
        from langchain_core.messages import messages_from_dict
    except ImportError:
        raise MissingPackageError("rehydrate[langchain]", "makes LangChain's messages") from None
    read = []
    for index, value in enumerate(values):
        if isinstance(value, Mapping) and {"type", "response_metadata"} <= value.keys():
            try:
                (value,) = messages_from_dict([{"type": value["type"], "data": value}])  # noqa: PLW2901
            except (ValueError, TypeError) as error:
                remedy = f"LangChain says: {str(error).splitlines()[0]}"
                raise InvalidMessageError(index, "", value, "a LangChain message", remedy) from None
        read.append(value)
    return read
