//! Every fuzz target, in one program: the environment's `FUZZ_TARGET` names the one that runs, and libFuzzer reads the arguments. With
//! `FUZZ_TARGET=list` it prints their names.
#![no_main]

mod bio_ops;
mod control_request;
mod dmz_loader;
mod drive_dir;
mod nbd_session;
mod nbd_tls;
mod profile_text;
mod stack_file;
mod stl_loader;
mod table_text;
mod trace_reader;
mod ublk_session;
mod words;
mod zoned_dir_loader;

use std::env;
use std::process::exit;
use std::sync::LazyLock;

use arbitrary::{Arbitrary, Unstructured};
use libfuzzer_sys::{Corpus, fuzz_target};

/// Runs one input of a target.
type Run = fn(&[u8]) -> Corpus;

/// Targets by their names.
const TARGETS: [(&str, Run); 13] = [
    ("bio_ops", |bytes| of_bytes(bytes, bio_ops::run)),
    ("control_request", control_request::run),
    ("dmz_loader", dmz_loader::run),
    ("drive_dir", drive_dir::run),
    ("nbd_session", |bytes| of_bytes(bytes, nbd_session::run)),
    ("nbd_tls", |bytes| of_bytes(bytes, nbd_tls::run)),
    ("profile_text", profile_text::run),
    ("stack_file", |bytes| of_bytes(bytes, stack_file::run)),
    ("stl_loader", stl_loader::run),
    ("table_text", |bytes| of_bytes(bytes, table_text::run)),
    ("trace_reader", trace_reader::run),
    ("ublk_session", |bytes| of_bytes(bytes, ublk_session::run)),
    ("zoned_dir_loader", zoned_dir_loader::run),
];

/// The target that the environment names.
static TARGET: LazyLock<Run> = LazyLock::new(chosen);

fn chosen() -> Run {
    let name = env::var("FUZZ_TARGET").unwrap_or_default();
    if name == "list" {
        TARGETS.iter().for_each(|(name, _)| println!("{name}"));
        exit(0);
    }
    let Some((_, run)) = TARGETS.iter().find(|(target, _)| *target == name) else {
        eprintln!("FUZZ_TARGET: unknown fuzz target `{name}`; FUZZ_TARGET=list prints all");
        exit(2);
    };
    *run
}

fuzz_target!(init: LazyLock::force(&TARGET), |bytes: &[u8]| -> Corpus { TARGET(bytes) });

/// Runs a target of bytes.
fn of_bytes(bytes: &[u8], run: fn(&[u8])) -> Corpus {
    run(bytes);
    Corpus::Keep
}

/// Runs a target of values of a type, with the one that `bytes` spell. Bytes that spell none are no input.
pub fn of_value<T: for<'a> Arbitrary<'a>>(bytes: &[u8], run: fn(T)) -> Corpus {
    if bytes.len() < T::size_hint(0).0 {
        return Corpus::Reject;
    }
    let Ok(value) = T::arbitrary_take_rest(Unstructured::new(bytes)) else { return Corpus::Reject };
    run(value);
    Corpus::Keep
}
