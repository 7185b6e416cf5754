//! Keys that a table line only refers to, from files and from the environment.

use std::env;
use std::fs::File;
use std::io::Read;

use shingle_core::dm::crypt::{Key, KeyPlace, KeyReference, KeySource};

/// The files and the environment of this process.
///
/// A file holds the bytes of the key and nothing else, as `cryptsetup --key-file` takes them; a variable holds its
/// hexadecimal digits, as a variable cannot hold every byte.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostKeys;

impl KeySource for HostKeys {
    fn fetch(&self, reference: &KeyReference) -> Result<Key, String> {
        let key = match reference.place {
            KeyPlace::File => from_file(reference)?,
            KeyPlace::Environment => from_environment(&reference.name)?,
        };
        if key.len() == reference.bytes {
            return Ok(key);
        }
        let (place, is, said) = (place(reference), key.len().to_string(), reference.bytes);
        let is = if key.len() > said { format!("more than {said}") } else { is };
        Err(format!("{place} has {is} bytes, and the table says {said}: write the key there and nothing else"))
    }
}

fn place(reference: &KeyReference) -> String {
    match reference.place {
        KeyPlace::File => format!("the key file `{}`", reference.name),
        KeyPlace::Environment => format!("the environment variable `{}`", reference.name),
    }
}

/// The content of a file; of a longer one than the key is a byte more than that, whatever follows.
fn from_file(reference: &KeyReference) -> Result<Key, String> {
    let fail = |error| format!("{} cannot be read: {error}", place(reference));
    let file = File::open(&reference.name).map_err(fail)?;
    let most = reference.bytes + 1;
    // Room for all of it: a vector that grows leaves copies behind.
    let mut bytes = Vec::with_capacity(2 * most);
    let read = file.take(most as u64).read_to_end(&mut bytes);
    // Made in any case: it wipes the bytes when it is dropped.
    let key = Key::new(bytes);
    read.map(|_| key).map_err(fail)
}

fn from_environment(name: &str) -> Result<Key, String> {
    let digits = env::var(name).map_err(|_| {
        format!("there is no environment variable `{name}`: set it to the hexadecimal digits of the key")
    })?;
    Key::from_hex(digits.trim()).map_err(|error| format!("the environment variable `{name}`: {error}"))
}

/// Digits of the shortest key that any cipher takes.
const FEWEST_DIGITS: usize = 32;

/// A text, as an error shows it, with zeroes for the keys in `crypt` lines; everything stays in its place.
#[must_use]
pub fn hide_keys(text: &str) -> String {
    text.split_inclusive('\n').map(hide_in_line).collect()
}

/// What an error says, with zeroes for the keys of `crypt` lines that it quotes between backquotes.
#[must_use]
pub fn hide_quoted_keys(text: &str) -> String {
    let parts = text.split('`').enumerate();
    let hidden = parts.map(|(at, part)| if at % 2 == 1 { hide_keys(part) } else { hide_long_numbers(part) });
    hidden.collect::<Vec<_>>().join("`")
}

/// A key is the second word behind the name of the target, if it is no reference. One that TOML has between escapes, or on a
/// line of its own, is known by its length.
fn hide_in_line(line: &str) -> String {
    let (mut shown, mut behind) = (String::with_capacity(line.len()), usize::MAX);
    for word in line.split_inclusive(char::is_whitespace) {
        let digits = word.trim_end();
        match digits {
            "crypt" => behind = 0,
            // More than one space between words, and the end of a line that goes on.
            "" | "\\" => {}
            _ => behind = behind.saturating_add(1),
        }
        if behind == 2 && !digits.starts_with(':') && !["", "-", "\\"].contains(&digits) {
            shown.extend(std::iter::repeat_n('0', digits.len()));
            shown += &word[digits.len()..];
        } else {
            shown += &hide_long_numbers(word);
        }
    }
    shown
}

fn hide_long_numbers(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for part in text.split_inclusive(|c: char| !c.is_ascii_hexdigit()) {
        let digits = part.trim_end_matches(|c: char| !c.is_ascii_hexdigit());
        let hidden = if digits.len() < FEWEST_DIGITS { digits.to_owned() } else { "0".repeat(digits.len()) };
        shown += &hidden;
        shown += &part[digits.len()..];
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn fetch(bytes: usize, place: KeyPlace, name: &str) -> Result<Vec<u8>, String> {
        HostKeys.fetch(&KeyReference { bytes, place, name: name.to_owned() }).map(|key| key.bytes().to_vec())
    }

    #[test]
    fn a_key_file_holds_the_bytes_of_the_key_and_nothing_else() {
        let path = env::temp_dir().join(format!("shingle-key-{}", std::process::id()));
        fs::write(&path, [0, 10, 255, 32]).unwrap();
        let name = path.to_str().unwrap();
        assert_eq!(fetch(4, KeyPlace::File, name).unwrap(), [0, 10, 255, 32]);
        assert!(fetch(3, KeyPlace::File, name).unwrap_err().contains("more than 3 bytes"));
        assert!(fetch(5, KeyPlace::File, name).unwrap_err().contains("has 4 bytes, and the table says 5"));
        fs::remove_file(&path).unwrap();
        let error = fetch(4, KeyPlace::File, name).unwrap_err();
        assert!(error.contains(name) && error.contains("cannot be read"), "{error}");
    }

    #[test]
    fn a_variable_holds_the_digits_of_the_key() {
        // Cargo sets these for every test.
        let error = fetch(4, KeyPlace::Environment, "CARGO_PKG_NAME").unwrap_err();
        assert!(error.contains("`CARGO_PKG_NAME`") && !error.contains("shingle"), "{error}");
        assert!(fetch(4, KeyPlace::Environment, "SHINGLE_NO_SUCH_KEY").unwrap_err().contains("set it to"));
    }

    #[test]
    fn an_endless_file_is_read_as_far_as_a_key_goes() {
        assert!(fetch(32, KeyPlace::File, "/dev/zero").unwrap_err().contains("more than 32 bytes"));
    }

    #[test]
    fn an_error_shows_the_line_that_is_wrong_without_its_key() {
        let (key, zeroes) = ("c0ffee00".repeat(4), "0".repeat(32));
        for (text, shown) in [
            ("0 8 crypt aes c0ffee 0 disk 0\n8 8 zero", "0 8 crypt aes 000000 0 disk 0\n8 8 zero"),
            ("table = \"0 8 crypt aes c0f\u{e9}x 0\"", "table = \"0 8 crypt aes 000000 0\""),
            ("0 8 crypt aes :32:file:/k 0", "0 8 crypt aes :32:file:/k 0"),
            ("0 8 crypt aes - 0", "0 8 crypt aes - 0"),
            ("0 8 crypt aes", "0 8 crypt aes"),
            ("0 8 crypt  aes  c0ffee  0", "0 8 crypt  aes  000000  0"),
            ("0 8 linear crypt 8", "0 8 linear crypt 8"),
            (
                "\"0 8 crypt aes c0ffee 0\\n8 8 crypt aes c0ffee 0\"",
                "\"0 8 crypt aes 000000 0\\n8 8 crypt aes 000000 0\"",
            ),
            (&format!("crypt\\taes\\t{key}\\t0"), &format!("crypt\\taes\\t{zeroes}\\t0")),
            (&format!("crypt aes \\\n  {key} 0"), &format!("crypt aes \\\n  {zeroes} 0")),
        ] {
            assert_eq!(hide_keys(text), shown);
            assert_eq!(hide_keys(text).len(), text.len(), "what is blamed is found by its place");
        }
    }

    #[test]
    fn an_error_quotes_no_key_and_changes_no_other_word() {
        let (key, zeroes) = ("c0ffee00".repeat(4), "0".repeat(32));
        for (text, shown) in [
            ("there is no `0 8 crypt aes c0ffee 0`; see `a`", "there is no `0 8 crypt aes 000000 0`; see `a`"),
            (&format!("the value {key} is no size"), &format!("the value {zeroes} is no size")),
            ("a crypt line has a key", "a crypt line has a key"),
        ] {
            assert_eq!(hide_quoted_keys(text), shown);
        }
    }
}
