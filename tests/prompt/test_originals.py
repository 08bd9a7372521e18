"""Originals: what is kept comes back byte for byte, and nothing else does."""

from __future__ import annotations

import importlib
import json
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, strategies as st

from rehydrate import Memory
from rehydrate.errors import (
    InvalidArgumentError,
    OriginalGoneError,
    OriginalsFullError,
    UnknownHandleError,
)
from rehydrate.prompt import (
    ContextRequest,
    HeldOriginals,
    History,
    MemoryOriginals,
    PromptIR,
    compile,
)
from rehydrate.prompt.originals import About
from tests.prompt.irs import found, system_section, tool
from tests.prompt.test_render_history import ANTHROPIC, CHAT

anything = st.text(st.characters(codec=None), min_size=1)


@given(st.lists(anything, min_size=1))
def test_every_held_text_comes_back_as_it_was_lone_surrogates_too(texts: list[str]):
    originals = HeldOriginals()
    handles = [originals.put(text) for text in texts]
    assert [originals.get(handle) for handle in handles] == texts
    assert len(set(handles)) == len(set(texts))


def test_the_same_text_has_the_same_handle_in_any_process():
    assert HeldOriginals().put("a") == HeldOriginals().put("a") != HeldOriginals().put("b")


@pytest.mark.parametrize("handle", ["", "orig_", "orig_aaaaaaaaaaaaaaaaaaaaaaaaaa", "mem_1", "a\n"])
def test_a_handle_that_was_not_given_out_is_unknown(handle: str):
    originals = HeldOriginals()
    originals.put("something")
    with pytest.raises(UnknownHandleError) as raised:
        originals.get(handle)
    assert not isinstance(raised.value, OriginalGoneError)


def test_what_had_to_make_room_says_so_and_can_be_put_again():
    room = 3 * sys.getsizeof("a" * 1_000)
    originals = HeldOriginals(max_bytes=room)
    first = originals.put("a" * 1_000)
    others = [originals.put(letter * 1_000) for letter in "bc"]
    originals.get(first)
    last = originals.put("d" * 1_000)
    assert originals.held_bytes <= room
    with pytest.raises(OriginalGoneError, match="made room"):
        originals.get(others[0])
    assert originals.get(first) == "a" * 1_000
    assert originals.get(last) == "d" * 1_000
    assert originals.put("b" * 1_000) == others[0]
    assert originals.get(others[0]) == "b" * 1_000


def test_asking_for_the_utf8_of_a_held_text_does_not_upset_the_count():
    originals = HeldOriginals(max_bytes=100_000)
    texts = [chr(0x5D0 + number) * 1_000 for number in range(27)]
    for text in texts * 9:
        originals.put(text)
        text.encode()
    for number in range(200):
        originals.put(str(number) * 300)
    assert 0 < originals.held_bytes <= 100_000
    assert len(originals) > 0


def test_a_text_larger_than_all_the_room_is_refused_and_displaces_nothing():
    originals = HeldOriginals(max_bytes=1_000)
    small = originals.put("small")
    with pytest.raises(OriginalsFullError, match="max_bytes is 1,000; raise max_bytes"):
        originals.put("x" * 2_000)
    assert originals.get(small) == "small"


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, None])
def test_a_limit_that_is_invalid_is_refused(limit):
    with pytest.raises(InvalidArgumentError, match="max_bytes"):
        HeldOriginals(max_bytes=limit)


def test_threads_may_share_held_originals():
    originals = HeldOriginals(max_bytes=200_000)

    def work(number: int) -> bool:
        texts = [f"{number % 7} {each} " * 50 for each in range(60)]
        return all(originals.get(originals.put(text)) == text for text in texts)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(32)))
    assert originals.held_bytes <= 200_000


def test_a_memory_keeps_originals_durably_cold_and_with_their_tool(tmp_path):
    text = "row\r\n" * 1_000 + "שלום 🙂"
    with Memory.open(tmp_path / "m.db", namespace="alice") as memory:
        handle = MemoryOriginals(memory, thread="s1").put(text, about=About("Read", "toolu_1"))
        item = memory.get(handle)
        assert (item.kind, item.tier, item.tool, item.thread) == ("original", "cold", "Read", "s1")
        assert item.metadata == {"call": "toolu_1"}
    with Memory.open(tmp_path / "m.db", namespace="alice") as memory:
        assert MemoryOriginals(memory).get(handle) == text


def test_a_secret_is_exact_in_this_process_and_never_in_the_file(tmp_path):
    text = "aws_key = AKIAIOSFODNN7EXAMPLE\n" * 50
    with Memory.open(tmp_path / "m.db", namespace="alice") as memory:
        originals = MemoryOriginals(memory)
        handle = originals.put(text)
        assert originals.get(handle) == text
        assert originals.put(text) == handle
        assert "AKIAIOSFODNN7EXAMPLE" not in memory.get(handle).text
        later = MemoryOriginals(memory).get(handle)
        assert "[redacted:" in later
    with Memory.open(tmp_path / "n.db", namespace="alice", redact=False) as memory:
        assert MemoryOriginals(memory).get(MemoryOriginals(memory).put(text)) == text


def test_half_a_surrogate_pair_is_exact_in_this_process(tmp_path):
    with Memory.open(tmp_path / "m.db", namespace="alice") as memory:
        originals = MemoryOriginals(memory)
        handle = originals.put("half \ud83d pair")
        assert originals.get(handle) == "half \ud83d pair"
        assert MemoryOriginals(memory).get(handle) == "half \ufffd pair"


def test_no_other_memory_can_be_read_as_an_original(tmp_path):
    with Memory.open(tmp_path / "m.db", namespace="alice") as memory:
        note = memory.add("the password is on the wall")[0].handle
        with pytest.raises(UnknownHandleError):
            MemoryOriginals(memory).get(note)
        theirs = MemoryOriginals(memory, namespace="bob").put("bob's")
        with pytest.raises(UnknownHandleError):
            MemoryOriginals(memory).get(theirs)


def test_an_original_that_was_purged_is_written_again(tmp_path):
    with Memory.open(tmp_path / "m.db", namespace="alice") as memory:
        originals = MemoryOriginals(memory)
        memory.forget(originals.put("all of it"))
        assert originals.get(originals.put("all of it")) == "all of it"


# The SDKs take the output of compile: each sends it as it is, to a transport of ours.


def sent_by(module, make):
    """The JSON of the one request that the SDK makes."""
    sdk = pytest.importorskip(module)
    # Each SDK says which HTTP library it is built on.
    base = sdk.DefaultHttpxClient.__mro__[1]
    httpx = importlib.import_module(base.__module__.partition(".")[0])
    requests = []

    def answer(request):
        requests.append(json.loads(request.content))
        return httpx.Response(418, json={"error": {"message": "no network here"}})

    http = httpx.Client(transport=httpx.MockTransport(answer))
    client = getattr(sdk, {"anthropic": "Anthropic", "openai": "OpenAI"}[module])(
        api_key="none", http_client=http, max_retries=0
    )
    with pytest.raises(sdk.APIStatusError):
        make(client)
    (request,) = requests
    return request


def prompt(provider, entries, format):
    sections = (system_section(), found(stability="static"), found(2))
    history = History(tuple(entries), format)
    ir = PromptIR(ContextRequest("Compare."), sections, (tool(),), history)
    return compile(ir, provider, minimum_prefix=1)


@pytest.mark.parametrize(("entries", "format"), [(ANTHROPIC, "anthropic"), (CHAT, "openai_chat")])
def test_the_anthropic_sdk_sends_it_as_it_is(entries, format):
    compiled = prompt("anthropic", entries, format)
    request = sent_by(
        "anthropic",
        lambda client: client.messages.create(
            model="claude-opus-4-6", max_tokens=100, **compiled.request
        ),
    )
    assert request["messages"] == compiled.request["messages"]
    assert request["system"] == compiled.request["system"]
    assert request["tools"] == compiled.request["tools"]


@pytest.mark.parametrize(("entries", "format"), [(ANTHROPIC, "anthropic"), (CHAT, "openai_chat")])
def test_the_openai_sdk_sends_chats_as_they_are(entries, format):
    compiled = prompt("openai_chat", entries, format)
    request = sent_by(
        "openai",
        lambda client: client.chat.completions.create(model="gpt-4o", **compiled.request),
    )
    assert request["messages"] == compiled.request["messages"]
    assert request["tools"] == compiled.request["tools"]


@pytest.mark.parametrize(("entries", "format"), [(ANTHROPIC, "anthropic"), (CHAT, "openai_chat")])
def test_the_openai_sdk_sends_items_as_they_are(entries, format):
    compiled = prompt("openai_responses", entries, format)
    request = sent_by(
        "openai", lambda client: client.responses.create(model="gpt-4o", **compiled.request)
    )
    assert request["input"] == compiled.request["input"]
    assert request["tools"] == compiled.request["tools"]
