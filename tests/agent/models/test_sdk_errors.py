"""Errors of the SDKs: real answers of each provider, and the ProviderError that they become."""

import time
from email.utils import formatdate
from typing import Any, ClassVar

import anyio
import pytest

from rehydrate._native import error_from_body, provider_error
from rehydrate.agent import AnthropicModel, OpenAIChatModel, OpenAIResponsesModel
from rehydrate.errors import (
    ContextOverflowError,
    ProviderUnavailableError,
    RateLimitError,
    RequestRefusedError,
)
from tests.agent.models.fake_transport import (
    UNREADABLE,
    FakeTransport,
    ask,
    httpx,
    prompt,
    refusal,
    sse,
)

MODELS = {
    "anthropic": (AnthropicModel, "anthropic"),
    "openai_chat": (OpenAIChatModel, "openai"),
    "openai_responses": (OpenAIResponsesModel, "openai"),
}


def failure(provider, answer, expected, *, on_text=None, backend="asyncio"):
    kind, sdk = MODELS[provider]
    transport = FakeTransport(answer)
    with pytest.raises(expected) as raised:
        model = kind("x", client=transport.client(sdk))
        ask(model, prompt(provider), on_text=on_text, backend=backend)
    assert len(transport.requests) == 1, "the SDK's own retries are off"
    assert type(raised.value) is expected
    assert raised.value.provider == provider
    return raised.value


def claude(kind, message):
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


def gpt(message, kind="invalid_request_error", code=None):
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


INVALID = "invalid_request_error"
OVERFLOWS = [
    # Anthropic
    (400, claude(INVALID, "prompt is too long: 207791 tokens > 200000 maximum")),
    (
        400,
        claude(
            INVALID,
            "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease "
            "input length or `max_tokens` and try again",
        ),
    ),
    (413, claude("request_too_large", "Request exceeds the maximum size")),
    (413, "<html><h1>413 Request Entity Too Large</h1></html>"),
    # OpenAI
    (400, gpt("Please be brief.", code="context_length_exceeded")),
    (
        400,
        gpt(
            "This model's maximum context length is 8192 tokens. However, your messages resulted "
            "in 8545 tokens. Please reduce the length of the messages."
        ),
    ),
    (400, gpt("Your input exceeds the context window of this model. Please adjust your input.")),
    (400, gpt("Input tokens exceed the configured limit of 272000 tokens.")),
    (
        429,
        gpt(
            "Request too large for gpt-4o in organization org-7 on tokens per min (TPM): Limit "
            "30000, Requested 31538. The input or output tokens must be reduced in order to run "
            "successfully.",
            "tokens",
            "rate_limit_exceeded",
        ),
    ),
    # vLLM, before and after 0.10
    (
        400,
        {
            "object": "error",
            "message": "This model's maximum context length is 4096 tokens. However, you requested "
            "4104 tokens (2104 in the messages, 2000 in the completion).",
            "type": "BadRequestError",
            "param": None,
            "code": 400,
        },
    ),
    (
        400,
        gpt(
            "'max_tokens' or 'max_completion_tokens' is too large: 2000. This model's maximum "
            "context length is 4096 tokens and your request has 2104 input tokens",
            "BadRequestError",
            400,
        ),
    ),
    (
        400,
        gpt(
            "The decoder prompt (length 10896) is longer than the maximum model length of 8192.",
            "BadRequestError",
            400,
        ),
    ),
    # llama.cpp
    (
        400,
        {
            "error": {
                "code": 400,
                "message": "the request exceeds the available context size, try increasing it",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 9000,
                "n_ctx": 4096,
            }
        },
    ),
    # Ollama, of its own and as OpenAI's
    (400, {"error": "the input length exceeds the context length"}),
    (400, gpt("prompt too long; exceeded max context length by 27 tokens", "api_error")),
    (500, gpt("the input length exceeds the context length", "api_error")),
    # LiteLLM's proxy
    (
        400,
        gpt(
            "litellm.ContextWindowExceededError: litellm.BadRequestError: AnthropicException - "
            '{"type":"error","error":{"type":"invalid_request_error","message":"too big"}}',
            None,
            "400",
        ),
    ),
    # others by way of OpenAI's format
    (400, gpt("The input token count (1196265) exceeds the maximum number of tokens allowed.")),
    (
        400,
        gpt("This model's maximum prompt length is 131072 but the request contains 537812 tokens."),
    ),
    (400, gpt("Please reduce the length of the messages or completion.")),
]


@pytest.mark.parametrize("provider", sorted(MODELS))
@pytest.mark.parametrize(("status", "body"), OVERFLOWS)
def test_a_prompt_that_is_too_long_is_distinguished_from_everything_else(provider, status, body):
    error = failure(provider, refusal(status, body), ContextOverflowError)
    assert error.status == status


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (400, claude(INVALID, "messages: at least one message is required"), RequestRefusedError),
        (400, claude(INVALID, "max_tokens: 999999 > 64000, the maximum"), RequestRefusedError),
        (400, claude(INVALID, "Your credit balance is too low"), RequestRefusedError),
        (400, gpt("Invalid value: 'robot'."), RequestRefusedError),
        (401, claude("authentication_error", "invalid x-api-key"), RequestRefusedError),
        (402, claude("billing_error", "pay first"), RequestRefusedError),
        (403, gpt("your key exceeds the context window of its rights"), RequestRefusedError),
        (404, gpt("The model `x` does not exist", code="model_not_found"), RequestRefusedError),
        (422, {"detail": [{"loc": ["body"], "msg": "Field required"}]}, RequestRefusedError),
        (429, claude("rate_limit_error", "too fast"), RateLimitError),
        (429, gpt("Rate limit reached", "tokens", "rate_limit_exceeded"), RateLimitError),
        (429, "slow down", RateLimitError),
        (429, gpt("You exceeded your quota", code="insufficient_quota"), RequestRefusedError),
        (408, gpt("timeout"), ProviderUnavailableError),
        (409, gpt("conflict"), ProviderUnavailableError),
        (500, claude("api_error", "Internal server error"), ProviderUnavailableError),
        (502, "<html>Bad gateway</html>", ProviderUnavailableError),
        (503, "", ProviderUnavailableError),
        (504, claude("timeout_error", "too slow"), ProviderUnavailableError),
        (529, claude("overloaded_error", "Overloaded"), ProviderUnavailableError),
    ],
)
@pytest.mark.parametrize("provider", sorted(MODELS))
@pytest.mark.parametrize("is_streamed", [False, True])
def test_each_status_is_the_error_that_says_what_to_do(
    provider, status, body, expected, is_streamed
):
    error = failure(
        provider, refusal(status, body), expected, on_text=print if is_streamed else None
    )
    assert error.status == status
    assert f"{provider} answered {status}: " in str(error)
    assert error.__cause__ is not None


def test_what_the_provider_said_is_in_the_error():
    error = failure("anthropic", refusal(400, claude(INVALID, "no such role")), RequestRefusedError)
    assert error.message == "no such role"
    error = failure("openai_chat", refusal(422, {"detail": ["missing"]}), RequestRefusedError)
    assert error.message == '["missing"]'
    page = failure("openai_chat", refusal(502, "x" * 9_000), ProviderUnavailableError)
    assert len(page.message) <= 2_000


@pytest.mark.parametrize("provider", sorted(MODELS))
def test_when_to_ask_again_is_read_from_the_headers(provider):
    def seconds(**headers):
        answer = refusal(429, gpt("slow down"), **headers)
        return failure(provider, answer, RateLimitError).retry_after_seconds

    assert seconds(retry_after="7") == 7.0
    assert seconds(retry_after_ms="1500", retry_after="2") == 1.5
    assert seconds() is None
    assert seconds(retry_after="soon") is None


def test_when_to_ask_again_may_be_a_date():
    def seconds(then: float) -> float | None:
        headers = {"retry-after": formatdate(then, usegmt=True)}
        return error_from_body("x", None, headers=headers).retry_after_seconds

    now = time.time()
    wait = seconds(now + 1_000)
    assert wait is not None and 900 < wait <= 1_000
    assert seconds(now - 30) == 0.0


@pytest.mark.parametrize("given", ["-3", "nan", "inf", "", "Thu, 99 Jan 1970", "1e999"])
def test_a_header_that_says_nothing_sensible_says_nothing(given):
    headers = {"retry-after": given, "retry-after-ms": given}
    assert error_from_body("x", None, headers=headers).retry_after_seconds is None


@pytest.mark.parametrize("provider", sorted(MODELS))
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize(
    ("raised", "message"),
    [
        (httpx.ReadTimeout("read"), "did not answer in time"),
        (httpx.ConnectTimeout("connect"), "did not answer in time"),
        (httpx.ConnectError("refused"), "ConnectError: refused"),
        (httpx.RemoteProtocolError("peer closed"), "RemoteProtocolError: peer closed"),
    ],
)
def test_a_provider_out_of_reach_is_unavailable(provider, raised, message, backend):
    error = failure(provider, raised, ProviderUnavailableError, backend=backend)
    assert error.status is None
    assert message in str(error)


@pytest.mark.parametrize(
    ("kind", "expected", "status"),
    [
        ("overloaded_error", ProviderUnavailableError, 529),
        ("api_error", ProviderUnavailableError, 500),
        ("rate_limit_error", RateLimitError, 429),
        (INVALID, RequestRefusedError, 400),
        ("error_of_next_year", ProviderUnavailableError, None),
    ],
)
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_an_error_in_the_midst_of_claudes_stream_is_that_error(kind, expected, status, backend):
    start = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "x"}
    listed = [{"type": "message_start", "message": start}, claude(kind, "Sorry.")]
    error = failure("anthropic", sse(listed), expected, on_text=print, backend=backend)
    assert (error.status, error.message) == (status, "Sorry.")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (gpt("The server had an error", "server_error"), ProviderUnavailableError),
        (gpt("Rate limit reached", "tokens", "rate_limit_exceeded"), RateLimitError),
        (gpt("maximum context length is 10", "BadRequestError", 400), ContextOverflowError),
        (gpt("no", "BadRequestError", 400), RequestRefusedError),
        (gpt("no", None, 502), ProviderUnavailableError),
        ({"error": "EngineCore died"}, ProviderUnavailableError),
    ],
)
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("provider", ["openai_chat", "openai_responses"])
def test_an_error_in_the_midst_of_an_openai_stream_is_that_error(provider, body, expected, backend):
    chunk = {"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": None}]}
    failure(provider, sse([chunk, body]), expected, on_text=lambda _: None, backend=backend)


@pytest.mark.parametrize("body", [None, [], 7, {"error": None}, {"error": {}}, b"\xff\xfe", ""])
def test_a_body_of_any_shape_makes_an_error(body):
    error = error_from_body("openai_chat", body, status=500, fallback="said elsewhere")
    assert type(error) is ProviderUnavailableError
    assert error.message


ODD = [
    "429",
    429.0,
    10**30,
    -(10**30),
    -1,
    0,
    200,
    99_999,
    "soon",
    "",
    5.5,
    True,
    [],
    {},
    b"x",
    object(),
]


@pytest.mark.parametrize("status", ODD)
def test_an_odd_status_makes_an_error(status: Any) -> None:
    error = error_from_body("x", {"message": "slow down"}, status=status)
    is_read = status in ("429", 429.0)
    assert type(error) is (RateLimitError if is_read else ProviderUnavailableError)
    assert error.status == (429 if is_read else None)

    class APIStatusError(Exception):
        status_code, body, response = status, {"error": {"code": status}}, status

    assert provider_error("x", APIStatusError("slow down")) is not None

    class ClientError(Exception):
        response: ClassVar = {
            "Error": status,
            "ResponseMetadata": {"HTTPStatusCode": status, "HTTPHeaders": status},
        }

    assert provider_error("bedrock", ClientError("slow down")) is not None


@pytest.mark.parametrize(
    "headers", [7, "retry-after", ["retry-after"], {"retry-after": object()}, {"retry-after": b"x"}]
)
def test_odd_headers_name_no_wait(headers: Any) -> None:
    assert error_from_body("x", None, status=429, headers=headers).retry_after_seconds is None


@pytest.mark.parametrize("provider", sorted(MODELS))
def test_a_mistake_in_the_options_is_no_failure_of_the_provider(provider):
    kind, sdk = MODELS[provider]
    model = kind("x", client=FakeTransport().client(sdk), colour="blue")
    with pytest.raises(TypeError, match="colour"):
        ask(model, prompt(provider))


@pytest.mark.parametrize("body", UNREADABLE)
@pytest.mark.parametrize("on_text", [None, print])
@pytest.mark.parametrize("provider", sorted(MODELS))
def test_json_that_python_cannot_read_is_no_answer(provider, on_text, body):
    kind = "application/json" if on_text is None else "text/event-stream"
    event = b"event: message_start\ndata: " + body + b"\n\n"
    content = body if on_text is None else event
    answer = httpx.Response(200, content=content, headers={"content-type": kind})
    found = failure(provider, answer, ProviderUnavailableError, on_text=on_text)
    assert "what it sent cannot be read" in found.message


@pytest.mark.parametrize("body", UNREADABLE)
def test_a_compaction_that_python_cannot_read_is_no_answer(body):
    transport = FakeTransport(httpx.Response(200, content=body))
    model = OpenAIResponsesModel("x", client=transport.client("openai"))
    with pytest.raises(ProviderUnavailableError, match="cannot be read"):
        anyio.run(model.compact, prompt("openai_responses"))
