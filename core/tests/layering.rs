//! Which folder of `core/src` may import which: the architecture's table, held.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Every module and what it may import. `zone` and `block` are vocabulary; only tests and the crate's users see everything.
const ALLOWED: [(&str, &[&str]); 13] = [
    ("time", &[]),
    ("sector", &[]),
    ("random", &[]),
    ("zone", &["sector"]),
    ("block", &["sector", "time", "zone"]),
    ("plug", &["block", "sector", "time", "zone"]),
    ("device", &["block", "random", "sector", "time", "zone"]),
    ("task", &["block", "sector", "time", "zone"]),
    ("dm", &["block", "random", "sector", "task", "time", "zone"]),
    ("mapper", &["block", "plug", "sector", "dm", "time", "zone"]),
    ("frontend", &["block", "sector", "time", "zone"]),
    ("harness", &["block", "sector", "time", "zone"]),
    ("sim", &["block", "device", "mapper", "plug", "random", "sector", "dm", "time", "zone"]),
];

fn sources(path: &Path, into: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() { sources(&entry, into) } else { into.push(entry) }
    }
}

/// The top-level modules that a source names after `crate::`, outside of its unit tests.
fn imports(text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let after = lines.flat_map(|line| line.split("crate::").skip(1).map(str::to_owned).collect::<Vec<_>>());
    after.map(|rest| rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect()).collect()
}

#[test]
fn layers_import_only_what_lies_below_them() {
    let allowed: BTreeMap<_, _> = ALLOWED.into_iter().collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = vec![];
    sources(&root, &mut files);
    assert!(files.len() > 25, "the sources are not where this test looks");
    for file in files {
        let inside = file.strip_prefix(&root).unwrap().with_extension("");
        let layer = inside.components().next().unwrap().as_os_str().to_str().unwrap().to_owned();
        if layer == "lib" {
            continue;
        }
        let may = allowed.get(layer.as_str()).unwrap_or_else(|| panic!("{layer} is not in the table of layers"));
        for import in imports(&fs::read_to_string(&file).unwrap()) {
            let fine = import == layer || may.contains(&import.as_str()) || import.starts_with(char::is_uppercase);
            assert!(fine, "{} imports {import}, which {layer} may not", file.display());
        }
    }
}

#[test]
fn core_has_no_std_no_unsafe_and_no_clock() {
    let lib = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")).unwrap();
    for line in ["#![no_std]", "#![forbid(unsafe_code)]", "#[cfg(test)]\nextern crate std;"] {
        assert!(lib.contains(line), "lib.rs lost `{line}`");
    }
    assert_eq!(lib.matches("extern crate std").count(), 1, "std is for tests only");
}
