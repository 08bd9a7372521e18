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
"""

from .baselines import keep_last, keep_random, knows_the_future
from .datasets import (
    Conversation,
    Question,
    read_claude_code,
    read_locomo,
    read_tau_bench,
)
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

__all__ = [
    "CODING_CUTS",
    "CUT_RATIOS",
    "QUESTION_RATIOS",
    "SUPPORT_CUTS",
    "Compact",
    "Conversation",
    "Cut",
    "Kept",
    "Question",
    "Retention",
    "Score",
    "cut_sessions",
    "estimate_cost",
    "keep_last",
    "keep_random",
    "knows_the_future",
    "measure_cuts",
    "measure_questions",
    "names_in",
    "read_claude_code",
    "read_locomo",
    "read_tau_bench",
    "steps",
]
