"""GeminiModel: through google-genai, a reply goes into the history with its signatures."""

import pytest

from rehydrate import validate
from rehydrate.agent import GeminiModel, Model
from rehydrate.cost import Usage
from rehydrate.errors import InvalidArgumentError, ProviderUnavailableError
from tests.agent.models.fake_transport import ask, prompt
from tests.agent.models.served import served, stream, whole
from tests.provider import gemini

THOUGHT = {"text": "Hm…\u2028 so", "thought": True}
TEXT = {"text": "Berth 4 is free."}
SIGNED = {"text": "", "thoughtSignature": "_-8BCg=="}
ARGS = {"berth": 4, "név": "Réka", "weights": [0.1, 1e-7, None]}
CALL = {"functionCall": {"id": "c1", "name": "book", "args": ARGS}, "thoughtSignature": "-_-_AA=="}
CODE = {"executableCode": {"language": "PYTHON", "code": "4 + 4"}}
RESULT = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "8\n"}}
ALL = [THOUGHT, CODE, RESULT, TEXT, CALL]
USAGE = {
    "promptTokenCount": 150,
    "cachedContentTokenCount": 100,
    "candidatesTokenCount": 15,
    "thoughtsTokenCount": 5,
    "totalTokenCount": 170,
}


def response(parts, reason="STOP", **more):
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": reason, "index": 0}
    about = {"usageMetadata": USAGE, "modelVersion": "gemini-x-001", "responseId": "r1"}
    return {"candidates": [candidate], **about, **more}


def chunks(parts, reason="STOP"):
    """The chunks as the API sends them: each text comes in halves, the reason with the last."""
    pieces = []
    for part in parts:
        is_halved = part.keys() <= {"text", "thought"} and len(part.get("text", "")) > 1
        middle = len(part["text"]) // 2 if is_halved else 0
        halves = [part["text"][:middle], part["text"][middle:]] if is_halved else []
        pieces += [{**part, "text": text} for text in halves] or [part]
    listed = [response([piece]) for piece in pieces] or [response([])]
    for chunk in listed[:-1]:
        del chunk["candidates"][0]["finishReason"]
        chunk["usageMetadata"] = {"promptTokenCount": 150}
    listed[-1]["candidates"][0]["finishReason"] = reason
    return listed


def ask_model(*answers, on_text=None, backend="asyncio", **options):
    with served(*answers) as serving:
        model = GeminiModel("gemini-x", base_url=serving.url, **options)
        return ask(model, SENT, on_text=on_text, backend=backend), serving


SENT = prompt("gemini")
REQUEST = {"contents": [{"role": "user", "parts": [{"text": "Hi."}]}]}


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("is_streamed", [False, True])
def test_every_part_comes_back_as_it_was_sent(is_streamed, backend):
    pieces = []
    answer = stream("gemini", chunks(ALL)) if is_streamed else whole("gemini", response(ALL))
    on_text = pieces.append if is_streamed else None
    reply, _ = ask_model(answer, on_text=on_text, backend=backend)
    assert reply.entries == ({"role": "model", "parts": ALL},)
    assert (reply.stop, reply.text) == ("calls", TEXT["text"])
    assert [(call.id, call.name, call.arguments()) for call in reply.calls] == [
        ("c1", "book", ARGS)
    ]
    assert reply.usage == Usage(read=100, uncached=50, output=20)
    assert (reply.model, reply.id) == ("gemini-x-001", "r1")
    assert "".join(pieces) == (reply.text if is_streamed else "")


@pytest.mark.parametrize("on_text", [None, print])
def test_the_request_is_the_prompt_with_the_options_and_nothing_else(on_text):
    body = response([TEXT])
    answer = stream("gemini", [body]) if on_text else whole("gemini", body)
    _, serving = ask_model(
        answer, temperature=0, thinking_config={"thinking_level": "low"}, on_text=on_text
    )
    method = "streamGenerateContent?alt=sse" if on_text else "generateContent"
    assert serving.paths == [f"/v1beta/models/gemini-x:{method}"]
    config = {"temperature": 0, "thinkingConfig": {"thinking_level": "LOW"}}
    assert serving.requests == [{**REQUEST, "generationConfig": config}]


def test_a_call_without_an_id_gets_one_and_no_two_get_the_same():
    bare = {"functionCall": {"name": "book", "args": {}}}
    reply, _ = ask_model(whole("gemini", response([bare, bare])))
    ids = [part["functionCall"]["id"] for part in reply.entries[0]["parts"]]
    assert len(set(ids)) == 2
    assert [call.id for call in reply.calls] == ids


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize(
    ("parts", "reason", "stop", "kept", "calls"),
    [
        ([TEXT], "STOP", "answer", [TEXT], 0),
        ([TEXT], "MAX_TOKENS", "length", [TEXT], 0),
        ([THOUGHT], "MAX_TOKENS", "length", [], 0),
        ([TEXT, CALL], "MAX_TOKENS", "calls", [TEXT, CALL], 1),
        ([TEXT, CALL], "SAFETY", "refusal", [TEXT], 0),
        ([], "PROHIBITED_CONTENT", "refusal", [], 0),
        ([], "STOP", "answer", [], 0),
        ([{"text": "\n"}], "STOP", "answer", [], 0),
        ([SIGNED], "STOP", "answer", [], 0),
        ([TEXT, SIGNED], "STOP", "answer", [TEXT, SIGNED], 0),
        ([TEXT, THOUGHT], "STOP", "answer", [TEXT], 0),
        ([{"text": ""}, CALL], "STOP", "calls", [CALL], 1),
        ([{"hologram": {"sides": 4}}, TEXT], "STOP", "answer", [TEXT], 0),
        ([{"thought": True}, TEXT], "STOP", "answer", [TEXT], 0),
        (
            [TEXT, {"thoughtSignature": "abcd"}],
            "STOP",
            "answer",
            [TEXT, {**SIGNED, "thoughtSignature": "abcd"}],
            0,
        ),
    ],
)
def test_what_it_stopped_for_and_what_of_it_can_be_sent_again(
    parts, reason, stop, kept, calls, is_streamed
):
    body = response(parts, reason)
    answer = stream("gemini", chunks(parts, reason)) if is_streamed else whole("gemini", body)
    reply, _ = ask_model(answer, on_text=print if is_streamed else None)
    assert (reply.stop, len(reply.calls)) == (stop, calls)
    assert [each["parts"] for each in reply.entries] == ([kept] if kept else [])
    history = [*REQUEST["contents"], *reply.entries]
    assert validate(history, format="gemini") == [] or stop == "calls"
    assert gemini.refusal({"contents": history}) is None


def test_texts_with_and_without_a_signature_stay_apart():
    signed = {"text": " It is 8 m deep.", "thoughtSignature": "abcd"}
    reply, _ = ask_model(stream("gemini", chunks([TEXT, signed, TEXT])), on_text=print)
    assert reply.entries[0]["parts"] == [TEXT, signed, TEXT]


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_blocked_prompt_is_a_refusal_without_an_entry(is_streamed):
    body = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 9}}
    answer = stream("gemini", [body]) if is_streamed else whole("gemini", body)
    reply, _ = ask_model(answer, on_text=print if is_streamed else None)
    assert (reply.stop, reply.entries, reply.usage) == ("refusal", (), Usage(uncached=9))


def test_a_call_that_the_model_miswrote_is_no_answer():
    with pytest.raises(ProviderUnavailableError, match="MALFORMED_FUNCTION_CALL"):
        ask_model(whole("gemini", response([], "MALFORMED_FUNCTION_CALL")))


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_call_without_a_name_is_no_answer(is_streamed):
    """It cannot be run, and no history that holds it can be sent."""
    parts = [TEXT, {"functionCall": {"args": {}}}]
    answer = stream("gemini", chunks(parts)) if is_streamed else whole("gemini", response(parts))
    with pytest.raises(ProviderUnavailableError, match="a call without a name"):
        ask_model(answer, on_text=print if is_streamed else None)


def test_a_block_after_a_text_is_a_refusal():
    begun = {"candidates": [{"content": {"parts": [TEXT]}}]}
    blocked = {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}
    reply, _ = ask_model(stream("gemini", [begun, blocked]), on_text=print)
    assert (reply.stop, reply.entries) == ("refusal", ())


def test_what_its_own_tools_return_is_billed_as_input():
    usage = {**USAGE, "toolUsePromptTokenCount": 30, "totalTokenCount": 200}
    reply, _ = ask_model(whole("gemini", response([TEXT], usageMetadata=usage)))
    assert reply.usage == Usage(read=100, uncached=80, output=20)


@pytest.mark.parametrize("body", [{}, {"candidates": []}, {"candidates": [{}]}])
def test_an_answer_of_another_shape_is_no_answer(body):
    with pytest.raises(ProviderUnavailableError, match="cannot be read"):
        ask_model(whole("gemini", body))


def test_mistakes_in_the_program_are_named():
    assert isinstance(GeminiModel("gemini-x"), Model)
    with pytest.raises(InvalidArgumentError, match="'contents' as an option"):
        GeminiModel("gemini-x", contents=[])
    with pytest.raises(InvalidArgumentError, match=r"pass a google\.genai\.Client"):
        GeminiModel("gemini-x", client=object())


def test_several_candidates_that_come_mixed_stay_apart():
    def piece(index, text):
        candidate = {"content": {"role": "model", "parts": [{"text": text}]}}
        return {**candidate, **({"index": index} if index else {})}  # 0 is left out

    end = {"index": 1, "finishReason": "MAX_TOKENS"}
    listed = [
        {"candidates": [piece(1, "Two "), piece(0, "One ")]},
        {"candidates": [piece(0, "is ")]},
        {"candidates": [piece(1, "are "), end]},
        {"candidates": [{**piece(0, "free."), "finishReason": "STOP"}]},
        {"candidates": [piece(1, "taken.")]},
    ]
    pieces = []
    reply, _ = ask_model(stream("gemini", listed), on_text=pieces.append)
    assert (reply.text, reply.stop) == ("One is free.", "answer")
    assert "".join(pieces) == reply.text


def test_arguments_that_come_in_pieces_are_one_call():
    def call(*args, **about):
        return {"functionCall": {**({"partialArgs": list(args)} if args else {}), **about}}

    def arg(path, **value):
        return {"jsonPath": path, **value}

    parts = [
        {**call(name="book", id="c1", willContinue=True), "thoughtSignature": "abcd"},
        call(arg("$.note", stringValue="Berth ", willContinue=True), willContinue=True),
        call(arg("$.note", stringValue="4"), arg("$.count", numberValue=3), willContinue=True),
        call(arg("$.ship['of. the'].names[0]", stringValue="Réka"), willContinue=True),
        call(arg("$.ship['of. the'].names[1]", stringValue="Anna"), willContinue=True),
        call(arg("$.is_paid", boolValue=False), arg("$.by", nullValue="NULL_VALUE")),
        call(arg("$.x", numberValue=0.5), name="other", id="c2"),
    ]
    ends = {"is_paid": False, "by": None}
    args = {"note": "Berth 4", "count": 3, **ends, "ship": {"of. the": {"names": ["Réka", "Anna"]}}}
    reply, _ = ask_model(stream("gemini", chunks(parts)), on_text=print)
    first, second = reply.entries[0]["parts"]
    assert first == {
        "functionCall": {
            "id": "c1",
            "name": "book",
            "args": args,
        },
        "thoughtSignature": "abcd",
    }
    assert second == {"functionCall": {"id": "c2", "name": "other", "args": {"x": 0.5}}}


def test_an_empty_last_piece_ends_a_call():
    begun = {"functionCall": {"name": "book", "willContinue": True}}
    reply, _ = ask_model(stream("gemini", chunks([begun, {"functionCall": {}}])), on_text=print)
    (call,) = reply.calls
    assert (call.name, call.arguments()) == ("book", {})
    assert set(reply.entries[0]["parts"][0]["functionCall"]) == {"id", "name", "args"}


@pytest.mark.parametrize("path", ["", "$", "$.a.b", "$[0]", "$.a[99999999999]"])
def test_a_path_that_leads_nowhere_is_no_answer(path):
    begun = {"functionCall": {"name": "book", "args": {"a": "x"}, "willContinue": True}}
    piece = {"functionCall": {"partialArgs": [{"jsonPath": path, "stringValue": "y"}]}}
    with pytest.raises(ProviderUnavailableError, match="cannot be read"):
        ask_model(stream("gemini", chunks([begun, piece])), on_text=print)
