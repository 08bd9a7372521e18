"""EventDecoder: it decodes the same data, wherever the bytes are cut."""

from itertools import pairwise

from hypothesis import given, strategies as st

from rehydrate.agent.sdk_answers import EventDecoder

LINE = st.text(st.characters(exclude_characters="\r\n", exclude_categories=("Cs",)))


@given(
    st.lists(st.tuples(LINE, st.sampled_from(["\n", "\r\n", "\r"]))),
    st.lists(st.integers(0, 400)),
)
def test_what_is_decoded_does_not_depend_on_where_the_bytes_are_cut(listed, cuts):
    text = "".join(f"event: x{end}: a comment{end}data: {line}{end}{end}" for line, end in listed)
    content = text.encode()
    decoder = EventDecoder()
    found = []
    cuts_in_order = [0, *sorted(cut for cut in cuts if cut < len(content)), len(content)]
    for start, end in pairwise(cuts_in_order):
        found += decoder.feed(content[start:end])
    found += decoder.feed(b"\n\n")
    assert found == [line for line, _ in listed]


def test_lines_end_at_carriage_returns_and_line_feeds_only():
    # Python's splitlines, and some HTTP libraries, would cut these in two.
    text = "a\u2028b\u0085c\x0bd\x1ce"
    assert list(EventDecoder().feed(f"data: {text}\n\n".encode())) == [text]
