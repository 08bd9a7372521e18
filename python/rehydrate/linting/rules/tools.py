"""heavy_tools: what tool schemas weigh, and what tiering them would save."""

from __future__ import annotations

from collections.abc import Iterator

from rehydrate.ir import ToolDef
from rehydrate.linting.finding import Finding
from rehydrate.linting.subject import Subject, token_count

HEAVY_TOKENS = 2_000
SHOWN = 3


def heavy_tools(subject: Subject) -> Iterator[Finding]:
    """Definitions that weigh more than `HEAVY_TOKENS` together."""
    total = subject.tool_tokens
    if total < HEAVY_TOKENS:
        return
    heaviest = sorted(enumerate(subject.tools), key=lambda at: -(at[1].tokens or 0))[:SHOWN]
    saved = total - sum(min(tier_tokens(tool), tool.tokens or 0) for tool in subject.tools)
    named = ", ".join(f"{tool.name} {tool.tokens:,}" for _, tool in heaviest)
    yield Finding(
        "heavy_tools",
        "warning",
        f"tools[{heaviest[0][0]}]",
        saved,
        f"{len(subject.tools)} tool schemas weigh {total:,} tokens in every request (heaviest: "
        f"{named})",
        f"name and one line each, the schema on demand, would take {total - saved:,}",
    )


def tier_tokens(tool: ToolDef) -> int:
    """What a tool costs by its name and the first line of what it does.

    >>> tier_tokens(ToolDef("grep", "Search.\\nA long explanation follows here."))
    4
    """
    first = tool.description.strip().partition("\n")[0]
    return token_count(f"{tool.name}: {first}")
