//! A head above paths that do what a test says.

use std::collections::VecDeque;
use std::fmt;

use shingle_core::block::{
    Bio, BlockDevice, Completion, Cx, Data, DeviceId, Event, Flags, Limits, Op, PathEvent, Payload, PortId, Silence,
    Stack, Status, ZonedLimits,
};
use shingle_core::multipath::{AddPathError, AnaState, Head, HeadOptions, PathConfig, PolicyKind};
use shingle_core::plug::{PlugOptions, WritePolicy, ZonePlug};
use shingle_core::sector::Sector;
use shingle_core::time::{Duration, Instant};
use shingle_core::zone::{Condition, Zone, ZoneKind};

use Op::ZoneAppend;

pub const ZONE: u64 = 1024;

/// A path that keeps what it gets.
pub struct ByHand {
    limits: Limits,
    held: VecDeque<Box<Bio>>,
    silence: Silence,
    /// Who asked, with which question.
    asked: VecDeque<(DeviceId, u64)>,
}

impl BlockDevice for ByHand {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn submit(&mut self, bio: Box<Bio>, _: &mut Cx<'_>) {
        self.held.push_back(bio);
    }

    fn on_event(&mut self, event: Event, _: &mut Cx<'_>) {
        if let Event::Path(PathEvent::AskSilence { by, question }) = event {
            self.asked.push_back((by, question));
        }
    }

    fn silence(&self) -> Option<Silence> {
        Some(self.silence)
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.held.iter().for_each(|bio| visit(bio));
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        out.write_str("by hand")
    }
}

/// Adds a path by hand to a stack.
pub fn by_hand(stack: &mut Stack, limits: &Limits, silence: Silence) -> DeviceId {
    let (held, asked) = (VecDeque::new(), VecDeque::new());
    stack.add(Box::new(ByHand { limits: limits.clone(), held, silence, asked })).unwrap()
}

/// A read of a regular disk.
pub fn read(sector: u64, sectors: u32) -> Bio {
    Bio::new(Op::Read, Sector(sector), sectors, Payload::Data(Data::zeroed(sectors as usize * 512)))
}

fn config_of(stack: &Stack, path: DeviceId) -> PathConfig {
    PathConfig { silence: stack.silence(path), ..PathConfig::new(path) }
}

pub struct Desk {
    pub stack: Stack,
    pub paths: Vec<DeviceId>,
    pub head: DeviceId,
    /// What is submitted to: the head, or a plug above it.
    top: DeviceId,
    pub port: PortId,
    pub now: Instant,
    /// When something happens next.
    next: Option<Instant>,
    tag: u64,
}

pub fn options() -> HeadOptions {
    HeadOptions { no_path_timeout: Some(ms(1000)), probe: ms(200), silence_timeout: None, ..HeadOptions::default() }
}

pub fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub fn zoned() -> Limits {
    let zones = ZonedLimits { max_append: Some(64), ..ZonedLimits::new(ZONE as u32) };
    Limits { zoned: Some(zones), write_cache: true, ..Limits::new(4 * ZONE) }
}

impl Desk {
    pub fn new(limits: &Limits, silences: &[Silence], options: HeadOptions) -> Self {
        Self::by(PolicyKind::RoundRobin, limits, silences, options)
    }

    pub fn by(kind: PolicyKind, limits: &Limits, silences: &[Silence], options: HeadOptions) -> Self {
        let mut stack = Stack::new();
        let paths: Vec<DeviceId> = silences.iter().map(|silence| by_hand(&mut stack, limits, *silence)).collect();
        Self::over(stack, &paths, kind, options)
    }

    /// A head over one path that is in this state to begin with.
    pub fn with_state(limits: &Limits, state: Option<AnaState>, options: HeadOptions) -> Self {
        let mut stack = Stack::new();
        let path = by_hand(&mut stack, limits, Silence::AtOnce);
        let config = PathConfig { state: state.unwrap_or(AnaState::Optimized), ..PathConfig::new(path) };
        let head = Head::new(&[(config, limits)], PolicyKind::RoundRobin, options).unwrap();
        Self::around(stack, &[path], head)
    }

    /// A head over devices of a stack.
    pub fn over(stack: Stack, paths: &[DeviceId], kind: PolicyKind, options: HeadOptions) -> Self {
        let configs: Vec<_> = paths.iter().map(|path| (config_of(&stack, *path), stack.limits(*path))).collect();
        let head = Head::new(&configs, kind, options).unwrap();
        Self::around(stack, paths, head)
    }

    fn around(mut stack: Stack, paths: &[DeviceId], head: Head) -> Self {
        let head = stack.add(Box::new(head)).unwrap();
        let port = stack.open_port();
        Self { stack, paths: paths.to_vec(), head, top: head, port, now: Instant::ZERO, next: None, tag: 0 }
    }

    /// Makes one more device, the next of `paths`, and adds it to the head; its number there.
    pub fn add(&mut self, limits: &Limits, silence: Silence) -> Result<usize, AddPathError> {
        let path = by_hand(&mut self.stack, limits, silence);
        self.paths.push(path);
        self.add_again(path)
    }

    pub fn add_again(&mut self, path: DeviceId) -> Result<usize, AddPathError> {
        let config = config_of(&self.stack, path);
        let added = Head::add_path(&mut self.stack, self.head, &config);
        self.turn();
        added
    }

    /// Makes one more device that could be a path.
    pub fn another_path(&mut self, limits: &Limits) -> DeviceId {
        by_hand(&mut self.stack, limits, Silence::AtOnce)
    }

    /// Asks for all zones.
    pub fn submit_report(&mut self) {
        let report = Bio::new(Op::ReportZones, Sector::ZERO, 0, Payload::Zones(Vec::with_capacity(4)));
        self.stack.submit(self.port, self.tag, self.top, Box::new(report));
        self.tag += 1;
        self.turn();
    }

    pub fn two() -> Self {
        Self::new(&Limits::new(1 << 16), &[Silence::Told; 2], options())
    }

    pub fn submit(&mut self, op: Op, sector: u64, sectors: u32) {
        self.submit_with(op, sector, sectors, Flags::NONE);
    }

    pub fn submit_with(&mut self, op: Op, sector: u64, sectors: u32, flags: Flags) {
        let payload = if op.has_data() { Payload::Data(Data::zeroed(sectors as usize * 512)) } else { Payload::None };
        let bio = Bio::new(op, Sector(sector), sectors, payload).with_flags(flags);
        self.stack.submit(self.port, self.tag, self.top, Box::new(bio));
        self.tag += 1;
        self.turn();
    }

    pub fn turn(&mut self) {
        self.next = self.stack.turn(self.now);
    }

    /// What the path has.
    pub fn on(&self, path: usize) -> Vec<(Op, u64, u32)> {
        let held = &self.stack.device::<ByHand>(self.paths[path]).unwrap().held;
        held.iter().map(|bio| (bio.op, bio.sector.0, bio.sectors)).collect()
    }

    /// Ends the oldest bio on a path.
    pub fn end(&mut self, path: usize, status: Status) {
        self.end_with(path, status, |_| ());
    }

    pub fn end_with(&mut self, path: usize, status: Status, change: impl FnOnce(&mut Bio)) {
        self.stack.with_device::<ByHand, _>(self.paths[path], |path, cx| {
            let mut bio = path.held.pop_front().expect("a bio on that path");
            change(&mut bio);
            // What comes back may have any sector.
            bio.sector = if bio.op == ZoneAppend { bio.sector } else { Sector(77) };
            if !status.is_ok() {
                bio.blame(shingle_core::block::Reason::Injected(status));
            }
            cx.complete(bio, status);
        });
        self.turn();
    }

    /// Puts a plug on the head, which asks for its zones on the first path: they are empty.
    pub fn put_plug(&mut self, policy: WritePolicy) {
        self.start_plug(policy);
        self.reports(0, [0; 4]);
    }

    /// The same, and the answer is still to come.
    pub fn start_plug(&mut self, policy: WritePolicy) {
        let options = PlugOptions { policy, ..PlugOptions::default() };
        let plug = ZonePlug::new(self.head, self.stack.limits(self.head), options).unwrap();
        self.top = self.stack.add(Box::new(plug)).unwrap();
        self.turn();
    }

    /// Ends the report that a path has: its zone is written so far.
    pub fn report(&mut self, path: usize, written: u64) {
        self.reports(path, [written]);
    }

    /// Ends the report that a path has: its zones are written so far.
    pub fn reports<const N: usize>(&mut self, path: usize, written: [u64; N]) {
        self.end_with(path, Status::Ok, |bio| {
            let Payload::Zones(zones) = &mut bio.payload else { panic!("a report") };
            for (n, written) in written.into_iter().enumerate() {
                let (start, kind) = (bio.sector + n as u64 * ZONE, ZoneKind::Sequential);
                let cond = match written {
                    0 => Condition::Empty,
                    ZONE => Condition::Full,
                    _ => Condition::ImplicitOpen,
                };
                zones.push(Zone { start, len: ZONE, capacity: ZONE, wp: start + written, kind, cond });
            }
        });
    }

    /// A path says that it is silent, to each that asked; how many did.
    pub fn silent(&mut self, path: usize) -> usize {
        let asked = self.stack.device::<ByHand>(self.paths[path]).unwrap().asked.len();
        (0..asked).for_each(|_| self.answer(path, 0));
        asked
    }

    /// A path says that the disk has lost its power so many times.
    pub fn lose_power(&mut self, path: usize, losses: Option<u64>) {
        self.stack.with_device::<ByHand, _>(self.paths[path], |_, cx| cx.announce_losses(losses));
        self.turn();
    }

    /// It answers one of the questions.
    pub fn answer(&mut self, path: usize, which: usize) {
        let device = self.paths[path];
        self.stack.with_device::<ByHand, _>(device, |path, cx| {
            let (by, question) = path.asked.remove(which).expect("a question");
            cx.tell_path(by, PathEvent::Silent { path: device, question });
        });
        self.turn();
    }

    pub fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(next) = self.next.filter(|next| *next <= end) {
            self.now = self.now.max(next);
            self.turn();
        }
        self.now = end;
        self.turn();
    }

    pub fn done(&mut self) -> Vec<(u64, Status)> {
        self.completions().iter().map(|done| (done.tag, done.status)).collect()
    }

    pub fn completions(&mut self) -> Vec<Completion> {
        std::iter::from_fn(|| self.stack.poll_completion(self.port)).collect()
    }

    pub fn tell(&mut self, words: &str) {
        let words: Vec<&str> = words.split(' ').collect();
        self.stack.with_device::<Head, _>(self.head, |head, cx| head.message(&words, cx)).unwrap().unwrap();
        self.turn();
    }

    /// Bios under way by the numbers of the paths.
    pub fn in_flight(&self) -> Vec<u32> {
        self.head().paths().map(|path| path.in_flight).collect()
    }

    pub fn head(&self) -> &Head {
        self.stack.device(self.head).unwrap()
    }
}
