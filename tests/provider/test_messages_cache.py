"""The prompt cache of the Messages API, against bills worked out by hand.

A token is a word here. A tool counts as its JSON, so its tokens are computed in the test.
"""

import anyio
import pytest

from rehydrate.agent import AnthropicModel, OpenAIResponsesModel
from rehydrate.errors import ProviderError
from rehydrate.prompt import ContextRequest, History, PromptIR, compile
from tests.provider import Billed, StrictProvider
from tests.provider.sdk_clients import anthropic_served, refusal_of

SHORT = {"type": "ephemeral"}
LONG = {"type": "ephemeral", "ttl": "1h"}


class Clock:
    """A clock that the test sets."""

    now = 0.0

    def __call__(self):
        return self.now


def words(text):
    return len(text.split())


def text(count, word="a", mark=None):
    """Return a text block of this many tokens."""
    block = {"type": "text", "text": " ".join([word] * count)}
    return {**block, "cache_control": mark} if mark else block


def user(*blocks):
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks):
    return {"role": "assistant", "content": list(blocks)}


@pytest.fixture(scope="module")
def served():
    """A provider, its client and its clock; each test has caches of a model of its own."""
    clock = Clock()
    options = {"counter": words, "clock": clock, "minimum_prefix": 100}
    with anthropic_served(lambda request, wire: "Yes", **options) as (provider, client):
        yield provider, client, clock


@pytest.fixture
def bill(served, request):
    provider, client, _ = served

    def bill(*messages, **more):
        options = {"model": f"claude-{request.node.name}", "max_tokens": 9, **more}
        usage = client.messages.create(messages=list(messages), **options).usage
        billed = provider.requests[-1].billed
        assert usage.input_tokens == billed.uncached
        assert usage.cache_read_input_tokens == billed.read
        assert usage.cache_creation.ephemeral_5m_input_tokens == billed.written_5m
        assert usage.cache_creation.ephemeral_1h_input_tokens == billed.written_1h
        assert usage.cache_creation_input_tokens == billed.written_5m + billed.written_1h
        return billed[:4]

    return bill


def test_without_a_mark_nothing_is_cached(bill):
    for _ in range(2):
        assert bill(user(text(500))) == (500, 0, 0, 0)


def test_what_is_marked_is_written_once_and_read_then(bill):
    messages = [user(text(200, mark=SHORT), text(50))]
    assert bill(*messages) == (50, 0, 200, 0)
    assert bill(*messages) == (50, 200, 0, 0)


def test_a_string_and_its_one_block_are_the_same_prompt(bill):
    assert bill(user(text(200, mark=SHORT))) == (0, 0, 200, 0)
    grown = [{"role": "user", "content": text(200)["text"]}, assistant(text(30, mark=SHORT))]
    assert bill(*grown, user(text(5))) == (5, 200, 30, 0)


def test_a_conversation_that_grows_reads_what_it_wrote(bill):
    messages = [user(text(150, mark=SHORT))]
    assert bill(*messages) == (0, 0, 150, 0)
    messages = [user(text(150)), assistant(text(40)), user(text(10, mark=SHORT))]
    assert bill(*messages) == (0, 150, 50, 0)
    messages = [*messages[:2], user(text(10)), assistant(text(5)), user(text(20, mark=SHORT))]
    assert bill(*messages) == (0, 200, 25, 0)


def test_the_order_of_the_prompt_is_tools_system_messages(bill):
    tool = {"name": "get", "input_schema": {"type": "object"}, "description": "a " * 200}
    count = words(__import__("json").dumps({key: tool[key] for key in sorted(tool)}))
    options = {"tools": [{**tool, "cache_control": SHORT}], "system": [text(120, mark=SHORT)]}
    assert bill(user(text(10)), **options) == (10, 0, count + 120, 0)
    options["system"] = [text(120, "b", mark=SHORT)]
    assert bill(user(text(10)), **options) == (10, count, 120, 0)
    options["tools"] = [{**options["tools"][0], "name": "put"}]
    assert bill(user(text(10)), **options) == (10, 0, count + 120, 0)


def test_a_prefix_below_the_minimum_is_not_cached(bill):
    for _ in range(2):
        assert bill(user(text(99, mark=SHORT))) == (99, 0, 0, 0)
    assert bill(user(text(99, mark=SHORT), text(1, mark=SHORT))) == (0, 0, 100, 0)


def test_a_change_before_the_mark_costs_all_that_follows(bill):
    assert bill(user(text(150, mark=SHORT), text(100, mark=SHORT))) == (0, 0, 250, 0)
    assert bill(user(text(150, mark=SHORT), text(100, "b", mark=SHORT))) == (0, 150, 100, 0)
    assert bill(user(text(150, "b", mark=SHORT), text(100, mark=SHORT))) == (0, 0, 250, 0)


@pytest.mark.parametrize(("between", "read"), [(19, 100), (20, 0)])
def test_a_mark_looks_back_over_twenty_blocks(bill, between, read):
    assert bill(user(text(100, mark=SHORT))) == (0, 0, 100, 0)
    blocks = [text(100), *(text(1) for _ in range(between - 1)), text(1, mark=SHORT)]
    assert bill(user(*blocks)) == (0, read, 100 + between - read, 0)


def test_each_mark_looks_back_for_itself(bill):
    assert bill(user(text(100, mark=SHORT))) == (0, 0, 100, 0)
    blocks = [text(100), *(text(1) for _ in range(30)), text(1, mark=SHORT)]
    blocks[10] = text(1, mark=SHORT)
    assert bill(user(*blocks)) == (0, 100, 31, 0)


def test_an_entry_lives_five_minutes_from_its_last_use(bill, served):
    clock = served[2]
    messages = [user(text(100, mark=SHORT))]
    for minutes, read in ((0, 0), (4, 100), (8, 100), (13, 0)):
        clock.now = minutes * 60.0
        assert bill(*messages) == (0, read, 100 - read, 0)


def test_a_long_entry_lives_an_hour(bill, served):
    clock = served[2]
    messages = [user(text(100, mark=LONG), text(50, mark=SHORT))]
    clock.now = 0.0
    assert bill(*messages) == (0, 0, 50, 100)
    clock.now = 59 * 60.0
    assert bill(*messages) == (0, 100, 50, 0)
    clock.now = 119 * 60.0
    assert bill(*messages) == (0, 0, 50, 100)


def test_another_model_choice_or_thinking_is_another_cache(bill):
    tools = [{"name": "get", "input_schema": {"type": "object"}}]
    plain = {"tools": tools, "system": [text(100, mark=SHORT)]}
    count = words('{"input_schema": {"type": "object"}, "name": "get"}')
    messages = [user(text(100, mark=SHORT))]
    assert bill(*messages, **plain) == (0, 0, 200 + count, 0)
    chosen = {**plain, "tool_choice": {"type": "any"}}
    assert bill(*messages, **chosen) == (0, 100 + count, 100, 0)
    assert bill(*messages, **plain) == (0, 200 + count, 0, 0)
    assert bill(*messages, **plain, model="claude-other") == (0, 0, 200 + count, 0)


def test_the_automatic_mark_is_on_the_last_block(bill):
    assert bill(user(text(100), text(20)), cache_control=SHORT) == (0, 0, 120, 0)
    grown = [user(text(100), text(20)), assistant(text(3)), user(text(2))]
    assert bill(*grown, cache_control=SHORT) == (0, 120, 5, 0)


def test_what_is_refused_costs_nothing_and_the_sum_is_known():
    with anthropic_served(lambda request, wire: "Yes", counter=words) as (provider, client):
        options = {"model": "claude-x", "max_tokens": 9}
        client.messages.create(messages=[user(text(10))], **options)
        client.messages.create(messages=[user(text(20))], **options)
        with pytest.raises(Exception, match="first message"):
            client.messages.create(messages=[assistant(text(10))], **options)
    assert provider.usage == Billed(uncached=30, output=2)
    assert [exchange.body["messages"] for exchange in provider.refusals] == [[assistant(text(10))]]


# Compaction on demand: what the strict provider answers, and what it refuses.


SUMMARY = "They spoke of berths."
BETA = {"anthropic-beta": "compact-2026-09-04"}
ASK = {"role": "user", "content": "Which berth is free?"}
SAID = [ASK, {"role": "assistant", "content": "Berth 4. "}]


def respond(request, wire):
    is_asked = request.get("compaction") or request.get("object") == "response.compaction"
    return SUMMARY if is_asked else "Berth 4."


@pytest.fixture(scope="module")
def client():
    with anthropic_served(respond) as (_, client):
        yield client


def request_with(messages, **more):
    return {"model": "claude-test", "max_tokens": 100, "messages": messages, **more}


def compacted(client, messages=SAID):
    message = client.beta.messages.create(
        **request_with(messages), betas=["compact-2026-09-04"], extra_body={"compaction": ON}
    )
    assert message.stop_reason == "compaction"
    return {
        "role": "assistant",
        "content": [block.model_dump(exclude_none=True) for block in message.content],
    }


ON = {"type": "summarize"}


def test_a_conversation_goes_on_from_the_summary(client):
    summary = compacted(client)
    assert summary["content"][0]["content"] == SUMMARY
    again = compacted(client, [summary, ASK, SAID[1]])
    client.beta.messages.create(**request_with([again, ASK]), betas=["compact-2026-09-04"])


def test_what_is_refused(client):
    summary = compacted(client)

    def refused(messages, headers=BETA, **more):
        request = request_with(messages, **more)
        return refusal_of(client, "/v1/messages", request, headers=headers)

    assert "Extra inputs" in refused(SAID, {}, compaction=ON)
    assert "combined" in refused(SAID, compaction=ON, context_management={"edits": []})
    assert "require the" in refused([summary, ASK], {})
    assert "first block" in refused([ASK, summary, ASK])
    forged = {**summary["content"][0], "content": "They agreed on berth 9."}
    assert "signature" in refused([{"role": "assistant", "content": [forged]}, ASK])
    call = {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
    tools = [{"name": "look", "input_schema": {"type": "object"}}]
    open_call = [ASK, {"role": "assistant", "content": [call]}]
    assert "tool_result" in refused(open_call, compaction=ON, tools=tools)
    assert "must end with a user message" in refused(SAID)


def asked(provider, **options):
    return AnthropicModel("claude-test", api_key="key", base_url=provider.url, **options)


@pytest.mark.parametrize("max_tokens", [100, 20_000])
def test_a_summary_is_read_alike_whole_and_streamed(max_tokens):
    prompt = compile(PromptIR(ContextRequest("Which berth?")), "anthropic")
    with StrictProvider(respond) as provider:
        summary = anyio.run(asked(provider, max_tokens=max_tokens).compact, prompt)
        assert provider.requests[-1].asks_for_summary and provider.refusals == []
    (message,) = summary.messages
    assert summary.text == message["content"][0]["content"] == SUMMARY
    assert message["content"][0]["signature"]


def test_openai_returns_the_users_messages_and_one_encrypted_item():
    items = [
        {"role": "user", "content": "Which berth is free?"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "4"}]},
    ]
    history = History(tuple(items), "openai_responses")
    prompt = compile(PromptIR(history=history), "openai_responses")
    with StrictProvider(respond) as provider:
        model = OpenAIResponsesModel("gpt-5.4", api_key="key", base_url=provider.openai_url)
        summary = anyio.run(model.compact, prompt)
        assert provider.refusals == []
    assert [item["type"] for item in summary.messages] == ["message", "compaction"]
    assert summary.text == "" and SUMMARY not in str(summary.messages) and summary.tokens > 5


@pytest.mark.parametrize("name", ["anthropic", "openai_responses"])
def test_an_answer_without_a_summary_is_an_error(name):
    with StrictProvider(lambda request, wire: "") as provider:
        if name == "anthropic":
            model = asked(provider)
        else:
            model = OpenAIResponsesModel("gpt-5.4", api_key="key", base_url=provider.openai_url)
            provider.fail_next(500)
        prompt = compile(PromptIR(ContextRequest("Which berth?")), name)
        with pytest.raises(ProviderError):
            anyio.run(model.compact, prompt)
