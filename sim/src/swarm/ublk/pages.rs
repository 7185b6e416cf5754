//! The memory of requests, which the kernel registers for the server, and who moves data there without the server's looking at it.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use shingle_core::block::{
    Bio, BlockDevice, Cx, Data, DeviceId, Limits, Op, Payload, Region, Remote, RemoteMemory, Status,
};

/// What is in memory that nobody has written yet.
const POISON: u8 = 0xdb;

/// The memory of the requests of a tag, one after the other.
pub(super) struct Pages {
    data: Data,
    is_registered: AtomicBool,
}

impl Pages {
    /// For requests of up to so many bytes.
    pub fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self { data: Data::zeroed(bytes), is_registered: AtomicBool::new(false) })
    }

    /// A new request: what it brings, of each block, and something else behind that.
    pub fn fill(&self, brings: &[u64], unit_words: usize) {
        self.data.fill(POISON);
        for (words, value) in self.data.words().chunks(unit_words).zip(brings) {
            shingle_mem::fill(words, *value);
        }
    }

    pub fn register(&self, is_registered: bool) {
        self.is_registered.store(is_registered, Relaxed);
    }

    /// The first of its words, as many as there are.
    pub fn words(&self, count: usize) -> Vec<u64> {
        let mut words = vec![0; count.min(self.data.words().len())];
        shingle_mem::load(&mut words, &self.data.words()[..count.min(self.data.words().len())]);
        words
    }

    pub fn copy_out(&self, at: usize, data: &Data) -> Result<(), Status> {
        data.copy_from_words(self.data.slice(at, data.len()).words());
        Ok(())
    }

    pub fn copy_in(&self, at: usize, data: &Data) -> Result<(), Status> {
        self.data.slice(at, data.len()).copy_from_words(data.words());
        Ok(())
    }

    /// Memory that is not registered has no number.
    fn known(&self) -> Result<(), Status> {
        if self.is_registered.load(Relaxed) { Ok(()) } else { Err(Status::Invalid) }
    }
}

impl RemoteMemory for Pages {
    fn region(&self) -> Region {
        Region(0)
    }

    fn fetch(&self, at: usize, data: &Data) -> Result<(), Status> {
        self.known().and_then(|()| self.copy_out(at, data))
    }

    fn store(&self, at: usize, data: &Data) -> Result<(), Status> {
        self.known().and_then(|()| self.copy_in(at, data))
    }
}

/// What the kernel does for a disk of its own: it finds the memory of a number.
pub(super) struct Finder {
    below: [DeviceId; 1],
    limits: Limits,
    /// The memory of commands that are under way.
    lent: BTreeMap<u64, Remote>,
    commands: u64,
}

impl Finder {
    /// For this disk.
    pub fn new(below: DeviceId, limits: &Limits) -> Self {
        Self { below: [below], limits: limits.clone(), lent: BTreeMap::new(), commands: 0 }
    }
}

impl BlockDevice for Finder {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn takes_remote(&self, _: bool) -> bool {
        true
    }

    fn below(&self) -> &[DeviceId] {
        &self.below
    }

    fn submit(&mut self, mut bio: Box<Bio>, cx: &mut Cx<'_>) {
        let data = match &bio.payload {
            Payload::Remote(remote) => remote.fetch(),
            _ => return cx.remap(self.below[0], bio),
        };
        match data {
            Ok(data) => {
                if let Payload::Remote(remote) = core::mem::replace(&mut bio.payload, Payload::Data(data)) {
                    self.lent.insert(self.commands, remote);
                }
                cx.submit(self.below[0], bio, self.commands);
                self.commands += 1;
            }
            Err(status) => cx.complete(bio, status),
        }
    }

    fn end_io(&mut self, mut bio: Box<Bio>, mut status: Status, word: u64, cx: &mut Cx<'_>) {
        if let Some(remote) = self.lent.remove(&word) {
            if let (Op::Read, Payload::Data(data)) = (bio.op, &bio.payload)
                && let Err(failure) = remote.store(data)
            {
                status = failure;
            }
            bio.payload = Payload::Remote(remote);
        }
        cx.complete(bio, status);
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "registered memory")
    }
}
