"""Memory that enters a prompt unasked is about the turn, and never cold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rehydrate import Context, ContextJIT, Memory
from rehydrate.errors import InvalidArgumentError
from rehydrate.memory import MemoryItem
from rehydrate.prompt import ContextRequest, TimeRange, hydrate, hydrate_source
from rehydrate.prompt.sources.memory import semantic

NOTES = (
    "Staging listens on port 8443.",
    "Lunch is at noon.",
    "We deploy with blue-green on Fridays.",
    "The database password rotates monthly.",
    "Alice prefers window seats.",
    "The penguin exhibit opens at nine.",
)
UNRELATED = (
    "What is the capital of France?",
    "Compute 17*23",
    "Translate 'good morning' into Italian.",
    "Who wrote Pride and Prejudice?",
)
SMALL_TALK = ("hi", "thanks!", "ok", "yes, do it", "go on", "Good morning, how are you?", "?!")
PENGUINS = [
    f"Note {n} on penguin colony {n}: "
    + " ".join(f"penguin{k} walks ice {n * k}" for k in range(60))
    for n in range(20)
]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "m.db", namespace="alice") as memory:
        memory.add(NOTES)
        yield memory


def brought(query: str, memory: Memory, **options: object) -> list[str]:
    ir = hydrate(query, semantic(memory, **options), timeout=None)  # type: ignore[arg-type]
    return [str(section.content) for section in ir.sections]


@pytest.mark.parametrize("question", [*UNRELATED, *SMALL_TALK])
def test_what_memory_cannot_answer_brings_nothing(memory: Memory, question: str):
    assert brought(question, memory) == []
    penguins = memory.within("zoo")
    penguins.add(PENGUINS)
    assert brought(question, penguins) == []


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Which port does staging use?", NOTES[0]),
        ("And when is lunch?", NOTES[1]),
        ("why did the deploy fail?", NOTES[2]),
        ("Who has the database password?", NOTES[3]),
        ("When do the penguins open?", NOTES[5]),
    ],
)
def test_what_memory_can_answer_comes_without_what_has_nothing_to_do_with_it(
    memory: Memory, question: str, answer: str
):
    found = brought(question, memory)
    assert found[0] == answer
    assert len(found) <= 2


@pytest.mark.parametrize(
    ("note", "question"),
    [
        ("הפגישה עם הלקוח נקבעה ליום שלישי בחיפה.", "מתי הפגישה עם הלקוח?"),
        ("会议定于星期二在上海举行。", "会议在哪里举行?"),
        ("Die Besprechung mit dem Kunden ist am Dienstag in Kiel.", "Wann ist die Besprechung?"),
        ("Встреча с клиентом назначена на вторник.", "Когда встреча с клиентом?"),
        ("اجتماع العميل يوم الثلاثاء في حيفا.", "متى اجتماع العميل؟"),
    ],
)
def test_it_does_not_take_english(tmp_path: Path, note: str, question: str):
    with Memory.open(tmp_path / "m.db", namespace="alice") as memory:
        memory.add([*NOTES, note])
        assert note in brought(question, memory)


CHINESE = {
    "会议在哪里举行?": "会议定于星期二在上海举行。",
    "数据库密码多久更换?": "数据库密码每月更换一次。",
    "爱丽丝喜欢什么座位?": "爱丽丝喜欢靠窗的座位。",
    "什么时候部署?": "我们每周五部署新版本。",
    "午餐几点?": "午餐时间是中午十二点。",
    "企鹅馆什么时候开放?": "企鹅馆早上九点开放。",
    "测试服务器用哪个端口?": "测试服务器监听8443端口。",
    "客户要退多少钱?": "客户要求退款五百元。",
}


def test_questions_in_ideographs_find_their_answers_and_bring_nothing_else(tmp_path: Path):
    with Memory.open(tmp_path / "m.db", namespace="alice") as memory:
        memory.add(list(CHINESE.values()))
        for question, answer in CHINESE.items():
            assert brought(question, memory)[:1] == [answer], question
        for question in ("法国的首都是哪里?", "谁写了红楼梦?", "今天天气怎么样?", "谢谢!"):
            assert brought(question, memory) == [], question


def test_the_threshold_can_be_set_and_turned_off(memory: Memory):
    assert len(brought(UNRELATED[0], memory, min_relevance=0)) == 5
    assert brought("Which port does staging use?", memory, min_relevance=2) == []
    with pytest.raises(InvalidArgumentError, match="min_relevance is 7; pass a number from 0"):
        semantic(memory, min_relevance=7)


def test_who_asks_the_source_gets_what_there_is(memory: Memory):
    found = hydrate_source("where to sit on the plane", semantic(memory), timeout=None)
    assert len(found.sections) == 5


def test_a_memory_of_penguins_stays_out_of_a_question_on_france(memory: Memory):
    penguins = memory.within("zoo")
    penguins.add(PENGUINS)
    prompt = Context(penguins, system="You help.", timeout=None).prompt(UNRELATED[0])
    assert [section.id for section in prompt.ir.sections] == ["system"]
    assert prompt.tokens < 50


def test_cold_memory_never_comes_by_itself_and_request_context_reaches_it(memory: Memory):
    cold = "Old notes on the deploy of 2019: it failed on the tide tables."
    memory.add([MemoryItem(cold, tier="cold")])
    context = Context(memory, timeout=None)
    prompt = context.prompt("why did the deploy fail on the tide tables?")
    assert "tide tables." not in json.dumps(prompt.messages[:-1])
    jit = ContextJIT(context, timeout=None)
    call = {"type": "tool_use", "id": "t", "name": "request_context", "input": {"query": "deploy"}}
    context.add({"role": "assistant", "content": [call]})
    assert cold in json.dumps(jit.handle(call))


def test_cold_memory_comes_where_the_filters_name_it(memory: Memory):
    cold = "Old notes on the deploy of 2019: it failed on the tide tables."
    memory.add([MemoryItem(cold, tier="cold")])
    assert cold in brought("the tide tables of the deploy", memory, filters={"tiers": ["cold"]})


def test_cold_memory_of_a_time_range_stays_out_of_a_prompt_too(memory: Memory):
    when = datetime(2026, 2, 17, 9, tzinfo=UTC)
    memory.add([MemoryItem("The gate was open.", tier="cold", time=when)])
    memory.add([MemoryItem("The gate was shut.", time=when)])
    time_range = TimeRange(when - timedelta(hours=1), when + timedelta(hours=1))
    request = ContextRequest("gate", time_range=time_range)
    ir = hydrate(request, memory, timeout=None)
    assert "The gate was shut." in [section.content for section in ir.sections]
    assert "The gate was open." not in [section.content for section in ir.sections]
