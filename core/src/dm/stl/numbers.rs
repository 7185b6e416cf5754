//! The numbers of a volume: each kind is a type of its own, since one taken for another loses data.

use core::fmt;
use core::ops::{Add, Sub};

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident($inner:ty))*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        /// So many further on.
        impl Add<$inner> for $name {
            type Output = Self;
            #[inline]
            fn add(self, count: $inner) -> Self {
                Self(self.0 + count)
            }
        }

        /// How many lie between.
        impl Sub for $name {
            type Output = $inner;
            #[inline]
            fn sub(self, first: Self) -> $inner {
                self.0 - first.0
            }
        }

        impl_display!($name, |self, f| fmt::Display::fmt(&self.0, f));
    )*};
}

numbers! {
    /// A block of the exposed disk (logical block address).
    Lba(u64)
    /// A block of the set, in the numbering that all its devices share (physical block address).
    Pba(u64)
    /// A zone of the set, in the same numbering: on its own device it has a `ZoneNo`.
    ZoneIndex(u32)
    /// A batch of users' writes, by the one sequence of the set: what is on the disk up to one of them is a prefix.
    BatchNo(u64)
    /// A batch of copies.
    CopyNo(u64)
    /// A life of the volume: each start begins a new one.
    Epoch(u64)
    /// How often a zone was opened.
    Generation(u32)
}

/// Bits of an address on disk: 4.5 PB.
pub const ADDRESS_BITS: u32 = 40;

impl Lba {
    /// Behind the last block that a volume can have.
    pub const END: Lba = Lba(1 << ADDRESS_BITS);
}

impl Pba {
    /// Behind the last block that a set can have.
    pub const END: Pba = Pba(1 << ADDRESS_BITS);
}
