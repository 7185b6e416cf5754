//! What a job has done, and how fast.

use shingle_core::time::Instant;

use shingle_host::latency::Histogram;

shingle_core::named_enum! {
    /// Reads, writes or trims, in fio's order.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[repr(u8)]
    pub enum Direction {
        /// Reads.
        Read => "read",
        /// Writes and appends.
        Write => "write",
        /// Discards.
        Trim => "trim",
    }

    /// fio's name.
    fn name(self) -> &'static str;
}

/// One direction of a job.
#[derive(Clone, Default)]
pub struct Flow {
    /// Latency of every I/O; its count is the number of I/Os.
    pub latency: Histogram,
    /// Time in which the job was doing these, in ns.
    pub busy_ns: u64,
    /// I/Os per second, sampled.
    pub rates: Vec<f64>,
    sampled: u64,
}

impl Flow {
    /// I/Os done.
    pub fn ios(&self) -> u64 {
        self.latency.count()
    }

    /// Adds a flow of the same time: rates add up.
    fn merge(&mut self, other: &Flow) {
        self.latency.merge(&other.latency);
        self.busy_ns = self.busy_ns.max(other.busy_ns);
        self.rates.iter_mut().zip(&other.rates).for_each(|(rate, other)| *rate += other);
        self.rates.extend(other.rates.iter().skip(self.rates.len()));
    }

    /// Takes a sample of the rate since the sample before.
    pub fn sample(&mut self, span_ns: u64) {
        let done = self.ios() - self.sampled;
        self.sampled = self.ios();
        if done > 0 {
            self.rates.push(done as f64 * 1e9 / span_ns as f64);
        }
    }
}

/// Everything that a job counts.
#[derive(Clone, Default)]
pub struct JobStats {
    /// By [`Direction`].
    pub flows: [Flow; 3],
    /// Latency of every flush.
    pub syncs: Histogram,
    /// Zones that were reset.
    pub zone_resets: u64,
    /// Blocks that were read back and compared.
    pub verified: u64,
    phase_started: Instant,
}

impl JobStats {
    /// Adds what another job did at the same time.
    pub fn merge(&mut self, other: &JobStats) {
        self.flows.iter_mut().zip(&other.flows).for_each(|(flow, other)| flow.merge(other));
        self.syncs.merge(&other.syncs);
        self.zone_resets += other.zone_resets;
        self.verified += other.verified;
    }

    /// The flow of one direction.
    pub fn flow(&self, direction: Direction) -> &Flow {
        &self.flows[direction as usize]
    }

    /// A phase begins.
    pub fn begin(&mut self, now: Instant) {
        self.phase_started = now;
    }

    /// A phase in which the job did these ends.
    pub fn end(&mut self, now: Instant, directions: impl IntoIterator<Item = Direction>) {
        for direction in directions {
            self.flows[direction as usize].busy_ns += now.since(self.phase_started).as_nanos();
        }
    }
}
