//! The structures of ublk are where the kernel's header has them. The C compiler says where; `guest/build` brings the newest header.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use shingle_sys::ublk::layout;

/// A folder with `linux/ublk_cmd.h`: the newest kernel's if guests are there, or the machine's.
fn headers() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"));
    let newest = target.join("guest/headers/include");
    if newest.join("linux/ublk_cmd.h").exists() { newest } else { "/usr/include".into() }
}

/// What the compiler makes of `body`, with that header: lines of output; `None` if there is no compiler.
fn compiled(body: &str) -> Option<String> {
    let program = std::env::temp_dir().join(format!("shingle-layout-{}", std::process::id()));
    let head =
        ["stddef.h", "stdio.h", "sys/ioctl.h", "linux/ublk_cmd.h"].map(|name| format!("#include <{name}>\n")).concat();
    let text =
        format!("{head}int main(void) {{\n#ifndef UBLK_F_UPDATE_SIZE\nputs(\"old\");\n#else\n{body}#endif\n}}\n");
    let mut compiler = Command::new("cc")
        .args(["-x", "c", "-", "-o"])
        .arg(&program)
        .arg("-isystem")
        .arg(headers())
        .stdin(Stdio::piped())
        .spawn()
        .ok()?;
    compiler.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(compiler.wait().unwrap().success(), "{text}");
    let output = Command::new(&program).output().unwrap().stdout;
    std::fs::remove_file(&program).unwrap();
    Some(String::from_utf8(output).unwrap())
}

#[test]
fn every_field_and_number_is_where_the_kernels_header_has_it() {
    let mut body = String::new();
    for (place, _) in layout::FIELDS {
        let (structure, field) = place.split_once('.').unwrap();
        body += &format!("printf(\"%zu\\n\", offsetof(struct {structure}, {field}));\n");
    }
    for (name, _) in layout::SIZES {
        body += &format!("printf(\"%zu\\n\", sizeof(struct {name}));\n");
    }
    for (name, _) in layout::NUMBERS {
        body += &format!("printf(\"%llu\\n\", (unsigned long long)({name}));\n");
    }
    let Some(theirs) = compiled(&body) else {
        println!("skipped: there is no C compiler (cc)");
        return;
    };
    if theirs == "old\n" {
        println!("skipped: {} is of a kernel before 6.16; guest/build brings a newer one", headers().display());
        return;
    }
    let sizes = layout::FIELDS.iter().chain(layout::SIZES).map(|(name, ours)| (*name, *ours as u64));
    let ours = sizes.chain(layout::NUMBERS.iter().copied());
    let differing: Vec<String> = ours
        .zip(theirs.lines())
        .filter(|((_, ours), theirs)| ours.to_string() != *theirs)
        .map(|((name, ours), theirs)| format!("{name}: {ours} here, {theirs} there"))
        .collect();
    let count = layout::FIELDS.len() + layout::SIZES.len() + layout::NUMBERS.len();
    assert_eq!(theirs.lines().count(), count);
    assert!(differing.is_empty(), "{differing:#?}");
}
