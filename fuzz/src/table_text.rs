//! Tables as text, and the verbs of mapped devices, over a small stack with a regular, a zoned and a log disk: nothing panics,
//! an error names a line that the table has, what is accepted can be shown and read again, and a stack that is left alone comes
//! to rest.

use shingle_core::block::{Bio, Data, DeviceId, Op, Payload, PortId, Stack};
use shingle_core::device::null::{NullConfig, NullDevice, NullZones};
use shingle_core::dm::{View, parse_table};
use shingle_core::mapper::{Mapper, MapperError, Ticket};
use shingle_core::plug::{PlugOptions, ZonePlug};
use shingle_core::sector::Sector;
use shingle_core::time::Instant;

use crate::words::spell;

/// Names of devices. Others are made up by the bytes.
const NAMES: [&str; 3] = ["x", "y", "z"];
/// Most turns until nothing is under way.
const MOST_TURNS: usize = 10_000;

/// Words that a control character of the input stands for, so that tables that make sense are found soon.
const WORDS: &str = "0 64 128 1024 \n linear striped delay crypt dust flakey multipath round-robin faulty log-writes disk \
    log smr x y 2 1 8 512 aes-xts-plain64 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f \
    enable addbadblock @stats_create - /4";

struct Bench {
    stack: Stack,
    mapper: Mapper,
    disks: [(&'static str, DeviceId); 3],
    port: PortId,
    now: Instant,
    tickets: Vec<Ticket>,
}

impl Bench {
    fn new() -> Self {
        let mut stack = Stack::new();
        let mut add =
            |config: &NullConfig| stack.add(Box::new(NullDevice::new(config).expect("a disk"))).expect("room");
        let memory = NullConfig { memory_backed: true, write_cache: true, ..NullConfig::new(1024) };
        let (regular, log) = (add(&memory), add(&memory));
        let zones = NullZones { conventional: 2, ..NullZones::new(64) };
        let zoned = add(&NullConfig { zoned: Some(zones), ..memory });
        let plug = ZonePlug::new(zoned, stack.limits(zoned), PlugOptions::default()).expect("a zoned disk");
        let plug = stack.add(Box::new(plug)).expect("room");
        let port = stack.open_port();
        let disks = [("disk", regular), ("log", log), ("smr", plug)];
        Self { stack, mapper: Mapper::new(), disks, port, now: Instant(0), tickets: Vec::new() }
    }

    fn load(&mut self, name: &str, text: &str, read_only: bool) {
        let Some(lines) = parse(text) else { return };
        let disks = self.disks;
        let resolver = move |name: &str| find(&disks, name);
        if let Err(error) = self.mapper.load(name, lines, read_only, (&mut self.stack, &resolver)) {
            check(&error, text);
        }
    }

    /// One line of the input: a verb and what it needs.
    fn obey(&mut self, verb: u8, name: &str, text: &str) {
        let noflush = text.len() % 2 == 1;
        match verb {
            b'c' => drop(self.mapper.create(name, text)),
            b'l' | b'L' => self.load(name, text, verb == b'L'),
            b'r' => self.tickets.extend(self.mapper.resume(name, noflush, &mut self.stack)),
            b's' => self.tickets.extend(self.mapper.suspend(name, noflush, &mut self.stack)),
            b'k' => drop(self.mapper.clear(name, &mut self.stack)),
            b'd' => drop(self.mapper.remove(name, noflush, &mut self.stack)),
            b'n' => drop(self.mapper.rename(name, text)),
            b'u' => drop(self.mapper.set_uuid(name, text)),
            b'w' => {
                let disks = self.disks;
                drop(self.mapper.load_error(name, (&mut self.stack, &move |name: &str| find(&disks, name))));
            }
            b'm' => {
                let words: Vec<&str> = text.split(' ').collect();
                drop(self.mapper.message(name, text.len() as u64, &words, (&mut self.stack, self.now)));
            }
            b'x' => {
                if let Some(ticket) = self.tickets.pop() {
                    self.mapper.cancel(ticket, &mut self.stack);
                }
            }
            b'b' => self.submit(name, text),
            _ => self.turn(),
        }
    }

    /// A bio of any kind.
    fn submit(&mut self, name: &str, text: &str) {
        let Ok(device) = self.mapper.device(name) else { return };
        let mut bytes = text.bytes().chain([0; 3]);
        let mut next = || usize::from(bytes.next().unwrap_or(0));
        let (op, sector, sectors) = (Op::ALL[next() % Op::COUNT], next() as u64 * 4, next() as u32 % 32);
        let payload = match op {
            Op::Read | Op::Write | Op::ZoneAppend if sectors > 0 => Payload::Data(Data::zeroed(sectors as usize * 512)),
            Op::ReportZones => Payload::Zones(Vec::with_capacity(sectors as usize)),
            _ => Payload::None,
        };
        self.stack.submit(self.port, 0, device, Box::new(Bio::new(op, Sector(sector), sectors, payload)));
    }

    fn turn(&mut self) {
        let next = self.stack.turn(self.now);
        self.now = Instant(self.now.0 + 1000).max(next.unwrap_or(self.now));
        self.stack.turn(self.now);
        let disks = self.disks;
        self.mapper.poll(self.now, (&mut self.stack, &move |name: &str| find(&disks, name)));
        while self.stack.poll_completion(self.port).is_some() {}
    }

    /// Shows everything, and lets everything come to its end.
    fn finish(mut self) {
        let names: Vec<String> = self.mapper.names().map(String::from).collect();
        for name in &names {
            for inactive in [false, true] {
                let text = self.mapper.table(name, inactive, true, &self.stack).expect("it is there");
                if !text.is_empty() {
                    let lines = parse_table(&text).expect("what is shown can be read");
                    let view = View { shows_keys: true, device: None };
                    for line in lines {
                        line.write(&view, &mut String::new()).expect("a string takes everything");
                    }
                }
                drop(self.mapper.status(name, inactive, &self.stack));
            }
            drop((self.mapper.info(name, &self.stack), self.mapper.deps(name)));
            self.tickets.extend(self.mapper.resume(name, false, &mut self.stack));
        }
        for _ in 0..MOST_TURNS {
            self.turn();
            let suspending = |name: &String| {
                self.mapper
                    .info(name, &self.stack)
                    .is_ok_and(|info| info.state == shingle_core::mapper::StateName::Suspending)
            };
            if !names.iter().any(suspending) {
                return;
            }
        }
        panic!("a change does not come to an end");
    }
}

fn find(disks: &[(&str, DeviceId)], name: &str) -> Result<DeviceId, Vec<String>> {
    let found = disks.iter().find(|(known, _)| *known == name);
    found.map(|(_, id)| *id).ok_or_else(|| disks.iter().map(|(name, _)| name.to_string()).collect())
}

fn parse(text: &str) -> Option<Vec<shingle_core::dm::TableLine>> {
    parse_table(text)
        .inspect_err(|error| assert!((1..=text.lines().count().max(1)).contains(&error.line), "{error}\n{text}"))
        .ok()
}

fn check(error: &MapperError, text: &str) {
    assert!(!error.message.is_empty());
    if let Some(table) = &error.table {
        assert!((1..=text.lines().count()).contains(&table.line), "{error}\n{text}");
    }
}

/// Runs one input.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    // A table alone, in whatever words.
    parse(text);
    let words: Vec<&str> = WORDS.split(' ').collect();
    let mut bench = Bench::new();
    for line in text.split(';') {
        let mut chars = line.chars();
        let (Some(verb), Some(who)) = (chars.next(), chars.next()) else { continue };
        let name = NAMES[who as usize % NAMES.len()];
        bench.obey(verb.try_into().unwrap_or(0), name, &spell(chars.as_str(), &words, " "));
    }
    bench.finish();
}
