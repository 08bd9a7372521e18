"""A long session of the bundled Claude Code through the proxy: thinking, streams, images, turns
that are cancelled, counts of tokens.

    python -m tests.integrations.claude_session 200    # turns; prints what was seen
"""

from __future__ import annotations

import asyncio
import base64
import re
import struct
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from claude_agent_sdk import ClaudeSDKClient, ResultMessage, StreamEvent

from rehydrate._native import RequestBody
from rehydrate.integrations.proxy import Outcome, Shortener
from tests.integrations import claude_cli, harbour
from tests.integrations.proxied import served
from tests.provider import Call, ScriptedReply, StrictProvider

BUDGET = 60_000
THINKING = {"type": "enabled", "budget_tokens": 2_000}
STALLED_SECONDS = 3.0
_MARK = re.compile(r',?"cache_control":\{[^{}]*\}')
_AS_TEXT = re.compile(r'"content":\[\{"type":"text","text":("(?:[^"\\]|\\.)*")\}\]')


def reply(body: Mapping[str, Any], wire: str) -> ScriptedReply:
    """Run a command with a long result, then answer."""
    asked = [each for each in harbour.since_user(body) if each["role"] != "system"]
    if len(asked) > 1 or not body.get("tools"):
        return ScriptedReply(f"Done: {harbour.words(harbour.text_of(asked[0])[-80:], 30)}")
    return ScriptedReply("I look.", calls=(Call("Bash", {"command": "seq 1000 2200"}),))


def png(shade: int) -> str:
    """Return a small grey image, as base64."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", 64, 64, 8, 0, 0, 0, 0)
    rows = zlib.compress((b"\0" + bytes([shade]) * 64) * 64)
    made = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    return base64.b64encode(made).decode()


class Recording(Shortener):
    """Keeps the texts of the messages of each request that goes out, without marks of a cache."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.sent: list[tuple[str, list[str], list[str]]] = []
        """The prefix of each, its messages as the client wrote them, and as they were sent."""

    def shorten(self, wire: Any, raw: bytes, *, key: str, is_counting: bool = False) -> Outcome:
        """Shorten, and keep what is sent."""
        outcome = super().shorten(wire, raw, key=key, is_counting=is_counting)
        bodies = [RequestBody(each, "messages") for each in (raw, outcome.body or raw)]
        if not is_counting and bodies[0].fields.get("tools"):  # not a question on the side
            own, sent = [[_unmarked(item.text) for item in body.items] for body in bodies]
            self.sent.append((outcome.prefix, own, sent))
        return outcome

    def breaks(self) -> Counter[str]:
        """Return how many requests do not begin with the one before, byte for byte, and why."""
        causes: Counter[str] = Counter()
        for (_, own, sent), (prefix, own_after, sent_after) in pairwise(self.sent):
            if sent_after[: len(sent)] != sent:
                is_own = own_after[: len(own)] != own
                causes["the client's" if is_own else prefix] += 1
        return causes


def _unmarked(text: str) -> str:
    """Return a message as a cache compares it: a text where a mark is to be becomes a block."""
    return _AS_TEXT.sub(r'"content":\1', _MARK.sub("", text))


class Seen(Counter[str]):
    """Counts of what happened in a session."""


async def talk(turns: int, options: Any, provider: StrictProvider, seen: Seen) -> None:
    """Talk for some turns; one in ten has an image, one in ten is cancelled."""
    async with ClaudeSDKClient(options) as client:
        for turn in range(turns):
            is_cancelled, has_image = turn % 10 == 7, turn % 10 == 3
            if is_cancelled:
                provider.stall_next(STALLED_SECONDS, midway=True)
            await client.query(_with_image(turn) if has_image else harbour.question(turn))
            seen["images"] += has_image
            is_asked = False
            async for message in client.receive_response():
                if isinstance(message, StreamEvent):
                    seen["events of streams"] += 1
                    if is_cancelled and not is_asked:
                        is_asked = True
                        await client.interrupt()
                if isinstance(message, ResultMessage):
                    seen["turns cancelled" if is_asked else "turns"] += 1
                    seen["errors"] += message.is_error and not is_asked
            if turn % 25 == 24:
                await client.get_context_usage()
                print(turn + 1, dict(seen), file=sys.stderr)


async def _with_image(turn: int) -> AsyncIterator[dict[str, Any]]:
    source = {"type": "base64", "media_type": "image/png", "data": png(turn % 256)}
    content = [
        {"type": "text", "text": harbour.question(turn)},
        {"type": "image", "source": source},
    ]
    message = {"role": "user", "content": content}
    yield {"type": "user", "message": message, "parent_tool_use_id": None, "session_id": "default"}


def session(turns: int, folder: Path) -> tuple[Seen, StrictProvider, Recording, Any]:
    """Run a session; return what was seen, the provider, what was sent and the proxy's totals."""
    machine, seen = claude_cli.Machine(folder), Seen()
    recording = Recording(budget_tokens=BUDGET)
    with (
        StrictProvider(reply, keeps_bodies=False) as provider,
        served(provider.url, recording) as proxy,
    ):
        options = machine.options(proxy)
        options.thinking = THINKING
        options.include_partial_messages = True
        asyncio.run(talk(turns, options, provider, seen))
    return seen, provider, recording, proxy.proxy.totals


def main() -> None:
    """Run a session and say what was seen."""
    with tempfile.TemporaryDirectory() as folder:
        seen, provider, recording, totals = session(int(sys.argv[1]), Path(folder))
    counts = sum(each.path.endswith("count_tokens") for each in provider.requests)
    print(dict(seen), f"requests {len(provider.requests)}, of them counts {counts}")
    print(f"prefixes {dict(totals.prefixes)}, statuses {dict(totals.statuses)}")
    print(f"tokens {totals.before:,} -> {totals.after:,}, failures {totals.failures}")
    print(f"refusals {len(provider.refusals)}, overflows {len(provider.overflows)}")
    print(f"breaks {dict(recording.breaks())} in {len(recording.sent)} requests with tools")


if __name__ == "__main__":
    main()
