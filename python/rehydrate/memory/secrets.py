"""The table of secrets: the patterns of keys, tokens and passwords, each with a name.

A pattern is tried only where one of its `needles` occurs; one pass finds them all. Every pattern
takes linear time: an unbounded repeat is followed by nothing, or cannot begin again inside itself.
The group `secret` is removed; without that group, the whole match.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

# A key may begin after anything but a letter, a digit or "_", or after the \n of a string in JSON
# or in source code.
_START = r"(?:(?<![A-Za-z0-9_])|(?<=\\[nrt]))"
_END = r"(?![A-Za-z0-9_])"


class Secret(NamedTuple):
    """One kind of secret."""

    name: str
    needles: tuple[str, ...]
    """In lower case. Each match begins with one of them, at most `lead` characters before it."""
    pattern: re.Pattern[str]
    is_one: Callable[[re.Match[str]], bool] = lambda _match: True
    """A last check of a match."""
    lead: int = 0
    """Maximum number of characters before the needle."""
    beside: str = ""
    """A second literal, in lower case, that the text must hold too."""


def _key(name: str, pattern: str, *needles: str, lead: int = 0) -> Secret:
    return Secret(name, needles, re.compile(_START + pattern, re.ASCII), lead=lead)


def _value(match: re.Match[str]) -> str:
    return match["secret"]


_PLACEHOLDER = re.compile(
    r"""[<{$%\[*]|.*\$[{(]|.*\{\{|[xX*.\-_•]+$|
    (?:your|my|some|the|example|dummy|fake|placeholder)[-_ ]
    |(?:none|null|true|false|undefined|changeme|redacted|secret|password|token)$""",
    re.IGNORECASE | re.VERBOSE,
)


def is_placeholder(value: str) -> bool:
    """Return whether a value only stands for a secret, as ``${PASSWORD}`` or ``your-key-here`` do.

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
        and any(map(str.isdigit, value))
        and any(map(str.isalpha, value))
        and entropy_bits(value) >= least_bits
        and not is_placeholder(value)
        and not _NAME_LIKE.match(value)
    )


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


def _is_password(match: re.Match[str]) -> bool:
    """Return whether it looks like a person's password: short, letters mixed with anything else."""
    value = _value(match)
    if is_placeholder(value) or _is_called(match) or _CODE.match(value):
        return False
    has_letter = any(map(str.isalpha, value))
    mixes = any(not char.isalpha() and char not in "-_./:" for char in value)
    return (has_letter and mixes) or (value.isdigit() and len(value) >= 8)


def _is_token(match: re.Match[str]) -> bool:
    return looks_random(_value(match)) and not _is_called(match)


def _is_called(match: re.Match[str]) -> bool:
    """Return whether the value is a call in code: `password = make_one(...)`."""
    end = match.end("secret")
    return match.string[end : end + 1] in {"(", "["}


def _is_credential(match: re.Match[str]) -> bool:
    value = _value(match)
    if match["scheme"] is None:
        return _is_token(match) and value.lower() not in _SCHEMES
    return not is_placeholder(value)


_SCHEMES = {"basic", "bearer", "token", "digest", "negotiate", "apikey", "aws4-hmac-sha256"}


def _has_key_material(match: re.Match[str]) -> bool:
    return re.search(r"[A-Za-z0-9+/=]{16}", match[0].partition("KEY")[2]) is not None


_ASSIGNED = r"""\\?["'`]?[ \t]{0,8}(?::=|=>|=|:)[ \t]{0,8}(?:b?\\?["'`])?"""
_ASSIGNED_VALUE = r"""(?P<secret>[^\s"'`,;<>(){}\[\]|&\\]{%d,512})"""


def _assigned(*words: str) -> tuple[str, ...]:
    """Return the words with each separator that may follow them in `_ASSIGNED`."""
    return tuple(word + behind for word in words for behind in "\\\"'` \t:=")


_KEYS = (
    *("api", "access", "auth", "account", "private", "encryption", "signing", "session"),
    *("master", "service", "client"),
)

SECRETS: tuple[Secret, ...] = (
    Secret(
        "private_key",
        ("-----begin ",),
        re.compile(
            r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:"
            r"(?:[^-]|-(?!----))*-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
            # A key that is cut off: its lines, as far as they look like a key's.
            r"|(?:[\s\"',]|\\[nr]|[A-Za-z0-9-]{1,20}: [^\n\\]{0,80}(?:\n|\\n))*"
            r"[A-Za-z0-9+/=]{16,}(?:(?:[\s\"',]|\\[nr])+[A-Za-z0-9+/=]{16,})*)"
        ),
        _has_key_material,
    ),
    _key("age_secret_key", r"AGE-SECRET-KEY-1[A-Z0-9]{58}", "age-secret-key-1"),
    _key(
        "aws_access_key",
        r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}" + _END,
        "akia",
        "asia",
        "abia",
        "acca",
    ),
    Secret(
        "aws_secret_key",
        _assigned(
            "secretkey",
            "secret_key",
            "secretaccesskey",
            "secret_accesskey",
            "secretaccess_key",
            "secret_access_key",
            "awssecret",
            "aws_secret",
        ),
        re.compile(
            r"(?i:secret_?(?:access_?)?key|aws_?secret)"
            + _ASSIGNED
            + r"(?P<secret>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])"
        ),
    ),
    _key("gcp_api_key", r"AIza[A-Za-z0-9_\-]{35}", "aiza"),
    _key("gcp_oauth_token", r"ya29\.[A-Za-z0-9_\-]{20,}", "ya29."),
    _key("gcp_oauth_secret", r"GOCSPX-[A-Za-z0-9_\-]{28}", "gocspx-"),
    Secret(
        "azure_storage_key",
        ("accountkey=", "sharedaccesskey="),
        re.compile(r"(?i:AccountKey|SharedAccessKey)=(?P<secret>[A-Za-z0-9+/]{43,86}={0,2})"),
    ),
    Secret(
        "azure_sas_signature",
        ("?sig=", "&sig=", ";sig="),
        re.compile(r"[?&;]sig=(?P<secret>[A-Za-z0-9%+/]{40,128}=?)"),
    ),
    Secret(
        "azure_client_secret",
        ("q~",),
        re.compile(
            r"(?:(?<![A-Za-z0-9_~.\-])|(?<=\\[nrt]))[A-Za-z0-9_~.\-]{3}[0-9]Q~[A-Za-z0-9_~.\-]{31,34}"
        ),
        lead=4,
    ),
    _key(
        "github_token",
        r"(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{36,255})",
        "ghp_",
        "gho_",
        "ghu_",
        "ghs_",
        "ghr_",
        "github_pat_",
    ),
    _key(
        "gitlab_token",
        r"(?:gl(?:pat|ptt|dt|cbt|rt|ft|soat|imt|agent|oas|ffct)-[A-Za-z0-9_\-]{20,}(?:\.[A-Za-z0-9]{2,12})*"
        r"|GR1348941[A-Za-z0-9_\-]{20})",
        "glpat-",
        "glptt-",
        "gldt-",
        "glcbt-",
        "glrt-",
        "glft-",
        "glsoat-",
        "glimt-",
        "glagent-",
        "gloas-",
        "glffct-",
        "gr1348941",
    ),
    _key(
        "slack_token",
        r"(?:xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9\-]{10,}|xapp-[0-9]-[A-Za-z0-9\-]{10,})",
        "xox",
        "xapp-",
    ),
    Secret(
        "slack_webhook",
        ("hooks.slack.com/",),
        re.compile(
            r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[A-Za-z0-9+/]{20,})"
        ),
    ),
    Secret(
        "discord_webhook",
        ("/api/webhooks/",),
        re.compile(r"/api/webhooks/[0-9]{15,20}/(?P<secret>[A-Za-z0-9_\-]{60,})"),
    ),
    _key("telegram_token", r"[0-9]{8,10}:AA[A-Za-z0-9_\-]{33}" + _END, ":aa", lead=10),
    _key(
        "stripe_key",
        r"(?:[sr]k_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/]{24,}={0,2})",
        "sk_live_",
        "sk_test_",
        "rk_live_",
        "rk_test_",
        "whsec_",
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
        re.compile(_START + r"(?P<secret>sk-(?:or-v1-)?[A-Za-z0-9]{32,128})" + _END, re.ASCII),
        _is_token,
    ),
    _key(
        "huggingface_token",
        r"(?:hf_[A-Za-z0-9]{30,64}|api_org_[A-Za-z0-9]{30,64})" + _END,
        "hf_",
        "api_org_",
    ),
    _key("npm_token", r"npm_[A-Za-z0-9]{36}" + _END, "npm_"),
    _key("pypi_token", r"pypi-[A-Za-z0-9_\-]{50,}", "pypi-"),
    _key("rubygems_key", r"rubygems_[0-9a-f]{48}", "rubygems_"),
    _key("docker_token", r"dckr_(?:pat|oat)_[A-Za-z0-9_\-]{27,}", "dckr_"),
    _key("digitalocean_token", r"do[opr]_v1_[0-9a-f]{64}", "dop_v1_", "doo_v1_", "dor_v1_"),
    _key("databricks_token", r"dapi[0-9a-f]{32}(?:-[0-9])?" + _END, "dapi"),
    _key(
        "shopify_token",
        r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}",
        "shpat_",
        "shpca_",
        "shppa_",
        "shpss_",
    ),
    _key("sendgrid_key", r"SG\.[A-Za-z0-9_\-]{22}\.[A-Za-z0-9_\-]{43}", "sg."),
    _key("twilio_key", r"SK[0-9a-f]{32}" + _END, "sk"),
    _key("mailgun_key", r"key-[0-9a-f]{32}" + _END, "key-"),
    _key("linear_key", r"lin_(?:api|oauth)_[A-Za-z0-9]{32,64}", "lin_"),
    _key(
        "notion_token",
        r"(?:ntn_[A-Za-z0-9]{40,64}|secret_[A-Za-z0-9]{43})" + _END,
        "ntn_",
        "secret_",
    ),
    _key("airtable_token", r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}", "pat"),
    _key("supabase_key", r"sb(?:p_[0-9a-f]{40}|_secret_[A-Za-z0-9_\-]{20,})", "sbp_", "sb_secret_"),
    _key("vault_token", r"hv[sb]\.[A-Za-z0-9_\-]{24,}", "hvs.", "hvb."),
    _key("terraform_token", r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_\-]{60,}", ".atlasv1.", lead=14),
    _key("grafana_token", r"gl(?:sa|c)_[A-Za-z0-9+/=_]{32,}", "glsa_", "glc_"),
    _key("sentry_token", r"sntry[su]_[A-Za-z0-9+/=_]{32,}", "sntrys_", "sntryu_"),
    _key("newrelic_key", r"NRAK-[A-Z0-9]{27}", "nrak-"),
    _key("postman_key", r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}", "pmak-"),
    _key(
        "atlassian_token", r"AT(?:ATT3|CTT3|BBT3)[A-Za-z0-9_\-=]{32,}", "atatt3", "atctt3", "atbbt3"
    ),
    _key("groq_api_key", r"gsk_[A-Za-z0-9]{48,64}" + _END, "gsk_"),
    _key("xai_api_key", r"xai-[A-Za-z0-9]{64,96}" + _END, "xai-"),
    _key("perplexity_api_key", r"pplx-[A-Za-z0-9]{40,64}" + _END, "pplx-"),
    _key("replicate_token", r"r8_[A-Za-z0-9]{37}" + _END, "r8_"),
    Secret(
        "jwt",
        ("eyj",),
        # It begins only where its alphabet does; else a long run would be searched at each "eyJ".
        re.compile(
            r"(?:(?<![A-Za-z0-9_\-])|(?<=\\[nrt]))"
            r"eyJ[A-Za-z0-9_\-]{8,}\.eyJ[A-Za-z0-9_\-]{4,}(?:\.[A-Za-z0-9_\-]*)?"
        ),
    ),
    Secret(
        "url_password",
        ("://",),
        re.compile(
            r"""(?<=[A-Za-z0-9])://[^\s/?#:@"'`<>\\]{0,128}:(?P<secret>[^\s/?#"'`<>\\]{1,128})@"""
        ),
        lambda match: not is_placeholder(_value(match)) or _value(match) in {"password", "secret"},
    ),
    Secret(
        "authorization",
        _assigned("authorization"),
        re.compile(
            r"(?i:authorization)"
            + _ASSIGNED
            + r"(?:(?P<scheme>(?i:basic|bearer|token|digest|negotiate|apikey))[ \t]{1,4})?"
            r"(?P<secret>[A-Za-z0-9._~+/\-]{8,}={0,2})"
        ),
        _is_credential,
    ),
    Secret(
        "bearer_token",
        ("bearer ",),
        re.compile(r"(?i:\bbearer) {1,4}(?P<secret>[A-Za-z0-9._~+/\-]{16,}={0,2})", re.ASCII),
        _is_token,
    ),
    Secret(
        "basic_credentials",
        ("-u ", "-u=", "--user ", "--user="),
        re.compile(
            r"""(?P<scheme>-u|--user)[ =]{1,4}["']?[^\s:"']{1,64}:(?P<secret>[^\s"'`<>$]{3,128})"""
        ),
        _is_credential,
        beside="curl",
    ),
    Secret(
        "password",
        _assigned("password", "passwords", "passwd", "passphrase", "pwd"),
        re.compile(r"(?i:passwords?|passwd|passphrase|pwd)" + _ASSIGNED + _ASSIGNED_VALUE % 6),
        _is_password,
    ),
    Secret(
        "secret",
        _assigned(
            *("secret", "secretkey", "secret_key", "secret-key"),
            *("secretbase", "secret_base", "secret-base"),
            *("token", "credential", "credentials"),
            *(name + between + "key" for name in _KEYS for between in ("", "_", "-")),
        ),
        re.compile(
            r"(?i:secret(?:[_-]?key|[_-]?base)?|(?<!page)(?<!page[_-])token|credentials?"
            rf"|(?:{'|'.join(_KEYS)})[_-]?key)" + _ASSIGNED + _ASSIGNED_VALUE % 12
        ),
        _is_token,
    ),
)
"""The more exact patterns come first: where two overlap, the first gives the name."""

NAMES = tuple(secret.name for secret in SECRETS)
