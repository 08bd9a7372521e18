"""Shortener: what a request's messages become, so that requests extend one another.

A client sends its whole list each time. When it is over the budget, a `HostThread` compacts it, and
a `Plan` keeps what was sent in place of those messages. Every later list that begins with the same
messages is sent by that plan, and then as its client wrote it. A plan is found by the hash of the
messages: so conversations that branch share it, it outlives a restart, and nobody finds it who has
not the same messages, the same key and the same model.
"""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from hashlib import blake2b, sha256
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple, NoReturn, TypeVar

from rehydrate import formats
from rehydrate._text import OwnMessageError, safe_error_text
from rehydrate.context.context import Context
from rehydrate.formats.anthropic import unmarked
from rehydrate.formats.thinking import known_name
from rehydrate.integrations.host_thread import HostThread
from rehydrate.integrations.proxy.body import (
    Body,
    Item,
    in_blocks,
    plain_values,
    read_body,
    written,
)
from rehydrate.messages import Provider
from rehydrate.prompt.counting import entry_tokens, text_tokens, upper_bound
from rehydrate.prompt.request import Budget

if TYPE_CHECKING:
    from rehydrate.context.threads import Threads
    from rehydrate.prompt.ir import PromptIR

LOGGER = "rehydrate.proxy"
WINDOWS = {
    "claude-fable-5": 1_000_000,
    "claude-opus-5": 1_000_000,
    "claude-sonnet-5": 1_000_000,
    "gpt-5.4": 922_000,
    "gpt-5.2": 272_000,
    "gpt-5.1": 272_000,
    "gpt-5": 272_000,
    "gpt-4.1": 1_000_000,
    "gpt-4o": 128_000,
}
"""The most tokens of a prompt, by model, in November 2026; `WINDOW` for all others."""
WINDOW = 200_000
MAX_SOFT_TOKENS = 100_000
"""A long prompt is slow and dear long before a window of a million is full."""
MAX_PLANS = 1_024
MAX_SEEN = 16_384
"""Of the ends of requests: a conversation has one for each."""
MAX_SHOWN = 32
"""Compactions that the page can show: each holds what it was made of."""
MAX_FACTS = 131_072
_RESERVED = ("system", "instructions", "tools")
"""The fields that the model reads besides the messages."""
_ELSEWHERE = ("previous_response_id", "conversation")
"""Where one is set, the provider holds the messages before these."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class UntouchedError(OwnMessageError):
    """The request goes out as it is; the message says why."""


class Plan(NamedTuple):
    """What is sent in place of the first messages of a list."""

    digest: bytes
    """Of those messages."""
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody needs here
    pieces: tuple[int | Item, ...]
    """The index of a message that is sent as the client writes it, or one of our own."""


NO_PLAN = Plan(b"", 0, ())


@dataclass(slots=True)
class Conversation:
    """What became of one conversation's requests."""

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
    """What a request became."""

    body: bytes | None = None
    """What to send; None: what the client wrote."""
    before: int = 0
    after: int = 0
    prefix: str = ""
    """"new", "kept", "compacted", or "waits": it is over the budget, and is left as it was until
    the turn ends."""
    model: str = ""
    conversation: Conversation | None = None
    untouched: str = ""
    """Why nothing was looked at; "" where it was."""


class Recent(OrderedDict[K, V]):
    """A table of the last used; not for several threads at once.

    >>> recent = Recent(2)
    >>> recent.put("a", 1); recent.put("b", 2); recent.use("a"); recent.put("c", 3)
    1
    >>> list(recent)
    ['a', 'c']
    """

    def __init__(self, most: int) -> None:
        """Take the number of entries."""
        super().__init__()
        self._most = most

    def use(self, key: K) -> V | None:
        """Return the value of a key, which is now the last used; None where there is none."""
        value = self.get(key)
        if value is not None:
            self.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> None:
        """Set a value; the longest unused goes."""
        self[key] = value
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)


class Facts(NamedTuple):
    """What is known of a message by its text."""

    digest: bytes
    """Without marks: a client moves them."""
    tokens: int


class Shortener:
    """Makes requests fit a budget; for any number of threads.

    >>> said = [{"role": "user", "content": f"Berth {n} is free."} for n in range(900)]
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
    ) -> None:
        """Take the tokens above which a request is compacted; None: by the model's window.

        ``threads`` keeps the plans.
        """
        self._budget_tokens = budget_tokens
        self._threads = threads
        self.on_failure: Callable[[str], object] = logging.getLogger(LOGGER).warning
        """It gets what went wrong with the store; the request goes on."""
        self._lock = Lock()
        self._facts: Recent[tuple[str, bytes], Facts] = Recent(MAX_FACTS)
        self._plans: Recent[tuple[str, bytes], Plan] = Recent(MAX_PLANS)
        self._seen: Recent[tuple[str, bytes], tuple[Conversation, bytes]] = Recent(MAX_SEEN)
        """By a request's last message: its conversation, and the plan that it was sent by."""
        self._stored: Recent[str, set[str]] = Recent(MAX_PLANS)
        self._conversations: Recent[int, Conversation] = Recent(256)
        self._shown: Recent[tuple[int, int], PromptIR] = Recent(MAX_SHOWN)
        """Compactions, by the conversation's number and their own."""
        self._begun = 0

    def shorten(
        self, wire: Provider, raw: bytes, *, key: str, is_counting: bool = False
    ) -> Outcome:
        """Return what to send; raises UntouchedError where the client's own is to be sent.

        ``key`` is the client's; only its hash is kept. Where the request only asks for a count, it
        is sent as the next one would be, and nothing is compacted. It may raise anything else too.
        """
        list_key = "input" if wire == "openai_responses" else "messages"
        body = _read(raw, list_key)
        model = str(body.fields.get("model") or "")
        if not body.items:
            raise UntouchedError(f"{list_key!r} is no list of messages")
        if any(body.fields.get(name) for name in _ELSEWHERE):
            raise UntouchedError("the provider holds the messages before these")
        scope = sha256(f"{sha256(key.encode()).hexdigest()} {wire} {model}".encode()).hexdigest()
        facts = self._facts_of(wire, body.items)
        chain = _chain(facts)
        plan = self._find(scope, chain)
        pieces: Sequence[int | Item] = (*plan.pieces, *range(plan.count, len(body.items)))
        reserved = self._reserved_tokens(body)
        before = sum(each.tokens for each in facts) + reserved
        after = self._tokens(wire, pieces, facts) + reserved
        prefix, ir = "", None
        budget = budget_of(model, self._budget_tokens)
        if not is_counting and upper_bound(after, wire) > budget.soft_tokens:
            self._stored.pop(scope, None)  # another process may have made a plan
            compacted, ir = self._compact(wire, model, body, pieces, reserved, budget)
            prefix = "waits"
            if compacted is not None:
                prefix, pieces = "compacted", compacted
                after = self._tokens(wire, pieces, facts) + reserved
                plan = Plan(chain[-1], len(chain), tuple(pieces))
                self._keep(scope, plan, wire)
        conversation = None
        if not is_counting:
            conversation, is_kept = self._note(scope, chain, plan, (wire, model))
            prefix = prefix or is_kept
            self._count(conversation, before, after, ir if prefix == "compacted" else None)
        sent = None
        if plan.count:
            texts = [body.items[p].text if isinstance(p, int) else p.text for p in pieces]
            sent = body.with_items(texts)
        return Outcome(sent, before, after, prefix, model, conversation)

    def _facts_of(self, wire: Provider, items: Sequence[Item]) -> list[Facts]:
        """Return the facts of messages; only those of new texts are found."""
        keys = [(wire, _hash(item.text)) for item in items]
        with self._lock:
            found = list(map(self._facts.use, keys))
        missing = [index for index, known in enumerate(found) if known is None]
        if missing:
            values = list(plain_values([items[index] for index in missing]))
            tokens = entry_tokens(formats.parse(values, wire), len(values))
            for index, value, count in zip(missing, values, tokens, strict=True):
                said = in_blocks(value) if wire == "anthropic" else value
                found[index] = Facts(_hash(written(said)), count)
            with self._lock:
                for index in missing:
                    known = found[index]
                    assert known is not None
                    self._facts.put(keys[index], known)
        return [known for known in found if known is not None]

    def _reserved_tokens(self, body: Body) -> int:
        texts = [body.texts[name] for name in _RESERVED if name in body.texts]
        keys = [("", _hash(text)) for text in texts]
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

    def _tokens(self, wire: Provider, pieces: Sequence[int | Item], facts: Sequence[Facts]) -> int:
        own = [piece for piece in pieces if isinstance(piece, Item)]
        kept = sum(facts[piece].tokens for piece in pieces if isinstance(piece, int))
        return kept + sum(each.tokens for each in self._facts_of(wire, own))

    def _compact(
        self,
        wire: Provider,
        model: str,
        body: Body,
        pieces: Sequence[int | Item],
        reserved: int,
        budget: Budget,
    ) -> tuple[list[int | Item] | None, PromptIR | None]:
        """Return the pieces after a compaction; None where it left all as it was."""
        plain = list(plain_values(body.items))
        given = [plain[piece] if isinstance(piece, int) else piece.value for piece in pieces]
        thread = HostThread(
            lambda: Context(
                provider=wire, model=model, budget=budget, originals=_Nowhere(), timeout=None
            )
        )
        shown = thread.shown(given, reserved_tokens=reserved)
        if thread.report.failure:
            raise OwnMessageError(thread.report.failure)
        after: list[int | Item] = []
        for index, message in shown:
            value = unmarked(message)
            if index is not None and value == given[index]:
                after.append(pieces[index])
            else:
                after.append(Item(value, written(value)))
        if after == list(pieces):
            return None, None
        values = [plain[piece] if isinstance(piece, int) else piece.value for piece in after]
        broken = formats.validate(values, wire)
        if broken and not formats.validate(plain, wire):
            raise OwnMessageError(f"a compaction broke a rule of the API: {broken[0].rule}")
        return after, thread.context.ir

    def _find(self, scope: str, chain: Sequence[bytes]) -> Plan:
        """Return the plan of the longest beginning of a list."""
        stored = self._names(scope)
        for digest in reversed(chain):
            with self._lock:
                plan = self._plans.use((scope, digest))
            if plan is None and digest.hex() in stored:
                plan = self._load(scope, digest)
            if plan is not None:
                return plan
        return NO_PLAN

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

    def _count(
        self, conversation: Conversation, before: int, after: int, ir: PromptIR | None
    ) -> None:
        with self._lock:
            conversation.requests += 1
            conversation.before, conversation.after = before, after
            conversation.saved += before - after
            if ir is not None:
                conversation.compactions += 1
                self._shown.put((conversation.number, conversation.compactions), ir)

    def shown(self) -> list[tuple[Conversation, list[int]]]:
        """Return the last conversations, the last used first, each with the numbers of those of its
        compactions that `compaction` still has."""
        with self._lock:
            return [
                (each, [number for of, number in self._shown if of == each.number])
                for each in reversed(self._conversations.values())
            ]

    def compaction(self, conversation: int, number: int) -> PromptIR | None:
        """Return what a compaction left, and why; None: it is not known any more."""
        with self._lock:
            return self._shown.get((conversation, number))

    # What a store has: a thread a plan, named by its messages' hash, in a namespace a scope.

    def _names(self, scope: str) -> set[str]:
        if self._threads is None:
            return set()
        with self._lock:
            names = self._stored.use(scope)
        if names is None:
            try:
                listed = self._threads.list(namespace=_namespace(scope))
            except Exception as error:
                self.on_failure(safe_error_text(error, "threads"))
                return set()
            names = {each.name for each in listed}
            with self._lock:
                self._stored.put(scope, names)
        return names

    def _load(self, scope: str, digest: bytes) -> Plan | None:
        assert self._threads is not None
        try:
            rows = self._threads.native.records(_namespace(scope), digest.hex())
            texts = [found["text"] for *_, row in rows if "text" in (found := json.loads(row))]
            count, pieces = json.loads(texts[0])
        except Exception as error:
            self.on_failure(safe_error_text(error, "threads"))
            return None
        own = [each if isinstance(each, int) else Item(json.loads(each), each) for each in pieces]
        plan = Plan(digest, count, tuple(own))
        with self._lock:
            self._plans.put((scope, digest), plan)
        return plan

    def _keep(self, scope: str, plan: Plan, wire: Provider) -> None:
        with self._lock:
            self._plans.put((scope, plan.digest), plan)
        if self._threads is None:
            return
        pieces = [piece if isinstance(piece, int) else piece.text for piece in plan.pieces]
        text, name = json.dumps([plan.count, pieces]), plan.digest.hex()
        try:
            self._threads.keep(name, text, format=wire, namespace=_namespace(scope))
        except Exception as error:
            self.on_failure(safe_error_text(error, "threads"))


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


def _read(raw: bytes, key: str) -> Body:
    try:
        return read_body(raw, key)
    except ValueError:  # the provider says what is wrong with it
        raise UntouchedError("the body is no JSON object that can be read") from None


def _chain(facts: Sequence[Facts]) -> list[bytes]:
    """Return the hash of each beginning of a list."""
    chain, last = [], b""
    for each in facts:
        last = blake2b(last + each.digest, digest_size=16).digest()
        chain.append(last)
    return chain


def _hash(text: str) -> bytes:
    return blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()


def _namespace(scope: str) -> str:
    return f"proxy {scope}"
