//! An allocator that runs out when it is told to, for the tests of what happens then. A test that includes this module has
//! it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Scarce;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Does `what` while this thread gets no piece of memory of more than `largest` bytes.
pub fn with_at_most<T>(largest: usize, what: impl FnOnce() -> T) -> T {
    LARGEST.set(largest);
    let result = what();
    LARGEST.set(usize::MAX);
    result
}

fn has(size: usize) -> bool {
    // A thread that ends may allocate when its limit is gone already.
    LARGEST.try_with(|largest| size <= largest.get()).unwrap_or(true)
}

// SAFETY: every call goes to the system's allocator unchanged, or fails as it may.
unsafe impl GlobalAlloc for Scarce {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are passed on.
        if has(layout.size()) { unsafe { System.alloc(layout) } } else { std::ptr::null_mut() }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promises are passed on.
        if has(size) { unsafe { System.realloc(memory, layout, size) } } else { std::ptr::null_mut() }
    }
}

#[global_allocator]
static ALLOCATOR: Scarce = Scarce;
