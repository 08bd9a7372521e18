"""Shortener: what a request's messages become, so that requests extend one another.

A client sends its whole list each time. When it is over the budget, a `HostThread` compacts it, and
a `Plan` keeps what was sent in place of those messages. Every later list that begins with the same
messages is sent by that plan, and then as its client wrote it. A plan is found by the hash of the
messages: so conversations that branch share it, it outlives a restart, and only a client with the
same messages, the same key and the same model finds it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b, sha256
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from rehydrate import formats
from rehydrate._native import (
    RequestBody,
    RequestItem,
    in_blocks,
    known_name,
    unmarked,
    with_exchanges,
)
from rehydrate._text import OwnMessageError
from rehydrate.context.context import Context
from rehydrate.context.history import StoredEntry
from rehydrate.context.jit import BUDGET_TOKENS, MIN_BUDGET_TOKENS, Reader
from rehydrate.entry_id import EntryId
from rehydrate.integrations.host_thread import HostThread
from rehydrate.integrations.proxy.asking import (
    NAMES,
    Asking,
    texts_of,
    tool_texts,
    written,
)
from rehydrate.integrations.proxy.kept import Kept, Plan, Recent
from rehydrate.messages import Provider
from rehydrate.prompt.counting import text_tokens, upper_bound
from rehydrate.prompt.entries import entry_tokens
from rehydrate.prompt.request import Budget

if TYPE_CHECKING:
    from rehydrate.context.threads import Threads

WINDOWS = {
    **dict.fromkeys(
        (
            *("claude-fable-5-2", "claude-fable-5-1", "claude-fable-5", "claude-mythos-5-2"),
            *("claude-opus-5-5", "claude-opus-5", "claude-opus-4-8", "claude-opus-4-7"),
            *("claude-opus-4-6", "claude-sonnet-5-5", "claude-sonnet-5", "claude-sonnet-4-6"),
            *("claude-haiku-5-5", "gpt-4.1"),
        ),
        1_000_000,
    ),
    **dict.fromkeys(
        (
            *("gpt-6.1-sol", "gpt-6.1-terra", "gpt-6-astra", "gpt-6-sol", "gpt-6-luna"),
            *("gpt-5.6", "gpt-5.6-sol", "gpt-5.6-terra", "gpt-5.6-luna", "gpt-5.4"),
        ),
        922_000,
    ),
    **dict.fromkeys(("gpt-5.2", "gpt-5.1", "gpt-5"), 272_000),
    **dict.fromkeys(("gpt-4o", "gpt-4o-mini"), 128_000),
}
"""The most tokens of a prompt, by model, in November 2026; `WINDOW` for all others."""
WINDOW = 200_000
MAX_SOFT_TOKENS = 100_000
"""A long prompt is slow and dear long before a window of a million is full."""
MAX_SEEN = 4_096
"""Ends of requests that are remembered: a conversation goes on from one of its last."""
MAX_SHOWN = 32
"""Compactions that the page can show: each holds what it was made of."""
MAX_READERS = 8
"""Each holds its messages."""
MAX_FACTS = 65_536
"""300 bytes each."""
_MAX_NAME = 200
"""Maximum characters of a model's name, which is kept and shown."""
_RESERVED = (
    "system",
    "instructions",
    "tools",
    "functions",
    "response_format",
    "text",
    "output_config",
)
"""The fields that the model reads besides the messages."""
_UNREADABLE = "the body isn't a JSON object that can be read"
"""The provider says what is wrong with it."""
_ELSEWHERE = ("previous_response_id", "conversation")
"""If one is set, the provider holds the messages before these."""


class UntouchedError(OwnMessageError):
    """The request goes out as it is; the message says why."""


@dataclass(slots=True)
class Conversation:
    """One conversation, and the figures of its requests."""

    number: int
    wire: Provider
    model: str
    requests: int = 0
    before: int = 0
    """Tokens of the last request, as its client wrote it."""
    after: int = 0
    """The same as it was sent."""
    saved: int = 0
    """Tokens that were not sent, in all its requests."""
    compactions: int = 0


class Outcome(NamedTuple):
    """The result for one request."""

    body: bytes | None = None
    """The body to send; None: the client's own."""
    before: int = 0
    after: int = 0
    prefix: str = ""
    """"new", "kept", "compacted", or "waits": it is over the budget, and is left as it was until
    the turn ends."""
    model: str = ""
    conversation: Conversation | None = None
    untouched: str = ""
    """Why nothing was looked at; "" if it was."""
    asking: Asking | None = None
    """Lets the model ask for what was left out."""


class Cut(NamedTuple):
    """One compaction: what is sent from then on, and what a page of it shows."""

    wire: Provider
    pieces: tuple[int | str, ...]
    """As a `Plan` has them, with the tokens of our messages."""
    tokens: int
    before: Sequence[str]
    """The messages as they would have been sent, as JSON."""
    after: Sequence[tuple[int | None, str]]
    """Those that are sent, each with its index in `before`; None: a message of ours."""
    reasons: Mapping[int | None, str]
    """Why a message was left out or cut, by its index."""
    target_tokens: int


class Facts(NamedTuple):
    """Facts about a message, by its text."""

    digest: bytes
    """Without marks: a client moves them."""
    tokens: int
    at: float = 0.0
    """When it was seen first."""


class Shortener:
    """Makes requests fit a budget; for any number of threads.

    >>> said = [{"role": "user", "content": f"Berth {n} is free."} for n in range(900)]
    >>> import json
    >>> raw = json.dumps({"model": "gpt-5.1", "messages": said}).encode()
    >>> outcome = Shortener(budget_tokens=2_000).shorten("openai_chat", raw, key="k")
    >>> outcome.prefix, outcome.before > 5_000, outcome.after < 2_000
    ('compacted', True, True)
    """

    def __init__(
        self,
        *,
        budget_tokens: int | None = None,
        threads: Threads | None = None,
        asks_back: bool = False,
    ) -> None:
        """Take the tokens above which a request is compacted; None: by the model's window.

        ``threads`` keeps the plans. With ``asks_back`` models get tools to ask for what a plan
        leaves out.
        """
        self._asks_back = asks_back
        self._budget_tokens = budget_tokens
        self.kept = Kept(threads)
        self._lock = Lock()
        self._facts: Recent[int, Facts] = Recent(MAX_FACTS)
        """By Python's hash of a text, which takes a third of the time of `_hash`."""
        self._seen: Recent[tuple[str, bytes], tuple[Conversation, bytes]] = Recent(MAX_SEEN)
        """The conversation and the plan of a request, by its last message."""
        self._readers: Recent[tuple[str, bytes], Reader] = Recent(MAX_READERS)
        """Readers of what a plan leaves out."""
        self._conversations: Recent[int, Conversation] = Recent(256)
        self._shown: Recent[tuple[int, int], Cut] = Recent(MAX_SHOWN)
        """Compactions, by the conversation's number and their own."""
        self._begun = 0

    def shorten(
        self, wire: Provider, raw: bytes, *, key: str, is_counting: bool = False
    ) -> Outcome:
        """Return what to send; raises UntouchedError if the client's own must be sent.

        ``key`` is the client's; only its hash is kept. If the request only asks for a count, it
        is sent as the next one would be, and nothing is compacted. It may raise anything else too.
        """
        list_key = "input" if wire == "openai_responses" else "messages"
        body = _read(raw, list_key)
        model = str(body.fields.get("model") or "")[:_MAX_NAME]
        items = body.items
        if not items:
            raise UntouchedError(f"{list_key!r} isn't a list of messages")
        if any(body.fields.get(name) for name in _ELSEWHERE):
            raise UntouchedError("the provider holds the messages before these")
        scope = sha256(f"{sha256(key.encode()).hexdigest()} {wire} {model}".encode()).hexdigest()
        facts = self._facts_of(scope, wire, items)
        chain = own_chain = _chain(facts)
        if self._asks_back:
            own = items
            items = with_exchanges(
                own, lambda at: self.kept.exchanges(scope, own_chain[at - 1]) if at else ()
            )
            if items != own:
                facts = self._facts_of(scope, wire, items)
                chain = _chain(facts)
        plan = self.kept.plan(scope, chain)
        pieces = plan.pieces_of(len(facts))
        reserved = self._text_tokens([text for name in _RESERVED if (text := body.written(name))])
        before = sum(each.tokens for each in facts) + reserved
        after = _sent_tokens(plan, facts) + reserved
        prefix, cut = "", None
        budget = budget_of(model, self._budget_tokens)
        asks_back = self._asks_back and _may_offer(body)
        offered = self._text_tokens(tool_texts(wire)) if asks_back else 0
        if not is_counting and upper_bound(after + offered, wire) > budget.soft_tokens:
            self.kept.look_again(scope)  # another process may have made a plan
            cut = self._compact(wire, model, items, pieces, reserved + offered, budget)
            prefix = "waits"
            if cut is not None:
                prefix, pieces = "compacted", cut.pieces
                plan = Plan(chain[-1], len(chain), cut.pieces, cut.tokens)
                after = _sent_tokens(plan, facts) + reserved
                self.kept.keep(scope, plan, wire)
        after += offered if plan.count else 0
        conversation = None
        if not is_counting:
            conversation, is_kept = self._note(scope, chain, plan, (wire, model))
            prefix = prefix or is_kept
            self._count(conversation, before, after, cut)
        sent, asking = None, None
        if plan.count:
            texts = texts_of(items, pieces)
            sent = body.with_items(texts, tool_texts(wire) if asks_back else ())
            if asks_back and not is_counting:  # no model answers a count
                asking = Asking(
                    wire,
                    body,
                    texts,
                    lambda: self._reader(scope, plan, wire, items, facts, budget),
                    lambda exchange: self.kept.keep_exchange(scope, own_chain[-1], exchange, wire),
                )
        return Outcome(sent, before, after, prefix, model, conversation, asking=asking)

    def _reader(
        self,
        scope: str,
        plan: Plan,
        wire: Provider,
        items: Sequence[RequestItem],
        facts: Sequence[Facts],
        budget: Budget,
    ) -> Reader:
        """Return a reader that answers about the messages that a plan leaves out."""
        key = scope, plan.digest
        with self._lock:
            known = self._readers.use(key)
        if known is None:
            values = [item.plain for item in items[: plan.count]]
            entries = [
                StoredEntry(value, each.at, each.tokens)
                for value, each in zip(values, facts, strict=False)
            ]
            shown = [piece for piece in plan.pieces if isinstance(piece, int)]
            most = max(MIN_BUDGET_TOKENS, min(BUDGET_TOKENS, budget.soft_tokens // 2))
            known = Reader.of(entries, wire, shown, budget_tokens=most)
            with self._lock:
                self._readers.put(key, known)
        return known

    def _facts_of(self, scope: str, wire: Provider, items: Sequence[RequestItem]) -> list[Facts]:
        """Return the facts of messages; only those of new texts are found."""
        keys = [hash((scope, item.text)) for item in items]
        with self._lock:
            found = list(map(self._facts.use, keys))
        missing = [index for index, known in enumerate(found) if known is None]
        if missing:
            try:
                values = [items[index].plain for index in missing]
            except ValueError:
                raise UntouchedError(_UNREADABLE) from None
            tokens = _tokens_of(values, wire)
            now = time.time()
            for index, value, count in zip(missing, values, tokens, strict=True):
                said = in_blocks(value) if wire == "anthropic" else value
                found[index] = Facts(_hash(written(said)), count, now)
            with self._lock:
                for index in missing:
                    known = found[index]
                    assert known is not None
                    self._facts.put(keys[index], known)
        return [known for known in found if known is not None]

    def _text_tokens(self, texts: Sequence[str]) -> int:
        keys = [hash(("", text)) for text in texts]
        with self._lock:
            known = [self._facts.use(key) for key in keys]
        total = 0
        for text, key, fact in zip(texts, keys, known, strict=True):
            if fact is None:
                fact = Facts(b"", sum(text_tokens([text])))  # noqa: PLW2901
                with self._lock:
                    self._facts.put(key, fact)
            total += fact.tokens
        return total

    def _compact(
        self,
        wire: Provider,
        model: str,
        items: Sequence[RequestItem],
        pieces: Sequence[int | str],
        reserved: int,
        budget: Budget,
    ) -> Cut | None:
        """Return the result of a compaction; None if it leaves everything as it was."""
        plain = [item.plain for item in items]
        given = [plain[each] if isinstance(each, int) else json.loads(each) for each in pieces]
        thread = HostThread(
            lambda: Context(
                provider=wire, model=model, budget=budget, originals=_Nowhere(), timeout=None
            )
        )
        shown = thread.shown(given, reserved_tokens=reserved)
        if thread.report.failure:
            raise OwnMessageError(thread.report.failure)
        after: list[int | str] = []
        values, own = [unmarked(message) for _, message in shown], []
        for (index, _), value in zip(shown, values, strict=True):
            if index is not None and value == given[index]:
                after.append(pieces[index])
            else:
                after.append(written(value))
            if isinstance(after[-1], str):
                own.append(value)
        if after == list(pieces):
            return None
        broken = formats.validate(values, wire)
        if broken and not formats.validate(plain, wire):
            raise OwnMessageError(f"a compaction broke a rule of the API: {broken[0].rule}")
        ir = thread.context.ir
        assert ir is not None
        reasons = {EntryId.index_of(each.section): each.reason for each in ir.meta.dropped}
        indices = [each.index for each in shown]
        return Cut(
            wire,
            tuple(after),
            sum(_tokens_of(own, wire)),
            texts_of(items, pieces),
            list(zip(indices, texts_of(items, after), strict=True)),
            reasons,
            int(budget.soft_tokens * budget.compact_to),
        )

    def _note(
        self, scope: str, chain: Sequence[bytes], plan: Plan, kind: tuple[Provider, str]
    ) -> tuple[Conversation, str]:
        """Return the conversation that a list goes on from, and whether its prefix is kept."""
        with self._lock:
            ends = ((scope, digest) for digest in reversed(chain))
            known = next((seen for end in ends if (seen := self._seen.use(end))), None)
            if known is None:
                self._begun += 1
                conversation, prefix = Conversation(self._begun, *kind), "new"
            else:
                conversation = known[0]
                prefix = "kept" if known[1] == plan.digest else "changed"
            self._seen.put((scope, chain[-1]), (conversation, plan.digest))
            self._conversations.put(conversation.number, conversation)
            return conversation, prefix

    def _count(self, conversation: Conversation, before: int, after: int, cut: Cut | None) -> None:
        with self._lock:
            conversation.requests += 1
            conversation.before, conversation.after = before, after
            conversation.saved += before - after
            if cut is not None:
                conversation.compactions += 1
                self._shown.put((conversation.number, conversation.compactions), cut)

    def shown(self) -> list[tuple[Conversation, list[int]]]:
        """Return the last conversations, the last used first, each with the numbers of those of its
        compactions that `compaction` still has."""
        with self._lock:
            return [
                (each, [number for of, number in self._shown if of == each.number])
                for each in reversed(self._conversations.values())
            ]

    def compaction(self, conversation: int, number: int) -> Cut | None:
        """Return the result of a compaction; None: it is no longer known."""
        with self._lock:
            return self._shown.get((conversation, number))


def budget_of(model: str, budget_tokens: int | None) -> Budget:
    """Return the limits for a model: a quarter of its window, unless they are given.

    >>> budget_of("claude-haiku-4-5", None).soft_tokens, budget_of("gpt-5.1", 8_000).soft_tokens
    (50000, 8000)
    """
    window = WINDOWS.get(known_name(model, WINDOWS) or "", WINDOW)
    soft = min(window // 4, MAX_SOFT_TOKENS) if budget_tokens is None else budget_tokens
    return Budget(soft_tokens=soft, hard_tokens=max(window * 9 // 10, soft))


class _Nowhere:
    """Originals that are not kept: the model has no tool to ask for them, and a handle in the mark
    of a gap would only cost tokens."""

    def put(self, _text: str, /, **_about: object) -> NoReturn:
        raise UntouchedError("the client has the originals")

    def get(self, handle: str, /) -> NoReturn:
        raise UntouchedError(f"{handle}: the client has the originals")


def _read(raw: bytes, key: str) -> RequestBody:
    try:
        return RequestBody(raw, key)
    except ValueError:
        raise UntouchedError(_UNREADABLE) from None


def _may_offer(body: RequestBody) -> bool:
    """Whether there is to be one answer, and the client has no tools of our names itself."""
    tools = body.fields.get("tools")
    if not isinstance(tools, list | None):
        return False  # the provider says what is wrong with them
    own = [each for each in tools or () if isinstance(each, dict)]
    named = [*own, *[each.get("function") for each in own]]
    is_taken = any(each.get("name") in NAMES for each in named if isinstance(each, dict))
    # The reply to a request in the background is polled, and no API takes functions beside tools.
    is_apart = body.fields.get("background") or body.fields.get("functions")
    return not (is_taken or is_apart) and (body.fields.get("n") or 1) == 1


def _sent_tokens(plan: Plan, facts: Sequence[Facts]) -> int:
    """Return the tokens of a list of messages as a plan sends it."""
    kept = [each for each in plan.pieces_of(len(facts)) if isinstance(each, int)]
    return plan.tokens + sum(facts[each].tokens for each in kept)


def _tokens_of(messages: Sequence[Any], wire: Provider) -> list[int]:
    return entry_tokens(formats.parse(messages, wire), len(messages))


def _chain(facts: Sequence[Facts]) -> list[bytes]:
    """Return the hash of each beginning of a list."""
    chain, last = [], b""
    for each in facts:
        last = blake2b(last + each.digest, digest_size=16).digest()
        chain.append(last)
    return chain


def _hash(text: str) -> bytes:
    return blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()
