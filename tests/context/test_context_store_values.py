"""The context store's values are hashed, copied and pickled; odd numbers, forks and signals are
survived."""

import copy
import pickle
import signal

import pytest

from rehydrate import _native, formats
from rehydrate.context import ContextStore
from rehydrate.errors import InvalidArgumentError
from tests.stress.programs import fork_amid, needs_fork, run_python

SAID = [
    {"role": "user", "content": "Fix the login. From now on, always use tabs."},
    {"role": "assistant", "content": "We decided to use sheet 4."},
    {"role": "user", "content": "No, use sheet 5. Always use \ud83d tabs."},
]


def store_of_said():
    store = ContextStore()
    store.update(formats.parse(SAID, "anthropic").messages)
    return store


@pytest.mark.parametrize(
    "carry", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))]
)
def test_items_operations_and_spans_are_carried_whole(carry):
    store = store_of_said()
    store.apply('{"op": "fade", "item": 1}', store.items(), [])
    items = store.items()
    values = [*items, *(item.span for item in items), *store.operations]
    assert len(values) > 9 and any("\ud83d" in item.text for item in items)
    for value in values:
        again = carry(value)
        assert again == value and repr(again) == repr(value) and hash(again) == hash(value)
        assert type(again) is type(value)
    assert len(set(values)) == len(values)


@pytest.mark.parametrize("odd", [10**30, -(10**30), 2.5, "7", None, [], float("nan")])
def test_odd_numbers_are_refused_in_words(odd):
    store = store_of_said()
    calls = [
        lambda: store.operations_since(odd),
        lambda: store.written_since(odd),
        lambda: store.as_of(odd),
        lambda: store.render(odd),
        lambda: store.render_with(_native.Activity(), odd),
        lambda: store.verified("a", ["b"], odd),
        lambda: store.back_to(odd),
        lambda: store.back_to((odd, 0)),
        lambda: store.leave_out([odd]),
        lambda: store.replay([], [], odd),
        lambda: store.render(400, conversation=formats.parse(SAID, "anthropic"), visible=[odd]),
    ]
    if odd is not None:
        calls.append(lambda: store.update([], odd))
    before = store.operations, store.seen
    for call in calls:
        with pytest.raises(InvalidArgumentError, match="pass"):
            call()
    assert (store.operations, store.seen) == before


def test_numbers_below_zero_and_what_is_no_list():
    store = store_of_said()
    for call in (lambda: store.operations_since(-1), lambda: store.update([], -1)):
        with pytest.raises(InvalidArgumentError, match="is -1; pass a whole number from 0 up"):
            call()
    with pytest.raises(InvalidArgumentError, match="entries is of type int"):
        store.leave_out(7)
    with pytest.raises(InvalidArgumentError, match="is True; pass a whole number"):
        store.render(True)
    assert store.render(-5) == "" and store.operations_since(10**12) == []


@needs_fork
def test_forking_while_another_thread_is_in_a_store_leaves_no_child_waiting():
    ended = fork_amid(
        """
from rehydrate import formats
from rehydrate.context import ContextStore

said = [{"role": "user", "content": f"Always use rope {n} for boat_{n}."} for n in range(400)]
store = ContextStore()
store.update(formats.parse(said, "anthropic").messages)
""",
        "store.render(100_000)",
        """store.update(formats.parse(said[:2], "anthropic").messages, 402)
assert store.seen == 402 and store.render(400)""",
        "assert store.seen == 400",
        threads=3,
        forks=10,
    )
    assert (ended.code, ended.out, ended.err) == (0, "done\n", "")


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers")
def test_a_signal_handler_amid_a_call_is_refused_the_store_and_does_not_hang():
    ended = run_python(
        """
        import signal
        from rehydrate import formats
        from rehydrate.context import ContextStore
        from rehydrate.errors import StoreError

        store, said = ContextStore(), []

        def look(*_):
            try:
                store.render(200)
            except StoreError as error:
                said.append(str(error))

        text = "\\n".join(f"From now on, always use tabs in file_{n}.py." for n in range(9_000))
        messages = formats.parse([{"role": "user", "content": text}], "anthropic").messages
        signal.signal(signal.SIGALRM, look)
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
        while not said:
            store.update(messages)
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(said[0])
        """
    )
    said = "a ContextStore: a signal handler wants it while the thread that it runs on works on it"
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith(said)
