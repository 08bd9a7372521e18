"""splice: sections found in the middle of a turn go in once, whole, where they fit."""

from __future__ import annotations

from rehydrate.prompt import Provenance, Section
from rehydrate.prompt.splicing import VisibleText, splice

RULE = "The mast limit at Sluis is twenty-four metres at high water."


def found(name: str, content: str, tokens: int) -> Section:
    return Section(name, content, Provenance(name, items=(name,), trust=0.5), tokens=tokens)


def test_a_text_within_another_that_was_found_goes_in_with_it():
    whole, part = found("rules", f"Rules. {RULE}", 30), found("rule", RULE, 20)
    spliced = splice([whole, part], tool_call_id="t1", budget_tokens=1_000)
    assert [section.id for section in spliced.sections] == ["rules"]
    assert spliced.visible == 1


def test_a_text_within_another_that_has_no_room_goes_in_by_itself():
    whole, part = found("rules", f"Rules. {RULE}", 5_000), found("rule", RULE, 20)
    spliced = splice([whole, part], tool_call_id="t1", budget_tokens=1_000)
    assert [section.id for section in spliced.sections] == ["rule"]
    assert [section.id for section in spliced.no_room] == ["rules"]


def test_sections_with_and_without_room_are_in_the_order_in_which_they_were_found():
    several = [found(f"note:{number}", f"note {number}", 100) for number in range(6)]
    spliced = splice(several, tool_call_id="t1", budget_tokens=400)
    names = [section.id for section in (*spliced.sections, *spliced.no_room)]
    assert names == [section.id for section in several]
    assert spliced.no_room


def test_a_text_that_only_two_texts_together_have_goes_in():
    first, last = RULE[:30], RULE[30:]
    quote = found("rule", f"{first}\n{last}", 20)
    apart = VisibleText.of([f"They said: {first}", f"{last} And so on."])
    spliced = splice([quote], tool_call_id="t1", budget_tokens=1_000, visible_text=apart)
    assert [section.id for section in spliced.sections] == ["rule"]
    sections = [found("a", apart.texts[0], 9), found("b", apart.texts[1], 9)]
    spliced = splice([*sections, quote], tool_call_id="t1", budget_tokens=1_000)
    assert [section.id for section in spliced.sections] == ["a", "b", "rule"]
    together = VisibleText.of(["\n".join(apart.texts)])
    spliced = splice([quote], tool_call_id="t1", budget_tokens=1_000, visible_text=together)
    assert (spliced.sections, spliced.visible) == ((), 1)


def test_a_text_in_a_message_is_not_sent_again_whatever_its_letters():
    for rule in (RULE, f"Über {RULE}", f"水路 {RULE} \N{SAILBOAT}", f"\udc80 {RULE}"):
        seen = VisibleText.of(["Before.", f"They said: {rule} And so on."])
        spliced = splice(
            [found("rule", f" {rule}\n", 20), found("other", f"Not {rule}", 20)],
            tool_call_id="t1",
            budget_tokens=1_000,
            visible_text=seen,
        )
        assert [section.id for section in spliced.sections] == ["other"]
        assert spliced.visible == 1
