//! What is said of clients that make trouble.

use std::sync::Arc;

use shingle_core::impl_display;

use super::listen::Address;

/// Something that a client, or those who come to an address, did or suffer.
#[derive(Clone, Copy, Debug)]
pub struct Complaint<'a> {
    /// Where they come.
    pub address: &'a Address,
    /// What the client is called; `None`: it is about all who come there.
    pub client: Option<&'a str>,
    /// What it has chosen.
    pub export: Option<&'a str>,
    /// What there is to say.
    pub text: &'a str,
}

impl_display!(Complaint<'_>, |self, f| match self.client {
    Some(client) => write!(f, "{client}: {}", self.text),
    None => write!(f, "{}: {}", self.address, self.text),
});

/// Takes each complaint.
pub type Log = Arc<dyn Fn(&Complaint<'_>) + Send + Sync>;
