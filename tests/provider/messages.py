"""Anthropic's Messages API: checks a request, replies to it and bills it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from tests.provider.billed import Billed
from tests.provider.errors import RefusedError
from tests.provider.ids import Ids
from tests.provider.messages_cache import PromptCache
from tests.provider.messages_compaction import Compactions
from tests.provider.messages_rules import check_rules, without_system
from tests.provider.messages_shape import request_shape
from tests.provider.messages_thinking import BETA, CheckedThinking, ThinkingBlocks
from tests.provider.messages_wire import events_of, message_of, usage_of
from tests.provider.replies import ScriptedReply
from tests.provider.settings import Settings
from tests.provider.shapes import check_anthropic
from tests.provider.sse import event
from tests.provider.token_counter import TokenCounter


class Anthropic:
    """Checks a request, replies to it and bills it."""

    def __init__(self, settings: Settings, token_counter: TokenCounter, ids: Ids) -> None:
        self._settings = settings
        self._token_counter = token_counter
        self._ids = ids
        self._request, self._count = request_shape(settings.extra_blocks)
        self._thinking = ThinkingBlocks(settings.signer, binds_prefix=settings.binds_thinking)
        self._compactions = Compactions(settings.signer)
        self._betas: frozenset[str] = frozenset()
        self._checked_thinking = CheckedThinking([], None)
        self._cache = PromptCache(token_counter, settings.clock, settings.minimum_prefix)

    def check_headers(self, headers: Mapping[str, str]) -> None:
        if "x-api-key" not in headers and "authorization" not in headers:
            raise RefusedError("x-api-key header is required", status=401)
        if "anthropic-version" not in headers:
            raise RefusedError("anthropic-version: header is required")
        betas = headers.get("anthropic-beta", "").split(",")
        self._betas = frozenset(beta.strip() for beta in betas)  # of the one request at a time

    def check(self, request: Mapping[str, Any]) -> int:
        """Return the tokens of the prompt. Raises RefusedError for an invalid request."""
        tokens = self._checked(request, self._request)
        self._check_window(tokens, request["max_tokens"])
        return tokens

    def count(self, request: Mapping[str, Any]) -> int:
        """Return the tokens of a count_tokens request."""
        return self._checked(request, self._count)

    def _checked(self, request: Mapping[str, Any], shape: type[BaseModel]) -> int:
        settings = self._settings
        request = without_system(request, takes_system=settings.takes_system)
        check_anthropic(shape, request)
        check_rules(request, prefill=settings.prefill, needs_tools=settings.needs_tools)
        self._compactions.check(request, self._betas)
        request = self._compactions.applied(request)
        if settings.checks_signatures:
            has_controls = BETA in self._betas
            self._checked_thinking = self._thinking.check(request, has_controls=has_controls)
        return self._cache.prompt(request).total

    def _check_window(self, tokens: int, max_tokens: int) -> None:
        window = self._settings.window_tokens
        if tokens > window:
            raise _too_long(tokens, window)
        if tokens + max_tokens > window:
            words = f"input length and `max_tokens` exceed context limit: {tokens} + {max_tokens}"
            raise RefusedError(
                f"{words} > {window}, decrease input length or `max_tokens` and try again",
                is_overflow=True,
            )

    def overflow(self, tokens: int) -> RefusedError:
        return _too_long(tokens, tokens - 1)

    def reply(
        self, request: Mapping[str, Any], reply: ScriptedReply
    ) -> tuple[dict[str, Any], Billed]:
        is_compacted = request.get("compaction") is not None
        request = self._compactions.applied(request)
        trigger = self._compactions.trigger(request)
        if trigger is not None and self._cache.prompt(request).total >= trigger:
            return self._compacting_reply(request, reply)
        if is_compacted:
            content = [self._compactions.block(reply.text)]
            self._thinking.note_summary(request, content[0])
        else:
            content = self._content(request, reply)
        self._thinking.remember(content)
        billed = self._cache.bill(self._cache.prompt(request))
        billed = billed._replace(output=max(1, self._token_counter.content(content)))
        stop = "compaction" if is_compacted else "tool_use" if reply.calls else "end_turn"
        stop = reply.stop or stop
        message = message_of(request, self._ids.new("msg_01"), content, stop, billed)
        if BETA in self._betas:
            message["input_transformations"] = self._checked_thinking.entries
        return message, billed

    def _compacting_reply(
        self, request: Mapping[str, Any], reply: ScriptedReply
    ) -> tuple[dict[str, Any], Billed]:
        """Return a reply that begins with a summary: it answers what the summary is of."""
        block = self._compactions.unsigned(reply.summary)
        read = self._cache.bill(self._cache.prompt(request))
        summary = read._replace(output=self._token_counter.content([block]))
        if reply.summary:
            request = {**request, "messages": [{"role": "assistant", "content": [block]}]}
            self._checked_thinking = CheckedThinking([], None)
        content = [block, *self._content(request, reply)]
        self._thinking.remember(content)
        own = Billed(self._cache.prompt(request).total, output=self._token_counter.content(content))
        stop = reply.stop or ("tool_use" if reply.calls else "end_turn")
        message = message_of(request, self._ids.new("msg_01"), content, stop, own)
        steps = (("compaction", summary), ("message", own))
        message["usage"]["iterations"] = [{"type": kind, **usage_of(each)} for kind, each in steps]
        return message, own.plus(summary)

    def events(self, body: Mapping[str, Any], _request: Mapping[str, Any]) -> Iterator[bytes]:
        return events_of(body)

    def failure_events(self, error: RefusedError, _body: Mapping[str, Any]) -> list[bytes]:
        """Return the events with which a running stream reports an error."""
        return [event(error.body("anthropic", self._ids.new("req_01")), name="error")]

    def _content(self, request: Mapping[str, Any], reply: ScriptedReply) -> list[dict[str, Any]]:
        content: list[dict[str, Any]] = []
        thinking = request.get("thinking") or {"type": "disabled"}
        text = reply.thinking
        if text is None and thinking["type"] == "enabled" and _begins_turn(request):
            text = "Let me think."  # with thinking enabled, each turn begins with it
        if text is not None and thinking["type"] != "disabled":
            shown = "" if thinking.get("display") == "omitted" else text
            last = self._checked_thinking.last
            if reply.is_redacted:
                content.append(self._thinking.redact(request, last))
            else:
                content.append(self._thinking.sign(shown, request, last))
        if reply.text:
            content.append({"type": "text", "text": reply.text})
        for call in reply.calls:
            if isinstance(call.arguments, str):
                raise TypeError(f"Anthropic's models call with objects, not {call.arguments!r}")
            call_id = call.id or self._ids.new("toolu_01")
            call_input = dict(call.arguments)
            content.append(
                {"type": "tool_use", "id": call_id, "name": call.name, "input": call_input}
            )
        return content


def _too_long(tokens: int, window: int) -> RefusedError:
    words = f"prompt is too long: {tokens} tokens > {window} maximum"
    return RefusedError(words, is_overflow=True)


def _begins_turn(request: Mapping[str, Any]) -> bool:
    content = request["messages"][-1]["content"]
    return isinstance(content, str) or all(block["type"] != "tool_result" for block in content)
