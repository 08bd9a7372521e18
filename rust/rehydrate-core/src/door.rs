//! The access rules of a proxy on this machine: the accepted clients and targets, and the headers that go on.
use std::net::IpAddr;

use rustc_hash::FxHashSet;

/// A header's name and value.
pub type Header<'a> = (&'a [u8], &'a [u8]);

/// The header of the proxy's own.
const OWN: &[u8] = b"x-rehydrate";
const OF_ONE_HOP: [&[u8]; 9] = [
    b"connection",
    b"keep-alive",
    b"proxy-authenticate",
    b"proxy-authorization",
    b"proxy-connection",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
];
/// The most times that a path is decoded: an upstream may do it again.
const DECODINGS: usize = 3;

/// Whether the other end of a connection is on this machine.
#[must_use]
pub fn is_near(client: &str) -> bool {
    address_in(client).is_some_and(|address| address.to_canonical().is_loopback())
}

/// The address in a text, with or without the zone of an IPv6 address.
fn address_in(text: &str) -> Option<IpAddr> {
    match text.split_once('%') {
        Some((address, zone)) if !zone.is_empty() => address.parse().ok().map(IpAddr::V6),
        _ => text.parse().ok(),
    }
}

/// Whether `Host` is an address, which no other site can have, or localhost. True without one.
#[must_use]
pub fn is_our_name(headers: &[Header<'_>]) -> bool {
    let Some((_, host)) = headers.iter().rfind(|(name, _)| *name == b"host") else { return true };
    let host: Vec<u8> = host.iter().copied().filter(|byte| !matches!(byte, b'\t' | b'\r' | b'\n')).collect();
    let end = host.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(host.len());
    let name = host[..end].rsplit(|&byte| byte == b'@').next().unwrap_or_default();
    let Ok(name) = std::str::from_utf8(name) else { return false };
    if let Some(rest) = name.strip_prefix('[') {
        let Some((address, port)) = rest.split_once(']') else { return false };
        return (port.is_empty() || port.starts_with(':'))
            && address_in(address).is_some_and(|address| address.is_ipv6());
    }
    let name = name.split(':').next().unwrap_or_default();
    name.eq_ignore_ascii_case("localhost") || address_in(name).is_some()
}

/// The status and the reason for a request that does not go on. None if it does.
///
/// If the name of another site leads a browser here, it sends that name as Host. Without this check the proxy on this
/// machine, and a provider that asks for no key, would be open to any page.
#[must_use]
pub fn refusal(client: Option<&str>, path: &[u8], headers: &[Header<'_>]) -> Option<(u16, &'static str)> {
    let is_there = |wanted: &[u8]| headers.iter().any(|(name, _)| *name == wanted);
    if client.is_some_and(is_near) && !is_our_name(headers) {
        return Some((403, "Host names another site; call the proxy by 127.0.0.1 or localhost"));
    }
    let reason = if !path.starts_with(b"/") || path.contains(&b'#') {
        "the target isn't a path; send one that begins with / and has no #"
    } else if has_dots(path) {
        "the path has . or .. as a segment; send the path that is meant"
    } else if is_there(b"content-length") && is_there(b"transfer-encoding") {
        "there are both Content-Length and Transfer-Encoding; send one of them"
    } else {
        return None;
    };
    Some((400, reason))
}

/// Whether a path could lead out of an upstream's own, decoded or not.
fn has_dots(path: &[u8]) -> bool {
    let mut path = path.to_vec();
    for _ in 0..DECODINGS {
        path = decoded(&path);
    }
    let path = path.strip_suffix(b"\n").unwrap_or(&path);
    let mut segments = path.split(|byte| matches!(byte, b'/' | b'\\'));
    segments.next(); // what is before the first slash
    segments.any(|segment| {
        let name = segment.split(|&byte| byte == b';').next().unwrap_or_default();
        matches!(name, b"." | b"..")
    })
}

/// Bytes with those that are written as `%2e`.
fn decoded(text: &[u8]) -> Vec<u8> {
    let digit = |at: usize| text.get(at).and_then(|&byte| char::from(byte).to_digit(16));
    let (mut out, mut at) = (Vec::with_capacity(text.len()), 0);
    while let Some(&byte) = text.get(at) {
        match (byte, digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                at += 3;
            }
            _ => {
                out.push(byte);
                at += 1;
            }
        }
    }
    out
}

/// The headers that go on, in lower case: without those of one hop, of the proxy, and `dropped`.
#[must_use]
pub fn end_to_end(headers: &[Header<'_>], dropped: &[&[u8]]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let lower: Vec<(Vec<u8>, &[u8])> =
        headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), *value)).collect();
    let mut out: FxHashSet<Vec<u8>> = FxHashSet::default();
    out.extend(OF_ONE_HOP.iter().chain(dropped).map(|name| name.to_vec()));
    out.insert(OWN.to_vec());
    for (name, value) in &lower {
        match &**name {
            b"connection" => {
                out.extend(value.split(|&byte| byte == b',').map(|each| each.trim_ascii().to_ascii_lowercase()));
            }
            b"transfer-encoding" => drop(out.insert(b"content-length".to_vec())), // it does not count then
            _ => {}
        }
    }
    lower.into_iter().filter(|(name, _)| !out.contains(name)).map(|(name, value)| (name, value.to_vec())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(host: &str) -> bool {
        is_our_name(&[(b"host", b"evil.example"), (b"host", host.as_bytes())])
    }

    #[test]
    fn only_addresses_and_localhost_are_our_names() {
        for host in [
            "localhost",
            "LocalHost:1",
            "127.0.0.1:1",
            "[::1]:8787",
            "[::1]",
            "[fe80::1%eth0]",
            "192.168.0.7",
            "user@127.0.0.1",
        ] {
            assert!(named(host), "{host}");
        }
        for host in
            ["evil.example", "localhost.evil", "[", "[::1", "x[::1]", "[::1]x", "127.0.0.1@evil.example", "", "::1"]
        {
            assert!(!named(host), "{host}");
        }
        assert!(is_our_name(&[]));
    }

    #[test]
    fn a_client_is_near_by_its_address() {
        assert!(["127.0.0.1", "127.8.0.1", "::1", "::ffff:127.0.0.1"].iter().all(|client| is_near(client)));
        assert!(!["10.0.0.1", "2001:db8::1", "testclient", ""].iter().any(|client| is_near(client)));
    }

    #[test]
    fn no_segment_of_dots_goes_on_however_it_is_written() {
        for path in ["/v1/%252E./x", "/..", "/v1/.;x/y", "/v1/..%5cx", "/v1/%2e%2e", "/v1/.%0a"] {
            assert!(has_dots(path.as_bytes()), "{path}");
        }
        for path in ["/v1/a..b/.c/%2f", "/v1/...", "/", "/%zz/%2", "/v1/.%20"] {
            assert!(!has_dots(path.as_bytes()), "{path}");
        }
    }

    #[test]
    fn headers_of_one_hop_stay() {
        let headers: [Header<'_>; 5] = [
            (b"Connection", b"X-Inner , close"),
            (b"x-inner", b"1"),
            (b"X-Rehydrate", b"forged"),
            (b"X-Odd", b"A"),
            (b"host", b"here"),
        ];
        assert_eq!(end_to_end(&headers, &[b"host"]), [(b"x-odd".to_vec(), b"A".to_vec())]);
        let lengths: [Header<'_>; 2] = [(b"transfer-encoding", b"chunked"), (b"content-length", b"4")];
        assert!(end_to_end(&lengths, &[]).is_empty());
    }
}
