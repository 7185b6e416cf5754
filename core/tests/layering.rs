//! Which module may import which: the architecture's tables, held.

mod imports;

use std::fs;
use std::path::{Path, PathBuf};

use imports::Files;

/// What each module of a crate may import.
type Layers = [(&'static str, &'static [&'static str])];

/// The core's. `zone` and `block` are vocabulary; only tests and the crate's users see everything.
const CORE: &Layers = &[
    ("time", &[]),
    ("sector", &[]),
    ("random", &[]),
    ("error", &[]),
    ("guards", &[]),
    ("prelude", &[]),
    ("uuid", &[]),
    ("zone", &["sector"]),
    ("block", &["guards", "sector", "time", "zone"]),
    ("scheduler", &["block", "guards", "sector", "time"]),
    ("plug", &["block", "sector", "time", "zone"]),
    ("device", &["block", "random", "sector", "time", "zone"]),
    ("task", &["block", "sector", "time", "zone"]),
    ("multipath", &["block", "guards", "sector", "time", "zone"]),
    ("dm", &["block", "guards", "multipath", "random", "sector", "task", "time", "uuid", "zone"]),
    ("mapper", &["block", "dm", "plug", "sector", "time", "zone"]),
    ("frontend", &["block", "guards", "sector", "time", "zone"]),
    ("harness", &["block", "sector", "time", "zone"]),
];

/// The host's.
const HOST: &Layers = &[
    ("patience", &[]),
    ("keys", &[]),
    ("priority", &[]),
    ("service_manager", &[]),
    ("tls", &[]),
    ("latency", &[]),
    ("tally", &[]),
    ("fields", &["keys"]),
    ("mailbox", &[]),
    ("disk_identity", &[]),
    ("fresh_file", &[]),
    ("control_group", &[]),
    ("numa", &[]),
    ("extents", &["disk_identity"]),
    ("devices", &["disk_identity", "extents", "keys", "numa"]),
    ("shard", &["devices", "mailbox", "numa"]),
    ("events", &[]),
    ("zone_reports", &["mailbox", "shard"]),
    ("helper", &["mailbox", "shard"]),
    ("disk", &["helper", "patience", "shard", "tally"]),
    ("profile", &["fields"]),
    ("backend", &["devices", "disk", "fields", "helper", "profile", "shard"]),
    ("dmz", &["backend", "disk_identity", "mailbox", "shard"]),
    (
        "serve",
        &[
            "control_group",
            "disk_identity",
            "fields",
            "fresh_file",
            "mailbox",
            "patience",
            "service_manager",
            "shard",
            "tally",
            "tls",
        ],
    ),
    ("config", &["backend", "devices", "disk_identity", "dmz", "extents", "fields", "serve", "shard"]),
    ("stl", &["config", "dmz", "shard"]),
    ("http", &["priority", "serve"]),
    ("failovers", &["devices"]),
    ("volume_faults", &[]),
    ("notices", &["devices", "events", "failovers", "shard", "volume_faults"]),
    ("trace", &["latency"]),
    ("export_identity", &["devices", "mailbox", "serve", "shard"]),
    ("daemon_state", &["config", "devices", "events", "export_identity", "mailbox", "serve", "shard", "zone_reports"]),
    ("pulse", &["daemon_state", "shard"]),
    (
        "metrics",
        &[
            "daemon_state",
            "devices",
            "disk",
            "fresh_file",
            "http",
            "mailbox",
            "serve",
            "shard",
            "tally",
            "zone_reports",
        ],
    ),
    (
        "control",
        &[
            "config",
            "daemon_state",
            "devices",
            "dmz",
            "events",
            "mailbox",
            "metrics",
            "priority",
            "serve",
            "shard",
            "trace",
            "zone_reports",
        ],
    ),
    ("web", &["control", "daemon_state", "events", "http", "metrics", "serve"]),
    ("outlets", &["config", "control", "daemon_state", "http", "metrics", "serve", "web"]),
    (
        "daemon",
        &["config", "control", "daemon_state", "events", "notices", "outlets", "serve", "shard", "zone_reports"],
    ),
];

/// What a whole crate may import of the core.
const OF_CORE: &Layers = &[
    ("drives", &["block", "device", "random", "sector", "time", "zone"]),
    (
        "sim",
        &[
            "block",
            "device",
            "dm",
            "frontend",
            "mapper",
            "multipath",
            "plug",
            "random",
            "scheduler",
            "sector",
            "time",
            "zone",
        ],
    ),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// All files below a folder.
fn all_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|entry| if entry.is_dir() { all_files(&entry) } else { vec![entry] }).collect()
}

/// All sources of a crate, with the modules that they belong to.
fn sources(name: &str) -> Vec<(String, PathBuf)> {
    let root = root().join(name).join("src");
    let files = all_files(&root);
    let module = |file: &PathBuf| {
        let inside = file.strip_prefix(&root).unwrap().with_extension("");
        inside.components().next().unwrap().as_os_str().to_str().unwrap().to_owned()
    };
    files.into_iter().map(|file| (module(&file), file)).filter(|(module, _)| module != "lib").collect()
}

/// The modules that a source names after `from`, outside of its unit tests.
fn imports(file: &Path, from: &str) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap();
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let after = lines.flat_map(|line| line.split(from).skip(1));
    let word = |rest: &str| rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect::<String>();
    // A macro or a type at the root is no module.
    let is_macro = |rest: &&str| rest[word(rest).len()..].starts_with('!');
    after.filter(|rest| !is_macro(rest)).map(word).filter(|word| !word.starts_with(char::is_uppercase)).collect()
}

#[test]
fn layers_import_only_what_lies_below_them() {
    for (name, layers) in [("core", CORE), ("host", HOST)] {
        for (place, (layer, may)) in layers.iter().enumerate() {
            let is_below = |lower: &&str| layers[..place].iter().any(|(name, _)| name == lower);
            assert!(may.iter().all(is_below), "{name}: {layer} stands above what it may import");
        }
        let files = sources(name);
        assert!(files.len() > 20, "the sources are not where this test looks");
        for (layer, file) in files {
            let may = layers.iter().find(|(name, _)| *name == layer);
            let (_, may) = may.unwrap_or_else(|| panic!("{name}: {layer} is not in the table of layers"));
            for import in imports(&file, "crate::") {
                // What std would bring along is for all.
                let fine = import == layer || import == "prelude" || may.contains(&import.as_str());
                assert!(fine, "{} imports {import}, which {layer} may not", file.display());
            }
        }
    }
}

#[test]
fn drives_and_worlds_import_only_their_part_of_the_core() {
    for (name, may) in OF_CORE {
        let files = sources(name);
        assert!(files.len() > 20, "the sources are not where this test looks");
        for import in files.iter().flat_map(|(_, file)| imports(file, "shingle_core::")) {
            assert!(may.contains(&import.as_str()), "{name} imports {import} of the core, which it may not");
        }
    }
}

/// The crates of the workspace.
fn members() -> Vec<String> {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let members = manifest.split("members = [").nth(1).and_then(|rest| rest.split(']').next()).unwrap();
    let members: Vec<String> = members.split(", ").map(|name| name.trim_matches('"').to_owned()).collect();
    assert!(["mem", "core", "sys", "shingle"].iter().all(|name| members.iter().any(|is| is == name)), "{members:?}");
    members
}

#[test]
fn no_circle_of_imports_leads_through_several_folders() {
    for name in members() {
        let src = root().join(&name).join("src");
        let read = |path: PathBuf| {
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]\nmod tests").next().unwrap().to_owned();
            (path.strip_prefix(&src).unwrap().to_str().unwrap().to_owned(), code)
        };
        let files = Files::of(&all_files(&src).into_iter().map(read).collect::<Vec<_>>());
        if let Some(circle) = files.circle() {
            panic!("{name}: {}: give what they share a file of its own below them", circle.join(" > "));
        }
    }
}

#[test]
fn a_circle_is_found_whoever_hands_its_names_on() {
    let circle = |sources: [(&str, &str); 4]| {
        let files = Files::of(&sources.map(|(name, text)| (name.to_owned(), text.to_owned())));
        files.circle().map(|circle| circle.join(" > "))
    };
    let (lib, a) =
        (("lib.rs", "pub mod a; pub mod b;"), ("a/mod.rs", "use crate::{\n    b::{X, Z},\n};\npub struct Y;"));
    let b = ("b/mod.rs", "mod part;\npub use part::X;\npub struct Z;");
    assert_eq!(circle([lib, a, b, ("b/part.rs", "pub struct X;")]), None);
    let found = Some(String::from("b/part.rs > a/mod.rs > b/part.rs"));
    assert_eq!(circle([lib, a, b, ("b/part.rs", "use super::super::a::Y as W;\npub struct X;")]), found);
    assert_eq!(circle([lib, a, b, ("b/part.rs", "pub struct X(crate::a::Y);")]), found);
    // In one folder a device and its parts may know each other.
    let (device, part) = (("a/mod.rs", "use part::X;\npub struct Y;"), ("a/part.rs", "use super::Y;\npub struct X;"));
    assert_eq!(circle([lib, device, part, ("b/mod.rs", "use crate::a::Y;")]), None);
}

#[test]
fn only_mem_and_sys_may_be_unsafe() {
    for name in members() {
        let files = ["lib.rs", "main.rs"].map(|file| root().join(&name).join("src").join(file));
        let lines: &[&str] = match name.as_str() {
            "mem" | "sys" => &["#![deny(unsafe_op_in_unsafe_fn)]", "#![warn(clippy::undocumented_unsafe_blocks)]"],
            _ => &["#![forbid(unsafe_code)]"],
        };
        for file in files.iter().filter(|file| file.exists()) {
            let text = fs::read_to_string(file).unwrap();
            lines.iter().for_each(|line| assert!(text.contains(line), "{} lost `{line}`", file.display()));
        }
    }
}

#[test]
fn what_is_deterministic_has_no_std_no_unsafe_and_no_clock() {
    for name in ["core", "drives", "sim"] {
        let lib = fs::read_to_string(root().join(name).join("src/lib.rs")).unwrap();
        for line in ["#![no_std]", "#![forbid(unsafe_code)]", "#[cfg(test)]\nextern crate std;"] {
            assert!(lib.contains(line), "{name}/src/lib.rs lost `{line}`");
        }
        assert_eq!(lib.matches("extern crate std").count(), 1, "std is for tests only");
    }
}
