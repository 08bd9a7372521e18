//! The table of secrets: the patterns of keys, tokens and passwords, each with a name.
//!
//! A pattern is tried only where one of its literals begins, or a few characters before. A key begins where its mark
//! does, whatever is before it: an escape sequence of a terminal, a percent sign, a letter. Only marks that are also
//! ends of words need something else before them. The more exact patterns come first: if two overlap, the first gives
//! the name.
use rustc_hash::FxHashSet;

use super::assigned::{self, PASSWORD_LITERALS};
use super::base64::is_name_and_password;
use super::checks::{
    Candidate, has_random_cookie, has_slash, is_argument, is_credential, is_password, is_strong, is_token,
    is_url_password, is_variable, is_weak_password,
};
use super::commands;
use super::private_key;
use super::reading::{Match, Pattern, char_before, is_space, literal, some};

/// One kind of secret.
pub(super) struct Kind {
    pub name: &'static str,
    /// In lower case, with `|` between them. `[...]` is one of these letters, or with a `?` after it possibly none.
    literals: &'static str,
    /// Characters of a match before its literal, at most.
    pub lead: usize,
    /// A literal that the text must also hold, in lower case.
    pub needs: &'static str,
    read: Read,
    check: fn(&Candidate) -> bool,
}

enum Read {
    Pattern(Pattern),
    From(fn(&str, usize) -> Option<Match>),
    /// It remembers where it failed.
    Remembering(fn(&str, usize, &mut FxHashSet<usize>) -> Option<Match>),
}

impl Kind {
    const fn new(name: &'static str, literals: &'static str, read: Read) -> Self {
        Self { name, literals, lead: 0, needs: "", read, check: |_| true }
    }

    const fn checked(mut self, check: fn(&Candidate) -> bool) -> Self {
        self.check = check;
        self
    }

    const fn lead(mut self, characters: usize) -> Self {
        self.lead = characters;
        self
    }

    const fn needs(mut self, text: &'static str) -> Self {
        self.needs = text;
        self
    }

    /// Its literals, each in full.
    pub fn literals(&self) -> impl Iterator<Item = String> {
        self.literals.split('|').filter(|literal| !literal.is_empty()).flat_map(expanded)
    }

    /// The match that begins at `at`.
    pub fn read(&self, text: &str, at: usize, tried: &mut FxHashSet<usize>) -> Option<Match> {
        match &self.read {
            Read::Pattern(pattern) => pattern.at(text, at),
            Read::From(read) => read(text, at),
            Read::Remembering(read) => read(text, at, tried),
        }
    }

    pub fn is_secret(&self, text: &str, start: usize, found: &Match) -> bool {
        (self.check)(&Candidate { text, start, found })
    }
}

/// All that `source` may be: `k[ab]` is `ka` and `kb`.
fn expanded(source: &str) -> Vec<String> {
    let Some((before, (letters, after))) =
        source.split_once('[').and_then(|(before, rest)| Some((before, rest.split_once(']')?)))
    else {
        return vec![source.to_owned()];
    };
    let (none, after) = after.strip_prefix('?').map_or((None, after), |after| (Some(String::new()), after));
    let first = none.into_iter().chain(letters.chars().map(String::from));
    let rest = expanded(after);
    first.flat_map(|letter| rest.iter().map(move |rest| format!("{before}{letter}{rest}"))).collect()
}

/// A kind with a pattern: its name, its literals, the pattern.
const fn key(name: &'static str, literals: &'static str, pattern: &'static str) -> Kind {
    Kind::new(name, literals, Read::Pattern(Pattern::new(pattern)))
}

const fn read(name: &'static str, literals: &'static str, read: fn(&str, usize) -> Option<Match>) -> Kind {
    Kind::new(name, literals, Read::From(read))
}

fn sk_api_key(text: &str, at: usize) -> Option<Match> {
    static KEY: Pattern = Pattern::new("(?<secret>sk-(?:or-v1-)?[A-Za-z0-9]{32,128})«end»");
    // "task-", "disk-" and "risk-" are words.
    let is_word = char_before(text, at).is_some_and(|char| "aeioulAEIOUL".contains(char));
    if is_word { None } else { KEY.at(text, at) }
}

fn jwt(text: &str, at: usize) -> Option<Match> {
    let is_part = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-');
    // A long run is read from its beginning, otherwise only some way from each "eyJ" in it.
    let most = if char_before(text, at).is_some_and(is_part) { 600 } else { usize::MAX };
    let head = some(text, literal(text, at, "eyJ")?, 8..=most, is_part)?;
    let body = some(text, literal(text, head, ".eyJ")?, 4..=usize::MAX, is_part)?;
    let signature = literal(text, body, ".").and_then(|at| some(text, at, 0..=usize::MAX, is_part));
    Some(Match::of(at..signature.unwrap_or(body)))
}

/// `//name:password@host`, possibly encoded for a URL. An `@` before the first `/` ends it; if there is none, the
/// password has a `/` itself.
fn url_password(text: &str, at: usize) -> Option<Match> {
    static PLAIN: Pattern = Pattern::new(r#"(?<secret>[^\s/?#"'`<>\\]{1,128})@"#);
    static WITH_SLASH: Pattern = Pattern::new(r#"(?<secret>[^\s?#"'`<>\\]{1,128})@"#);
    static ENCODED: Pattern = Pattern::new(concat!(
        r#"(?:://|(?i:%3a%2f%2f))[^\s/?#:"'`<>\\]{0,128}(?::|%3[Aa])"#,
        r#"(?<secret>[^\s/?#"'`<>\\]{1,128})(?:@|%40)"#
    ));
    char_before(text, at).filter(char::is_ascii_alphanumeric)?;
    let begin = literal(text, at, "://").unwrap_or(at);
    let end = some(text, begin, 0..=128, |char| !is_space(char) && !"/?#:\"'`<>\\".contains(char))?;
    let user = &text[begin..end];
    let plain = literal(text, end, ":").filter(|_| begin > at).and_then(|at| {
        let with_slash = || WITH_SLASH.at(text, at).filter(|found| has_slash(user, &text[found.value.clone()]));
        PLAIN.at(text, at).or_else(with_slash)
    });
    let is_encoded = || begin == at || text[end..].starts_with(':') || user.contains('%');
    plain.or_else(|| if is_encoded() { ENCODED.at(text, at) } else { None })
}

const SECRET_LITERALS: &str = concat!(
    "secret|token|credential|[_-]pat|signature|key-data|api[_-]?key|access[_-]?key|auth[_-]?key|account[_-]?key",
    "|private[_-]?key|encryption[_-]?key|signing[_-]?key|session[_-]?key|master[_-]?key|service[_-]?key",
    "|client[_-]?key"
);

pub(super) static KINDS: [Kind; 68] = [
    Kind::new("private_key", "-----begin |private-lines: ", Read::Remembering(private_key::private_key))
        .checked(|it| private_key::has_material(it.whole())),
    key("age_secret_key", "age-secret-key-1", "AGE-SECRET-KEY-1[A-Z0-9]{58}"),
    key("aws_access_key", "akia|asia|abia|acca", "(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}«end»"),
    read("aws_secret_key", "secret[_]?key|secret[_]?acces|aws[_]?secret", assigned::aws_secret_key),
    key("gcp_api_key", "aiza", r"AIza[A-Za-z0-9_\-]{35}"),
    key("gcp_oauth_token", "ya29.", r"ya29\.[A-Za-z0-9_\-]{20,}"),
    key("gcp_oauth_secret", "gocspx-", r"GOCSPX-[A-Za-z0-9_\-]{28}"),
    key(
        "azure_storage_key",
        "accountkey=|sharedaccesskey=",
        "(?i:AccountKey|SharedAccessKey)=(?<secret>[A-Za-z0-9+/]{43,86}={0,2})",
    ),
    key("azure_sas_signature", "[?&;]sig=", "[?&;]sig=(?<secret>[A-Za-z0-9%+/]{40,128}=?)"),
    key("azure_client_secret", "q~", r"[A-Za-z0-9_~.\-]{3}[0-9]Q~[A-Za-z0-9_~.\-]{31,34}").lead(4),
    key("github_token", "gh[pousr]_|github_pat_", "(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{36,255})"),
    key(
        "gitlab_token",
        "glpat-|glptt-|gldt-|glcbt-|glrt-|glft-|glsoat-|glimt-|glagent-|gloas-|glffct-|gr1348941",
        concat!(
            r"(?:gl(?:pat|ptt|dt|cbt|rt|ft|soat|imt|agent|oas|ffct)-[A-Za-z0-9_\-]{20,}(?:\.[A-Za-z0-9]{2,12})*",
            r"|GR1348941[A-Za-z0-9_\-]{20})",
        ),
    ),
    key("slack_token", "xox|xapp-", r"(?:xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9\-]{10,}|xapp-[0-9]-[A-Za-z0-9\-]{10,})"),
    key(
        "slack_webhook",
        "hooks.slack.com/",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/(?<secret>[A-Za-z0-9+/]{20,})",
    ),
    key("discord_webhook", "/api/webhooks/", r"/api/webhooks/[0-9]{15,20}/(?<secret>[A-Za-z0-9_\-]{60,})"),
    key("telegram_token", ":aa", r"[0-9]{8,10}:AA[A-Za-z0-9_\-]{33}«end»").lead(10),
    key(
        "stripe_key",
        "[sr]k_live_|[sr]k_test_|whsec_",
        "(?:[sr]k_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/]{24,}={0,2})",
    ),
    key("anthropic_api_key", "sk-ant-", r"sk-ant-[A-Za-z0-9_\-]{20,}"),
    key(
        "openai_api_key",
        "sk-",
        concat!(
            r"sk-(?:(?:proj|svcacct|admin|None)-[A-Za-z0-9_\-]{20,}",
            "|[A-Za-z0-9]{20,}T3BlbkFJ[A-Za-z0-9]{20,64}|[A-Za-z0-9]{48}«end»)",
        ),
    ),
    // OpenRouter, DeepSeek and others with keys in OpenAI's form.
    read("sk_api_key", "sk-", sk_api_key).checked(is_token),
    key("huggingface_token", "hf_|api_org_", "(?:hf_[A-Za-z0-9]{30,64}|api_org_[A-Za-z0-9]{30,64})«end»"),
    key("npm_token", "npm_", "npm_[A-Za-z0-9]{36}«end»"),
    key("pypi_token", "pypi-", r"pypi-[A-Za-z0-9_\-]{50,}"),
    key("rubygems_key", "rubygems_", "rubygems_[0-9a-f]{48}"),
    key("docker_token", "dckr_", r"dckr_(?:pat|oat)_[A-Za-z0-9_\-]{27,}"),
    key("digitalocean_token", "do[por]_v1_", "do[opr]_v1_[0-9a-f]{64}"),
    key("databricks_token", "dapi", "dapi[0-9a-f]{32}(?:-[0-9])?«end»"),
    key("shopify_token", "shpat_|shpca_|shppa_|shpss_", "shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),
    key("sendgrid_key", "sg.", r"SG\.[A-Za-z0-9_\-]{22}\.[A-Za-z0-9_\-]{43}"),
    key("twilio_key", "sk", "SK[0-9a-f]{32}«end»"),
    key("mailgun_key", "key-", "key-[0-9a-f]{32}«end»"),
    key("linear_key", "lin_", "lin_(?:api|oauth)_[A-Za-z0-9]{32,64}"),
    key("notion_token", "ntn_|secret_", "(?:ntn_[A-Za-z0-9]{40,64}|secret_[A-Za-z0-9]{43})«end»"),
    key("airtable_token", "pat", r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    key("supabase_key", "sbp_|sb_secret_", r"sb(?:p_[0-9a-f]{40}|_secret_[A-Za-z0-9_\-]{20,})"),
    key("vault_token", "hv[sb].", r"hv[sb]\.[A-Za-z0-9_\-]{24,}"),
    key("terraform_token", ".atlasv1.", r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_\-]{60,}").lead(14),
    key("grafana_token", "glsa_|glc_", "gl(?:sa|c)_[A-Za-z0-9+/=_]{32,}"),
    key("sentry_token", "sntry[su]_", "sntry[su]_[A-Za-z0-9+/=_]{32,}"),
    key("newrelic_key", "nrak-", "NRAK-[A-Z0-9]{27}"),
    key("postman_key", "pmak-", "PMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
    key("atlassian_token", "atatt3|atctt3|atbbt3", r"AT(?:ATT3|CTT3|BBT3)[A-Za-z0-9_\-=]{32,}"),
    key("groq_api_key", "gsk_", "gsk_[A-Za-z0-9]{48,64}«end»"),
    key("xai_api_key", "xai-", "xai-[A-Za-z0-9]{64,96}«end»"),
    key("perplexity_api_key", "pplx-", "pplx-[A-Za-z0-9]{40,64}«end»"),
    key("replicate_token", "r8_", "r8_[A-Za-z0-9]{37}«end»"),
    key(
        "discord_token", // it begins with base64 of a number of ten digits or more
        "m[dtjz][aeimquycgk]|n[dtjz][aeimquycgk]|o[dt][aeimquycgk]",
        concat!(
            r"(?:M[DTjz]|N[DTjz]|O[DT])[AEIMQUYcgk][A-Za-z0-9]{21,23}\.[A-Za-z0-9_\-]{6}",
            r"\.[A-Za-z0-9_\-]{27,40}",
        ),
    ),
    key("okta_token", "ssws", r"SSWS[ \t]{1,4}[A-Za-z0-9_\-]{20,80}"),
    read("jwt", "eyj", jwt),
    read("url_password", "://|%3a%2f%2f", url_password).checked(is_url_password),
    key("url_token", "://", r"://(?<secret>[A-Za-z0-9_\-]{20,128})@").checked(is_token),
    read("authorization", "authorization", assigned::authorization).checked(is_credential),
    key("bearer_token", "bearer ", r"(?i:bearer) {1,4}(?<secret>[A-Za-z0-9._~+/\-]{16,}={0,2})").checked(is_token),
    key(
        "basic_credentials",
        "-u[ =]|--user[ =]",
        r#"(?<scheme>-u|--user)[ =]{1,4}["']?[^\s:"']{1,64}:(?<secret>[^\s"'`<>$\\\x1b]{3,128})"#,
    )
    .checked(is_credential)
    .needs("curl"),
    key("encoded_credentials", "auth", "(?i:auth)«quote»?«gap»[:=]«gap»«quote»?(?<secret>[A-Za-z0-9+/]{8,512}={0,2})")
        .checked(|it| is_name_and_password(it.value())),
    read("cookie", "cookie", assigned::cookie).checked(has_random_cookie),
    read("password_variable", "password=|passwd=|passphrase=|pass=|pwd=", assigned::password_variable)
        .checked(is_variable),
    read("password", PASSWORD_LITERALS, assigned::password).checked(is_password),
    key(
        "password_element",
        "password>|passwd>|passphrase>|pwd>|secret>|token>|apikey>",
        r"(?i:password|passwd|passphrase|pwd|secret|token|apikey)>(?<secret>[^<>\s]{4,256})(?<after></)",
    )
    .checked(is_argument),
    read("password_in_words", PASSWORD_LITERALS, assigned::password_in_words).checked(is_strong),
    read(
        "command_option",
        "--pass|--token|--secret|--api|--auth|--access|--client-secret|--db-pass",
        commands::command_option,
    )
    .checked(is_argument),
    read(
        "command_password",
        "sshpass|docker|podman|registry|az |mysql|mariadb|mongo|sqlcmd",
        commands::command_password,
    )
    .checked(is_password),
    read("command_secret", "redis-cli|ldap|-passin|-passout|-pass |smbclient|htpasswd", commands::command_secret)
        .checked(is_password),
    key(
        "netrc_password",
        "login |login\t",
        r#"login[ \t]{1,4}[^\s"'\\]{1,128}«space»{1,8}password[ \t]{1,4}(?<secret>[^\s"'`\\\x1b<]{3,256})"#,
    )
    .checked(is_url_password),
    key(
        "pgpass_password",
        ":5432:|:5433:|:6432:|:*:",
        concat!(
            r#":(?:5432|5433|6432|\*):[^\s:/"'\\]{1,64}:[^\s:/"'\\]{1,64}"#,
            r#":(?<secret>[^\s"'`\\\x1b<]{4,256})"#,
        ),
    )
    .checked(is_url_password),
    read("weak_password", "pass", assigned::weak_password).checked(is_weak_password),
    read("secret", SECRET_LITERALS, assigned::secret).checked(is_token),
    read("encoded_secret", "", |_, _| None),
];

/// The kind of base64 in which another secret is. It has no literals.
pub(super) const ENCODED: usize = KINDS.len() - 1;
