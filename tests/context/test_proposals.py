"""Proposals of a model for the context store, and how code checks them."""

import json

import pytest
from hypothesis import given, strategies as st

from rehydrate import formats
from rehydrate.context import ContextStore
from tests import strategies

GOAL = "GOAL: ship it. It is due on Friday."
RULE = "Never push to main without asking me first."
# Why a proposal is refused.
NO_ENTRY = "its entry is none of the new messages"
NO_ITEM = "its item does not hold"
NOT_VERBATIM = "its quote is not in the entry"
TOO_LONG = "its quote is too long"
HEADING = "there is no such heading"
SOURCE = "its source may not say so"
PERMANENT = "its item never goes"
EARLIER = "it is older than what it changes"
MAX_PROPOSALS = 24
TOO_MANY = f"the answer has over {MAX_PROPOSALS}"

HEADINGS = ["Task State", "Decisions", "Files & Code", "Important Context", "User Preferences"]


def user(*blocks):
    content = blocks[0] if len(blocks) == 1 and isinstance(blocks[0], str) else list(blocks)
    return {"role": "user", "content": content}


def assistant(text):
    return {"role": "assistant", "content": text}


def call(id_, name, **arguments):
    use = {"type": "tool_use", "id": id_, "name": name, "input": arguments}
    return {"role": "assistant", "content": [use]}


def result(id_, text):
    return user({"type": "tool_result", "tool_use_id": id_, "content": text})


def messages_of(entries, at=0):
    read = formats.parse(list(entries), "anthropic").messages
    return tuple(message._replace(index=message.index + at) for message in read)


def add(heading, quote, entry):
    return {"op": "add", "heading": heading, "quote": quote, "entry": entry}


def supersede(item, quote, entry):
    return {"op": "supersede", "item": item, "quote": quote, "entry": entry}


class Noted:
    """A store that rules have read, and the messages that it is of."""

    def __init__(self, *entries):
        self.entries = list(entries)
        self.store = ContextStore()
        self.store.update(messages_of(entries))

    def propose(self, *reported, at=0):
        """Apply the proposals; the model was shown the messages from the index ``at`` on."""
        answer = "\n".join(map(json.dumps, reported))
        return self.store.apply(answer, self.live(), messages_of(self.entries[at:], at))

    def say(self, *entries):
        self.store.update(messages_of(entries, len(self.entries)))
        self.entries += entries

    def live(self):
        return [item for heading in HEADINGS for item in self.store.items(heading)]

    def texts(self, heading):
        return [item.text for item in self.store.items(heading)]

    def id_of(self, text):
        return next(
            each.id for each in self.live() if (each.text, each.kind != "request") == (text, 1)
        )


# Who may say what


SOURCES = [
    user("The harbour is shallow."),
    call("1", "Bash", command="perl -pi -e s/a/b/ src/berths.py"),
    result("1", "The harbour is deep."),
    assistant("The harbour is wide."),
    {"role": "system", "content": "The harbour is closed."},
    user("A page says:\n> The harbour is free.\n<doc>\nThe harbour is ours.\n</doc>"),
    call("2", "Read", path="x"),
    user(
        {"type": "tool_result", "tool_use_id": "2", "content": "ok"},
        {"type": "text", "text": "The harbour is old."},
    ),
]
SAID_BY = {
    "user": (0, "The harbour is shallow."),
    "call": (1, "perl -pi -e s/a/b/ src/berths.py"),
    "tool": (2, "The harbour is deep."),
    "assistant": (3, "The harbour is wide."),
    "system": (4, "The harbour is closed."),
    "quoted": (5, "The harbour is free."),
    "tagged": (5, "The harbour is ours."),
    "next to a result": (7, "The harbour is old."),
}
MAY_SAY = {
    "Task State": {"user", "assistant"},
    "Decisions": {"user", "assistant"},
    "Files & Code": {"user", "assistant", "call"},
    "Important Context": SAID_BY.keys() - {"system"},
    "User Preferences": {"user"},
}


@pytest.mark.parametrize("heading", HEADINGS)
@pytest.mark.parametrize("source", SAID_BY)
def test_trust_follows_the_source(heading, source):
    noted = Noted(*SOURCES)
    entry, quote = SAID_BY[source]
    applied = noted.propose(add(heading, quote, entry))
    if source not in MAY_SAY[heading]:
        assert applied.refused == {SOURCE: 1} and not applied.operations
        return
    (operation,) = applied.operations
    item = operation.added
    assert item.span.entry == entry and quote in item.text
    assert item.trust == {"user": 1.0, "assistant": 0.75}.get(source, 0.5)
    assert noted.store.operations[-1] == operation and item in noted.store.items(heading)


def test_thinking_is_no_source():
    thought = {"type": "thinking", "thinking": "It is a berth.", "signature": "x"}
    noted = Noted(user("Go."), {"role": "assistant", "content": [thought]})
    applied = noted.propose(add("Important Context", "It is a berth.", 1))
    assert applied.refused == {SOURCE: 1}


# Quotes


def test_a_quote_grows_to_whole_sentences():
    """A word before it may turn it round."""
    noted = Noted(user("Hello there. Do not ever touch the cranes on Sundays. Bye."))
    noted.propose(add("User Preferences", "touch the cranes", 0))
    assert noted.texts("User Preferences") == ["Do not ever touch the cranes on Sundays."]


@pytest.mark.parametrize(
    ("reported", "why"),
    [
        (add("Decisions", "We keep the crane", 0), NOT_VERBATIM),
        (add("Decisions", " ", 0), NOT_VERBATIM),
        (add("Decisions", "The crane", 9), NO_ENTRY),
        (add("Wishes", "The crane", 0), HEADING),
        (add("Decisions", "rope " * 100, 0), TOO_LONG),
        (add("Decisions", "rope rope", 0), TOO_LONG),
        (supersede(99, "The crane", 0), NO_ITEM),
        ({"op": "resolve", "item": 99, "entry": 0}, NO_ITEM),
        ({"op": "promote", "item": 99}, NO_ITEM),
        ({"op": "fade", "item": 99}, NO_ITEM),
    ],
)
def test_a_proposal_that_does_not_hold_is_refused(reported, why):
    noted = Noted(user("The crane is red. " + "rope " * 100))
    before = list(noted.store.operations)
    applied = noted.propose(reported)
    assert (applied.operations, applied.refused) == ([], {why: 1})
    assert noted.store.operations == before
    assert why in applied.summary


def test_only_what_the_model_was_shown_can_be_changed():
    noted = Noted(user("Note: x."), assistant("We decided to use ropes."), user("Hello."))
    shown = messages_of(noted.entries)
    (decision,) = noted.store.items("Decisions")
    elsewhere = Noted(*[assistant(f"We decided on {number}.") for number in range(9)])
    other = [item for item in elsewhere.live() if item.id == decision.id]
    assert len(other) == 1 and other[0].span != decision.span
    for items in [], other:
        promote = json.dumps({"op": "promote", "item": decision.id})
        assert noted.store.apply(promote, items, shown).refused == {NO_ITEM: 1}
    old = noted.propose(add("Decisions", "We decided to use ropes.", 1), at=2)
    assert old.refused == {NO_ENTRY: 1}


def test_an_answer_has_an_end():
    noted = Noted(user("The crane is red. It is old."))
    applied = noted.propose(*[add("Decisions", "It is old.", 0)] * (MAX_PROPOSALS + 5))
    assert applied.refused == {TOO_MANY: 5}


def test_what_is_there_already_is_not_added_again():
    noted = Noted(user("Always use tabs."), assistant("Yes."), user("Go on. Always use  TABS."))
    noted.store.back_to((2, noted.store.seen))  # the rules read #0 only
    same_place = noted.propose(add("User Preferences", "use tabs", 0))
    assert (same_place.operations, same_place.refused) == ([], {})
    again = noted.propose(add("User Preferences", "Always use  TABS.", 2))
    assert [each.kind for each in again.operations] == ["promote"]
    assert noted.texts("User Preferences") == ["Always use tabs."]


# Changes


def test_a_preference_is_superseded_with_a_link_by_the_user_alone():
    noted = Noted(user("Always indent with tabs."), assistant("I prefer two spaces."))
    noted.say(user("Let's do spaces, not tabs."))
    assert len(noted.texts("User Preferences")) == 2  # the rules see no correction in it
    item = noted.id_of("Always indent with tabs.")
    by_assistant = noted.propose(supersede(item, "I prefer two spaces.", 1))
    assert by_assistant.refused == {SOURCE: 1}
    by_user = noted.propose(supersede(item, "do spaces", 2))
    assert not by_user.refused
    old = next(each for each in noted.store.items() if each.id == item)
    (new,) = noted.store.items("User Preferences")
    assert (old.status, old.other) == ("superseded", new.id)
    assert new.text == "Let's do spaces, not tabs."


def test_a_prohibition_does_not_go_by_a_thanks():
    noted = Noted(user(RULE), assistant("Yes."), user("Thanks, go on."))
    noted.propose(supersede(noted.id_of(RULE), "Thanks, go on.", 2))
    assert noted.texts("User Preferences") == [RULE, "Thanks, go on."]


def test_what_was_superseded_is_not_revived_by_an_older_text():
    noted = Noted(user("Always use tabs."), assistant("Yes."))
    noted.say(user("From now on, always use spaces instead of tabs."))
    applied = noted.propose(add("User Preferences", "Always use tabs.", 0))
    assert applied.refused == {EARLIER: 1}


def test_a_decision_is_superseded_by_what_was_said_later():
    noted = Noted(user("We decided to use SQLite."), assistant("SQLite locks up, so it is a file."))
    item = noted.id_of("We decided to use SQLite.")
    noted.propose(supersede(item, "SQLite locks up", 1))
    assert noted.texts("Decisions") == ["SQLite locks up, so it is a file."]
    (new,) = noted.store.items("Decisions")
    older = noted.propose(supersede(new.id, "We decided to use SQLite.", 0))
    assert older.refused == {EARLIER: 1}


def test_what_is_permanent_is_never_resolved_nor_faded():
    noted = Noted(
        user(f"Fix it. {RULE}"),
        call("1", "Edit", file_path="a.py"),
        result("1", "ok"),
        assistant("We decided to use ropes."),
        user("Done. Forget all of it, a.py too."),
    )
    for item in noted.live():
        for reported in (
            {"op": "resolve", "item": item.id, "entry": 4},
            {"op": "fade", "item": item.id},
        ):
            assert noted.propose(reported).refused == {PERMANENT: 1}
        if item.kind in ("request", "file"):
            assert noted.propose(supersede(item.id, "Done.", 4)).refused == {PERMANENT: 1}
    file = noted.id_of("a.py")
    assert noted.propose({"op": "promote", "item": file}).refused == {SOURCE: 1}


def test_settled_items_are_resolved_by_those_who_may():
    noted = Noted(
        user(GOAL),
        call("1", "Bash", command="make"),
        result("1", "ValueError: no port"),
        call("2", "Bash", command="ls"),
        result("2", "GOAL is reached"),
        assistant("Both are done."),
    )
    error, goal = noted.id_of("ValueError: no port"), noted.id_of(GOAL)
    assert noted.propose({"op": "resolve", "item": error, "entry": 1}).refused == {EARLIER: 1}
    assert not noted.propose({"op": "resolve", "item": error, "entry": 4}).refused
    for entry in (4, 5):
        applied = noted.propose({"op": "resolve", "item": goal, "entry": entry})
        assert applied.refused == {SOURCE: 1}
    assert noted.propose({"op": "fade", "item": goal}).refused == {PERMANENT: 1}
    noted.say(user("It is shipped."))
    assert not noted.propose({"op": "resolve", "item": goal, "entry": 6}).refused
    assert noted.texts("Important Context") == []


def test_a_task_outlasts_its_request_until_it_is_done_or_old():
    noted = Noted(user("Paint the crane and the boat."), assistant("The crane is painted."))
    noted.say(user("Thanks."))
    noted.propose(add("Task State", "Paint the crane and the boat.", 0))
    noted.say(assistant("Now the boat."), user("Fine."))
    assert noted.texts("Task State") == ["Paint the crane and the boat.", "Fine."]
    assert "- [ ] Paint the crane and the boat. (#0)" in noted.store.render(300)
    old = Noted(*noted.entries)
    old.propose(add("Task State", "Paint the crane and the boat.", 0))
    task = noted.id_of("Paint the crane and the boat.")
    noted.say(assistant("The boat is painted."))
    noted.propose({"op": "resolve", "item": task, "entry": 5})
    assert noted.texts("Task State") == ["Fine."]
    old.say(*[assistant(f"We decided on rope {number}.") for number in range(130)])
    assert old.texts("Task State") == ["Fine."]


def test_a_file_that_was_noted_is_edited_later():
    noted = Noted(user("Look."), call("1", "Bash", command="perl -pi -e s/a/b/ src/a.py"))
    noted.propose(add("Files & Code", "src/a.py", 1))
    noted.say(result("1", "ok"), call("2", "Edit", file_path="src/a.py"))
    assert "- src/a.py: noted #1; edited #3" in noted.store.render(300)


# Answers


def test_answers_are_read_in_the_shapes_that_models_write():
    fade, promote = {"op": "fade", "item": "#6"}, {"op": "promote", "item": "7"}
    lines = "\n".join(map(json.dumps, (fade, promote)))

    def applied(answer):
        noted = Noted(user("Look."))
        became = noted.store.apply(answer, noted.live(), ())
        return became.operations, became.refused, became.unreadable

    for answer in (
        lines,
        f"```json\n{lines}\n```",
        json.dumps([fade, promote]),
        json.dumps([fade, promote], indent=2),
        f"[\n{json.dumps(fade)},\n{json.dumps(promote)},\n]",
    ):
        assert applied(answer) == ([], {NO_ITEM: 2}, 0)
    assert applied("") == applied("[]") == ([], {}, 0)
    assert applied(f"Sure!\n{lines}\n3\n" + "[" * 50_000) == ([], {NO_ITEM: 2}, 3)
    assert applied(json.dumps({**fade, "item": "#1"}))[1] == {PERMANENT: 1}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
OPS = st.sampled_from(["add", "supersede", "resolve", "promote", "fade"])


def likely(read, ids):
    """Proposals of the right shape, with quotes that are there."""
    sentences = [
        (message.index, line)
        for message in read
        for piece in message.pieces
        for line in piece.text.replace(". ", ".\n").split("\n")
    ]
    return st.builds(
        lambda op, item, quoted, heading: {
            "op": op, "item": item, "heading": heading, "entry": quoted[0], "quote": quoted[1],
        },
        OPS,
        st.sampled_from(ids or [1]),
        st.sampled_from(sentences or [(0, "")]),
        st.sampled_from(HEADINGS),
    )  # fmt: skip


MALFORMED = JSON | st.fixed_dictionaries(
    {"op": OPS | JSON, "item": JSON, "entry": JSON, "heading": JSON, "quote": JSON}
)


@given(
    entries=st.lists(st.integers(0, 5), min_size=2, max_size=8).map(
        lambda kinds: list(_talk(kinds))
    )
    | strategies.anthropic_conversations(),
    data=st.data(),
)
def test_no_answer_breaks_a_law(entries, data):
    noted = Noted(*entries)
    read = messages_of(entries)
    before = {item.id: item for item in noted.live()}
    reported = data.draw(st.lists(likely(read, list(before)), max_size=12))
    reported += data.draw(st.lists(MALFORMED, max_size=2))
    answer = data.draw(st.sampled_from(["", "x\n"])) + "\n".join(map(json.dumps, reported))
    applied = noted.store.apply(answer, list(before.values()), read)
    assert sum(applied.refused.values()) + applied.unreadable <= len(reported) * 4 + 1
    by_index = {message.index: message for message in read}
    by_id = {item.id: item for item in noted.store.items()}
    for item in by_id.values():
        message = by_index[item.span.entry]
        piece = message.pieces[item.span.piece]
        assert piece.text[item.span.start : item.span.end] == item.text != ""
        if item.heading == "User Preferences":
            assert message.is_user_turn and piece.kind == 0
        if item.heading == "Decisions":
            assert message.role in ("user", "assistant") and piece.kind == 0
    for item in before.values():
        now = by_id[item.id]
        if item.heading in ("Decisions", "Files & Code", "User Preferences"):
            assert now.status in ("live", "superseded")
        while now.status == "superseded":
            now = by_id[now.other]
        if item.heading in ("Decisions", "Files & Code", "User Preferences"):
            assert now.status == "live" and now.heading == item.heading
    replayed = noted.store.as_of(len(entries))
    assert replayed.items() == noted.store.items()


def _talk(kinds):
    for number, kind in enumerate(kinds):
        yield from [
            [user("Always use tabs. Fix the crane.")],
            [user("Never use tabs, use ropes instead.")],
            [assistant("We decided to paint the crane. It is red.")],
            [call(f"c{number}", "Edit", file_path="crane.py"), result(f"c{number}", "ok")],
            [call(f"c{number}", "Bash", command="make"), result(f"c{number}", "OSError: x")],
            [user("GOAL: paint the boat. Thanks.")],
        ][kind]
