//! `ARCHITECTURE.md` opens with the way of a write. This test sends one, over NBD, and compares the hops with the copy there.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use shingle_core::block::{Stack, Status};
use shingle_core::device::{NullConfig, NullDevice, NullZones};
use shingle_core::dm::{add_table, parse_table};
use shingle_core::frontend::Pool;
use shingle_core::frontend::nbd::{Export, Exports, Receive, Session, SessionLimits};
use shingle_core::plug::{PlugOptions, ZonePlug};
use shingle_core::time::Instant;

/// Zones of 4096 sectors.
const ZONE: u64 = 4096;
/// The devices of the stack, from the bottom up.
const DEVICES: [&str; 3] = ["disk", "plug", "table"];

fn document() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ARCHITECTURE.md");
    fs::read_to_string(path).expect("ARCHITECTURE.md lies beside the crates")
}

/// The block of the document that is fenced as `trace`.
fn documented_trace(document: &str) -> Vec<&str> {
    let block = document.split("```trace\n").nth(1).expect("ARCHITECTURE.md has a block ```trace");
    let lines = block.split("\n```").next().unwrap_or_default().lines();
    lines.map(|line| line.split("  #").next().unwrap_or_default().trim_end()).collect()
}

fn option(number: u32, payload: &[u8]) -> Vec<u8> {
    [b"IHAVEOPT", &number.to_be_bytes()[..], &(payload.len() as u32).to_be_bytes(), payload].concat()
}

#[test]
fn the_way_of_a_write_is_the_one_in_the_document() {
    let mut stack = Stack::new();
    let null = NullConfig { memory_backed: true, ..NullConfig::zoned(8 * ZONE, NullZones::new(ZONE)) };
    let disk = stack.add(Box::new(NullDevice::new(&null).unwrap())).unwrap();
    let plug = ZonePlug::new(disk, stack.limits(disk), PlugOptions::default()).unwrap();
    let plug = stack.add(Box::new(plug)).unwrap();
    // The disk's zones in another order, so that the table has something to route.
    let table = parse_table("0 8192 linear smr 16384\n8192 16384 linear smr 0\n").unwrap();
    let export = add_table(&mut stack, &table, &|_: &str| Ok(plug)).unwrap();
    stack.turn(Instant::ZERO);

    let port = stack.open_port();
    let exports = Exports::new([Export::new("disk", export, stack.limits(export))]).unwrap();
    let mut session = Session::new(Arc::new(exports), SessionLimits::default());
    let mut pool = Pool::new(1 << 20, 1 << 20);
    let hello = [&3_u32.to_be_bytes()[..], &option(1, b"disk")].concat();
    assert_eq!(session.handle_bytes(&hello, &mut pool), hello.len());
    while let Some(batch) = session.poll_transmit() {
        session.handle_sent(batch, &mut pool);
    }

    // WRITE of 4 KiB at the start of the export's third zone.
    let offset = 2 * ZONE * 512;
    let request = [&[0x25, 0x60, 0x95, 0x13, 0, 0, 0, 1][..], &[7; 8], &offset.to_be_bytes(), &4096_u32.to_be_bytes()];
    let mut bytes = [request.concat(), vec![0xab; 4096]].concat();
    stack.set_trace(Some(64));
    while !bytes.is_empty() {
        let taken = session.handle_bytes(&bytes, &mut pool);
        bytes.drain(..taken);
        if let Receive::Payload { data, filled } = session.poll_receive() {
            let want = data.len() - filled;
            data.write(filled, &bytes[..want]);
            bytes.drain(..want);
            session.handle_payload(data, want, &mut pool);
        }
    }
    let (tag, bio) = session.poll_bio().expect("a WRITE becomes a bio");
    stack.submit(port, tag.into(), export, bio);
    stack.turn(Instant::ZERO);
    let done = stack.poll_completion(port).expect("the null device is immediate");
    assert_eq!(done.status, Status::Ok);
    session.handle_completion(done.tag as u32, done.bio, (done.status, ""), &mut pool);
    let reply = session.poll_transmit().expect("a reply");
    assert_eq!(reply.segments.len(), 1);

    let events = std::iter::from_fn(|| stack.trace().unwrap().pop());
    let trace: Vec<String> = events
        .map(|event| {
            let device = DEVICES[event.device.0 as usize];
            format!("{} {:<6} {} {}+{}", event.action.letter(), device, event.op.name(), event.sector, event.sectors)
        })
        .collect();
    assert_eq!(trace, documented_trace(&document()), "ARCHITECTURE.md tells another story than the code");
}

#[test]
fn every_file_that_the_document_names_exists() {
    let document = document();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let named: Vec<&str> = document.split('`').skip(1).step_by(2).filter(|word| is_path(word)).collect();
    assert!(named.len() > 20, "the document names the files of the tree: {named:?}");
    let missing: Vec<_> = named.iter().filter(|path| !root.join(path).exists()).collect();
    assert!(missing.is_empty(), "ARCHITECTURE.md names files that are not there: {missing:?}");
}

fn is_path(word: &str) -> bool {
    let starts = ["core/", "sys/", "shingle/", "docs/", "fuzz/"].iter().any(|start| word.starts_with(start));
    starts && !word.contains(['*', '<', ' ', '{'])
}
