"""Fourth task: an error that lists many violations says what kinds they are."""
# ruff: noqa: E501  the code and the commands of a session are as wide as they are

from __future__ import annotations

from record_example.steps import Bash, Edit, Grep, Read, Say, Step, Together, User, Write

ERRORS = "python/rehydrate/errors.py"
TEST = "tests/test_error_texts.py"

PYTHON_TEST = '''\
"""What InvalidConversationError says when there is more to say than fits a line."""

from __future__ import annotations

import pickle

from rehydrate.errors import InvalidConversationError, Violation


def violations(*rules: str) -> list[Violation]:
    return [Violation(index, rule, "it is broken") for index, rule in enumerate(rules)]


def test_up_to_five_violations_are_listed_whole():
    text = str(InvalidConversationError(violations(*["empty_text"] * 5)))
    assert text.count("it is broken") == 5
    assert "more" not in text


def test_what_is_not_listed_is_counted_by_rule_the_most_frequent_first():
    rules = ["empty_text"] * 6 + ["unanswered_tool_call"] * 3
    text = str(InvalidConversationError(violations(*rules)))
    assert text.endswith("; and 4 more (3 unanswered_tool_call, 1 empty_text)")


def test_rules_that_are_equally_frequent_come_in_the_order_of_the_messages():
    rules = ["empty_text"] * 5 + ["missing_id", "duplicate_id", "missing_id", "duplicate_id"]
    text = str(InvalidConversationError(violations(*rules)))
    assert text.endswith("; and 4 more (2 missing_id, 2 duplicate_id)")


def test_an_error_that_crossed_a_process_says_the_same():
    error = InvalidConversationError(violations(*["empty_text"] * 8))
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
'''

STEPS: list[Step] = [
    User(
        """
        Good. Last one, small, RH-2317: when a conversation has forty violations, the error shows
        the first five and "and 35 more". Support never knows what the 35 are. After the five, say
        how many of which rule, most frequent first. Keep it one line, it goes into log lines.
        """,
        pause=300,
    ),
    Together(
        Read(path=ERRORS, start="^class RehydrateError", limit=110),
        Grep(pattern="InvalidConversationError", path="python"),
        Grep(pattern="InvalidConversationError|and .* more", path="tests"),
    ),
    Read(path=ERRORS, limit=50),
    Write(path=TEST, content=PYTHON_TEST),
    Bash(
        f"python -m pytest {TEST} --tb=short",
        "Run the new tests, which must fail",
        fails=True,
        expect="2 failed, 2 passed",
    ),
    Say(
        """
        Two fail as they should. `Counter.most_common` keeps the order of first appearance among
        equals, which is what the third test asks for.
        """
    ),
    Edit(
        path=ERRORS,
        old='        more = f"; and {count - 5} more" if count > 5 else ""\n',
        new="        rest = _tally(self.violations[5:])\n"
        '        more = f"; and {count - 5} more ({rest})" if rest else ""\n',
    ),
    Edit(
        path=ERRORS,
        old="class InternalError(",
        new='''\
def _tally(violations: Iterable[Violation]) -> str:
    """How many of each rule, the most frequent first."""
    rules = Counter(violation.rule for violation in violations)
    return ", ".join(f"{count} {rule}" for rule, count in rules.most_common())


class InternalError(''',
    ),
    Bash(f"python -m pytest {TEST} --tb=line", "Run the new tests", fails=True, expect="NameError"),
    Say("The import is missing."),
    Edit(
        path=ERRORS,
        old="from collections.abc import Iterable\n",
        new="from collections import Counter\nfrom collections.abc import Iterable\n",
    ),
    Together(
        Bash(f"python -m pytest {TEST}", "Run the new tests", expect="4 passed"),
        Bash(
            f"ruff check {ERRORS} {TEST} && ruff format --check {ERRORS} {TEST}",
            "Lint and check the formatting",
        ),
        Bash(
            "python -m doctest python/rehydrate/errors.py && echo doctests pass",
            "Run the doctests of errors.py",
            expect="doctests pass",
        ),
    ),
    Say("`import rehydrate` has a budget in milliseconds, and `collections` is new here."),
    Bash(
        "python -X importtime -c 'import rehydrate' 2>&1 | grep -E ' (collections|rehydrate)$'",
        "See what the import costs",
        expect="rehydrate",
    ),
    Say(
        """
        `typing`, which errors.py imports already, loads `collections` itself, so nothing is added.
        RH-2317 is done:

        ```
        9 violations: message 0: ... (empty_text); ...; and 4 more (3 unanswered_tool_call, 1 empty_text)
        ```

        All four are in the working tree. Tell me when to commit.
        """
    ),
]
