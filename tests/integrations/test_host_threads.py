"""HostThread and PrefixThreads: a host's whole lists, the threads they go to, what they send."""

from __future__ import annotations

import ast
import inspect
import json
import threading
import time
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import anyio
import pytest

import rehydrate.integrations
from rehydrate import Budget, Context, Memory, PromptIR, compile
from rehydrate.integrations import AdapterOptions, HostThread, PrefixThreads, RehydrateWarning
from rehydrate.integrations.host_thread import Shown, shown_messages
from rehydrate.integrations.openai_agents import RehydrateFilter
from rehydrate.prompt import BEGINNING, History
from tests.integrations import harbour

BUDGET = Budget(soft_tokens=2_000)


def chat(scope: Any = "") -> Context:
    return Context(provider="openai_chat", budget=BUDGET)


def said(turns: int) -> list[dict[str, Any]]:
    """Return a conversation in which the user says little and the assistant much."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": "Be brief."}]
    for turn in range(turns):
        messages.append({"role": "user", "content": f"Go on: {harbour.words(f'u{turn}', 20)}"})
        messages.append({"role": "assistant", "content": harbour.words(f"a{turn}", 60)})
    return [*messages, {"role": "user", "content": "And now?"}]


def lists(messages: list[Any]) -> list[list[Any]]:
    """Return the lists that a host passes, one for each thing the user says."""
    ends = [n + 1 for n, each in enumerate(messages) if each["role"] == "user"]
    return [messages[:end] for end in ends]


def test_each_message_that_is_sent_has_its_index_in_the_hosts_list() -> None:
    thread, messages = HostThread(chat), said(80)
    for passed in lists(messages):
        shown = thread.shown(passed)
        kept = [each for each in shown if each.index is not None]
        assert all(each.message is passed[each.index] for each in kept)
        assert [each.index for each in kept] == sorted(each.index for each in kept)
    assert thread.report.compactions > 0
    assert len(shown) < len(messages)


USER, ASSISTANT = ({"role": role, "content": f"I am the {role}."} for role in ("user", "assistant"))
SYSTEM = {"role": "system", "content": "Be brief."}


@pytest.mark.parametrize("provider", ["openai_chat", "anthropic"])
@pytest.mark.parametrize(
    ("entries", "indices", "sent"),
    [
        ((SYSTEM, ASSISTANT, USER), (0, 4, 5), (SYSTEM, BEGINNING, ASSISTANT, USER)),
        ((ASSISTANT, USER), (4, 5), (BEGINNING, ASSISTANT, USER)),
        ((SYSTEM, USER), (0, 5), (SYSTEM, USER)),
        ((SYSTEM, ASSISTANT, USER), (0, 1, 5), (SYSTEM, ASSISTANT, USER)),  # the host's own
    ],
)
def test_a_list_that_the_user_began_begins_with_the_user(
    provider: Any, entries: Any, indices: Any, sent: Any
) -> None:
    history = History(entries, "openai_chat", entry_indices=indices)
    shown = shown_messages(compile(PromptIR(history=history), provider))
    messages = [each.message["content"] if each.index is None else each.message for each in shown]
    assert tuple(messages) == sent


MESSAGES: dict[str, Any] = {
    "anthropic": {"role": "user", "content": "Which berth?"},
    "openai_chat": {"role": "user", "content": "Which berth?"},
    "openai_responses": {"role": "user", "content": "Which berth?"},
    "bedrock": {"role": "user", "content": [{"text": "Which berth?"}]},
    "gemini": {"role": "user", "parts": [{"text": "Which berth?"}]},
}


@pytest.mark.parametrize("provider", MESSAGES)
def test_hot_memory_is_shown_before_the_first_message_of_the_user(
    provider: Any, tmp_path: Path
) -> None:
    with Memory.open(tmp_path / "m.db", namespace="alice") as memory:
        memory.add("Answer in few words.", tier="hot")
        thread = HostThread(lambda: Context(memory, provider=provider))
        shown = json.dumps(thread.prompt([MESSAGES[provider]]))
    assert thread.report.failure == ""
    assert -1 < shown.find("Answer in few words.") < shown.find("Which berth?")


def test_a_conversation_is_followed_where_it_goes_on() -> None:
    threads, messages = PrefixThreads(chat), said(30)
    one = {id(threads.prompt(passed).thread) for passed in lists(messages)}
    assert len(one) == 1
    assert threads.find(messages) is threads.prompt(messages).thread
    assert threads.find(messages[:3]) is None
    assert threads.find([]) is None


def test_a_conversation_that_branches_off_gets_a_thread_of_its_own() -> None:
    threads, messages = PrefixThreads(chat), said(10)
    first = threads.prompt(messages).thread
    other = [*messages[:-1], {"role": "user", "content": "Or else?"}]
    second = threads.prompt(other).thread
    assert second is not first
    more = {"role": "assistant", "content": "Done."}
    assert threads.prompt([*messages, more]).thread is first
    assert threads.prompt([*other, more]).thread is second
    assert not first.report.is_rebuilt
    assert not second.report.is_rebuilt


def test_the_thread_with_the_most_messages_is_found() -> None:
    threads, messages = PrefixThreads(chat), said(10)
    short = threads.prompt(messages[:2]).thread
    long = threads.prompt([messages[0], {"role": "user", "content": "Else"}]).thread
    assert threads.prompt(messages).thread is short
    assert threads.find(messages) is short
    assert threads.find([messages[0], {"role": "user", "content": "Else"}, messages[2]]) is long


def test_scopes_share_nothing() -> None:
    threads, messages = PrefixThreads(chat), said(3)
    assert threads.prompt(messages, "a").thread is not threads.prompt(messages, "b").thread
    assert threads.find(messages, "c") is None


def test_the_longest_unused_thread_goes_first() -> None:
    threads = PrefixThreads(chat, max_threads=2)
    talks = [[{"role": "user", "content": str(number)}] for number in range(3)]
    first = threads.prompt(talks[0]).thread
    threads.prompt(talks[1])
    assert threads.prompt(talks[0]).thread is first
    threads.prompt(talks[2])
    assert threads.find(talks[1]) is None
    assert threads.find(talks[0]) is first


def test_a_thread_that_failed_is_not_kept() -> None:
    threads = PrefixThreads(chat, max_threads=1)
    good = said(3)
    kept = threads.prompt(good).thread
    odd: list[Any] = [{"role": "robot", "content": 17}]
    with pytest.warns(RehydrateWarning):
        prompted = threads.prompt(odd)
    assert prompted.messages == odd
    assert prompted.shown == [Shown(0, odd[0])]
    assert threads.find(good) is kept


def test_the_tokens_of_what_is_sent_next_to_the_messages_count() -> None:
    messages = said(20)
    without, beside = PrefixThreads(chat), PrefixThreads(chat)
    for passed in lists(messages):
        plain = without.prompt(passed)
        reserved = beside.prompt(passed, reserved_tokens=900)
    assert len(reserved.messages) < len(plain.messages)
    assert reserved.thread.report.tokens > 900


def test_any_number_of_threads_may_use_it() -> None:
    threads, failures = PrefixThreads(chat), []

    def run(number: int) -> None:
        messages = said(12)
        messages[1] = {"role": "user", "content": f"I am number {number}."}
        for passed in lists(messages):
            prompted = threads.prompt(passed)
            if prompted.thread.report.failure or prompted.messages[-1] != passed[-1]:
                failures.append(number)

    runs = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for each in runs:
        each.start()
    for each in runs:
        each.join()
    assert failures == []


def test_any_number_of_tasks_may_wait_for_one_conversation() -> None:
    def source(request: Any) -> str:
        time.sleep(0.01)  # so that its caller gives up its slot
        return "Berth 4 is free."

    threads = PrefixThreads(lambda _: Context(provider="openai_chat", sources=[source]))
    *_, before, passed = lists(said(4))
    threads.prompt(before)

    async def run() -> None:
        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                for _ in range(30):
                    group.start_soon(threads.aprompt, passed)

    anyio.run(run)


def test_a_list_whose_thread_went_another_way_meanwhile_gets_its_own() -> None:
    threads = PrefixThreads(chat)
    start = said(3)
    thread = threads.prompt(start).thread
    known = thread.known_of(start)
    mine, theirs = [[*start, {"role": "user", "content": text}] for text in ("Mine.", "Theirs.")]
    threads.prompt(theirs)
    assert thread.shown_next(mine, known) is None
    assert thread.known_of(theirs)[1] == len(theirs)
    assert threads.prompt(mine).thread is not thread


def test_a_conversation_that_begins_as_another_one_does_not_see_it() -> None:
    """Both have one thread until one goes on; then the other's question is about its own."""
    threads = PrefixThreads(chat, asks_back=True)
    hello = said(0)
    ada = threads.prompt(hello)
    assert threads.asking(hello) == ada._replace(shown=[])
    query = {"query": harbour.words("a3", 8)}
    for passed in lists(said(60))[1:]:
        threads.prompt([*hello, {"role": "assistant", "content": "Hello."}, *passed[1:]])
    assert ada.thread.report.compactions > 0
    assert "word for word" in ada.thread.answer("request_context", query, "c1")
    assert "Nothing was found" in threads.answer(ada, "request_context", query, "c2")


def test_a_hook_that_changes_messages_in_place_leaves_the_conversation_its_thread() -> None:
    threads, used = PrefixThreads(chat), set[int]()
    for passed in lists(said(40)):
        fresh = deepcopy(passed)  # as a gateway reads them
        prompted = threads.prompt(fresh)
        assert all(each.message is fresh[each.index] for each in prompted.shown if each.index)
        used.add(id(prompted.thread))
        for message in prompted.messages:
            message["content"] = "<masked>"
    assert len(used) == 1
    assert not prompted.thread.report.is_rebuilt
    assert "masked" not in json.dumps(prompted.thread.context.history)


def test_arguments_of_a_call_may_be_json_and_wrong() -> None:
    thread = HostThread(chat, asks_back=True)
    thread.prompt(said(3))
    assert "query is empty" in thread.answer("request_context", '{"query": ""}', "c1")
    assert "aren't JSON" in thread.answer("request_context", "{", "c2")
    assert "there is nothing to ask" in HostThread(chat).answer("request_context", {}, "c3")


def _taking_options() -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield each function of the adapters that takes the options of a TypedDict, by its name."""
    for file in Path(rehydrate.integrations.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.args.kwarg is not None:
                kind = ast.unparse(node.args.kwarg.annotation or node)
                if kind.startswith("Unpack["):
                    yield kind.removeprefix("Unpack[").removesuffix("]"), node


def test_adapters_show_each_option_by_name() -> None:
    found = list(_taking_options())
    assert len(found) >= 16
    for options, function in found:
        shown = [ast.unparse(each) for each in function.decorator_list]
        assert any(f"_options({options}" in each for each in shown), ast.unparse(function)[:200]


def test_help_shows_an_option_with_its_type_and_its_default() -> None:
    shown = inspect.signature(RehydrateFilter).parameters
    assert not any(each.kind is inspect.Parameter.VAR_KEYWORD for each in shown.values())
    assert (shown["max_threads"].annotation, shown["max_threads"].default) == ("int", 1_024)
    assert shown["budget"].default == Budget()
    assert shown["asks_back"].default is True
    assert set(AdapterOptions.__annotations__) < set(shown)
    assert "threads" not in shown, "no adapter has one name for all of its conversations"
