//! A protocol that Shingle does not know, brought by whoever links it: a client sends the name of an export and a newline, and
//! gets its first sectors. Exports say how many; those that do not are not offered.

use std::any::Any;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use shingle_core::block::{Bio, Data, Op, Payload, PortId};
use shingle_core::sector::Sector;
use shingle_host::config::{Kinds, Plan, Source};
use shingle_host::control::protocol::{AddExport, GetStatus, RemoveExport};
use shingle_host::control::{ControlClient, ErrorKind};
use shingle_host::daemon::Daemon;
use shingle_host::fields::Fields;
use shingle_host::serve::listen::{Address, Listening};
use shingle_host::serve::{
    Acceptor, Client, Complaint, Directory, Export, ExportKeys, Extra, FRONT_ENDS, FrontEnd, FrontEndType, Handshake,
    Permit, ServeError, Service, Sockets, User,
};
use shingle_host::shard::{Mailbox, Pump, Shard, Source as ShardSource, SourceCx};
use shingle_sys::{Completion, Fd, Part, Request};

use crate::support::{Scratch, succeed};

static DUMP: FrontEndType = FrontEndType { name: "dump", read_listen, read_export: Some(read_export) };

/// `dump` of `[listen]`: the socket.
#[derive(Debug)]
struct Listen(Option<PathBuf>);

/// `dump-sectors` of `[export.NAME]`.
struct Sectors(u32);

fn read_listen(fields: &mut Fields<'_>) -> Arc<dyn FrontEnd> {
    Arc::new(Listen(fields.path("dump").map(|at| at.value)))
}

fn read_export(fields: &mut Fields<'_>) -> Option<Extra> {
    Some(Arc::new(Sectors(fields.count("dump-sectors")?.value)))
}

fn sectors(export: &Export) -> Option<u32> {
    export.keys.find::<Sectors>().map(|sectors| sectors.0)
}

impl FrontEnd for Listen {
    fn kind(&self) -> &'static FrontEndType {
        &DUMP
    }

    fn offers(&self, keys: &ExportKeys) -> bool {
        self.0.is_some() && keys.find::<Sectors>().is_some()
    }

    fn check(&self, exports: &[&Export]) -> Result<(), String> {
        let is_short = |export: &&&Export| sectors(export).is_some_and(|n| u64::from(n) > export.limits.capacity);
        let short = exports.iter().find(is_short);
        short.map_or(Ok(()), |export| {
            Err(format!("'{}' has {} sectors: dump fewer", export.name, export.limits.capacity))
        })
    }

    fn service(&self, _: &Path) -> Box<dyn Service> {
        Box::new(Dump { homes: Vec::new() })
    }
}

struct Dump {
    homes: Vec<Home>,
}

/// A shard, and something that each of its sessions has a copy of.
struct Home {
    mailbox: Mailbox,
    live: Arc<()>,
}

/// The same for those that are no session yet.
type Way = (Mailbox, Weak<()>);

impl Service for Dump {
    fn install(&mut self, shard: &mut Shard) {
        self.homes.push(Home { mailbox: shard.mailbox(), live: Arc::default() });
    }

    fn listen(
        &self,
        wanted: &dyn FrontEnd,
        directory: &Directory,
        sockets: &Sockets,
    ) -> Result<Vec<Listening>, ServeError> {
        let Listen(path) = (wanted as &dyn Any).downcast_ref().expect("a front end of this kind");
        let Some(path) = path.clone() else { return Ok(Vec::new()) };
        let listener = sockets.listen(&Address::Unix(path))?;
        let (address, directory) = (listener.address().clone(), directory.clone());
        let ways: Vec<Way> = self.homes.iter().map(|home| (home.mailbox.clone(), Arc::downgrade(&home.live))).collect();
        let welcome = move |client, slot, _| Question::new((client, slot), directory.clone(), ways.clone());
        let listen = |shard: &mut Shard| {
            shard.spawn(Box::new(Acceptor::new(listener, (4, Arc::new(|_: &Complaint<'_>| ())), welcome)));
        };
        self.homes[0].mailbox.post(listen).map_err(|_| ServeError::Stopped(DUMP.name))?;
        Ok(vec![Listening::plain(address)])
    }

    fn connections(&self, shard: usize) -> usize {
        Arc::strong_count(&self.homes[shard].live) - 1
    }
}

/// A client that has not said what it wants, on the shard that listens.
struct Question {
    client: Option<Client>,
    /// Its slot among those that have not said it.
    _handshake: Handshake,
    socket: Fd,
    directory: Directory,
    ways: Vec<Way>,
    name: Vec<u8>,
    is_waiting: bool,
}

impl Question {
    fn new((client, _handshake): (Client, Handshake), directory: Directory, ways: Vec<Way>) -> Self {
        let socket = client.socket.as_fd().try_clone_to_owned().unwrap().into();
        Self { client: Some(client), _handshake, socket, directory, ways, name: Vec::new(), is_waiting: false }
    }

    /// Sends the client to the shard of its export; a client that wants another one is let go.
    fn send_on(&mut self) {
        let is_it = |export: &Export| export.name.as_bytes() == self.name && sectors(export).is_some();
        let claimed = self.directory.claim(is_it, |_| usize::MAX, "a client");
        let Some((client, (export, user))) = self.client.take().zip(claimed.ok()) else { return };
        let Ok(permit) = client.slots.take() else { return };
        let (mailbox, live) = self.ways[export.shard].clone();
        let answer =
            Answer { client, _permit: permit, export, port: None, is_sent: false, counts: (user, live.upgrade()) };
        let _ = mailbox.post(|shard| _ = shard.spawn(Box::new(answer)));
    }
}

impl ShardSource for Question {
    fn on_completion(&mut self, done: Completion, _: &mut SourceCx<'_>) {
        let Request::Receive { into, .. } = done.request else { return };
        self.is_waiting = false;
        self.name.extend(&into[..usize::try_from(done.result).unwrap_or(0)]);
        if self.name.pop_if(|last| *last == b'\n').is_some() {
            self.send_on();
        } else if done.result <= 0 || self.name.len() > 128 {
            self.client = None;
        }
    }

    fn pump(&mut self, cx: &mut SourceCx<'_>) -> Pump {
        if self.client.is_none() {
            return Pump::Done;
        }
        if !self.is_waiting {
            let request = Request::Receive { socket: self.socket.clone(), into: vec![0; 128], at: 0 };
            self.is_waiting = cx.submit(1, request).is_ok();
        }
        Pump::Idle
    }

    fn stop(&mut self, cx: &mut SourceCx<'_>) {
        self.client = None;
        cx.cancel(1);
    }
}

/// A client that gets its sectors, on the shard that has them.
struct Answer {
    client: Client,
    _permit: Permit,
    export: Export,
    port: Option<PortId>,
    is_sent: bool,
    counts: (User, Option<Arc<()>>),
}

impl Answer {
    fn send(&mut self, parts: Vec<Part>, skip: usize, cx: &mut SourceCx<'_>) {
        let socket = self.client.socket.as_fd().try_clone_to_owned().unwrap().into();
        self.is_sent |= cx.submit(1, Request::Send { socket, parts, skip }).is_err();
    }
}

impl ShardSource for Answer {
    fn on_completion(&mut self, done: Completion, cx: &mut SourceCx<'_>) {
        let Request::Send { parts, skip, .. } = done.request else { return };
        let sent = skip + usize::try_from(done.result).unwrap_or(0);
        if done.result > 0 && sent < parts.iter().map(Part::len).sum() {
            return self.send(parts, sent, cx);
        }
        self.is_sent = true;
    }

    fn pump(&mut self, cx: &mut SourceCx<'_>) -> Pump {
        let count = sectors(&self.export).unwrap_or(0);
        let port = *self.port.get_or_insert_with(|| {
            let port = cx.open_port();
            let bio = Bio::new(Op::Read, Sector(0), count, Payload::Data(Data::zeroed(count as usize * 512)));
            cx.stack.submit(port, 0, self.export.device, Box::new(bio));
            port
        });
        if let Some(mut done) = cx.stack.poll_completion(port) {
            assert!(done.status.is_ok());
            self.counts.0.tally.record(&done.bio, done.status, cx.now().since(done.bio.since));
            self.send(vec![Part::Payload(std::mem::take(&mut done.bio.payload))], 0, cx);
        }
        if self.is_sent { Pump::Done } else { Pump::Idle }
    }

    fn stop(&mut self, cx: &mut SourceCx<'_>) {
        self.is_sent = true;
        cx.cancel(1);
    }
}

fn parse(text: &str) -> Result<Plan, String> {
    let front_ends: Vec<&'static FrontEndType> = FRONT_ENDS.into_iter().chain([&DUMP]).collect();
    let source = Source { text: text.to_owned(), ..Source::default() };
    let kinds = Kinds { front_ends: &front_ends, ..Kinds::default() };
    Plan::parse_with(source, kinds).map_err(|error| error.to_string())
}

/// Two disks, each on a shard of its own, exported so; `keys` of `[listen]`.
fn stack(exports: &str, keys: &str) -> String {
    let disk = |name, shard| {
        format!("[disk.{name}]\ntype = \"null\"\nsize = \"16MiB\"\nmemory-backed = true\nshard = {shard}\n")
    };
    format!("{}{}{exports}[listen]\n{keys}\n", disk("x", 0), disk("y", 1))
}

/// A client that wants `export`.
fn ask(socket: &Scratch, export: &str) -> UnixStream {
    let mut client = UnixStream::connect(socket.path()).unwrap();
    client.write_all(format!("{export}\n").as_bytes()).unwrap();
    client
}

fn dump(socket: &Scratch, export: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    ask(socket, export).read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn a_protocol_of_ones_own_serves_the_exports_of_every_shard_beside_nbd() {
    let [nbd, own, control] = ["nbd", "dump", "control"].map(|name| Scratch::new(&format!("own-{name}.sock")));
    let exports = "[export.a]\ndevice = \"x\"\n[export.b]\ndevice = \"y\"\ndump-sectors = 16384\n[export.c]\ndevice = \"x\"\ndump-sectors = 1\n";
    let keys = format!("unix = {:?}\ndump = {:?}\n[control]\nsocket = {:?}", nbd.text(), own.text(), control.text());
    let daemon = Daemon::start(parse(&stack(exports, &keys)).unwrap()).unwrap_or_else(|error| panic!("{error}"));
    for (export, pattern) in [("a", "0x5a"), ("b", "0xa5")] {
        let uri = format!("nbd+unix:///{export}?socket={}", nbd.text());
        succeed("qemu-io", &["-f", "raw", &uri, "-c", &format!("write -P {pattern} 0 8M")]);
    }
    assert!(dump(&own, "b") == [0xa5; 8 << 20], "other bytes came from the second shard");
    assert!(dump(&own, "c") == [0x5a; 512], "other bytes came from the first shard");
    assert_eq!((dump(&own, "a"), dump(&own, "nobody")), (vec![], vec![]), "these are not offered");

    let mut asker = ControlClient::connect(Path::new(control.text())).unwrap();
    let mut slow = ask(&own, "b");
    slow.read_exact(&mut [0]).unwrap();
    let status = asker.call(&GetStatus {}).unwrap();
    assert_eq!(status.listen, [format!("unix:{}", nbd.text()), format!("unix:{}", own.text())]);
    // The session is where its export is; those before it are gone when their shard has had its turn.
    while asker.call(&GetStatus {}).unwrap().connections != [0, 1] {
        std::thread::yield_now();
    }
    let busy = asker.call(&RemoveExport { name: "b".into() }).unwrap_err();
    assert!(busy.kind == ErrorKind::Busy && busy.message.contains("`b` has 1 connections"), "{busy}");
    drop(slow);
    while asker.call(&RemoveExport { name: "b".into() }).is_err() {
        std::thread::yield_now();
    }
    assert!(dump(&own, "b").is_empty(), "it was removed");
    let added = AddExport { name: "b".into(), device: "y".into(), read_only: false, ..AddExport::default() };
    asker.call(&added).unwrap();
    daemon.stop().unwrap();
}

#[test]
fn an_export_that_no_front_end_offers_is_a_mistake() {
    let exports = "[export.a]\ndevice = \"x\"\ndump-sectors = 1\n[export.b]\ndevice = \"y\"\n";
    let said = parse(&stack(exports, "dump = \"s\"")).unwrap_err();
    assert!(said.contains("[export.b]") && said.contains("nobody can reach this export"), "{said}");
    assert!(parse(&stack(exports, "dump = \"s\"\nunix = \"t\"")).is_ok());
}

#[test]
fn keys_of_a_front_end_are_read_with_the_others_and_only_where_it_is_known() {
    let said = parse(&stack("[export.a]\ndevice = \"x\"\ndump-sector = 1\n", "dump = 5")).unwrap_err();
    for expected in ["did you mean `dump-sectors`?", "dump-sectors, device", "`dump` of [listen] is wrong"] {
        assert!(said.contains(expected), "{expected} is missing in:\n{said}");
    }
    let unknown = Plan::parse(Source { text: stack("", "dump = \"s\""), ..Source::default() }).unwrap_err().to_string();
    assert!(unknown.contains("[listen] has no key `dump`"), "only this program has it: {unknown}");
}

#[test]
fn exports_that_a_front_end_cannot_show_keep_the_daemon_from_starting() {
    let own = Scratch::new("own-refused.sock");
    let exports = "[export.a]\ndevice = \"x\"\ndump-sectors = 32769\n";
    let plan = parse(&stack(exports, &format!("dump = {:?}", own.text()))).unwrap();
    let error = Daemon::start(plan).err().unwrap().to_string();
    assert_eq!(error, "cannot serve these exports over dump: 'a' has 32768 sectors: dump fewer");
    assert!(!own.path().exists());
}
