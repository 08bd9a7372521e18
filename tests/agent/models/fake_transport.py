"""FakeTransport: answers an SDK's real client without a network."""

import importlib
import json

import anyio
import pytest

from rehydrate.prompt import CompiledPrompt, PromptIR, Segment

anthropic = pytest.importorskip("anthropic")
openai = pytest.importorskip("openai")
# The HTTP library that the SDK uses.
_base = openai.DefaultAsyncHttpxClient.__mro__[1]
httpx = importlib.import_module(_base.__module__.partition(".")[0])

REQUESTS = {
    "anthropic": {"messages": [{"role": "user", "content": "Hi."}]},
    "openai_chat": {"messages": [{"role": "user", "content": "Hi."}]},
    "openai_responses": {"input": [{"role": "user", "content": "Hi."}]},
    "gemini": {"contents": [{"role": "user", "parts": [{"text": "Hi."}]}]},
    "bedrock": {"messages": [{"role": "user", "content": [{"text": "Hi."}]}]},
}

UNREADABLE = (b"[" * 100_000, b'{"a": ' + b"9" * 5_000 + b"}")
"""JSON that Python's own parser refuses: nested too deep, a number with too many digits."""


def prompt(provider, **request):
    segments = (Segment("history[0]", "message", 7, "d1", "static"),)
    return CompiledPrompt(provider, {**REQUESTS[provider], **request}, PromptIR(), segments)


class FakeTransport:
    """Answers each request with the next of its answers, and keeps the requests.

    An answer is a dict (200 and JSON), a list of events (a stream), a response of the HTTP library,
    or an exception that the transport raises.
    """

    def __init__(self, *answers):
        self.answers = list(answers)
        self.requests = []

    def __call__(self, request):
        self.requests.append(json.loads(request.content))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, dict):
            return httpx.Response(200, json=answer)
        return sse(answer) if isinstance(answer, list) else answer

    def client(self, sdk):
        http = httpx.AsyncClient(transport=httpx.MockTransport(self))
        kind = {"anthropic": anthropic.AsyncAnthropic, "openai": openai.AsyncOpenAI}[sdk]
        # Retries are on here; the model must turn them off.
        return kind(api_key="none", base_url="http://provider.test", http_client=http)


class Broken(httpx.AsyncByteStream):
    """A body that raises in the middle."""

    def __init__(self, content, error):
        self.content = content
        self.error = error

    async def __aiter__(self):
        yield self.content
        raise self.error


def events(listed):
    lines = []
    for event in listed:
        data = event if isinstance(event, str) else json.dumps(event)
        name = f"event: {event['type']}\n" if isinstance(event, dict) and "type" in event else ""
        lines.append(f"{name}data: {data}\n\n")
    return "".join(lines).encode()


def sse(listed, error=None):
    headers = {"content-type": "text/event-stream"}
    if error is not None:
        return httpx.Response(200, headers=headers, stream=Broken(events(listed), error))
    return httpx.Response(200, headers=headers, content=events(listed))


def refusal(status, body, **headers):
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    if isinstance(body, str):
        return httpx.Response(status, text=body, headers=named)
    return httpx.Response(status, json=body, headers=named)


def ask(model, sent, *, backend="asyncio", on_text=None):
    async def main():
        return await model.reply(sent, on_text=on_text)

    return anyio.run(main, backend=backend)
