//! A page that shows what a stack, or one disk, is and does. It only reads.
//!
//! ```text
//!  browser ──> HttpServer ──> guard: Host, method, token ──> page: files that are part of the program
//!                                                      └───> Watched: a stack by its mailboxes, or a disk by itself
//! ```
//!
//! The page's files hold nothing secret and are told to anybody on this machine; all that is below `/api` takes the token. What the page may
//! do at all is in the head of every answer. `docs/web.md` describes the page and what it asks for.

mod assets;
mod guard;
mod lone_disk;
mod recent;
mod server;
mod stack;
mod token;
mod watched;
mod zone_map;

pub use lone_disk::LoneDisk;
pub use server::serve_page;
pub use stack::WatchedStack;
pub use token::Token;
pub use watched::{Watched, ZoneList};
