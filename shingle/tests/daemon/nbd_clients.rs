//! NBD clients that are slow or idle, and a daemon that stands still.

use std::time::Duration;

use crate::program::Scratch;
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
