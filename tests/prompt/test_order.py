"""Order: static before dynamic, instructions before facts, the best at the edges."""

from rehydrate.prompt import PromptIR, Target
from rehydrate.prompt.passes.order import by_edges, order
from tests.prompt.irs import found, system_section


def ids(*sections):
    return [each.id for each in order(PromptIR(sections=sections), Target()).sections]


def test_static_sections_come_before_dynamic_ones_and_the_systems_before_all():
    parts = found(1), found(2, stability="static"), system_section()
    assert ids(*parts) == ["system", "semantic:mem_2", "semantic:mem_1"]


def test_instructions_come_before_rules_facts_and_background():
    modes = ["contextual", "additive", "constraint", "hierarchical"]
    assert ids(*[system_section(id=mode, mode=mode) for mode in modes]) == modes[::-1]


def test_an_earlier_instruction_stays_before_a_later_one_whatever_their_relevance():
    one, other = system_section(id="one", relevance=0.1), system_section(id="two", relevance=0.9)
    assert ids(one, other) == ["one", "two"]
    assert ids(other, one) == ["two", "one"]


def test_the_most_relevant_stand_at_the_edges_the_very_best_last():
    sections = [found(n, relevance=n / 10) for n in range(1, 6)]
    assert [each.relevance for each in by_edges(sections)] == [0.4, 0.2, 0.1, 0.3, 0.5]


def test_who_wants_to_stand_at_an_edge_does():
    parts = [found(1, position="end"), found(2), found(3, position="start")]
    assert ids(*parts) == ["semantic:mem_3", "semantic:mem_2", "semantic:mem_1"]


def test_dynamic_sections_stand_in_the_order_of_their_anchors():
    assert ids(found(1), found(2, anchor=9), found(3, anchor=4)) == [
        *("semantic:mem_3", "semantic:mem_2", "semantic:mem_1")
    ]
