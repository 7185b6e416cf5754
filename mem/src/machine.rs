//! A machine without wide instructions of its own here: all is left to the loops of words.

/// Copies so many words, or none. Whether it did.
///
/// # Safety
/// None is needed; the machines that copy some need it.
pub(crate) unsafe fn copy(_to: *mut u8, _from: *const u8, _words: usize) -> bool {
    false
}

/// Stores `word` in so many words, or none. Whether it did.
///
/// # Safety
/// As of [`copy`].
pub(crate) unsafe fn fill(_to: *mut u8, _word: u64, _words: usize) -> bool {
    false
}
