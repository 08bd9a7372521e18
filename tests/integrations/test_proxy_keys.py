"""Two keys with the same conversation through one proxy: neither learns anything of the other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the server of the proxy is not installed")

from rehydrate.context.threads import Threads
from rehydrate.integrations.proxy import Outcome, Shortener, shortening
from tests.integrations.proxied import GPT

SAID = [
    {"role": ("user", "assistant")[n % 2], "content": f"Berth {n} is free, says the pilot of {n}."}
    for n in range(1_401)
]
QUESTION = {"query": "Which pilot says that berth 7 is free?"}


def sent(shortener: Shortener, key: str, *more: Any) -> Outcome:
    raw = json.dumps({"model": GPT, "messages": [*SAID, *more]}).encode()
    return shortener.shorten("openai_chat", raw, key=key)


def reply_of(**message: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": None, **message}
    reason = "tool_calls" if "tool_calls" in message else "stop"
    return {"choices": [{"index": 0, "message": message, "finish_reason": reason}]}


def asked_back(outcome: Outcome, hidden: str) -> str:
    """Let the model ask once; what the proxy found, which the client does not see."""
    asking = outcome.asking
    assert asking is not None
    function = {"name": "request_context", "arguments": json.dumps(QUESTION)}
    call = {"id": hidden, "type": "function", "function": function}
    replies = asking.replies()
    replies.begin()
    replies.take(reply_of(tool_calls=[call]))
    following = asking.next_request(replies)
    assert following is not None
    replies.begin()
    replies.take(reply_of(content="The pilot of 7."))
    assert asking.next_request(replies) is None
    return str(json.loads(following)["messages"][-1]["content"])


@pytest.mark.parametrize("store", ["memory", "file", "postgres"])
def test_keys_with_the_same_conversation_share_nothing(
    store: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def started() -> Shortener:
        place = request.getfixturevalue("postgres") if store == "postgres" else tmp_path / "t.db"
        threads = None if store == "memory" else Threads.open(place)
        if threads is not None:
            request.addfinalizer(threads.close)
        return Shortener(budget_tokens=16_000, asks_back=True, threads=threads)

    shown = {"role": "assistant", "content": "The pilot of 7."}
    later = {"role": "user", "content": "And berth 8?"}
    proxy = started()
    monkeypatch.setattr(shortening.time, "time", lambda: 981_173_106.0)  # 2001
    first = sent(proxy, "A")
    found = asked_back(first, "hidden_of_A")
    monkeypatch.undo()
    assert first.prefix == "compacted"
    assert "2001" in found
    other = sent(proxy, "B")
    assert other.prefix == "compacted"  # no plan of A's
    assert "2001" not in asked_back(other, "hidden_of_B")  # and not when A said it
    if store != "memory":
        proxy = started()  # in the middle
    for key, foreign in ("B", "A"), ("A", "B"):
        going_on = sent(proxy, key, shown, later)
        assert going_on.prefix == ("kept" if store == "memory" else "new")
        assert f"hidden_of_{key}".encode() in (going_on.body or b"")
        assert f"hidden_of_{foreign}".encode() not in (going_on.body or b"")
    stranger = sent(proxy, "C", shown, later)
    assert stranger.prefix == "compacted"
    assert b"hidden_of" not in (stranger.body or b"")
    numbers = [each.number for each, _ in proxy.shown()]
    assert len(set(numbers)) == 3
