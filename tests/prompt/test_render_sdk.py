"""What compile gives is what the SDKs take: each sends it as it is, to a transport of ours."""

import importlib
import json

import pytest

from rehydrate.prompt import ContextRequest, History, PromptIR, compile
from tests.prompt.irs import found, system_section, tool
from tests.prompt.test_render_history import ANTHROPIC, CHAT


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
