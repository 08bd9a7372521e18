"""Examples of losses: names that are used later, where they were, and why they were removed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rehydrate.retention.measure import Compact, Cut, Kept, kept_indices
from rehydrate.retention.reading import (
    is_tool_result,
    role_of,
    single_spaced,
    steps,
    text_of,
    tool_inputs,
)

MAX_LOSSES = 8
"""Maximum number of examples, over all sessions."""
CONTEXT_CHARS = 110
"""Characters shown on either side of a name."""
ELSEWHERE = "most of what it mentions is kept elsewhere"
TOO_OLD = "older than what fits"
IN_PART = "the message is kept in part, without the lines that hold it"


@dataclass(frozen=True, slots=True)
class Loss:
    """A name that is used later and is no longer mentioned."""

    session: str
    cut: str
    name: str
    index: int
    """Index of the last message that had it, in the session up to the cut."""
    role: str
    of: int
    """Number of messages up to the cut."""
    before: str
    """Some text before the name in that message."""
    after: str
    """Some text after it."""
    why: str
    """Why that message was removed."""
    used: int
    """Number of later tool calls that use it."""
    used_in: str
    """The first of these calls, around the name."""
    lost: int
    """Names lost at this cut, this one included."""
    needed: int
    """Names needed after this cut."""


def find_losses(cuts: Sequence[Cut], compact: Compact, ratio: float) -> tuple[Loss, ...]:
    """Return at most `MAX_LOSSES` lost names: the most used one of each session, then the second of
    each, the session with the largest loss first.

    For each session, only the cut with the largest loss counts.
    """
    worst: dict[str, list[Loss]] = {}
    for cut in cuts:
        found = _lost_at(cut, compact, ratio)
        if found and found[0].lost > (worst[cut.session][0].lost if cut.session in worst else 0):
            worst[cut.session] = found
    groups = sorted(worst.values(), key=lambda group: (-group[0].lost, group[0].session))
    in_turn = [group[rank] for rank in range(MAX_LOSSES) for group in groups if rank < len(group)]
    return tuple(in_turn[:MAX_LOSSES])


def _lost_at(cut: Cut, compact: Compact, ratio: float) -> list[Loss]:
    kept = compact(list(cut.messages), None, ratio)
    lost = cut.needed - cut.mentioned(kept)
    if not lost:
        return []
    indices = kept_indices(kept, cut.messages)
    reasons = kept.reasons() if isinstance(kept, Kept) else {}
    messages = cut.messages
    texts = [text_of(message) for message in messages]
    used = ["\n".join(tool_inputs(cut.ahead[i]) for i in group) for group in steps(cut.ahead)]
    if not any(used):  # a session without calls: later messages use it
        used = [text_of(message) for message in cut.ahead]
    uses = {name: [text for text in used if name in text] for name in lost}
    # Names with letters come first: a number says little to a reader.
    ranked = sorted(
        (name for name in lost if uses[name]),
        key=lambda name: (not any(map(str.isalpha, name)), -len(uses[name]), name),
    )
    found: dict[str, Loss] = {}
    for name in ranked:
        if len(found) == MAX_LOSSES:
            break
        if any(name in other or other in name for other in found):
            continue
        index = max(i for i, text in enumerate(texts) if name in text)
        why = reasons.get(index, "")
        if why.startswith(ELSEWHERE):
            why += ", but this name is not"
        before, after = _context(texts[index], name)
        is_result = is_tool_result(messages[index])
        found[name] = Loss(
            session=cut.session,
            cut=cut.name,
            name=name,
            index=index,
            role="tool result" if is_result else role_of(messages[index]),
            of=len(messages),
            before=before,
            after=after,
            why=why or (IN_PART if index in indices else TOO_OLD),
            used=len(uses[name]),
            used_in=name.join(_context(uses[name][0], name)),
            lost=len(lost),
            needed=len(cut.needed),
        )
    return list(found.values())


def _context(text: str, name: str) -> tuple[str, str]:
    """Return some text before and after the last occurrence of a name."""
    start = text.rindex(name)
    end = start + len(name)
    before = single_spaced(text[max(0, start - CONTEXT_CHARS) : start])
    after = single_spaced(text[end : end + CONTEXT_CHARS])
    return (
        ("…" if start > CONTEXT_CHARS else "") + before,
        after + ("…" if end + CONTEXT_CHARS < len(text) else ""),
    )
