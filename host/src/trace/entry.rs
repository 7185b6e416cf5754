//! One entry of a recording as 32 bytes, the same in a file and on the control socket.

use shingle_core::block::{Action, DeviceId, Flags, Op, Status, TraceEvent};
use shingle_core::sector::Sector;
use shingle_core::time::Instant;

/// Length of an entry.
pub const ENTRY_BYTES: usize = 32;

/// The letter of an entry that says that events are missing. The others are those of [`Action`].
const LOST: u8 = b'L';

/// What a recording consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedEntry {
    /// Something happened to a bio. Times count from the start of the recording, and devices in the recording's list.
    Hop(TraceEvent),
    /// Events fell out of a shard's ring before they were read.
    Lost {
        /// The time of the first event after them.
        at: Instant,
        /// The shard.
        shard: u16,
        /// How many.
        count: u64,
    },
}

impl RecordedEntry {
    /// When it happened.
    #[must_use]
    pub fn at(&self) -> Instant {
        match self {
            RecordedEntry::Hop(event) => event.at,
            RecordedEntry::Lost { at, .. } => *at,
        }
    }

    /// The entry as bytes, little-endian.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &self.at().0.to_le_bytes());
        match *self {
            RecordedEntry::Hop(event) => {
                let TraceEvent { action, device, number, depth, returned, op, flags, sector, sectors, status, .. } =
                    event;
                put(8, &sector.0.to_le_bytes());
                put(16, &sectors.to_le_bytes());
                put(20, &number.to_le_bytes());
                put(24, &device.0.to_le_bytes());
                put(26, &[action.letter() as u8, op as u8, flags.bits(), status as u8, depth, u8::from(returned)]);
            }
            RecordedEntry::Lost { shard, count, .. } => {
                put(8, &count.to_le_bytes());
                put(24, &shard.to_le_bytes());
                put(26, &[LOST]);
            }
        }
        bytes
    }

    /// The entry in `bytes`, or the field that makes no sense.
    pub fn from_bytes(bytes: &[u8; ENTRY_BYTES]) -> Result<Self, &'static str> {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|n| bytes[at + n]));
        let half = |at: usize| (word(at) & 0xffff_ffff) as u32;
        let (at, device) = (Instant(word(0)), half(24) as u16);
        let [letter, op, flags, status, depth, returned] = std::array::from_fn(|n| bytes[26 + n]);
        if letter == LOST {
            return Ok(RecordedEntry::Lost { at, shard: device, count: word(8) });
        }
        let action = Action::ALL.into_iter().find(|action| action.letter() as u8 == letter);
        Ok(RecordedEntry::Hop(TraceEvent {
            at,
            action: action.ok_or("its letter is none of Q, D, A, M, X, C and L")?,
            device: DeviceId(device),
            number: half(20),
            depth,
            returned: match returned {
                0 => false,
                1 => true,
                _ => return Err("whether the bio returned is neither 0 nor 1"),
            },
            op: Op::ALL.get(usize::from(op)).copied().ok_or("its operation is unknown")?,
            flags: Flags::from_bits(flags).ok_or("it has unknown flags")?,
            sector: Sector(word(8)),
            sectors: half(16),
            status: Status::from_byte(status).ok_or("its status is unknown")?,
        }))
    }
}

/// Bytes as text, for a protocol of lines of text.
#[must_use]
pub fn to_hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from(if nibble < 10 { b'0' + nibble } else { b'a' - 10 + nibble });
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(digit).collect()
}

/// The bytes in such a text; `None` if it is none.
#[must_use]
pub fn hex_from(text: &str) -> Option<Vec<u8>> {
    let digit = |c: u8| char::from(c).to_digit(16).map(|n| n as u8);
    let pairs = text.as_bytes().chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_survives_its_way_through_bytes_and_text() {
        for (action, op) in Action::ALL.into_iter().flat_map(|action| Op::ALL.map(|op| (action, op))) {
            let event = TraceEvent {
                at: Instant(u64::MAX - 7),
                action,
                device: DeviceId(513),
                number: 0x8070_6050,
                depth: 3,
                returned: action == Action::Complete,
                op,
                flags: Flags::FUA.with(Flags::NO_UNMAP),
                sector: Sector(0x0102_0304_0506_0708),
                sectors: 0x0a0b_0c0d,
                status: Status::ZoneOpenResource,
            };
            let bytes = RecordedEntry::Hop(event).to_bytes();
            assert_eq!(hex_from(&to_hex(&bytes)).unwrap(), bytes);
            assert_eq!(RecordedEntry::from_bytes(&bytes), Ok(RecordedEntry::Hop(event)));
        }
        let lost = RecordedEntry::Lost { at: Instant(5), shard: 3, count: 1 << 40 };
        assert_eq!(RecordedEntry::from_bytes(&lost.to_bytes()), Ok(lost));
        assert_eq!((hex_from("0g"), hex_from("012")), (None, None));
    }
}
