//! A warm shard that serves NBD allocates nothing: sockets, ring, session, stack and memory together.

#[path = "../benches/support/client.rs"]
mod client;
#[path = "../../core/tests/counting/mod.rs"]
mod counting;
mod support;

use std::time::Duration;

use client::{Client, Load, READ, WRITE};
use support::{Disk, Server};

/// Allocations of the shard's thread so far.
fn allocations(server: &Server) -> u64 {
    server.ask(|_| counting::allocations())
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
