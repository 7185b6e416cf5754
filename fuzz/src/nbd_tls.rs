//! Somebody on the way to an NBD session that requires TLS, who says anything before it and along with the request for it; and a client that
//! says anything within it, which the session lets in or not.
//!
//! What is checked: nothing panics; without TLS nothing is told but how to begin, and there is no export; and within it a session answers, byte
//! for byte, as one that heard nothing before.

use std::sync::Arc;

use arbitrary::{Arbitrary, Unstructured};
use shingle_core::block::{DeviceId, Limits};
use shingle_core::frontend::Pool;
use shingle_core::frontend::nbd::{Close, Export, Exports, Segment, Session, SessionLimits};

const STARTTLS: u32 = 5;
const ABORT: u32 = 2;
const ACK: u32 = 1;
const ERR_TOO_BIG: u32 = 0x8000_0009;
const ERR_INVALID: u32 = 0x8000_0003;
const ERR_TLS_REQD: u32 = 0x8000_0005;
/// Bytes of a greeting, and of the head of an answer to an option.
const GREETING: usize = 18;
const HEAD: usize = 20;

#[derive(Arbitrary, Debug)]
struct Input {
    flags: u8,
    before: Vec<Message>,
    along: Vec<Message>,
    /// Where what is sent is cut.
    pieces: Vec<u8>,
    is_refused: bool,
    within: Vec<Message>,
}

#[derive(Arbitrary, Debug)]
enum Message {
    Bytes(Vec<u8>),
    Option(u8, Vec<u8>),
    /// With the data that it takes.
    Named(u8),
}

impl Message {
    fn put(&self, to: &mut Vec<u8>) {
        let (number, data) = match self {
            Self::Bytes(bytes) => return to.extend(bytes),
            Self::Option(number, data) => (*number, data.clone()),
            Self::Named(number) => {
                let name = [&4_u32.to_be_bytes()[..], b"disk"].concat();
                let query = [&[0, 0, 0, 1, 0, 0, 0, 15][..], b"base:allocation"].concat();
                let number = number % 12;
                let data = match number {
                    1 => b"disk".to_vec(),
                    6 | 7 => [&name[..], &[0, 0]].concat(),
                    9 | 10 => [name, query].concat(),
                    _ => Vec::new(),
                };
                (number, data)
            }
        };
        option(to, number.into(), &data);
    }
}

fn option(to: &mut Vec<u8>, number: u32, data: &[u8]) {
    to.extend([b"IHAVEOPT", &number.to_be_bytes()[..], &(data.len() as u32).to_be_bytes(), data].concat());
}

struct Server {
    session: Session,
    pool: Pool,
    wire: Vec<u8>,
}

impl Server {
    fn new() -> Self {
        let exports = Exports::new([Export::new("disk", DeviceId(0), &Limits::new(1024))]).unwrap();
        let session = Session::new_with_tls(Arc::new(exports), SessionLimits::default());
        let mut new = Self { session, pool: Pool::new(1 << 20, 1 << 20), wire: Vec::new() };
        new.hear();
        assert_eq!(new.wire.len(), GREETING);
        new.wire.clear();
        new
    }

    fn hear(&mut self) {
        while let Some(batch) = self.session.poll_transmit() {
            for segment in &batch.segments {
                if let Segment::Bytes(bytes) = segment {
                    self.wire.extend_from_slice(bytes);
                }
            }
            self.session.handle_sent(batch, &mut self.pool);
        }
    }

    /// Sends what is no request yet. Whether the session takes more.
    fn send(&mut self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() && self.session.export().is_none() && self.session.close().is_none() {
            let taken = self.session.handle_bytes(bytes, &mut self.pool);
            self.hear();
            if self.session.begins_tls() {
                return false;
            }
            assert!(taken > 0 || self.session.export().is_some(), "an idle session takes nothing");
            bytes = &bytes[taken..];
        }
        self.session.export().is_none() && self.session.close().is_none()
    }

    /// Without TLS nothing is told but how to begin.
    fn check_plain(&self) {
        assert!(self.session.export().is_none(), "an export without TLS");
        let mut rest = &self.wire[..];
        while !rest.is_empty() {
            let word = |at: usize| u32::from_be_bytes(rest[at..at + 4].try_into().unwrap());
            let (option, reply) = (word(8), word(12));
            let is_right = match reply {
                ACK => option == STARTTLS || option == ABORT,
                ERR_INVALID => option == STARTTLS,
                _ => reply == ERR_TLS_REQD || reply == ERR_TOO_BIG,
            };
            assert!(is_right, "option {option} has the answer {reply:#x} without TLS");
            rest = &rest[HEAD + word(16) as usize..];
        }
    }

    fn begin_tls(&mut self, is_refused: bool) {
        assert!(self.session.begins_tls());
        self.wire.clear();
        self.session.handle_tls(if is_refused { Err("not you".into()) } else { Ok(()) });
    }
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let Ok(input) = Input::arbitrary_take_rest(Unstructured::new(data)) else { return };
    let flags = u32::from(input.flags % 4).to_be_bytes();
    let mut plain = flags.to_vec();
    input.before.iter().for_each(|message| message.put(&mut plain));
    option(&mut plain, STARTTLS, &[]);
    input.along.iter().for_each(|message| message.put(&mut plain));
    let (mut server, mut rest) = (Server::new(), &plain[..]);
    let mut pieces = input.pieces.iter().map(|piece| usize::from(*piece) + 1);
    while !rest.is_empty() {
        let piece = pieces.next().unwrap_or(usize::MAX).min(rest.len());
        let goes_on = server.send(&rest[..piece]);
        server.check_plain();
        if !goes_on {
            break;
        }
        rest = &rest[piece..];
    }
    if !server.session.begins_tls() {
        return;
    }
    let mut alone = Server::new();
    let mut begin = flags.to_vec();
    option(&mut begin, STARTTLS, &[]);
    alone.send(&begin);
    let mut within = Vec::new();
    input.within.iter().for_each(|message| message.put(&mut within));
    for server in [&mut server, &mut alone] {
        server.begin_tls(input.is_refused);
        server.send(&within);
        assert!(!input.is_refused || server.session.export().is_none(), "who may have nothing has an export");
    }
    // Options count from the first byte on.
    if [&server, &alone].iter().any(|server| server.session.close() == Some(Close::TooManyOptions)) {
        return;
    }
    let is_same = server.wire == alone.wire && server.session.close() == alone.session.close();
    assert!(is_same, "what came before TLS has an effect within it");
}
