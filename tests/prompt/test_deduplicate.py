"""Deduplicate: what is visible earlier is not sent again, and what is new is."""

from rehydrate.prompt import History, PromptIR, Provenance, Target
from rehydrate.prompt.splicing import deduplicate
from tests.prompt.irs import found

SAID = "The staging server listens on port 8443, behind the proxy."


def run(*sections, entries=(), format="plain"):
    ir = PromptIR(sections=sections, history=History(tuple(entries), format))
    return deduplicate(ir, Target())


def of(*items):
    return Provenance("semantic", items=items, trust=0.5)


def test_an_item_that_an_earlier_section_shows_is_not_sent_again():
    again = found(2, provenance=of("mem_1"), priority="high")
    after = run(found(1), again)
    (kept,) = after.sections
    assert kept.id == "semantic:mem_1"
    assert kept.priority.name == "HIGH"  # it counts for both
    (gone,) = after.meta.dropped
    assert (gone.section, gone.reason) == ("semantic:mem_2", "visible in semantic:mem_1")
    assert after.meta.trace[-1].changed == ("semantic:mem_2",)


def test_earlier_is_what_the_model_reads_earlier():
    static = found(2, provenance=of("mem_1"), stability="static")
    assert [each.id for each in run(found(1), static).sections] == ["semantic:mem_2"]
    anchored = found(3, provenance=of("mem_1"), anchor=0)
    assert [each.id for each in run(found(1), anchored).sections] == ["semantic:mem_3"]


def test_a_section_that_shows_something_new_stays_and_names_what_is_new():
    after = run(found(1), found(2, provenance=of("mem_1", "mem_2")))
    assert [each.provenance.items for each in after.sections] == [("mem_1",), ("mem_2",)]


def test_one_that_must_stay_whole_stays():
    rule = found(2, provenance=of("mem_1"), mode="constraint")
    assert rule.content in [each.content for each in run(found(1), rule).sections]


def test_what_the_history_says_word_for_word_is_not_sent_again():
    entries = [{"role": "user", "content": f"Note this. {SAID} Thanks."}]
    after = run(found(1, content=SAID), entries=entries)
    assert after.sections == ()
    assert after.meta.dropped[0].reason == "visible in history[0]"
    assert len(run(found(1, content="8443"), entries=entries).sections) == 1


def test_one_of_which_a_part_must_stay_stays_since_the_entry_that_shows_it_may_go():
    entries = [{"role": "user", "content": f"Note this. {SAID} Thanks."}]
    section = found(1, content=SAID, min_tokens=5)
    assert run(section, entries=entries).sections == (section,)
    twice = run(found(1, min_tokens=5), found(1, min_tokens=5)).sections
    assert twice == (found(1, min_tokens=5),)


def test_what_is_said_only_later_does_not_count():
    entries = [{"role": "user", "content": "Hello."}, {"role": "user", "content": SAID}]
    sticky = found(1, content=SAID, anchor=1)
    assert run(sticky, entries=entries).sections == (sticky,)
    static = found(2, content=SAID, stability="static")
    assert run(static, entries=entries).sections == (static,)


def test_entries_are_known_by_their_ids_and_entry_indices():
    entry = {"type": "user", "uuid": "u-1", "message": {"role": "user", "content": "Hello."}}
    for item in ("u-1", "history[0]"):
        after = run(found(1, provenance=of(item)), entries=[entry], format="claude_code")
        assert after.sections == ()


def test_the_same_section_twice_is_one_and_another_content_under_its_id_gets_its_own():
    bare = Provenance("hot")
    one = found(1, id="hot", provenance=bare)
    assert run(one, one).sections == (one,)
    new = found(1, id="hot", content="something else", provenance=bare)
    assert [each.id for each in run(one, new).sections] == ["hot", "hot~2"]


def test_nothing_to_leave_out_leaves_the_very_same_sections():
    parts = (found(1), found(2))
    assert run(*parts).sections == parts
