"""Retention: measures how much of what is needed later a compactor keeps.

Three measures, none of which calls a model:

- with a question: the share of the turns that answer it, still there after a compaction with the
  question as the query;
- without one: the share of the names that the session uses later, still mentioned after a
  compaction of what came before;
- and the share of the lines that it types again later, still there verbatim. Names flatter a bare
  list of names, which helps a model little; lines do not.

Means are over the cases of a session, then over the sessions.

>>> from rehydrate.retention import Conversation, Question, keep_last, measure_questions
>>> turns = [{"role": "user", "content": text} for text in ("My dog is Rex.", "Hello.", "Bye.")]
>>> chat = Conversation("chat", turns, questions=(Question("Who is Rex?", evidence=(0,)),))
>>> measure_questions([chat], keep_last(), ratios=(1.0, 0.4)).means()
{1.0: 1.0, 0.4: 0.0}

`evaluate` measures several strategies on your own sessions and recommends settings;
``rehydrate eval`` prints its result.

    read_sessions -> sample_cases -> evaluate(strategies) -> Evaluation
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rehydrate._front import front

if TYPE_CHECKING:
    from rehydrate._native import (
        lines_in as lines_in,
        names_in as names_in,
        steps as steps,
    )
    from rehydrate.retention.baselines import (
        keep_last as keep_last,
        keep_random as keep_random,
        oracle as oracle,
    )
    from rehydrate.retention.evaluation import (
        Evaluation as Evaluation,
        evaluate as evaluate,
    )
    from rehydrate.retention.judging import (
        ajudge as ajudge,
        judge as judge,
    )
    from rehydrate.retention.measure import (
        CODING_CUTS as CODING_CUTS,
        CUT_RATIOS as CUT_RATIOS,
        QUESTION_RATIOS as QUESTION_RATIOS,
        SUPPORT_CUTS as SUPPORT_CUTS,
        Compact as Compact,
        Cut as Cut,
        Interval as Interval,
        Kept as Kept,
        Loss as Loss,
        Retention as Retention,
        Score as Score,
        cut_sessions as cut_sessions,
        measure_cuts as measure_cuts,
        measure_questions as measure_questions,
    )
    from rehydrate.retention.reading import (
        Conversation as Conversation,
        Question as Question,
        Summary as Summary,
        estimate_cost as estimate_cost,
        read_claude_code as read_claude_code,
        read_locomo as read_locomo,
        read_tau_bench as read_tau_bench,
    )
    from rehydrate.retention.sampling import (
        Sample as Sample,
        Sessions as Sessions,
        read_session as read_session,
        read_session_file as read_session_file,
        read_sessions as read_sessions,
        sample_cases as sample_cases,
    )
    from rehydrate.retention.strategies import (
        Recommendation as Recommendation,
        Strategy as Strategy,
        compacted as compacted,
        exact_cost as exact_cost,
        named_strategy as named_strategy,
        standard_strategies as standard_strategies,
    )

__all__, __dir__, __getattr__ = front(__name__)
