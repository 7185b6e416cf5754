//! Guards of what TLS protects, which tests take away to show that they notice.

/// Guards that are gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sabotage {
    /// What comes along with the request for TLS counts as said within it.
    pub before_tls_taken: bool,
    /// Where TLS is required, options without it are answered all the same.
    pub tls_not_required: bool,
}

pub(super) type Guards = crate::guards::Guards<Sabotage>;
