"""Gemini and Bedrock over HTTP: errors, cancellation, and whole turns with request_context."""

from functools import partial

import anyio
import pytest

from rehydrate import Context, validate
from rehydrate.agent import BedrockModel, GeminiModel, Interpreter, Retry, sdk
from rehydrate.cost import Usage
from rehydrate.errors import (
    ContextOverflowError,
    MissingPackageError,
    ProviderUnavailableError,
    RateLimitError,
    RequestRefusedError,
)
from tests.agent.models import test_bedrock, test_gemini
from tests.agent.models.fake_transport import UNREADABLE, ask, prompt
from tests.agent.models.served import (  # noqa: F401  a fixture
    MODELS,
    REFUSALS,
    aws_keys,
    error,
    served,
    stream,
    whole,
)
from tests.provider.loopback import Answer

pytestmark = pytest.mark.usefixtures("aws_keys")
PROVIDERS = sorted(MODELS)
LISTENERS = [None, lambda _: None]
TEXTS = {"gemini": test_gemini.TEXT, "bedrock": test_bedrock.TEXT}


def answered(provider, parts, reason=None, *, is_streamed=False, **how):
    module = {"gemini": test_gemini, "bedrock": test_bedrock}[provider]
    reasons = (reason,) if reason else ()
    if not is_streamed:
        return whole(provider, module.response(parts, *reasons))
    make = test_gemini.chunks if provider == "gemini" else test_bedrock.events
    return stream(provider, make(parts, *reasons), **how)


def failure(provider, answer, expected, *, on_text=None, **options):
    with served(answer) as serving:
        model = MODELS[provider]("m", base_url=serving.url, **options)
        with pytest.raises(expected) as raised:
            ask(model, prompt(provider), on_text=on_text)
        assert len(serving.requests) == 1, "the SDK's own retries are off"
    assert type(raised.value) is expected
    return raised.value


@pytest.mark.parametrize("on_text", LISTENERS)
@pytest.mark.parametrize(
    ("provider", "status", "kind", "message", "expected"),
    [
        (
            "gemini",
            400,
            "INVALID_ARGUMENT",
            "The input token count (1196265) exceeds the maximum number of tokens allowed.",
            ContextOverflowError,
        ),
        ("gemini", 400, "INVALID_ARGUMENT", "Please ensure that", RequestRefusedError),
        ("gemini", 403, "PERMISSION_DENIED", "API key not valid", RequestRefusedError),
        ("gemini", 429, "RESOURCE_EXHAUSTED", "You exceeded your quota", RateLimitError),
        ("gemini", 500, "INTERNAL", "An internal error", ProviderUnavailableError),
        ("gemini", 503, "UNAVAILABLE", "The model is overloaded", ProviderUnavailableError),
        (
            "bedrock",
            400,
            "ValidationException",
            "Input is too long for requested model.",
            ContextOverflowError,
        ),
        ("bedrock", 400, "ValidationException", "roles must alternate", RequestRefusedError),
        ("bedrock", 403, "AccessDeniedException", "no access", RequestRefusedError),
        ("bedrock", 404, "ResourceNotFoundException", "no such model", RequestRefusedError),
        ("bedrock", 408, "ModelTimeoutException", "too slow", ProviderUnavailableError),
        ("bedrock", 424, "ModelErrorException", "the model failed", ProviderUnavailableError),
        ("bedrock", 429, "ThrottlingException", "Too many tokens", RateLimitError),
        ("bedrock", 429, "ModelNotReadyException", "not ready", RateLimitError),
        ("bedrock", 503, "ServiceUnavailableException", "later", ProviderUnavailableError),
    ],
)
def test_every_error_is_the_one_that_it_is(provider, status, kind, message, expected, on_text):
    found = failure(provider, error(provider, status, kind, message), expected, on_text=on_text)
    assert (found.status, found.message) == (status, message)


def test_the_wait_that_the_provider_names_is_kept():
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}
    limited = error("gemini", 429, "RESOURCE_EXHAUSTED", "Slow down", details=[{}, info])
    assert failure("gemini", limited, RateLimitError).retry_after_seconds == 34.5
    limited = error("bedrock", 429, "ThrottlingException", "Slow down", **{"retry-after": "7"})
    assert failure("bedrock", limited, RateLimitError).retry_after_seconds == 7


@pytest.mark.parametrize(
    ("provider", "event", "expected"),
    [
        ("gemini", {"error": {"code": 503, "message": "overloaded"}}, ProviderUnavailableError),
        ("gemini", {"error": {"code": 429, "message": "slower"}}, RateLimitError),
        ("bedrock", {":exception": ("throttlingException", "slower")}, RateLimitError),
        ("bedrock", {":exception": ("modelStreamErrorException", "!")}, ProviderUnavailableError),
        (
            "bedrock",
            {":exception": ("validationException", "prompt is too long: 9 tokens > 8 maximum")},
            ContextOverflowError,
        ),
    ],
)
def test_an_error_in_a_stream_is_the_same_error(provider, event, expected):
    begun = {"gemini": {"candidates": [{"content": {"parts": [{"text": "Be"}]}}]}}
    first = begun.get(provider, {"messageStart": {"role": "assistant"}})
    failure(provider, stream(provider, [first, event]), expected, on_text=print)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_stream_that_ends_early_is_an_error_and_never_half_an_answer(provider):
    listed = {
        "gemini": test_gemini.chunks([test_gemini.TEXT])[:-1],
        "bedrock": test_bedrock.events([test_bedrock.TEXT])[:4],
    }[provider]
    for count in range(len(listed) + 1):
        found = failure(
            provider, stream(provider, listed[:count]), ProviderUnavailableError, on_text=print
        )
        assert "ended before the answer was whole" in found.message


@pytest.mark.parametrize(
    ("provider", "on_text"), [("bedrock", None), ("gemini", None), ("gemini", print)]
)
def test_json_that_is_nested_too_deep_is_no_answer(provider, on_text):
    body = UNREADABLE[0] if on_text is None else b"data: " + UNREADABLE[0] + b"\r\n\r\n"
    answer = Answer(200, (body,), is_stream=on_text is not None)
    found = failure(provider, answer, ProviderUnavailableError, on_text=on_text)
    assert "what it sent cannot be read" in found.message


@pytest.mark.parametrize("on_text", LISTENERS)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_connection_that_breaks_is_an_unavailable_provider(provider, on_text):
    dropped = Answer(200, (b"{",), drops=True)
    failure(provider, dropped, ProviderUnavailableError, on_text=on_text)
    page = Answer(502, (b"<html>Bad Gateway</html>",))
    assert failure(provider, page, ProviderUnavailableError, on_text=on_text).status == 502
    if on_text is not None:
        cut = answered(provider, [TEXTS[provider]] * 9, is_streamed=True, drops=True, midway=True)
        failure(provider, cut, ProviderUnavailableError, on_text=on_text)


@pytest.mark.parametrize("midway", [False, True])
@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_time_limit_is_for_the_time_in_which_the_server_is_silent(provider, midway):
    parts = [TEXTS[provider]] * 9
    slow = answered(provider, parts, is_streamed=True, stall_seconds=4.0, midway=midway)
    found = failure(provider, slow, ProviderUnavailableError, on_text=print, timeout=0.3)
    assert found.message == "it did not answer in time"


@pytest.mark.parametrize("on_text", LISTENERS)
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("provider", PROVIDERS)
def test_cancelling_ends_the_wait_and_the_model_goes_on(provider, backend, on_text):
    is_streamed, heard = on_text is not None, []
    parts = [TEXTS[provider]] * 9

    async def main(serving):
        async with MODELS[provider]("m", base_url=serving.url) as model:
            ask = partial(model.reply, prompt(provider), on_text=on_text and heard.append)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask)
                while not (heard if is_streamed else serving.requests):
                    await anyio.sleep(0.001)
                tasks.cancel_scope.cancel()
            return (await ask()).text

    with served(
        answered(provider, parts, is_streamed=True, stall_seconds=4.0, midway=is_streamed),
        answered(provider, parts, is_streamed=is_streamed),
    ) as serving:
        assert anyio.run(main, serving, backend=backend) == TEXTS[provider]["text"] * 9


@pytest.mark.parametrize("on_text", LISTENERS)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_model_serves_loop_after_loop(provider, on_text):
    is_streamed = on_text is not None
    answers = [answered(provider, [TEXTS[provider]], is_streamed=is_streamed) for _ in range(4)]
    with served(*answers) as serving:
        model = MODELS[provider]("m", base_url=serving.url)
        for backend in ("asyncio", "trio", "asyncio", "trio"):
            reply = ask(model, prompt(provider), backend=backend, on_text=on_text)
            assert reply.text == TEXTS[provider]["text"]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_half_a_surrogate_pair_in_the_history_stops_no_conversation(provider):
    part = {"text": "caf\udce9.txt \ud83d\ude00"}
    key, inner = ("contents", "parts") if provider == "gemini" else ("messages", "content")
    sent = prompt(provider, **{key: [{"role": "user", inner: [part]}]})
    with served(answered(provider, [TEXTS[provider]])) as serving:
        ask(MODELS[provider]("m", base_url=serving.url), sent)
        (message,) = serving.requests[0][key]
        assert message[inner] == [{"text": "caf\ufffd.txt \U0001f600"}]


@pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession")  # google-genai's
def test_own_clients_are_used_and_stay_open():
    import boto3
    from botocore.config import Config
    from google import genai

    made = {
        "gemini": lambda url: genai.Client(api_key="k", http_options={"base_url": url}),
        "bedrock": lambda url: boto3.client(
            "bedrock-runtime", endpoint_url=url, config=Config(retries={"total_max_attempts": 1})
        ),
    }

    async def main(provider, serving):
        client = made[provider](serving.url)
        for _ in range(2):
            async with MODELS[provider]("m", client=client) as model:
                assert (await model.reply(prompt(provider))).text == TEXTS[provider]["text"]
        if provider == "gemini":
            await client.aio.aclose()

    for provider in PROVIDERS:
        with served(*[answered(provider, [TEXTS[provider]]) for _ in range(2)]) as serving:
            anyio.run(main, provider, serving)


def test_without_a_key_the_error_and_the_log_say_so(monkeypatch, caplog):
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    for kind, provider in ((GeminiModel, "gemini"), (BedrockModel, "bedrock")):
        with pytest.raises(RequestRefusedError, match=r"nothing was sent: .*(API key|credentials)"):
            ask(kind("m"), prompt(provider))
        assert Interpreter(kind("m")).run(Context(), "Which berth?").stopped == "failed"
        assert f"{provider} gave no answer: there is no key; set " in caplog.text


@pytest.mark.parametrize("provider", PROVIDERS)
def test_without_the_sdk_the_extra_is_named(provider, monkeypatch):
    monkeypatch.setattr(sdk, "find_spec", lambda name: None)
    with pytest.raises(MissingPackageError, match=rf"pip install 'rehydrate\[{provider}\]"):
        MODELS[provider]("m")


def part_of_call(provider, name, arguments, number):
    """Gemini's calls are without an id, as older models have them."""
    if provider == "bedrock":
        return {"toolUse": {"toolUseId": f"t{number}", "name": name, "input": arguments}}
    return {"functionCall": {"name": name, "args": arguments}, "thoughtSignature": "c2ln"}


def as_sent(provider, request):
    """The body as the strict provider takes it: google-genai writes one key in snake_case."""
    if provider == "bedrock":
        return request
    return {key: value for key, value in request.items() if key != "generationConfig"}


def thoughts(provider):
    return {"gemini": test_gemini.THOUGHT, "bedrock": test_bedrock.REASONING}[provider]


@pytest.mark.parametrize("on_text", LISTENERS)
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_turn_asks_for_context_in_its_midst_and_no_request_is_refused(provider, backend, on_text):
    is_streamed = on_text is not None
    names = iter(range(9))
    reason = "tool_use" if provider == "bedrock" else None

    def calls(*made):
        parts = [part_of_call(provider, *each, next(names)) for each in made]
        return answered(provider, [thoughts(provider), *parts], reason, is_streamed=is_streamed)

    def berths(harbour: str) -> str:
        """List the free berths.

        Args:
            harbour: Its name.
        """
        return f"4 and 7 in {harbour}"

    context = Context(provider=provider, system="You are the harbour's assistant.")
    answers = [
        calls(("berths", {"harbour": "north"}), ("berths", {"harbour": "south"})),
        calls(("request_context", {"query": "the harbour's code", "why": "to book"})),
        answered(provider, [TEXTS[provider]], is_streamed=is_streamed),
        answered(provider, [TEXTS[provider]], is_streamed=is_streamed),
    ]

    async def main(url):
        async with MODELS[provider]("m", base_url=url) as model:
            agent = Interpreter(model, [berths], retry=Retry(attempts=1), on_event=on_text)
            first = await agent.arun(context, "Which berth is free?")
            return first, await agent.arun(context, "And tomorrow?")

    with served(*answers) as serving:
        first, second = anyio.run(main, serving.url, backend=backend)
        assert (first.stopped, second.stopped, second.answer) == (
            "answer",
            "answer",
            TEXTS[provider]["text"],
        )
        for request in serving.requests:
            assert REFUSALS[provider](as_sent(provider, request)) is None
        assert len(serving.requests) == 4
    assert validate(context.history, format=provider) == []
    assert first.usage == Usage.total([second.usage] * 3)
