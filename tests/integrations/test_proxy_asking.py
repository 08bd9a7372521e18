"""Models that ask the proxy back for what was left out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("starlette", reason="the server of the proxy is not installed")

from rehydrate._native import Replies, RequestBody, RequestItem, with_exchanges
from rehydrate.context.threads import Threads
from rehydrate.integrations.proxy import Shortener
from rehydrate.integrations.proxy.asking import NAMES, Exchange as ProxyExchange
from rehydrate.integrations.proxy.kept import Kept, Plan
from rehydrate.integrations.proxy.shortening import Outcome
from tests.integrations import harbour
from tests.integrations.proxied import (
    BUDGET,
    CLAUDE,
    CLIENTS,
    AnthropicClient,
    chat_body,
    echoing,
    sent_lists,
    served,
)
from tests.provider import Call, ScriptedReply, StrictProvider


def both(body: Mapping[str, Any], wire: str) -> Any:
    """Ask back, and call the client's tool at once."""
    said = harbour.since_user(body)
    asked = harbour.text_of(said[0]).partition(harbour.ASKED)[2].partition("?")[0]
    if not asked:
        return harbour.reply(body, wire)
    if len(said) > 1:
        is_there = harbour.code(asked) in "".join(map(harbour.text_of, said[1:]))
        return f"The code is {harbour.code(asked)}." if is_there else "I cannot say."
    calls = (
        Call("lookup", {"query": "crane"}),
        Call("request_context", {"query": f"code of the lock of {asked}"}),
    )
    return ScriptedReply("I ask.", calls=calls, thinking="Both at once.")


def thinking_back(body: Mapping[str, Any], wire: str) -> Any:
    """Ask back with a thought before the call, and one before the answer."""
    found = harbour.asking_back(body, wire)
    return replace(found, thinking="I think of it.")


class AskedBack(NamedTuple):
    """A conversation whose model asked for what was left out."""

    provider: StrictProvider
    client: Any
    code: str
    said: str
    """The answer that the client got."""
    prefixes: Mapping[str, int]


def ask_back(
    client_type: Any,
    reply: Any,
    *,
    streams: bool,
    model: str | None = None,
    threads: Any = (None, None),
    **settings: Any,
) -> AskedBack:
    def shortener(number: int) -> Shortener:
        return Shortener(budget_tokens=3_000, asks_back=True, threads=threads[number])

    with StrictProvider(reply, **settings) as provider:
        with (
            served(provider.url, shortener(0)) as proxy,
            closing(client_type(proxy.url, streams=streams)) as client,
        ):
            client.model = model or client_type.model
            for number in range(12):
                client.turn(number)
            sent = harbour.messages_of(provider.requests[-1].body or {})
            text = "".join(map(harbour.text_of, client.messages))
            asked = harbour.forgotten(re.findall(r"The lock of ([a-z ]+?) opens", text), sent)
            at = len(client.messages)
            client.messages.append({"role": "user", "content": f"{harbour.ASKED}{asked}?"})
            while results := client.ask():
                client.add(results)
            said = "".join(map(harbour.text_of, client.messages[at + 1 :]))
        with (
            served(provider.url, shortener(1)) as again,
            closing(client_type(again.url, streams=streams)) as later,
        ):
            later.messages, later.model = client.messages, client.model
            later.turn(13)
    prefixes = proxy.proxy.totals.prefixes + again.proxy.totals.prefixes
    return AskedBack(provider, client, harbour.code(asked), said, prefixes)


@pytest.mark.parametrize(("reply", "streams"), [(thinking_back, True), (both, False)])
@pytest.mark.parametrize("client_type", CLIENTS)
def test_a_model_asks_back_and_the_client_sees_one_answer(
    client_type: Any, reply: Any, streams: bool, tmp_path: Path
) -> None:
    with (
        Threads.open(tmp_path / "plans.db") as threads,
        Threads.open(tmp_path / "plans.db") as later,
    ):
        found = ask_back(client_type, reply, streams=streams, threads=(threads, later))
    assert found.provider.refusals == []
    assert found.code in found.said
    assert "I ask." in found.said
    assert "request_context" not in "".join(map(harbour.text_of, found.client.messages))
    # The messages that the client did not see are there again after a restart.
    lists = sent_lists(found.provider.requests)
    assert "request_context" in "".join(map(harbour.text_of, lists[-1]))
    assert harbour.breaks(lists) == found.prefixes["compacted"]
    assert "changed" not in found.prefixes


def test_thinking_stays_bound_to_what_the_client_did_not_see() -> None:
    found = ask_back(
        AnthropicClient, both, streams=True, model="claude-opus-5-5", binds_thinking=None
    )
    assert found.provider.refusals == []
    assert found.code in found.said


def berths(body: Mapping[str, Any], wire: str) -> Any:
    """Ask once for what is no longer shown, then say what came."""
    last = harbour.messages_of(body)[-1]
    if last["role"] == "tool":
        return "It is free." if "Berth 17 is free." in last["content"] else "I cannot say."
    return Call("request_context", {"query": "Berth 17"})


@contextmanager
def asked_about_berths(**body: Any) -> Iterator[tuple[StrictProvider, Any]]:
    shortener = Shortener(budget_tokens=BUDGET, asks_back=True)
    with StrictProvider(berths) as provider, served(provider.url, shortener) as proxy:
        headers = {"authorization": "Bearer key"}
        path, request = "/v1/chat/completions", chat_body(900, **body)
        yield provider, lambda: proxy.post(path, request, **headers)


def test_what_a_client_gets_is_one_reply_and_the_tokens_of_all() -> None:
    with asked_about_berths() as (provider, ask):
        said = ask()
    assert said.json()["choices"][0]["message"]["content"] == "It is free."
    assert said.headers["x-rehydrate"].endswith("prefix=compacted; answered=1")
    billed = [exchange.billed for exchange in provider.requests]
    assert len(billed) == 2
    usage = said.json()["usage"]
    assert usage["prompt_tokens"] == sum(each.prompt for each in billed)
    offered = [tool["function"]["name"] for tool in provider.requests[0].body["tools"]]
    assert offered == ["request_context", "fetch_whole"]


def test_a_failure_after_a_question_is_the_providers_own() -> None:
    with asked_about_berths() as (provider, ask):
        provider.rate_limit_next(7, after=1)
        refused = ask()
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "7")
        assert refused.json()["error"]["code"] == "rate_limit_exceeded"
        provider.drop_next(after=1)
        assert ask().status_code == 502
        assert ask().json()["choices"][0]["message"]["content"] == "It is free."


def test_a_failure_after_a_question_ends_a_stream_with_an_error() -> None:
    with asked_about_berths(stream=True) as (provider, ask):
        provider.rate_limit_next(7, after=1)
        refused = ask()
    assert refused.status_code == 200
    assert '"rate_limit_exceeded"' in refused.text
    assert "[DONE]" not in refused.text


def test_a_model_that_asks_forever_gets_the_clients_own_request() -> None:
    def asking(body: Mapping[str, Any], wire: str) -> Any:
        offered = [tool["function"]["name"] for tool in body.get("tools") or ()]
        return Call("request_context", {"query": "Berth"}) if offered else "Enough."

    shortener = Shortener(budget_tokens=BUDGET, asks_back=True)
    with StrictProvider(asking) as provider, served(provider.url, shortener) as proxy:
        path, headers = "/v1/chat/completions", {"authorization": "Bearer key"}
        said = proxy.post(path, chat_body(900), **headers)
    assert said.json()["choices"][0]["message"]["content"] == "Enough."
    assert said.headers["x-rehydrate"].startswith("untouched; failure=")
    assert len(provider.requests) == 13


def test_a_count_is_of_what_would_be_sent_with_the_tools_to_ask() -> None:
    said = [{"role": "user", "content": f"Berth {n} is free."} for n in range(900)]
    shortener = Shortener(budget_tokens=BUDGET, asks_back=True)
    request = {"model": CLAUDE, "messages": said}
    with (
        StrictProvider(lambda body, wire: "Yes.") as provider,
        served(provider.url, shortener) as proxy,
    ):
        key = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
        proxy.post("/v1/messages", json.dumps({**request, "max_tokens": 99}).encode(), **key)
        counted = proxy.post("/v1/messages/count_tokens", json.dumps(request).encode(), **key)
    sent, count = [exchange.body or {} for exchange in provider.requests]
    assert counted.json().keys() == {"input_tokens"}
    assert (count["messages"], count["tools"]) == (sent["messages"], sent["tools"])
    assert "failure" not in counted.headers["x-rehydrate"]


def test_a_client_that_has_a_tool_of_that_name_keeps_it() -> None:
    function = {"name": "request_context", "parameters": {"type": "object", "properties": {}}}
    with asked_about_berths(tools=[{"type": "function", "function": function}]) as (provider, ask):
        said = ask().json()["choices"][0]
    assert said["message"]["tool_calls"][0]["function"]["name"] == "request_context"
    assert [tool["function"] for tool in provider.requests[0].body["tools"]] == [function]


@pytest.mark.parametrize("tools", ["abc", 5, {"a": 1}, True, {}, ""])
def test_a_client_whose_tools_are_no_list_is_told_so_by_the_provider(tools: Any) -> None:
    outcome = shortened(tools)
    assert outcome.prefix == "compacted"
    assert outcome.asking is None
    assert json.loads(outcome.body or b"")["tools"] == tools
    with pytest.raises(ValueError, match="its tools aren't a list"):
        RequestBody(chat_body(1, tools="abc"), "messages").with_items([], ["{}"])


@pytest.mark.parametrize("tools", [None, [], [5, {"function": "x"}, {"function": {"name": 5}}]])
def test_tools_to_ask_are_beside_the_clients_whatever_these_are(tools: Any) -> None:
    sent = json.loads(shortened(tools).body or b"")["tools"]
    assert sent[: len(tools or ())] == (tools or [])
    assert [tool["function"]["name"] for tool in sent[-2:]] == NAMES


def shortened(tools: Any) -> Outcome:
    shortener = Shortener(budget_tokens=BUDGET, asks_back=True)
    return shortener.shorten("openai_chat", chat_body(900, tools=tools), key="k")


@pytest.mark.parametrize("wire", ["anthropic", "openai_chat", "openai_responses"])
def test_an_event_that_is_no_object_passes(wire: str) -> None:
    replies = Replies(wire, NAMES)
    replies.begin()
    assert replies.feed("null") == b"data: null\n\n"
    assert replies.feed('[1,\n"x"]') == b'data: [1,\ndata: "x"]\n\n'


def test_an_answer_that_is_not_json_of_the_api_is_asked_for_again_without_tools() -> None:
    shortener = Shortener(budget_tokens=BUDGET, asks_back=True)
    with echoing(shortener=shortener) as (echo, proxy):
        echo.status, echo.answer = 200, b'{"error": {"message": "busy"}}'
        answer = proxy.post("/v1/chat/completions", body := chat_body(900))
    assert answer.content == echo.answer
    assert echo.requests[-1][2] == body


def cut_off(body: Mapping[str, Any], wire: str) -> Any:
    """Ask back twice; the second call does not fit into the answer."""
    found = harbour.asking_back(body, wire)
    if not found.text.startswith("The code"):
        return found
    call = Call("request_context", {"query": "the code again"})
    return ScriptedReply("Let me see.", calls=(call,), stop="max_tokens")


@pytest.mark.parametrize("client_type", CLIENTS)
def test_a_call_that_was_cut_off_is_not_put_back_without_an_answer(client_type: Any) -> None:
    found = ask_back(client_type, cut_off, streams=False)
    assert "Let me see." in found.said
    assert found.provider.refusals == []


def test_an_answer_of_which_the_client_sees_nothing_matches_nothing() -> None:
    nothing = ProxyExchange((), ({"role": "assistant", "content": "Hm."},))
    items = [RequestItem(json.dumps({"content": "And now?"}))]
    assert with_exchanges(items, lambda _at: [nothing]) == items


def test_blanks_between_texts_may_be_lost_when_a_client_sends_an_answer_again() -> None:
    shown = {"role": "assistant", "content": [{"text": "I ask. "}, {"text": "It is 4.\n"}]}
    again = {"role": "assistant", "content": [{"text": "I ask."}, {"text": "It is 4."}]}
    items = [RequestItem(json.dumps(again))]
    assert with_exchanges(items, lambda _at: [ProxyExchange((shown,), ())]) == []


def test_usage_next_to_a_choice_is_of_all_replies_too() -> None:
    """As OpenRouter writes it, with what it costs."""
    reply = Replies("openai_chat", NAMES)
    call = {"index": 0, "id": "c", "function": {"name": "fetch_whole", "arguments": "{}"}}
    shown = b""
    for delta, reason in [
        ({"tool_calls": [call]}, "tool_calls"),
        ({"content": "It is 4."}, "stop"),
    ]:
        reply.begin()
        for choice, usage in [
            ({"delta": delta, "finish_reason": None}, None),
            ({"delta": {}, "finish_reason": reason}, None),
            ({"delta": {"content": ""}, "finish_reason": None}, {"prompt_tokens": 2, "cost": 0.5}),
        ]:
            chunk = {"id": reason, "choices": [choice], "usage": usage}
            shown += reply.feed(json.dumps(chunk))
        reply.finish()
    shown += reply.end()
    chunks = [json.loads(line[6:]) for line in shown.decode().split("\n\n") if "{" in line]
    usages = [chunk["usage"] for chunk in chunks if chunk.get("usage")]
    assert usages == [{"prompt_tokens": 4, "cost": 1.0}]
    assert {chunk["id"] for chunk in chunks} == {"tool_calls"}


def test_contents_that_are_parts_are_joined() -> None:
    """As Mistral writes them where a model thinks."""
    reply = Replies("openai_chat", NAMES)
    for number in (1, 2):
        reply.begin()
        part = {"type": "text", "text": f"part {number}"}
        choice = {"delta": {"content": [part]}, "finish_reason": "stop"}
        assert f"part {number}" in reply.feed(json.dumps({"choices": [choice]})).decode()
        reply.finish()
    content = reply.joined()["choices"][0]["message"]["content"]
    assert [each["text"] for each in content] == ["part 1", "part 2"]


def test_each_of_several_answers_to_the_same_messages_is_put_back(tmp_path: Path) -> None:
    """A client asked again, or twice at once, and goes on from any of the answers."""

    def said(text: str) -> dict[str, Any]:
        return {"role": "assistant", "content": text}

    with Threads.open(tmp_path / "plans.db") as threads:
        for store in (Kept(threads), Kept(threads)):
            for name in "AB":
                real = said(f"hidden {name}"), said(name)
                store.keep_exchange("s", b"1", ProxyExchange((said(name),), real), "openai_chat")
        for known in (store, Kept(threads)):
            for name in "AB":
                items = [RequestItem(json.dumps(each)) for each in (said("?"), said(name))]
                answers = [(), known.exchanges("s", b"1")]
                found = with_exchanges(items, answers.__getitem__)
                assert [item.value["content"] for item in found] == ["?", f"hidden {name}", name]


def test_the_plan_that_was_stored_last_counts(tmp_path: Path) -> None:
    with Threads.open(tmp_path / "plans.db") as threads:
        for count in (1, 2):
            Kept(threads).keep("s", Plan(b"1", count, (0,), 0), "openai_chat")
        assert Kept(threads).plan("s", [b"1"]).count == 2


@pytest.mark.parametrize("more", [{"background": True}, {"functions": [{"name": "look"}]}])
def test_a_request_whose_reply_would_be_another_one_is_not_asked(more: dict[str, Any]) -> None:
    shortener = Shortener(budget_tokens=3_000, asks_back=True)
    said = [{"role": "user", "content": harbour.words(str(n), 300)} for n in range(40)]
    for given, asks in (({}, True), (more, False)):
        body = json.dumps({"model": "gpt-5.1", "input": said, **given}).encode()
        outcome = shortener.shorten("openai_responses", body, key="k")
        assert outcome.body is not None
        assert (outcome.asking is not None) == asks
        assert (b"request_context" in outcome.body) == asks


def test_functions_and_a_schema_count() -> None:
    def before(**more: Any) -> int:
        body = {"model": "gpt-5.1", "messages": [{"role": "user", "content": "Hello."}], **more}
        return Shortener().shorten("openai_chat", json.dumps(body).encode(), key="k").before

    schema = {"name": "berth", "description": harbour.words("berth", 300)}
    assert before(functions=[schema]) > before() + 200
    assert before(response_format={"type": "json_schema", "json_schema": schema}) > before() + 200
