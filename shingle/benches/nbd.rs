//! Requests per second over one unix connection: ours against the servers that others use, with the same client, in turns
//! within one run. Prints a table and, with `--json`, JSON.
//!
//! `cargo bench --bench nbd -- [--json] [--seconds N] [--rounds N] [--depth N] [--block BYTES] [--ours]`

#[path = "support/client.rs"]
mod client;

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use client::{Client, Load, READ, WRITE};
use shingle::serve::listen::{Address, Listener};
use shingle::serve::nbd::{Directory, Nbd, NbdOptions, Route};
use shingle::shard::{Shard, ShardError, ShardThread};
use shingle_core::block::BlockDevice;
use shingle_core::device::null::{NullConfig, NullDevice};
use shingle_core::frontend::nbd::Export;

const SIZE: u64 = 1 << 30;
const EXPORT: &str = "disk";

/// Something that serves `EXPORT` of `SIZE` on a socket.
enum Server {
    Ours(Option<ShardThread>),
    Theirs(Child),
}

impl Drop for Server {
    fn drop(&mut self) {
        match self {
            Server::Ours(shard) => {
                if let Some(Err(error)) = shard.take().map(ShardThread::stop) {
                    eprintln!("{error}");
                }
            }
            Server::Theirs(child) => {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}

fn ours(path: &Path) -> Server {
    let address = Address::Unix(path.to_owned());
    let build = move |shard: &mut Shard| -> Result<(), ShardError> {
        let null = NullDevice::new(&NullConfig::new(SIZE / 512)).expect("the parameters go together");
        let limits = null.limits().clone();
        let device = shard.stack.add(Box::new(null)).expect("limits make sense");
        let home = Nbd::install(shard, NbdOptions::default());
        let listener = Listener::bind(&address).unwrap_or_else(|error| panic!("{error}"));
        let route = Route { export: Export::new(EXPORT, device, &limits), home: home.clone() };
        let directory = Directory::new(vec![route]).unwrap_or_else(|error| panic!("{error}"));
        home.listen(listener, &directory).unwrap_or_else(|error| panic!("{error}"));
        Ok(())
    };
    Server::Ours(Some(ShardThread::start("nbd", build).unwrap_or_else(|error| panic!("{error}")).0))
}

fn theirs(program: &str, arguments: &[&str]) -> io::Result<Server> {
    Command::new(program).args(arguments).stdin(Stdio::null()).spawn().map(Server::Theirs)
}

fn nbdkit(path: &Path) -> io::Result<Server> {
    theirs("nbdkit", &["-f", "--exit-with-parent", "-U", &path.to_string_lossy(), "memory", "1G"])
}

fn qemu(path: &Path) -> io::Result<Server> {
    let listen = format!("addr.type=unix,addr.path={}", path.display());
    let arguments = [
        "--blockdev",
        "null-co,node-name=null,size=1073741824,read-zeroes=off",
        "--nbd-server",
        &listen,
        "--export",
        "nbd,id=e,node-name=null,name=disk,writable=on",
    ];
    theirs("qemu-storage-daemon", &arguments)
}

/// Connects once the server listens.
fn connect(path: &Path) -> io::Result<Client> {
    let mut last = Err(io::ErrorKind::NotFound.into());
    for _ in 0..500 {
        last = Client::connect(path, EXPORT);
        if last.is_ok() {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
    last
}

struct Options {
    json: bool,
    ours_only: bool,
    time: Duration,
    rounds: usize,
    depth: usize,
    block: usize,
}

impl Options {
    fn parse() -> Self {
        let arguments: Vec<String> = std::env::args().collect();
        let number = |name: &str, default: usize| {
            let at = arguments.iter().position(|argument| argument == name);
            at.and_then(|at| arguments.get(at + 1)?.parse().ok()).unwrap_or(default)
        };
        Self {
            json: arguments.iter().any(|argument| argument == "--json"),
            ours_only: arguments.iter().any(|argument| argument == "--ours"),
            time: Duration::from_millis(number("--seconds", 1) as u64 * 1000),
            rounds: number("--rounds", 5),
            depth: number("--depth", 32),
            block: number("--block", 4096),
        }
    }
}

type Start = fn(&Path) -> io::Result<Server>;

/// One server, over all rounds: rates by command.
struct Contender {
    name: &'static str,
    start: Start,
    rates: [Vec<f64>; 2],
    missing: Option<io::Error>,
}

impl Contender {
    fn measure(&mut self, path: &Path, options: &Options) -> io::Result<()> {
        let _server = (self.start)(path)?;
        let mut client = connect(path)?;
        for (command, rates) in [READ, WRITE].into_iter().zip(&mut self.rates) {
            let load = Load { command, block: options.block, depth: options.depth, span: SIZE };
            rates.push(client.run(&load, options.time / 5, options.time)?);
        }
        Ok(())
    }

    fn median(&self, command: usize) -> f64 {
        let mut rates = self.rates[command].clone();
        rates.sort_by(f64::total_cmp);
        rates.get(rates.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

fn main() {
    let options = Options::parse();
    let contender = |name, start| Contender { name, start, rates: [vec![], vec![]], missing: None };
    let mut contenders = vec![contender("shingle null", |path| Ok(ours(path)))];
    if !options.ours_only {
        contenders.push(contender("nbdkit memory", nbdkit));
        contenders.push(contender("qemu-storage-daemon null-co", qemu));
    }
    let path: PathBuf = std::env::temp_dir().join(format!("shingle-bench-nbd-{}", std::process::id()));
    for _ in 0..options.rounds {
        for contender in contenders.iter_mut().filter(|contender| contender.missing.is_none()) {
            if let Err(error) = contender.measure(&path, &options) {
                contender.missing = Some(error);
            }
            let _ = std::fs::remove_file(&path);
        }
    }
    print(&contenders, &options);
}

fn print(contenders: &[Contender], options: &Options) {
    let ours = &contenders[0];
    if options.json {
        let rows: Vec<String> = contenders
            .iter()
            .filter(|contender| contender.missing.is_none())
            .map(|c| {
                let (read, write) = (c.median(0), c.median(1));
                format!(r#"{{"server":"{}","read_iops":{read:.0},"write_iops":{write:.0}}}"#, c.name)
            })
            .collect();
        let Options { block, depth, .. } = options;
        println!(r#"{{"bench":"nbd","block":{block},"depth":{depth},"results":[{}]}}"#, rows.join(","));
        return;
    }
    println!(
        "NBD, {} bytes random, {} in flight, one unix connection, median of {} rounds in turns",
        options.block, options.depth, options.rounds
    );
    println!("{:28} {:>12} {:>12} {:>12} {:>12}", "server", "read IOPS", "write IOPS", "ours/read", "ours/write");
    for contender in contenders {
        match &contender.missing {
            Some(error) => {
                println!("{:28} not measured: {error}; apt-get install nbdkit qemu-system-common", contender.name);
            }
            None => println!(
                "{:28} {:>12.0} {:>12.0} {:>12.2} {:>12.2}",
                contender.name,
                contender.median(0),
                contender.median(1),
                ours.median(0) / contender.median(0),
                ours.median(1) / contender.median(1)
            ),
        }
    }
}
