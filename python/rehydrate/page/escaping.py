"""Foreign text made safe for a page: what could be markup, and what no page may hold."""

from __future__ import annotations

import html
import re

# Control characters, half surrogate pairs, code points that are no characters; and all of the
# higher planes, since only the last two of each are none.
_UNFIT = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff\U0001fffe-\U0010ffff]"
)
_PICTURES = {0x7F: "\N{SYMBOL FOR DELETE}"} | {code: chr(0x2400 + code) for code in range(0x20)}


def escaped(text: str) -> str:
    """The text as it may stand between tags; no attribute ever holds foreign text.

    >>> escaped('</script> "a" & \\x1b[0m')
    '&lt;/script&gt; "a" &amp; ␛[0m'
    """
    text = text.replace("\r\n", "\n")
    return html.escape(_UNFIT.sub(_fit, text), quote=False)


def _fit(unfit: re.Match[str]) -> str:
    code = ord(unfit.group())
    if code > 0xFFFF and code & 0xFFFE != 0xFFFE:
        return unfit.group()
    return _PICTURES.get(code, "\N{REPLACEMENT CHARACTER}")
