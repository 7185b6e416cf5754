//! Zoned disks on a file system that is mounted read-only: a damaged host, a backup, squashfs.

use std::process::{Command, Output};

use crate::program::Scratch;

/// Runs commands where `media` is mounted read-only over itself, for these commands alone; `None` if this machine mounts nothing for this user.
fn run(scratch: &Scratch, commands: &str) -> Option<Output> {
    let mount = "mount --bind media media && mount -o remount,ro,bind media";
    let alone = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-ec", script]).current_dir(&scratch.0).output()
    };
    if !alone(mount).is_ok_and(|done| done.status.success()) {
        println!("skipped: no file system can be mounted here");
        return None;
    }
    Some(alone(&format!("{mount}\nPATH={}:$PATH\n{commands}", program_folder())).unwrap())
}

fn program_folder() -> String {
    let folder = std::path::Path::new(env!("CARGO_BIN_EXE_shingle")).parent().unwrap();
    folder.display().to_string()
}

#[test]
fn what_changes_nothing_works_on_read_only_media() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.0.join("media")).unwrap();
    scratch.ok("create media/log --size 64MiB --zone-size 1MiB");
    scratch.ok("stl format media/log");
    scratch.ok("create media/set --size 64MiB --zone-size 1MiB --conventional 16");
    scratch.ok("dmz format media/set");
    let stack = "[disk.log]\ntype = \"zoned-dir\"\npath = \"media/log\"\nread-only = true\n[export.log]\ndevice = \"log\"\n\
                 [listen]\nunix = \"nbd.sock\"\n[control]\nsocket = \"control.sock\"\n";
    scratch.file("stack.toml", stack);
    let commands = "shingle stl check media/log
shingle stl scrub media/log
shingle stl dump media/log
shingle stl salvage media/log -o image
shingle dmz check media/set
shingle dmz dump media/set
shingle dmz salvage media/set -o image.set
shingle zones report media/log --count 1
shingle up stack.toml & up=$!
n=0
until shingle status > status; do n=$((n + 1)); test $n -lt 600; sleep 0.1; done
kill $up
wait $up";
    let Some(done) = run(&scratch, commands) else { return };
    let said = [done.stdout, done.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(done.status.success(), "{said}");
    // A change is refused, and the error names what is read-only.
    let done = run(&scratch, "shingle stl format --force media/log").unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(!done.status.success() && said.contains("Read-only file system"), "{said}");
}
