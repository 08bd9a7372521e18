"""Faults on command: the request they hit, the SDK's error, and the bill."""

import anthropic
import httpx2
import openai
import pytest

from tests.provider import Billed, Fault, ScriptedReply, StrictProvider
from tests.provider.sdk_clients import (
    anthropic_client,
    anthropic_served,
    openai_client,
    openai_served,
)
from tests.sizes import sized

MESSAGES = [{"role": "user", "content": "Go on."}]
REPLY = ScriptedReply("One sentence that is long enough to come in more pieces than just the one.")


def respond(request, wire):
    return REPLY


def messages(provider, **more):
    """Ask Claude; the text of its answer."""
    with anthropic_client(provider) as client:
        request = {"model": "claude-test", "max_tokens": 100, "messages": MESSAGES, **more}
        if not more.pop("stream", False):
            return client.messages.create(**request).content[0].text
        request.pop("stream")
        with client.messages.stream(**request) as stream:
            return stream.get_final_text()


def chat(provider, **more):
    with openai_client(provider) as client:
        request = {"model": "gpt-5.2", "messages": MESSAGES, **more}
        if not more.get("stream"):
            return client.chat.completions.create(**request).choices[0].message.content
        chunks = client.chat.completions.create(**request)
        return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)


def responses(provider, **more):
    with openai_client(provider) as client:
        request = {"model": "gpt-5.2", "input": "Go on.", **more}
        if not more.get("stream"):
            return client.responses.create(**request).output_text
        kind = "response.output_text.delta"
        events = [*client.responses.create(**request)]
        assert events[-1].type == "response.completed", events[-1].response.error
        return "".join(event.delta for event in events if event.type == kind)


WAYS = [messages, chat, responses]
STATUSES = sized([429, 529], [429, 500, 503, 529])


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("ask", WAYS)
@pytest.mark.parametrize("status", STATUSES)
def test_the_next_requests_fail_with_a_status_and_cost_nothing(ask, status, stream):
    with StrictProvider(respond) as provider:
        provider.fail_next(status, times=2, after=1)
        assert ask(provider, stream=stream) == REPLY.text
        for _ in range(2):
            with pytest.raises((anthropic.APIStatusError, openai.APIStatusError)) as failed:
                ask(provider, stream=stream)
            assert failed.value.status_code == status
        assert ask(provider, stream=stream) == REPLY.text
    assert [exchange.status for exchange in provider.requests] == [200, status, status, 200]
    assert [exchange.billed is None for exchange in provider.requests] == [False, True, True, False]
    assert provider.refusals == []


@pytest.mark.parametrize("ask", WAYS)
def test_a_rate_limit_says_when_to_come_again(ask):
    with StrictProvider(respond) as provider:
        provider.rate_limit_next(retry_after=2.5)
        with pytest.raises((anthropic.RateLimitError, openai.RateLimitError)) as failed:
            ask(provider)
        assert failed.value.response.headers["retry-after"] == "2.5"
        provider.rate_limit_next(retry_after=None)
        with pytest.raises((anthropic.RateLimitError, openai.RateLimitError)) as failed:
            ask(provider)
        assert "retry-after" not in failed.value.response.headers


def test_the_sdks_own_retries_get_over_it():
    with anthropic_served(respond) as (provider, client):
        provider.rate_limit_next(retry_after=0.01)
        request = {"model": "claude-test", "max_tokens": 100, "messages": MESSAGES}
        assert client.with_options(max_retries=1).messages.create(**request).content
    assert [exchange.status for exchange in provider.requests] == [429, 200]


@pytest.mark.parametrize("midway", [False, True])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("ask", WAYS)
def test_a_reply_whose_connection_is_dropped_was_paid_for(ask, stream, midway):
    with StrictProvider(respond) as provider:
        provider.drop_next(midway=midway)
        dropped = (anthropic.APIConnectionError, openai.APIConnectionError, httpx2.HTTPError)
        with pytest.raises(dropped):
            ask(provider, stream=stream)
        assert ask(provider, stream=stream) == REPLY.text
    first, second = provider.requests
    assert first.fault == Fault("drop", midway=midway)
    assert first.billed.output == second.billed.output > 0


def test_half_of_a_stream_arrives_before_the_connection_is_dropped():
    with openai_served(respond) as (provider, client):
        provider.drop_next()
        stream = client.chat.completions.create(model="gpt-5.2", messages=MESSAGES, stream=True)
        text = ""
        with pytest.raises((openai.APIConnectionError, httpx2.HTTPError)):
            for chunk in stream:
                text += chunk.choices[0].delta.content or ""
        assert text
        assert REPLY.text.startswith(text) and text != REPLY.text


@pytest.mark.parametrize("midway", [False, True])
@pytest.mark.parametrize("ask", WAYS)
def test_a_provider_that_stalls_is_given_up(ask, midway):
    with StrictProvider(respond) as provider:
        provider.stall_next(60, midway=midway)
        gone = (anthropic.APITimeoutError, openai.APITimeoutError, httpx2.TimeoutException)
        with pytest.raises(gone):
            ask(provider, timeout=0.05, stream=midway)
        provider.stall_next(0.01, midway=midway)
        assert ask(provider, stream=midway) == REPLY.text


@pytest.mark.parametrize(("ask", "status"), [(messages, 529), (chat, 500), (responses, 500)])
def test_a_stream_may_fail_after_it_has_begun(ask, status):
    with StrictProvider(respond) as provider:
        provider.fail_next(status, midway=True)
        with pytest.raises((anthropic.APIError, openai.APIError, AssertionError)) as failed:
            ask(provider, stream=True)
        assert "verloaded" in str(failed.value) or "server had an error" in str(failed.value)
    assert provider.requests[0].billed is not None


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (messages, "prompt is too long"),
        (chat, "maximum context length"),
        (responses, "exceeds the context window"),
    ],
)
def test_any_prompt_may_be_found_too_long(ask, words):
    with StrictProvider(respond) as provider:
        provider.overflow_next()
        with pytest.raises((anthropic.BadRequestError, openai.BadRequestError), match=words):
            ask(provider)
    assert provider.refusals == []
    assert [exchange.billed for exchange in provider.overflows] == [None]


@pytest.mark.parametrize("ask", WAYS)
def test_what_is_too_long_for_the_window_is_not_invalid(ask):
    refused = pytest.raises((anthropic.BadRequestError, openai.BadRequestError))
    with StrictProvider(respond, window_tokens=1) as provider, refused:
        ask(provider)
    assert provider.refusals == []
    assert len(provider.overflows) == 1


def test_responses_may_find_a_prompt_too_long_in_the_stream():
    with StrictProvider(respond) as provider:
        provider.overflow_next(midway=True)
        with pytest.raises(openai.APIError, match="exceeds the context window") as failed:
            responses(provider, stream=True)
        assert failed.value.code == "context_length_exceeded"


def test_a_function_may_decide_by_the_request_what_goes_wrong():
    def faults(request, wire):
        return Fault("status", status=529) if request["max_tokens"] == 7 else None

    with StrictProvider(respond, faults=faults) as provider:
        assert messages(provider) == REPLY.text
        with pytest.raises(anthropic.APIStatusError):
            messages(provider, max_tokens=7)
    assert [exchange.status for exchange in provider.requests] == [200, 529]


def test_what_is_not_valid_is_refused_before_anything_goes_wrong():
    with anthropic_served(respond) as (provider, client):
        provider.fail_next(500)
        with pytest.raises(anthropic.BadRequestError):
            client.messages.create(model="claude-test", max_tokens=1, messages=[])
        with pytest.raises(anthropic.InternalServerError):
            client.messages.create(model="claude-test", max_tokens=1, messages=MESSAGES)
    assert provider.usage == Billed()
