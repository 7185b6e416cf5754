//! Bulk accesses of words that others may access at the same time.
//!
//! Each function is specified as a loop of relaxed loads and stores of whole words, in no particular order. The compiler
//! makes one instruction of each of these; [`machine`] does the front of a long loop in wide ones, as inline assembly that
//! the compiler does not look into and that does nothing but what is specified. `core::ptr::copy` is no option: against
//! another thread, the kernel or a guest it is a data race. See `docs/decisions/0002-memory-is-words.md`.
#![no_std]
#![deny(unsafe_op_in_unsafe_fn)]
#![warn(clippy::undocumented_unsafe_blocks)]
extern crate alloc;
#[cfg(test)]
extern crate std;

#[cfg_attr(all(target_arch = "x86_64", not(miri)), path = "x86_64.rs")]
mod machine;

use alloc::alloc::{Layout, alloc_zeroed};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ptr::slice_from_raw_parts_mut;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

const WORD_BYTES: usize = size_of::<u64>();

/// So many words of zeroes; `None` if there is no memory. Large ones come from the system, which has zeroed them.
#[must_use]
pub fn zeroed(words: usize) -> Option<Box<[AtomicU64]>> {
    if words == 0 {
        return Some(Box::default());
    }
    let layout = Layout::array::<AtomicU64>(words).ok()?;
    // SAFETY: The layout is not empty.
    let memory = unsafe { alloc_zeroed(layout) }.cast::<AtomicU64>();
    // SAFETY: It is a new allocation of this layout by the allocator of boxes, and words of zeroes are initialised.
    (!memory.is_null()).then(|| unsafe { Box::from_raw(slice_from_raw_parts_mut(memory, words)) })
}

/// Copies `from` to `to`. If they overlap, each word of `to` gets one that was at its place in `from` meanwhile.
///
/// # Panics
/// If one is longer than the other.
pub fn copy(to: &[AtomicU64], from: &[AtomicU64]) {
    assert!(to.len() == from.len(), "words are copied to as many");
    // SAFETY: Both are so long, and words that are shared.
    let is_done = unsafe { machine::copy(to.as_ptr().cast_mut().cast(), from.as_ptr().cast(), to.len()) };
    if !is_done {
        to.iter().zip(from).for_each(|(to, from)| to.store(from.load(Relaxed), Relaxed));
    }
}

/// Loads `from` into `to`.
///
/// # Panics
/// If one is longer than the other.
pub fn load(to: &mut [u64], from: &[AtomicU64]) {
    assert!(to.len() == from.len(), "words are loaded into as many");
    // SAFETY: Both are so long; `from` is shared, and nobody else has `to`.
    let is_done = unsafe { machine::copy(to.as_mut_ptr().cast(), from.as_ptr().cast(), from.len()) };
    if !is_done {
        to.iter_mut().zip(from).for_each(|(to, from)| *to = from.load(Relaxed));
    }
}

/// Appends `from` to `to`.
pub fn append(to: &mut Vec<u64>, from: &[AtomicU64]) {
    to.reserve(from.len());
    let room = &mut to.spare_capacity_mut()[..from.len()];
    // SAFETY: Both are so long; `from` is shared, and nobody else has `room`.
    let is_done = unsafe { machine::copy(room.as_mut_ptr().cast(), from.as_ptr().cast(), from.len()) };
    if !is_done {
        room.iter_mut().zip(from).for_each(|(to, from)| _ = to.write(from.load(Relaxed)));
    }
    // SAFETY: There is room for them, and all of them were written.
    unsafe { to.set_len(to.len() + from.len()) };
}

/// Stores `from` in `to`.
///
/// # Panics
/// If one is longer than the other.
pub fn store(to: &[AtomicU64], from: &[u64]) {
    assert!(to.len() == from.len(), "words are stored in as many");
    // SAFETY: Both are so long; `to` is shared, and nobody writes to `from`.
    let is_done = unsafe { machine::copy(to.as_ptr().cast_mut().cast(), from.as_ptr().cast(), to.len()) };
    if !is_done {
        to.iter().zip(from).for_each(|(to, from)| to.store(*from, Relaxed));
    }
}

/// Stores `word` in all `words`.
pub fn fill(words: &[AtomicU64], word: u64) {
    // SAFETY: They are so long, and shared.
    let is_done = unsafe { machine::fill(words.as_ptr().cast_mut().cast(), word, words.len()) };
    if !is_done {
        words.iter().for_each(|to| to.store(word, Relaxed));
    }
}

/// Copies the bytes of `words` from byte `at` on into `to`.
///
/// # Panics
/// If there are fewer.
pub fn read(words: &[AtomicU64], at: usize, to: &mut [u8]) {
    let (head, rest) = to.split_at_mut(to.len().min(at.wrapping_neg() % WORD_BYTES));
    let partial = |place: usize, to: &mut [u8]| {
        if !to.is_empty() {
            to.copy_from_slice(
                &words[place / WORD_BYTES].load(Relaxed).to_ne_bytes()[place % WORD_BYTES..][..to.len()],
            );
        }
    };
    partial(at, head);
    let (whole, tail) = rest.as_chunks_mut::<WORD_BYTES>();
    let first = (at + head.len()) / WORD_BYTES;
    let from = &words[first..first + whole.len()];
    // SAFETY: Both are so long; `from` is shared, and nobody else has `whole`.
    let is_done = unsafe { machine::copy(whole.as_mut_ptr().cast(), from.as_ptr().cast(), from.len()) };
    if !is_done {
        whole.iter_mut().zip(from).for_each(|(to, from)| *to = from.load(Relaxed).to_ne_bytes());
    }
    partial((first + whole.len()) * WORD_BYTES, tail);
}

/// Copies the bytes `from` over those of `words` from byte `at` on. The rest of a word at either end stays what others make of
/// it meanwhile.
///
/// # Panics
/// If there are fewer.
pub fn write(words: &[AtomicU64], at: usize, from: &[u8]) {
    let (head, rest) = from.split_at(from.len().min(at.wrapping_neg() % WORD_BYTES));
    let partial = |place: usize, from: &[u8]| {
        if !from.is_empty() {
            let with = |word: u64| {
                let mut bytes = word.to_ne_bytes();
                bytes[place % WORD_BYTES..][..from.len()].copy_from_slice(from);
                u64::from_ne_bytes(bytes)
            };
            words[place / WORD_BYTES].update(Relaxed, Relaxed, with);
        }
    };
    partial(at, head);
    let (whole, tail) = rest.as_chunks::<WORD_BYTES>();
    let first = (at + head.len()) / WORD_BYTES;
    let to = &words[first..first + whole.len()];
    // SAFETY: Both are so long; `to` is shared, and nobody writes to `whole`.
    let is_done = unsafe { machine::copy(to.as_ptr().cast_mut().cast(), whole.as_ptr().cast(), to.len()) };
    if !is_done {
        to.iter().zip(whole).for_each(|(to, from)| to.store(u64::from_ne_bytes(*from), Relaxed));
    }
    partial((first + whole.len()) * WORD_BYTES, tail);
}
