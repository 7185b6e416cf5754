//! NBD clients that are slow or idle, and a daemon that stands still.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::program::Scratch;
use crate::program::nbd::client::option;
use crate::program::nbd::{BLOCK, Nbd, WRITE};

#[test]
fn a_request_that_waits_in_the_socket_is_no_idleness() {
    let scratch = Scratch::with_stack(
        "[disk.n]\ntype = \"null\"\nsize = \"64MiB\"\nmemory-backed = true\n[export.n]\ndevice = \"n\"\n\
         [listen]\nunix = \"nbd.sock\"\nidle-timeout = \"500ms\"\n",
    );
    let daemon = scratch.up();
    // Which of the timer and the socket comes first is chance: of many clients some are always sent away if the timer counts alone.
    for _ in 0..3 {
        let mut clients: Vec<Nbd> = (0..12).map(|_| Nbd::connect(&scratch, "n")).collect();
        for client in &mut clients {
            assert_eq!(client.write_status(0, &[1; BLOCK]), 0);
        }
        daemon.signal(rustix::process::Signal::STOP);
        clients.iter_mut().for_each(|client| client.send(WRITE, 4096, &[2; BLOCK]));
        std::thread::sleep(Duration::from_millis(1500));
        daemon.signal(rustix::process::Signal::CONT);
        clients.iter_mut().for_each(|client| client.written(1));
    }
    // A client that sends nothing is disconnected all the same.
    let mut idle = Nbd::connect(&scratch, "n");
    idle.closed();
    scratch.stderr_with("`idle-timeout`");
    daemon.stop();
}

/// Asks for an export with `NBD_OPT_GO`: kind and text of the first answer.
fn go(scratch: &Scratch, export: &str) -> (u32, String) {
    let mut socket = UnixStream::connect(scratch.0.join("nbd.sock")).unwrap();
    socket.read_exact(&mut [0; 18]).unwrap();
    let data = [&(export.len() as u32).to_be_bytes()[..], export.as_bytes(), &[0; 2]].concat();
    socket.write_all(&[&3_u32.to_be_bytes()[..], &option(7, &data)].concat()).unwrap();
    let mut head = [0; 20];
    socket.read_exact(&mut head).unwrap();
    let word = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().unwrap());
    let mut text = vec![0; word(16) as usize];
    socket.read_exact(&mut text).unwrap();
    (word(12), String::from_utf8_lossy(&text).into_owned())
}

/// Two clients that mount the file system of one export destroy it.
#[test]
fn export_for_one_connection_refuses_the_second_and_says_who_has_it() {
    let scratch = Scratch::with_stack(
        "[disk.n]\ntype = \"null\"\nsize = \"64MiB\"\nmemory-backed = true\n[export.n]\ndevice = \"n\"\nmax-connections = 1\n\
         [export.copy]\ndevice = \"n\"\nread-only = true\n\
         [listen]\nunix = \"nbd.sock\"\n[control]\nsocket = \"control.sock\"\n",
    );
    let daemon = scratch.up();
    let mut holder = Nbd::connect(&scratch, "n");
    let (kind, text) = go(&scratch, "n");
    assert_eq!(kind, 0x8000_0002, "NBD_REP_ERR_POLICY: {text}");
    let expected = "export `n` takes one connection at a time, and unix:nbd.sock client 1 has it: end that first";
    assert_eq!(text, expected);
    assert!(Nbd::connect_at(&scratch.0.join("nbd.sock"), "n").is_err(), "NBD_OPT_EXPORT_NAME has no answer for it");
    scratch.stderr_with(expected);
    let status = scratch.ok("status");
    assert!(status.contains("read-write  1 of 1   -"), "{status}");
    assert!(status.lines().all(|line| line.chars().count() <= 80), "{status}");
    let exports = scratch.json("status --json")["exports"].clone();
    assert_eq!((&exports[0]["connections"], &exports[0]["max_connections"]), (&1.into(), &1.into()));
    assert_eq!((&exports[1]["connections"], &exports[1]["max_connections"]), (&0.into(), &().into()));
    // Others may read by an export of their own, and the client keeps what it has.
    drop(Nbd::connect(&scratch, "copy"));
    assert_eq!(holder.write_status(0, &[1; BLOCK]), 0);
    drop(holder);
    // The daemon sees the closed connection a moment later.
    let begun = Instant::now();
    while go(&scratch, "n").0 == 0x8000_0002 {
        assert!(begun.elapsed() < Duration::from_secs(20), "the connection of a client that is gone is not free");
    }
    daemon.stop();
}

#[test]
fn limit_of_connections_of_an_export_is_checked() {
    let scratch = Scratch::with_stack(
        "[disk.n]\ntype = \"null\"\n[export.n]\ndevice = \"n\"\nmax-connections = 0\n[listen]\nunix = \"nbd.sock\"\n",
    );
    scratch.fails("up --check stack.toml", 1, &["stack.toml:5", "`max-connections` is out of range"]);
}
