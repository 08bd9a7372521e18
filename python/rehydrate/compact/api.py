"""compact_context: verbatim, memory-aware compaction of a conversation to a token budget."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

from rehydrate._concurrency.async_wrappers import computed
from rehydrate.compact.options import checked_arguments
from rehydrate.compact.pipeline import compact
from rehydrate.compact.result import Compaction, M

if TYPE_CHECKING:
    from rehydrate._engine import CounterName
    from rehydrate._native import Scoring
    from rehydrate.compact.archive import Archive
    from rehydrate.compact.options import Granularity, ProfileName, ThinkingPolicy
    from rehydrate.compact.outline import OutlineSize
    from rehydrate.compact.signals import Memory
    from rehydrate.embedding.protocol import Model
    from rehydrate.formats import FormatName
    from rehydrate.messages import Provider


def compact_context(
    messages: Sequence[M],
    query: str | None = None,
    target_ratio: float = 0.4,
    *,
    budget_tokens: int | None = None,
    memory: Memory | None = None,
    scoring: ProfileName | Scoring = "balanced",
    embedder: str | PathLike[str] | Model | Callable[[list[str]], Any] | None = "auto",
    counter: CounterName | Callable[[str], int] | None = None,
    format: FormatName | Literal["auto"] = "auto",  # noqa: A002  the field's word
    granularity: Granularity = "message",
    thinking: ThinkingPolicy = "auto",
    model: str = "",
    provider: Provider | None = None,
    pin: Iterable[int | Mapping[str, Any]] = (),
    timeout: float | None = None,
    archive: bool | Archive = False,
    outline: OutlineSize = False,
) -> Compaction[M]:
    """Keep the messages that matter most within a token budget, byte for byte.

    ``messages`` is a conversation in one of eleven formats: ``"anthropic"``, ``"openai_chat"``,
    ``"openai_responses"`` (items), ``"bedrock"`` (Converse), ``"gemini"`` (contents),
    ``"ai_sdk"`` and ``"ai_sdk_ui"`` (Vercel's model and UI messages), ``"langchain"`` (message
    objects), ``"claude_code"`` and ``"codex"`` (the lines of a transcript) or ``"plain"`` role and
    content. The format is detected unless ``format`` names it. The list may hold objects of a
    provider's SDK. A tool call and its result are kept or dropped together, so a valid conversation
    stays valid. Of several calls in one message some may be dropped; the message and its results
    are then new objects without them. Not next to thinking, under raw signals or greedy packing (as
    in ``"chitta"``), in Converse, Gemini's contents, the AI SDK's messages or LangChain.

    In a loop with a prompt cache, do not compact the whole history in each request: each request
    would keep other messages and lose the cache, which costs more than no compaction. Use a
    `Context`, or keep the compacted list and append to it until it is too long (docs/cache.md).

    Always kept: system messages, the last user turn, an open tool loop at the end, and what ``pin``
    names (indices, or the message objects themselves). The reply that the user answers comes next,
    if it takes at most a twentieth of the target, and what users laid down (rules, limits,
    preferences): short texts as far as the query leaves room, longer ones up to a tenth.

    The target is ``floor(total * target_ratio)`` tokens (a ratio below 0.05 counts as 0.05), or
    ``budget_tokens``. ``query`` says what the next turn is about. ``""`` means no query. None means
    the last user turn if it asks something, which counts less the more messages have followed
    it. A question brings back its answer; a topic or an order that is given counts the more the
    clearer its matches are. What it leaves of the target is for the names and lines that a working
    agent is likely to need again. ``scoring`` is a
    profile (``"balanced"``, ``"chitta"``) or a ``Scoring``.

    ``embedder`` is ``"auto"`` (the built-in model), None (words only), the folder or ``org/name``
    of an ONNX model, any object with ``space`` and ``embed``, or a function of texts to vectors,
    sync or async; an ``Embedder`` gives the function limits. With a query, the built-in model ranks
    all messages first, and the other model embeds only the best fifth. If it fails, the compaction
    goes on without it, and ``stats.degraded`` says so. ``timeout`` is how many seconds after the
    call the compaction stops waiting for it; vectors that came by then are used. ``counter`` is
    ``"o200k_base"``, ``"cl100k_base"``, ``"words"``, ``"chars"`` or a callable of text to tokens;
    None means the profile's counter.

    ``granularity="message"`` keeps or drops whole messages: what is kept is untouched. If the
    agent can ask for what is missing, or there is little room, pass ``"excerpt"``: it keeps more
    of what agents use later in the same tokens (docs/figures.md). It divides
    texts, tool results and long strings in the inputs of finished calls (from 600 characters on)
    into blocks of whole lines, paragraphs, hunks, records or JSON elements, and keeps the best
    blocks, verbatim. Each gap has a mark in its place, such as
    ``[... 42 lines omitted, 118-159 ...]``, which counts in the target. A message kept in part is a
    new object. If a message holds both results and the user's own text, only the results are
    divided. Calls without results and messages with thinking keep their inputs. JSON stays JSON.

    ``thinking="auto"`` keeps the thinking that ``model`` takes back. Newer Claude models refuse a
    thinking block if anything before it changed, so the thinking after the first dropped or
    excerpted message is removed for them; other models keep all of theirs (``THINKING_MODELS`` is
    the table). Without a ``model``, a Claude counts as one of the newer. If the model may refuse an
    open tool loop both with and without its thinking, nothing is changed, and ``stats.degraded``
    says that the compaction waits for the end of the turn. ``"keep"`` leaves all thinking if it
    is. ``"strip"`` removes it from all but an open tool loop before anything is counted, which
    leaves more room for the rest. A message that lost thinking is a new object.

    ``outline=True`` adds a message where the first gap is. It lists the names in what was left out
    (files, identifiers, ids, persons), one line for each kind, with handles under ``archive``. It
    takes 1.5% of the tokens that came in, or what you pass as tokens or as a share, and counts in
    the target. It is fenced, as data, in the user's role. A later compaction replaces it by a new
    one that takes over its names. `Compaction.outline` says where it is.

    ``provider`` says who gets an OpenAI chat, LangChain or plain list, which gateways send to any
    provider. For ``"anthropic"``, and for a ``model`` that is a Claude, the kept messages begin
    with the user's if the list did.

    With a ``memory`` (a ``rehydrate.Memory``, or anything with ``recall(vectors, k)``), messages
    that it already holds are dropped first. ``archive=True`` writes every dropped message to it
    before the drop, whole and without secrets; ``dropped`` has the handles. Pass an ``Archive`` to
    choose what is written. If a memory fails, the compaction goes on and ``stats.degraded`` says
    so.

    Raises InvalidMessageError for an entry that isn't a message and InvalidArgumentError for an
    argument outside its limits; both name the value and the remedy.

    >>> kept = compact_context(
    ...     [
    ...         {"role": "user", "content": "My order number is 81-4471, please note it."},
    ...         {"role": "assistant", "content": "Noted. Shall we talk about something else now?"},
    ...         {"role": "user", "content": "Is it raining in the harbour?"},
    ...         {"role": "assistant", "content": "Not yet."},
    ...         {"role": "user", "content": "What was my order number?"},
    ...     ],
    ...     query="order number",
    ...     target_ratio=0.6,
    ... )
    >>> [message["content"] for message in kept.messages]
    ['My order number is 81-4471, please note it.', 'Not yet.', 'What was my order number?']
    """
    started = time.perf_counter()
    arguments = checked_arguments(
        query=query,
        target_ratio=target_ratio,
        budget_tokens=budget_tokens,
        memory=memory,
        scoring=scoring,
        embedder=embedder,
        counter=counter,
        format=format,
        granularity=granularity,
        thinking=thinking,
        model=model,
        provider=provider,
        pin=pin,
        timeout=timeout,
        archive=archive,
        outline=outline,
    )
    return compact(messages, arguments, started)


acompact_context = computed(compact_context)
