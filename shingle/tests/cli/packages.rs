//! What the crates need to be published: each is built from its own files alone.

use std::fs;
use std::path::{Path, PathBuf};

const CRATES: [&str; 8] = ["core", "drives", "host", "lab", "mem", "shingle", "sim", "sys"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            sources(&entry, found);
        } else if entry.extension().is_some_and(|it| it == "rs") {
            found.push(entry);
        }
    }
}

/// Files that a source includes, but for its tests, which are not built where the crate is used.
fn included(source: &Path) -> Vec<PathBuf> {
    if source.ends_with("tests.rs") {
        return Vec::new();
    }
    let text = fs::read_to_string(source).unwrap();
    let used = text.split("#[cfg(test)]").next().unwrap();
    let paths = used.split("include_").skip(1).filter_map(|rest| rest.split_once("!(\"")?.1.split('"').next());
    paths.map(|path| source.parent().unwrap().join(path).canonicalize().unwrap()).collect()
}

#[test]
fn a_crate_includes_no_file_that_is_not_inside_of_it() {
    let mut count = 0;
    for name in CRATES {
        let (folder, mut files) = (root().join(name), Vec::new());
        sources(&folder.join("src"), &mut files);
        for source in files {
            for file in included(&source) {
                assert!(file.starts_with(&folder), "{} includes {}", source.display(), file.display());
                count += 1;
            }
        }
    }
    assert!(count > 20, "only {count} files are included: the test does not find them");
}
