//! A simulated drive over NBD: its power is cut and given back by the command line, and only what was not flushed is lost.

use crate::program::nbd::{BLOCK, Nbd, WRITE, pattern};
use crate::program::{Daemon, Scratch};

/// An SMR disk, on the first, conventional, zone of which anything may be written anywhere.
const STACK: &str = "\
[disk.smr]
type = \"profile\"
profile = \"smr-14tb\"
zones = 4
memory = \"8MiB\"
seed = 7
[disk.other]
type = \"null\"
size = \"16MiB\"
[export.smr]
device = \"smr\"
[listen]
unix = \"nbd.sock\"
[control]
socket = \"control.sock\"
";

const ZONE: u64 = 256 << 20;
const BLOCKS: u64 = 32;

fn offset(block: u64) -> u64 {
    ZONE + block * BLOCK as u64
}

fn write(client: &mut Nbd, block: u64) {
    client.send(WRITE, offset(block), &pattern(block, 1));
    client.written(1);
}

fn start(text: &str) -> (Scratch, Daemon) {
    let scratch = Scratch::with_stack(text);
    let daemon = scratch.up();
    (scratch, daemon)
}

#[test]
fn a_cut_keeps_a_prefix_of_what_was_not_flushed_and_off_means_an_error() {
    let (scratch, daemon) = start(STACK);
    let mut client = Nbd::connect(&scratch, "smr");
    (0..BLOCKS / 2).for_each(|block| write(&mut client, block));
    client.flush();
    (BLOCKS / 2..BLOCKS).for_each(|block| write(&mut client, block));
    assert_eq!(scratch.ok("power cut smr"), "smr: power off, lost 1 times\n");
    assert_ne!(client.read_status(offset(0)), 0, "without power nothing is read");
    scratch.fails("power cut smr", 1, &["`smr` has no power", "shingle power on"]);
    assert_eq!(scratch.json("power on smr --json")["power"], "on");
    let there: Vec<bool> = (0..BLOCKS).map(|block| client.read(offset(block)) == pattern(block, 1)).collect();
    assert!(there[..BLOCKS as usize / 2].iter().all(|there| *there), "{there:?}");
    assert!(there.is_sorted_by(|before, after| before >= after), "a prefix: {there:?}");
    // Writing goes on where the drive says.
    let kept = there.iter().filter(|there| **there).count() as u64;
    let report = scratch.json("zones report smr --json");
    let wp = &report["zones"][1]["wp"];
    assert_eq!(wp.as_u64().unwrap(), offset(kept) / 512, "{report}");
    write(&mut client, kept);
    let status = scratch.json("power status --json");
    let drive = &status["drives"][0];
    assert_eq!((&drive["device"], &drive["cuts"]), (&"smr".into(), &1.into()));
    assert!(drive["answered"].as_u64().unwrap() > BLOCKS && drive["max_lateness_ns"].as_u64().is_some());
    let metrics = scratch.ok("metrics");
    assert!(metrics.contains("shingle_drive_power_cuts_total{device=\"smr\"} 1"), "{metrics}");
    assert!(metrics.contains("shingle_drive_lateness_seconds_count{device=\"smr\"}"), "{metrics}");
    assert!(metrics.contains("shingle_disk_latency_seconds_count{device=\"smr\",work=\"write\"}"), "{metrics}");
    assert!(scratch.ok("status").contains("mean lateness"));
    let log = scratch.stderr_with("power.on of device `smr`");
    assert!(log.contains("power.cut of device `smr`"), "{log}");
    daemon.stop();
}

#[test]
fn what_is_no_simulated_drive_has_no_power_to_cut() {
    let (scratch, daemon) = start(STACK);
    scratch.fails("power cut other", 1, &["`other` (null)", "only simulated drives", "there are: smr"]);
    scratch.fails("power cut smrr", 1, &["did you mean `smr`"]);
    daemon.stop();
}

#[test]
fn a_wrong_profile_or_size_is_shown_with_its_line() {
    let cases = [
        ("profile = \"smr-15tbb\"", "smr-15tb"),
        ("profile = \"null\"", "type = \"null\""),
        ("profile = \"zns-1tb\"\nsize = \"1GiB\"", "multiple of the zone size"),
        ("profile = \"zns-1tb\"\nzones = 4\nsize = \"4GiB\"", "not both"),
        ("profile = \"zns-1tb\"\nzones = 905", "the size of the profile's drive"),
        ("profile = \"smr-15tb\"\nmax-active = 4", "max-open"),
        ("profile = \"ssd-500gb\"\nzones = 4", "use `size`"),
        ("profile = \"zns-1tb\"\nkeep-data = false\nmemory = 4096", "does not keep"),
        ("zones = 4", "add a line such as: profile"),
    ];
    for (keys, says) in cases {
        let scratch = Scratch::with_stack(&format!("[disk.p]\ntype = \"profile\"\n{keys}\n"));
        scratch.fails("up --check stack.toml", 1, &["stack.toml:", says]);
    }
}
