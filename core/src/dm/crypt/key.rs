//! Keys: what a table line says of them, where they come from, and that nobody sees them.

use alloc::sync::Arc;
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};

use zeroize::{Zeroize, Zeroizing};

use crate::dm::quote;
use crate::prelude::*;

/// A key. Who clones it shares the bytes: they are wiped when the last owner drops them or one says so. Nothing prints
/// them but [`Key::to_hex`].
#[derive(Clone)]
pub struct Key(Arc<Secret>);

struct Secret {
    bytes: Box<[AtomicU8]>,
    is_wiped: AtomicBool,
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.bytes.iter_mut().for_each(|byte| byte.get_mut().zeroize());
    }
}

impl Key {
    /// A key of these bytes, which are wiped where they were.
    #[must_use]
    pub fn new(mut bytes: Vec<u8>) -> Self {
        let secret = bytes.iter().map(|byte| AtomicU8::new(*byte)).collect();
        bytes.zeroize();
        Self(Arc::new(Secret { bytes: secret, is_wiped: AtomicBool::new(false) }))
    }

    /// Reads hexadecimal digits, two a byte.
    ///
    /// # Errors
    /// If they are none; the message does not repeat them.
    pub fn from_hex(digits: &str) -> Result<Self, String> {
        let not_hex = || "a key is written in the digits 0-9 and a-f, two for each byte".to_string();
        // One allocation of the right size: a vector that grows leaves copies behind.
        let mut bytes = Zeroizing::new(Vec::with_capacity(digits.len() / 2));
        let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
        for pair in pairs {
            let digit = |ascii: u8| char::from(ascii).to_digit(16).ok_or_else(not_hex);
            bytes.push((digit(pair[0])? << 4 | digit(pair[1])?) as u8);
        }
        if !rest.is_empty() {
            let count = digits.len();
            return Err(format!("{count} hexadecimal digits are no whole bytes: write two digits for each byte"));
        }
        Ok(Self::new(core::mem::take(&mut *bytes)))
    }

    /// Length, in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.bytes.len()
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes, for a cipher: zeroes if it was wiped.
    #[must_use]
    pub fn bytes(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(self.0.bytes.iter().map(|byte| byte.load(Relaxed)).collect())
    }

    /// Makes zeroes of it, for all who share it.
    pub fn wipe(&self) {
        self.0.bytes.iter().for_each(|byte| byte.store(0, Relaxed));
        self.0.is_wiped.store(true, Relaxed);
    }

    /// Whether it was wiped, and so is no key any more.
    #[must_use]
    pub fn is_wiped(&self) -> bool {
        self.0.is_wiped.load(Relaxed)
    }

    /// The key in hexadecimal digits, for whoever asked to see it.
    #[must_use]
    pub fn to_hex(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(2 * self.len()));
        let digits = self.0.bytes.iter().map(|byte| byte.load(Relaxed)).flat_map(|byte| [byte >> 4, byte & 15]);
        digits.for_each(|digit| text.push(char::from_digit(digit.into(), 16).unwrap_or('0')));
        text
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a key of {} bytes", self.len())
    }
}

/// Where a key lies that a table line does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPlace {
    /// A file with the key's bytes and nothing else.
    File,
    /// An environment variable with the key in hexadecimal digits.
    Environment,
}

/// `:<bytes>:file:<path>` or `:<bytes>:env:<variable>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyReference {
    /// Length of the key.
    pub bytes: usize,
    /// What kind of place it is.
    pub place: KeyPlace,
    /// The path or the variable.
    pub name: String,
}

impl_display!(KeyReference, |self, f| {
    let place = match self.place {
        KeyPlace::File => "file",
        KeyPlace::Environment => "env",
    };
    write!(f, ":{}:{place}:{}", self.bytes, self.name)
});

/// Fetches keys from outside: a file or the environment of the process, which this crate cannot see.
pub trait KeySource {
    /// The key that `reference` names, of exactly the length that it says.
    ///
    /// # Errors
    /// If it is not there or has another length: says of which place, and what to do, and nothing of its content.
    fn fetch(&self, reference: &KeyReference) -> Result<Key, String>;
}

/// No place at all: every reference is refused.
pub struct NoKeys;

impl KeySource for NoKeys {
    fn fetch(&self, reference: &KeyReference) -> Result<Key, String> {
        Err(format!("`{reference}`: there are no files and no variables here; write the key in hexadecimal digits"))
    }
}

/// The key argument of a table line.
#[derive(Clone, Debug)]
pub enum KeyArgument {
    /// `-`: none yet; a message sets it.
    None,
    /// Hexadecimal digits.
    Hex(Key),
    /// A place outside.
    At(KeyReference),
}

/// Longest key, in bytes: 64 for one cipher of AES-256-XTS, for up to [`super::spec::MAX_KEYS`] of them.
const MAX_BYTES: usize = 64 * super::spec::MAX_KEYS;

impl KeyArgument {
    /// Reads the argument.
    ///
    /// # Errors
    /// If it is none of the forms, or one that only a kernel can follow. Digits of a key are never repeated.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "-" => Ok(KeyArgument::None),
            _ if text.starts_with(':') => KeyReference::parse(text).map(KeyArgument::At),
            _ if text.len() > 2 * MAX_BYTES => Err(format!("a key has at most {MAX_BYTES} bytes")),
            _ => Key::from_hex(text).map(KeyArgument::Hex),
        }
    }

    /// Length of the key, in bytes; `None` if there is none yet.
    #[must_use]
    pub fn key_bytes(&self) -> Option<usize> {
        match self {
            KeyArgument::None => None,
            KeyArgument::Hex(key) => Some(key.len()),
            KeyArgument::At(reference) => Some(reference.bytes),
        }
    }

    /// Writes the argument so that it can be read again: of a key only as many zeroes as it has digits, unless
    /// `shows_keys`.
    pub fn write(&self, shows_keys: bool, out: &mut dyn fmt::Write) -> fmt::Result {
        match self {
            KeyArgument::None => out.write_char('-'),
            KeyArgument::Hex(key) if shows_keys => out.write_str(&key.to_hex()),
            KeyArgument::Hex(key) => write!(out, "{:0<1$}", "", 2 * key.len()),
            KeyArgument::At(reference) => out.write_str(&quote(&reference.to_string())),
        }
    }

    /// The key itself; `None` if there is none yet, or it was wiped.
    ///
    /// # Errors
    /// What `source` says.
    pub fn resolve(&self, source: &dyn KeySource) -> Result<Option<Key>, String> {
        match self {
            KeyArgument::None => Ok(None),
            KeyArgument::Hex(key) => Ok(Some(key.clone()).filter(|key| !key.is_wiped())),
            KeyArgument::At(reference) => source.fetch(reference).map(Some),
        }
    }
}

impl KeyReference {
    fn parse(text: &str) -> Result<Self, String> {
        let form = "`:<bytes>:file:<path>` or `:<bytes>:env:<variable>`";
        let mut parts = text[1..].splitn(3, ':');
        let (Some(bytes), Some(kind), Some(name)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(format!("a key that begins with a colon is {form}"));
        };
        let place = match kind {
            "file" => KeyPlace::File,
            "env" => KeyPlace::Environment,
            "logon" | "user" | "encrypted" | "trusted" => {
                return Err(format!("keys of the kernel's keyring (`{kind}`) cannot be read from here: write {form}"));
            }
            _ => return Err(format!("`{kind}` is no place for keys: write {form}")),
        };
        let length = bytes.parse().ok().filter(|bytes| (1..=MAX_BYTES).contains(bytes));
        let bytes = length.ok_or_else(|| format!("the length of a key is a number of bytes from 1 to {MAX_BYTES}"))?;
        if name.is_empty() {
            return Err(format!("the key's place has no name: write {form}"));
        }
        Ok(Self { bytes, place, name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_printed_by_its_length_alone() {
        let key = KeyArgument::parse("c0ffee00c0ffee00").unwrap();
        assert_eq!(format!("{key:?}"), "Hex(a key of 8 bytes)");
    }

    #[test]
    fn hexadecimal_digits_go_in_and_come_out_only_if_keys_are_shown() {
        assert_eq!(*Key::from_hex("00fFa5").unwrap().bytes(), [0x00, 0xff, 0xa5]);
        let written = |shows_keys| {
            let mut text = String::new();
            KeyArgument::parse("00fFa5").unwrap().write(shows_keys, &mut text).unwrap();
            text
        };
        assert_eq!((written(true).as_str(), written(false).as_str()), ("00ffa5", "000000"));
    }

    #[test]
    fn a_wiped_key_is_wiped_for_all_who_share_it() {
        let argument = KeyArgument::parse("c0ffee").unwrap();
        argument.resolve(&NoKeys).unwrap().unwrap().wipe();
        assert!(argument.resolve(&NoKeys).unwrap().is_none());
        let KeyArgument::Hex(key) = argument else { panic!() };
        assert_eq!(*key.bytes(), [0, 0, 0]);
    }

    #[test]
    fn a_wrong_key_is_refused_without_being_repeated() {
        for (text, says) in [
            ("c0ffe", "two digits"),
            ("c0ffeg", "0-9"),
            ("c0ffé", "0-9"),
            (":32:logon:cryptsetup:k", "keyring"),
            (":32:disk:k", "no place"),
            (":32", "file:<path>"),
            (":0:file:k", "number of bytes"),
            (":x:env:K", "number of bytes"),
            (":32:env:", "no name"),
        ] {
            let error = KeyArgument::parse(text).unwrap_err();
            assert!(error.contains(says) && !error.contains("c0ff"), "{text}: {error}");
        }
    }

    #[test]
    fn a_reference_is_printed_as_it_was_written() {
        for text in [":64:file:/etc/a key:1", ":32:env:VOLUME_KEY"] {
            let KeyArgument::At(reference) = KeyArgument::parse(text).unwrap() else { panic!("{text}") };
            assert_eq!(reference.to_string(), text);
        }
    }
}
