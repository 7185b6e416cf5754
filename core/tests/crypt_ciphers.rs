//! The portable ciphers of the `crypt` target.

mod vectors;

use shingle_core::dm::crypt::SoftwareCiphers;

#[test]
fn the_portable_ciphers_keep_to_all_vectors() {
    vectors::hold(&SoftwareCiphers);
}
