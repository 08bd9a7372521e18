"""The proxy's door: requests refused and passed on, and texts that others can read."""

from __future__ import annotations

import json
import logging
import socket
from contextlib import suppress
from urllib.parse import urlsplit

import httpx
import pytest

pytest.importorskip("starlette", reason="the server of the proxy is not installed")

from rehydrate.errors import InvalidArgumentError
from rehydrate.integrations.proxy.app import upstreams_of
from rehydrate.integrations.proxy.client_request import ClientRequest
from tests.integrations.proxied import Served, chat_body, echoing, served

CHAT = "/v1/chat/completions"


def raw(proxy: Served, head: str, body: bytes = b"") -> bytes:
    """Return the answer to a request as it is written here; no client would mend it."""
    address = urlsplit(proxy.url)
    with socket.create_connection((address.hostname, address.port or 0), timeout=600) as client:
        parts = []
        with suppress(ConnectionError):  # it closes where more was sent than it reads
            client.sendall(head.replace("\n", "\r\n").encode() + b"\r\n\r\n" + body)
            while part := client.recv(65_536):
                parts.append(part)
        return b"".join(parts)


@pytest.mark.parametrize(
    "target",
    [
        "/v1/../x",
        "/v1/%2e%2e/x",
        "/v1/.%2E/x",
        "/v1/%252e%252e/x",
        "/v1/..%2fx",
        "/v1/..%5cx",
        "/v1/..;/x",
        "/v1/./x",
        "/..",
        "/v1/messages/..",
        "http://evil.example/v1/x",
        "evil.example:443",
        "*",
        "/v1/x#/chat/completions",
    ],
)
def test_no_target_leaves_the_path_of_the_upstream(target: str) -> None:
    with echoing() as (echo, proxy):
        answer = raw(proxy, f"GET {target} HTTP/1.1\nHost: 127.0.0.1\nConnection: close")
    assert echo.requests == []
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"x-rehydrate: untouched; refused: the " in head
    assert json.loads(body)["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize("target", ["/v1/a..b/.c", "/v1/models/org%2Fname", "//evil.example/x"])
def test_all_other_targets_are_paths_of_the_upstream(target: str) -> None:
    with echoing() as (echo, proxy):
        raw(proxy, f"GET {target} HTTP/1.1\nHost: 127.0.0.1\nConnection: close")
    assert [path for path, *_ in echo.requests] == [f"/{target.lstrip('/')}?".encode()]


def test_a_request_of_two_lengths_is_refused() -> None:
    with echoing() as (echo, proxy):
        head = f"POST {CHAT} HTTP/1.1\nHost: localhost\nContent-Length: 4\n"
        answer = raw(proxy, f"{head}Transfer-Encoding: chunked", b"0\r\n\r\nGET /hidden HTTP/1.1")
    assert echo.requests == []
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"connection: close" in answer
    assert answer.count(b"HTTP/1.1") == 1


def test_headers_of_one_hop_stay_on_it() -> None:
    with echoing() as (echo, proxy):
        echo.headers += [(b"connection", b"x-inner, close"), (b"x-inner", b"1")]
        echo.headers += [(b"x-rehydrate", b"forged")]
        connection = {"connection": "X-Secret , keep-alive", "x-secret": "1", "x-other": "2"}
        answer = proxy.get("/v1/models", **connection, **{"x-rehydrate": "before=1"})
    sent = echo.requests[0][1]
    assert b"x-secret" not in sent
    assert b"x-rehydrate" not in sent
    assert sent[b"x-other"] == b"2"
    assert "x-inner" not in answer.headers
    assert answer.headers["x-odd"] == "1"
    assert answer.headers["x-rehydrate"] == "untouched"


def test_headers_that_are_too_long_are_refused() -> None:
    with echoing() as (echo, proxy):
        answer = raw(proxy, f"GET /v1/x HTTP/1.1\nHost: localhost\nX-Long: {'a' * 1_000_000}")
    assert echo.requests == []
    assert b"HTTP/1.1 400 " in answer or answer == b""


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8787", "localhost.evil", "["])
def test_a_name_of_another_site_opens_nothing(host: str) -> None:
    named = {"host": host, "x-forwarded-for": "203.0.113.7"}  # which a page can make up
    with echoing() as (echo, proxy):
        statuses = [
            httpx.request(method, proxy.url + path, headers=named, trust_env=False)
            for method, path in [
                ("POST", CHAT),
                ("GET", "/v1/models"),
                ("GET", "/rehydrate/metrics"),
                ("GET", "/rehydrate/"),
                ("GET", "/rehydrate/1/1"),
            ]
        ]
    assert echo.requests == []
    assert {each.status_code for each in statuses} == {403}
    assert statuses[0].json()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:1", "[::1]:8787", "192.168.0.7"])
def test_names_of_this_machine_and_addresses_are_taken(host: str) -> None:
    with echoing() as (_, proxy):
        assert proxy.get("/v1/models", host=host).status_code == 207


def test_the_pages_escape_what_was_said() -> None:
    words = "Berth <script>alert(1)</script> & {{{{ 7 * 7 }}}} {} is free."
    with echoing() as (_, proxy):
        proxy.post(CHAT, chat_body(900, words, model="<b>gpt</b>"), authorization="Bearer k")
        overview, compaction = proxy.get("/rehydrate/"), proxy.get("/rehydrate/1/1")
        metrics = proxy.get("/rehydrate/metrics")
    assert (overview.status_code, compaction.status_code) == (200, 200)
    assert "&lt;b&gt;gpt&lt;/b&gt;" in overview.text
    assert 'href="/rehydrate/1/1"' in overview.text
    assert "&lt;script&gt;" in compaction.text
    assert "{{ 7 * 7 }}" in compaction.text
    assert "<script" not in overview.text + compaction.text
    assert compaction.headers["referrer-policy"] == "no-referrer"
    assert "gpt" not in metrics.text
    assert "Berth" not in metrics.text


def test_no_key_and_no_line_of_a_client_reaches_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with echoing() as (_, proxy):
        model = "gpt\n10:00:00 POST /v1/forged \x1b[2J" + "x" * 100_000
        proxy.post(f"{CHAT}?key=sk-query", chat_body(1, model=model), authorization="sk-header")
    with served("http://user:sk-upstream@127.0.0.1:1") as proxy:
        assert proxy.get("/v1/models?api_key=sk-query").status_code == 502
    logged = [each.getMessage() for each in caplog.records if each.name == "rehydrate.proxy"]
    assert len(logged) == 3
    assert "sk-" not in "".join(logged)
    assert all(each.isprintable() and len(each) < 1_500 for each in logged)
    assert "at 127.0.0.1:1" in logged[1]


def request_of(query: str = "", **headers: str) -> ClientRequest:
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return ClientRequest("POST", CHAT, query, pairs, None, is_counting=False)


def test_each_way_to_send_a_key_is_an_owner() -> None:
    owners = [
        request_of(),
        request_of(api_key="a"),
        request_of(x_api_key="a"),
        request_of(x_goog_api_key="a"),
        request_of(authorization="a"),
        request_of(x_api_key="same", authorization="a"),
        request_of(x_api_key="same", authorization="b"),
        request_of("key=a"),
        request_of("beta=true&api_key=a"),
    ]
    assert len({each.key for each in owners}) == len(owners)
    assert request_of("beta=true", cookie="a").key == request_of().key  # they come and go


def test_a_key_of_anthropic_goes_to_no_other_provider() -> None:
    assert request_of(authorization="Bearer sk-ant-oat01-x").is_anthropic
    assert request_of(anthropic_beta="oauth").is_anthropic
    assert not request_of(authorization="Bearer sk-proj-x").is_anthropic


def test_cookies_of_the_upstream_are_the_clients_own() -> None:
    with echoing() as (echo, proxy):
        first = proxy.get("/v1/a/b")
        proxy.get("/v1/a/b")
        jar = proxy.proxy._client.cookies.jar
        assert len(jar) == 0
    assert first.headers["set-cookie"] == "a=b"
    assert b"cookie" not in echo.requests[1][1]


@pytest.mark.parametrize(
    "upstream",
    [
        *("http://[::1", "http://host:99999", "http://host:port", "http://host:0", "http://"),
        *("https://host/#v1", "https://host/?key=1", "host", "anthropic=ftp://host", "other=http"),
        "http://user:hunter2@[::1",
    ],
)
def test_an_upstream_that_is_no_address_is_refused_without_its_password(upstream: str) -> None:
    with pytest.raises(InvalidArgumentError, match="pass https://HOST") as raised:
        upstreams_of([upstream])
    assert "hunter2" not in str(raised.value)
