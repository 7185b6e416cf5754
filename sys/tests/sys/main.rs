//! Ciphers, requests of other crates, and the layout of the kernel's structures.

#[path = "../../../core/tests/shared/vectors.rs"]
mod vectors;

mod crypto;
mod own_operation;
mod ublk_layout;
