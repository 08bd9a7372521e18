"""Clients: one for each event loop, made when first used, closed with the loop."""

import gc
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise

import anyio
import pytest
from hypothesis import given, strategies as st

from rehydrate import Context, Interpreter, _text
from rehydrate._native import EventDecoder
from rehydrate.agent import AnthropicModel, OpenAIChatModel, OpenAIResponsesModel, sdk
from rehydrate.errors import InvalidArgumentError, MissingPackageError, RequestRefusedError
from tests.agent.models.fake_transport import FakeTransport, ask, events, openai, prompt
from tests.agent.models.test_anthropic import TEXT, message
from tests.agent.models.test_openai_chat import chunks
from tests.provider.loopback import LoopbackServer, json_answer

COMPLETION = {
    "id": "chatcmpl-1",
    "model": "m",
    "choices": [{"message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}],
}


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.connections = []
        self.keys = []


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self):
        super().setup()
        self.server.connections.append(self.client_address)

    def do_POST(self):
        sent = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.keys.append(self.headers["authorization"])
        is_streamed = sent.get("stream")
        body = (
            events(chunks({"content": "Hi."})) if is_streamed else json.dumps(COMPLETION).encode()
        )
        kind = "text/event-stream" if is_streamed else "application/json"
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextmanager
def served():
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server, f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("on_text", [None, lambda _: None])
def test_a_model_serves_loop_after_loop_and_leaves_no_connection(on_text):
    with served() as (server, url):
        model = OpenAIChatModel("m", base_url=url, api_key="k")
        for backend in ("asyncio", "trio", "asyncio", "trio"):
            # Python reports whatever a loop leaves open, and pytest makes each report an error.
            reply = ask(model, prompt("openai_chat"), backend=backend, on_text=on_text)
            assert reply.text == "Hi."
            gc.collect()
        assert len(server.connections) == 4


@pytest.mark.parametrize("on_text", [None, lambda _: None])
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_within_a_loop_connections_are_used_again(backend, on_text):
    async def main(model):
        for _ in range(5):
            await model.reply(prompt("openai_chat"), on_text=on_text)

    with served() as (server, url):
        anyio.run(main, OpenAIChatModel("m", base_url=url), backend=backend)
        assert len(server.connections) == 1


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_model_may_be_closed_and_used_again(backend):
    async def main(url):
        async with OpenAIChatModel("m", base_url=url) as model:
            await model.reply(prompt("openai_chat"))
        await model.aclose()
        reply = await model.reply(prompt("openai_chat"))
        await model.aclose()
        return reply.text

    with served() as (server, url):
        assert anyio.run(main, url, backend=backend) == "Hi."
        assert len(server.connections) == 2


def test_many_loops_at_once_have_clients_of_their_own():
    with served() as (_, url):
        model = OpenAIChatModel("m", base_url=url)
        replies = []

        def run():
            replies.append(ask(model, prompt("openai_chat")).text)

        threads = [threading.Thread(target=run) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert replies == ["Hi."] * 8


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("on_text", [None, lambda _: None])
def test_cancelling_ends_the_request_and_the_model_goes_on(backend, on_text):
    async def main(url):
        model = OpenAIChatModel("m", base_url=url)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await model.reply(prompt("openai_chat"), on_text=on_text)
        assert scope.cancelled_caught
        return (await model.reply(prompt("openai_chat"), on_text=on_text)).text

    with served() as (_, url):
        assert anyio.run(main, url, backend=backend) == "Hi."


def test_a_server_of_ones_own_needs_no_key_and_gets_the_one_of_the_environment(monkeypatch):
    with served() as (server, url):
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        ask(OpenAIChatModel("m", base_url=url), prompt("openai_chat"))
        monkeypatch.setenv("OPENAI_API_KEY", "from-env")
        ask(OpenAIChatModel("m", base_url=url), prompt("openai_chat"))
        ask(OpenAIChatModel("m", base_url=url, api_key="given"), prompt("openai_chat"))
        assert server.keys == ["Bearer none", "Bearer from-env", "Bearer given"]


def test_a_server_that_speaks_anthropics_api_needs_no_key_either(monkeypatch, tmp_path):
    keys = []

    def answer(_method, _path, headers, _body):
        keys.append(headers["authorization"])
        return json_answer(200, message([TEXT]))

    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))  # where Anthropic's SDK keeps who is logged in
    server = LoopbackServer(answer)
    server.start()
    try:
        url = f"http://127.0.0.1:{server.port}"
        assert ask(AnthropicModel("m", base_url=url), prompt("anthropic")).text == TEXT["text"]
        monkeypatch.setenv("ANTHROPIC_API_KEY", "from-env")
        ask(AnthropicModel("m", base_url=url), prompt("anthropic"))
        ask(AnthropicModel("m", base_url=url, api_key="given"), prompt("anthropic"))
    finally:
        server.stop()
    assert keys == ["Bearer none", "Bearer from-env", "Bearer given"]


@pytest.mark.parametrize(
    ("kind", "provider"),
    [
        (AnthropicModel, "anthropic"),
        (OpenAIChatModel, "openai_chat"),
        (OpenAIResponsesModel, "openai_responses"),
    ],
)
def test_without_a_key_the_error_and_the_log_say_how_to_give_one(
    kind, provider, monkeypatch, tmp_path, caplog
):
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "OPENAI_ADMIN_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))  # where Anthropic's SDK keeps who is logged in
    with pytest.raises(RequestRefusedError, match=r"nothing was sent: .*api_key"):
        ask(kind("m"), prompt(provider))
    monkeypatch.setattr(_text, "_warned", set())
    assert Interpreter(kind("m")).run(Context(), "Which berth?").stopped == "failed"
    key = f"{provider.partition('_')[0].upper()}_API_KEY"
    assert caplog.messages == [
        f"a turn failed: {provider} gave no answer: there is no key; set {key} or the model's "
        "api_key"
    ]


def test_a_passed_client_is_not_closed_and_its_retries_are_off():
    transport = FakeTransport(COMPLETION)
    client = transport.client("openai")
    model = OpenAIChatModel("m", client=client)

    async def main():
        async with model:
            await model.reply(prompt("openai_chat"))
        return client.is_closed()

    assert anyio.run(main) is False
    assert client.max_retries == 2, "the caller's own is not touched"
    with pytest.raises(InvalidArgumentError, match="AsyncOpenAI"):
        OpenAIChatModel("m", client=openai.OpenAI(api_key="none"))


def test_the_time_limit_goes_to_the_request():
    seen = []

    class Timed(FakeTransport):
        def __call__(self, request):
            seen.append(request.extensions["timeout"]["read"])
            return super().__call__(request)

    model = OpenAIChatModel("m", client=Timed(COMPLETION).client("openai"), timeout=12.5)
    ask(model, prompt("openai_chat"))
    assert seen == [12.5]


@pytest.mark.parametrize(
    ("kind", "extra"), [(AnthropicModel, "anthropic"), (OpenAIResponsesModel, "openai")]
)
def test_without_the_sdk_the_extra_is_named(kind, extra, monkeypatch):
    monkeypatch.setattr(sdk, "find_spec", lambda name: None)
    with pytest.raises(MissingPackageError, match=rf"pip install 'rehydrate\[{extra}\]"):
        kind("m")


# EventDecoder: it decodes the same data, wherever the bytes are cut.


LINE = st.text(st.characters(exclude_characters="\r\n", exclude_categories=("Cs",)))


@given(
    st.lists(st.tuples(LINE, st.sampled_from(["\n", "\r\n", "\r"]))),
    st.lists(st.integers(0, 400)),
)
def test_what_is_decoded_does_not_depend_on_where_the_bytes_are_cut(listed, cuts):
    text = "".join(f"event: x{end}: a comment{end}data: {line}{end}{end}" for line, end in listed)
    content = text.encode()
    decoder = EventDecoder()
    found = []
    cuts_in_order = [0, *sorted(cut for cut in cuts if cut < len(content)), len(content)]
    for start, end in pairwise(cuts_in_order):
        found += decoder.feed(content[start:end])
    found += decoder.feed(b"\n\n")
    assert found == [line for line, _ in listed]


def test_lines_end_at_carriage_returns_and_line_feeds_only():
    # Python's splitlines, and some HTTP libraries, would cut these in two.
    text = "a\u2028b\u0085c\x0bd\x1ce"
    assert EventDecoder().feed(f"data: {text}\n\n".encode()) == [text]
