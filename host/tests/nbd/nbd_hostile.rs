//! Clients that are slow, broken or unkind: each hurts itself, and the others are served.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use shingle_core::frontend::nbd::SessionLimits;
use shingle_core::time::Duration;
use shingle_host::serve::nbd::NbdOptions;

use crate::client::{DISC, FLUSH, READ, WRITE, option, request};
use crate::support::{Disk, SIZE, Server};

const SIMPLE_REPLY: [u8; 8] = [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0];

fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A connection whose client has read the greeting.
fn greeted(server: &Server) -> UnixStream {
    let mut socket = UnixStream::connect(&server.path).unwrap();
    let mut greeting = [0; 18];
    socket.read_exact(&mut greeting).unwrap();
    assert_eq!(&greeting, b"NBDMAGICIHAVEOPT\0\x03");
    socket
}

fn hello(export: &str) -> Vec<u8> {
    let mut bytes = 3_u32.to_be_bytes().to_vec();
    bytes.extend(option(1, export.as_bytes()));
    bytes
}

/// A connection in transmission.
fn connected(server: &Server, export: &str) -> UnixStream {
    let mut socket = greeted(server);
    socket.write_all(&hello(export)).unwrap();
    let mut answer = [0; 10];
    socket.read_exact(&mut answer).unwrap();
    assert_eq!(answer[..8], SIZE.to_be_bytes());
    socket
}

fn reply(socket: &mut UnixStream, cookie: u64) -> u32 {
    let mut header = [0; 16];
    socket.read_exact(&mut header).unwrap();
    assert_eq!(header[..4], SIMPLE_REPLY[..4]);
    assert_eq!(header[8..], cookie.to_be_bytes());
    u32::from_be_bytes(header[4..8].try_into().unwrap())
}

/// Writes and reads back, on a connection of its own.
fn assert_served(server: &Server, export: &str, bytes: usize) {
    let mut socket = connected(server, export);
    let data = vec![0x77; bytes];
    socket.write_all(&request(WRITE, 0, 1, 0, bytes as u32)).unwrap();
    socket.write_all(&data).unwrap();
    assert_eq!(reply(&mut socket, 1), 0);
    socket.write_all(&request(READ, 0, 2, 0, bytes as u32)).unwrap();
    assert_eq!(reply(&mut socket, 2), 0);
    let mut back = vec![0; bytes];
    socket.read_exact(&mut back).unwrap();
    assert!(back == data, "other bytes came back");
    socket.write_all(&request(DISC, 0, 3, 0, 0)).unwrap();
    assert_closed(&mut socket);
}

/// Reads what is left until the server closes; how many bytes that was.
fn assert_closed(socket: &mut UnixStream) -> usize {
    let mut rest = Vec::new();
    match socket.read_to_end(&mut rest) {
        Ok(count) => count,
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => rest.len(),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_client_that_sends_byte_by_byte_is_served() {
    let server = Server::start(&[Disk::regular("disk")]);
    let mut socket = greeted(&server);
    let mut all = hello("disk");
    all.extend(request(WRITE, 0, 1, 0, 512));
    all.extend([9; 512]);
    all.extend(request(FLUSH, 0, 2, 0, 0));
    for byte in all {
        socket.write_all(&[byte]).unwrap();
    }
    let mut answer = [0; 10];
    socket.read_exact(&mut answer).unwrap();
    assert_eq!((reply(&mut socket, 1), reply(&mut socket, 2)), (0, 0));
}

#[test]
fn a_client_of_small_requests_is_refused_and_in_the_log_once_with_what_to_do() {
    let server = Server::start(&[Disk::regular("disk")]);
    let mut socket = connected(&server, "disk");
    for n in 0..20 {
        socket.write_all(&request(READ, 0, n, n, 100)).unwrap();
        assert_eq!(reply(&mut socket, n), 22);
    }
    assert_served(&server, "disk", 512);
    drop(socket);
    server.wait_until_empty();
    let log = server.log();
    let [line] = &log[..] else { panic!("{log:?}") };
    let expected = "client 1: 100 bytes at 0 are no whole blocks of 512: ";
    assert!(line.contains(expected) && line.contains("nbdkit --filter=blocksize"), "{line}");
}

#[test]
fn everything_sent_ahead_at_once_is_served_too() {
    let server = Server::with(&[&[Disk::regular("here")], &[Disk::regular("there")]], NbdOptions::default());
    for export in ["here", "there"] {
        let mut socket = UnixStream::connect(&server.path).unwrap();
        let mut all = hello(export);
        (0..300).for_each(|n| all.extend(request(READ, 0, n, n * 512, 512)));
        all.extend(request(DISC, 0, 0, 0, 0));
        socket.write_all(&all).unwrap();
        assert_eq!(assert_closed(&mut socket), 18 + 10 + 300 * (16 + 512), "{export}");
    }
}

#[test]
fn a_client_that_never_speaks_loses_its_place() {
    let options = NbdOptions { handshake_timeout: millis(20), connections: 1, ..NbdOptions::default() };
    let server = Server::with(&[&[Disk::regular("disk")]], options);
    let mut silent = greeted(&server);
    assert_eq!(assert_closed(&mut silent), 0);
    server.wait_until_empty();
    assert_served(&server, "disk", 4096);
    assert!(server.log()[0].contains("kept the server waiting for too long; connection closed"), "{:?}", server.log());
}

#[test]
fn an_idle_client_that_has_chosen_keeps_its_place() {
    let options = NbdOptions { handshake_timeout: millis(1), ..NbdOptions::default() };
    let server = Server::with(&[&[Disk::regular("disk")]], options);
    let mut idle = loop {
        // The handshake itself may be too slow for so little patience.
        let mut socket = UnixStream::connect(&server.path).unwrap();
        let mut answer = [0; 28];
        if socket.write_all(&hello("disk")).is_ok() && socket.read_exact(&mut answer).is_ok() {
            break socket;
        }
    };
    let mut silent = UnixStream::connect(&server.path).unwrap();
    assert_closed(&mut silent);
    idle.write_all(&request(FLUSH, 0, 5, 0, 0)).unwrap();
    assert_eq!(reply(&mut idle, 5), 0, "another one's time ran out meanwhile, not this one's");
}

#[test]
fn garbage_and_absurd_lengths_end_their_connection_only() {
    let server = Server::start(&[Disk::regular("disk")]);
    let mut bystander = connected(&server, "disk");
    let huge_option = [&3_u32.to_be_bytes()[..], b"IHAVEOPT", &[0, 0, 0, 7, 0xff, 0xff, 0xff, 0xff]].concat();
    let garbage = vec![0xee; 5000];
    for (bytes, line) in [
        (huge_option, "an option with 4294967295 bytes of data; connection closed"),
        (garbage.clone(), "unknown handshake flags 0xeeeeeeee; connection closed"),
        ([&3_u32.to_be_bytes()[..], &garbage].concat(), "0xeeeeeeeeeeeeeeee where an option should begin"),
    ] {
        let mut socket = greeted(&server);
        let _ = socket.write_all(&bytes);
        assert_closed(&mut socket);
        server.wait_for_log(line);
    }
    for (bytes, line) in [
        (garbage, "0xeeeeeeee where a request should begin"),
        (request(WRITE, 0, 1, 0, 0xffff_fe00).to_vec(), "a request with 4294966784 bytes of payload"),
    ] {
        let mut socket = connected(&server, "disk");
        let _ = socket.write_all(&bytes);
        assert_closed(&mut socket);
        server.wait_for_log(line);
    }
    bystander.write_all(&request(FLUSH, 0, 5, 0, 0)).unwrap();
    assert_eq!(reply(&mut bystander, 5), 0);
}

#[test]
fn a_client_that_vanishes_with_requests_in_flight_leaves_nothing_behind() {
    let slow = Disk { completion_ns: 2_000_000, ..Disk::regular("disk") };
    let server = Server::start(&[slow]);
    for payload_sent in [0, 100, 40_000] {
        let mut socket = connected(&server, "disk");
        let mut all = Vec::new();
        (0..50).for_each(|n| all.extend(request(READ, 0, n, n * 4096, 65536)));
        all.extend(request(WRITE, 0, 99, 0, 1 << 20));
        all.resize(all.len() + payload_sent, 0);
        socket.write_all(&all).unwrap();
        drop(socket);
        server.wait_until_empty();
    }
    assert_served(&server, "disk", 1 << 20);
}

#[test]
fn of_a_thousand_clients_as_many_are_served_as_there_are_places() {
    let options = NbdOptions { connections: 20, ..NbdOptions::default() };
    let server = Server::with(&[&[Disk::regular("disk")]], options);
    let mut served: Vec<UnixStream> = (0..20).map(|_| connected(&server, "disk")).collect();
    // Clients that choose nothing take no place, and those that choose are refused.
    let _silent: Vec<UnixStream> = (0..100).map(|_| greeted(&server)).collect();
    for _ in 0..880 {
        let mut refused = UnixStream::connect(&server.path).unwrap();
        refused.write_all(&hello("disk")).unwrap();
        assert_closed(&mut refused);
    }
    assert_eq!(server.connections(), [120]);
    for socket in &mut served {
        socket.write_all(&request(FLUSH, 0, 5, 0, 0)).unwrap();
        assert_eq!(reply(socket, 5), 0);
    }
    assert!(server.log()[0].contains("refusing clients: 20 are connected already"), "{:?}", server.log());
    drop((served, _silent));
    server.wait_until_empty();
    assert_served(&server, "disk", 4096);
}

/// A connection that has asked for 100 MiB and reads none of it.
fn glutton(server: &Server) -> UnixStream {
    let mut socket = connected(server, "disk");
    (0..100).for_each(|n| socket.write_all(&request(READ, 0, n, 0, 1 << 20)).unwrap());
    socket
}

#[test]
fn those_who_do_not_read_their_replies_keep_nobody_from_small_requests() {
    let options = NbdOptions { memory_bytes: 2 << 20, ..NbdOptions::default() };
    let server = Server::with(&[&[Disk::regular("disk")]], options);
    let gluttons: Vec<UnixStream> = (0..5).map(|_| glutton(&server)).collect();
    for _ in 0..20 {
        assert_served(&server, "disk", 64 << 10);
    }
    drop(gluttons);
}

#[test]
fn memory_that_others_wait_for_is_taken_from_those_who_do_nothing_with_it() {
    let options = NbdOptions { memory_bytes: 2 << 20, stall_timeout: millis(1_000), ..NbdOptions::default() };
    let server = Server::with(&[&[Disk::regular("disk")]], options);
    let mut gluttons: Vec<UnixStream> = (0..5).map(|_| glutton(&server)).collect();
    assert_served(&server, "disk", 1 << 20);
    server.wait_for_log("kept the server waiting for too long");
    assert!(gluttons.iter_mut().map(assert_closed).any(|bytes| bytes < 100 << 20));
}

#[test]
fn an_idle_client_is_sent_away_after_its_time_and_one_that_waits_for_the_disk_is_not() {
    let slow = Disk { completion_ns: 400_000_000, ..Disk::regular("disk") };
    let options = NbdOptions { idle_timeout: Some(millis(200)), ..NbdOptions::default() };
    let server = Server::with(&[&[slow]], options);
    let mut waits = connected(&server, "disk");
    waits.write_all(&request(READ, 0, 1, 0, 512)).unwrap();
    assert_eq!(reply(&mut waits, 1), 0);
    let mut idle = connected(&server, "disk");
    server.wait_for_log("the client did nothing for as long as `idle-timeout` allows");
    assert_eq!(assert_closed(&mut idle), 0);
    let mut glutton = glutton(&server);
    server.wait_until_empty();
    assert!(assert_closed(&mut glutton) < 100 << 20);
}

#[test]
fn a_stop_answers_what_is_in_flight_and_waits_for_nobody_for_long() {
    let slow = Disk { completion_ns: 2_000_000, ..Disk::regular("disk") };
    let options = NbdOptions { linger: millis(500), ..NbdOptions::default() };
    let server = Server::with(&[&[slow]], options);
    let path = server.path.clone();
    let mut busy = connected(&server, "disk");
    let _silent = greeted(&server);
    let _glutton = glutton(&server);
    let mut half = connected(&server, "disk");
    half.write_all(&request(WRITE, 0, 1, 0, 1 << 20)).unwrap();
    busy.write_all(&request(FLUSH, 0, 1, 0, 0)).unwrap();
    assert_eq!(reply(&mut busy, 1), 0);
    busy.write_all(&[request(READ, 0, 2, 0, 512), request(READ, 0, 3, 0, 512)].concat()).unwrap();
    // The stop comes when both reads are with the disk, or before they are received: never in between.
    server.stop();
    let answered = assert_closed(&mut busy);
    assert!(answered == 2 * (16 + 512) || answered == 0, "{answered} bytes");
    assert!(!path.exists(), "the socket file is gone");
}

#[test]
fn requests_beyond_the_bound_wait_their_turn_and_none_is_lost() {
    let slow = Disk { completion_ns: 100_000, ..Disk::regular("disk") };
    let session = SessionLimits { requests: 4, bytes: 64 << 10 };
    let server = Server::with(&[&[slow]], NbdOptions { session, ..NbdOptions::default() });
    let mut socket = connected(&server, "disk");
    let mut all = Vec::new();
    for n in 0..200 {
        all.extend(request(WRITE, 0, n, n * 8192, 8192));
        all.resize(all.len() + 8192, n as u8);
    }
    let mut sender = socket.try_clone().unwrap();
    let thread = std::thread::spawn(move || sender.write_all(&all).unwrap());
    let mut seen = [false; 200];
    for _ in 0..200 {
        let mut header = [0; 16];
        socket.read_exact(&mut header).unwrap();
        assert_eq!(header[..8], SIMPLE_REPLY);
        let cookie = u64::from_be_bytes(header[8..].try_into().unwrap()) as usize;
        assert!(!std::mem::replace(&mut seen[cookie], true), "{cookie} is answered twice");
    }
    thread.join().unwrap();
}
