//! Arrays: controllers with weights that share servers.

use std::collections::VecDeque;

use shingle_core::block::{Bio, Data, DeviceId, Limits, Op, Payload, PortId, Stack, Status};
use shingle_core::device::{NullConfig, NullDevice, NullZones};
use shingle_core::sector::Sector;
use shingle_core::time::{Duration, Instant};
use shingle_drives::{Array, ArrayConfig, Controller, RamConfig, RamDisk, ServiceTime};

use crate::bench::us;

fn config(weights: &[u32], servers: u32, read: ServiceTime) -> ArrayConfig {
    ArrayConfig { weights: weights.to_vec(), servers, read, write: ServiceTime::NONE, seed: 1 }
}

/// An array over a RAM disk, and its controllers.
struct Rack {
    stack: Stack,
    port: PortId,
    controllers: Vec<DeviceId>,
    now: Instant,
}

impl Rack {
    fn new(config: ArrayConfig) -> Self {
        let mut stack = Stack::new();
        let port = stack.open_port();
        let disk = stack.add(Box::new(RamDisk::new(&RamConfig { servers: 1000, ..RamConfig::new(1024) }).unwrap()));
        let disk = disk.unwrap();
        let count = config.weights.len();
        let array = stack.add(Box::new(Array::new(disk, stack.limits(disk), config).unwrap())).unwrap();
        let controllers = (0..count).map(|number| {
            let controller = Controller::new(array, stack.device(array).unwrap(), number).unwrap();
            stack.add(Box::new(controller)).unwrap()
        });
        let controllers = controllers.collect();
        Self { stack, port, controllers, now: Instant::ZERO }
    }

    fn send(&mut self, controller: usize, op: Op, data: &Data) {
        let bio = Bio::new(op, Sector(controller as u64), 1, Payload::Data(data.clone()));
        self.stack.submit(self.port, controller as u64, self.controllers[controller], Box::new(bio));
    }

    /// The tag of the next bio that is back.
    fn next(&mut self) -> usize {
        loop {
            if let Some(done) = self.stack.poll_completion(self.port) {
                assert_eq!(done.status, Status::Ok);
                return done.tag as usize;
            }
            self.now = self.stack.turn(self.now).map_or(self.now, |next| next.max(self.now));
        }
    }

    /// What each controller does in a second, after a tenth, if so many bios are always under way and `next` says where to each goes that
    /// comes after one to a controller; and the mean number under way at each.
    fn load(&mut self, depths: &[usize], mut next: impl FnMut(usize) -> usize) -> Vec<(u64, f64)> {
        let data = Data::zeroed(512);
        let mut inside: Vec<u64> = depths.iter().map(|depth| *depth as u64).collect();
        for (controller, depth) in depths.iter().enumerate() {
            (0..*depth).for_each(|_| self.send(controller, Op::Read, &data));
        }
        let mut rates = vec![(0, 0.0); depths.len()];
        let mut last = Instant(100_000_000);
        while self.now < Instant(1_100_000_000) {
            let done = self.next();
            if self.now >= last {
                let span = self.now.since(last).0 as f64 / 1e9;
                rates.iter_mut().zip(&inside).for_each(|(rate, inside)| rate.1 += *inside as f64 * span);
                rates[done].0 += 1;
                last = self.now;
            }
            let to = next(done);
            inside[done] -= 1;
            inside[to] += 1;
            self.send(to, Op::Read, &data);
        }
        rates
    }
}

#[test]
fn loaded_controllers_share_the_servers_by_their_weights() {
    let mut rack = Rack::new(config(&[6, 3, 1], 10, ServiceTime::Exponential(us(1000))));
    let rates = rack.load(&[100, 100, 100], |done| done);
    let total: u64 = rates.iter().map(|(rate, _)| rate).sum();
    assert!((9600..10_400).contains(&total), "all servers are busy: {total}");
    for ((rate, _), share) in rates.iter().zip([0.6, 0.3, 0.1]) {
        assert!((*rate as f64 / total as f64 / share - 1.0).abs() < 0.03, "{rates:?}");
    }
}

#[test]
fn what_one_controller_does_not_need_the_others_get() {
    let mut rack = Rack::new(config(&[99, 1], 10, ServiceTime::Exponential(us(1000))));
    let rates = rack.load(&[2, 50], |done| done);
    let (first, second) = (rates[0].0, rates[1].0);
    // The first waits only until the next server is free, and leaves the rest.
    assert!((1700..2000).contains(&first) && (9700..10_300).contains(&(first + second)), "{rates:?}");
}

#[test]
fn a_controller_that_was_idle_has_no_claim_to_make_up_for() {
    let mut rack = Rack::new(config(&[1, 1], 1, ServiceTime::Constant(us(1))));
    let data = Data::zeroed(512);
    (0..100).for_each(|_| rack.send(0, Op::Read, &data));
    (0..50).for_each(|_| assert_eq!(rack.next(), 0));
    (0..20).for_each(|_| rack.send(1, Op::Read, &data));
    let next: Vec<usize> = (0..20).map(|_| rack.next()).collect();
    let of_second = next.iter().sum::<usize>();
    assert!((9..=11).contains(&of_second), "in turn, though it had nothing for long: {next:?}");
}

/// Published raw data of an asymmetric array with four paths (two FC, two TCP), 4 KiB random reads: reads a second and mean number in
/// flight of each path. Weights are fitted to the row of queue-depth, which kept as many in flight everywhere; the row of
/// round-robin is a prediction.
#[test]
fn an_asymmetric_array_does_what_the_published_one_did_when_paths_are_loaded_alike_and_in_turn() {
    let array = || Rack::new(config(&[239, 226, 28, 9], 64, ServiceTime::Exponential(us(1276))));
    let alike = array().load(&[374, 395, 384, 385], |done| done);
    let published = [23_907, 22_637, 2761, 867];
    for ((rate, _), published) in alike.iter().zip(published) {
        assert!((*rate as f64 / f64::from(published) - 1.0).abs() < 0.06, "{alike:?}");
    }
    let mut turn = VecDeque::from([0, 1, 2, 3]);
    let in_turn = array().load(&[282, 282, 282, 281], |_| {
        turn.rotate_left(1);
        turn[0]
    });
    for (rate, _) in &in_turn {
        assert!((*rate as f64 / 12_546.0 - 1.0).abs() < 0.03, "{in_turn:?}");
    }
    // Published: 51, 37, 88 and 951. Nearly all wait for the slowest.
    assert!(in_turn[3].1 > 850.0 && in_turn[..3].iter().all(|(_, inside)| *inside < 120.0), "{in_turn:?}");
}

#[test]
fn what_is_written_through_one_controller_is_read_through_another() {
    let mut rack = Rack::new(config(&[1, 5], 2, ServiceTime::NONE));
    let mut transfer = |controller: usize, op, byte: u8| {
        let data = Data::zeroed(512);
        data.fill(byte);
        let bio = Bio::new(op, Sector(1023), 1, Payload::Data(data.clone()));
        rack.stack.submit(rack.port, 0, rack.controllers[controller], Box::new(bio));
        rack.next();
        data.to_vec()[0]
    };
    transfer(1, Op::Write, 9);
    assert_eq!((transfer(0, Op::Read, 0), transfer(1, Op::Read, 0)), (9, 9));
}

#[test]
fn wrong_parameters_of_an_array_are_named() {
    let plain = Limits::new(1024);
    let base = |weights: &[u32]| config(weights, 1, ServiceTime::NONE);
    let zoned = NullDevice::new(&NullConfig { zoned: Some(NullZones::new(128)), ..NullConfig::new(1024) }).unwrap();
    let zoned = shingle_core::block::BlockDevice::limits(&zoned).clone();
    let cases = [
        (base(&[]), &plain, "weights are not 1 to 64"),
        (base(&[1, 0]), &plain, "weights are not from 1"),
        (ArrayConfig { servers: 0, ..base(&[1]) }, &plain, "servers"),
        (ArrayConfig { read: ServiceTime::Exponential(Duration::ZERO), ..base(&[1]) }, &plain, "read time"),
        (base(&[1]), &zoned, "zones"),
    ];
    for (config, limits, words) in cases {
        let error = Array::new(DeviceId(0), limits, config).err().expect(words).to_string();
        assert!(error.contains(words), "{error}");
    }
    let array = Array::new(DeviceId(0), &plain, base(&[1, 1])).unwrap();
    assert!(Controller::new(DeviceId(1), &array, 1).is_ok() && Controller::new(DeviceId(1), &array, 2).is_err());
}
