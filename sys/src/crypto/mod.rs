//! AES of the `crypt` target: the providers that this build has.

#[cfg(all(feature = "fast-crypto", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod aws_lc;
#[cfg(feature = "openssl")]
mod openssl;

use shingle_core::dm::crypt::{Ciphers, SoftwareCiphers};

/// Providers of ciphers in this build by name, the fastest first. The last one, `portable`, is always there.
pub const PROVIDERS: &[(&str, &(dyn Ciphers + Sync))] = &[
    #[cfg(all(feature = "fast-crypto", any(target_arch = "x86_64", target_arch = "aarch64")))]
    ("aws-lc", &aws_lc::AwsLcCiphers),
    #[cfg(feature = "openssl")]
    ("openssl", &openssl::OpensslCiphers),
    ("portable", &SoftwareCiphers),
];

/// The fastest ciphers of this build.
#[must_use]
pub fn ciphers() -> &'static dyn Ciphers {
    PROVIDERS[0].1
}
