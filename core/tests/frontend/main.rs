//! Front ends: sessions of NBD and ublk, without I/O.

mod nbd_tls;
mod ublk_session;
