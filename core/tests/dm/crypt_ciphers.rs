//! The portable ciphers of the `crypt` target.

use shingle_core::dm::crypt::SoftwareCiphers;

use crate::vectors;

#[test]
fn the_portable_ciphers_keep_to_all_vectors() {
    vectors::hold(&SoftwareCiphers);
}
