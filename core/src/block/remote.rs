//! Memory that this process does not see.

use alloc::sync::Arc;
use core::fmt;

use super::payload::{Data, Payload, Region};
use super::status::Status;

/// Memory of others, to which the kernel moves data by number: pages of requests that it has registered itself. Who has to look at
/// the data copies it.
pub trait RemoteMemory: Send + Sync {
    /// Its number.
    fn region(&self) -> Region;

    /// Fills `data` with what is there from byte `at` on.
    ///
    /// # Errors
    /// If the memory is gone.
    fn fetch(&self, at: usize, data: &Data) -> Result<(), Status>;

    /// Puts `data` there from byte `at` on.
    ///
    /// # Errors
    /// If the memory is gone.
    fn store(&self, at: usize, data: &Data) -> Result<(), Status>;
}

/// A range of [`RemoteMemory`], in whole sectors.
#[derive(Clone)]
pub struct Remote {
    memory: Arc<dyn RemoteMemory>,
    start: usize,
    len: usize,
}

impl Remote {
    /// The first `len` bytes of `memory`.
    #[must_use]
    pub fn new(memory: Arc<dyn RemoteMemory>, len: usize) -> Self {
        Self { memory, start: 0, len }
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The region that it lies in, and its first byte there.
    #[must_use]
    pub fn region(&self) -> (Region, usize) {
        (self.memory.region(), self.start)
    }

    /// Bytes `skip..skip + len` of it.
    ///
    /// # Panics
    /// If it does not have them.
    #[must_use]
    pub(super) fn slice(&self, skip: usize, len: usize) -> Self {
        assert!(skip + len <= self.len, "slice outside of the memory");
        Self { memory: self.memory.clone(), start: self.start + skip, len }
    }

    /// A copy of it.
    ///
    /// # Errors
    /// If there is no memory for one, or its own is gone.
    pub fn fetch(&self) -> Result<Data, Status> {
        let data = Data::try_zeroed(self.len).ok_or(Status::Resource)?;
        self.memory.fetch(self.start, &data).map(|()| data)
    }

    /// Puts `data` over its start.
    ///
    /// # Errors
    /// If its memory is gone.
    pub fn store(&self, data: &Data) -> Result<(), Status> {
        self.memory.store(self.start, data)
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes elsewhere", self.len)
    }
}

impl Payload {
    /// The same where its data can be looked at; `None`: it is.
    ///
    /// # Errors
    /// As [`Remote::fetch`].
    pub fn fetched(&self) -> Result<Option<Payload>, Status> {
        let Payload::Remote(remote) = self else { return Ok(None) };
        remote.fetch().map(|data| Some(Payload::Data(data)))
    }
}
