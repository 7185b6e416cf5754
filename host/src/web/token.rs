//! What those have to know who ask.

use std::hint::black_box;
use std::io;

use crate::serve::listen::Address;

/// Bytes of a token that is made here.
const BYTES: usize = 16;

/// What those have to know who ask. It is in the fragment of the page's address, which browsers tell nobody, and comes in a header, which no other
/// page can have a browser send: a cookie would go to all ports of this machine.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// One that somebody chose.
    #[must_use]
    pub fn of(text: String) -> Self {
        Self(text)
    }

    /// A new one, out of the system's random numbers.
    ///
    /// # Errors
    /// If the system has none.
    pub fn new() -> io::Result<Self> {
        let mut bytes = [0; BYTES];
        let mut filled = 0;
        while filled < BYTES {
            filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
        }
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// Whether somebody knows it. It takes as long for a wrong one whose first letters are right.
    #[must_use]
    pub fn is(&self, said: &[u8]) -> bool {
        let own = self.0.as_bytes();
        let differs = own.iter().zip(said).fold(0, |differs, (one, other)| black_box(differs | (one ^ other)));
        own.len() == said.len() && differs == 0
    }

    /// Where the page is that is served there, for those who may open it.
    #[must_use]
    pub fn url(&self, address: &Address) -> String {
        match address {
            Address::Tcp(address) => format!("http://{address}/#token={}", self.0),
            Address::Unix(path) => format!("unix:{}#token={}", path.display(), self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_known_whole_or_not_at_all_and_no_two_are_the_same() {
        let token = Token::new().unwrap();
        assert_eq!(token.0.len(), 32);
        assert!(token.is(token.0.clone().as_bytes()));
        for wrong in ["", &token.0[..31], &format!("{}0", token.0), &"0".repeat(32)] {
            assert!(!token.is(wrong.as_bytes()), "{wrong}");
        }
        assert_ne!(token.0, Token::new().unwrap().0);
    }
}
