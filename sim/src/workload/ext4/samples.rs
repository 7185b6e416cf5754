//! What came of the load, over time.

use alloc::vec::Vec;

use shingle_core::time::{Duration, Instant};

/// An interval of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Bytes of files that programs closed: what they see.
    pub closed: u64,
    /// Bytes of data that the device has written.
    pub data: u64,
    /// Bytes of metadata that the device has written, in the journal and in place.
    pub metadata: u64,
}

/// A data point: every program wrote its files into one new directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// When it began.
    pub began: Instant,
    /// When the last file was closed, or the sync was over.
    pub ended: Instant,
    /// Bytes of its files.
    pub bytes: u64,
}

impl Point {
    /// Bytes per second in units of 10^6.
    #[must_use]
    pub fn mb_per_s(&self) -> f64 {
        self.bytes as f64 * 1e3 / self.ended.since(self.began).0.max(1) as f64
    }
}

/// All samples of a run, each as long as `width`.
pub struct Samples {
    /// Since when samples are counted.
    pub began: Instant,
    width: Duration,
    /// From the start on.
    pub all: Vec<Sample>,
}

impl Samples {
    /// None yet.
    pub fn new(width: Duration) -> Self {
        Self { began: Instant::ZERO, width: Duration(width.0.max(1)), all: Vec::new() }
    }

    /// The one that `now` is in.
    pub fn at(&mut self, now: Instant) -> &mut Sample {
        let index = (now.since(self.began).0 / self.width.0) as usize;
        if index >= self.all.len() {
            self.all.resize(index + 1, Sample::default());
        }
        &mut self.all[index]
    }
}
