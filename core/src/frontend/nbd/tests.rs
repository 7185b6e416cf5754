//! Transcripts: what a client sends, what the session makes of it, what the client gets back.

use alloc::sync::Arc;

use super::wire::{self, Headers, command, command_flag as flag, error, info, option, option_reply, transmission_flag};
use super::*;
use crate::block::{Bio, DeviceId, Extent, Flags, Limits, Op, Payload, Status, ZonedLimits};
use crate::frontend::Pool;
use crate::prelude::*;
use crate::sector::Sector;
use crate::zone::{Condition, Zone, ZoneKind};

const SIZE: u64 = 64 << 20;

/// A session and both of its sides.
struct Rig {
    session: Session,
    pool: Pool,
    /// Bytes that the session did not take yet.
    rest: Vec<u8>,
    /// Bytes on their way to the client.
    wire: Vec<u8>,
    bios: Vec<(u32, Box<Bio>)>,
    /// What the stack would answer to questions.
    known: Vec<Extent>,
    /// From which sector to which was asked.
    asked: Vec<(u64, u64)>,
}

impl Rig {
    fn with(exports: impl IntoIterator<Item = Export>, limits: SessionLimits) -> Self {
        let exports = Arc::new(Exports::new(exports).unwrap());
        let session = Session::new(exports, limits);
        let pool = Pool::new(1 << 30, 1 << 30);
        let (rest, wire, bios, known, asked) = (vec![], vec![], vec![], vec![], vec![]);
        let mut rig = Self { session, pool, rest, wire, bios, known, asked };
        rig.drain();
        let greeting: Vec<u8> = rig.take_wire();
        assert_eq!(greeting, b"NBDMAGICIHAVEOPT\0\x03");
        rig
    }

    fn new(exports: impl IntoIterator<Item = Export>) -> Self {
        Self::with(exports, SessionLimits::default())
    }

    /// A connection in transmission.
    fn connected(export: Export, headers: Headers, limits: SessionLimits) -> Self {
        let mut rig = Self::with([export], limits);
        rig.send(&3_u32.to_be_bytes());
        match headers {
            Headers::Simple => {}
            Headers::Structured => rig.send_option(option::STRUCTURED_REPLY, &[]),
            Headers::Extended => rig.send_option(option::EXTENDED_HEADERS, &[]),
        }
        if headers != Headers::Simple {
            rig.send_option(option::SET_META_CONTEXT, &query("", &["base:allocation"]));
        }
        rig.send_option(option::GO, &go("", &[]));
        assert!(rig.session.export().is_some());
        rig.take_wire();
        rig
    }

    fn send(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        self.drain();
    }

    fn send_option(&mut self, option: u32, data: &[u8]) {
        self.send(&option_bytes(option, data));
    }

    fn take_wire(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.wire)
    }

    /// Does what the session's documentation asks of a driver.
    fn drain(&mut self) {
        loop {
            while let Some(bio) = self.session.poll_bio() {
                self.bios.push(bio);
            }
            while let Some((tag, sectors, mut extents)) = self.session.poll_question() {
                self.asked.push((sectors.start, sectors.end));
                extents.extend_from_slice(&self.known);
                self.session.handle_extents(tag, extents, &mut self.pool);
            }
            if let Some(batch) = self.session.poll_transmit() {
                self.wire.extend(batch.segments.iter().flat_map(bytes_of));
                self.session.handle_sent(batch, &mut self.pool);
                continue;
            }
            let taken = self.session.handle_bytes(&self.rest, &mut self.pool);
            self.rest.drain(..taken);
            if taken == 0 {
                return;
            }
        }
    }

    /// The bio that the session wants done, if it wants only one.
    fn bio(&mut self) -> (u32, Box<Bio>) {
        assert_eq!(self.bios.len(), 1, "bios in the stack");
        self.bios.remove(0)
    }

    fn complete(&mut self, (tag, bio): (u32, Box<Bio>), status: Status) {
        self.session.handle_completion(tag, bio, (status, ""), &mut self.pool);
        self.drain();
    }

    /// The chunks or simple replies on the wire, as error codes by cookie; data is skipped.
    fn errors(&mut self, headers: Headers) -> Vec<(u64, u32)> {
        let wire = self.take_wire();
        let mut rest = &wire[..];
        let mut replies = Vec::new();
        while !rest.is_empty() {
            let be32 = |at: usize| u32::from_be_bytes(rest[at..at + 4].try_into().unwrap());
            let cookie = u64::from_be_bytes(rest[8..16].try_into().unwrap());
            if headers == Headers::Simple {
                assert_eq!(be32(0), 0x6744_6698);
                replies.push((cookie, be32(4)));
                rest = &rest[16..];
                continue;
            }
            let (header, length) = match headers {
                Headers::Extended => (32, u64::from_be_bytes(rest[24..32].try_into().unwrap()) as usize),
                _ => (20, be32(16) as usize),
            };
            let is_error = rest[6] & 0x80 != 0;
            replies.push((cookie, if is_error { be32(header) } else { 0 }));
            rest = &rest[header + length..];
        }
        replies
    }
}

fn bytes_of(segment: &Segment) -> Vec<u8> {
    match segment {
        Segment::Bytes(bytes) => bytes.clone(),
        Segment::Data(data) => data.to_vec(),
    }
}

fn limits() -> Limits {
    Limits { max_write_zeroes: Some(2048), max_discard: Some(2048), write_cache: true, ..Limits::new(SIZE / 512) }
}

fn export() -> Export {
    Export::new("disk", DeviceId(7), &limits())
}

fn zoned_export() -> Export {
    let zoned = Some(ZonedLimits::new(2048));
    Export::new("zoned", DeviceId(1), &Limits { zoned, ..Limits::new(SIZE / 512) })
}

fn connected(headers: Headers) -> Rig {
    Rig::connected(export(), headers, SessionLimits::default())
}

fn option_bytes(option: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"IHAVEOPT".to_vec();
    bytes.extend(option.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    bytes
}

fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat()
}

fn go(name: &str, wanted: &[u16]) -> Vec<u8> {
    let mut data = string(name);
    data.extend((wanted.len() as u16).to_be_bytes());
    wanted.iter().for_each(|kind| data.extend(kind.to_be_bytes()));
    data
}

fn query(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = string(name);
    data.extend((queries.len() as u32).to_be_bytes());
    queries.iter().for_each(|query| data.extend(string(query)));
    data
}

/// One option reply: its kind and its data.
type Reply = (u32, Vec<u8>);

/// The replies to `option`.
fn replies(wire: &[u8], option: u32) -> Vec<Reply> {
    let mut rest = wire;
    let mut replies = Vec::new();
    while !rest.is_empty() {
        let be32 = |at: usize| u32::from_be_bytes(rest[at..at + 4].try_into().unwrap());
        assert_eq!(&rest[..8], &wire::OPTION_REPLY_MAGIC.to_be_bytes());
        assert_eq!(be32(8), option);
        let length = be32(16) as usize;
        replies.push((be32(12), rest[20..20 + length].to_vec()));
        rest = &rest[20 + length..];
    }
    replies
}

fn answers(rig: &mut Rig, which: u32, data: &[u8]) -> Vec<Reply> {
    rig.send_option(which, data);
    replies(&rig.take_wire(), which)
}

fn text(reply: &Reply) -> String {
    String::from_utf8(reply.1.clone()).unwrap()
}

fn request(headers: Headers, which: u16, flags: u16, cookie: u64, offset: u64, length: u64) -> Vec<u8> {
    let magic = if headers == Headers::Extended { 0x21e4_1c71_u32 } else { 0x2560_9513 };
    let mut bytes = magic.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(which.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    match headers {
        Headers::Extended => bytes.extend(length.to_be_bytes()),
        _ => bytes.extend((length as u32).to_be_bytes()),
    }
    bytes
}

fn simple(which: u16, flags: u16, cookie: u64, offset: u64, length: u64) -> Vec<u8> {
    request(Headers::Simple, which, flags, cookie, offset, length)
}

mod handshake {
    use super::*;

    #[test]
    fn export_name_answers_with_size_flags_and_zeroes_unless_renounced() {
        for (client_flags, zeroes) in [(1_u32, 124), (3, 0)] {
            let mut rig = Rig::new([export()]);
            rig.send(&client_flags.to_be_bytes());
            rig.send_option(option::EXPORT_NAME, b"disk");
            let wire = rig.take_wire();
            assert_eq!(wire[..8], SIZE.to_be_bytes());
            let flags = u16::from_be_bytes([wire[8], wire[9]]);
            assert_ne!(flags & transmission_flag::SEND_FLUSH, 0);
            assert_eq!(wire[10..], vec![0; zeroes], "flags {client_flags}");
            assert_eq!(rig.session.export().unwrap().device, DeviceId(7));
        }
    }

    #[test]
    fn go_tells_size_flags_block_sizes_and_what_was_asked_for() {
        let mut rig = Rig::new([export().with_description("the one disk")]);
        rig.send(&3_u32.to_be_bytes());
        let got = answers(&mut rig, option::INFO, &go("disk", &[info::NAME, info::DESCRIPTION, 77]));
        let data = |kind: u16| {
            let of_kind = |r: &&Reply| r.0 == option_reply::INFO && r.1[..2] == kind.to_be_bytes();
            got.iter().find(of_kind).map(|r| r.1[2..].to_vec())
        };
        assert_eq!(data(info::EXPORT).unwrap()[..8], SIZE.to_be_bytes());
        assert_eq!(data(info::NAME).unwrap(), b"disk");
        assert_eq!(data(info::DESCRIPTION).unwrap(), b"the one disk");
        let sizes = [512_u32, 4096, 32 << 20].map(u32::to_be_bytes).concat();
        assert_eq!(data(info::BLOCK_SIZE).unwrap(), sizes);
        assert_eq!(got.last().unwrap(), &(option_reply::ACK, vec![]));
        assert!(rig.session.export().is_none(), "INFO does not choose");
        assert_eq!(answers(&mut rig, option::GO, &go("disk", &[])).len(), 3);
        assert!(rig.session.export().is_some(), "GO does");
    }

    #[test]
    fn list_names_every_export_in_order() {
        let mut rig = Rig::new([export(), zoned_export().with_description("tape")]);
        rig.send(&3_u32.to_be_bytes());
        let got = answers(&mut rig, option::LIST, &[]);
        let expected = [
            (option_reply::SERVER, string("disk")),
            (option_reply::SERVER, [string("zoned"), b"tape".to_vec()].concat()),
            (option_reply::ACK, vec![]),
        ];
        assert_eq!(got, expected);
        assert_eq!(answers(&mut rig, option::LIST, b"x")[0].0, option_reply::ERR_INVALID);
    }

    #[test]
    fn an_unknown_export_is_named_in_the_error_and_the_client_may_go_on() {
        let mut rig = Rig::new([export(), zoned_export()]);
        rig.send(&3_u32.to_be_bytes());
        let got = answers(&mut rig, option::GO, &go("dsik", &[]));
        assert_eq!(got[0].0, option_reply::ERR_UNKNOWN);
        assert_eq!(text(&got[0]), "no export 'dsik': list the 2 of this server to see their names");
        let got = answers(&mut rig, option::GO, &go("", &[]));
        assert_eq!(text(&got[0]), "this server has 2 exports and no default one: name one of them");
        let got = answers(&mut rig, option::GO, &go(&"n".repeat(4096), &[]));
        assert!(text(&got[0]).len() < 200, "the message is bounded");
        assert_eq!(answers(&mut rig, option::GO, &go("zoned", &[])).last().unwrap().0, option_reply::ACK);
    }

    #[test]
    fn export_name_of_an_unknown_export_ends_the_connection() {
        let mut rig = Rig::new([export()]);
        rig.send(&3_u32.to_be_bytes());
        rig.send_option(option::EXPORT_NAME, b"nothing");
        assert_eq!((rig.session.close(), rig.session.is_done()), (Some(Close::UnknownExport), true));
        assert_eq!(rig.take_wire(), b"");
    }

    #[test]
    fn unknown_options_and_tls_are_refused_and_the_next_option_works() {
        let mut rig = Rig::new([export()]);
        rig.send(&3_u32.to_be_bytes());
        let got = answers(&mut rig, 4711, b"some data");
        assert_eq!(
            (got[0].0, text(&got[0])),
            (option_reply::ERR_UNSUP, "this server does not know option 4711".into())
        );
        let got = answers(&mut rig, option::STARTTLS, &[]);
        assert_eq!(got[0].0, option_reply::ERR_UNSUP);
        assert!(text(&got[0]).contains("use a unix socket"));
        assert_eq!(answers(&mut rig, option::STRUCTURED_REPLY, &[]), [(option_reply::ACK, vec![])]);
    }

    fn with_tls() -> Rig {
        let mut rig = Rig::new([export()]);
        rig.session = Session::new_with_tls(Arc::new(Exports::new([export()]).unwrap()), SessionLimits::default());
        rig.drain();
        rig.take_wire();
        rig.send(&3_u32.to_be_bytes());
        rig
    }

    #[test]
    fn where_tls_is_required_nothing_is_said_before_it_but_how_to_begin() {
        let mut rig = with_tls();
        for (which, data) in [
            (option::LIST, vec![]),
            (option::STRUCTURED_REPLY, vec![]),
            (option::INFO, go("", &[])),
            (option::GO, go("", &[])),
            (999, vec![]),
        ] {
            let got = answers(&mut rig, which, &data);
            assert_eq!((got.len(), got[0].0), (1, option_reply::ERR_TLS_REQD), "option {which}");
            assert!(text(&got[0]).contains("nbds://"), "{got:?}");
        }
        assert_eq!(answers(&mut rig, option::STARTTLS, b"x")[0].0, option_reply::ERR_INVALID);
        assert!(!rig.session.begins_tls() && rig.session.export().is_none());
        assert_eq!(answers(&mut rig, option::STARTTLS, &[])[0].0, option_reply::ACK);
        assert!(rig.session.begins_tls());
        rig.send_option(option::EXPORT_NAME, b"");
        let mut old = with_tls();
        old.send_option(option::EXPORT_NAME, b"");
        assert_eq!((old.session.close(), old.take_wire().len()), (Some(Close::NotAllowed), 0));
    }

    #[test]
    fn a_client_that_is_not_admitted_is_told_why_and_may_choose_again() {
        let mut rig = Rig::new([export().with_admission(true), Export::new("open", DeviceId(1), &Limits::new(2048))]);
        rig.send(&3_u32.to_be_bytes());
        let info = answers(&mut rig, option::INFO, &go("disk", &[]));
        assert_eq!(info.last().unwrap().0, option_reply::ACK, "a client that only asks is answered");
        let more = option_bytes(option::LIST, &[]);
        rig.send(&[option_bytes(option::GO, &go("disk", &[])), more.clone()].concat());
        assert_eq!(rig.session.applied().map(|export| export.name.as_str()), Some("disk"));
        assert_eq!((rig.take_wire(), &rig.rest), (vec![], &more), "nothing is said or taken before the decision");
        rig.rest.clear();
        rig.session.handle_admission(Err("another client has it".into()), &mut rig.pool);
        rig.drain();
        let got = replies(&rig.take_wire(), option::GO);
        assert_eq!((got[0].0, text(&got[0])), (option_reply::ERR_POLICY, "another client has it".into()));
        rig.send_option(option::GO, &go("disk", &[]));
        rig.session.handle_admission(Ok(()), &mut rig.pool);
        rig.drain();
        assert_eq!(replies(&rig.take_wire(), option::GO).last().unwrap().0, option_reply::ACK);
        assert_eq!(rig.session.export().map(|export| export.name.as_str()), Some("disk"));
    }

    #[test]
    fn export_name_of_a_client_that_is_not_admitted_ends_its_connection() {
        let mut rig = Rig::new([export().with_admission(true)]);
        rig.send(&3_u32.to_be_bytes());
        rig.send_option(option::EXPORT_NAME, b"disk");
        rig.session.handle_admission(Err("another client has it".into()), &mut rig.pool);
        rig.drain();
        assert_eq!((rig.session.close(), rig.take_wire()), (Some(Close::NotAdmitted), vec![]));
    }

    #[test]
    fn what_comes_with_the_request_for_tls_is_left_for_tls() {
        let mut rig = with_tls();
        let injected = option_bytes(option::STRUCTURED_REPLY, &[]);
        rig.send(&[option_bytes(option::STARTTLS, &[]), injected.clone()].concat());
        assert!(rig.session.begins_tls());
        assert_eq!(rig.rest, injected, "the session takes none of it");
        // The driver has given it to TLS, out of which come other bytes.
        rig.rest.clear();
        rig.session.handle_tls(Ok(()));
        rig.take_wire();
        assert_eq!(answers(&mut rig, option::STARTTLS, &[])[0].0, option_reply::ERR_INVALID);
        assert_eq!(
            answers(&mut rig, option::SET_META_CONTEXT, &query("", &["base:allocation"]))[0].0,
            option_reply::ERR_INVALID
        );
        rig.send_option(option::GO, &go("", &[]));
        assert!(rig.session.export().is_some());
    }

    #[test]
    fn a_client_that_tls_knows_and_that_may_have_nothing_is_told_why() {
        let mut rig = with_tls();
        rig.send_option(option::STARTTLS, &[]);
        rig.take_wire();
        rig.session.handle_tls(Err("`eve` is not among those that may connect".into()));
        let got = answers(&mut rig, option::LIST, &[]);
        assert_eq!(got[0].0, option_reply::ERR_POLICY);
        assert!(text(&got[0]).contains("eve"));
        rig.send_option(option::GO, &go("", &[]));
        assert!(rig.session.export().is_none());
        rig.send_option(option::ABORT, &[]);
        assert_eq!(rig.session.close(), Some(Close::Client));
    }

    #[test]
    fn malformed_option_data_is_invalid_and_harmless() {
        let mut rig = Rig::new([export()]);
        rig.send(&3_u32.to_be_bytes());
        rig.send_option(option::STRUCTURED_REPLY, &[]);
        rig.take_wire();
        let lies = [&u32::MAX.to_be_bytes()[..], b"disk"].concat();
        let extra = [go("disk", &[]), b"!".to_vec()].concat();
        let not_utf8 = [&2_u32.to_be_bytes()[..], &[0xff, 0xfe, 0, 0]].concat();
        for data in [vec![], vec![0; 3], lies, extra, not_utf8] {
            for which in [option::GO, option::INFO, option::LIST_META_CONTEXT, option::SET_META_CONTEXT] {
                let got = answers(&mut rig, which, &data);
                assert_eq!(got.len(), 1);
                assert_eq!(got[0].0, option_reply::ERR_INVALID, "option {which} with {data:?}");
            }
        }
        assert!(rig.session.close().is_none() && rig.session.export().is_none());
    }

    #[test]
    fn too_long_option_data_is_skipped_within_a_bound() {
        let mut rig = Rig::new([export()]);
        rig.send(&3_u32.to_be_bytes());
        let got = answers(&mut rig, option::GO, &vec![0; 17 << 10]);
        assert_eq!(
            (got[0].0, text(&got[0])),
            (option_reply::ERR_TOO_BIG, "option data is longer than 16384 bytes".into())
        );
        assert_eq!(answers(&mut rig, option::LIST, &[]).len(), 2, "the next option is understood");
        rig.send(&[&b"IHAVEOPT"[..], &[0, 0, 0, 7, 0x7f, 0xff, 0xff, 0xff]].concat());
        assert_eq!(rig.session.close(), Some(Close::OptionLength(0x7fff_ffff)));
    }

    #[test]
    fn options_without_end_are_ended() {
        let mut rig = Rig::new([export()]);
        rig.send(&3_u32.to_be_bytes());
        let mut sent = 0;
        while rig.session.close().is_none() {
            rig.send_option(option::LIST, &[]);
            sent += 1;
            assert!(sent < 1000);
        }
        assert_eq!(rig.session.close(), Some(Close::TooManyOptions));
        assert!(sent > 64, "an honest client may list a lot");
    }

    #[test]
    fn a_client_that_does_not_read_its_replies_is_not_read_from() {
        let many =
            (0..200).map(|n| Export::new(n.to_string(), DeviceId(0), &limits()).with_description("d".repeat(4000)));
        let mut rig = Rig::new(many);
        rig.send(&3_u32.to_be_bytes());
        let list = option_bytes(option::LIST, &[]);
        assert_eq!(rig.session.handle_bytes(&list, &mut rig.pool), list.len());
        let batch = rig.session.poll_transmit().unwrap();
        assert_eq!(rig.session.handle_bytes(&list, &mut rig.pool), 0, "800 KiB are on their way");
        assert!(matches!(rig.session.poll_receive(), Receive::Nothing));
        rig.session.handle_sent(batch, &mut rig.pool);
        assert_eq!(rig.session.handle_bytes(&list, &mut rig.pool), list.len());
    }

    #[test]
    fn abort_is_acknowledged_and_ends_the_connection() {
        let mut rig = Rig::new([export()]);
        rig.send(&3_u32.to_be_bytes());
        assert_eq!(answers(&mut rig, option::ABORT, b"whatever"), [(option_reply::ACK, vec![])]);
        assert_eq!((rig.session.close(), rig.session.is_done()), (Some(Close::Client), true));
    }

    #[test]
    fn unknown_client_flags_and_wrong_magic_end_the_connection_at_once() {
        let mut rig = Rig::new([export()]);
        rig.send(&7_u32.to_be_bytes());
        assert_eq!(rig.session.close(), Some(Close::ClientFlags(7)));
        let mut rig = Rig::new([export()]);
        rig.send(&3_u32.to_be_bytes());
        rig.send(b"GET / HTTP/1.1\r\n");
        assert!(matches!(rig.session.close(), Some(close @ Close::OptionMagic(_)) if close.is_violation()));
        assert!(rig.session.is_done());
    }

    #[test]
    fn contexts_need_chunked_replies_and_count_only_for_the_export_they_were_selected_for() {
        let mut rig = Rig::new([export(), zoned_export()]);
        rig.send(&3_u32.to_be_bytes());
        let set = query("disk", &["qemu:dirty", "base:allocation"]);
        assert_eq!(answers(&mut rig, option::SET_META_CONTEXT, &set)[0].0, option_reply::ERR_INVALID);
        rig.send_option(option::STRUCTURED_REPLY, &[]);
        rig.take_wire();
        let context = |id: u8| (option_reply::META_CONTEXT, [&[0, 0, 0, id], &b"base:allocation"[..]].concat());
        let done = (option_reply::ACK, vec![]);
        assert_eq!(answers(&mut rig, option::LIST_META_CONTEXT, &query("disk", &[])), [context(0), done.clone()]);
        assert_eq!(
            answers(&mut rig, option::LIST_META_CONTEXT, &query("disk", &["base:"])),
            [context(0), done.clone()]
        );
        assert_eq!(
            answers(&mut rig, option::SET_META_CONTEXT, &query("disk", &["base:"])),
            std::slice::from_ref(&done)
        );
        assert_eq!(answers(&mut rig, option::SET_META_CONTEXT, &set), [context(1), done]);
        rig.send_option(option::GO, &go("zoned", &[]));
        rig.take_wire();
        rig.send(&simple(command::BLOCK_STATUS, 0, 5, 0, 4096));
        assert_eq!(rig.errors(Headers::Structured), [(5, error::EINVAL)]);
    }

    #[test]
    fn extended_headers_win_over_structured_replies() {
        let mut rig = Rig::new([export()]);
        rig.send(&3_u32.to_be_bytes());
        assert_eq!(answers(&mut rig, option::STRUCTURED_REPLY, &[])[0].0, option_reply::ACK);
        assert_eq!(answers(&mut rig, option::EXTENDED_HEADERS, &[])[0].0, option_reply::ACK);
        let got = answers(&mut rig, option::STRUCTURED_REPLY, &[]);
        assert_eq!(got[0].0, option_reply::ERR_EXT_HEADER_REQD);
    }
}

mod requests {
    use super::*;

    #[test]
    fn a_read_becomes_a_bio_and_its_memory_becomes_the_reply() {
        let mut rig = connected(Headers::Simple);
        rig.send(&simple(command::READ, 0, 42, 8192, 4096));
        let (tag, bio) = rig.bio();
        assert_eq!((bio.op, bio.sector, bio.sectors), (Op::Read, Sector(16), 8));
        let data = bio.payload.segments()[0].clone();
        data.fill(0xab);
        rig.complete((tag, bio), Status::Ok);
        let wire = rig.take_wire();
        assert_eq!(wire[..16], [&0x6744_6698_u32.to_be_bytes()[..], &[0; 4], &42_u64.to_be_bytes()].concat());
        assert_eq!(wire[16..], [0xab; 4096]);
        assert_eq!(rig.pool.used(), 0);
    }

    #[test]
    fn a_structured_read_is_one_data_chunk_that_is_also_the_last() {
        for headers in [Headers::Structured, Headers::Extended] {
            let mut rig = connected(headers);
            rig.send(&request(headers, command::READ, flag::DF, 42, 512, 1024));
            let bio = rig.bio();
            rig.complete(bio, Status::Ok);
            let wire = rig.take_wire();
            let expected = match headers {
                Headers::Extended => [
                    &0x6e8a_278c_u32.to_be_bytes()[..],
                    &[0, 1, 0, 1],
                    &42_u64.to_be_bytes(),
                    &512_u64.to_be_bytes(),
                    &1032_u64.to_be_bytes(),
                    &512_u64.to_be_bytes(),
                ]
                .concat(),
                _ => [
                    &0x668e_33ef_u32.to_be_bytes()[..],
                    &[0, 1, 0, 1],
                    &42_u64.to_be_bytes(),
                    &1032_u32.to_be_bytes(),
                    &512_u64.to_be_bytes(),
                ]
                .concat(),
            };
            assert_eq!(wire[..expected.len()], expected);
            assert_eq!(wire.len(), expected.len() + 1024);
        }
    }

    #[test]
    fn a_write_is_collected_from_any_number_of_pieces() {
        let payload: Vec<u8> = (0..1024_u32).map(|n| n as u8 ^ (n >> 8) as u8).collect();
        let message = [simple(command::WRITE, flag::FUA, 9, 512, 1024), payload.clone()].concat();
        for step in [1, 3, 27, 28, 29, 500, 2000] {
            let mut rig = connected(Headers::Simple);
            message.chunks(step).for_each(|piece| rig.send(piece));
            let (tag, bio) = rig.bio();
            assert_eq!((bio.op, bio.sector, bio.sectors), (Op::Write, Sector(1), 2));
            assert!(bio.flags.has(Flags::FUA));
            assert_eq!(bio.payload.segments()[0].to_vec(), payload, "in steps of {step}");
            rig.complete((tag, bio), Status::Ok);
            assert_eq!(rig.errors(Headers::Simple), [(9, 0)]);
        }
    }

    #[test]
    fn the_rest_of_a_long_payload_is_received_into_its_own_memory() {
        let mut rig = connected(Headers::Simple);
        rig.send(&[simple(command::WRITE, 0, 1, 0, 1 << 20), vec![7; 1000]].concat());
        let Receive::Payload { data, filled } = rig.session.poll_receive() else { panic!("no payload wanted") };
        assert_eq!((data.len(), filled), (1 << 20, 1000));
        assert!(matches!(rig.session.poll_receive(), Receive::Nothing), "one at a time");
        data.slice(1000 / 8 * 8, (1 << 20) - 1000).fill(7);
        rig.session.handle_payload(data, 1 << 20, &mut rig.pool);
        rig.drain();
        let (_, bio) = rig.bios.last().unwrap();
        assert!(bio.payload.segments()[0].to_vec().iter().all(|byte| *byte == 7));
        assert!(matches!(rig.session.poll_receive(), Receive::Bytes));
    }

    #[test]
    fn flush_trim_and_zeroes_become_their_bios() {
        let mut rig = connected(Headers::Simple);
        rig.send(&simple(command::FLUSH, 0, 1, 0, 0));
        let bio = rig.bio();
        assert_eq!((bio.1.op, bio.1.sectors), (Op::Flush, 0));
        rig.complete(bio, Status::Ok);
        rig.send(&simple(command::TRIM, 0, 2, 4096, 8192));
        let bio = rig.bio();
        assert_eq!((bio.1.op, bio.1.sector, bio.1.sectors), (Op::Discard, Sector(8), 16));
        rig.complete(bio, Status::Ok);
        rig.send(&simple(command::WRITE_ZEROES, flag::NO_HOLE | flag::FAST_ZERO, 3, 4096, 8192));
        let bio = rig.bio();
        assert_eq!((bio.1.op, bio.1.sector, bio.1.sectors), (Op::WriteZeroes, Sector(8), 16));
        assert!(bio.1.flags.has(Flags::FAST.with(Flags::NO_UNMAP)));
        rig.complete(bio, Status::NotSupported);
        assert_eq!(rig.errors(Headers::Simple), [(1, 0), (2, 0), (3, error::ENOTSUP)]);
    }

    #[test]
    fn what_cannot_carry_fua_is_followed_by_a_flush_before_the_reply() {
        for which in [command::TRIM, command::WRITE_ZEROES] {
            let mut rig = connected(Headers::Simple);
            rig.send(&simple(which, flag::FUA, 2, 0, 4096));
            let bio = rig.bio();
            rig.complete(bio, Status::Ok);
            let flush = rig.bio();
            assert_eq!(flush.1.op, Op::Flush);
            assert_eq!(rig.errors(Headers::Simple), [], "not durable yet");
            rig.complete(flush, Status::Io);
            assert_eq!(rig.errors(Headers::Simple), [(2, 5)]);
        }
    }

    #[test]
    fn a_request_as_long_as_the_disk_is_done_piece_by_piece() {
        let huge = Limits { max_write_zeroes: Some(64), ..Limits::new(8 << 30) };
        let export = Export::new("huge", DeviceId(0), &huge);
        let mut rig = Rig::connected(export, Headers::Extended, SessionLimits::default());
        let length = 10 << 20;
        rig.send(&request(Headers::Extended, command::WRITE_ZEROES, 0, 5, 4096, length));
        let mut at = Sector(8);
        while rig.errors(Headers::Extended).is_empty() {
            let bio = rig.bio();
            assert_eq!((bio.1.sector, bio.1.op), (at, Op::WriteZeroes));
            assert!(bio.1.sectors <= 64 * 64, "the stack may cut it into 64");
            at = bio.1.end();
            rig.complete(bio, Status::Ok);
        }
        assert_eq!(at, Sector(8 + (length >> 9)));
        assert!(rig.bios.is_empty());
    }

    #[test]
    fn a_failed_piece_ends_the_request() {
        let export = Export::new("d", DeviceId(0), &Limits { max_discard: Some(8), ..limits() });
        let mut rig = Rig::connected(export, Headers::Simple, SessionLimits::default());
        rig.send(&simple(command::TRIM, 0, 5, 0, 1 << 20));
        let bio = rig.bio();
        rig.complete(bio, Status::Medium);
        assert_eq!(rig.errors(Headers::Simple), [(5, 5)]);
        assert!(rig.bios.is_empty());
    }

    #[test]
    fn wrong_requests_get_the_error_that_the_protocol_names() {
        let cases = [
            (command::READ, 0, SIZE, 512, error::EINVAL, "read past the end"),
            (command::TRIM, 0, SIZE, 512, error::EINVAL, "trim past the end"),
            (command::WRITE_ZEROES, 0, SIZE - 512, 1024, error::ENOSPC, "zeroes past the end"),
            (command::READ, 0, u64::MAX - 511, 512, error::EINVAL, "offset that wraps"),
            (command::READ, 0, 1, 512, error::EINVAL, "unaligned offset"),
            (command::READ, 0, 0, 100, error::EINVAL, "unaligned length"),
            (command::READ, 0, 0, 33 << 20, error::EINVAL, "longer than the maximum"),
            (command::READ, flag::DF, 0, 33 << 20, error::EOVERFLOW, "unfragmented and too long"),
            (command::READ, flag::NO_HOLE, 0, 512, error::EINVAL, "flag of another command"),
            (command::READ, 1 << 15, 0, 512, error::EINVAL, "flag that does not exist"),
            (command::FLUSH, 0, 512, 0, error::EINVAL, "flush with an offset"),
            (command::BLOCK_STATUS, 0, 0, 0, error::EINVAL, "status of nothing"),
            (5, 0, 0, 512, error::EINVAL, "CACHE is not offered"),
            (8, 0, 0, 512, error::EINVAL, "RESIZE does not exist"),
            (0xffff, 0, 0, 512, error::EINVAL, "unknown command"),
        ];
        for headers in [Headers::Structured, Headers::Extended] {
            for (which, flags, offset, length, expected, what) in cases {
                let mut rig = connected(headers);
                rig.send(&request(headers, which, flags, 77, offset, length));
                assert_eq!(rig.errors(headers), [(77, expected)], "{what}");
                assert!(rig.bios.is_empty() && rig.session.close().is_none(), "{what}");
            }
        }
    }

    #[test]
    fn a_structured_error_says_in_words_what_is_wrong() {
        let mut rig = connected(Headers::Structured);
        rig.send(&simple(command::READ, 0, 1, SIZE, 512));
        let wire = rig.take_wire();
        assert_eq!(&wire[26..], b"the request reaches beyond the end of the export");
        assert_eq!(wire[6..8], [0x80, 1], "an error chunk");
        assert_eq!(u16::from_be_bytes([wire[24], wire[25]]) as usize, wire.len() - 26);
    }

    #[test]
    fn the_payload_of_a_refused_write_is_read_over() {
        let read_only = Rig::connected(export().with_read_only(true), Headers::Simple, SessionLimits::default());
        let too_long = connected(Headers::Simple);
        let past_end = connected(Headers::Simple);
        let cases = [
            (read_only, 0, 4096, error::EPERM),
            (too_long, 0, 33 << 20, error::EINVAL),
            (past_end, SIZE, 4096, error::ENOSPC),
        ];
        for (mut rig, offset, length, expected) in cases {
            rig.send(&simple(command::WRITE, 0, 1, offset, length));
            assert_eq!(rig.errors(Headers::Simple), [], "the payload comes first");
            rig.send(&vec![0; length as usize]);
            rig.send(&simple(command::READ, 0, 2, 0, 512));
            assert_eq!(rig.errors(Headers::Simple), [(1, expected)]);
            let bio = rig.bio();
            rig.complete(bio, Status::Ok);
            assert!(rig.session.close().is_none());
        }
    }

    #[test]
    fn an_absurd_payload_ends_the_connection() {
        let mut rig = connected(Headers::Simple);
        rig.send(&simple(command::WRITE, 0, 1, 0, 0xffff_fe00));
        assert_eq!(rig.session.close(), Some(Close::Payload(0xffff_fe00)));
        assert!(rig.session.is_done());
    }

    #[test]
    fn an_unexpected_payload_of_an_extended_request_is_read_over() {
        let mut rig = connected(Headers::Extended);
        rig.send(&request(Headers::Extended, command::READ, flag::PAYLOAD_LEN, 1, 0, 512));
        rig.send(&[0; 512]);
        rig.send(&request(Headers::Extended, command::FLUSH, 0, 2, 0, 0));
        let bio = rig.bio();
        rig.complete(bio, Status::Ok);
        assert_eq!(rig.errors(Headers::Extended), [(1, error::EINVAL), (2, 0)]);
    }

    #[test]
    fn requests_of_no_length_succeed_without_a_bio() {
        for headers in [Headers::Simple, Headers::Structured, Headers::Extended] {
            let mut rig = connected(headers);
            for which in [command::READ, command::WRITE, command::TRIM, command::WRITE_ZEROES] {
                rig.send(&request(headers, which, 0, which.into(), 4096, 0));
            }
            assert_eq!(rig.errors(headers), [(0, 0), (1, 0), (4, 0), (6, 0)]);
            assert!(rig.bios.is_empty());
        }
    }

    #[test]
    fn a_failure_of_the_stack_becomes_the_error_of_the_status_table() {
        for status in [Status::Io, Status::NoSpace, Status::ReadOnly, Status::NotSupported, Status::Offline] {
            let mut rig = connected(Headers::Structured);
            rig.send(&simple(command::READ, 0, 3, 0, 512));
            let bio = rig.bio();
            rig.complete(bio, status);
            let expected = if status == Status::NotSupported { error::EINVAL } else { status.nbd() };
            assert_eq!(rig.errors(Headers::Structured), [(3, expected)]);
            assert_eq!(rig.pool.used(), 0);
        }
    }

    #[test]
    fn a_structured_error_tells_why_within_bounds_and_a_simple_one_keeps_to_its_number() {
        let told = |headers, why: &str| {
            let mut rig = connected(headers);
            rig.send(&simple(command::WRITE, 0, 3, 0, 512));
            rig.send(&[0; 512]);
            let (tag, bio) = rig.bio();
            rig.session.handle_completion(tag, bio, (Status::Io, why), &mut rig.pool);
            rig.drain();
            let wire = rig.take_wire();
            let front = if headers == Headers::Simple { 16 } else { 20 + 6 };
            String::from_utf8(wire[front..].to_vec()).unwrap()
        };
        let why = "smr: WRITE 0+1: zone 0 is full, pointer at 64";
        assert_eq!(told(Headers::Structured, why), why);
        assert_eq!(told(Headers::Structured, ""), Status::Io.name());
        assert_eq!(told(Headers::Simple, why), "");
        assert_eq!(told(Headers::Structured, &"a".repeat(9000)), "a".repeat(512));
        assert_eq!(told(Headers::Structured, &"ä".repeat(9000)).len(), 512);
        assert_eq!(told(Headers::Structured, &format!("a{}", "ä".repeat(9000))).len(), 511, "no half of a character");
    }

    #[test]
    fn replies_go_out_in_the_order_of_completions() {
        let mut rig = connected(Headers::Simple);
        (0..4).for_each(|n| rig.send(&simple(command::READ, 0, n, n * 512, 512)));
        for n in [2, 0, 1, 0] {
            let bio = rig.bios.remove(n);
            rig.complete(bio, Status::Io);
        }
        let order: Vec<u64> = rig.errors(Headers::Simple).iter().map(|r| r.0).collect();
        assert_eq!(order, [2, 0, 3, 1]);
    }

    #[test]
    fn a_wrong_magic_number_ends_the_connection_after_what_was_accepted() {
        let mut rig = connected(Headers::Simple);
        rig.send(&simple(command::READ, 0, 1, 0, 512));
        rig.send(&[0xee; 28]);
        assert_eq!(rig.session.close(), Some(Close::RequestMagic(0xeeee_eeee)));
        assert!(!rig.session.is_done(), "a bio is in the stack");
        let bio = rig.bio();
        rig.complete(bio, Status::Ok);
        assert_eq!(rig.take_wire().len(), 16 + 512);
        assert!(rig.session.is_done());
    }

    #[test]
    fn disconnecting_answers_what_is_in_flight_and_nothing_more() {
        let mut rig = connected(Headers::Simple);
        rig.send(&[simple(command::READ, 0, 1, 0, 512), simple(command::DISC, 0, 2, 0, 0)].concat());
        rig.send(&simple(command::READ, 0, 3, 0, 512));
        let bio = rig.bio();
        rig.complete(bio, Status::Io);
        assert_eq!(rig.errors(Headers::Simple), [(1, 5)]);
        assert_eq!((rig.session.close(), rig.session.is_done()), (Some(Close::Client), true));
    }

    #[test]
    fn a_shutdown_serves_what_is_complete_and_forgets_a_half_received_write() {
        let mut rig = connected(Headers::Simple);
        rig.send(&simple(command::FLUSH, 0, 1, 0, 0));
        rig.send(&[simple(command::WRITE, 0, 2, 0, 4096), vec![0; 100]].concat());
        rig.session.handle_close(Close::Shutdown, &mut rig.pool);
        assert_eq!(rig.pool.used(), 0);
        let bio = rig.bio();
        rig.complete(bio, Status::Ok);
        assert_eq!(rig.errors(Headers::Simple), [(1, 0)]);
        assert!(rig.session.is_done());
    }

    #[test]
    fn a_client_that_vanishes_leaves_nothing_behind_once_its_bios_are_back() {
        let mut rig = connected(Headers::Simple);
        (0..3).for_each(|n| rig.send(&simple(command::READ, 0, n, 0, 4096)));
        rig.send(&simple(command::WRITE, 0, 9, 0, 1 << 20));
        let Receive::Payload { data, filled } = rig.session.poll_receive() else { panic!("no payload wanted") };
        let (first, second) = (rig.bios.remove(0), rig.bios.remove(0));
        rig.session.handle_completion(first.0, first.1, (Status::Ok, ""), &mut rig.pool);
        let batch = rig.session.poll_transmit().unwrap();
        rig.session.handle_completion(second.0, second.1, (Status::Ok, ""), &mut rig.pool);
        rig.session.handle_disconnect(&mut rig.pool);
        rig.session.handle_payload(data, filled + 8, &mut rig.pool);
        assert!(!rig.session.is_done(), "a batch and a bio are out");
        rig.session.handle_sent(batch, &mut rig.pool);
        let last = rig.bio();
        rig.complete(last, Status::Ok);
        assert_eq!((rig.session.close(), rig.session.is_done(), rig.pool.used()), (Some(Close::Gone), true, 0));
        assert_eq!(rig.take_wire(), b"");
    }
}

mod bounds {
    use super::*;

    #[test]
    fn no_more_requests_are_read_than_may_be_in_flight_until_one_is_answered() {
        let limits = SessionLimits { requests: 4, ..SessionLimits::default() };
        let mut rig = Rig::connected(export(), Headers::Simple, limits);
        (0..10).for_each(|n| rig.send(&simple(command::READ, 0, n, 0, 512)));
        assert_eq!((rig.bios.len(), rig.rest.len()), (4, 6 * 28));
        let bio = rig.bios.remove(0);
        rig.session.handle_completion(bio.0, bio.1, (Status::Ok, ""), &mut rig.pool);
        let batch = rig.session.poll_transmit().unwrap();
        assert_eq!(rig.session.handle_bytes(&rig.rest, &mut rig.pool), 0, "it is answered when the answer is sent");
        rig.session.handle_sent(batch, &mut rig.pool);
        rig.drain();
        assert_eq!((rig.bios.len(), rig.rest.len()), (4, 5 * 28));
    }

    #[test]
    fn refusals_that_nobody_reads_are_bounded_too() {
        let limits = SessionLimits { requests: 4, ..SessionLimits::default() };
        let mut rig = Rig::connected(export(), Headers::Structured, limits);
        let bad: Vec<u8> = (0..100).flat_map(|n| simple(99, 0, n, 0, 512)).collect();
        assert_eq!(rig.session.handle_bytes(&bad, &mut rig.pool), 4 * 28);
        assert!(matches!(rig.session.poll_receive(), Receive::Nothing));
    }

    #[test]
    fn bytes_in_flight_are_bounded_but_one_request_always_fits() {
        let limits = SessionLimits { bytes: 1 << 20, ..SessionLimits::default() };
        let mut rig = Rig::connected(export(), Headers::Simple, limits);
        rig.send(&simple(command::READ, 0, 0, 0, 4 << 20));
        rig.send(&simple(command::READ, 0, 1, 0, 512));
        assert_eq!(rig.bios.len(), 1, "the first is let in alone");
        assert!(matches!(rig.session.poll_receive(), Receive::Nothing));
        let bio = rig.bio();
        rig.complete(bio, Status::Ok);
        assert_eq!(rig.bios.len(), 1, "the second follows when the first is answered");
    }

    #[test]
    fn a_session_that_waits_for_the_pool_goes_on_when_another_gives_back() {
        let mut rig = connected(Headers::Simple);
        rig.pool = Pool::new(1 << 20, 1 << 20);
        rig.send(&simple(command::READ, 0, 0, 0, 1 << 20));
        let mut other = connected(Headers::Simple);
        core::mem::swap(&mut rig.pool, &mut other.pool);
        other.send(&simple(command::WRITE, 0, 1, 0, 512 << 10));
        assert!(other.session.waits_for_memory());
        assert!(matches!(other.session.poll_receive(), Receive::Nothing));
        core::mem::swap(&mut rig.pool, &mut other.pool);
        let bio = rig.bio();
        rig.complete(bio, Status::Ok);
        core::mem::swap(&mut rig.pool, &mut other.pool);
        other.session.handle_memory(&mut other.pool);
        assert!(!other.session.waits_for_memory());
        assert!(matches!(other.session.poll_receive(), Receive::Payload { filled: 0, .. }));
    }

    #[test]
    fn a_request_for_which_there_is_no_memory_is_refused_and_the_next_one_is_served() {
        let mut rig = connected(Headers::Simple);
        rig.pool = Pool::new(1 << 20, 1 << 20);
        rig.send(&simple(command::READ, 0, 1, 0, 2 << 20));
        rig.send(&[simple(command::WRITE, 0, 2, 0, 2 << 20), vec![7; 2 << 20]].concat());
        rig.send(&simple(command::READ, 0, 3, 0, 4096));
        assert_eq!(rig.errors(Headers::Simple), [(1, error::ENOMEM), (2, error::ENOMEM)]);
        let bio = rig.bio();
        rig.complete(bio, Status::Ok);
        assert_eq!(rig.pool.used(), 0);
    }

    #[test]
    fn a_read_that_no_device_fills_shows_nothing_of_another_client() {
        let mut rig = connected(Headers::Simple);
        rig.send(&[simple(command::WRITE, 0, 1, 0, 4096), vec![b'!'; 4096]].concat());
        let bio = rig.bio();
        rig.complete(bio, Status::Ok);
        let read_back = |rig: &mut Rig, byte| {
            rig.send(&simple(command::READ, 0, 2, 0, 4096));
            let (tag, bio) = rig.bio();
            assert!(bio.payload.segments()[0].to_vec().iter().all(|found| *found == byte));
            rig.complete((tag, bio), Status::Ok);
        };
        read_back(&mut rig, b'!');
        let exports = Arc::new(Exports::new([export()]).unwrap());
        rig.session = Session::new(exports, SessionLimits::default());
        rig.send(&3_u32.to_be_bytes());
        rig.send_option(option::GO, &go("", &[]));
        read_back(&mut rig, 0);
    }

    #[test]
    fn a_session_can_move_to_another_thread() {
        fn is_send<T: Send>() {}
        is_send::<Session>();
    }

    #[test]
    fn bytes_behind_the_choice_of_an_export_wait_until_the_connection_is_in_its_place() {
        let mut rig = Rig::new([export()]);
        let early =
            [3_u32.to_be_bytes().to_vec(), option_bytes(option::GO, &go("", &[])), simple(command::FLUSH, 0, 1, 0, 0)]
                .concat();
        let taken = rig.session.handle_bytes(&early, &mut rig.pool);
        assert_eq!(taken, early.len() - 28);
        assert!(rig.session.export().is_some() && rig.session.poll_bio().is_none());
        assert_eq!(rig.session.handle_bytes(&early[taken..], &mut rig.pool), 28);
        assert!(rig.session.poll_bio().is_some_and(|(_, bio)| bio.op == Op::Flush));
    }

    #[test]
    fn every_reason_to_close_says_who_did_what() {
        let reasons = [
            (Close::RequestMagic(0x1234), "the client sent 0x00001234 where a request should begin"),
            (Close::OptionLength(5), "the client sent an option with 5 bytes of data"),
            (Close::Timeout, "the client kept the server waiting for too long"),
        ];
        for (reason, message) in reasons {
            assert_eq!(reason.to_string(), message);
        }
    }
}

mod blocks {
    use super::*;

    fn coarse() -> Export {
        Export::new("disk", DeviceId(3), &Limits { logical_block_bytes: 4096, ..limits() })
    }

    #[test]
    fn a_client_that_sends_parts_of_blocks_is_told_what_to_do_and_the_log_once() {
        let mut rig = Rig::connected(coarse(), Headers::Structured, SessionLimits::default());
        let remedy = "`nbdkit --filter=blocksize nbd uri=URI minblock=4096`";
        let said = |wire: &[u8]| String::from_utf8_lossy(&wire[26..]).into_owned();
        rig.send(&[simple(command::WRITE, 0, 1, 4096, 512), vec![b'!'; 512]].concat());
        let message = said(&rig.take_wire());
        assert!(message.starts_with("512 bytes at 4096 are no whole blocks of 4096: ") && message.ends_with(remedy));
        assert_eq!(rig.session.poll_complaint(), Some(message));
        for (command, offset, length) in
            [(command::READ, 1, 4096), (command::TRIM, 0, 1), (command::WRITE_ZEROES, 512, 8192)]
        {
            rig.send(&simple(command, 0, 2, offset, length));
            assert!(said(&rig.take_wire()).starts_with(&format!("{length} bytes at {offset} are no whole")));
            assert_eq!(rig.session.poll_complaint(), None, "one line for each connection is enough");
        }
        assert!(rig.bios.is_empty());
        rig.send(&simple(command::READ, 0, 3, 4096, 4096));
        assert_eq!(rig.bio().1.op, Op::Read, "the connection lives on");
    }
}

mod allocation {
    use super::*;

    fn zones() -> Vec<Zone> {
        let zone = |n: u64, kind, cond, written| {
            let start = Sector(n * 2048);
            Zone { start, len: 2048, capacity: 2048, wp: start + written, kind, cond }
        };
        vec![
            zone(0, ZoneKind::Conventional, Condition::NotWp, 0),
            zone(1, ZoneKind::Sequential, Condition::Closed, 8),
            zone(2, ZoneKind::Sequential, Condition::Empty, 0),
        ]
    }

    fn status(headers: Headers, flags: u16, offset: u64, length: u64) -> Vec<u8> {
        let mut rig = Rig::connected(zoned_export(), headers, SessionLimits::default());
        rig.send(&request(headers, command::BLOCK_STATUS, flags, 1, offset, length));
        let (tag, mut bio) = rig.bio();
        assert_eq!((bio.op, bio.sector), (Op::ReportZones, Sector(offset / 512)));
        let Payload::Zones(list) = &mut bio.payload else { panic!("a report without room for zones") };
        assert!(list.capacity() >= 16);
        list.extend(zones().iter().filter(|zone| (zone.start + zone.len).bytes() > offset));
        rig.complete((tag, bio), Status::Ok);
        assert!(rig.bios.is_empty());
        rig.take_wire()
    }

    #[test]
    fn a_zoned_disk_reports_holes_behind_its_write_pointers() {
        let wire = status(Headers::Structured, 0, 0, 3 << 20);
        assert_eq!(wire[6..8], [0, 5]);
        let expected = [1, (1 << 20) + 4096, 0, (2 << 20) - 4096, 3_u32].map(u32::to_be_bytes).concat();
        assert_eq!(wire[20..], expected);
    }

    #[test]
    fn one_extent_is_sent_if_one_is_asked_for() {
        let wire = status(Headers::Structured, flag::REQ_ONE, 1 << 20, 2 << 20);
        assert_eq!(wire[20..], [1, 4096, 0_u32].map(u32::to_be_bytes).concat());
    }

    #[test]
    fn extended_headers_get_wide_extents() {
        let wire = status(Headers::Extended, 0, 2 << 20, SIZE - (2 << 20));
        assert_eq!(wire[6..8], [0, 6]);
        let head = [1, 1_u32].map(u32::to_be_bytes).concat();
        let extent = [1 << 20, 3_u64].map(u64::to_be_bytes).concat();
        assert_eq!(wire[32..], [head, extent].concat(), "what the report leaves out the client asks for again");
    }

    #[test]
    fn a_device_of_which_nothing_is_known_is_allocated_everywhere() {
        let mut rig = connected(Headers::Structured);
        rig.send(&simple(command::BLOCK_STATUS, 0, 1, 512, 1 << 20));
        assert_eq!(rig.take_wire()[20..], [1, 1 << 20, 0_u32].map(u32::to_be_bytes).concat());
    }

    #[test]
    fn a_device_without_zones_reports_the_holes_that_the_stack_knows() {
        let mut rig = connected(Headers::Structured);
        let extent = |sectors, is_hole| Extent { sectors, is_hole };
        rig.known = vec![extent(8, true), extent(16, false), extent(1000, true)];
        rig.send(&simple(command::BLOCK_STATUS, 0, 1, 512 * 100, 512 * 64));
        assert_eq!(rig.asked, [(100, 164)]);
        let expected = [1, 8 * 512, 3, 16 * 512, 0, 40 * 512, 3_u32].map(u32::to_be_bytes).concat();
        assert_eq!(rig.take_wire()[20..], expected, "no extent reaches beyond what was asked for");
    }

    #[test]
    fn a_question_whose_client_is_gone_comes_back_and_lets_the_session_end() {
        let mut rig = connected(Headers::Structured);
        rig.session.handle_bytes(&simple(command::BLOCK_STATUS, 0, 1, 0, 4096), &mut rig.pool);
        let (tag, _, extents) = rig.session.poll_question().unwrap();
        rig.session.handle_disconnect(&mut rig.pool);
        assert!(!rig.session.is_done());
        rig.session.handle_extents(tag, extents, &mut rig.pool);
        assert!(rig.session.is_done() && rig.session.poll_transmit().is_none());
    }

    #[test]
    fn a_failed_report_is_an_error_and_an_empty_one_is_no_hole() {
        let mut rig = Rig::connected(zoned_export(), Headers::Structured, SessionLimits::default());
        rig.send(&simple(command::BLOCK_STATUS, 0, 1, 0, 1 << 20));
        let bio = rig.bio();
        rig.complete(bio, Status::Offline);
        assert_eq!(rig.errors(Headers::Structured), [(1, 5)]);
        rig.send(&simple(command::BLOCK_STATUS, 0, 2, 0, 1 << 20));
        let bio = rig.bio();
        rig.complete(bio, Status::Ok);
        assert_eq!(rig.take_wire()[20..], [1, 1 << 20, 0_u32].map(u32::to_be_bytes).concat());
    }
}
