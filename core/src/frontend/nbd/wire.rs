//! Every byte of the protocol: numbers, layouts, and how they are read and put. Everything is big-endian.
//!
//! Source: `nbd/doc/proto.md`, the section named at each group.

use crate::prelude::*;

/// "Newstyle negotiation": how the server greets, `NBDMAGIC`.
pub const GREETING_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// "Newstyle negotiation": before the handshake flags and before every option, `IHAVEOPT`.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// "Fixed newstyle negotiation": before every option reply.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;

/// "Handshake flags" and "Client flags": both sides use the same bits.
pub mod handshake_flag {
    pub const FIXED_NEWSTYLE: u16 = 1 << 0;
    pub const NO_ZEROES: u16 = 1 << 1;
}

/// "Option types".
pub mod option {
    pub const EXPORT_NAME: u32 = 1;
    pub const ABORT: u32 = 2;
    pub const LIST: u32 = 3;
    pub const STARTTLS: u32 = 5;
    pub const INFO: u32 = 6;
    pub const GO: u32 = 7;
    pub const STRUCTURED_REPLY: u32 = 8;
    pub const LIST_META_CONTEXT: u32 = 9;
    pub const SET_META_CONTEXT: u32 = 10;
    pub const EXTENDED_HEADERS: u32 = 11;
}

/// "Option reply types".
pub mod option_reply {
    pub const ACK: u32 = 1;
    pub const SERVER: u32 = 2;
    pub const INFO: u32 = 3;
    pub const META_CONTEXT: u32 = 4;
    const ERROR: u32 = 1 << 31;
    pub const ERR_UNSUP: u32 = ERROR | 1;
    pub const ERR_POLICY: u32 = ERROR | 2;
    pub const ERR_INVALID: u32 = ERROR | 3;
    pub const ERR_TLS_REQD: u32 = ERROR | 5;
    pub const ERR_UNKNOWN: u32 = ERROR | 6;
    pub const ERR_TOO_BIG: u32 = ERROR | 9;
    pub const ERR_EXT_HEADER_REQD: u32 = ERROR | 10;
}

/// "NBD_REP_INFO".
pub mod info {
    pub const EXPORT: u16 = 0;
    pub const NAME: u16 = 1;
    pub const DESCRIPTION: u16 = 2;
    pub const BLOCK_SIZE: u16 = 3;
}

/// "Transmission flags".
pub mod transmission_flag {
    pub const HAS_FLAGS: u16 = 1 << 0;
    pub const READ_ONLY: u16 = 1 << 1;
    pub const SEND_FLUSH: u16 = 1 << 2;
    pub const SEND_FUA: u16 = 1 << 3;
    pub const ROTATIONAL: u16 = 1 << 4;
    pub const SEND_TRIM: u16 = 1 << 5;
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub const SEND_DF: u16 = 1 << 7;
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// "Request types".
pub mod command {
    pub const READ: u16 = 0;
    pub const WRITE: u16 = 1;
    pub const DISC: u16 = 2;
    pub const FLUSH: u16 = 3;
    pub const TRIM: u16 = 4;
    pub const WRITE_ZEROES: u16 = 6;
    pub const BLOCK_STATUS: u16 = 7;
}

/// "Command flags".
pub mod command_flag {
    pub const FUA: u16 = 1 << 0;
    pub const NO_HOLE: u16 = 1 << 1;
    pub const DF: u16 = 1 << 2;
    pub const REQ_ONE: u16 = 1 << 3;
    pub const FAST_ZERO: u16 = 1 << 4;
    pub const PAYLOAD_LEN: u16 = 1 << 5;
}

/// "Error values".
pub mod error {
    pub const EPERM: u32 = 1;
    pub const ENOMEM: u32 = 12;
    pub const EINVAL: u32 = 22;
    pub const ENOSPC: u32 = 28;
    pub const EOVERFLOW: u32 = 75;
    pub const ENOTSUP: u32 = 95;
}

/// "Structured reply types".
pub mod chunk {
    pub const NONE: u16 = 0;
    pub const OFFSET_DATA: u16 = 1;
    pub const BLOCK_STATUS: u16 = 5;
    pub const BLOCK_STATUS_EXT: u16 = 6;
    pub const ERROR: u16 = 1 << 15 | 1;
}

/// "Structured reply flags".
pub const CHUNK_DONE: u16 = 1 << 0;

/// "`base:allocation` metadata context".
pub mod state {
    pub const HOLE: u32 = 1 << 0;
    pub const ZERO: u32 = 1 << 1;
}

/// The one metadata context.
pub const BASE_ALLOCATION: &str = "base:allocation";

/// "Conventions": the longest string there is.
pub const STRING_MAX: usize = 4096;

/// "Newstyle negotiation": zeroes behind the answer to `EXPORT_NAME`, for clients that did not renounce them.
pub const EXPORT_NAME_ZEROES: usize = 124;

/// Bytes of the client flags.
pub const CLIENT_FLAGS_BYTES: usize = 4;

/// "Newstyle negotiation", the option header.
mod option_layout {
    pub const MAGIC: usize = 0;
    pub const OPTION: usize = 8;
    pub const LENGTH: usize = 12;
    pub const BYTES: usize = 16;
}

/// "Request message" and, with extended headers, "Extended request message". They differ in magic and width of the length.
mod request_layout {
    pub const MAGIC: usize = 0;
    pub const FLAGS: usize = 4;
    pub const COMMAND: usize = 6;
    pub const COOKIE: usize = 8;
    pub const OFFSET: usize = 16;
    pub const LENGTH: usize = 24;
    pub const COMPACT_BYTES: usize = 28;
    pub const EXTENDED_BYTES: usize = 32;
}

const REQUEST_MAGIC: u32 = 0x2560_9513;
const EXTENDED_REQUEST_MAGIC: u32 = 0x21e4_1c71;
const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;
const EXTENDED_REPLY_MAGIC: u32 = 0x6e8a_278c;

/// Bytes of an option header.
pub const OPTION_BYTES: usize = option_layout::BYTES;

/// Bytes of the longest request header.
pub const REQUEST_BYTES_MAX: usize = request_layout::EXTENDED_BYTES;

/// Which headers requests and replies have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Headers {
    /// Compact requests, simple replies.
    #[default]
    Simple,
    /// Compact requests, replies in chunks.
    Structured,
    /// Extended requests and extended replies in chunks.
    Extended,
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("a range of N bytes is N bytes long")
}

/// The handshake flags, with which the server speaks first.
pub fn put_greeting(out: &mut Vec<u8>) {
    out.extend_from_slice(&GREETING_MAGIC.to_be_bytes());
    out.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
    out.extend_from_slice(&(handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES).to_be_bytes());
}

/// An option's number and data length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionHeader {
    pub option: u32,
    pub length: u32,
}

impl OptionHeader {
    /// Reads the first [`OPTION_BYTES`]; an error if the magic number is another.
    pub fn parse(bytes: &[u8]) -> Result<Self, u64> {
        let magic = u64::from_be_bytes(field(bytes, option_layout::MAGIC));
        if magic != OPTION_MAGIC {
            return Err(magic);
        }
        Ok(Self {
            option: u32::from_be_bytes(field(bytes, option_layout::OPTION)),
            length: u32::from_be_bytes(field(bytes, option_layout::LENGTH)),
        })
    }
}

/// An option reply whose data is `parts`, one behind the other.
pub fn put_option_reply(out: &mut Vec<u8>, option: u32, kind: u32, parts: &[&[u8]]) {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    out.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&option.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&(length as u32).to_be_bytes());
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

/// A request of the transmission phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    pub flags: u16,
    pub command: u16,
    /// What the client calls it; it comes back with the reply.
    pub cookie: u64,
    /// First byte, on the export.
    pub offset: u64,
    /// Bytes of payload or of effect.
    pub length: u64,
}

impl Request {
    /// Bytes of a request header.
    pub const fn bytes(headers: Headers) -> usize {
        match headers {
            Headers::Simple | Headers::Structured => request_layout::COMPACT_BYTES,
            Headers::Extended => request_layout::EXTENDED_BYTES,
        }
    }

    /// Reads a header of [`Request::bytes`]; an error if the magic number is another.
    pub fn parse(bytes: &[u8], headers: Headers) -> Result<Self, u32> {
        let extended = headers == Headers::Extended;
        let magic = u32::from_be_bytes(field(bytes, request_layout::MAGIC));
        if magic != if extended { EXTENDED_REQUEST_MAGIC } else { REQUEST_MAGIC } {
            return Err(magic);
        }
        Ok(Self {
            flags: u16::from_be_bytes(field(bytes, request_layout::FLAGS)),
            command: u16::from_be_bytes(field(bytes, request_layout::COMMAND)),
            cookie: u64::from_be_bytes(field(bytes, request_layout::COOKIE)),
            offset: u64::from_be_bytes(field(bytes, request_layout::OFFSET)),
            length: match extended {
                true => u64::from_be_bytes(field(bytes, request_layout::LENGTH)),
                false => u32::from_be_bytes(field(bytes, request_layout::LENGTH)).into(),
            },
        })
    }

    pub const fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

/// "Simple reply message", without its data.
pub fn put_simple_reply(out: &mut Vec<u8>, cookie: u64, error: u32) {
    let mut header = [0; 16];
    header[..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    header[4..8].copy_from_slice(&error.to_be_bytes());
    header[8..].copy_from_slice(&cookie.to_be_bytes());
    out.extend_from_slice(&header);
}

/// "Structured reply chunk message" or "Extended reply chunk message", without its payload. It is the last of its reply.
pub fn put_chunk(out: &mut Vec<u8>, headers: Headers, request: &Request, kind: u16, payload: usize) {
    let extended = headers == Headers::Extended;
    let magic = if extended { EXTENDED_REPLY_MAGIC } else { STRUCTURED_REPLY_MAGIC };
    let mut header = [0; 32];
    header[..4].copy_from_slice(&magic.to_be_bytes());
    header[4..6].copy_from_slice(&CHUNK_DONE.to_be_bytes());
    header[6..8].copy_from_slice(&kind.to_be_bytes());
    header[8..16].copy_from_slice(&request.cookie.to_be_bytes());
    if extended {
        header[16..24].copy_from_slice(&request.offset.to_be_bytes());
        header[24..].copy_from_slice(&(payload as u64).to_be_bytes());
        out.extend_from_slice(&header);
    } else {
        header[16..20].copy_from_slice(&(payload as u32).to_be_bytes());
        out.extend_from_slice(&header[..20]);
    }
}

/// Option data, read from the front. `None`: it is shorter than it says.
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    pub fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(front)
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.bytes(2).map(|bytes| u16::from_be_bytes(field(bytes, 0)))
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.bytes(4).map(|bytes| u32::from_be_bytes(field(bytes, 0)))
    }

    /// A length and that many bytes of text.
    pub fn string(&mut self) -> Option<&'a str> {
        let length = self.u32()? as usize;
        if length > STRING_MAX {
            return None;
        }
        core::str::from_utf8(self.bytes(length)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request_bytes(magic: u32, length: &[u8]) -> Vec<u8> {
        let mut bytes = magic.to_be_bytes().to_vec();
        bytes.extend_from_slice(&[0, 1, 0, 6]);
        bytes.extend_from_slice(&0x1122_3344_5566_7788_u64.to_be_bytes());
        bytes.extend_from_slice(&0x0102_0304_0506_0708_u64.to_be_bytes());
        bytes.extend_from_slice(length);
        bytes
    }

    #[test]
    fn a_request_is_read_field_by_field_in_both_layouts() {
        let expected = Request {
            flags: command_flag::FUA,
            command: command::WRITE_ZEROES,
            cookie: 0x1122_3344_5566_7788,
            offset: 0x0102_0304_0506_0708,
            length: 0x8000_0001,
        };
        let compact = request_bytes(REQUEST_MAGIC, &0x8000_0001_u32.to_be_bytes());
        assert_eq!(compact.len(), Request::bytes(Headers::Structured));
        assert_eq!(Request::parse(&compact, Headers::Simple), Ok(expected));
        let extended = request_bytes(EXTENDED_REQUEST_MAGIC, &0x1_8000_0001_u64.to_be_bytes());
        assert_eq!(extended.len(), Request::bytes(Headers::Extended));
        let expected = Request { length: 0x1_8000_0001, ..expected };
        assert_eq!(Request::parse(&extended, Headers::Extended), Ok(expected));
    }

    #[test]
    fn the_magic_number_of_the_other_layout_is_an_error() {
        let compact = request_bytes(REQUEST_MAGIC, &[0; 8]);
        assert_eq!(Request::parse(&compact, Headers::Extended), Err(REQUEST_MAGIC));
        let extended = request_bytes(EXTENDED_REQUEST_MAGIC, &[0; 8]);
        assert_eq!(Request::parse(&extended, Headers::Simple), Err(EXTENDED_REQUEST_MAGIC));
    }

    #[test]
    fn option_data_that_is_shorter_than_it_says_is_noticed() {
        assert_eq!(Fields(&[0, 0, 0, 3, b'a', b'b']).string(), None);
        assert_eq!(Fields(&[0, 0, 0, 2, b'a', b'b', b'c']).string(), Some("ab"));
        assert_eq!(Fields(&[0, 0, 0, 1, 0xff]).string(), None, "not UTF-8");
        assert_eq!(Fields(&[0]).u16(), None);
    }
}
