//! Somebody on the way to a server that requires TLS. What he says before it, or along with the request for it, has no answer but that TLS is
//! required, and changes nothing of what the client is told within it.
//!
//! The guards of that are taken away one at a time, and the same seeds have to notice.

use std::sync::Arc;

use shingle_core::block::{DeviceId, Limits};
use shingle_core::frontend::Pool;
use shingle_core::frontend::nbd::{Export, Exports, Sabotage, Segment, Session, SessionLimits};
use shingle_core::random::Rng;

const ABORT: u32 = 2;
const STARTTLS: u32 = 5;
const GO: u32 = 7;
const STRUCTURED_REPLY: u32 = 8;
const SET_META_CONTEXT: u32 = 10;
/// All that a client can ask for before it has an export.
const OPTIONS: [u32; 11] = [1, ABORT, 3, STARTTLS, 6, GO, STRUCTURED_REPLY, 9, SET_META_CONTEXT, 11, 99];

const ACK: u32 = 1;
const ERR_INVALID: u32 = 0x8000_0003;
const ERR_TLS_REQD: u32 = 0x8000_0005;
/// Bytes of a greeting, and of the head of an answer to an option.
const GREETING: usize = 18;
const HEAD: usize = 20;

struct Server {
    session: Session,
    pool: Pool,
    wire: Vec<u8>,
}

impl Server {
    fn new(gone: Sabotage) -> Self {
        let exports = Exports::new([Export::new("disk", DeviceId(0), &Limits::new(1024))]).unwrap();
        let session = Session::new_with_tls(Arc::new(exports), SessionLimits::default()).without(gone);
        let mut new = Self { session, pool: Pool::new(1 << 20, 1 << 20), wire: Vec::new() };
        new.hear();
        assert_eq!(new.wire.len(), GREETING);
        new.wire.clear();
        new
    }

    fn hear(&mut self) {
        while let Some(batch) = self.session.poll_transmit() {
            for segment in &batch.segments {
                let Segment::Bytes(bytes) = segment else { panic!("data without a request") };
                self.wire.extend_from_slice(bytes);
            }
            self.session.handle_sent(batch, &mut self.pool);
        }
    }

    /// Sends what the session takes of these bytes: none that are for TLS, or behind the choice of an export.
    fn send(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() && self.session.export().is_none() {
            let taken = self.session.handle_bytes(rest, &mut self.pool);
            self.hear();
            rest = &rest[taken..];
            if taken == 0 {
                return;
            }
        }
    }

    /// Whether all that was said is how to begin, or that the client gives up.
    fn check_plain(&self) -> Result<(), String> {
        let mut rest = &self.wire[..];
        while let Some(head) = rest.first_chunk::<HEAD>() {
            let word = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().unwrap());
            match (word(8), word(12)) {
                (STARTTLS | ABORT, ACK) | (STARTTLS, ERR_INVALID) | (_, ERR_TLS_REQD) => {}
                (option, reply) => return Err(format!("option {option} has the answer {reply:#x} without TLS")),
            }
            rest = &rest[HEAD + word(16) as usize..];
        }
        if !rest.is_empty() || self.session.export().is_some() {
            return Err("an export was chosen without TLS".into());
        }
        Ok(())
    }
}

fn option(number: u32, data: &[u8]) -> Vec<u8> {
    [b"IHAVEOPT", &number.to_be_bytes()[..], &(data.len() as u32).to_be_bytes(), data].concat()
}

/// Any option, with data that it can have.
fn any(rng: &mut Rng) -> Vec<u8> {
    let name = [&4_u32.to_be_bytes()[..], b"disk"].concat();
    let query = [&[0, 0, 0, 1, 0, 0, 0, 15][..], b"base:allocation"].concat();
    let which = OPTIONS[rng.below(OPTIONS.len() as u64) as usize];
    match which {
        1 => option(which, b"disk"),
        6 | GO => option(which, &[&name[..], &[0, 0]].concat()),
        9 | SET_META_CONTEXT => option(which, &[&name[..], &query].concat()),
        // With data it is no request for TLS.
        STARTTLS => option(which, b"x"),
        _ => option(which, b""),
    }
}

fn some(rng: &mut Rng) -> Vec<u8> {
    (0..rng.below(4)).flat_map(|_| any(rng)).collect()
}

/// One connection. Whether TLS was begun on it.
fn connect(seed: u64, gone: Sabotage) -> Result<bool, String> {
    let rng = &mut Rng::new(seed);
    let (mut server, mut alone) = (Server::new(gone), Server::new(Sabotage::default()));
    let flags = [1, 3][rng.below(2) as usize];
    let begin = option(STARTTLS, b"");
    let said = [&u32::to_be_bytes(flags)[..], &some(rng), &begin, &some(rng)].concat();
    let mut rest = &said[..];
    while !rest.is_empty() && !server.session.begins_tls() && server.session.close().is_none() {
        let piece = if rng.chance(1, 2) { rest.len() } else { 1 + rng.below(rest.len() as u64) as usize };
        server.send(&rest[..piece]);
        rest = &rest[piece..];
    }
    server.check_plain()?;
    if server.session.close().is_some() {
        return Ok(false);
    }
    if !server.session.begins_tls() {
        return Err("it does not begin TLS".into());
    }
    alone.send(&[&u32::to_be_bytes(flags)[..], &begin].concat());
    let asked = [some(rng), option(SET_META_CONTEXT, b"\0\0\0\0\0\0\0\0"), any(rng), some(rng)].concat();
    let [told, expected] = [&mut server, &mut alone].map(|server| {
        server.wire.clear();
        server.session.handle_tls(Ok(()));
        server.send(&asked);
        (&server.wire[..], server.session.export().is_some(), server.session.close())
    });
    if told == expected {
        Ok(true)
    } else {
        Err("within TLS it answers otherwise than a server that heard nothing before".into())
    }
}

#[test]
fn what_is_said_before_tls_has_no_answer_and_no_effect_within_it() {
    let begun = (0..5_000).filter(|seed| connect(*seed, Sabotage::default()).unwrap()).count();
    assert!(begun > 2_000, "{begun}");
}

fn found(gone: Sabotage) -> String {
    (0..200).find_map(|seed| connect(seed, gone).err()).expect("no connection shows it")
}

#[test]
fn bytes_that_come_along_with_the_request_for_tls_and_are_taken_for_protected_are_found() {
    found(Sabotage { before_tls_taken: true, ..Sabotage::default() });
}

#[test]
fn options_that_are_answered_although_tls_is_required_are_found() {
    let what = found(Sabotage { tls_not_required: true, ..Sabotage::default() });
    assert!(what.contains("without TLS"), "{what}");
}
