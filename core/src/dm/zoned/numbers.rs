//! The numbers of a set: each kind is a type of its own, since one taken for another loses data.
//!
//! ```text
//!   ChunkNo ── mapping table ──> SetZone ── of a ──> MemberNo      MetaBlock: mapping table and bitmaps, as they are kept
//!      └─ Block within it ───────── Block within it
//! ```
//!
//! Plain numbers are counts, and global blocks, which alone have 64 bits.

use core::fmt;
use core::marker::PhantomData;
use core::ops::{Add, Index, IndexMut, Range, Sub};

use crate::prelude::*;

/// A number that counts things of one kind from 0.
pub trait Number: Copy + Ord + fmt::Debug {
    /// The number of the thing in place `index` of a table.
    fn of(index: usize) -> Self;

    /// Its place in a table of all of them.
    fn index(self) -> usize;

    /// This one and all that follow it.
    fn onwards(self) -> impl Iterator<Item = Self> {
        (self.index()..).map(Self::of)
    }
}

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl Number for $name {
            #[inline]
            fn of(index: usize) -> Self {
                Self(index as u32)
            }

            #[inline]
            fn index(self) -> usize {
                self.0 as usize
            }
        }

        /// So many further on.
        impl Add<u32> for $name {
            type Output = Self;
            #[inline]
            fn add(self, count: u32) -> Self {
                Self(self.0 + count)
            }
        }

        /// How many lie between.
        impl Sub for $name {
            type Output = u32;
            #[inline]
            fn sub(self, first: Self) -> u32 {
                self.0 - first.0
            }
        }

        impl From<$name> for u64 {
            #[inline]
            fn from(number: $name) -> u64 {
                number.0.into()
            }
        }

        impl_display!($name, |self, f| self.0.fmt(f));
    )*};
}

numbers! {
    /// A chunk of the exposed disk.
    ChunkNo
    /// A zone of a set, in the numbering that all its devices share. On its own device it has a `ZoneNo`.
    SetZone
    /// A block, counted from the start of its chunk or of its zone: a block of a chunk is in the same place of its zones.
    Block
    /// A block of the metadata, counted from the superblock of its set.
    MetaBlock
    /// A device of a set, by its place in the table.
    MemberNo
}

impl Block {
    /// The first block of a chunk or a zone.
    pub const FIRST: Block = Block(0);

    /// All blocks of a chunk or a zone that has so many.
    #[must_use]
    pub const fn all(count: u32) -> Range<Block> {
        Self::FIRST..Block(count)
    }
}

/// A table with a row for each thing of one kind, found by its number and nothing else.
///
/// ```
/// # use shingle_core::dm::zoned::{ChunkNo, Rows, SetZone};
/// let zones: Rows<ChunkNo, SetZone> = vec![SetZone(9), SetZone(7)].into();
/// assert_eq!(zones[ChunkNo(1)], SetZone(7));
/// ```
///
/// ```compile_fail,E0308
/// # use shingle_core::dm::zoned::{ChunkNo, Rows, SetZone};
/// let zones: Rows<ChunkNo, SetZone> = vec![SetZone(9), SetZone(7)].into();
/// let swapped = zones[SetZone(1)];
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows<N, T> {
    rows: Vec<T>,
    by: PhantomData<N>,
}

impl<N: Number, T> Rows<N, T> {
    /// `count` rows that are all the same.
    #[must_use]
    pub fn filled(row: T, count: usize) -> Self
    where
        T: Clone,
    {
        alloc::vec![row; count].into()
    }

    /// The number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The row of `number`, if there is one.
    #[must_use]
    pub fn get(&self, number: N) -> Option<&T> {
        self.rows.get(number.index())
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, number: N) -> Option<&mut T> {
        self.rows.get_mut(number.index())
    }

    /// The rows, in the order of their numbers.
    pub fn iter(&self) -> core::slice::Iter<'_, T> {
        self.rows.iter()
    }

    /// The same, to be changed.
    pub fn iter_mut(&mut self) -> core::slice::IterMut<'_, T> {
        self.rows.iter_mut()
    }

    /// The rows with their numbers.
    pub fn numbered(&self) -> impl Iterator<Item = (N, &T)> + Clone {
        self.rows.iter().enumerate().map(|(index, row)| (N::of(index), row))
    }

    /// The numbers of all rows.
    pub fn numbers(&self) -> impl DoubleEndedIterator<Item = N> + ExactSizeIterator + use<N, T> {
        (0..self.rows.len()).map(N::of)
    }

    /// Adds a row behind the others.
    pub fn push(&mut self, row: T) {
        self.rows.push(row);
    }

    /// The rows without their numbers.
    #[must_use]
    pub fn as_slice(&self) -> &[T] {
        &self.rows
    }

    /// The same, to be changed.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        &mut self.rows
    }
}

impl<N: Number, T> Default for Rows<N, T> {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl<N, T> From<Vec<T>> for Rows<N, T> {
    fn from(rows: Vec<T>) -> Self {
        Self { rows, by: PhantomData }
    }
}

impl<N, T> FromIterator<T> for Rows<N, T> {
    fn from_iter<I: IntoIterator<Item = T>>(rows: I) -> Self {
        Vec::from_iter(rows).into()
    }
}

impl<N, T> IntoIterator for Rows<N, T> {
    type Item = T;
    type IntoIter = alloc::vec::IntoIter<T>;
    fn into_iter(self) -> Self::IntoIter {
        self.rows.into_iter()
    }
}

impl<N: Number, T> Index<N> for Rows<N, T> {
    type Output = T;
    #[inline]
    fn index(&self, number: N) -> &T {
        &self.rows[number.index()]
    }
}

impl<N: Number, T> IndexMut<N> for Rows<N, T> {
    #[inline]
    fn index_mut(&mut self, number: N) -> &mut T {
        &mut self.rows[number.index()]
    }
}
