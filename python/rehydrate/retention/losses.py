"""Examples of losses: names that are used later, where they were, and why they were removed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rehydrate._native import lost_names
from rehydrate.retention.measure import Compact, Cut, Kept, kept_indices

MAX_LOSSES = 8
"""Maximum number of examples, over all sessions."""
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
    found = []
    used_later = lost_names([*lost], cut.messages, cut.ahead, MAX_LOSSES)
    for name, index, role, before, after, used, used_in in used_later:
        why = reasons.get(index) or (IN_PART if index in indices else TOO_OLD)
        if why.startswith(ELSEWHERE):
            why += ", but this name is not"
        loss = Loss(
            session=cut.session,
            cut=cut.name,
            name=name,
            index=index,
            role=role,
            of=len(cut.messages),
            before=before,
            after=after,
            why=why,
            used=used,
            used_in=used_in,
            lost=len(lost),
            needed=len(cut.needed),
        )
        found.append(loss)
    return found
