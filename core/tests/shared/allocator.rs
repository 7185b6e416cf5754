//! An allocator that counts, and that runs out when a test says so: for the tests that the data path allocates nothing, and of what happens
//! where there is no memory. It does both for each thread by itself, so tests do not disturb each other. A program that includes this
//! module has it.
#![allow(dead_code, reason = "each program uses its part")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Allocator;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static LARGEST: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Number of allocations of this thread so far.
pub fn allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

/// Calls `what` while allocations of more than `largest` bytes fail on this thread.
pub fn with_at_most<T>(largest: usize, what: impl FnOnce() -> T) -> T {
    LARGEST.set(largest);
    let result = what();
    LARGEST.set(usize::MAX);
    result
}

/// Counts an allocation. True if `size` bytes may be allocated.
fn admit(size: usize) -> bool {
    // A thread that ends may free and allocate when its values are gone already.
    let _ = ALLOCATIONS.try_with(|n| n.set(n.get() + 1));
    LARGEST.try_with(|largest| size <= largest.get()).unwrap_or(true)
}

// SAFETY: every call goes to the system's allocator unchanged, or fails as it may; counting allocates nothing, as the values are `const`.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are passed on.
        if admit(layout.size()) { unsafe { System.alloc(layout) } } else { std::ptr::null_mut() }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promises are passed on.
        if admit(size) { unsafe { System.realloc(memory, layout, size) } } else { std::ptr::null_mut() }
    }
}

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;
