"""The table of secrets: the patterns of keys, tokens and passwords, each with a name.

A pattern is tried only where one of its `needles` occurs; one pass finds them all. Every pattern
takes linear time: a repeat is bounded, or followed by nothing, or cannot begin again inside itself.
The group `secret` is removed; without that group, the whole match.

A key begins where its mark does, whatever is before it: an escape sequence of a terminal, a
percent sign, a letter. Only marks that are ends of words too ask for something else before them.
"""

from __future__ import annotations

import math
import re
from base64 import b64decode
from binascii import Error as NoBase64
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from typing import NamedTuple

_END = r"(?![A-Za-z0-9])"


class Secret(NamedTuple):
    """One kind of secret."""

    name: str
    needles: tuple[str, ...]
    """In lower case. Each match begins with one of them, at most `lead` characters before it."""
    expression: str
    is_one: Callable[[re.Match[str]], bool] = lambda _match: True
    """A last check of a match."""
    lead: int = 0
    """Maximum number of characters before the needle."""
    also: str = ""
    """A second literal, in lower case, that the text must hold too."""
    flags: int = 0

    @property
    def pattern(self) -> re.Pattern[str]:
        """The compiled expression; compiled when it is needed first, since most never are."""
        return _compiled(self.expression, self.flags)


_compiled = cache(re.compile)


def _key(name: str, expression: str, needles: str, lead: int = 0) -> Secret:
    """Return a key that begins with a mark of its own; `needles` has blanks between them."""
    return Secret(name, tuple(needles.split()), expression, lead=lead, flags=re.ASCII)


_PLACEHOLDER = re.compile(
    r"""\$(?:[A-Z_][A-Z0-9_]*|[A-Za-z_.]+)?$|.*\$\{[A-Za-z_]\w*(?:[:}?-]|$)|.*\$\((?-i:[a-z])
    |.*\{\{.*\}\}|[xX*.\-_•]+$|<[A-Za-z][\w .:-]*>?$|\{[A-Za-z_][\w.\[\]()'"!:]*\}?$
    |\[[A-Za-z][\w .:-]*\]?$|%[A-Za-z_]+%|%\([A-Za-z_]|%[sdr]$
    |(?:your|my|some|the|example|dummy|fake|placeholder)[-_ ]
    |(?:none|null|true|false|undefined|changeme|redacted|secret|password|token)$""",
    re.IGNORECASE | re.VERBOSE,
)


def is_placeholder(value: str) -> bool:
    """Return whether a value only represents a secret, as ``${PASSWORD}`` or ``your-key-here`` do.

    >>> is_placeholder("${DB_PASSWORD}"), is_placeholder("<token>"), is_placeholder("hunter2")
    (True, True, False)
    """
    return _PLACEHOLDER.match(value) is not None


def entropy_bits(value: str) -> float:
    """Return Shannon's entropy per character.

    >>> entropy_bits("aaaa"), entropy_bits("abcd")
    (0.0, 2.0)
    """
    total = len(value)
    return -sum(n / total * math.log2(n / total) for n in Counter(value).values()) + 0.0


def looks_random(value: str, *, least_chars: int = 12, least_bits: float = 3.0) -> bool:
    """Return whether a value is too random to be a word, a path, a version or a name.

    >>> looks_random("q7Zp0aXk29LmT"), looks_random("internationalisation"), looks_random("v1.2.3")
    (True, False, False)
    """
    return (
        len(value) >= least_chars
        and any(map(str.isalpha, value))
        and (any(map(str.isdigit, value)) or _is_jumbled(value))
        and entropy_bits(value) >= least_bits
        and not is_placeholder(value)
        and (not _NAME_LIKE.match(value) or _has_random_part(value))
    )


def _has_random_part(value: str) -> bool:
    """Return whether what looks like a path or names holds a part as no path or name has."""
    return any(
        len(part) >= 16 and _kinds(part) >= 3 and entropy_bits(part) >= 3.5
        for part in _PARTS.split(value)
    )


def _kinds(value: str) -> int:
    """Return how many kinds of characters it holds: small and large letters, digits, signs."""
    kinds = (str.islower, str.isupper, str.isdigit, lambda char: char in _MIXED)
    return sum(any(map(kind, value)) for kind in kinds)


_PARTS = re.compile(r"[/._:\-]")


# Paths, addresses, and names joined by dots.
_CODE = re.compile(
    r"[~.]{0,2}/|[a-zA-Z]:\\|[a-z]+://|[a-z_]+\d{0,5}(?:\.[A-Za-z_]+\d{0,5}[A-Za-z_]*)+$", re.ASCII
)
# These, versions, dates, and words that end in at most one number.
_NAME_LIKE = re.compile(
    _CODE.pattern + r"|v?\d+\.\d+(?:\.\d+)?|\d{4}-\d\d-\d\d"
    r"|(?:[a-z]+|[A-Z]+|[A-Z][a-z]+)\d{0,3}(?:[-._/:](?:[a-z]+|[A-Z]+|[A-Z][a-z]+)?\d{0,3})*$",
    re.ASCII,
)
# A call, an index, an attribute, a type: the value that a program gives, not the secret.
_EXPRESSION = re.compile(r"[!&*]?(?:await |new )?[A-Za-z_$][\w$.:]*(?:->|\?\.|[(\[<]|::)")
_AROUND = ".,;:!?(){}[]<>&|=*+\"'`"
_MIXED = frozenset("!@#$%^&*+=~?")


def _is_jumbled(value: str) -> bool:
    """Return whether letters change their case as in no word or name."""
    changes = sum(a.isupper() != b.isupper() for a, b in pairwise(value))
    return len(value) >= 12 and changes > 0.4 * len(value)


def _core(value: str) -> str:
    """Return the value without the punctuation of the sentence or the code around it."""
    return value.strip(_AROUND)


def _is_password(match: re.Match[str]) -> bool:
    """Return whether it looks like a person's password: short, letters mixed with anything else."""
    value = match["secret"]
    core = _core(value)
    if len(core) < 4 or is_placeholder(value) or _CODE.match(core):
        return False
    if " " in value and not _is_phrase(value):
        return False
    has_letter = any(map(str.isalpha, core))
    has_digit = any(map(str.isdigit, core))
    if not has_letter:
        return has_digit and len(core) >= 8
    if _is_expression(match):
        return False
    return has_digit or any(char in _MIXED for char in value) or _is_jumbled(core)


def _is_expression(match: re.Match[str]) -> bool:
    """Return whether code gives the value, as in ``password = make_one(1)``. What is in quotes is a
    value, and so is what a shell assigns."""
    if match.groupdict().get("quote") or _SHELL.match(match[0]):
        return False
    found = _EXPRESSION.match(match["secret"])
    if found is None:
        end = match.end("secret")
        return match.string[end : end + 1] in {"(", "["}
    # What it is called with are names and short words.
    rest = match["secret"][found.end() :]
    return len(rest) < 8 or _kinds(rest) < 3 or bool(_NAMES.fullmatch(rest))


_NAMES = re.compile(r"[\w.$,:=()\[\]]*;?")
_SHELL = re.compile(r"[A-Z][A-Z0-9_]*=(?![=\s$(])")


_PROSE = re.compile(
    r"\b(?:must|should|shall|may|can|cannot|contain\w*|required|characters?|invalid|please|enter"
    r"|your|the|is|are|was|for|with|from|this|that|not|and|or|to|of|in|an?|at|least)\b",
    re.IGNORECASE,
)


def _is_phrase(value: str) -> bool:
    """Return whether words in quotes are a passphrase, and no sentence about one."""
    return len(value.split()) <= 8 and not _PROSE.search(value)


def _is_strong(match: re.Match[str]) -> bool:
    """Return whether a word in a sentence can be nothing but a password."""
    core = _core(match["secret"])
    return (
        len(core) >= 6
        and _kinds(core) >= 3
        and not _NAME_LIKE.match(core)
        and not is_placeholder(core)
    )


def _is_weak_password(match: re.Match[str]) -> bool:
    """The same of a value next to a word that has other meanings: `pass`."""
    return _is_password(match) and (_is_strong(match) or _is_token(match))


def _is_variable(match: re.Match[str]) -> bool:
    """Return whether the value of a variable of the environment looks like a password."""
    value = match["secret"]
    return (
        not is_placeholder(value)
        and not _CODE.match(value)
        and any(map(str.isalpha, value))
        and (any(not char.isalpha() for char in _core(value)) or _is_jumbled(value))
    )


def _is_token(match: re.Match[str]) -> bool:
    core = _core(match["secret"])
    return looks_random(core) and not _is_expression(match)


def _is_argument(match: re.Match[str]) -> bool:
    value = match["secret"]
    return not value.startswith("-") and (_is_password(match) or _is_token(match))


def _is_credential(match: re.Match[str]) -> bool:
    value = match["secret"]
    if match["scheme"] is None:
        return _is_token(match) and value.lower() not in _SCHEMES
    return not is_placeholder(value)


_SCHEMES = {"basic", "bearer", "token", "digest", "negotiate", "apikey", "aws4-hmac-sha256"}


def _is_name_and_password(match: re.Match[str]) -> bool:
    """Return whether it is base64 of ``name:password``."""
    try:
        text = b64decode(match["secret"] + "==", validate=False)
    except NoBase64:
        return False
    return b":" in text and text.isascii() and text.decode("ascii").isprintable()


_CONTROL = re.compile(r"[^\t\n\r\x1b\x20-\x7e\xa0-\U0010ffff]")
_URL_SAFE = str.maketrans("-_", "+/")
_SCREENED = 16
"""Characters that tell a text from a picture: of one in 100,000 all bytes would be printable."""


def decoded_text(run: str) -> str:
    """Return the text that a run of base64 encodes, line by line; "" where it isn't text.

    >>> decoded_text("cGFzc3dvcmQ9aHVudGVyMiF4OQ=="), decoded_text("iVBORw0KGgoAAAANSUhEUgAA")
    ('password=hunter2!x9', '')
    """
    if not _line_text(run[:_SCREENED]):
        return ""
    lines = []
    for line in run.split():
        text = _line_text(line)
        lines.append(text)
        if not text:
            break
    return "".join(lines)


def _line_text(line: str) -> str:
    """Return the text of one line, "" where it is none."""
    whole = line.strip("=-_").translate(_URL_SAFE)  # markdown's may be around it
    whole = whole[: len(whole) - (len(whole) % 4 == 1)]
    try:
        text = b64decode(whole + "=" * (-len(whole) % 4)).decode("utf-8", "ignore")
    except NoBase64:
        return ""
    return "" if _CONTROL.search(text) else text


def _has_random_cookie(match: re.Match[str]) -> bool:
    pairs = (pair.partition("=")[2] for pair in match["secret"].split(";"))
    return any(looks_random(value, least_chars=16) for value in pairs)


def _is_url_password(match: re.Match[str]) -> bool:
    return not is_placeholder(match["secret"]) or match["secret"] in {"password", "secret"}


def _has_key_material(match: re.Match[str]) -> bool:
    lines = match[0].partition("KEY")[2] if match[0].startswith("-----") else match[0]
    return re.search(r"[A-Za-z0-9+/=]{16}", lines) is not None


# An escape sequence of a terminal, as it is or as JSON and programs write it.
_ANSI = r"(?:(?:\x1b|\\{1,7}(?:u001b|x1b|033|e))\[[0-9;?]{0,16}[A-Za-z])"
_GAP = rf"(?:[ \t]|{_ANSI}){{0,12}}"
_QUOTE = r"\\{0,7}[\"'`]"
# White space, also as JSON writes it, once or within JSON.
_SPACE = r"(?:\s|\\{1,7}[nrt])"
# As tools write it before each line.
_LINE_NUMBER = r"(?<=[\sn+])\d{1,7}(?:[→:\t|]|\\{1,7}u2192)"
_NAMED = rf"(?:{_ANSI}{{0,4}}(?:{_QUOTE}\]?)?{_GAP}"
_SET = r"(?::=|=>|={1,3}|[:：]|%3[AaDd]|\\{1,7}u(?:003[adAD]|ff1a))"
# `name: DB_PASSWORD, value: hunter2` in YAML, JSON and XML.
_NEXT_TO_VALUE = (
    rf"(?:{_QUOTE})?(?:{_SPACE}|[,+>|]|{_LINE_NUMBER}){{1,40}}"
    rf"(?:{_QUOTE})?value(?:{_QUOTE})?{_GAP}[:=]"
)
_ASSIGNED = (
    rf"{_NAMED}{_SET}|{_NEXT_TO_VALUE}){_GAP}[bfru]{{0,2}}(?P<quote>{_QUOTE})?{_ANSI}{{0,4}}"
)
# In quotes all up to the same quotes. Else up to white space or a quote, and to what separates it
# from the next name; so `&` and `;` may be parts of a password.
_BARE = (
    r"(?:[^\s\"'`\\<>;,&|(){}\[\]\x1b]|\\(?![nrtbfuvx0\"'`\\/])"
    r"|[;,&|](?![\s\"'`\\]|\Z|[A-Za-z_][\w.\-]{0,40}[ \t]{0,2}[=:])"
    r"|[(){}\[\]>](?![\s\"'`\\]|\Z)|<(?![\s\"'`\\]|\Z|/?[a-z][a-z0-9]{0,15}[ />]))"
)
_ASSIGNED_VALUE = (
    r"(?P<secret>(?:(?(quote)(?:(?!(?P=quote))(?:\\[\"'\\]|[^\r\n\x1b]))|" + _BARE + r")){%d,512})"
)
_WORD_VALUE = rf"(?P<quote>{_QUOTE})?(?P<secret>{_BARE}{{%d,256}})"


# What is between the lines of a key: quotes, numbers of lines, marks of a diff.
_KEY_GAP = rf"(?:[\s\"',+>|]|\\{{1,7}}[nr]|{_LINE_NUMBER})"
_KEYS = (
    *("api", "access", "auth", "account", "private", "encryption", "signing", "session"),
    *("master", "service", "client"),
)
_PASSWORDS = (
    *("password", "passwd", "passphrase", "passcode", "passwort", "kennwort", "contrasena"),
    *("senha", "wachtwoord", "haslo", "heslo", "parola", "motdepasse", "mot de passe"),
    *("contraseña", "hasło", "şifre", "lösenord", "пароль", "Пароль", "ПАРОЛЬ", "密码", "密碼"),
    *("口令", "パスワード", "비밀번호", "סיסמה", "סיסמא", "كلمة المرور"),
)
# The beginnings of base64 of numbers of ten digits and more.
_DISCORD = tuple(
    first + third
    for first in ("md", "mt", "mj", "mz", "nd", "nt", "nj", "nz", "od", "ot")
    for third in "aeimquycgk"
)


def _in_json(word: str) -> str:
    """Return the pattern of a word as JSON writes it in ASCII, once or within JSON."""
    return "".join(c if c.isascii() else rf"\\{{1,7}}u{ord(c):04x}" for c in word)


def _begins_in_json(word: str) -> Iterator[str]:
    """Yield what such a word begins with, where that is another beginning."""
    if not word[0].isascii():
        yield rf"\u{ord(word[0]):04x}"


_FOREIGN = tuple(word for word in _PASSWORDS if not word.isascii())
_PASSWORD_NEEDLES = (
    *_PASSWORDS,
    *dict.fromkeys(begin for word in _FOREIGN for begin in _begins_in_json(word)),
    "contrase",
    "has\\",
    "l\\",
)
_PASSWORD = rf"(?i:(?:{'|'.join([*_PASSWORDS, *map(_in_json, _FOREIGN)])})s?[_-]?\d{{0,2}})"
_IS = r"(?:is|was|ist|lautet|es|est|è|é|to|это)"
_LOGINS = (
    r"(?:sshpass|docker|podman|registry|az|mysql\w*|mariadb\w*|mongo\w*|psql|sqlcmd|smbclient)"
)

SECRETS: tuple[Secret, ...] = (
    Secret(
        "private_key",
        ("-----begin ", "private-lines: "),
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:"
        r"(?:[^-]|-(?!----))*-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        # A key that is cut off: its lines, as far as they look like a key's.
        rf"|(?:{_KEY_GAP}|[A-Za-z0-9-]{{1,20}}: [^\n\\]{{0,80}}(?:\n|\\{{1,7}}n))*"
        rf"[A-Za-z0-9+/=]{{16,}}(?:{_KEY_GAP}+[A-Za-z0-9+/=]{{16,}})*)"
        rf"|(?i:private-lines): \d{{1,4}}(?:{_KEY_GAP}+[A-Za-z0-9+/=]{{16,}})+",
        _has_key_material,
    ),
    _key("age_secret_key", r"AGE-SECRET-KEY-1[A-Z0-9]{58}", "age-secret-key-1"),
    _key("aws_access_key", r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}" + _END, "akia asia abia acca"),
    Secret(
        "aws_secret_key",
        ("secretkey", "secret_key", "secretacces", "secret_acces", "awssecret", "aws_secret"),
        r"(?i:secret_?(?:access_?)?key|aws_?secret)"
        + _ASSIGNED
        + r"(?P<secret>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
    ),
    _key("gcp_api_key", r"AIza[A-Za-z0-9_\-]{35}", "aiza"),
    _key("gcp_oauth_token", r"ya29\.[A-Za-z0-9_\-]{20,}", "ya29."),
    _key("gcp_oauth_secret", r"GOCSPX-[A-Za-z0-9_\-]{28}", "gocspx-"),
    Secret(
        "azure_storage_key",
        ("accountkey=", "sharedaccesskey="),
        r"(?i:AccountKey|SharedAccessKey)=(?P<secret>[A-Za-z0-9+/]{43,86}={0,2})",
    ),
    Secret(
        "azure_sas_signature",
        ("?sig=", "&sig=", ";sig="),
        r"[?&;]sig=(?P<secret>[A-Za-z0-9%+/]{40,128}=?)",
    ),
    Secret(
        "azure_client_secret", ("q~",), r"[A-Za-z0-9_~.\-]{3}[0-9]Q~[A-Za-z0-9_~.\-]{31,34}", lead=4
    ),
    _key(
        "github_token",
        r"(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{36,255})",
        "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_",
    ),
    _key(
        "gitlab_token",
        r"(?:gl(?:pat|ptt|dt|cbt|rt|ft|soat|imt|agent|oas|ffct)-[A-Za-z0-9_\-]{20,}(?:\.[A-Za-z0-9]{2,12})*"
        r"|GR1348941[A-Za-z0-9_\-]{20})",
        "glpat- glptt- gldt- glcbt- glrt- glft- glsoat- glimt- glagent- gloas- glffct- gr1348941",
    ),
    _key(
        "slack_token",
        r"(?:xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9\-]{10,}|xapp-[0-9]-[A-Za-z0-9\-]{10,})",
        "xox xapp-",
    ),
    Secret(
        "slack_webhook",
        ("hooks.slack.com/",),
        r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[A-Za-z0-9+/]{20,})",
    ),
    Secret(
        "discord_webhook",
        ("/api/webhooks/",),
        r"/api/webhooks/[0-9]{15,20}/(?P<secret>[A-Za-z0-9_\-]{60,})",
    ),
    _key("telegram_token", r"[0-9]{8,10}:AA[A-Za-z0-9_\-]{33}" + _END, ":aa", lead=10),
    _key(
        "stripe_key",
        r"(?:[sr]k_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/]{24,}={0,2})",
        "sk_live_ sk_test_ rk_live_ rk_test_ whsec_",
    ),
    _key("anthropic_api_key", r"sk-ant-[A-Za-z0-9_\-]{20,}", "sk-ant-"),
    _key(
        "openai_api_key",
        r"sk-(?:(?:proj|svcacct|admin|None)-[A-Za-z0-9_\-]{20,}|[A-Za-z0-9]{20,}T3BlbkFJ[A-Za-z0-9]{20,64}"
        r"|[A-Za-z0-9]{48}" + _END + ")",
        "sk-",
    ),
    Secret(
        "sk_api_key",  # OpenRouter, DeepSeek and others with keys in OpenAI's form
        ("sk-",),
        # "task-", "disk-" and "risk-" are words.
        r"(?<![aeioulAEIOUL])(?P<secret>sk-(?:or-v1-)?[A-Za-z0-9]{32,128})" + _END,
        _is_token,
        flags=re.ASCII,
    ),
    _key(
        "huggingface_token",
        r"(?:hf_[A-Za-z0-9]{30,64}|api_org_[A-Za-z0-9]{30,64})" + _END,
        "hf_ api_org_",
    ),
    _key("npm_token", r"npm_[A-Za-z0-9]{36}" + _END, "npm_"),
    _key("pypi_token", r"pypi-[A-Za-z0-9_\-]{50,}", "pypi-"),
    _key("rubygems_key", r"rubygems_[0-9a-f]{48}", "rubygems_"),
    _key("docker_token", r"dckr_(?:pat|oat)_[A-Za-z0-9_\-]{27,}", "dckr_"),
    _key("digitalocean_token", r"do[opr]_v1_[0-9a-f]{64}", "dop_v1_ doo_v1_ dor_v1_"),
    _key("databricks_token", r"dapi[0-9a-f]{32}(?:-[0-9])?" + _END, "dapi"),
    _key("shopify_token", r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}", "shpat_ shpca_ shppa_ shpss_"),
    _key("sendgrid_key", r"SG\.[A-Za-z0-9_\-]{22}\.[A-Za-z0-9_\-]{43}", "sg."),
    _key("twilio_key", r"SK[0-9a-f]{32}" + _END, "sk"),
    _key("mailgun_key", r"key-[0-9a-f]{32}" + _END, "key-"),
    _key("linear_key", r"lin_(?:api|oauth)_[A-Za-z0-9]{32,64}", "lin_"),
    _key(
        "notion_token", r"(?:ntn_[A-Za-z0-9]{40,64}|secret_[A-Za-z0-9]{43})" + _END, "ntn_ secret_"
    ),
    _key("airtable_token", r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}", "pat"),
    _key("supabase_key", r"sb(?:p_[0-9a-f]{40}|_secret_[A-Za-z0-9_\-]{20,})", "sbp_ sb_secret_"),
    _key("vault_token", r"hv[sb]\.[A-Za-z0-9_\-]{24,}", "hvs. hvb."),
    _key("terraform_token", r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_\-]{60,}", ".atlasv1.", lead=14),
    _key("grafana_token", r"gl(?:sa|c)_[A-Za-z0-9+/=_]{32,}", "glsa_ glc_"),
    _key("sentry_token", r"sntry[su]_[A-Za-z0-9+/=_]{32,}", "sntrys_ sntryu_"),
    _key("newrelic_key", r"NRAK-[A-Z0-9]{27}", "nrak-"),
    _key("postman_key", r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}", "pmak-"),
    _key("atlassian_token", r"AT(?:ATT3|CTT3|BBT3)[A-Za-z0-9_\-=]{32,}", "atatt3 atctt3 atbbt3"),
    _key("groq_api_key", r"gsk_[A-Za-z0-9]{48,64}" + _END, "gsk_"),
    _key("xai_api_key", r"xai-[A-Za-z0-9]{64,96}" + _END, "xai-"),
    _key("perplexity_api_key", r"pplx-[A-Za-z0-9]{40,64}" + _END, "pplx-"),
    _key("replicate_token", r"r8_[A-Za-z0-9]{37}" + _END, "r8_"),
    _key(
        "discord_token",
        r"(?:M[DTjz]|N[DTjz]|O[DT])[AEIMQUYcgk][A-Za-z0-9]{21,23}\.[A-Za-z0-9_\-]{6}\.[A-Za-z0-9_\-]{27,40}",
        " ".join(_DISCORD),
    ),
    _key("okta_token", r"SSWS[ \t]{1,4}[A-Za-z0-9_\-]{20,80}", "ssws"),
    Secret(
        "jwt",
        ("eyj",),
        # A long run is read from its beginning, else each "eyJ" in it for some way only.
        r"(?:(?<![A-Za-z0-9_\-])eyJ[A-Za-z0-9_\-]{8,}|eyJ[A-Za-z0-9_\-]{8,600})"
        r"\.eyJ[A-Za-z0-9_\-]{4,}(?:\.[A-Za-z0-9_\-]*)?",
    ),
    Secret(
        "url_password",
        ("://", "%3a%2f%2f"),
        r"""(?<=[A-Za-z0-9])(?:://|(?i:%3a%2f%2f))[^\s/?#:"'`<>\\]{0,128}(?::|%3[Aa])"""
        r"""(?P<secret>[^\s/?#"'`<>\\]{1,128})(?:@|%40)""",
        _is_url_password,
    ),
    Secret("url_token", ("://",), r"://(?P<secret>[A-Za-z0-9_\-]{20,128})@", _is_token),
    Secret(
        "authorization",
        ("authorization",),
        r"(?i:authorization)"
        + _ASSIGNED
        + r"(?:(?P<scheme>(?i:basic|bearer|token|digest|negotiate|apikey))[ \t]{1,4})?"
        r"(?P<secret>[A-Za-z0-9._~+/\-]{8,}={0,2})",
        _is_credential,
    ),
    Secret(
        "bearer_token",
        ("bearer ",),
        r"(?i:bearer) {1,4}(?P<secret>[A-Za-z0-9._~+/\-]{16,}={0,2})",
        _is_token,
        flags=re.ASCII,
    ),
    Secret(
        "basic_credentials",
        ("-u ", "-u=", "--user ", "--user="),
        r"""(?P<scheme>-u|--user)[ =]{1,4}["']?[^\s:"']{1,64}:"""
        r"""(?P<secret>[^\s"'`<>$\\\x1b]{3,128})""",
        _is_credential,
        also="curl",
    ),
    Secret(
        "encoded_credentials",
        ("auth",),
        rf"(?i:auth)(?:{_QUOTE})?{_GAP}[:=]{_GAP}(?:{_QUOTE})?(?P<secret>[A-Za-z0-9+/]{{8,512}}={{0,2}})",
        _is_name_and_password,
    ),
    Secret(
        "cookie",
        ("cookie",),
        rf"(?i:cookies?)(?:{_QUOTE})?{_GAP}[:=]{_GAP}(?:{_QUOTE})?"
        r"(?P<secret>[A-Za-z0-9_.\-]{1,64}=[^\s\"'\\\x1b;]{0,1024}"
        r"(?:; ?[A-Za-z0-9_.\-]{1,64}(?:=[^\s\"'\\\x1b;]{0,1024})?){0,40})",
        _has_random_cookie,
    ),
    Secret(
        "password_variable",  # DB_PASSWORD=... up to white space, whatever it is made of
        ("password=", "passwd=", "passphrase=", "pass=", "pwd="),
        r"(?:PASSWORD|PASSWD|PASSPHRASE|(?<=_)PASS|(?<=_)PWD)="
        r"(?P<secret>(?:[^\s\"'`\\\x1b]|\\(?![nrtbfuvx0\"'`\\/])){6,256})",
        _is_variable,
    ),
    Secret(
        "password",
        (*_PASSWORD_NEEDLES, "pwd"),
        rf"(?:{_PASSWORD}|(?i:pwd)\d{{0,2}}){_ASSIGNED}" + _ASSIGNED_VALUE % 6,
        _is_password,
    ),
    Secret(
        "password_element",
        ("password>", "passwd>", "passphrase>", "pwd>", "secret>", "token>", "apikey>"),
        r"(?i:password|passwd|passphrase|pwd|secret|token|apikey)>(?P<secret>[^<>\s]{4,256})(?=</)",
        _is_argument,
    ),
    Secret(
        "password_in_words",
        _PASSWORD_NEEDLES,
        rf"{_PASSWORD}[ \t]{{1,4}}{_IS}:?[ \t]{{1,4}}" + _WORD_VALUE % 6,
        _is_strong,
    ),
    Secret(
        "command_option",
        (
            "--pass",
            "--token",
            "--secret",
            "--api",
            "--auth",
            "--access",
            "--client-secret",
            "--db-pass",
        ),
        r"--(?:[a-z]{1,16}-){0,2}(?:pass(?:word|wd|phrase|code)?|token|secret|(?:api|access|auth)-?(?:key|token))"
        rf"(?:=|[ \t]{{1,4}})(?P<quote>{_QUOTE})?" + _ASSIGNED_VALUE % 6,
        _is_argument,
    ),
    Secret(
        "command_password",
        ("sshpass", "docker", "podman", "registry", "az ", "mysql", "mariadb", "mongo", "sqlcmd"),
        rf"(?:{_LOGINS})\b[^\n\\|;&]{{0,200}}?[ \t]-[pP][ \t=]?(?P<quote>{_QUOTE})?"
        + _ASSIGNED_VALUE % 6,
        _is_password,
    ),
    Secret(
        "command_secret",
        ("redis-cli", "ldap", "-passin", "-passout", "-pass ", "smbclient", "htpasswd"),
        r"(?:redis-cli\b[^\n\\|;&]{0,200}?[ \t]-a[ \t]"
        r"|ldap[a-z]{3,12}\b[^\n\\|;&]{0,200}?[ \t]-w[ \t]|-pass(?:in|out)?[ \t]pass:"
        r"|smbclient\b[^\n\\|;&]{0,200}?[ \t]-U[ \t][^\s%]{1,64}%"
        r"|htpasswd\b[^\n\\|;&]{0,20}?b[^\n\\|;&]{0,100}?[ \t][\w.\-]{1,64}[ \t])"
        rf"(?P<quote>{_QUOTE})?" + _ASSIGNED_VALUE % 6,
        _is_password,
    ),
    Secret(
        "netrc_password",
        ("login ", "login\t"),
        rf"login[ \t]{{1,4}}[^\s\"'\\]{{1,128}}{_SPACE}{{1,8}}password[ \t]{{1,4}}"
        r"(?P<secret>[^\s\"'`\\\x1b<]{3,256})",
        _is_url_password,
    ),
    Secret(
        "pgpass_password",
        (":5432:", ":5433:", ":6432:", ":*:"),
        r":(?:5432|5433|6432|\*):[^\s:/\"'\\]{1,64}:[^\s:/\"'\\]{1,64}:(?P<secret>[^\s\"'`\\\x1b<]{4,256})",
        _is_url_password,
    ),
    Secret(
        "weak_password",
        ("pass",),
        r"(?:(?:(?<![A-Za-z])|(?<=[0-9\[;][mK])|(?<=\\[nrt])|(?<=3[Dd]))[Pp]ass|(?<=[a-z])Pass|PASS)\d{0,2}"
        + _ASSIGNED
        + _ASSIGNED_VALUE % 6,
        _is_weak_password,
    ),
    Secret(
        "secret",
        (
            *("secret", "token", "credential", "_pat", "-pat", "signature", "key-data"),
            *(name + between + "key" for name in _KEYS for between in ("", "_", "-")),
        ),
        r"(?i:secret(?:[_-]?key|[_-]?base)?|(?<!page)(?<!page[_-])token|credentials?|[_-]pat"
        rf"|(?<=[?&;-])signature|key-data|(?:{'|'.join(_KEYS)})[_-]?key)"
        + _ASSIGNED
        + _ASSIGNED_VALUE % 12,
        _is_token,
    ),
    # Has no needles: `redaction.secrets_in` looks into what it encodes.
    Secret(
        "encoded_secret",
        (),
        r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/][A-Za-z0-9+/_-]{23,}(?:\r?\n[A-Za-z0-9+/_-]{24,})*"
        r"(?:\r?\n[A-Za-z0-9+/_-]{2,23}(?![A-Za-z0-9+/_-]))?={0,2}",
    ),
)
"""The more exact patterns come first: where two overlap, the first gives the name."""

NAMES = tuple(secret.name for secret in SECRETS)
