"""What users lay down: sentences that bind all that follows, and whether they are still there.

A plain list of words, not the engine's own notion: a measure that shares its code with what it
measures shares its mistakes. A sentence counts as kept where it stands to the letter, or where
three quarters of its words stand in one line of what was said, as in a summary.
"""

import re
from collections.abc import Iterable, Sequence

from rehydrate.retention.reading import Message, is_tool_result, said_by_user, text_of

_BINDING = re.compile(
    # At the head of a clause these bind; elsewhere ("I don't know", "they never stop") they tell.
    r"(?:^|[,;:(*-] ?|\b(?:please|and|but|then|should|must|to) )"
    r"(?:never|always|do not|don't|only|avoid|prefer|use only|stick to|remember|keep in mind)\b"
    r"|\b(?:must(?:n't| not)?(?!['’-]| (?:have|be|feel)\b)"
    r"|shall not|may not|not allowed|forbidden"
    r"|prefer|no more than|at most|at least|upper limit|limit of|budget|deadline|cap (?:of|is)"
    r"|make sure|from now on|for the whole|without (?:asking|my)|unless|requirement)\b"
    r"|\b(?:niemals|immer|müssen|muss|darf(?:st)? (?:nicht|kein)|höchstens|mindestens)\b"
    r"|\b(?:ne \w+ jamais|toujours|dois|doit|interdit|au plus|au moins)\b"
    r"|\b(?:nunca|siempre|sempre|debe|deve|prohibido|proibido|como máximo|al menos|vietato)\b"
    r"|никогда|всегда|нельзя|должн|не более|обязательно|запрещ"
    r"|必须|不要|不得|禁止|务必|永远|总是|不能|至少|最多|必ず|しないで|絶対|してはいけない|以内",
    re.I,
)
_CODE = re.compile(r"```.*?(?:```|\Z)", re.S)
_SENTENCE = re.compile(r"(?<=[.!?;])\s+(?=\S)|(?<=[。！？；])")
_WORD = re.compile(r"\w+")
_BLANK = re.compile(r"\s+")

SHORTEST, LONGEST = 12, 400
"""Characters of a sentence that counts: less says nothing, more is something that was pasted."""
MOST = 200
"""Sentences of one session that count, the first ones: a user who pastes a handbook lays it down
once."""
WORDS_SHARE = 0.75


def laid_down(messages: Iterable[Message]) -> tuple[str, ...]:
    """The sentences of the user's own turns that bind what follows, each once.

    >>> laid_down([{"role": "user", "content": "Fix the test. Never touch src/engine.rs! Thanks."}])
    ('Never touch src/engine.rs!',)
    """
    found: dict[str, None] = {}
    for message in messages:
        for line in _CODE.sub("\n", said_by_user(message)).splitlines():
            for sentence in map(str.strip, _SENTENCE.split(line)):
                # Half as long says as much where a word is one or two characters.
                shortest = SHORTEST if sentence.isascii() else SHORTEST // 2
                is_asked = sentence.endswith(("?", "？"))
                if is_asked or not shortest <= len(sentence) <= LONGEST:
                    continue
                if _BINDING.search(sentence):
                    found[sentence] = None
        if len(found) >= MOST:
            break
    return tuple(found)[:MOST]


def share_laid_down(sentences: Sequence[str], kept: Sequence[Message]) -> float | None:
    """The share of these sentences that is still there; None where there are none.

    >>> summary = {"role": "user", "content": "Rules: src/engine.rs is never touched."}
    >>> share_laid_down(["Never touch src/engine.rs!"], [summary])
    1.0
    """
    if not sentences:
        return None
    whole = "\n".join(text_of(message) for message in kept)
    missing = [sentence for sentence in sentences if sentence not in whole]
    if missing:
        whole = _plain(whole)
        missing = [sentence for sentence in missing if _plain(sentence) not in whole]
    if not missing:
        return 1.0
    said = "\n".join(text_of(message) for message in kept if not is_tool_result(message))
    lines = [_words(line) for line in dict.fromkeys(said.splitlines())]
    lost = 0
    for sentence in missing:
        words = _words(sentence)
        needed = max(1, WORDS_SHARE * len(words))
        lost += not any(len(line) >= needed and len(words & line) >= needed for line in lines)
    return 1 - lost / len(sentences)


def _plain(text: str) -> str:
    return _BLANK.sub(" ", text)


def _words(text: str) -> frozenset[str]:
    """The words by their first letters, so that `touch` is `touched`."""
    return frozenset(word[:5] for word in _WORD.findall(text.casefold()))
