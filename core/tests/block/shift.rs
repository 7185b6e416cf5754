//! A device that only shifts bios is not called for them, and nobody can tell but by the time that it takes.

use shingle_core::block::{Bio, Data, DeviceId, Op, Payload, PortId, Stack, Status};
use shingle_core::device::{NullConfig, NullDevice, NullZones};
use shingle_core::dm::Table;
use shingle_core::sector::Sector;
use shingle_core::time::{Duration, Instant};

const ZONE: u64 = 64;
const ZONES: u64 = 8;

/// A zoned disk that takes 1 us for a command, and on it three tables of one line, each a zone further in.
struct Layers {
    stack: Stack,
    port: PortId,
    tables: [DeviceId; 3],
}

impl Layers {
    fn new() -> Self {
        let zones = NullZones { max_append: Some(8), ..NullZones::new(ZONE) };
        let completion = Duration::from_micros(1);
        let config = NullConfig { memory_backed: true, completion, ..NullConfig::zoned(ZONE * ZONES, zones) };
        let mut stack = Stack::new();
        let mut top = stack.add(Box::new(NullDevice::new(&config).unwrap())).unwrap();
        let tables = [1, 2, 3].map(|shifted| {
            let limits = stack.limits(top).clone();
            let table = Table::linear(top, &limits, ZONE, ZONE * (ZONES - shifted)).unwrap();
            top = stack.add(Box::new(table)).unwrap();
            top
        });
        let port = stack.open_port();
        Self { stack, port, tables }
    }

    fn submit(&mut self, op: Op, sector: u64) {
        let data = Data::zeroed(8 * 512);
        data.fill(sector as u8 + 1);
        let bio = Bio::new(op, Sector(sector), 8, Payload::Data(data));
        self.stack.submit(self.port, sector, self.tables[2], Box::new(bio));
    }

    /// Lets a millisecond pass; returns how each bio ended, and where an append went.
    fn outcomes(&mut self) -> Vec<(Op, Status, Option<u64>, Vec<u8>)> {
        let mut now = Instant::ZERO;
        while let Some(next) = self.stack.turn(now) {
            now = next;
        }
        let mut all = Vec::new();
        while let Some(done) = self.stack.poll_completion(self.port) {
            let Payload::Data(data) = &done.bio.payload else { panic!("{:?} has lost its memory", done.bio) };
            let place = (done.bio.op == Op::ZoneAppend).then_some(done.bio.sector.0);
            all.push((done.bio.op, done.status, place, data.to_vec()));
        }
        all
    }
}

/// Writes, appends, reads, and a write that fails because it is not at the write pointer.
const LOAD: [(Op, u64); 7] = [
    (Op::Write, 0),
    (Op::Write, 8),
    (Op::ZoneAppend, ZONE),
    (Op::ZoneAppend, ZONE),
    (Op::Write, 40),
    (Op::Read, 8),
    (Op::Read, ZONE + 8),
];

#[test]
fn a_bio_goes_the_same_way_whether_its_hops_are_taken_or_its_devices_are_called() {
    let mut results = Vec::new();
    for is_traced in [false, true] {
        let mut layers = Layers::new();
        // Under a trace every device is called for every bio.
        layers.stack.set_trace(is_traced.then_some(1024));
        LOAD.iter().for_each(|(op, sector)| layers.submit(*op, *sector));
        let outcomes = layers.outcomes();
        assert_eq!(outcomes.len(), LOAD.len());
        assert_eq!(outcomes[3].2, Some(ZONE + 8), "an append is told its place in the sectors of the top");
        assert_eq!(outcomes[5].3, [9; 4096], "what was written is read");
        assert!(outcomes.iter().any(|(_, status, ..)| !status.is_ok()));
        let counters = layers.tables.map(|table| format!("{:?}", layers.stack.counters(table)));
        results.push((outcomes, counters));
    }
    assert_eq!(results[0], results[1]);
}

#[test]
fn what_was_shifted_is_in_flight_in_every_layer_until_it_is_done() {
    let mut layers = Layers::new();
    layers.submit(Op::Write, 0);
    layers.stack.turn(Instant::ZERO);
    let drained = |layers: &Layers| layers.tables.map(|table| layers.stack.is_drained(table));
    assert_eq!(drained(&layers), [false; 3]);
    layers.outcomes();
    assert_eq!(drained(&layers), [true; 3]);
}

#[test]
fn a_suspended_layer_keeps_what_is_shifted_to_it_at_its_door() {
    let mut layers = Layers::new();
    layers.stack.suspend(layers.tables[1]);
    layers.submit(Op::Write, 0);
    assert!(layers.outcomes().is_empty());
    let mut waits_at = Vec::new();
    layers.stack.held(&mut |device, bio| waits_at.push((device, bio.sector)));
    assert_eq!(waits_at, [(layers.tables[1], Sector(ZONE))]);
    layers.stack.resume(layers.tables[1]);
    assert_eq!(layers.outcomes()[0].1, Status::Ok);
}

#[test]
fn a_table_that_replaces_another_shifts_as_it_says() {
    let mut layers = Layers::new();
    let [bottom, middle, _] = layers.tables;
    layers.submit(Op::Write, 0);
    layers.outcomes();
    let limits = layers.stack.limits(bottom).clone();
    let len = limits.capacity - ZONE;
    layers.stack.suspend(middle);
    // A zone less far in: what was its first zone is its second one now.
    layers.stack.replace(middle, Box::new(Table::linear(bottom, &limits, 0, len).unwrap())).unwrap();
    layers.stack.resume(middle);
    layers.submit(Op::Read, ZONE);
    assert_eq!(layers.outcomes()[0].3, [1; 4096]);
}
