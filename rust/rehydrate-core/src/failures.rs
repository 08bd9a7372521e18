//! The meaning of a provider's error: whether the prompt must be shorter, or whether asking again may help.

/// The remedy for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The prompt is too long: make it shorter.
    Overflow,
    /// Too much was asked: wait.
    RateLimit,
    /// The provider failed: ask again.
    Unavailable,
    /// Asked again, it will say the same.
    Refused,
}

/// The words of each provider and server for a prompt that is too long, in lower case.
const OVERFLOWS: [&str; 26] = [
    "prompt is too long",               // Anthropic: "prompt is too long: 207791 tokens > 200000"
    "exceed context limit",             // Anthropic, with max_tokens: "178959 + 64000 > 200000"
    "request exceeds the maximum size", // Anthropic, 413
    "maximum context length",           // OpenAI, vLLM, DeepSeek, Mistral, OpenRouter
    "exceed the context window",        // OpenAI Responses
    "exceeds the context window",       // the same
    "input tokens exceed the configured limit", // OpenAI
    "longer than the maximum model length", // vLLM, an image in the prompt
    "context length is only",           // vLLM
    "exceeds the available context size", // llama.cpp, newer Ollama
    "context size has been exceeded",   // llama.cpp
    "exceeds the context length",       // Ollama
    "exceeded max context length",      // Ollama
    "greater than the context length",  // LM Studio
    "contextwindowexceedederror",       // LiteLLM's proxy, for any provider
    "exceeds the maximum number of tokens allowed", // Gemini
    "maximum prompt length is",         // xAI
    "reduce the length of the messages", // Groq
    "exceeded model token limit",       // Moonshot
    "input is too long for requested model", // Bedrock
    "too many total text bytes",        // Bedrock
    "number of input tokens exceeds maximum length", // Nova
    "longer than the model's context length", // SGLang
    "tokens) exceeds the maximum allowed length", // the same
    "exceeds the maximum allowed input length", // Alibaba
    "`max_new_tokens` must be <=",      // TGI: "`inputs` tokens + `max_new_tokens` must be <= 32768"
];
const OVERFLOW_CODES: [&str; 5] = [
    "context_length_exceeded",       // OpenAI
    "string_above_max_length",       // OpenAI: one text over 10 MB
    "exceed_context_size_error",     // llama.cpp
    "request_too_large",             // Anthropic
    "model_context_window_exceeded", // Anthropic
];
const NO_CREDIT: [&str; 3] = ["insufficient_quota", "billing_hard_limit_reached", "billing_not_active"];
/// A request above the limit per minute never fits: the words of OpenAI and Groq for it, and how far apart they are.
const TOO_LARGE: (&str, usize, &str) = ("request too large for ", 300, "tokens per min");

/// The meaning of an error with this status, message, and type or codes.
pub fn failure_of(status: Option<u16>, message: &str, codes: &[String]) -> Failure {
    let is_one_of = |known: &[&str]| codes.iter().any(|code| known.contains(&code.as_str()));
    let is_denied = matches!(status, Some(401 | 403));
    if !is_denied && (is_one_of(&OVERFLOW_CODES) || status == Some(413) || says_too_long(message)) {
        return Failure::Overflow;
    }
    match status {
        Some(429) if !is_one_of(&NO_CREDIT) => Failure::RateLimit,
        None | Some(408 | 409 | 424 | 425 | 500..) => Failure::Unavailable, // 424 is Bedrock's: the model failed
        Some(_) => Failure::Refused,
    }
}

fn says_too_long(message: &str) -> bool {
    let message = message.to_lowercase();
    let (begin, room, end) = TOO_LARGE;
    let is_too_large = || {
        message.match_indices(begin).any(|(at, _)| {
            let rest = message[at + begin.len()..].chars().take(room + end.len());
            rest.collect::<String>().contains(end)
        })
    };
    OVERFLOWS.iter().any(|known| message.contains(known)) || is_too_large()
}

/// The status of an error by its type: an error inside a stream comes with status 200.
pub fn status_of(kind: &str) -> Option<u16> {
    Some(match kind {
        "invalid_request_error" | "invalid_prompt" | "context_length_exceeded" => 400,
        "authentication_error" => 401,
        "billing_error" => 402,
        "permission_error" => 403,
        "not_found_error" => 404,
        "request_too_large" => 413,
        "rate_limit_error" | "rate_limit_exceeded" | "insufficient_quota" => 429,
        "api_error" | "server_error" => 500,
        "timeout_error" => 504,
        "overloaded_error" => 529,
        _ => return None,
    })
}

/// The status of a Bedrock error code, in an answer or in an event of a stream.
pub fn status_of_aws(code: &str) -> Option<u16> {
    let code = code.to_lowercase();
    Some(match code.strip_suffix("exception").unwrap_or(&code) {
        "accessdenied" => 403,
        "internalserver" => 500,
        "modelerror" | "modelstreamerror" => 424,
        "modelnotready" | "throttling" => 429,
        "modeltimeout" => 408,
        "resourcenotfound" => 404,
        "serviceunavailable" => 503,
        "validation" => 400,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_that_is_too_long_is_known_by_words_codes_and_status() {
        let with = |status, message: &str, code: &str| failure_of(status, message, &[code.to_owned()]);
        assert_eq!(with(Some(400), "Prompt is too LONG: 207791 tokens", ""), Failure::Overflow);
        assert_eq!(with(Some(400), "", "context_length_exceeded"), Failure::Overflow);
        assert_eq!(with(Some(413), "", ""), Failure::Overflow);
        assert_eq!(with(Some(401), "prompt is too long", ""), Failure::Refused);
        for said in [
            "The input (35001 tokens) is longer than the model's context length (32768 tokens).",
            "Input Tokens \
                     Exceeded: Number of input tokens exceeds maximum length. Please update the input to try again.",
        ] {
            assert_eq!(with(Some(400), said, ""), Failure::Overflow, "{said}");
        }
        let limited = |between: usize| format!("Request too large for {} tokens per min", "x".repeat(between));
        assert_eq!(with(Some(429), &limited(299), ""), Failure::Overflow);
        assert_eq!(with(Some(429), &limited(300), ""), Failure::RateLimit);
    }

    #[test]
    fn what_may_pass_and_what_will_not() {
        let with = |status, code: &str| failure_of(status, "", &[code.to_owned()]);
        assert_eq!(with(Some(429), ""), Failure::RateLimit);
        assert_eq!(with(Some(429), "insufficient_quota"), Failure::Refused);
        assert_eq!(with(None, ""), Failure::Unavailable);
        assert_eq!(with(Some(529), ""), Failure::Unavailable);
        assert_eq!(with(Some(424), ""), Failure::Unavailable);
        assert_eq!(with(Some(404), ""), Failure::Refused);
        assert_eq!((status_of("overloaded_error"), status_of("?")), (Some(529), None));
        assert_eq!((status_of_aws("ThrottlingException"), status_of_aws("x")), (Some(429), None));
    }
}
