//! A kind of disk that Shingle does not know, brought by whoever links it.

#[allow(dead_code, reason = "its main")]
#[path = "../../examples/compressed_zones.rs"]
mod compressed_zones;

use std::path::{Path, PathBuf};

use shingle_core::zone::{Condition, Zone};
use shingle_host::config::{Kinds, Plan, Source};
use shingle_host::control::ControlClient;
use shingle_host::control::protocol::{DeviceStatus, GetStatus, ManageZones, ResetZones};
use shingle_host::daemon::Daemon;

use crate::support::{Scratch, fail, succeed};

const DISK: &str = "[disk.d]\ntype = \"compressed-zones\"\nsize = \"16MiB\"\nzone-size = \"1MiB\"\n";

fn parse(text: &str) -> Result<Plan, String> {
    let source = Source { path: PathBuf::from("lab/stack.toml"), text: text.to_owned() };
    Plan::parse_with(source, Kinds { back_ends: &compressed_zones::kinds(), ..Kinds::default() })
        .map_err(|error| error.to_string())
}

/// A daemon with such a disk.
struct Served {
    daemon: Daemon,
    client: ControlClient,
    uri: String,
    _sockets: [Scratch; 2],
}

impl Served {
    fn start(name: &str) -> Self {
        let sockets = ["nbd", "control"].map(|what| Scratch::new(&format!("{name}-{what}.sock")));
        let [nbd, control] = sockets.each_ref().map(Scratch::text);
        let exports = "[device.upper]\ntable = \"0 16384 linear d 16384\"\n[export.d]\ndevice = \"d\"\n";
        let ends = format!("[listen]\nunix = {nbd:?}\n[control]\nsocket = {control:?}\n");
        let plan = parse(&format!("{DISK}{exports}{ends}")).unwrap_or_else(|error| panic!("{error}"));
        let daemon = Daemon::start(plan).unwrap_or_else(|error| panic!("{error}"));
        let client = ControlClient::connect(Path::new(control)).unwrap();
        let uri = format!("nbd+unix:///d?socket={nbd}");
        Self { daemon, client, uri, _sockets: sockets }
    }

    fn qemu_io(&self, commands: &[&str]) -> String {
        let commands = commands.iter().flat_map(|command| ["-c", command]);
        let arguments: Vec<&str> = ["-f", "raw", &self.uri].into_iter().chain(commands).collect();
        succeed("qemu-io", &arguments)
    }

    fn zones(&mut self) -> Vec<Zone> {
        self.client.zones("d").unwrap()
    }

    fn status(&mut self) -> DeviceStatus {
        self.client.call(&GetStatus {}).unwrap().devices.swap_remove(0)
    }
}

#[test]
fn a_disk_of_an_own_kind_is_served_and_keeps_what_is_written() {
    let mut served = Served::start("own-kept");
    let noise = Scratch::noise("own-noise", 1 << 20);
    succeed("nbdcopy", &["--connections=1", noise.text(), &served.uri]);
    served.qemu_io(&["write -P 0x5a 1M 256k", "write -P 0 1280k 256k", "read -P 0x5a 1M 256k", "read -P 0 1280k 768k"]);
    let back = Scratch::new("own-back");
    succeed("nbdcopy", &[&served.uri, back.text()]);
    assert!(back.bytes()[..1 << 20] == noise.bytes(), "other bytes came back");
    let DeviceStatus { kind, description, policy, .. } = served.status();
    assert_eq!((kind.as_str(), policy.as_deref()), ("compressed-zones", Some("plug")));
    let words: Vec<u64> = description.split(' ').filter_map(|word| word.parse().ok()).collect();
    assert_eq!(words[0], 256 + 64, "zeroes take nothing: {description}");
    assert!((1 << 20..(1 << 20) + (16 << 10)).contains(&words[1]), "256 KiB are not compressed: {description}");
    served.daemon.stop().unwrap();
}

#[test]
fn zones_of_a_disk_of_an_own_kind_are_reported_and_reset() {
    let mut served = Served::start("own-zones");
    served.qemu_io(&["write -P 0x5a 0 1M", "write -P 0x5a 1M 64k", "write -P 0x5a 2M 64k"]);
    let written: Vec<(Condition, u64)> = served.zones().iter().map(|zone| (zone.cond, zone.wp.0)).collect();
    assert_eq!(written[0].0, Condition::Full);
    assert_eq!(written[1..3], [(Condition::ImplicitOpen, 2048 + 128), (Condition::ImplicitOpen, 4096 + 128)]);
    assert!(written.len() == 16 && written[3..].iter().all(|(cond, _)| *cond == Condition::Empty), "{written:?}");
    let out_of_order = fail("qemu-io", &["-f", "raw", &served.uri, "-c", "write 1152k 4k"]);
    assert!(out_of_order.contains("write failed"), "{out_of_order}");
    let reset = ManageZones { device: "d".into(), start: 0, length: Some(4096), force: true };
    served.client.call(&ResetZones(reset)).unwrap();
    assert!(served.zones()[..2].iter().all(|zone| zone.cond == Condition::Empty && zone.wp == zone.start));
    served.qemu_io(&["read -P 0 0 2M", "read -P 0x5a 2M 64k", "write -P 0xa5 0 4k", "read -P 0xa5 0 4k"]);
    assert!(served.status().description.starts_with("compressed-zones: 17 blocks"), "{}", served.status().description);
    served.daemon.stop().unwrap();
}

#[test]
fn mistakes_in_a_disk_of_an_own_kind_are_shown_with_the_others_each_in_its_line() {
    let disk = "[disk.d]\ntype = \"compressed-zones\"\nsize = 5000\nzone-sze = \"1MiB\"\npolicy = \"plg\"\n";
    let said = parse(&format!("{disk}[disk.e]\ntype = \"compressed\"\n[disk.f]\n")).unwrap_err();
    for expected in [
        "lab/stack.toml:3:8",
        "`size` is no multiple of 4096 bytes",
        "did you mean `zone-size`?",
        "did you mean \"plug\"?",
        "known are: zoned-dir, zoned-blk, file, profile, null, compressed-zones",
        "type = \"zoned-dir\"  (or \"zoned-blk\", or \"file\", or \"profile\", or \"null\", or \"compressed-zones\")",
    ] {
        assert!(said.contains(expected), "{expected} is missing in:\n{said}");
    }
    let many = parse("[disk.d]\ntype = \"compressed-zones\"\nsize = \"1PiB\"\nzone-size = 4096\n").unwrap_err();
    assert!(many.contains("no disk with such zones") && many.contains("zones are more than"), "{many}");
    let beyond = parse(&format!("{DISK}[device.m]\ntable = \"0 4096 linear d 30720\"\n")).unwrap_err();
    assert!(beyond.contains("past the end"), "a table is tried on a model of the disk: {beyond}");
    let unknown = Plan::parse(Source { text: DISK.into(), ..Source::default() }).unwrap_err().to_string();
    assert!(
        unknown.contains("known are: zoned-dir, zoned-blk, file, profile, null"),
        "only this program has it: {unknown}"
    );
}
