"""RandomResponder: the model's side of a run. Texts, thinking, calls of every kind, oddities."""

from __future__ import annotations

import json
import re
from random import Random

from tests.agent.stress.plan import Plan
from tests.provider import Call, Fault, ScriptedReply

TOPICS = (
    "berth",
    "tide",
    "crane",
    "invoice",
    "pilot",
    "customs",
    "fog",
    "diesel",
    "anchor",
    "ferry",
)
_HANDLE = re.compile(r"\b(?:orig|mem|rest)_[0-9a-f]{6,}\b")
_BAD_REQUESTS = (
    {"query": ""},
    {"query": "  \n"},
    {},
    {"query": 7},
    {"query": "tide", "scope": "everything"},
    {"query": "tide", "time_range": "2026-02-31"},
    {"query": "tide", "time_range": "the day before never"},
    {"query": "tide", "time_range": "2026-02-17..2026-02-01"},
    {"query": "tide", "limit": 3},
    {"query": "fog " * 2_000},
)
_BAD_FETCHES = (
    {"handle": "orig_0000000000"},
    {"handle": "rest_0000000000"},
    {"handle": ""},
    {},
    {"handle": ["mem_1"]},
    {"handle": "mem_nowhere", "offset": -1},
)
_OWN = ("quick", "slow", "blocking", "raising", "refusing", "huge", "table", "nothing", "stuck")
_TOOLS = (*_OWN, "request_context", "fetch_whole", "load_memory", "unknown", "mistaken")
_WEIGHTS = (8, 4, 4, 3, 1, 4, 3, 2, 0.4, 9, 4, 2, 1, 2)


def words(dice: Random, count: int) -> str:
    """Return random words about a few topics; a sequence never comes twice."""
    return " ".join(f"{dice.choice(TOPICS)}{dice.randrange(10_000)}" for _ in range(count))


class RandomResponder:
    """Replies to the requests of one run."""

    def __init__(self, plan: Plan, on_request) -> None:
        self._plan = plan
        self._on_request = on_request
        self._replies = self._requests = 0
        self.is_calm = False
        """Whether it only replies with text, and no request fails."""

    def __call__(self, request, wire) -> ScriptedReply:
        if request.get("compaction") or request.get("object") == "response.compaction":
            fails = self._plan.dice("summary", len(str(request))).random() < 0.2
            return ScriptedReply("" if fails else "Much was said of berths, tides and cranes.")
        self._replies += 1
        self._on_request()
        dice = self._plan.dice("says", self._replies)
        text = f"[a{self._replies}] {words(dice, self._length(dice))}"
        if self.is_calm:
            return ScriptedReply(text)
        thinking = f"[h{self._replies}] {words(dice, 12)}" if dice.random() < 0.5 else None
        if dice.random() < 0.06:
            return self._odd(dice, text, thinking, request)
        if dice.random() >= self._plan.call_rate:
            return ScriptedReply(text, thinking=thinking)
        count = 26 if dice.random() < 0.02 else dice.choice([1, 1, 1, 2, 3, 5])
        calls = [self._call(dice, index, request) for index in range(count)]
        if dice.random() < 0.05:  # like servers that number calls again in each reply
            calls = [
                Call(call.name, call.arguments, id=f"call_{index}")
                for index, call in enumerate(calls)
            ]
        return ScriptedReply(text if dice.random() < 0.6 else "", tuple(calls), thinking)

    def fault(self, request, wire) -> Fault | None:
        """Return what goes wrong with a request, or None."""
        self._requests += 1
        dice = self._plan.dice("fault", self._requests)
        if self.is_calm or dice.random() >= self._plan.fault_rate:
            return None
        midway = dice.random() < 0.4
        kind = dice.choice(["status", "status", "limit", "stall", "drop", "overflow"])
        if kind == "status":
            status = dice.choice([500, 529] if wire == "anthropic" else [500, 503])
            return Fault("status", status=status, midway=midway)
        if kind == "limit":
            return Fault("status", status=429, retry_after_seconds=dice.choice([None, 0.0, 0.02]))
        if kind == "stall":
            timeout = self._plan.timeout
            seconds = 0.03 if timeout is None else dice.choice([0.03, 5.0])
            return Fault("stall", stall_seconds=seconds, midway=midway)
        if kind == "drop":
            return Fault("drop", midway=True)
        return Fault("overflow", status=400, midway=midway and wire == "openai_responses")

    def _length(self, dice: Random) -> int:
        return max(3, int(dice.expovariate(8 / self._plan.wordiness)))

    def _odd(self, dice: Random, text: str, thinking: str | None, request) -> ScriptedReply:
        calls = tuple(self._call(dice, index, request) for index in range(dice.choice([1, 2])))
        return dice.choice(
            [
                ScriptedReply(""),
                ScriptedReply(" \n "),
                ScriptedReply("", thinking=thinking),
                ScriptedReply(text, stop="refusal"),
                ScriptedReply(text, thinking=thinking, stop="max_tokens"),
                ScriptedReply(text, calls, thinking, stop="max_tokens"),
                ScriptedReply("\n\n", calls, thinking),
                ScriptedReply("", thinking=thinking, stop="max_tokens"),
            ]
        )

    def _call(self, dice: Random, index: int, request) -> Call:  # noqa: PLR0911  a table of kinds
        tag = f"t{self._replies}.{index}"
        name = dice.choices(_TOOLS, _WEIGHTS)[0]
        if name == "request_context":
            return Call(name, self._request(dice))
        if name == "fetch_whole":
            handles = _HANDLE.findall(json.dumps(request.get("messages") or request.get("input")))
            if not handles or dice.random() < 0.2:
                return Call(name, dice.choice(_BAD_FETCHES))
            offset = {"offset": dice.choice([0, 50, 1_000, 10**7])} if dice.random() < 0.4 else {}
            return Call(name, {"handle": dice.choice(handles), **offset})
        if name == "load_memory":
            choices = [{"query": dice.choice(TOPICS)}, {"name": "nowhere"}, {}]
            return Call(name, dice.choice(choices))
        if name == "unknown":
            return Call(f"no_{dice.choice(_OWN)}", {"tag": tag})
        if name == "mistaken":
            return self._mistaken(dice, tag)
        return Call(name, {"tag": tag, "size": dice.choice([1, 20, 200])})

    def _mistaken(self, dice: Random, tag: str) -> Call:
        choices = [{"tig": tag}, {"tag": tag, "size": "many"}, {}]
        if self._plan.wire != "anthropic":
            choices += ['{"tag": "t', "", "[1]", "null", '"tag"']
        return Call("quick", dice.choice(choices))

    def _request(self, dice: Random) -> dict:
        if dice.random() < 0.25:
            return dict(dice.choice(_BAD_REQUESTS))
        arguments = {"query": f"what about the {dice.choice(TOPICS)} and {dice.choice(TOPICS)}?"}
        if dice.random() < 0.5:
            arguments["scope"] = dice.choice(["temporal", "semantic", "knowledge"])
        if dice.random() < 0.3:
            arguments["time_range"] = dice.choice(
                ["today", "past 3 days", "yesterday", "past 2 hours"]
            )
        return arguments
