"""Retention: how much of what is needed later a compactor keeps, measured alike for all of them.

Two measures, neither of which asks a model:

- with a question: of the turns that answer it, the share still there after compacting with it
  as the query;
- without one: of the names a session goes on to use, the share still mentioned after compacting
  what came before.

>>> from rehydrate.retention import Conversation, Question, keep_last, measure_questions
>>> turns = [{"role": "user", "content": text} for text in ("My dog is Rex.", "Hello.", "Bye.")]
>>> chat = Conversation("chat", turns, questions=(Question("Who is Rex?", evidence=(0,)),))
>>> measure_questions([chat], keep_last(), ratios=(1.0, 0.4)).means()
{1.0: 1.0, 0.4: 0.0}

`evaluate` measures several strategies on one's own sessions, side by side, and recommends settings;
``rehydrate eval`` prints what it finds.

    read_sessions -> sample_cases -> evaluate(strategies) -> Evaluation
"""

from .baselines import keep_last, keep_random, knows_the_future
from .datasets import (
    Conversation,
    Question,
    Summary,
    read_claude_code,
    read_locomo,
    read_tau_bench,
)
from .evaluate import Evaluation, evaluate
from .intervals import Interval
from .losses import Loss
from .measure import (
    CODING_CUTS,
    CUT_RATIOS,
    QUESTION_RATIOS,
    SUPPORT_CUTS,
    Compact,
    Cut,
    Kept,
    Retention,
    Score,
    cut_sessions,
    measure_cuts,
    measure_questions,
)
from .names import names_in
from .reading import estimate_cost, steps
from .recommend import Recommendation
from .sampling import Sample, sample_cases
from .sessions import Sessions, read_session, read_session_file, read_sessions
from .strategies import Strategy, compacted, exact_cost, named_strategy, standard_strategies

__all__ = [
    "CODING_CUTS",
    "CUT_RATIOS",
    "QUESTION_RATIOS",
    "SUPPORT_CUTS",
    "Compact",
    "Conversation",
    "Cut",
    "Evaluation",
    "Interval",
    "Kept",
    "Loss",
    "Question",
    "Recommendation",
    "Retention",
    "Sample",
    "Score",
    "Sessions",
    "Strategy",
    "Summary",
    "compacted",
    "cut_sessions",
    "estimate_cost",
    "evaluate",
    "exact_cost",
    "keep_last",
    "keep_random",
    "knows_the_future",
    "measure_cuts",
    "measure_questions",
    "named_strategy",
    "names_in",
    "read_claude_code",
    "read_locomo",
    "read_session",
    "read_session_file",
    "read_sessions",
    "read_tau_bench",
    "sample_cases",
    "standard_strategies",
    "steps",
]
