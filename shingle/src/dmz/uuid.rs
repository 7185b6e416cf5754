//! UUIDs, random and as people write them (RFC 4122).

use std::fmt;
use std::io;
use std::str::FromStr;

/// A UUID, its bytes in printed order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uuid(pub [u8; 16]);

/// Bytes between hyphens.
const GROUPS: [usize; 5] = [4, 2, 2, 2, 6];

impl Uuid {
    /// A new one (version 4).
    ///
    /// # Errors
    /// If the kernel gives no random numbers.
    pub fn random() -> io::Result<Self> {
        let mut bytes = [0; 16];
        let mut filled = 0;
        while filled < bytes.len() {
            filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
        }
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Ok(Self(bytes))
    }

    /// The UUID of the mapped device of a set with this one, as dmzadm makes it.
    #[must_use]
    pub fn of_device(self) -> String {
        format!("dmz-{self}")
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.as_slice();
        for (place, length) in GROUPS.into_iter().enumerate() {
            let (group, after) = rest.split_at(length);
            rest = after;
            f.write_str(if place > 0 { "-" } else { "" })?;
            group.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        }
        Ok(())
    }
}

/// A text is not a UUID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UuidError(String);

impl fmt::Display for UuidError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a UUID: write it as in c2239a77-ba67-4c1e-9d0a-3f1e5b7c8d90", self.0)
    }
}

impl std::error::Error for UuidError {}

impl FromStr for Uuid {
    type Err = UuidError;

    fn from_str(text: &str) -> Result<Self, UuidError> {
        let wrong = || UuidError(text.into());
        let groups: Vec<&str> = text.split('-').collect();
        let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
        if lengths != GROUPS.map(|bytes| 2 * bytes) || !text.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let number = u128::from_str_radix(&groups.concat(), 16).map_err(|_| wrong())?;
        Ok(Self(number.to_be_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read_again_in_that_order() {
        let text = "c2239a77-ba67-4c1e-9d0a-3f1e5b7c8d90";
        let uuid: Uuid = text.parse().unwrap();
        assert_eq!((uuid.0[..3].to_vec(), uuid.to_string()), (vec![0xc2, 0x23, 0x9a], text.into()));
        assert_eq!(text.to_uppercase().parse(), Ok(uuid));
    }

    #[test]
    fn what_is_not_exactly_a_uuid_is_refused() {
        let wrong = [
            "",
            "c2239a77ba674c1e9d0a3f1e5b7c8d90",
            "c2239a77-ba67-4c1e-9d0a-3f1e5b7c8d9",
            "c2239a7-7ba67-4c1e-9d0a-3f1e5b7c8d90",
            "+2239a77-ba67-4c1e-9d0a-3f1e5b7c8d90",
            "c2239a77-ba67-4c1e-9d0a-3f1e5b7c8dé",
        ];
        wrong.iter().for_each(|text| assert!(text.parse::<Uuid>().is_err(), "{text}"));
    }

    #[test]
    fn random_ones_differ_and_say_that_they_are_random() {
        let (one, two) = (Uuid::random().unwrap(), Uuid::random().unwrap());
        assert_ne!(one, two);
        assert_eq!((one.to_string().as_bytes()[14], one.0[8] >> 6), (b'4', 2));
    }
}
