"""What was lost and why, and what a judge could answer before and after."""

from __future__ import annotations

from collections.abc import Iterator

from rehydrate.page.escaping import escaped
from rehydrate.page.marks import name, plural
from rehydrate.retention import Evaluation, Loss


def lost(found: Evaluation) -> Iterator[str]:
    """Examples at the recommended ratio, one card each."""
    advice = found.recommendation
    if advice is None or not found.cuts:
        return
    yield (
        f"<h2>What was lost, and why <span>at {advice.ratio:.0%}; names that are used later "
        "and are no longer mentioned, of the cuts that lost the most</span></h2>"
    )
    if not found.losses:
        yield '<p class="prose">Nothing: every name that is used later is still there.</p>'
    for loss in found.losses:
        yield from _card(loss)


def _card(loss: Loss) -> Iterator[str]:
    yield '<section class="loss">'
    yield f'<p class="what">{name(loss.name)}</p>'
    yield (
        f'<p class="why"><b>{escaped(loss.why)}</b> <span class="quiet">message {loss.index:,} of '
        f"{loss.of:,} ({escaped(loss.role)}), the last that has it</span></p>"
    )
    around = f"{escaped(loss.before)}<b>{escaped(loss.name)}</b>{escaped(loss.after)}"
    yield f'<p class="text code" dir="auto">{around}</p>'
    used = escaped(loss.used_in)
    yield (
        f'<p class="used">used {plural(loss.used, "time")} later, first in '
        f'<span class="code" dir="auto">{used}</span></p>'
    )
    yield (
        f'<p class="scale">{name(loss.cut, 80)}: {loss.lost:,} of {loss.needed:,} names lost</p>'
    )
    yield "</section>"


def judged(found: Evaluation) -> Iterator[str]:
    """Every question that a model was asked, before and after."""
    judgement = found.judged
    if judgement is None:
        return
    yield f"<h2>Asked of a model <span>{escaped(judgement.sentence())}</span></h2>"
    heads = "<th>question</th><th>right</th><th>before</th><th>after</th>"
    yield f'<div class="scroll"><table class="asked"><thead><tr>{heads}</tr></thead><tbody>'
    for each in judgement.questions:
        cells = "".join(
            f'<td class="{"kept" if right else "dropped"}">{name(answer)}</td>'
            for answer, right in (
                (each.before, each.right_before),
                (each.after, each.right_after),
            )
        )
        yield f"<tr><td>{name(each.question)}</td><td>{name(each.expected)}</td>{cells}</tr>"
    yield "</tbody></table></div>"
