//! What the generator writes, so that a read can be checked: `--verify=crc32c` or `--verify=pattern`.
//!
//! A `crc32c` block begins with a header of 32 bytes, little-endian, then random bytes from its own seed:
//!
//! | bytes | meaning |
//! | --- | --- |
//! | 0..8 | magic `shingle\n` |
//! | 8..16 | byte offset that the write was addressed to: its own, for a zone append its zone's start |
//! | 16..20 | sequence number of the write in its job: an older version of a block is found out |
//! | 20..24 | length of the block in bytes |
//! | 24..28 | CRC-32C of everything from byte 32 on |
//! | 28..32 | zero |

use shingle_core::random::Rng;

use shingle_core::block::Data;

const MAGIC: u64 = u64::from_le_bytes(*b"shingle\n");
const HEADER: usize = 32;

/// How blocks are filled and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filling {
    /// A header with a checksum, then random bytes.
    Crc32c,
    /// These bytes, repeated from the start of the block.
    Pattern(Vec<u8>),
}

/// Which write a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Byte offset that the write is addressed to.
    pub offset: u64,
    /// The write's number in its job.
    pub sequence: u32,
}

/// What a reader knows of the write whose block it checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Byte offset that the write was addressed to.
    pub offset: u64,
    /// Its number; `None` if another run wrote it.
    pub sequence: Option<u32>,
}

impl Filling {
    /// Fills `data` for one write. `scratch` is as long as the block.
    pub fn fill(&self, data: &Data, stamp: Stamp, scratch: &mut [u8]) {
        match self {
            Filling::Crc32c => fill_block(scratch, stamp),
            Filling::Pattern(pattern) => repeat(pattern, scratch),
        }
        data.write(0, scratch);
    }

    /// Checks that `data` holds the block of the write that `expected` names.
    pub fn check(&self, data: &Data, expected: Expected, scratch: &mut [u8]) -> Result<(), Mismatch> {
        data.read(0, scratch);
        match self {
            Filling::Crc32c => check_block(scratch, expected),
            Filling::Pattern(pattern) => check_pattern(pattern, scratch),
        }
    }
}

fn repeat(pattern: &[u8], to: &mut [u8]) {
    to.chunks_mut(pattern.len()).for_each(|chunk| chunk.copy_from_slice(&pattern[..chunk.len()]));
}

fn check_pattern(pattern: &[u8], block: &[u8]) -> Result<(), Mismatch> {
    let wrong = block.chunks(pattern.len()).position(|chunk| *chunk != pattern[..chunk.len()]);
    wrong.map_or(Ok(()), |chunk| Err(Mismatch::Pattern { at: chunk * pattern.len() }))
}

fn fill_block(block: &mut [u8], stamp: Stamp) {
    let (header, body) = block.split_at_mut(HEADER);
    let mut rng = Rng::new(stamp.offset ^ u64::from(stamp.sequence) << 32);
    body.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&rng.draw().to_le_bytes()[..chunk.len()]));
    header.fill(0);
    header[..8].copy_from_slice(&MAGIC.to_le_bytes());
    header[8..16].copy_from_slice(&stamp.offset.to_le_bytes());
    header[16..20].copy_from_slice(&stamp.sequence.to_le_bytes());
    header[20..24].copy_from_slice(&((HEADER + body.len()) as u32).to_le_bytes());
    header[24..28].copy_from_slice(&crc32c::crc32c(body).to_le_bytes());
}

fn check_block(block: &[u8], expected: Expected) -> Result<(), Mismatch> {
    let (header, body) = block.split_at(HEADER);
    let number = |from: usize| u32::from_le_bytes([header[from], header[from + 1], header[from + 2], header[from + 3]]);
    let wide = |from: usize| u64::from(number(from)) | u64::from(number(from + 4)) << 32;
    if wide(0) != MAGIC {
        return Err(Mismatch::Magic(wide(0)));
    }
    let differ = |field, found: u64, expected: u64| Err(Mismatch::Field { field, found, expected });
    if number(20) as usize != block.len() {
        return differ("length", number(20).into(), block.len() as u64);
    }
    if wide(8) != expected.offset {
        return differ("offset", wide(8), expected.offset);
    }
    if let Some(sequence) = expected.sequence.filter(|s| *s != number(16)) {
        return differ("sequence number", number(16).into(), sequence.into());
    }
    let found = crc32c::crc32c(body);
    if found != number(24) { differ("CRC-32C", found.into(), number(24).into()) } else { Ok(()) }
}

/// How a block differs from what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// It does not begin as a verified block does.
    Magic(u64),
    /// A header field, or the checksum, is another.
    Field {
        /// Which.
        field: &'static str,
        /// What the block says.
        found: u64,
        /// What it should say.
        expected: u64,
    },
    /// The pattern breaks off.
    Pattern {
        /// At this byte of the block.
        at: usize,
    },
}

shingle_core::impl_display!(Mismatch, |self, f| match self {
    Self::Magic(found) => {
        write!(f, "no verification header (magic is {found:#x}): the block was never written with --verify")
    }
    Self::Field { field, found, expected } => write!(f, "{field} is {found:#x} instead of {expected:#x}"),
    Self::Pattern { at } => write!(f, "the pattern breaks off at byte {at} of the block"),
});

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp = Stamp { offset: 81920, sequence: 9 };

    fn written(verify: &Filling) -> Data {
        let data = Data::zeroed(4096);
        verify.fill(&data, STAMP, &mut [0; 4096]);
        data
    }

    fn check(data: &Data, offset: u64, sequence: Option<u32>) -> Result<(), Mismatch> {
        Filling::Crc32c.check(data, Expected { offset, sequence }, &mut [0; 4096])
    }

    #[test]
    fn a_block_is_accepted_where_and_as_it_was_written() {
        let data = written(&Filling::Crc32c);
        assert_eq!(check(&data, 81920, Some(9)), Ok(()));
        assert_eq!(check(&data, 81920, None), Ok(()), "another run knows no sequence number");
    }

    #[test]
    fn a_block_in_the_wrong_place_or_an_old_version_of_it_is_found_out() {
        let data = written(&Filling::Crc32c);
        assert!(matches!(check(&data, 4096, Some(9)), Err(Mismatch::Field { field: "offset", .. })));
        assert!(matches!(check(&data, 81920, Some(10)), Err(Mismatch::Field { field: "sequence number", .. })));
    }

    #[test]
    fn every_single_flipped_byte_is_found_out() {
        for at in (0..28).chain([32, 33, 2048, 4095]) {
            let data = written(&Filling::Crc32c);
            let mut byte = [0];
            data.read(at, &mut byte);
            data.write(at, &[byte[0] ^ 0x10]);
            assert!(check(&data, 81920, Some(9)).is_err(), "byte {at}");
        }
    }

    #[test]
    fn a_pattern_is_repeated_and_its_break_is_located() {
        let verify = Filling::Pattern(vec![0xde, 0xad, 0xbe]);
        let data = written(&verify);
        let expected = Expected { offset: 0, sequence: None };
        assert_eq!(verify.check(&data, expected, &mut [0; 4096]), Ok(()));
        data.write(300, &[0]);
        assert_eq!(verify.check(&data, expected, &mut [0; 4096]), Err(Mismatch::Pattern { at: 300 }));
    }

    #[test]
    fn unwritten_zeroes_are_no_verified_block() {
        let error = check(&Data::zeroed(4096), 0, None).unwrap_err();
        assert!(error.to_string().contains("never written with --verify"), "{error}");
    }
}
