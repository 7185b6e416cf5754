//! Everything that touches the machine is here.
#![forbid(unsafe_code)]
