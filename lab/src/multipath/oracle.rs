//! The oracle: it sends each I/O where it will be done first, and knows all queues, all times in which nothing will move, and what
//! other submitters have under way. What is drawn for each I/O it knows only by its mean.
//!
//! It is a bound in practice and not in theory: what is best for one I/O need not be best for those after it. So there are two, and the
//! better one counts: one goes by its own time alone, the other also by what it costs those behind it.

use shingle_core::block::{DeviceId, Stack};
use shingle_core::time::{Duration, Instant};
use shingle_drives::{Array, Controller, Link, RamDisk};

/// What is asked about.
#[derive(Clone, Copy)]
pub struct Question {
    /// When it is sent.
    pub now: Instant,
    /// Whether it reads; otherwise it writes.
    pub is_read: bool,
    /// Its data.
    pub bytes: u64,
}

/// When an I/O is done, and what it costs the others: as long as it waits for a wire, those that come meanwhile wait for it.
#[derive(Clone, Copy)]
struct Prospect {
    done: Instant,
    burden: Duration,
}

/// What becomes of an I/O that is sent to `device`; `None`: it gets lost or is refused.
fn foresee(stack: &mut Stack, device: DeviceId, of: Question) -> Option<Prospect> {
    come(stack, device, of, of.now)
}

/// The same of an I/O that arrives there at `at`.
fn come(stack: &mut Stack, device: DeviceId, of: Question, at: Instant) -> Option<Prospect> {
    let Question { now, is_read, bytes } = of;
    let at_disk = |done| Some(Prospect { done, burden: Duration::ZERO });
    if let Some(disk) = stack.device::<RamDisk>(device) {
        return at_disk(disk.foresee(now, at, is_read));
    }
    let below = stack.below(device).first().copied()?;
    if let Some(controller) = stack.device::<Controller>(device).map(Controller::number) {
        let served = stack.device::<Array>(below)?.foresee(controller, now, at, is_read);
        let disk = *stack.below(below).first()?;
        return come(stack, disk, of, served);
    }
    type Foresight = Option<(Instant, Duration)>;
    let link = |stack: &mut Stack, f: &mut dyn FnMut(&mut Link) -> Foresight| {
        stack.with_device(device, |link: &mut Link, _| f(link)).flatten()
    };
    let held = come(stack, below, of, now)?.done.since(now);
    let (there, wait_there) = link(stack, &mut |link| link.foresee_there(at, bytes, !is_read, held))?;
    let Prospect { done, burden } = come(stack, below, of, there)?;
    let (done, wait_back) = link(stack, &mut |link| link.foresee_back(now, done, if is_read { bytes } else { 0 }))?;
    let wait = if is_read { wait_back } else { wait_there };
    Some(Prospect { done, burden: Duration(burden.0 + wait.0) })
}

/// The paths of one submitter.
pub struct Ways {
    /// Each, and whether it is optimized: while one of these is usable, no other one gets anything.
    pub paths: Vec<(DeviceId, bool)>,
    /// I/Os that each has got.
    pub sent: Vec<u64>,
    /// I/Os under way on each.
    pub in_flight: Vec<u32>,
    last: usize,
    is_selfless: bool,
}

impl Ways {
    /// These paths, without I/O. One that is selfless counts what an I/O costs the others too.
    pub fn new(paths: impl Iterator<Item = (DeviceId, bool)>, is_selfless: bool) -> Self {
        let paths: Vec<_> = paths.collect();
        let (sent, in_flight) = (vec![0; paths.len()], vec![0; paths.len()]);
        Self { paths, sent, in_flight, last: 0, is_selfless }
    }

    /// The path on which an I/O is done first; of equal ones the next in turn.
    pub fn choose(&mut self, stack: &mut Stack, of: Question) -> usize {
        let count = self.paths.len();
        let cost = |place: &usize| {
            let (device, is_optimized) = self.paths[*place];
            let prospect = foresee(stack, device, of);
            let burden = |of: Prospect| if self.is_selfless { of.burden } else { Duration::ZERO };
            let end = prospect.map(|of| of.done + burden(of));
            let turn = (place + count - self.last - 1) % count;
            (end.is_none(), !is_optimized, end, turn)
        };
        let path = (0..count).min_by_key(cost).unwrap_or(0);
        self.last = path;
        self.sent[path] += 1;
        self.in_flight[path] += 1;
        path
    }
}
