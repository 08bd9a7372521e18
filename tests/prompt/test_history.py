"""History: its messages are the same from the cache and parsed again."""

import pickle
from typing import Any

from hypothesis import given, strategies as st

from rehydrate import formats
from rehydrate.entry_id import EntryId
from rehydrate.prompt import History
from tests.strategies import conversations

LONG = "a word " * 200


def with_long_inputs(value: Any) -> Any:
    """The same with a long text wherever a path stood."""
    if isinstance(value, dict):
        return {
            key: LONG
            if key == "path"
            else '{"path": "' + LONG + '"}'
            if key == "arguments"
            else with_long_inputs(inner)
            for key, inner in value.items()
        }
    return [with_long_inputs(inner) for inner in value] if isinstance(value, list) else value


@given(conversations(), st.data())
def test_a_history_with_a_small_parse_cache_has_the_same_messages(conversation, data):
    name, entries = conversation
    entries = with_long_inputs(entries)
    read = formats.parse(entries, name).messages
    end = data.draw(st.integers(0, len(entries)))
    history = History(tuple(entries[:end]), name)
    history.shrink_parse_cache()
    assert history.messages == formats.parse(entries[:end], name).messages
    history = history.followed_by(History(tuple(entries[end:]), name))
    assert history.messages == read
    history.shrink_parse_cache()
    history.shrink_parse_cache()
    assert history.messages == read
    assert history.conversation.messages == read


def test_an_entry_id_says_its_index_and_no_other_name_does():
    assert [EntryId.index_of(EntryId.of(index)) for index in (0, 7, 123_456)] == [0, 7, 123_456]
    others = ("", "tools", "history", "history[]", "history[-1]", "history[4-17]", "a history[1]")
    assert [EntryId.index_of(name) for name in others] == [None] * len(others)
    assert EntryId.run(4, 4, has_gaps=False) == EntryId.of(4)
    assert pickle.loads(pickle.dumps(EntryId.of(3))) == "history[3]"
