//! Keys that a server shares with its clients (`psktool(1)`).

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::LazyLock;

use openssl::ex_data::Index;
use openssl::ssl::{Ssl, SslContextBuilder, SslRef};
use shingle_core::dm::crypt::Key;

use super::files::{TlsError, about, keep_private};

/// Most bytes of a file of keys.
const MOST_BYTES: u64 = 1 << 20;
/// Bytes of a key: 128 bits, as `psktool` makes at least, up to the 512 bits that it makes at most.
const KEY_BYTES: RangeInclusive<usize> = 16..=64;

/// Whose key a connection was made with.
static HOLDER: LazyLock<Option<Index<Ssl, String>>> = LazyLock::new(|| Ssl::new_ex_index().ok());

/// Keys by the names of those who have them.
pub(super) struct SharedKeys(BTreeMap<String, Key>);

impl fmt::Debug for SharedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}

impl SharedKeys {
    pub fn read(path: &Path) -> Result<Self, TlsError> {
        keep_private(path)?;
        let mut text = String::new();
        about(path, File::open(path).and_then(|file| file.take(MOST_BYTES + 1).read_to_string(&mut text)))?;
        if text.len() as u64 > MOST_BYTES {
            return about(path, Err(format!("it has more than {MOST_BYTES} bytes")));
        }
        about(path, Self::parse(&text))
    }

    /// No error quotes a key.
    fn parse(text: &str) -> Result<Self, String> {
        if text.starts_with('\u{feff}') {
            return Err(
                "line 1: it begins with a byte order mark, which would be a part of the name: save the file without"
                    .into(),
            );
        }
        let mut keys = BTreeMap::new();
        let lines = text.lines().enumerate().map(|(number, line)| (number + 1, line.trim()));
        for (number, line) in lines.filter(|(_, line)| !line.is_empty()) {
            let bad = |what: &str| format!("line {number}: {what}");
            if let Some(comment) = line.strip_prefix('#') {
                if is_hexadecimal_entry(comment) {
                    return Err(bad("a name in hexadecimal digits (#...) is not supported: write the name itself"));
                }
                continue;
            }
            let (name, digits) = line.split_once(':').ok_or_else(|| bad("it is not NAME:HEXADECIMAL"))?;
            let key = Key::from_hex(digits).map_err(|_| bad("the key is not of hexadecimal digits"))?;
            if !KEY_BYTES.contains(&key.len()) {
                let (least, most) = (KEY_BYTES.start(), KEY_BYTES.end());
                return Err(bad(&format!(
                    "the key has {} bytes: make one of {least} to {most} with psktool",
                    key.len()
                )));
            }
            if keys.insert(name.to_owned(), key).is_some() {
                return Err(bad(&format!("`{name}` has a key already")));
            }
        }
        if keys.is_empty() { Err("there is no key in it: make one with psktool".into()) } else { Ok(Self(keys)) }
    }

    pub fn install(self, context: &mut SslContextBuilder) {
        context.set_psk_server_callback(move |connection, name, into| {
            let name = name.and_then(|name| std::str::from_utf8(name).ok());
            let Some((name, key)) = name.and_then(|name| self.0.get_key_value(name)) else { return Ok(0) };
            let Some(into) = into.get_mut(..key.len()) else { return Ok(0) };
            into.copy_from_slice(&key.bytes());
            HOLDER.iter().for_each(|holder| connection.set_ex_data(*holder, name.clone()));
            Ok(key.len())
        });
    }
}

/// True for `HEX:HEX`: a name that psktool has written in hexadecimal digits, and no comment.
fn is_hexadecimal_entry(text: &str) -> bool {
    let is_hex = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    text.split_once(':').is_some_and(|(name, key)| is_hex(name) && is_hex(key))
}

/// Whose key a connection was made with, if it was.
pub(super) fn holder(connection: &SslRef) -> Option<String> {
    connection.ex_data((*HOLDER)?).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_psktool_writes_them_and_mistakes_name_their_line_and_no_key() {
        let key = "00112233445566778899aabbccddeeff";
        let keys = SharedKeys::parse(&format!("# of the archive\nalice:{key}\n\nbob:{key}{key}\n")).unwrap();
        assert_eq!((keys.0.len(), keys.0["alice"].bytes()[15], keys.0["bob"].len()), (2, 0xff, 32));
        assert_eq!(format!("{keys:?}"), "[\"alice\", \"bob\"]");
        for (text, says) in [
            ("", "there is no key in it"),
            ("alice", "line 1: it is not NAME"),
            ("alice:0011", "line 1: the key has 2 bytes"),
            (&format!("alice:{}", key.repeat(5)), "line 1: the key has 80 bytes"),
            (&format!("\u{feff}alice:{key}"), "line 1: it begins with a byte order mark"),
            (&format!("bob:{key}\n#616c696365:{key}"), "line 2: a name in hexadecimal digits"),
            (&format!("a:{key}\nalice:{key}0"), "line 2: the key is not of hexadecimal digits"),
            (&format!("a:{key}\na:{key}"), "line 2: `a` has a key already"),
        ] {
            let error = SharedKeys::parse(text).unwrap_err();
            assert!(error.contains(says) && !error.contains("0011"), "{error}");
        }
    }
}
