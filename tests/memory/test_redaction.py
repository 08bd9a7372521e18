"""Secrets of every format are removed, and nothing else is."""

from __future__ import annotations

import json
import random
import re
import string
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from rehydrate import Memory
from rehydrate.errors import InvalidArgumentError
from rehydrate.memory import MemoryItem, Redaction, Redactor, secrets_in

_chance = random.Random(7)
_ALNUM = string.ascii_letters + string.digits


def _random(length: int, alphabet: str = _ALNUM) -> str:
    return "".join(_chance.choices(alphabet, k=length))


def _jwt() -> str:
    return f"eyJ{_random(20)}.eyJ{_random(40)}.{_random(43, _ALNUM + '-_')}"


def _pem(kind: str) -> str:
    lines = "\n".join(_random(64, _ALNUM + "+/") for _ in range(5))
    return f"-----BEGIN {kind}-----\n{lines}\n-----END {kind}-----"


_HEX = "0123456789abcdef"

# Random, and built from parts: no real key, and nothing that a scanner of repositories would
# report.
KEYS = {
    "private_key": [
        _pem(kind + "PRIVATE KEY") for kind in ("", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED ")
    ]
    + [_pem("PGP PRIVATE KEY BLOCK"), _pem("PRIVATE KEY").replace("\n", "\\n")],
    "age_secret_key": ["AGE-SECRET-KEY-1" + _random(58, string.ascii_uppercase)],
    "aws_access_key": [prefix + _random(16, string.ascii_uppercase) for prefix in ("AKIA", "ASIA")],
    "gcp_api_key": ["AIza" + _random(35)],
    "gcp_oauth_token": ["ya29." + _random(60)],
    "gcp_oauth_secret": ["GOCSPX-" + _random(28)],
    "azure_client_secret": [_random(3) + "8Q~" + _random(34)],
    "github_token": [f"gh{kind}_" + _random(36) for kind in "pousr"]
    + ["github_pat_" + _random(22) + "_" + _random(59)],
    "gitlab_token": ["glpat-" + _random(20), "glrt-" + _random(20), "GR1348941" + _random(20)],
    "slack_token": [
        "xoxb-" + _random(12, string.digits) + "-" + _random(24),
        "xapp-1-" + _random(40),
    ],
    "telegram_token": [_random(9, "123456789") + ":AA" + _random(33)],
    "stripe_key": ["sk_live_" + _random(24), "rk_test_" + _random(24), "whsec_" + _random(32)],
    "anthropic_api_key": ["sk-ant-api03-" + _random(93, _ALNUM + "-_") + "AA"],
    "openai_api_key": [
        "sk-proj-" + _random(60, _ALNUM + "-_") + "a",
        "sk-" + _random(20) + "T3BlbkFJ" + _random(20),
        "sk-" + _random(48),
    ],
    "sk_api_key": ["sk-or-v1-" + _random(60, _HEX) + "abc1", "sk-" + _random(31, _HEX) + "7"],
    "huggingface_token": ["hf_" + _random(34), "api_org_" + _random(34)],
    "npm_token": ["npm_" + _random(36)],
    "pypi_token": ["pypi-AgEIcHlwaS5vcmc" + _random(120, _ALNUM + "-_") + "a"],
    "rubygems_key": ["rubygems_" + _random(48, _HEX)],
    "docker_token": ["dckr_pat_" + _random(27)],
    "digitalocean_token": ["dop_v1_" + _random(64, _HEX)],
    "databricks_token": ["dapi" + _random(32, _HEX)],
    "shopify_token": ["shpat_" + _random(32, _HEX)],
    "sendgrid_key": ["SG." + _random(22) + "." + _random(43)],
    "twilio_key": ["SK" + _random(32, _HEX)],
    "mailgun_key": ["key-" + _random(32, _HEX)],
    "linear_key": ["lin_api_" + _random(40)],
    "notion_token": ["ntn_" + _random(46), "secret_" + _random(43)],
    "airtable_token": ["pat" + _random(14) + "." + _random(64, _HEX)],
    "supabase_key": ["sbp_" + _random(40, _HEX)],
    "vault_token": ["hvs." + _random(90)],
    "terraform_token": [_random(14) + ".atlasv1." + _random(67)],
    "grafana_token": ["glsa_" + _random(32) + "_" + _random(8, _HEX)],
    "sentry_token": ["sntrys_" + _random(80)],
    "newrelic_key": ["NRAK-" + _random(27, string.ascii_uppercase)],
    "postman_key": ["PMAK-" + _random(24, _HEX) + "-" + _random(34, _HEX)],
    "atlassian_token": ["ATATT3" + _random(180)],
    "groq_api_key": ["gsk_" + _random(52)],
    "xai_api_key": ["xai-" + _random(80)],
    "perplexity_api_key": ["pplx-" + _random(48)],
    "replicate_token": ["r8_" + _random(37)],
    "discord_token": ["MTA" + _random(23) + ".G" + _random(5) + "." + _random(38)],
    "okta_token": ["SSWS 00" + _random(40)],
    "jwt": [_jwt()],
}
# Only a part of the match is the secret: text, secret.
IN_PLACE = {
    "aws_secret_key": [
        ("aws_secret_access_key = {}", _random(40, _ALNUM + "/+")),
        ('"SecretAccessKey": "{}"', _random(40, _ALNUM + "/+")),
    ],
    "azure_storage_key": [
        ("AccountName=a;AccountKey={};EndpointSuffix=core", _random(86) + "=="),
        ("SharedAccessKey={}", _random(43) + "="),
    ],
    "azure_sas_signature": [("https://a.blob/c?sv=2022&sig={}&se=2026", _random(43) + "%3D")],
    "slack_webhook": [
        ("https://hooks.slack.com/services/{}", "T0" + _random(8) + "/B0/" + _random(24))
    ],
    "discord_webhook": [("https://discord.com/api/webhooks/123456789012345678/{}", _random(68))],
    "url_password": [
        ("postgres://app:{}@db.internal:5432/main", "hunter2"),
        ("https://user:{}@example.org/x?y", "p@ss:w0rd!"),
        ("redis://:{}@cache:6379/0", "s3cr3t"),
        ("amqp://admin:{}@mq", "guest"),
        ("postgres://app@srv:{}@srv.postgres.database.azure.com/db", "Hunter2!x9"),
        ("u=postgres%3A%2F%2Fapp%3A{}%40db", "hunter2"),
        ("postgresql://admin:{}@db/x", "Sup3r/Secret"),
        ("postgresql://admin:{}@db:5432/x?sslmode=require", "p%40ss/w0rdX"),
    ],
    "url_token": [("https://{}@github.com/o/r.git", _random(39, _HEX) + "7")],
    "encoded_credentials": [
        ("//reg.io/:_auth={}", b64encode(b"me:Hunter2!x9zz").decode()),
        ('"auths": {{"reg.io": {{"auth": "{}"}}}}', b64encode(b"me:Hunter2!x9zz").decode()),
    ],
    "encoded_secret": [
        ("K={}", b64encode(b"ghp_" + b"aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5").decode()),
        ("data:\n  it: {}\n", b64encode(b"DB_PASSWORD=Hunter2!x9\n").decode()),
        ("> {}", b64encode(b"postgres://app:Hunter2!x9@db.internal/main").decode()),
    ],
    "cookie": [
        ("Set-Cookie: {}; HttpOnly", "session=" + _random(39) + "7"),
        ("Cookie: {}", "theme=dark; sid=" + _random(39) + "7"),
    ],
    "private_key": [
        ("Encryption: none\nPrivate-Lines: 1\n{}\n", _random(48, _ALNUM + "+/")),
        ("     1→-----BEGIN RSA PRIVATE KEY-----\n     2→{}\n     3→", _random(64)),
    ],
    "password_variable": [
        ("DB_PASSWORD={}", "aB3;cd(9)&x,[y]{z}"),
        ("export DB_PASS={}", "Hunter2!x9"),
        ("PGPASSWORD={} psql", "x9$kk!2a"),
    ],
    "password_element": [("<password>{}</password>", "Hunter2!x9")],
    "password_in_words": [
        ("the password is {}", "Hunter2!x9"),
        ("das Passwort lautet {}", "Hunter2!x9"),
    ],
    "weak_password": [("pass: {}", "Hunter2!x9"), ('dbPass = "{}"', "Hunter2!x9")],
    "command_option": [
        ("mysql --password {} -h db", "Hunter2!x9"),
        ("tool --api-token={}", _random(31) + "7"),
        ('["mysql", "--password", "{}"]', "Hunter2!x9"),
    ],
    "command_password": [
        ("mysql -u root -p{} shop", "Hunter2!x9"),
        ("sshpass -p {} ssh root@h", "Hunter2!x9"),
        ("docker login -u me -p {} reg.io", "Hunter2!x9"),
        ('["mysql","-p{}","-uroot"]', "Wr0ub4dor9"),
        ('["sshpass", "-p", "{}", "ssh"]', "Wr0ub4dor9"),
    ],
    "command_secret": [
        ("redis-cli -h cache -a {} ping", "Hunter2!x9"),
        ("openssl rsa -passin pass:{}", "Hunter2!x9"),
    ],
    "netrc_password": [("machine api.x.com login me password {}", "Hunter2!x9")],
    "pgpass_password": [("db.internal:5432:main:app:{}", "Hunter2!x9zq")],
    "authorization": [
        ("Authorization: Bearer {}", _random(30)),
        ("authorization: Basic {}", "dXNlcjpodW50ZXIy"),
        ('-H "Authorization: token {}"', _random(40, _HEX)),
        ('{{"Authorization": "Bearer {}"}}', _random(24)),
        ('{{\\"Authorization\\": \\"Bearer {}\\"}}', _random(24)),
    ],
    "bearer_token": [("send the bearer {} with it", _random(29) + "7")],
    "basic_credentials": [("curl -u admin:{} https://example.org", "hunter2!")],
    "password": [
        ("password={}", "hunter22"),
        ("DB_PASSWORD: '{}'", "Tr0ub4dor&3"),
        ('"password": "{}"', "c0rrect-horse"),
        ('{{\\"passwd\\": \\"{}\\"}}', "hunter22"),
        ("pwd := `{}`", "hunter-22"),
        ("Server=db;Password={};Database=x", "Hunter2!x9"),
        ("Passwort: {}", "Hunter2!x9"),
        ("contraseña: {}", "Hunter2!x9"),
        ("пароль: {}", "Hunter2!x9"),
        ("密码：{}", "Hunter2!x9"),
        ('"password": "{}"', "correct horse battery staple 9!"),
        ("password=${}", "ecret2024!"),
        ('<add key="DbPassword" value="{}"/>', "Hunter2!x9"),
        ("- name: DB_PASSWORD\n  value: {}", "Hunter2!x9"),
        ("password=\x1b[32m{}\x1b[0m", "Hunter2!x9"),
        ('DB_PASSWORD: str = "{}"', "Tr0ub4dor&3"),
        ("password: string | null = '{}';", "Tr0ub4dor&3"),
        ("private password?: string = '{}'", "Tr0ub4dor&3"),
        ('var dbPassword string = "{}"', "Tr0ub4dor&3"),
        ('char password[] = "{}";', "Tr0ub4dor&3"),
        ('password: Final[str] = b"{}"', "Tr0ub4dor&3"),
        ('password = """{}"""', "Tr0ub4dor&3"),
        ('password = (\n    "{}"\n)', "Tr0ub4dor&3"),
        ('password =\n    "{}"', "Tr0ub4dor&3"),
        ("db:\n  password: |-\n    {}\n", "Tr0ub4dor&3"),
        ("password:\n  value: {}\n", "Tr0ub4dor&3"),
        ('{{"passwords": ["{}"]}}', "Tr0ub4dor&3"),
        ('{{"passwords": ["short", "none",\n  "{}"]}}', "Tr0ub4dor&3"),
        ('{{"password": {{"value": "{}"}}}}', "Tr0ub4dor&3"),
        ("CREATE USER a WITH PASSWORD '{}';", "Tr0ub4dor&3"),
        ("CREATE USER a IDENTIFIED BY '{}'", "Tr0ub4dor&3"),
        ("ALTER USER a IDENTIFIED WITH caching_sha2_password BY '{}'", "Tr0ub4dor&3"),
        ("password: {}", "bob/Tr0ub4dor&3"),
    ],
    "secret": [
        ("api_key = '{}'", _random(31) + "7"),
        ("API-KEY: {}", _random(31) + "7"),
        ('"client_secret": "{}"', _random(31) + "7"),
        ("x-auth-token: {}", _random(31) + "7"),
        ("export MY_TOKEN={}", _random(31) + "7"),
        ("githubToken => {}", _random(31) + "7"),
        ('{{"name": "API_TOKEN", "value": "{}"}}', _random(31) + "7"),
        ("client-key-data: {}", b64encode(_random(60).encode()).decode()),
        ('api_key: str = "{}"', "aB3dE5gH7jK9mNpQ"),
        ('let token: &str = "{}";', "aB3dE5gH7jK9mNpQ"),
        ('token: &\'static str = "{}"', "aB3dE5gH7jK9mNpQ"),
        ("SECRET_KEY = '{}'", "django-insecure-" + _random(46, _ALNUM + "!@#$%^&*(-_=+)") + "a1B2"),
        ("AZURE_DEVOPS_EXT_PAT={}", _random(50, "abcdefghijklmnopqrstuvwxyz234567") + "a7"),
        ("https://api.x.com/v1?api_key={}&q=1", _random(31) + "7"),
    ],
}
KNOWN = [(name, "{}", key) for name, keys in KEYS.items() for key in keys] + [
    (name, frame, secret) for name, found in IN_PLACE.items() for frame, secret in found
]
AROUND = [
    "{}",
    "first line\n{}\nlast line",
    "say ({}), then",
    "'{}'",
    '{{"text": "a line\\n{}\\nanother"}}',
    "שלום {} 記憶",
    "\x1b[32m{}\x1b[0m",
    ".env:3:\x1b[01;31m\x1b[K{}\x1b[m\x1b[K",
    '"\\u001b[32m{}\\u001b[0m"',
    "https://x/cb?u=https%3A%2F%2Fy%3Ft%3D{}",
    '"t\\u003d{}"',
    '"\\x00{}"',
    "{{{}}}",
    "令牌{}。",
    "_{}_",
    "\u200b{}\u200b",
    "<td>{}</td>",
    "`{}`",
]
WRITTEN: dict[str, Callable[[str], str]] = {
    "json": lambda text: json.dumps({"k": text}),
    "json in json": lambda text: json.dumps({"k": json.dumps({"k": text})}),
    "utf-8 json": lambda text: json.dumps({"k": text}, ensure_ascii=False),
    "numbered": lambda text: "\n".join(
        f"{n:>6}→{line}" for n, line in enumerate(text.split("\n"), 1)
    ),
    "diff": lambda text: "\n".join(f"+{line}" for line in text.split("\n")),
    "crlf": lambda text: text.replace("\n", "\r\n") + "\r\n",
    "coloured json": lambda text: json.dumps(f"\x1b[32m{text}\x1b[0m"),
}
HARMLESS = [
    "max_tokens: 4096, next_page_token=abc123def456ghi7",
    "password: string; token: str | None; secret = getpass.getpass()",
    'password = os.environ["DB_PASSWORD"]; token=$TOKEN',
    "Set api_key=YOUR_API_KEY or <your-token-here>, password=********",
    "postgres://app:${DB_PASSWORD}@db/main and https://{user}:{password}@host",
    "commit 3f786850e387550fdab836ed7e6dc881de23001b fixes the tokenizer",
    "id 550e8400-e29b-41d4-a716-446655440000 on 2026-02-17T12:00:00Z, v1.2.3",
    "http://localhost:8080/path@2x.png and git@github.com:openai/tiktoken.git",
    "sk-learn, pk_live_abcdefghijklmnop, AKIA, eyJ, hf_hub, npm_config, ghp_ prefixes",
    "The password is what you agreed on; the secret key to success is patience.",
    "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n-----END PUBLIC KEY-----",
    "mail anna@example.org about ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ",
    "token = tokens[index + 1]; private_key = ed25519.Ed25519PrivateKey.generate()",
    "Authorization: <token> and headers.get('authorization')",
    "password = db.Column(db.String(120), nullable=False)",
    "password = fields.Str(required=True); passwords: list[str] = []",
    '"password": "Password must be at least 8 characters"',
    "The password is required, and the token is in the header.",
    "password = obj->pass; if (password != other2.password) {{ }}",
    "bypass=12345678a, compass: north21, pass: 12 tests, pass=100%",
    "disk-d41d8cd98f00b204e9800998ecf8427e and task-d41d8cd98f00b204e9800998ecf8427e",
    '"signature":"EsQCCkYICxgCKkCiHauF2Q62eGbSzb4GxFiNFSp0SWTm0U5qENU+mfupKqz185C7ydw"',
    "cookie: accept, cookies=none, set-cookie: theme=dark",
    "the password is ${DB_PASSWORD1} or <Password1>",
    "docker run -p 8080:80 image; mysql -u root -p shop",
    "--token $TOKEN --password-stdin --secret <name>",
    "export PASSWORD=$(cat file1) PGPASSWORD=$SECRET1",
    "author=b64:abcd auth: none, auth: true",
    "https://host:8080/a@B2 http://{host}:{port}/@x1/Y http://[::1]:80/a@B2 https://h:port/a1@b",
    "https://registry.npmjs.org/@types/Node1 https://medium.com/p:with@sign https://x/?m=a1@b.org",
    "git+ssh://git@github.com:Owner/repo1.git@v2 mongodb://a:27017,b:27017/Db?x=1@2",
    "def connect(password: str, host='db1.internal', port: int = 5432): ...",
    'password: str = field(default="", repr=False)  # see "RFC 1234a"',
    'def sign(self) -> AccessToken:\n    """Return the RFC 8693 token of X509 keys."""',
    'class Password:\n    """A bcrypt 2b hash."""',
    "password: string;\nname = 'abc12345'; token: int = 12",
    '"password": ["This password is too short.", "It must have 8 characters at least."]',
    '"password": {"type": "string2", "minLength8": 8}, "password": ["required", "min:8"]',
    "password: |\n  Enter the new password\ntoken: >\n  a b c",
    "print('wrong password'); identified by name; Enter password 'til it's right",
    "the password column, 'users2', has token 'aB3dE5gH7jK9mNpQ'",
]


@pytest.mark.parametrize("around", AROUND)
def test_a_known_secret_is_found_wherever_it_is(around: str):
    for name, frame, secret in KNOWN:
        text = around.format(frame.format(secret))
        redacted = Redactor()(text)
        assert secret not in redacted.text, text
        assert name in [redaction.name for redaction in redacted.redactions], text


@pytest.mark.parametrize("how", WRITTEN)
def test_a_known_secret_is_found_however_it_is_written(how: str):
    for name, frame, secret in KNOWN:
        text = WRITTEN[how](frame.format(secret))
        redacted = Redactor()(text)
        lines = [line for line in secret.split("\n") if not line.startswith("-----")]
        assert not any(line in redacted.text for line in lines), text
        assert name in [redaction.name for redaction in redacted.redactions], text


@pytest.mark.parametrize("alphabet", [_ALNUM, _ALNUM + "!@#$%^&*()-_=+[]{};:,.<>?"])
def test_a_random_password_of_a_variable_is_taken_out_whatever_it_is_made_of(alphabet: str):
    stay = 0
    for _ in range(500):
        password = _random(20, alphabet)
        stay += password in Redactor()(f"DB_PASSWORD={password}\nNEXT=1").text
    assert stay <= 15  # what looks like a name or a call


def test_what_is_taken_out_is_the_secret_and_its_span_is_labelled():
    for _, frame, secret in KNOWN:
        redacted = Redactor()(f"before {frame.format(secret)} after")
        assert redacted.text.startswith("before ")
        assert redacted.text.endswith(" after")
        for redaction in redacted.redactions:
            label = redacted.text[redaction.start : redaction.end]
            assert label == f"[redacted:{redaction.name}]"


def test_every_password_of_a_list_is_taken_out_and_no_other_text_of_it():
    text = '{"passwords": ["Tr0ub4dor&3", "none", "Hunter2!x9"], "users": ["ann12345"]}'
    assert Redactor()(text).text == (
        '{"passwords": ["[redacted:password]", "none", "[redacted:password]"],'
        ' "users": ["ann12345"]}'
    )


def test_a_value_in_json_has_the_name_of_its_list_or_object_or_the_command_before_it():
    inside = Redactor().inside
    kept = {"cmd": ["mysql", "-uroot", "shop1"], "names": ["Hunter2!x9"], "n": [1, None]}
    assert inside(kept) == kept
    assert inside(
        {
            "passwords": ["Hunter2!x9", "none"],
            "password": {"value": "Hunter2!x9", "type": "text"},
            "cmd": ["mysql", "-pHunter2x9", "shop"],
            "args": ["sshpass", "-p", "Hunter2!x9"],
        }
    ) == {
        "passwords": ["[redacted:password]", "none"],
        "password": {"value": "[redacted:password]", "type": "text"},
        "cmd": ["mysql", "-p[redacted:command_password]", "shop"],
        "args": ["sshpass", "-p", "[redacted:command_password]"],
    }


def test_what_is_no_secret_stays():
    for text in HARMLESS:
        assert Redactor()(text) == (text, ())


def test_a_kind_that_is_off_by_name_is_left_to_the_others():
    for name, frame, secret in KNOWN:
        redacted = Redactor(off=[name])(frame.format(secret))
        assert name not in [redaction.name for redaction in redacted.redactions]


def test_every_kind_of_secret_has_an_example_here():
    assert {name for name, _, _ in KNOWN} == set(Redactor.names)


def test_a_private_key_that_was_cut_off_is_taken_out_as_far_as_it_goes():
    whole = _pem("RSA PRIVATE KEY")
    redacted = Redactor()(whole[:200] + "\n... and so on, he said.")
    assert redacted.text == "[redacted:private_key]\n... and so on, he said."


def test_a_sentence_about_private_keys_is_not_a_key():
    text = "It begins with -----BEGIN PRIVATE KEY----- and goes on for some lines."
    assert Redactor()(text) == (text, ())


@pytest.mark.parametrize("width", [1_000, 76, 64])
@pytest.mark.parametrize("encode", [b64encode, urlsafe_b64encode])
def test_base64_of_a_text_with_a_secret_is_taken_out_whole(width, encode):
    reported = (
        "".join(f"line {n} of it\n" for n in range(20)) + "API_KEY=" + _random(32) + "\nmore\n"
    )
    run = encode(reported.encode()).decode()
    lines = "\n".join(run[at : at + width] for at in range(0, len(run), width))
    assert Redactor()(f"$ base64 .env\n{lines}\n$ ").text == (
        "$ base64 .env\n[redacted:encoded_secret]\n$ "
    )


def test_base64_of_anything_else_stays():
    for reported in (b"a text of some length, and nothing in it", _chance.randbytes(3_000)):
        text = f"data:;base64,{b64encode(reported).decode()}"
        assert Redactor()(text) == (text, ())


def test_a_name_that_is_no_kind_of_secret_is_refused():
    with pytest.raises(InvalidArgumentError, match="a kind of secret; choose from private_key"):
        Redactor(off=["jwts"])


def test_secrets_in_a_text_are_named_with_their_places():
    text = "שלום password=hunter22 \ud800 AKIA" + "A" * 16
    assert secrets_in(text) == [
        Redaction("password", 14, 22),
        Redaction("aws_access_key", 25, 45),
    ]


@st.composite
def texts_with_secrets(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    """Words without meaning, with secrets between them; return the words and the secrets."""
    words = draw(
        st.lists(st.sampled_from(["word", "שלום", "記憶", "12", "a.b", "x y"]), min_size=1)
    )
    names = st.sampled_from([keys[0] for keys in KEYS.values()])
    secrets = [draw(names) for _ in words[1:]]
    return words, secrets


@given(texts_with_secrets())
def test_nothing_outside_of_the_spans_changes(drawn: tuple[list[str], list[str]]):
    words, secrets = drawn
    text = words[0] + "".join(
        f" | {secret} | {word}" for word, secret in zip(words[1:], secrets, strict=True)
    )
    redacted = Redactor()(text)
    kept, read = [], 0
    for redaction in redacted.redactions:
        kept.append(redacted.text[read : redaction.start])
        read = redaction.end
    kept.append(redacted.text[read:])
    place = 0
    for part in kept:  # in the same order, byte for byte
        place = text.index(part, place) + len(part)
    assert "".join(kept).count("word") == text.count("word")
    assert len(redacted.redactions) == len(secrets)


@given(st.text(), texts_with_secrets(), st.text())
def test_redacting_twice_is_redacting_once(
    before: str, drawn: tuple[list[str], list[str]], after: str
):
    once = Redactor()(before + " ".join(drawn[1]) + after)
    assert Redactor()(once.text, once.redactions) == once


@pytest.mark.parametrize(
    "text",
    [
        "eyJ" * 20_000,
        "eyJaaaaaaaa." * 10_000,
        "-----BEGIN PRIVATE KEY-----" * 4_000,
        "-----BEGIN PRIVATE KEY-----" + "a: b\n" * 20_000,
        "-----BEGIN PRIVATE KEY-----" + "\n1: " * 20_000,
        "a: -----BEGIN PRIVATE KEY-----\n" * 4_000,
        "htpasswd b b b b b b b b b b " * 4_000,
        ('token="' + "\\" * 18) * 4_000,
        "https://u:" * 10_000,
        "://:" * 20_000,
        "password=" * 10_000,
        "token: " * 10_000,
        "sk-" * 30_000,
        "authorization: bearer " * 5_000,
        "curl " + "-u a:" * 20_000,
        "secret" + " " * 100_000,
        "password: [" + '"Hunter2!x9", ' * 10_000,
        "password: |\n" * 10_000,
        "password: a[" * 10_000,
        "postgres://a:b/" * 10_000,
        "api_key=" + "a" * 100_000,
        "Q~" * 50_000,
    ],
    ids=lambda text: text[:12],
)
def test_a_text_made_to_be_slow_is_read_like_any_other(text: str):
    # A pattern that backtracks would take hours for these.
    once = Redactor()(text)
    assert Redactor()(once.text, once.redactions) == once


def test_a_label_in_the_text_itself_is_no_redaction():
    forged = "see [redacted:jwt]"
    assert Redactor()(forged) == (forged, ())
    assert Redactor()(forged, [Redaction("jwt", 4, 18)]).redactions == (Redaction("jwt", 4, 18),)
    assert Redactor()(forged, [Redaction("jwt", 0, 3)]).redactions == ()


def test_memory_writes_no_secret_wherever_it_is_in_an_item(memory: Memory):
    key = "AKIA" + _random(16, string.ascii_uppercase)
    item = MemoryItem(
        f"The key is {key}.",
        source=f"https://u:{key}@host/",
        thread=key,
        metadata={
            "nested": [{"deep": f"x {key}"}, {"name": "DB_PASSWORD", "value": "hunter22"}],
            "password": "correct hunter22 horse",
            key: 1,
        },
        kind=key,
    )
    (added,) = memory.add(item)
    found = memory.get(added.handle)
    assert key not in repr(found)
    assert "hunter22" not in repr(found)
    assert found.metadata["nested"][1] == {"name": "DB_PASSWORD", "value": "[redacted:password]"}
    assert found.text == "The key is [redacted:aws_access_key]."
    assert found.redactions == added.redactions == (Redaction("aws_access_key", 11, 36),)
    # Searches for the secret's name still find it.
    assert [hit.handle for hit in memory.search("key", threads=[key])] == [added.handle]
    assert memory.purge(thread=key) == 1


def test_redaction_can_be_turned_off(opened):
    text = "password=hunter22"
    for redact, kept in ((False, True), (True, False), (Redactor(off=["password"]), True)):
        memory = opened(namespace="a", redact=redact)
        (added,) = memory.add(text)
        assert (memory.get(added.handle).text == text) == kept
    with pytest.raises(InvalidArgumentError, match=re.escape("redact is 'no'")):
        opened(redact="no")


@pytest.mark.parametrize("depth", [50, 500, 100_000])
def test_deep_metadata_is_kept_or_refused_by_a_typed_error(memory: Memory, depth: int):
    value: object = "password=hunter22"
    for _ in range(depth):
        value = [value]
    try:
        (added,) = memory.add("x", metadata={"deep": value})
    except InvalidArgumentError as error:
        assert depth > 50
        assert "metadata" in str(error)
    else:
        assert "hunter22" not in repr(memory.get(added.handle).metadata)
