"""Message formats: detect one, read it into units, check it against the provider's rules.

The readers are Rust, a module a format (`rust/rehydrate-py/src/reading`), and so are the writers of
each provider's messages (`writing`). `FORMATS` has the entry point of each format's reader.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rehydrate import _native
from rehydrate._native import (
    as_dicts,
    as_sequence,
    broken_rules,
    check_own as check_own,
    entries_of,
    entries_without_thinking,
    format_of,
    last_compaction as last_compaction,
    read as read,
    read_entries,
    read_places,
    repeated as repeated,
    replace_texts,
    stale_thinking,
    taken_back as taken_back,
)
from rehydrate.errors import Violation
from rehydrate.formats._reading import Path, Places
from rehydrate.formats.langchain import langchain_to_openai, openai_to_langchain
from rehydrate.formats.thinking import THINKING_MODELS, ThinkingModel, thinking_model
from rehydrate.messages import (
    FORMAT_NAMES,
    PROVIDERS,
    Conversation,
    FormatName,
    Provider,
)

__all__ = [
    "FORMATS",
    "THINKING_MODELS",
    "Format",
    "FormatName",
    "ThinkingModel",
    "detect_format",
    "langchain_to_openai",
    "openai_to_langchain",
    "parse",
    "thinking_model",
    "to_ui_messages",
    "validate",
]


class Format(NamedTuple):
    """A format: the reading of its entries, and changes of them."""

    name: FormatName

    def parse(self, entries: Sequence[Any]) -> Conversation:
        """Read the list into a `Conversation`, grouped into units.

        Raises InvalidMessageError for an entry that isn't of the format.
        """
        return read_entries(self.name, entries)

    def places(self, entry: Any, index: int) -> Places:
        """Return the path of each text that `parse` reads; None if it must not change."""
        return read_places(self.name, entry, index)

    def replace(self, entry: Any, texts: Mapping[Path, Any]) -> Any:
        """Return a new entry with these texts at their paths; the entry itself is never changed."""
        return replace_texts(entry, texts)

    def without_thinking(self, entries: Sequence[Any]) -> list[Any]:
        """Return each entry without thinking: itself, a copy, or None if nothing is left."""
        return entries_without_thinking(self.name, entries)


FORMATS: dict[str, Format] = {name: Format(name) for name in FORMAT_NAMES}


def detect_format(messages: Sequence[Any]) -> FormatName:
    """Return the name of the format of these messages.

    The first entry that only one format can hold decides: a transcript line (a `type` and no role)
    for claude_code, one with a `payload` for codex, an item without a role or an `input_text` part
    for openai_responses, tool calls or media parts for openai_chat, tool or media blocks for
    anthropic, a block named by its key (`toolUse`) for bedrock, a `tool-call` or `providerOptions`
    for ai_sdk, `parts` with types for ai_sdk_ui, a message object for langchain.
    Else the first hint decides (the developer role, a thought, a cache mark, a text without a
    type). Else the list is plain: role and text, as every provider takes it.
    Raises InvalidMessageError for a plain list with an unknown role, or with calls that no format
    can pair.

    >>> detect_format([{"role": "user", "content": "hi"}])
    'plain'
    """
    return _native.detect_format(messages)


def provider_shown(entries: Sequence[Any], named: Provider | None) -> Provider | None:
    """Return the provider that entries in its own format show.

    Hints of one count where the model names none. A text without a type is a hint of Converse's,
    and more for a named one that does not take it.
    """
    name, is_proved = format_of(as_dicts(entries))
    provider = next((one for one in PROVIDERS if one == name), None)
    is_only_its_own = name == "bedrock" and named != "gemini"
    return provider if is_proved or named is None or is_only_its_own else None


def parse(messages: Sequence[Any], format: str = "auto") -> Conversation:  # noqa: A002
    """Read messages into a `Conversation` of atomic units.

    Objects of the providers' SDKs (content blocks, a chat message, items of Responses) are read as
    the dicts that the SDK would send. Raises InvalidMessageError for an entry that isn't a message,
    UnknownFormatError for an unknown name.

    >>> parse([{"role": "user", "content": "hi"}]).units[0].members
    (0,)
    """
    return read(messages, format)[0]


def to_ui_messages(
    messages: Sequence[Any],
    format: str = "auto",  # noqa: A002
) -> list[dict[str, Any]]:
    """Convert messages of any format to the UI messages of the AI SDK, as `useChat` stores them.

    ``format`` is the format of ``messages``. What the assistant says between two words of the
    user's is one message: its texts, its files, and each call with its result. A list that goes on
    keeps the messages and ids that it had, but for the assistant's last message, which may go on
    too. Thinking and a provider's own blocks are left out. UI messages come back as the same
    objects. Raises InvalidMessageError for an entry that isn't a message, or that only its own
    provider can resolve.

    >>> to_ui_messages([{"role": "user", "content": "Which berth is free?"}])
    [{'id': 'rehydrate-0', 'role': 'user', 'parts': [{'type': 'text', 'text': \
'Which berth is free?'}]}]
    """
    entries = as_dicts(as_sequence(messages))
    name = _native.named_format(entries, format)
    return list(messages) if name == "ai_sdk_ui" else _native.ui_messages(entries, name)


def validate(
    messages: Sequence[Any] | Mapping[str, Any],
    format: str = "auto",  # noqa: A002
    *,
    sent: Sequence[Any] | Mapping[str, Any] | None = None,
    model: str = "",
) -> list[Violation]:
    """Return every violation of the provider's rules, ordered by index; an empty list means valid.

    | rule | formats | what is wrong |
    |---|---|---|
    | first_not_user | A, B, G | the first message, leaving out system ones, is not the user's |
    | unknown_role | A, B, G, O, R, V, U, P | a role that the provider does not know |
    | empty_content | A, B, G, U | no content, in any but a last assistant message that no tool \
call is before (A, B), anywhere (G), no parts (U) |
    | empty_text | A, B, G | an empty text block, or nothing but whitespace in a message (A), in \
a block (B) |
    | null_content_without_calls | O, R, V, P | content is null (or absent), and no tool calls \
either |
    | null_result_content | A, B | a tool_result whose content is null; it may be left out, or an \
empty string |
    | unanswered_tool_call | A, B, G, O, R, V, U | no result in the next message, or of a \
server's tool before the user's next turn (A, B, G), directly after it (O, V), in its own part \
(U), anywhere after it (R) |
    | tool_result_without_call | A, B, G, R, V | a result whose call is not in the turn before \
it (A, B, G), in the message it follows (V), anywhere before it (R) |
    | tool_message_without_call | O | a tool message whose call is not in the message it follows |
    | server_result_without_call | A, B, V | a server tool's result whose call does not come \
before it |
    | duplicate_id | A, B, O, R, V, U | a call id used before (A, B, R), twice in one message \
(O, V, U); an item's id used before (R) |
    | duplicate_result | A, B, G, O, R, V | a second result for one call |
    | missing_id | A, B, O, R, V, U | a tool call or its result without an id |
    | results_not_first | A, B, G | a result after other blocks of its turn |
    | results_not_together | A, B, G | the results of one turn in several messages |
    | misplaced_block | A, B, G, O, R, V, P | a tool_use in a user message, a tool_result or a \
document in an assistant's (A, B, G), or an image (B); any of Anthropic's calls or results (O, \
P); an output_text or refusal outside of the assistant, an input part in it (R); a part of \
another role's (V) |
    | misplaced_system | A, B, G | a system message among the others that does not follow the \
user's message, or a server tool's result, or that precedes no message of the assistant's |
    | citations_of_user | A | citations in a text of the user's |
    | empty_tool_calls | O | tool_calls is an empty list |
    | reasoning_without_item | R | a reasoning item that the model's next item does not follow |
    | reasoning_without_summary | R | a reasoning item without a summary, which may be empty |
    | too_many_cache_control | A, B | the fifth cache_control, or cachePoint (B), and every \
further one |
    | cache_control_on_empty_text | A, B | a cache_control on an empty text block |
    | cache_control_on_thinking | A, B | a cache_control on a thinking block, a cachePoint after \
reasoning (B) |
    | text_content | B, G, V, U | content, or a block of it, is a string; of a tool message, or \
a part (V) |
    | missing_name | G, V, U | a call or a response without a name |
    | call_after_model | G | a message with calls that follows another of the model's |
    | misplaced_signature | G | a signature at a later call of a message, and not at the first |
    | roles_not_alternating | B | two messages of the user, or of the assistant, in a row |
    | unknown_block | B, G, V, U | a block with a type, with several keys, or with none that \
Converse or Gemini has; a part, an output or a state that the AI SDK doesn't have (V, U) |
    | invalid_id | B | the id of a call or a result has other characters, or more than 64 |
    | invalid_tool_name | B | the name in a call has other characters, or more than 64 |
    | empty_error_result | B | a result that is an error, without a content |
    | document_without_text | B | a message with a document and no text |
    | document_name | B | no name of a document, or one with other characters than Converse takes |
    | duplicate_document_name | B | a second document of one name |
    | too_many_documents | B | the sixth document, and every further one |
    | thinking_without_signature | A | a thinking block that lost its signature |
    | thinking_after_changed_prefix | A, O | with ``sent``: thinking after something that is not \
as it was sent, or after a gap in the thinking |

    A is anthropic, and claude_code after merging its lines as Claude Code does when it sends. B is
    bedrock. G is gemini. O is openai_chat, and langchain as sent there. R is openai_responses, and
    the items of codex, without a `previous_response_id`, whose response may hold a missing call. V
    is ai_sdk, U is ai_sdk_ui, P is plain. An unanswered tool call at the very end, followed only by
    results of its own turn, is an open loop and no violation, although no provider takes it before
    the results are there. The indices are those of `messages`.

    ``sent`` is the last request of this conversation. With it, thinking that the ``model`` would
    refuse is a violation too (`THINKING_MODELS`; an unnamed Claude counts as the strictest). Both
    may be whole requests, so that `system` and `tools` are compared too.

    Nothing is changed. Raises InvalidMessageError for an entry that isn't a message,
    UnknownFormatError for an unknown name.

    >>> validate([{"role": "assistant", "content": None}], format="openai_chat")[0].rule
    'null_content_without_calls'
    >>> thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    >>> said = {"role": "assistant", "content": [thought, {"type": "text", "text": "Berth 4."}]}
    >>> sent = [{"role": "user", "content": "Which berth?"}, said]
    >>> after = [{"role": "user", "content": "Which berth is free?"}, said]
    >>> print(*validate(after, sent=sent, model="claude-opus-5-5")[0], sep=" | ")
    1 | thinking_after_changed_prefix | thinking after a change: message 0 is not what was sent
    """
    if sent is not None:
        messages, sent = _request_as_dicts(messages), _request_as_dicts(sent)
    entries = as_dicts(as_sequence(messages if sent is None else entries_of(messages)))
    name = _native.named_format(entries, format)
    found = broken_rules(name, entries)
    if sent is None or not thinking_model(model, name, entries).refuses_changed_prefix:
        return found
    as_sequence(entries_of(sent))
    return sorted([*found, *stale_thinking(messages, sent)], key=lambda each: each.index)


def _request_as_dicts(messages: Any) -> Any:
    """Return messages, or a request with them, with dicts for an SDK's objects."""
    if isinstance(messages, Mapping):
        return as_dicts([messages])[0]
    return as_dicts(as_sequence(messages))
