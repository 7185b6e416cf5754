//! Fields one after the other, little-endian.

use crate::prelude::*;

/// Fields that are read. Past the end they are zeroes: lengths are checked before.
pub(super) struct Fields<'a>(pub &'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut field = [0; N];
        let (now, later) = self.0.split_at(N.min(self.0.len()));
        field[..now.len()].copy_from_slice(now);
        self.0 = later;
        field
    }

    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }

    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }

    pub fn u40(&mut self) -> u64 {
        let [a, b, c, d, e] = self.take();
        u64::from_le_bytes([a, b, c, d, e, 0, 0, 0])
    }

    pub fn u48(&mut self) -> u64 {
        let [a, b, c, d, e, f] = self.take();
        u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
    }

    pub fn id(&mut self) -> [u8; 16] {
        self.take()
    }
}

/// Appends fields.
pub(super) trait Put {
    fn put<const N: usize>(&mut self, field: [u8; N]);

    fn put_u16(&mut self, value: u16) {
        self.put(value.to_le_bytes());
    }

    fn put_u32(&mut self, value: u32) {
        self.put(value.to_le_bytes());
    }

    fn put_u40(&mut self, value: u64) {
        let [a, b, c, d, e, ..] = value.to_le_bytes();
        self.put([a, b, c, d, e]);
    }

    fn put_u48(&mut self, value: u64) {
        let [a, b, c, d, e, f, ..] = value.to_le_bytes();
        self.put([a, b, c, d, e, f]);
    }

    fn put_u64(&mut self, value: u64) {
        self.put(value.to_le_bytes());
    }
}

impl Put for Vec<u8> {
    fn put<const N: usize>(&mut self, field: [u8; N]) {
        self.extend_from_slice(&field);
    }
}
