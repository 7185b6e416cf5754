//! The fastest ciphers that this build has, for the `crypt` target.

#[cfg(all(feature = "fast-crypto", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod aws_lc;

use shingle_core::dm::crypt::{Ciphers, SoftwareCiphers};

/// AES in assembly if the build has it (feature `fast-crypto`, on x86-64 and 64-bit ARM), else [`SoftwareCiphers`].
#[must_use]
pub fn ciphers() -> &'static dyn Ciphers {
    #[cfg(all(feature = "fast-crypto", any(target_arch = "x86_64", target_arch = "aarch64")))]
    return &aws_lc::AwsLcCiphers;
    #[allow(unreachable_code, reason = "what is above may be compiled out")]
    &SoftwareCiphers
}
