//! A warm shard that serves NBD allocates nothing: sockets, ring, session, stack and memory together.

#[path = "../benches/support/client.rs"]
mod client;
mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

use client::{Client, Load, READ, WRITE};
use support::{Disk, Server};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that ends may free and allocate when its counter is gone already.
    let _ = ALLOCATIONS.try_with(|n| n.set(n.get() + 1));
}

// SAFETY: every call goes to the system's allocator unchanged; counting allocates nothing, as the counter is `const`.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of the shard's thread so far.
fn allocations(server: &Server) -> u64 {
    server.ask(|_| ALLOCATIONS.with(Cell::get))
}

#[test]
fn a_warm_shard_serves_reads_and_writes_without_allocating() {
    let server = Server::start(&[Disk::regular("disk")]);
    let mut client = Client::connect(&server.path, "disk").unwrap();
    let mut serve = || {
        for (command, block) in [(WRITE, 4096), (READ, 4096), (WRITE, 256 << 10), (READ, 256 << 10)] {
            let load = Load { command, block, depth: 32, span: 4 << 20 };
            assert!(client.run(&load, Duration::ZERO, Duration::from_millis(50)).unwrap() > 0.0);
        }
    };
    // The disk allocates for what is written first, and everything grows to what this load needs at most.
    (0..8).for_each(|_| serve());
    let before = allocations(&server);
    let asking = allocations(&server) - before;
    let before = allocations(&server);
    serve();
    assert_eq!(allocations(&server) - before, asking, "allocations besides those of the question");
}
