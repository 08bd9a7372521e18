"""Cues of decisions, corrections, labels and errors in plain text, by language.

What users lay down is found by the engine (`_engine.directives`); decisions are said by both sides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

MAX_SENTENCE = 400
"""Characters. A longer one is not a sentence."""

_DECISION = re.compile(
    r"""\b(?: (?:we|i) (?:'ve|\shave)? \s (?: decided | chose | settled \s on | agreed )
    | decision \s? :
    | let's \s (?: go \s with | use | keep | stick \s with ) | (?:we|i) (?:'ll|\swill) \s
      (?: go \s with | stick \s with ) | we(?:'ll|\swill) \s (?: use | keep )
    | we're \s (?:using|going \s with)
    | (?: wir | ich ) \s (?: haben | habe ) \s (?:uns|mich)? \s? .{0,60} \b entschieden
    | (?: wir | ich ) \s (?: nehmen | nehme | verwenden | verwende | bleiben \s bei
    | bleibe \s bei )
    | entscheidung \s? : | beschlossen
    | (?: nous | on | j ) \s? '? \s? (?: avons | a | ai ) \s décidé | décision \s? :
    | on \s (?: garde | utilise | prend | part \s sur ) | nous \s (?: utiliserons | gardons )
    | (?: hemos | he ) \s decidido | decidimos | decisión \s? : | vamos \s a \s usar | usaremos
    | nos \s quedamos \s con
    | decidi(?:mos|u)? \b | decisão \s? : | vamos \s usar | ficamos \s com
    | abbiamo \s deciso | ho \s deciso | decisione \s? : | useremo
    | (?: we | ik ) \s (?: hebben | heb ) \s besloten | we \s (?: gebruiken | kiezen )
    | besluit \s? :
    | (?: мы \s )? решили | решено | решение \s? : | будем \s использовать )
    | 决定 | 我们选择 | 我们用 | 就用 | 采用 | 決定
    | に決め | を使うことに | にしましょう | 결정 | 하기로 \s? 했
    | החלטנו | הוחלט | נשתמש | قررنا | تقرر | سنستخدم""",
    re.IGNORECASE | re.VERBOSE,
)
_CORRECTION = re.compile(
    r"""\b(?: from \s now \s on | going \s forward | from \s here \s on | instead | rather \s than
    | changed? \s my \s mind | scratch \s that | forget \s what | correction | i \s was \s wrong
    | no \s longer | not .{1,40} any \s? more | on \s second \s thoughts? | supersedes | replaces
    | (?: ab | von ) \s (?: jetzt | sofort | nun ) | künftig | stattdessen | anstatt | statt
    | nicht \s mehr | ich \s habe \s mich \s geirrt
    | désormais | dorénavant | à \s partir \s de \s maintenant | à \s la \s place | au \s lieu
    | plus \s jamais
    | a \s partir \s de \s ahora | de \s ahora \s en \s adelante | en \s (?: vez
    | lugar ) \s de | ya \s no
    | a \s partir \s de \s agora | daqui \s em \s diante | em \s vez \s de | mudei \s de \s ideia
    | d'ora \s in \s poi | da \s adesso | invece | al \s posto \s di | ho \s cambiato \s idea
    | non .{1,30} più
    | vanaf \s nu | voortaan | in \s plaats \s van | niet \s meer
    | od \s teraz | zamiast | już \s nie | artık | bundan \s sonra | yerine
    | отныне | впредь | теперь | вместо | больше \s не )\b
    | 从现在 | 今后 | 改用 | 改为
    | 改成 | 而不是 | 不再 | これから | 今後 | 代わりに | ではなく
    | 앞으로 | 대신 | 이제부터
    | מעכשיו | מעתה | במקום | من\s+الآن | بدلا | अब\s+से | के\s+बजाय""",
    re.IGNORECASE | re.VERBOSE,
)
_ERROR = re.compile(
    r"""^.{0,200} (?: (?:Error|Exception) \b [:\s] | \b(?: error | fatal | FAILED | panicked )\b
    (?: : | \[ | \s at | \s - ) | ^Traceback ) .*$""",
    re.VERBOSE | re.MULTILINE,
)
_EXIT = re.compile(
    r"^(?:process )?exit(?:ed with)?(?: code| status)?:? ([0-9]{1,3})\b",
    re.IGNORECASE | re.MULTILINE,
)
_LABELLED = re.compile(
    r"(?:^|(?<=[.!?] ))(?:[A-Z][A-Z'-]+ ){0,3}[A-Z][A-Z'-]{2,}: .+", re.MULTILINE
)
_ENDS = re.compile(r"(?<=[.!?\u061f])\s+|(?<=[\u3002\uff01\uff1f])|\n+")


class Cued(NamedTuple):
    """A sentence or a line, and where it begins in its text."""

    start: int
    text: str


def decisions(text: str) -> Iterator[Cued]:
    """Yield the sentences that say what was decided.

    >>> [found.text for found in decisions("It is slow. We decided to use SQLite. Fine?")]
    ['We decided to use SQLite.']
    """
    for sentence in sentences(text):
        if _DECISION.search(sentence.text) and not sentence.text.endswith(("?", "？", "؟")):
            yield sentence


def is_correction(text: str) -> bool:
    """Return whether a sentence says that something holds from now on, or instead of another thing.

    >>> is_correction("From now on, use spaces."), is_correction("Use tabs.")
    (True, False)
    """
    return _CORRECTION.search(text) is not None


def sentences(text: str) -> Iterator[Cued]:
    """Yield the sentences of a text, without white space around them."""
    at = 0
    for match in _ENDS.finditer(text):
        yield from _trimmed(text, at, match.start())
        at = match.end()
    yield from _trimmed(text, at, len(text))


def whole_sentences(text: str, start: int, end: int) -> Cued:
    """Return the sentences that a part of a text is in: a word before it may turn it round.

    Where they are longer than MAX_SENTENCE, what is returned is longer too.

    >>> whole_sentences("Hi. Never push to main.", 10, 14)
    Cued(start=4, text='Never push to main.')
    """
    begin, stop = max(start - MAX_SENTENCE, 0), min(end + MAX_SENTENCE, len(text))
    for match in _ENDS.finditer(text, begin, stop):
        if match.end() <= start:
            begin = match.end()
        elif match.start() >= end:
            stop = match.start()
            break
    told = text[begin:stop]
    stripped = told.strip()
    return Cued(begin + told.index(stripped), stripped)


def labelled(text: str) -> Iterator[Cued]:
    """Yield what the user put under a label in capitals, to the end of the line.

    >>> [found.text for found in labelled("Hello. GOAL: ship it. Friday at the latest.")]
    ['GOAL: ship it. Friday at the latest.']
    """
    for match in _LABELLED.finditer(text):
        yield from _trimmed(text, match.start(), match.end())


def first_error(text: str) -> Cued | None:
    """Return the first line that tells of an error.

    >>> first_error("ok\\nValueError: no port").text
    'ValueError: no port'
    """
    match = _ERROR.search(text)
    return None if match is None else next(_trimmed(text, match.start(), match.end()), None)


def exit_code(text: str) -> int | None:
    """Return the code that a command's result says it exited with; None where it says none.

    >>> exit_code("Exit code: 2\\nno such file"), exit_code("done")
    (2, None)
    """
    match = _EXIT.search(text, 0, MAX_SENTENCE)
    return None if match is None else int(match[1])


def _trimmed(text: str, start: int, end: int) -> Iterator[Cued]:
    told = text[start:end]
    stripped = told.strip()
    if stripped and len(stripped) <= MAX_SENTENCE:
        yield Cued(start + told.index(stripped), stripped)
