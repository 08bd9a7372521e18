"""retention_batch: for each row of a table, how much of what is needed later a compaction keeps."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Any

from rehydrate import _engine
from rehydrate._check import check_known, check_whole
from rehydrate.batch.compaction import answered, check_columns, check_threads, checked_text
from rehydrate.batch.json_lines import JsonConversation
from rehydrate.compact.api import compact_context
from rehydrate.compact.options import RetentionOptions
from rehydrate.retention.measure import score_cut
from rehydrate.retention.sampling import MIN_NEEDED, read_session, sample_cases
from rehydrate.retention.strategies import compacted, exact_cost

if TYPE_CHECKING:
    from typing import Unpack

    from rehydrate import _native


def retention_batch(
    batch: object,
    *,
    target_ratio: float = 0.4,
    min_needed: int = MIN_NEEDED,
    threads: int | None = None,
    **options: Unpack[RetentionOptions],
) -> _native.ArrowTable:
    """Return for each conversation of a table what `rehydrate.retention` measures on it.

    A session is cut as `evaluate` cuts it: a long one at five points, a short one at one. What came
    before a cut is compacted to ``target_ratio``. Left out are cuts after which fewer than
    ``min_needed`` earlier names are used. The table and ``threads`` are as in `compact_batch`;
    queries are not used. The options are those of `compact_context`, but ``thinking`` is ``"keep"``
    unless another is passed: no request is made of what is left.

    | column | |
    |---|---|
    | id | as it came |
    | cuts | the number of cuts that were measured, int64; 0 for a conversation without any |
    | needed | the names used later, over all cuts, int64 |
    | used_later | the mean share of them that was kept |
    | lines | the mean share of the lines typed again later that was kept verbatim |
    | laid_down | the mean share of the user's binding instructions that was kept |
    | last_turn | the share of cuts at which the last user turn was kept |
    | cost_ratio | the mean share of the tokens that was kept |
    | violations | provider's rules that outputs break and inputs did not, int64 |
    | format | the format that was read |
    | error | why there is no result; null if there is one |

    Shares are double, and null where there was nothing to measure.

    Raises InvalidArgumentError for a table without the columns ``id`` and ``messages``, and for an
    option outside of its limits.

    >>> import json, pyarrow
    >>> turns = [{"role": "user", "content": f"look at src/part_{n % 5}.py"} for n in range(40)]
    >>> table = pyarrow.table({"id": ["a"], "messages": [json.dumps(turns)]})
    >>> found = pyarrow.table(retention_batch(table, target_ratio=0.5)).to_pylist()[0]
    >>> found["cuts"], found["needed"], found["used_later"]
    (1, 5, 1.0)
    """
    names = sorted(RetentionOptions.__annotations__)
    check_known("retention_batch has no option", options, names, "choose from")
    check_threads(threads)
    check_whole("min_needed", min_needed, 1, 1_000_000)
    compact_context([], target_ratio=target_ratio, **options)
    compact = compacted(**{"thinking": "keep", **options})

    def answer(text: str | bytes | None) -> dict[str, Any]:
        read = JsonConversation.read(checked_text(text, "messages"))
        session = read_session(read.messages)
        cuts = sample_cases([session], min_needed=min_needed).cuts
        cost = exact_cost()
        scores = [score_cut(cut, compact, target_ratio, cost) for cut in cuts]
        return {
            "cuts": len(cuts),
            "needed": sum(len(cut.needed) for cut in cuts),
            "used_later": _mean([score.retained for score in scores]),
            **{name: _mean([getattr(score, name) for score in scores]) for name in _SHARES[1:]},
            "violations": sum(score.violations for score in scores),
            "format": session.format,
        }

    def measured(rows: _native.ArrowRows) -> _native.ArrowRows:
        check_columns(rows)
        return answered(rows, ["messages"], answer, _COLUMNS, threads)

    return _engine.ArrowTable(list(map(measured, _engine.ArrowReader(batch))))


def _mean(values: list[float | None] | list[float]) -> float | None:
    measured = [value for value in values if value is not None]
    return fmean(measured) if measured else None


_SHARES = ("used_later", "lines", "laid_down", "last_turn", "cost_ratio")
_COLUMNS = {
    **dict.fromkeys(("cuts", "needed"), "whole"),
    **dict.fromkeys(_SHARES, "share"),
    "violations": "whole",
    **dict.fromkeys(("format", "error"), "text"),
}
