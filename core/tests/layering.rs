//! Which module may import which: the architecture's tables, held.

use std::fs;
use std::path::{Path, PathBuf};

/// What each module of a crate may import.
type Layers = [(&'static str, &'static [&'static str])];

/// The core's. `zone` and `block` are vocabulary; only tests and the crate's users see everything.
const CORE: &Layers = &[
    ("time", &[]),
    ("sector", &[]),
    ("random", &[]),
    ("zone", &["sector"]),
    ("block", &["sector", "time", "zone"]),
    ("plug", &["block", "sector", "time", "zone"]),
    ("device", &["block", "random", "sector", "time", "zone"]),
    ("task", &["block", "sector", "time", "zone"]),
    ("dm", &["block", "random", "sector", "task", "time", "zone"]),
    ("mapper", &["block", "dm", "plug", "sector", "time", "zone"]),
    ("frontend", &["block", "sector", "time", "zone"]),
    ("harness", &["block", "sector", "time", "zone"]),
];

/// The host's.
const HOST: &Layers = &[
    ("patience", &[]),
    ("keys", &[]),
    ("latency", &[]),
    ("fields", &["keys"]),
    ("mailbox", &[]),
    ("devices", &["keys"]),
    ("shard", &["devices", "mailbox"]),
    ("helper", &["mailbox", "shard"]),
    ("disk", &["helper", "patience", "shard"]),
    ("backend", &["disk", "fields", "helper", "shard"]),
    ("dmz", &["backend", "mailbox", "shard"]),
    ("serve", &["patience", "shard"]),
    ("config", &["backend", "devices", "dmz", "fields", "shard"]),
    ("notices", &["backend", "config", "devices", "shard"]),
    ("profile", &["fields"]),
    ("trace", &["latency"]),
    ("daemon_state", &["config", "devices", "mailbox", "serve", "shard"]),
    ("control", &["config", "daemon_state", "devices", "dmz", "mailbox", "serve", "shard", "trace"]),
    ("daemon", &["config", "control", "daemon_state", "notices", "serve", "shard"]),
];

/// What a whole crate may import of the core.
const OF_CORE: &Layers = &[
    ("drives", &["block", "device", "random", "sector", "time", "zone"]),
    ("sim", &["block", "device", "dm", "mapper", "plug", "random", "sector", "time", "zone"]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// All sources of a crate, with the modules that they belong to.
fn sources(name: &str) -> Vec<(String, PathBuf)> {
    fn walk(path: &Path, into: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() { walk(&entry, into) } else { into.push(entry) }
        }
    }
    let (root, mut files) = (root().join(name).join("src"), vec![]);
    walk(&root, &mut files);
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
    after.map(word).filter(|word| !word.starts_with(char::is_uppercase)).collect()
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
                let fine = import == layer || may.contains(&import.as_str());
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

#[test]
fn only_mem_and_sys_may_be_unsafe() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let members = manifest.split("members = [").nth(1).and_then(|rest| rest.split(']').next()).unwrap();
    let members: Vec<&str> = members.split(", ").map(|name| name.trim_matches('"')).collect();
    assert!(["mem", "core", "sys", "shingle"].iter().all(|name| members.contains(name)), "{members:?}");
    for name in members {
        let files = ["lib.rs", "main.rs"].map(|file| root().join(name).join("src").join(file));
        let lines: &[&str] = match name {
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
