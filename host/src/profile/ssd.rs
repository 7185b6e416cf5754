//! The tables of an ordinary SSD.

use shingle_core::time::Duration;
use shingle_drives::{Ssd, SsdConfig};

use super::values::{SECOND, Table, Values};

/// Reads what `[ssd]` says.
pub fn read(values: &mut Values<'_>) -> Option<SsdConfig> {
    let config = values.table("ssd", read_ssd)?;
    values.check(Ssd::new(&config));
    Some(config)
}

fn read_ssd(table: &mut Table<'_>) -> SsdConfig {
    let block_bytes = table.size("block", 512..=65536) as u32;
    let (read_rate, write_rate) = (table.rate("read-rate"), table.rate("write-rate"));
    let mut time = |key| table.time(key, Duration::ZERO..=SECOND);
    let (read, write, flush) = (time("read"), time("write"), time("flush"));
    SsdConfig {
        capacity: table.size("size", 1 << 20..=1 << 50) / u64::from(block_bytes) * u64::from(block_bytes / 512),
        block_bytes,
        max_sectors: (table.size("max-command", 4096..=1 << 30) / 512) as u32,
        read_rate,
        write_rate,
        read,
        write,
        flush,
        memory_backed: true,
    }
}
