//! Plugs of table lines: which there are, and their policies, which outlive the table.

use shingle_core::block::{DeviceId, Stack};
use shingle_core::device::{NullConfig, NullDevice, NullZones};
use shingle_core::dm::parse_table;
use shingle_core::mapper::{LinePlug, Mapper};
use shingle_core::plug::{PlugOptions, WritePolicy, ZonePlug};
use shingle_core::time::Instant;

const ZONE: u64 = 64;
/// Two disks in stripes.
const STRIPED: &str = "0 512 striped 2 8 a 0 b 0";
/// Two lines of the same zones, each over two disks in stripes.
const TWICE: &str = "0 256 striped 2 8 a 0 b 0\n256 256 striped 2 8 a 128 b 128";

struct Bench {
    stack: Stack,
    mapper: Mapper,
    disks: [DeviceId; 2],
    now: u64,
}

impl Bench {
    /// Two zoned disks `a` and `b` with plugs; the second rotates, or none does.
    fn new(rotates: bool) -> Self {
        let mut stack = Stack::new();
        let disks = [false, rotates].map(|rotational| {
            let config = NullConfig { rotational, ..NullConfig::zoned(4 * ZONE, NullZones::new(ZONE)) };
            let disk = stack.add(Box::new(NullDevice::new(&config).unwrap())).unwrap();
            let plug = ZonePlug::new(disk, stack.limits(disk), PlugOptions::for_device(stack.limits(disk)));
            stack.add(Box::new(plug.unwrap())).unwrap()
        });
        Self { stack, mapper: Mapper::new(), disks, now: 0 }
    }

    fn load(&mut self, table: &str) {
        let [a, b] = self.disks;
        let resolver = move |name: &str| if name == "a" { Ok(a) } else { Ok(b) };
        self.mapper.load("wide", parse_table(table).unwrap(), false, (&mut self.stack, &resolver)).unwrap();
        self.turn();
    }

    fn turn(&mut self) {
        self.now += 1000;
        self.stack.turn(Instant(self.now));
        self.mapper.poll(Instant(self.now), (&mut self.stack, &|_: &str| Err(vec![])));
        self.stack.turn(Instant(self.now));
    }

    fn resume(&mut self) {
        let ticket = self.mapper.resume("wide", false, &mut self.stack).unwrap();
        self.turn();
        self.mapper.outcome(ticket).expect("nothing was in flight").unwrap();
    }

    fn made(rotates: bool, table: &str) -> Self {
        let mut bench = Self::new(rotates);
        bench.mapper.create("wide", "").unwrap();
        bench.load(table);
        bench.resume();
        bench
    }

    fn policies(&self) -> Vec<(u32, WritePolicy)> {
        let policy = |of: LinePlug| (of.line, self.stack.device::<ZonePlug>(of.plug).unwrap().policy());
        self.mapper.plugs("wide", &self.stack).into_iter().map(policy).collect()
    }
}

#[test]
fn plugs_of_table_lines_are_listed_with_their_lines() {
    let b = Bench::made(false, TWICE);
    let plugs = b.mapper.plugs("wide", &b.stack);
    let seen: Vec<_> = plugs.iter().map(|plug| (plug.line, plug.target)).collect();
    assert_eq!(seen, [(1, "striped"), (2, "striped")]);
    assert_ne!(plugs[0].plug, plugs[1].plug);
    assert!(b.mapper.plugs("other", &b.stack).is_empty());
}

#[test]
fn a_line_over_a_rotating_disk_begins_with_qd1() {
    assert_eq!(Bench::made(true, STRIPED).policies(), [(1, WritePolicy::Qd1)]);
    assert_eq!(Bench::made(false, STRIPED).policies(), [(1, WritePolicy::Plug)]);
}

#[test]
fn a_chosen_policy_outlives_the_table_and_reaches_the_inactive_one() {
    let mut b = Bench::made(false, TWICE);
    b.load(TWICE);
    b.mapper.choose_policy("wide", None, WritePolicy::Elevator, &mut b.stack).unwrap();
    b.resume();
    assert_eq!(b.policies(), [(1, WritePolicy::Elevator), (2, WritePolicy::Elevator)]);
    b.mapper.choose_policy("wide", Some(2), WritePolicy::Qd1, &mut b.stack).unwrap();
    b.load(TWICE);
    b.resume();
    assert_eq!(b.policies(), [(1, WritePolicy::Elevator), (2, WritePolicy::Qd1)]);
}

#[test]
fn a_new_table_has_new_plugs_and_a_removed_device_none() {
    let mut b = Bench::made(false, TWICE);
    b.load(STRIPED);
    b.resume();
    assert_eq!(b.policies(), [(1, WritePolicy::Plug)]);
    b.load("0 256 linear a 0\n256 256 linear b 0");
    // Another zone size: the device has to be made anew.
    b.mapper.clear("wide", &mut b.stack).unwrap();
    b.mapper.remove("wide", false, &mut b.stack).unwrap();
    assert!(b.mapper.plugs("wide", &b.stack).is_empty());
    let plugs = (0..b.stack.devices()).filter(|id| b.stack.device::<ZonePlug>(DeviceId(*id as u16)).is_some());
    assert_eq!(plugs.count(), 2, "those of the disks");
}
