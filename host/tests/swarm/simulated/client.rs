//! An NBD client that knows what it asked for and what it may be told, and that is not always polite.

use std::collections::{BTreeMap, VecDeque};
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use shingle_core::block::{Data, Flags, Op, Payload};
use shingle_core::random::Rng;
use shingle_core::time::{Duration, Instant};
use shingle_sim::volume::{BLOCK_BYTES, Volume, VolumeRequest, read_stamps, stamp};

use super::tls::TlsClient;

pub const EXPORT: &str = "disk";

/// What a client does at some time, other than ask and read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Habit {
    /// It ends when all its requests are answered, with a goodbye.
    Good,
    /// It goes away, perhaps in the middle of a request.
    Vanishes,
    /// It is reset, and what was on its way is lost.
    Resets,
    /// It neither reads nor sends, and stays.
    Silent,
    /// It says something that is no request.
    Raves,
}

const HABITS: [Habit; 7] =
    [Habit::Good, Habit::Good, Habit::Good, Habit::Vanishes, Habit::Resets, Habit::Silent, Habit::Raves];

/// How a client's end of the connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Open,
    /// All that it has sent arrives, and then the end.
    Closed,
    Reset,
}

/// How far a client is on its way to TLS.
enum Tls {
    /// It does not go there.
    Never,
    /// It has asked for it.
    Asked,
    /// It does what TLS does.
    Begun(Box<TlsClient>),
}

/// What clients share.
pub struct World {
    pub volume: Volume,
    pub rng: Rng,
    pub now: Instant,
    /// Whether an error needs a reason, and there is none.
    pub flawless: bool,
    pub stopping: bool,
    pub replies: u64,
}

pub struct Client {
    pub habit: Habit,
    pub end: End,
    /// The far end of the server's socket, once it is accepted. Nothing but its end comes through it.
    pub line: Option<UnixStream>,
    /// On its way to the server.
    pub outbound: VecDeque<u8>,
    /// Come from the server.
    pub inbound: Vec<u8>,
    tls: Tls,
    /// What the server has said, out of TLS if there is any.
    heard: Vec<u8>,
    /// When it does something next.
    pub act_at: Option<Instant>,
    pub knocks: bool,
    /// Whether the server was kept from serving it.
    pub harmed: bool,
    /// Whether the server has closed the connection.
    pub is_over: bool,
    greeted: bool,
    said_goodbye: bool,
    pending: BTreeMap<u64, VolumeRequest>,
    /// Without an answer when the connection ended: they are carried out or not until the server has let it go.
    lost: Vec<u64>,
    left: u64,
    /// With so many requests left it follows its habit.
    turns_at: u64,
    depth: usize,
    zeroes: bool,
}

const GREETING: usize = 18;
const EXPORT_NAME: u32 = 1;
const STARTTLS: u32 = 5;
/// Bytes of the answer to an option that has none.
const ACKNOWLEDGEMENT: usize = 20;
const SIMPLE_REPLY: u32 = 0x6744_6698;
const REPLY: usize = 16;
/// Zeroes behind the answer to `EXPORT_NAME`, for who does not renounce them.
const ZEROES: usize = 124;

mod command {
    pub const READ: u16 = 0;
    pub const WRITE: u16 = 1;
    pub const DISC: u16 = 2;
    pub const FLUSH: u16 = 3;
    pub const TRIM: u16 = 4;
    pub const WRITE_ZEROES: u16 = 6;
}

fn header(command: u16, flags: u16, cookie: u64, (offset, length): (u64, u32)) -> Vec<u8> {
    let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes().into_iter().chain(command.to_be_bytes()));
    bytes.extend(cookie.to_be_bytes().into_iter().chain(offset.to_be_bytes()).chain(length.to_be_bytes()));
    bytes
}

fn option(which: u32, data: &[u8]) -> Vec<u8> {
    let numbers = [which, data.len() as u32].into_iter().flat_map(u32::to_be_bytes);
    b"IHAVEOPT".iter().copied().chain(numbers).chain(data.iter().copied()).collect()
}

impl Client {
    pub fn new(rng: &mut Rng, has_tls: bool) -> Self {
        let left = 5 + rng.below(40);
        Self {
            habit: HABITS[rng.below(HABITS.len() as u64) as usize],
            end: End::Open,
            line: None,
            outbound: VecDeque::new(),
            inbound: Vec::new(),
            tls: if has_tls { Tls::Asked } else { Tls::Never },
            heard: Vec::new(),
            act_at: Some(Instant::ZERO + Duration::from_micros(rng.below(20_000))),
            knocks: false,
            harmed: false,
            is_over: false,
            greeted: false,
            said_goodbye: false,
            pending: BTreeMap::new(),
            lost: Vec::new(),
            left,
            turns_at: rng.below(left + 1),
            depth: 1 + rng.below(8) as usize,
            zeroes: rng.chance(1, 4),
        }
    }

    /// Whether it will do nothing more by itself.
    pub fn has_finished(&self) -> bool {
        self.is_over || self.habit == Habit::Silent && self.left <= self.turns_at && self.end == End::Open
    }

    fn is_deaf(&self) -> bool {
        self.habit == Habit::Silent && self.left <= self.turns_at
    }

    /// The server took it in.
    pub fn connected(&mut self, line: UnixStream, world: &mut World) {
        (self.line, self.knocks) = (Some(line), false);
        if self.is_deaf() {
            return;
        }
        let flags: u32 = if self.zeroes { 1 } else { 3 };
        self.outbound.extend(flags.to_be_bytes());
        match self.tls {
            Tls::Asked => self.outbound.extend(option(STARTTLS, b"")),
            _ => self.outbound.extend(option(EXPORT_NAME, EXPORT.as_bytes())),
        }
        self.wake(world);
    }

    fn say(&mut self, bytes: &[u8]) {
        match &mut self.tls {
            Tls::Begun(tls) => {
                tls.say(bytes);
                tls.flush(&mut self.outbound);
            }
            _ => self.outbound.extend(bytes),
        }
    }

    /// Hears what the server has said.
    fn hear(&mut self) -> Result<(), String> {
        if matches!(self.tls, Tls::Asked) && self.inbound.len() >= GREETING + ACKNOWLEDGEMENT {
            if self.inbound[GREETING + 8..][..8] != [0, 0, 0, 5, 0, 0, 0, 1] {
                return Err("the server does not want TLS".into());
            }
            self.inbound.drain(..GREETING + ACKNOWLEDGEMENT);
            self.tls = Tls::Begun(Box::new(TlsClient::new()));
        }
        match &mut self.tls {
            Tls::Never => self.heard.append(&mut self.inbound),
            Tls::Asked => {}
            Tls::Begun(tls) => {
                let was_up = tls.is_up;
                tls.turn(&std::mem::take(&mut self.inbound), &mut self.heard, &mut self.outbound)?;
                if tls.is_up && !was_up {
                    self.say(&option(EXPORT_NAME, EXPORT.as_bytes()));
                }
            }
        }
        Ok(())
    }

    /// Something came for it.
    pub fn wake(&mut self, world: &mut World) {
        let at = world.now + Duration::from_micros(1 + world.rng.below(300));
        self.act_at = Some(self.act_at.map_or(at, |other| other.min(at)));
    }

    pub fn act(&mut self, world: &mut World) -> Result<(), String> {
        self.act_at = None;
        if self.line.is_none() {
            self.knocks = true;
            return Ok(());
        }
        if self.end != End::Open || self.is_deaf() {
            return Ok(());
        }
        self.read(world)?;
        while self.greeted && !self.said_goodbye && self.pending.len() < self.depth {
            if self.left == self.turns_at && self.habit != Habit::Good {
                self.turn(world);
                return Ok(());
            }
            if self.left == 0 {
                break;
            }
            self.left -= 1;
            self.ask(world);
        }
        if self.left == 0 && self.pending.is_empty() && self.greeted && !self.said_goodbye {
            self.said_goodbye = true;
            self.say(&header(command::DISC, 0, 0, (0, 0)));
        }
        Ok(())
    }

    /// Does what it has come for.
    fn turn(&mut self, world: &mut World) {
        match self.habit {
            Habit::Good | Habit::Silent => {}
            Habit::Raves => {
                // Around TLS that is somebody on the way: nothing that comes behind can be answered, or believed.
                if matches!(self.tls, Tls::Begun(_)) && world.rng.chance(1, 2) {
                    self.outbound.extend([0x55; 64]);
                    self.harmed = true;
                } else {
                    self.say(&[0x55; 64]);
                }
                self.said_goodbye = true;
            }
            Habit::Vanishes => {
                let kept = world.rng.below(self.outbound.len() as u64 + 1) as usize;
                self.outbound.truncate(kept);
                self.hang_up(End::Closed);
            }
            Habit::Resets => {
                self.outbound.clear();
                self.hang_up(End::Reset);
            }
        }
    }

    fn hang_up(&mut self, end: End) {
        self.end = end;
        self.inbound.clear();
        self.heard.clear();
        self.lost.extend(std::mem::take(&mut self.pending).into_keys());
    }

    fn ask(&mut self, world: &mut World) {
        let rng = &mut world.rng;
        let block = rng.below(world.volume.blocks().into()) as u32;
        let blocks = 1 + rng.below(u64::from(world.volume.blocks() - block).min(8)) as u32;
        let fua = rng.chance(1, 3);
        let (op, command) = match rng.below(10) {
            0 => (Op::Flush, command::FLUSH),
            1 => (Op::Discard, command::TRIM),
            2 => (Op::WriteZeroes, command::WRITE_ZEROES),
            3..6 => (Op::Read, command::READ),
            _ => (Op::Write, command::WRITE),
        };
        let flags = if fua && matches!(op, Op::Write | Op::WriteZeroes) { Flags::FUA } else { Flags::NONE };
        let request = if op == Op::Flush { VolumeRequest::FLUSH } else { VolumeRequest { op, flags, block, blocks } };
        let cookie = world.volume.submit(request, world.now);
        let bytes = request.blocks as usize * BLOCK_BYTES;
        let place = (u64::from(request.block) * BLOCK_BYTES as u64, bytes as u32);
        self.say(&header(command, u16::from(flags.has(Flags::FUA)), cookie, place));
        if op == Op::Write {
            let data = Data::zeroed(bytes);
            stamp(&data, cookie, block);
            self.say(&data.to_vec());
        }
        self.pending.insert(cookie, request);
    }

    /// Takes in all that is whole.
    fn read(&mut self, world: &mut World) -> Result<(), String> {
        if let Err(what) = self.hear() {
            return if self.harmed || self.end != End::Open { Ok(()) } else { Err(what) };
        }
        if !self.greeted {
            // Of one without TLS the greeting is before it.
            let greeting = if matches!(self.tls, Tls::Never) { GREETING } else { 0 };
            let whole = greeting + 10 + if self.zeroes { ZEROES } else { 0 };
            if self.heard.len() < whole {
                return Ok(());
            }
            let size = u64::from(world.volume.blocks()) * BLOCK_BYTES as u64;
            if (greeting > 0 && self.heard[..16] != *b"NBDMAGICIHAVEOPT")
                || self.heard[greeting..][..8] != size.to_be_bytes()
            {
                return Err("the server greets with something else".into());
            }
            self.heard.drain(..whole);
            self.greeted = true;
        }
        while self.reply(world)? {}
        Ok(())
    }

    /// Takes in one reply. Whether there was one.
    fn reply(&mut self, world: &mut World) -> Result<bool, String> {
        let Some(head) = self.heard.first_chunk::<REPLY>() else { return Ok(false) };
        let (magic, error) = (word(&head[..4]), word(&head[4..8]));
        let cookie = u64::from(word(&head[8..12])) << 32 | u64::from(word(&head[12..]));
        if magic != SIMPLE_REPLY {
            return Err(format!("a torn reply: it begins with {magic:#x}"));
        }
        let Some(request) = self.pending.get(&cookie).copied() else {
            return Err(format!("a reply to request {cookie}, which waits for none"));
        };
        let bytes = if error == 0 && request.op == Op::Read { request.blocks as usize * BLOCK_BYTES } else { 0 };
        if self.heard.len() < REPLY + bytes {
            return Ok(false);
        }
        let data = Data::zeroed(bytes);
        data.write(0, &self.heard[REPLY..REPLY + bytes]);
        self.heard.drain(..REPLY + bytes);
        self.pending.remove(&cookie);
        world.replies += 1;
        if error == 0 {
            let told = world.volume.succeed(cookie, read_stamps(&Payload::Data(data)));
            return told.map(|()| true).map_err(|(rule, what)| format!("{rule:?}: {what}"));
        }
        if world.flawless && request.op != Op::Discard {
            return Err(format!("request {cookie}: {request}: error {error} without a fault"));
        }
        world.volume.fail(cookie).map(|_| true).map_err(|(rule, what)| format!("{rule:?}: {what}"))
    }

    /// Looks whether the server has closed the connection, and whether it may.
    pub fn look(&mut self, world: &mut World) -> Result<(), String> {
        let Some(line) = self.line.as_ref().filter(|_| !self.is_over) else { return Ok(()) };
        let mut polled = [PollFd::new(line, PollFlags::IN)];
        poll(&mut polled, Some(&Timespec::default())).map_err(|error| error.to_string())?;
        if polled[0].revents().is_empty() {
            return Ok(());
        }
        self.is_over = true;
        if self.end == End::Open && !self.is_deaf() {
            self.read(world)?;
            self.check_end(world)?;
        }
        self.hang_up(End::Closed);
        for number in self.lost.drain(..) {
            world.volume.fail(number).map_err(|(rule, what)| format!("{rule:?}: {what}"))?;
        }
        Ok(())
    }

    fn check_end(&self, world: &World) -> Result<(), String> {
        let Self { habit, said_goodbye, heard, pending, .. } = self;
        if self.harmed {
            return Ok(());
        }
        if !said_goodbye && !world.stopping {
            return Err(format!("the server hung up on a client that is {habit:?}, {} requests open", pending.len()));
        }
        if !heard.is_empty() && self.greeted {
            return Err(format!("a torn reply: {} bytes at the end of a connection", heard.len()));
        }
        // A stop comes between what was sent and what was received.
        if *habit == Habit::Raves && !pending.is_empty() && !world.stopping {
            return Err(format!("no answer to {} requests before something that is none", pending.len()));
        }
        Ok(())
    }
}

fn word(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |word, byte| word << 8 | u32::from(*byte))
}
