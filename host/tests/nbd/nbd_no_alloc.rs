//! A warm shard that serves NBD allocates nothing: sockets, ring, session, stack and memory together.

use std::time::Duration;

use crate::allocator;
use crate::client::{Client, Load, READ, WRITE};
use crate::support::{Disk, Server};

/// Allocations of the shard's thread so far.
fn allocations(server: &Server) -> u64 {
    server.ask(|_| allocator::allocations())
}

#[test]
fn a_warm_shard_serves_reads_and_writes_without_allocating() {
    let server = Server::start(&[Disk::regular("disk")]);
    let mut client = Client::connect(&server.path, "disk").unwrap();
    let mut serve = |depth| {
        for (command, block) in [(WRITE, 4096), (READ, 4096), (WRITE, 256 << 10), (READ, 256 << 10)] {
            let load = Load { command, block, depth, span: 4 << 20 };
            assert!(client.run(&load, Duration::ZERO, Duration::from_millis(50)).unwrap() > 0.0);
        }
    };
    // The disk allocates for what is written first, and everything grows to the most that this load can need: twice its
    // depth, when the client has answers already of which the server does not know yet that they are sent.
    for _ in 0..8 {
        serve(64);
        allocations(&server);
    }
    let before = allocations(&server);
    let asking = allocations(&server) - before;
    let before = allocations(&server);
    serve(32);
    assert_eq!(allocations(&server) - before, asking, "allocations besides those of the question");
}
