//! Everything that can be asked of the load: each number with where it comes from.

use core::ops::RangeInclusive;

use shingle_core::time::Duration;

/// Bytes of a block of the file system.
pub const BLOCK_BYTES: u64 = 4096;

/// The programs, the file system and the machine. A default is what the field's documents or the kernel's sources say.
#[derive(Clone, Debug)]
pub struct Ext4Options {
    /// What the programs do.
    pub load: Load,
    /// What `mkfs.ext4 -E packed_meta_blocks=1` made.
    pub format: Format,
    /// The memory of the machine and when it is written back.
    pub memory: Memory,
    /// Longest bio, in blocks: 256 pages (`include/linux/bvec.h`: `BIO_MAX_VECS`).
    pub bio_blocks: u32,
    /// Bios of data that are in flight at once; the flusher waits for one of them. A queue takes more, but writes that nobody
    /// waits for get half of 16 requests of it (`block/blk-wbt.c`: `RWB_DEF_DEPTH`, `calc_wb_limits`).
    pub requests: u32,
    /// Time between a transaction's begin and its commit (`fs/jbd2`: `JBD2_DEFAULT_MAX_COMMIT_AGE`).
    pub commit_interval: Duration,
    /// Time from the first program's start to the end.
    pub runtime: Duration,
    /// The width of a sample of throughput.
    pub sample: Duration,
    /// Seed of file lengths and of the places of directories.
    pub seed: u64,
}

/// What the programs do.
#[derive(Clone, Debug)]
pub struct Load {
    /// Programs that write files, one at a time each.
    pub writers: u32,
    /// Files that each of them writes for a data point, into one new directory.
    pub files: u32,
    /// Length of a file in bytes; drawn anew for each.
    pub file_bytes: RangeInclusive<u64>,
    /// Processor time to write 4 KiB into the page cache: 3 us are 1.4 GB/s for each program, what one core copies through a
    /// file system.
    pub write_block: Duration,
    /// Processors that share this work.
    pub processors: u32,
    /// Blocks that a program writes before it looks whether it has to wait. The kernel's own unit follows the rate and is
    /// smaller; only the grain of the waits depends on it.
    pub step_blocks: u32,
    /// Whether a data point ends with `sync`.
    pub sync: bool,
}

/// What mkfs made of the device.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// Bytes of the device for each inode: 32768 from 4 to 16 TiB (`mke2fs.conf`, type `big`).
    pub inode_ratio: u64,
    /// Bytes of an inode (`mke2fs.conf`).
    pub inode_bytes: u64,
    /// Block groups in a flex group (`mke2fs(8)`, `-G`).
    pub flex_groups: u32,
    /// Blocks of the journal: 1 GiB on any large device (e2fsprogs, `ext2fs_default_journal_size`).
    pub journal_blocks: u64,
    /// Whether mkfs runs first, before time is counted. What it writes takes room on a device below that maps.
    pub make: bool,
}

/// The memory of the machine, and when dirty pages of it are written back.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Bytes that may become dirty: free memory and the page cache.
    pub dirtyable_bytes: u64,
    /// Percent of it that may be dirty before writing back begins (`vm.dirty_background_ratio`).
    pub background_percent: u64,
    /// Percent of it at which programs stand still (`vm.dirty_ratio`).
    pub dirty_percent: u64,
    /// Age at which a dirty file is written back in any case (`vm.dirty_expire_centisecs`).
    pub expire: Duration,
    /// How often old files are looked for (`vm.dirty_writeback_centisecs`).
    pub wake: Duration,
}

impl Default for Ext4Options {
    /// The published load: 20 programs, 10 files of 1 to 4 MiB each per data point, two hours, on a machine with 16 GiB.
    fn default() -> Self {
        Self {
            load: Load {
                writers: 20,
                files: 10,
                file_bytes: 1 << 20..=4 << 20,
                write_block: Duration::from_micros(3),
                processors: 8,
                step_blocks: 128,
                sync: false,
            },
            format: Format {
                inode_ratio: 32_768,
                inode_bytes: 256,
                flex_groups: 16,
                journal_blocks: 262_144,
                make: true,
            },
            memory: Memory {
                dirtyable_bytes: 15 << 30,
                background_percent: 10,
                dirty_percent: 20,
                expire: Duration::from_millis(30_000),
                wake: Duration::from_millis(5_000),
            },
            bio_blocks: 256,
            requests: 8,
            commit_interval: Duration::from_millis(5_000),
            runtime: Duration::from_millis(7_200_000),
            sample: Duration::from_millis(10_000),
            seed: 1,
        }
    }
}

impl Memory {
    /// Dirty blocks from which on the flusher works.
    pub(super) fn background(&self) -> u64 {
        self.dirtyable_bytes / BLOCK_BYTES * self.background_percent / 100
    }

    /// Dirty blocks that there may be.
    pub(super) fn limit(&self) -> u64 {
        self.dirtyable_bytes / BLOCK_BYTES * self.dirty_percent / 100
    }
}
