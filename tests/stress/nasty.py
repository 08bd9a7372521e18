"""A table of conversations that nobody should send: `NASTY` maps a name to a maker of messages.

Each maker gives fresh messages, so that a test that changes or uses them up spoils no other. What
the rest of the tests may take for granted is here too: `outcome` runs a conversation through
a function and holds it to "a typed error that names the place, or a valid result".
"""

from __future__ import annotations

import base64
from collections import Counter, OrderedDict, UserDict, UserList
from collections.abc import Callable, Iterator
from functools import partial
from types import MappingProxyType
from typing import Any

from rehydrate import RehydrateError, formats, validate
from rehydrate.errors import InvalidMessageError

Messages = Any
Maker = Callable[[], Messages]

NASTY: dict[str, Maker] = {}

PIXELS = base64.b64encode(bytes(range(256)) * 16).decode()
"""Some 5,000 characters that no model reads as text."""

DEEP = 10_000
FORMATS = ("auto", *formats.FORMATS)


def nasty(make: Maker) -> Maker:
    """Put a conversation into the table, under its maker's name."""
    NASTY[make.__name__] = make
    return make


def around(*middle: Any) -> list[Any]:
    """A talk with these messages in its middle, long enough that something has to go."""
    talk = [
        {"role": ("user", "assistant")[n % 2], "content": f"Turn {n} is about part_{n}.py. " * 9}
        for n in range(8)
    ]
    return [*talk, *middle, *talk, {"role": "user", "content": "And now?"}]


def tool_round(call_id: Any, name: Any, value: Any, result: Any) -> list[Any]:
    """A call and its answer, as Anthropic has them."""
    return [
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": call_id, "name": name, "input": value}],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": call_id, "content": result}],
        },
    ]


def chat_round(call_id: Any, name: Any, arguments: Any, result: Any) -> list[Any]:
    """A call and its answer, as OpenAI has them."""
    function = {"name": name, "arguments": arguments}
    call = {"id": call_id, "type": "function", "function": function}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call_id, "content": result},
    ]


def nested(depth: int, kind: Callable[[Any], Any], core: Any = "core") -> Any:
    """`core` in so many layers."""
    for _ in range(depth):
        core = kind(core)
    return core


# Characters


@nasty
def lone_surrogates_everywhere() -> Messages:
    half = "before \ud83d after \udc00"
    return around(
        {"role": "user", "content": half},
        {"role": "user", "content": [{"type": "text", "text": half}]},
        *tool_round(half, half, {half: half}, half),
        {"role": "user", half: half, "content": [{"type": half, half: half}]},
    )


@nasty
def lone_surrogates_in_a_chat() -> Messages:
    half = "\udfff"
    return around(
        *chat_round(half, half, half, half), {"role": "user", "content": half, "name": half}
    )


@nasty
def lone_surrogates_in_a_transcript() -> Messages:
    half = "\ud800"
    message = {"id": half, "role": "assistant", "content": [{"type": "text", "text": half}]}
    line = {"type": "assistant", "uuid": half, "sessionId": half, "message": message}
    user = {"type": "user", "uuid": "u", "message": {"role": "user", "content": half}}
    return [{"type": half, "uuid": "x"}, user, line, {**user, "uuid": "v"}]


@nasty
def null_characters() -> Messages:
    return around(
        {"role": "user", "content": "\0" * 500},
        *tool_round("\0", "\0", {"\0": "a\0b"}, "\0out\0"),
        {"role": "assistant", "content": "a\0b"},
    )


@nasty
def scripts_of_the_world() -> Messages:
    texts = [
        "שלום עולם, הקובץ src/app.py נכשל בשורה 12",
        "漢字とかなとカタカナ、ファイル名は設定.json",
        "\u202eright to left\u202c \u200f\u061c\u2067مرحبا\u2069",
        "e\u0301\u0323" * 200 + "Z\u0351\u036b\u0343" * 50,
        "👩‍👩‍👧‍👦👍🏽🇩🇪🏴\U000e0067\U000e0062" * 20,
        "\u0e01\u0e33\u0e35 ภาษาไทย \u1820\u180b \u0bae\u0bca",
        "\ufeff\u200b\u200d\u2060\u00ad\ufffe\uffff\U0010ffff",
        "İıſẞßﬁǆ\u1e9e",
    ]
    return around(*({"role": "user", "content": text} for text in texts))


@nasty
def nothing_but_white_space() -> Messages:
    blanks = ["", " ", "\n\n\t", "\u2003\u3000", "\x1c\x1d\x85\xa0", "\r\n" * 3_000]
    return around(
        *({"role": "user", "content": blank} for blank in blanks),
        *({"role": "assistant", "content": [{"type": "text", "text": text}]} for text in blanks),
        *tool_round("t", "", {}, ""),
        {"role": "user", "content": []},
    )


@nasty
def only_empty_messages() -> Messages:
    return [{"role": role, "content": ""} for role in ("user", "assistant") * 20]


# Numbers and nesting


@nasty
def numbers_that_json_has_not() -> Messages:
    value = {"a": float("nan"), "b": float("inf"), "c": -float("inf"), "d": [float("nan")] * 9}
    return around(*tool_round("t", "Run", value, "done"), *chat_round("c", "run", value, "done"))


@nasty
def numbers_beyond_64_bits() -> Messages:
    # Beyond 4,300 digits Python itself refuses to write them.
    value = {"n": 2**64, "m": -(2**4_000), "k": 10**5_000, 2**70: 1}
    return around(*tool_round("t", "Run", value, "done"), *tool_round(2**80, 2**80, 2**80, "done"))


@nasty
def inputs_nested_thousands_deep() -> Messages:
    return around(
        *tool_round("t", "Run", {"a": nested(DEEP, lambda core: [core])}, "done"),
        *tool_round("u", "Run", nested(DEEP, lambda core: {"k": core}), "done"),
    )


@nasty
def contents_nested_thousands_deep() -> Messages:
    return around({"role": "user", "content": nested(DEEP, lambda core: [core])})


@nasty
def results_nested_thousands_deep() -> Messages:
    block = nested(
        DEEP, lambda core: {"type": "tool_result", "tool_use_id": "t", "content": [core]}, {}
    )
    return around(*tool_round("t", "Run", {}, [block]))


@nasty
def unknown_blocks_nested_thousands_deep() -> Messages:
    return around(
        {"role": "user", "content": [nested(DEEP, lambda core: {"type": "new", "payload": core})]},
        {"role": "user", "content": [{"type": "new", "x": nested(DEEP, lambda core: (core,))}]},
    )


@nasty
def structures_that_hold_themselves() -> Messages:
    ring: dict[str, Any] = {"type": "ring"}
    ring["self"] = ring
    chain: list[Any] = []
    chain.append(chain)
    return around(
        *tool_round("t", "Run", ring, [ring]),
        {"role": "user", "content": [ring]},
        {"role": "user", "content": [{"type": "new", "x": chain}]},
    )


@nasty
def a_content_that_holds_itself() -> Messages:
    chain: list[Any] = []
    chain.append(chain)
    return around({"role": "user", "content": chain})


@nasty
def a_message_in_its_own_content() -> Messages:
    message: dict[str, Any] = {"role": "user"}
    message["content"] = [message]
    return around(message)


# Pairing


@nasty
def ids_that_repeat() -> Messages:
    return around(*(tool_round("same", "Run", {"n": n}, f"out {n}")[n % 2] for n in range(9)))


@nasty
def chat_ids_that_repeat() -> Messages:
    return around(*chat_round("same", "run", "{}", "1"), *chat_round("same", "run", "{}", "2") * 2)


@nasty
def results_before_their_calls() -> Messages:
    call, result = tool_round("t", "Run", {}, "out")
    chat_call, chat_result = chat_round("c", "run", "{}", "out")
    return [result, call, *around(result, call), chat_result, chat_call]


@nasty
def chat_results_before_their_calls() -> Messages:
    call, result = chat_round("c", "run", "{}", "out")
    return [result, call, *around(result, call)]


@nasty
def the_very_same_object_many_times() -> Messages:
    return [around()[0]] * 60


@nasty
def transcript_lines_that_repeat() -> Messages:
    user = {"type": "user", "uuid": "u", "message": {"role": "user", "content": "hello there"}}
    parts = [{"type": "tool_use", "id": "t", "name": "Run", "input": {}}]
    said = {
        "type": "assistant",
        "uuid": "a",
        "message": {"id": "m", "role": "assistant", "content": parts},
    }
    return [user, said, said, {**said, "uuid": "b"}, user, {**user, "uuid": "w"}]


# Media


@nasty
def media_in_every_shape() -> Messages:
    source = {"type": "base64", "media_type": "image/png", "data": PIXELS}
    url = f"data:image/png;base64,{PIXELS}"
    parts: list[dict[str, Any]] = [
        {"type": "image", "source": source},
        {"type": "document", "source": {**source, "media_type": "application/pdf"}},
        {"type": "document", "title": "A", "source": {"type": "content", "content": [source]}},
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "image_url", "image_url": url},
        {"type": "input_audio", "input_audio": {"data": PIXELS, "format": "wav"}},
        {"type": "file", "file": {"file_data": url, "filename": "a.pdf"}},
        {"type": "resource", "resource": {"uri": "file:///a", "blob": PIXELS}},
        {"type": "image_generation", "b64_json": PIXELS},
        {"type": "from_the_future", "payload": {"url": url}},
        {"type": "from_the_future", "payload": f"data:image/png;name={'n' * 400};base64,{PIXELS}"},
        {"type": "from_the_future", "payload": f"DATA:image/png;charset=utf-8;BASE64,{PIXELS}"},
    ]
    results = tool_round("t", "Look", {}, parts)
    return around({"role": "user", "content": parts}, *results)


@nasty
def chat_media_in_every_shape() -> Messages:
    messages = media_in_every_shape()
    return [message for message in messages if isinstance(message["content"], str)] + [
        {"role": "user", "content": message["content"]}
        for message in messages
        if isinstance(message["content"], list) and message["role"] == "user"
    ]


# Types


class Text(str):
    """A string with a class of its own, and a wrong idea of itself."""

    __slots__ = ()

    def __str__(self) -> str:
        return "not what it holds"

    def __bool__(self) -> bool:
        return True


class Entry(dict[str, Any]):
    """A dict with a class of its own."""


@nasty
def subclasses_of_everything() -> Messages:
    text = Text("what it holds")
    return UserList(
        [
            Entry(role=Text("user"), content=text),
            OrderedDict(role="assistant", content=[Entry(type=Text("text"), text=text)]),
            UserDict(role="user", content=(text, text)),
            MappingProxyType({"role": "assistant", "content": text}),
            MappingProxyType({"role": "user", "content": [MappingProxyType({"type": "new"})]}),
        ]
    )


@nasty
def tuples_for_lists() -> Messages:
    call, result = tool_round("t", "Run", {"a": (1, 2)}, ({"type": "text", "text": "out"},))
    call["content"], result["content"] = tuple(call["content"]), tuple(result["content"])
    return tuple(around(call, result))


@nasty
def bytes_for_text() -> Messages:
    return around(*tool_round(b"t", b"Run", {b"k": b"v"}, "out"))


@nasty
def bytes_for_a_content() -> Messages:
    return around({"role": "user", "content": b"hello"})


@nasty
def bytes_for_a_result() -> Messages:
    return around(*tool_round("t", "Run", {}, b"out"))


@nasty
def bytes_for_a_role() -> Messages:
    return around({"role": b"user", "content": "hello"})


@nasty
def bytes_for_a_message() -> Messages:
    return around(b'{"role": "user"}')


@nasty
def bytes_for_a_list() -> Messages:
    return b"[]"


@nasty
def a_generator_of_messages() -> Messages:
    def messages() -> Iterator[Any]:
        yield from around()

    return messages()


@nasty
def numbers_and_none_for_messages() -> Messages:
    return [None, *around(3, ())]


@nasty
def wrong_types_in_every_field() -> Messages:
    odd: list[Any] = [None, 0, 1.5, True, [], {}, (), object()]
    return around(
        *(
            {
                "role": "assistant",
                "content": [{"type": value, "id": value, "name": value, "text": value}],
                "tool_calls": None,
                "name": value,
                "refusal": value,
            }
            for value in odd
        )
    )


@nasty
def keys_that_are_no_strings() -> Messages:
    block = {1: 2, None: 3, (4, 5): {"text": "six"}, "type": "new"}
    return around(*tool_round("t", "Run", block, [block]), {"role": "user", "content": [block]})


class Contrary:
    """An object whose every look raises."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    def __repr__(self) -> str:
        raise RuntimeError("no")

    __str__ = __repr__


@nasty
def objects_that_refuse_to_be_shown() -> Messages:
    return around(*tool_round("t", "Run", {"a": Contrary()}, "out"))


def outcome(name: str, run: Callable[[Messages], Any]) -> Any:
    """Return `run`'s result for a conversation, or None if it raised an error of the right kind."""
    messages = NASTY[name]()
    try:
        return run(messages)
    except InvalidMessageError as error:
        is_list = isinstance(messages, (list, tuple, UserList))
        assert (error.index is not None) == is_list, f"{name}: names no place: {error}"
        assert error.remedy and str(error)
    except RehydrateError as error:
        raise AssertionError(f"{name}: {type(error).__name__}: {error}") from error
    return None


def in_each_format(name: str, run: Callable[[Messages, str], Any]) -> list[Any]:
    """The outcomes of a conversation read in each format, and in the one that is found."""
    return [outcome(name, partial(run, form=form)) for form in FORMATS]


def violations(messages: Any, form: str) -> Counter[int]:
    """How many rules each object breaks; that the user opens does not concern a single message."""
    return Counter(
        id(messages[violation.index])
        for violation in validate(messages, form)
        if violation.rule != "first_not_user"
    )
