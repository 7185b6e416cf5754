//! From the first byte to the choice of an export ("Fixed newstyle negotiation").

use super::export::{Export, Exports};
use super::guards::Guards;
use super::session::Close;
use super::transmit::Outbox;
use super::wire::{self, Fields, Headers, OptionHeader, handshake_flag, info, option, option_reply as reply};
use crate::prelude::*;

/// Longest option data that is looked at. The longest that makes sense is a name and a list of a few numbers.
const DATA_MAX: usize = 16 << 10;
/// Longest option data that is skipped, with an error, rather than taken for an attack.
const SKIP_MAX: u32 = 1 << 20;
/// Most options of one connection, and more for each export: clients that list may ask for details of every one.
const OPTIONS_MAX: usize = 64;
const OPTIONS_PER_EXPORT: usize = 8;
/// No option is read while more than this waits to be sent.
const UNSENT_MAX: usize = 64 << 10;
/// The number of the one metadata context.
pub(super) const ALLOCATION_ID: u32 = 1;

/// What was agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Agreed {
    pub export: usize,
    pub headers: Headers,
    /// Whether the client may ask for `base:allocation`.
    pub allocation: bool,
}

/// How far a connection is on its way to TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Tls {
    /// It does not go there.
    #[default]
    Never,
    /// Nothing else is talked about before.
    Required,
    /// The client was told to begin.
    Begins,
    /// It is there.
    On,
    /// It is there, and its client may have nothing, for this reason.
    Refused(String),
}

/// How a handshake ends.
pub(super) enum Outcome {
    Agreed(Agreed),
    Close(Close),
}

#[derive(Debug, Default)]
enum Stage {
    #[default]
    ClientFlags,
    Header,
    Data(OptionHeader),
    /// Option data that nobody wants: so many bytes are left of it.
    Skip(OptionHeader, u32),
    /// This option, with this data, chose the export at this place, and waits for the driver to admit the client.
    Applied {
        option: u32,
        data: Vec<u8>,
        place: usize,
    },
}

/// A handshake in progress.
#[derive(Debug, Default)]
pub(super) struct Handshake {
    stage: Stage,
    /// The part of the current message that is there.
    partial: Vec<u8>,
    options: usize,
    zeroes: bool,
    headers: Headers,
    /// The export for which `base:allocation` was selected.
    allocation: Option<usize>,
    pub tls: Tls,
    pub guards: Guards,
}

impl Handshake {
    /// Greets.
    pub fn new(out: &mut Outbox) -> Self {
        out.handshake(wire::put_greeting);
        Self { zeroes: true, ..Self::default() }
    }

    /// Takes bytes off the front until the handshake is over, TLS begins, the bytes are used up or too much waits to be sent.
    pub fn handle_bytes(&mut self, bytes: &mut &[u8], exports: &Exports, out: &mut Outbox) -> Option<Outcome> {
        let goes_on = self.guards.gone().before_tls_taken;
        while out.handshake_bytes() <= UNSENT_MAX
            && (self.tls != Tls::Begins || goes_on)
            && !matches!(self.stage, Stage::Applied { .. })
        {
            if let Stage::Skip(header, left) = &mut self.stage {
                let skipped = bytes.len().min(*left as usize);
                *bytes = &bytes[skipped..];
                *left -= skipped as u32;
                if *left > 0 {
                    return None;
                }
                let option = header.option;
                refuse(out, option, reply::ERR_TOO_BIG, &format!("option data is longer than {DATA_MAX} bytes"));
                self.stage = Stage::Header;
            }
            let message = self.message(bytes)?;
            let outcome = self.handle_message(&message, exports, out);
            self.partial = message;
            self.partial.clear();
            if outcome.is_some() {
                return outcome;
            }
        }
        None
    }

    /// Place of the export for which the client waits to be admitted.
    pub fn applied(&self) -> Option<usize> {
        match self.stage {
            Stage::Applied { place, .. } => Some(place),
            _ => None,
        }
    }

    /// The driver has admitted the client, or tells why not.
    pub fn handle_admission(
        &mut self,
        admitted: Result<(), String>,
        exports: &Exports,
        out: &mut Outbox,
    ) -> Option<Outcome> {
        self.applied()?;
        let Stage::Applied { option, data, .. } = core::mem::replace(&mut self.stage, Stage::Header) else {
            return None;
        };
        match (admitted, option) {
            (Ok(()), option::EXPORT_NAME) => Some(self.export_name(&data, exports, out)),
            (Ok(()), _) => self.go(option, &data, exports, out),
            // The protocol has no error reply to this option.
            (Err(_), option::EXPORT_NAME) => Some(Outcome::Close(Close::NotAdmitted)),
            (Err(why), _) => {
                refuse(out, option, reply::ERR_POLICY, &why);
                None
            }
        }
    }

    /// Whether it stopped because too much waits to be sent.
    pub fn is_full(&self, out: &Outbox) -> bool {
        out.handshake_bytes() > UNSENT_MAX
    }

    /// The current message if all of it is there.
    fn message(&mut self, bytes: &mut &[u8]) -> Option<Vec<u8>> {
        let whole = match self.stage {
            Stage::ClientFlags => wire::CLIENT_FLAGS_BYTES,
            Stage::Header | Stage::Skip(..) => wire::OPTION_BYTES,
            Stage::Data(header) => header.length as usize,
            Stage::Applied { .. } => return None,
        };
        let (front, rest) = bytes.split_at(bytes.len().min(whole - self.partial.len()));
        self.partial.extend_from_slice(front);
        *bytes = rest;
        (self.partial.len() == whole).then(|| core::mem::take(&mut self.partial))
    }

    fn handle_message(&mut self, message: &[u8], exports: &Exports, out: &mut Outbox) -> Option<Outcome> {
        match self.stage {
            Stage::ClientFlags => self.handle_client_flags(message),
            Stage::Header | Stage::Skip(..) => self.handle_header(message, exports),
            Stage::Data(header) => {
                self.stage = Stage::Header;
                self.handle_option(header.option, message, exports, out)
            }
            Stage::Applied { .. } => None,
        }
    }

    fn handle_client_flags(&mut self, message: &[u8]) -> Option<Outcome> {
        self.stage = Stage::Header;
        let known = u32::from(handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES);
        let flags = Fields(message).u32().unwrap_or(u32::MAX);
        self.zeroes = flags & u32::from(handshake_flag::NO_ZEROES) == 0;
        // "The server MUST drop the TCP connection if the client sets an unknown flag."
        (flags & !known != 0).then_some(Outcome::Close(Close::ClientFlags(flags)))
    }

    fn handle_header(&mut self, message: &[u8], exports: &Exports) -> Option<Outcome> {
        let header = match OptionHeader::parse(message) {
            Ok(header) => header,
            Err(magic) => return Some(Outcome::Close(Close::OptionMagic(magic))),
        };
        self.options += 1;
        if self.options > OPTIONS_MAX + OPTIONS_PER_EXPORT * exports.list().len() {
            return Some(Outcome::Close(Close::TooManyOptions));
        }
        self.stage = match header.length {
            length if length as usize <= DATA_MAX => Stage::Data(header),
            // There is no reply to this option by which a client could learn that its name is too long.
            length if length <= SKIP_MAX && header.option != option::EXPORT_NAME => Stage::Skip(header, length),
            length => return Some(Outcome::Close(Close::OptionLength(length))),
        };
        None
    }

    fn handle_option(&mut self, which: u32, data: &[u8], exports: &Exports, out: &mut Outbox) -> Option<Outcome> {
        let (error, message) = match &self.tls {
            Tls::Required if which == option::STARTTLS => return self.start_tls(data, out),
            Tls::Required if self.guards.gone().tls_not_required => {
                return self.handle_free_option(which, data, exports, out);
            }
            Tls::Required => (reply::ERR_TLS_REQD, "this server talks TLS only: connect with TLS, as in nbds://"),
            Tls::Refused(why) => (reply::ERR_POLICY, why.as_str()),
            Tls::Never | Tls::Begins | Tls::On => return self.handle_free_option(which, data, exports, out),
        };
        match which {
            // The protocol has no error reply to this option.
            option::EXPORT_NAME => return Some(Outcome::Close(Close::NotAllowed)),
            option::ABORT => return self.handle_free_option(which, data, exports, out),
            _ => refuse(out, which, error, message),
        }
        None
    }

    /// "NBD_OPT_STARTTLS".
    fn start_tls(&mut self, data: &[u8], out: &mut Outbox) -> Option<Outcome> {
        if data.is_empty() {
            acknowledge(out, option::STARTTLS);
            self.tls = Tls::Begins;
        } else {
            refuse(out, option::STARTTLS, reply::ERR_INVALID, "this option has no data");
        }
        None
    }

    /// An option of a client that may say what it likes.
    fn handle_free_option(&mut self, which: u32, data: &[u8], exports: &Exports, out: &mut Outbox) -> Option<Outcome> {
        if let Some(place) = chosen(which, data, exports).filter(|place| exports.list()[*place].by_admission) {
            self.stage = Stage::Applied { option: which, data: data.to_vec(), place };
            return None;
        }
        match which {
            option::EXPORT_NAME => return Some(self.export_name(data, exports, out)),
            option::GO => return self.go(which, data, exports, out),
            option::ABORT => {
                acknowledge(out, which);
                return Some(Outcome::Close(Close::Client));
            }
            option::INFO => {
                self.info(which, data, exports, out);
            }
            option::LIST_META_CONTEXT => {
                self.meta_context(which, data, exports, out);
            }
            option::SET_META_CONTEXT => self.allocation = self.meta_context(which, data, exports, out),
            _ => self.handle_plain_option(which, data, exports, out),
        }
        None
    }

    /// Options without data.
    fn handle_plain_option(&mut self, which: u32, data: &[u8], exports: &Exports, out: &mut Outbox) {
        let known =
            [option::LIST, option::STARTTLS, option::STRUCTURED_REPLY, option::EXTENDED_HEADERS].contains(&which);
        if known && !data.is_empty() {
            return refuse(out, which, reply::ERR_INVALID, "this option has no data");
        }
        match which {
            option::LIST => list(out, exports),
            option::STARTTLS if self.tls == Tls::On => refuse(out, which, reply::ERR_INVALID, "TLS is there already"),
            option::STARTTLS => {
                let message = "this server does not do TLS: use a unix socket, or a tunnel that encrypts";
                refuse(out, which, reply::ERR_UNSUP, message);
            }
            option::STRUCTURED_REPLY if self.headers == Headers::Extended => {
                refuse(out, which, reply::ERR_EXT_HEADER_REQD, "extended headers are in use already");
            }
            option::STRUCTURED_REPLY => {
                self.headers = Headers::Structured;
                acknowledge(out, which);
            }
            option::EXTENDED_HEADERS => {
                self.headers = Headers::Extended;
                acknowledge(out, which);
            }
            _ => refuse(out, which, reply::ERR_UNSUP, &format!("this server does not know option {which}")),
        }
    }

    /// "NBD_OPT_EXPORT_NAME": no reply header, and no way to say what is wrong.
    fn export_name(&mut self, data: &[u8], exports: &Exports, out: &mut Outbox) -> Outcome {
        let name = core::str::from_utf8(data).unwrap_or("\0");
        let Some(place) = exports.find(name) else {
            return Outcome::Close(Close::UnknownExport);
        };
        let export = &exports.list()[place];
        out.handshake(|bytes| {
            bytes.extend_from_slice(&export.size.to_be_bytes());
            bytes.extend_from_slice(&export.flags(self.headers > Headers::Simple).to_be_bytes());
            let zeroes = if self.zeroes { wire::EXPORT_NAME_ZEROES } else { 0 };
            bytes.resize(bytes.len() + zeroes, 0);
        });
        Outcome::Agreed(self.agreed(place))
    }

    fn go(&mut self, which: u32, data: &[u8], exports: &Exports, out: &mut Outbox) -> Option<Outcome> {
        let place = self.info(which, data, exports, out)?;
        Some(Outcome::Agreed(self.agreed(place)))
    }

    /// Metadata contexts count only if they were selected for the export that was then chosen.
    fn agreed(&self, place: usize) -> Agreed {
        Agreed { export: place, headers: self.headers, allocation: self.allocation == Some(place) }
    }

    /// "NBD_OPT_INFO and NBD_OPT_GO". The place of the export if the reply is a success.
    fn info(&self, which: u32, data: &[u8], exports: &Exports, out: &mut Outbox) -> Option<usize> {
        let Some((name, wanted)) = parse_info(data) else {
            refuse(out, which, reply::ERR_INVALID, "option data does not hold a name and a list of requests");
            return None;
        };
        let place = find(name, which, exports, out)?;
        let export = &exports.list()[place];
        let mut put = |kind: u16, parts: [&[u8]; 3]| {
            let [a, b, c] = parts;
            out.handshake(|bytes| wire::put_option_reply(bytes, which, reply::INFO, &[&kind.to_be_bytes(), a, b, c]));
        };
        let flags = export.flags(self.headers > Headers::Simple);
        put(info::EXPORT, [&export.size.to_be_bytes(), &flags.to_be_bytes(), &[]]);
        if asks_for(wanted, info::NAME) {
            put(info::NAME, [export.name.as_bytes(), &[], &[]]);
        }
        if asks_for(wanted, info::DESCRIPTION) && !export.description.is_empty() {
            put(info::DESCRIPTION, [export.description.as_bytes(), &[], &[]]);
        }
        let sizes = [export.minimum, export.preferred, export.payload_max].map(u32::to_be_bytes);
        put(info::BLOCK_SIZE, [&sizes[0], &sizes[1], &sizes[2]]);
        acknowledge(out, which);
        Some(place)
    }

    /// "NBD_OPT_LIST_META_CONTEXT" and "NBD_OPT_SET_META_CONTEXT". The place of the export if its `base:allocation` is
    /// among the answers.
    fn meta_context(&self, which: u32, data: &[u8], exports: &Exports, out: &mut Outbox) -> Option<usize> {
        let lists = which == option::LIST_META_CONTEXT;
        if self.headers == Headers::Simple {
            let message = "ask for structured replies or extended headers before metadata contexts";
            refuse(out, which, reply::ERR_INVALID, message);
            return None;
        }
        let Some((name, matches)) = parse_queries(data, lists) else {
            refuse(out, which, reply::ERR_INVALID, "option data does not hold a name and a list of queries");
            return None;
        };
        let place = find(name, which, exports, out)?;
        if matches {
            let id = if lists { 0 } else { ALLOCATION_ID };
            let parts: [&[u8]; 2] = [&id.to_be_bytes(), wire::BASE_ALLOCATION.as_bytes()];
            out.handshake(|bytes| wire::put_option_reply(bytes, which, reply::META_CONTEXT, &parts));
        }
        acknowledge(out, which);
        matches.then_some(place)
    }
}

/// The place of the export that an option would have the client use.
fn chosen(which: u32, data: &[u8], exports: &Exports) -> Option<usize> {
    let name = match which {
        option::EXPORT_NAME => core::str::from_utf8(data).ok()?,
        option::GO => parse_info(data)?.0,
        _ => return None,
    };
    exports.find(name)
}

/// The name and the bytes of the list of information requests.
fn parse_info(data: &[u8]) -> Option<(&str, &[u8])> {
    let mut fields = Fields(data);
    let name = fields.string()?;
    let wanted = usize::from(fields.u16()?) * 2;
    let list = fields.bytes(wanted)?;
    fields.0.is_empty().then_some((name, list))
}

fn asks_for(wanted: &[u8], kind: u16) -> bool {
    wanted.as_chunks::<2>().0.contains(&kind.to_be_bytes())
}

/// The name, and whether any of the queries finds `base:allocation`.
fn parse_queries(data: &[u8], lists: bool) -> Option<(&str, bool)> {
    let mut fields = Fields(data);
    let name = fields.string()?;
    let queries = fields.u32()?;
    // Listing without a query lists everything; selecting without one selects nothing.
    let mut matches = lists && queries == 0;
    for _ in 0..queries {
        let query = fields.string()?;
        matches |= query == wire::BASE_ALLOCATION || (lists && query == "base:");
    }
    fields.0.is_empty().then_some((name, matches))
}

fn find(name: &str, which: u32, exports: &Exports, out: &mut Outbox) -> Option<usize> {
    let place = exports.find(name);
    if place.is_none() {
        refuse(out, which, reply::ERR_UNKNOWN, &unknown(name, exports.list().len()));
    }
    place
}

fn unknown(name: &str, exports: usize) -> String {
    // A name may be as long as the message may.
    let shown: String = name.chars().take(64).collect();
    let dots = if shown.len() < name.len() { "..." } else { "" };
    match (name, exports) {
        (_, 0) => format!("no export '{shown}{dots}': this server has no exports at all"),
        ("", n) => format!("this server has {n} exports and no default one: name one of them"),
        (_, n) => format!("no export '{shown}{dots}': list the {n} of this server to see their names"),
    }
}

fn list(out: &mut Outbox, exports: &Exports) {
    for export in exports.list() {
        let Export { name, description, .. } = export.as_ref();
        let length = (name.len() as u32).to_be_bytes();
        let parts: [&[u8]; 3] = [&length, name.as_bytes(), description.as_bytes()];
        out.handshake(|bytes| wire::put_option_reply(bytes, option::LIST, reply::SERVER, &parts));
    }
    acknowledge(out, option::LIST);
}

fn acknowledge(out: &mut Outbox, which: u32) {
    out.handshake(|bytes| wire::put_option_reply(bytes, which, reply::ACK, &[]));
}

fn refuse(out: &mut Outbox, which: u32, error: u32, message: &str) {
    out.handshake(|bytes| wire::put_option_reply(bytes, which, error, &[message.as_bytes()]));
}
