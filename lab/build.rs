//! Tells the crate with which profile of Cargo.toml it is built: Cargo says that in the path of the output directory alone.

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let out = std::env::var("OUT_DIR").unwrap_or_default();
    // target/[TRIPLE/]PROFILE/build/PACKAGE/out
    let build = Path::new(&out).ancestors().find(|folder| folder.ends_with("build"));
    let folder = build.and_then(Path::parent).and_then(Path::file_name).and_then(|name| name.to_str());
    let profile = match folder {
        Some("debug") => "dev",
        Some(profile) => profile,
        None => "unknown",
    };
    println!("cargo::rustc-env=SHINGLE_PROFILE={profile}");
}
