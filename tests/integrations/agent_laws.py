"""Laws of the agent of every host, with ours in it; a test class of a host says how to talk to it.

A model is a script: a function of the last message that it sees, with no word of the host's own
messages in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest

from rehydrate import Budget
from rehydrate.integrations import RehydrateWarning
from rehydrate.prompt import Caps
from tests.integrations import harbour

BUDGET = Budget(soft_tokens=2_000)


class Seen(NamedTuple):
    """A request to a model."""

    text: str
    """The last message."""
    is_result: bool
    """Whether that is what a tool returned."""
    shown: str
    """All the messages, as one text."""


Said = str | tuple[str, dict[str, Any]]
"""An answer, or a call of a tool with its arguments."""
Script = Callable[[Seen], Said]


class Talked(NamedTuple):
    """A conversation that is over."""

    answer: str
    """The last one."""
    report: Any
    kept: str
    """The history that the host keeps, as one text."""
    offered: Sequence[str] = ()
    """The names of the tools that the model was offered."""


def lookup(query: str) -> str:
    """Look something up in the harbour's books."""
    return harbour.looked_up(query)


class AgentLaws:
    """The laws. ``Test...(AgentLaws)`` of a host has ``talk``."""

    def talk(
        self,
        script: Script,
        *said: str,
        tools: Sequence[Callable[..., str]] = (lookup,),
        instructions: str = harbour.INSTRUCTIONS,
        **options: Any,
    ) -> Talked:
        """Have a conversation with an agent whose adapter has these options."""
        raise NotImplementedError

    def test_the_model_brings_back_what_its_prompt_does_not_show(self) -> None:
        queries = [f"berth {number} of quay {number * 7}" for number in range(16)]
        asked: list[str] = []

        def script(seen: Seen) -> Said:
            if seen.is_result and not asked:
                return "Found."
            if seen.is_result:
                return "yes" if harbour.code(asked[0]) in seen.text else "no"
            if seen.text != "the code":
                return "lookup", {"query": seen.text}
            asked.append(harbour.forgotten(queries, [seen.shown]))
            return "request_context", {"query": f"code of the lock of {asked[0]}"}

        talked = self.talk(script, *queries, "the code", budget=BUDGET)
        assert talked.answer == "yes"
        assert {"lookup", "request_context", "fetch_whole"} <= {*talked.offered}

    def test_a_long_result_is_shown_in_part_and_read_whole_by_its_handle(self) -> None:
        whole = "\n".join(f"line {n}: {harbour.words(str(n), 12)}" for n in range(400))
        results: list[str] = []

        def read() -> str:
            """Read the log."""
            return whole

        def script(seen: Seen) -> Said:
            if not seen.is_result:
                return "read", {}
            results.append(seen.text)
            if len(results) > 1:
                return "Read."
            handle = "orig_" + seen.text.split("orig_")[1][:26]
            return "fetch_whole", {"handle": handle, "lines": "300-304"}

        talked = self.talk(script, "Read the log.", tools=[read], caps=Caps(default_tokens=1_000))
        assert talked.answer == "Read."
        assert len(results[0]) < len(whole) / 3
        assert whole.splitlines()[301] in results[1]
        assert whole in talked.kept

    def test_a_call_with_wrong_arguments_is_answered(self) -> None:
        wrong = ("request_context", {"query": " "}), ("fetch_whole", {"handle": "none"})
        for call in wrong:
            talked = self.talk(lambda seen: seen.text if seen.is_result else call, "Hello.")  # noqa: B023
            assert call[0] in talked.answer, talked.answer

    def test_instructions_and_tools_count_in_the_budget(self) -> None:
        plain, loaded = (
            self.talk(lambda seen: "Hello.", "Hello.", instructions=rules).report.tokens
            for rules in ("Be brief.", harbour.words("rules", 2_000))
        )
        assert loaded > plain + 1_500

    def test_a_failure_sends_the_messages_as_they_are(self) -> None:
        asked, little = harbour.question(0), Budget(soft_tokens=50, hard_tokens=50)
        with pytest.warns(RehydrateWarning, match="sent as they are"):
            talked = self.talk(lambda seen: f"Answer to {seen.text}", asked, budget=little)
        assert talked.answer == f"Answer to {asked}"
        assert talked.report.failure
