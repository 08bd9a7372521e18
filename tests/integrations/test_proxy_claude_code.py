"""The Claude Code of the Claude Agent SDK through the proxy, against the strict provider."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("claude_agent_sdk")
pytest.importorskip("starlette")

from tests.integrations import claude_cli
from tests.integrations.claude_session import session

pytestmark = pytest.mark.skipif(not claude_cli.IS_THERE, reason="no bundled Claude Code")

TURNS = 14


def test_claude_code_talks_on_through_compactions(tmp_path: Path) -> None:
    """With thinking, streams, images and a turn that is cancelled."""
    seen, provider, recording, totals = session(TURNS, tmp_path)
    # The CLI asks at first for a display of thinking that the provider does not know.
    refused = [each for each in provider.refusals if "thinking.enabled.display" not in each.refusal]
    assert refused == provider.overflows == []
    assert (seen["turns"], seen["turns cancelled"], seen["errors"]) == (TURNS - 1, 1, 0)
    assert seen["images"] == 2
    assert seen["events of streams"] > 10 * TURNS
    assert totals.prefixes["compacted"] > 0
    assert totals.prefixes["new"] <= 3
    breaks = recording.breaks()
    assert breaks.keys() <= {"compacted", "the client's"}
    assert breaks["compacted"] <= totals.prefixes["compacted"]
    assert breaks["the client's"] <= 2  # after the turn that was cancelled
    assert totals.failures == 0
