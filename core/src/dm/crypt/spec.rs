//! The cipher argument of a table line, in both forms that the kernel reads
//! (`drivers/md/dm-crypt.c:crypt_ctr_cipher_old`, `crypt_ctr_cipher_new`).

use super::cipher::{CipherError, Mode};
use super::iv::IvMode;
use crate::prelude::*;

/// Most keys that units are encrypted with in turns: as many as volumes in the field have. The kernel names no bound.
pub const MAX_KEYS: usize = 64;

/// What a volume is encrypted with, but for the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CipherSpec {
    /// The cipher.
    pub mode: Mode,
    /// The IVs.
    pub iv: IvMode,
    /// Keys that units are encrypted with in turns: a power of two.
    pub keys: usize,
    written: String,
}

impl_display!(CipherSpec, |self, f| f.write_str(&self.written));

impl CipherSpec {
    /// Reads `cipher[:keys][-chain[-iv[:options]]]` or `capi:chain(cipher)-iv[:options]`.
    ///
    /// # Errors
    /// If it is neither, or names what is not supported.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (mode, iv, keys) = match text.strip_prefix("capi:") {
            Some(api) => parse_api(api)?,
            None => parse_chained(text)?,
        };
        Ok(Self { mode, iv, keys, written: text.to_owned() })
    }

    /// Whether it takes keys of `bytes`: those of all its ciphers in a row.
    ///
    /// # Errors
    /// If it does not; the message names the lengths that it takes.
    pub fn check_key(&self, bytes: usize) -> Result<(), CipherError> {
        let each = self.mode.key_bytes().into_iter().find(|each| each * self.keys == bytes);
        each.map(drop).ok_or(CipherError { mode: self.mode, keys: self.keys, bytes })
    }
}

type Parsed = (Mode, IvMode, usize);

fn parse_chained(text: &str) -> Result<Parsed, String> {
    let mut parts = text.splitn(3, '-');
    let (cipher, chain, iv) = (parts.next().unwrap_or(""), parts.next(), parts.next());
    let (cipher, keys) = cipher.split_once(':').map_or((cipher, None), |(cipher, keys)| (cipher, Some(keys)));
    // A bare cipher is what it was in the first kernels that had one.
    let (chain, iv) = match (chain, iv) {
        (None | Some("plain"), None) => ("cbc", Some("plain")),
        (chain, iv) => (chain.unwrap_or(""), iv),
    };
    Ok((mode(cipher, chain)?, parse_iv(iv)?, keys.map_or(Ok(1), parse_keys)?))
}

fn parse_api(api: &str) -> Result<Parsed, String> {
    let (algorithm, iv) = api.split_once('-').map_or((api, None), |(algorithm, iv)| (algorithm, Some(iv)));
    let mode = match algorithm {
        "xts(aes)" => Mode::AesXts,
        "cbc(aes)" => Mode::AesCbc,
        _ => {
            let use_these = "use xts(aes) or cbc(aes), as in capi:xts(aes)-plain64";
            return Err(format!("`{algorithm}` is not supported, nor is authenticated encryption: {use_these}"));
        }
    };
    Ok((mode, parse_iv(iv)?, 1))
}

fn mode(cipher: &str, chain: &str) -> Result<Mode, String> {
    match (cipher, chain) {
        ("aes", "xts") => Ok(Mode::AesXts),
        ("aes", "cbc") => Ok(Mode::AesCbc),
        ("aes", _) => Err(format!("`{chain}` is not supported with aes: use xts or cbc, as in aes-xts-plain64")),
        _ => Err(format!("the cipher `{cipher}` is not supported: use aes, as in aes-xts-plain64")),
    }
}

fn parse_iv(text: Option<&str>) -> Result<IvMode, String> {
    let known = "use plain64, plain, plain64be, benbi, essiv:sha256, eboiv or null";
    let text = text.ok_or_else(|| format!("the IV is missing: {known}, as in aes-xts-plain64"))?;
    let exact = IvMode::ALL.into_iter().find(|iv| iv.name() == text);
    exact.ok_or_else(|| match text.split(':').next().unwrap_or("") {
        "essiv" => format!("`{text}` is not supported: the digest of essiv is sha256, as in aes-cbc-essiv:sha256"),
        "random" => format!("random IVs need a place to store them, which this target has not: {known}"),
        "lmk" | "tcw" | "elephant" => {
            format!("the IV `{text}` is for volumes of other systems, which are not supported: {known}")
        }
        _ => format!("there is no IV `{text}`: {known}"),
    })
}

fn parse_keys(text: &str) -> Result<usize, String> {
    let keys = text.parse().ok().filter(|keys: &usize| keys.is_power_of_two() && *keys <= MAX_KEYS);
    keys.ok_or_else(|| {
        format!("`{text}` is no number of keys: write a power of two up to {MAX_KEYS}, as in aes:2-cbc-plain64")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn both_forms_and_the_old_defaults_are_read_and_printed_as_written() {
        for (text, expected) in [
            ("aes", (Mode::AesCbc, IvMode::Plain, 1)),
            ("aes-plain", (Mode::AesCbc, IvMode::Plain, 1)),
            ("aes-cbc-plain", (Mode::AesCbc, IvMode::Plain, 1)),
            ("aes-xts-plain64", (Mode::AesXts, IvMode::Plain64, 1)),
            ("aes-cbc-essiv:sha256", (Mode::AesCbc, IvMode::EssivSha256, 1)),
            ("aes:4-cbc-benbi", (Mode::AesCbc, IvMode::Benbi, 4)),
            ("capi:xts(aes)-plain64be", (Mode::AesXts, IvMode::Plain64Be, 1)),
            ("capi:cbc(aes)-essiv:sha256", (Mode::AesCbc, IvMode::EssivSha256, 1)),
        ] {
            let spec = CipherSpec::parse(text).unwrap();
            assert_eq!((spec.mode, spec.iv, spec.keys), expected, "{text}");
            assert_eq!(spec.to_string(), text);
        }
    }

    #[test]
    fn what_is_not_supported_is_refused_by_name() {
        for (text, says) in [
            ("serpent-xts-plain64", "serpent"),
            ("aes-ecb", "ecb"),
            ("aes-xts", "IV is missing"),
            ("aes-xts-random", "random IVs"),
            ("aes:64-cbc-lmk", "other systems"),
            ("aes-cbc-essiv", "sha256"),
            ("aes-cbc-essiv:sha1", "sha256"),
            ("aes-xts-plain65", "plain65"),
            ("aes:3-cbc-plain", "power of two"),
            ("aes:128-cbc-plain", "up to 64"),
            ("capi:authenc(hmac(sha256),xts(aes))-random", "authenc"),
            ("capi:rfc7539(chacha20,poly1305)-random", "chacha20"),
            ("capi:xts(aes)", "IV is missing"),
            ("capi:aes-plain64", "capi:xts(aes)"),
            ("", "not supported"),
        ] {
            let error = CipherSpec::parse(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
