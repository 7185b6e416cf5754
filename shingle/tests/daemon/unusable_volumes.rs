//! Volumes that cannot be used, as a disk is missing, was never formatted, or its table line has another length: what the daemon says and serves.

use crate::program::Scratch;
use crate::program::nbd::Nbd;

/// A stack with a volume `vol` over `disks`, of `sectors` sectors, and a healthy disk `other`.
fn stack(disks: &[&str], sectors: u64) -> String {
    let all = ["a", "b", "blank", "other"];
    let disk = |name: &&str| format!("[disk.{name}]\ntype = \"zoned-dir\"\npath = \"{name}\"\n");
    let disks_text: String = all.iter().map(disk).collect();
    let table = format!("[device.vol]\ntable = \"0 {sectors} stl {}\"\n", disks.join(" "));
    let exports: String = ["vol", "other"].map(|name| format!("[export.{name}]\ndevice = \"{name}\"\n")).concat();
    format!("{disks_text}{table}{exports}[listen]\nunix = \"nbd.sock\"\n[control]\nsocket = \"control.sock\"\n")
}

/// Four disks, of which `a` and `b` hold a volume, and its length in sectors.
fn disks() -> (Scratch, u64) {
    let scratch = Scratch::new();
    for disk in ["a", "b", "blank", "other"] {
        scratch.ok(&format!("create {disk} --size 64MiB --zone-size 1MiB --conventional 2"));
    }
    let formatted = scratch.json("stl format a b --json");
    let table = formatted["table"].as_str().unwrap();
    (scratch, table.split(' ').nth(1).unwrap().parse().unwrap())
}

#[test]
fn up_fails_before_ready_if_an_export_cannot_be_used() {
    let (scratch, sectors) = disks();
    let right = format!("its table line says {}: write {sectors} there", sectors - 8);
    let cases = [
        (stack(&["a"], sectors), "is missing: its table line has to name all 2 disks"),
        (stack(&["blank"], sectors), "`shingle stl format` makes one"),
        (stack(&["a", "b"], sectors - 8), &right),
    ];
    for (text, why) in &cases {
        scratch.file("stack.toml", text);
        let (code, stdout, stderr) = scratch.run("up stack.toml");
        assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
        assert!(stderr.contains("export `vol` cannot be used: ") && stderr.contains(why), "{why:?} is not in {stderr}");
        assert!(stderr.contains("--degraded"), "{stderr}");
        assert!(!scratch.0.join("control.sock").exists() && !scratch.0.join("nbd.sock").exists());
    }
    scratch.file("stack.toml", &stack(&["b", "a"], sectors));
    scratch.up().stop();
}

#[test]
fn degraded_serves_other_exports_and_says_why_one_failed() {
    let (scratch, sectors) = disks();
    scratch.file("stack.toml", &stack(&["a"], sectors));
    let daemon = scratch.up_degraded();
    assert!(daemon.notice.iter().any(|line| line.starts_with("export vol: ") && line.ends_with(", cannot be used")));
    let why = "cannot be used: disk ";
    let log = scratch.stderr();
    assert!(log.contains("ERROR export `vol` cannot be used: disk "), "said before `ready`: {log:?}");

    assert_ne!(Nbd::connect(&scratch, "vol").read_status(0), 0);
    assert_eq!(Nbd::connect(&scratch, "other").read_status(0), 0);
    let status = scratch.ok("status");
    assert!(status.contains(&format!("vol {why}")), "{status}");
    let json = scratch.json("status --json");
    let health = |list: &str, name: &str| {
        let found = json[list].as_array().unwrap().iter().find(|it| it["name"] == name).unwrap();
        (found["health"].clone(), found["fault"].as_str().is_some_and(|fault| fault.starts_with(why)))
    };
    for list in ["devices", "exports"] {
        assert_eq!(health(list, "vol"), ("failed".into(), true), "{list}");
        assert_eq!(health(list, "other"), ("ok".into(), false), "{list}");
    }
    let volumes = scratch.ok("stl status");
    assert!(volumes.starts_with(&format!("vol {why}")) && volumes.lines().count() == 1, "{volumes}");
    assert_eq!(scratch.json("stl status --json")["volumes"][0]["health"], "failed");
    let metrics = scratch.ok("metrics");
    assert!(metrics.contains("shingle_export_health{export=\"vol\",health=\"failed\"} 1"), "{metrics}");
    assert!(metrics.contains("shingle_export_health{export=\"other\",health=\"ok\"} 1"), "{metrics}");
    let top = scratch.ok("top --once --view stuck");
    assert!(top.contains(why), "{top}");
    daemon.stop();
}

#[test]
fn a_stack_file_that_never_ends_or_begins_is_refused() {
    let scratch = Scratch::new();
    scratch.fails("up /dev/zero", 1, &["no regular file"]);
    assert!(std::process::Command::new("mkfifo").arg(scratch.0.join("fifo")).status().unwrap().success());
    scratch.fails("up fifo", 1, &["no regular file"]);
    scratch.file("long.toml", &"# a comment\n".repeat(100_000));
    scratch.fails("up long.toml", 1, &["more than 1048576 bytes"]);
}
