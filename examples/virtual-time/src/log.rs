//! The code under test: a log of numbers on a zoned drive, one a block. It knows nothing of simulations.

/// Bytes of a block.
pub const BLOCK: usize = 4096;

const MAGIC: u64 = 0x006c_6f67_5f30_3031;

/// What the log asks of a drive. Blocks are numbered from 0.
pub trait Drive {
    /// Writes a block, at the write pointer of its zone.
    ///
    /// # Errors
    /// What the drive says.
    fn write(&mut self, block: u64, data: &[u8; BLOCK]) -> Result<(), String>;

    /// Reads a block.
    ///
    /// # Errors
    /// What the drive says.
    fn read(&mut self, block: u64) -> Result<[u8; BLOCK], String>;

    /// Makes all that was written durable.
    ///
    /// # Errors
    /// What the drive says.
    fn flush(&mut self) -> Result<(), String>;

    /// Of each zone its first block, its write pointer, and its end.
    ///
    /// # Errors
    /// What the drive says.
    fn zones(&mut self) -> Result<Vec<(u64, u64, u64)>, String>;
}

/// When an append returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledge {
    /// Once its record is durable.
    AfterTheFlush,
    /// Once the drive has it: a bug, as the drive's buffer is volatile.
    BeforeTheFlush,
}

/// A log.
pub struct Log<D> {
    drive: D,
    acknowledge: Acknowledge,
    /// Where zones are written next, and where they end.
    heads: Vec<(u64, u64)>,
    records: Vec<u64>,
}

impl<D: Drive> Log<D> {
    /// Finds what is there.
    ///
    /// # Errors
    /// What the drive says, and records that are none.
    pub fn open(mut drive: D, acknowledge: Acknowledge) -> Result<Self, String> {
        let zones = drive.zones()?;
        let mut records = Vec::new();
        for block in zones.iter().flat_map(|(start, pointer, _)| *start..*pointer) {
            records.push(parse(&drive.read(block)?).ok_or_else(|| format!("block {block} is no record"))?);
        }
        let heads = zones.into_iter().map(|(_, pointer, end)| (pointer, end)).collect();
        Ok(Self { drive, acknowledge, heads, records })
    }

    /// Appends a record. It is there for ever when this returns.
    ///
    /// # Errors
    /// What the drive says, and that the log is full.
    pub fn append(&mut self, record: u64) -> Result<(), String> {
        let head = self.heads.iter_mut().find(|(pointer, end)| pointer < end).ok_or("the log is full")?;
        let mut block = [0; BLOCK];
        block[..8].copy_from_slice(&MAGIC.to_le_bytes());
        block[8..16].copy_from_slice(&record.to_le_bytes());
        self.drive.write(head.0, &block)?;
        head.0 += 1;
        self.records.push(record);
        if self.acknowledge == Acknowledge::AfterTheFlush { self.drive.flush() } else { Ok(()) }
    }

    /// All records, in their order.
    #[must_use]
    pub fn records(&self) -> &[u64] {
        &self.records
    }

    /// The drive.
    #[must_use]
    pub fn into_drive(self) -> D {
        self.drive
    }
}

fn parse(block: &[u8; BLOCK]) -> Option<u64> {
    let word = |at: usize| Some(u64::from_le_bytes(block[at..at + 8].try_into().ok()?));
    if word(0)? == MAGIC { word(8) } else { None }
}
