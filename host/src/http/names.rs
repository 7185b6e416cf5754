//! For which names of a machine HTTP is answered.

use std::net::IpAddr;

use hyper::header::HOST;

use super::Seen;

/// True if the request is for an address of the loopback interface or `localhost`, at any port. Any other name can be made to lead here (DNS rebinding).
#[must_use]
pub fn names_this_machine(request: &Seen) -> bool {
    let mut hosts = request.headers().get_all(HOST).iter();
    let (Some(host), None) = (hosts.next().and_then(|host| host.to_str().ok()), hosts.next()) else { return false };
    let in_line = request.uri().authority().map(|authority| authority.as_str());
    [Some(host), in_line].into_iter().flatten().all(is_this_machine)
}

fn is_this_machine(host: &str) -> bool {
    let (name, port) = match host.rfind(':').filter(|colon| !host[*colon..].contains(']')) {
        Some(colon) => (&host[..colon], &host[colon + 1..]),
        None => (host, ""),
    };
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    let is_loopback = address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    port.bytes().all(|digit| digit.is_ascii_digit()) && (is_loopback || name.eq_ignore_ascii_case("localhost"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_that_nobody_can_lead_elsewhere_are_answered() {
        for host in ["127.0.0.1", "127.0.0.1:9470", "localhost:8080", "LOCALHOST", "[::1]", "[::1]:9470", "127.8.8.8:1"]
        {
            assert!(is_this_machine(host), "{host}");
        }
        let others =
            ["", "evil.example", "127.0.0.1.evil.example", "localhost.evil.example:9470", "10.0.0.1", "[::2]:1"];
        for host in others.into_iter().chain(["127.0.0.1:a", "evil@127.0.0.1", "localhost:1:2", "0.0.0.0", "[::1]x"]) {
            assert!(!is_this_machine(host), "{host}");
        }
    }
}
