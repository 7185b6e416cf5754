//! Requests per second over one unix connection: ours against the servers that others use, null with null and memory with
//! memory, with the same client, in turns within one run. Prints a table for each size and depth and, with `--json`, JSON.
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
use shingle_core::block::BlockDevice;
use shingle_core::device::null::{NullConfig, NullDevice};
use shingle_host::serve::listen::{Address, Listener};
use shingle_host::serve::nbd::{Nbd, NbdOptions};
use shingle_host::serve::{Directory, Export};
use shingle_host::shard::{Shard, ShardError, ShardThread};

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

fn ours(path: &Path, memory_backed: bool) -> io::Result<Server> {
    let address = Address::Unix(path.to_owned());
    let build = move |shard: &mut Shard| -> Result<(), ShardError> {
        let config = NullConfig { memory_backed, ..NullConfig::new(SIZE / 512) };
        let null = NullDevice::new(&config).expect("the parameters go together");
        let limits = null.limits().clone();
        let device = shard.stack.add(Box::new(null)).expect("limits make sense");
        let home = Nbd::install(shard, NbdOptions::default());
        let listener = Listener::bind(&address).unwrap_or_else(|error| panic!("{error}"));
        let directory = Directory::default();
        directory.add(Export::new(EXPORT, device, &limits)).unwrap_or_else(|error| panic!("{error}"));
        home.listen(listener, &directory, std::slice::from_ref(&home), None).unwrap_or_else(|error| panic!("{error}"));
        Ok(())
    };
    Ok(Server::Ours(Some(ShardThread::start("nbd", build).unwrap_or_else(|error| panic!("{error}")).0)))
}

fn theirs(program: &str, arguments: &[&str]) -> io::Result<Server> {
    Command::new(program).args(arguments).stdin(Stdio::null()).spawn().map(Server::Theirs)
}

fn nbdkit(path: &Path, plugin: &str) -> io::Result<Server> {
    theirs("nbdkit", &["-f", "--exit-with-parent", "-U", &path.to_string_lossy(), plugin, "1G"])
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
    depths: Vec<usize>,
    blocks: Vec<usize>,
}

impl Options {
    fn parse() -> Self {
        let arguments: Vec<String> = std::env::args().collect();
        let number = |name: &str| {
            let at = arguments.iter().position(|argument| argument == name);
            at.and_then(|at| arguments.get(at + 1)?.parse::<usize>().ok())
        };
        Self {
            json: arguments.iter().any(|argument| argument == "--json"),
            ours_only: arguments.iter().any(|argument| argument == "--ours"),
            time: Duration::from_millis(number("--seconds").unwrap_or(1) as u64 * 1000),
            rounds: number("--rounds").unwrap_or(5),
            depths: number("--depth").map_or(vec![1, 32], |depth| vec![depth]),
            blocks: number("--block").map_or(vec![4096, 65536], |block| vec![block]),
        }
    }

    /// Each size with each depth.
    fn shapes(&self) -> Vec<(usize, usize)> {
        self.blocks.iter().flat_map(|block| self.depths.iter().map(|depth| (*block, *depth))).collect()
    }
}

type Start = fn(&Path) -> io::Result<Server>;

/// What a server keeps: only those of one kind are compared.
#[derive(Clone, Copy, PartialEq)]
enum Keeps {
    Nothing,
    Data,
}

const SERVERS: [(&str, Keeps, Start); 5] = [
    ("shingle null", Keeps::Nothing, |path| ours(path, false)),
    ("nbdkit null", Keeps::Nothing, |path| nbdkit(path, "null")),
    ("qemu-storage-daemon null-co", Keeps::Nothing, qemu),
    ("shingle memory", Keeps::Data, |path| ours(path, true)),
    ("nbdkit memory", Keeps::Data, |path| nbdkit(path, "memory")),
];

/// One server, over all rounds: for each shape and round the rates of reads and writes.
struct Contender {
    name: &'static str,
    keeps: Keeps,
    start: Start,
    rates: Vec<Vec<[f64; 2]>>,
    missing: Option<io::Error>,
}

impl Contender {
    fn is_ours(&self) -> bool {
        self.name.starts_with("shingle")
    }

    fn measure(&mut self, path: &Path, options: &Options) -> io::Result<()> {
        let _server = (self.start)(path)?;
        let mut client = connect(path)?;
        for ((block, depth), rates) in options.shapes().into_iter().zip(&mut self.rates) {
            let mut of_round = [0.0; 2];
            for (command, rate) in [READ, WRITE].into_iter().zip(&mut of_round) {
                let load = Load { command, block, depth, span: SIZE };
                *rate = client.run(&load, options.time / 5, options.time)?;
            }
            rates.push(of_round);
        }
        Ok(())
    }
}

/// The median, and the least and the greatest.
fn spread(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    let at = |place: usize| values.get(place).copied().unwrap_or(f64::NAN);
    [at(values.len() / 2), at(0), at(values.len().saturating_sub(1))]
}

fn main() {
    let options = Options::parse();
    let shapes = options.shapes().len();
    let contender = |(name, keeps, start)| Contender { name, keeps, start, rates: vec![vec![]; shapes], missing: None };
    let mut contenders: Vec<Contender> = SERVERS.map(contender).into();
    contenders.retain(|contender| contender.is_ours() || !options.ours_only);
    let path: PathBuf = std::env::temp_dir().join(format!("shingle-bench-nbd-{}", std::process::id()));
    for _ in 0..options.rounds {
        for contender in contenders.iter_mut().filter(|contender| contender.missing.is_none()) {
            if let Err(error) = contender.measure(&path, &options) {
                contender.missing = Some(error);
            }
            let _ = std::fs::remove_file(&path);
        }
    }
    if options.json { print_json(&contenders, &options) } else { print_tables(&contenders, &options) }
}

fn print_json(contenders: &[Contender], options: &Options) {
    let mut rows = Vec::new();
    for (shape, (block, depth)) in options.shapes().into_iter().enumerate() {
        for contender in contenders.iter().filter(|contender| contender.missing.is_none()) {
            let [read, write] = [0, 1].map(|command| rates(contender, shape, command)[0]);
            rows.push(format!(
                r#"{{"block":{block},"depth":{depth},"server":"{}","read_iops":{read:.0},"write_iops":{write:.0}}}"#,
                contender.name
            ));
        }
    }
    println!(r#"{{"bench":"nbd","results":[{}]}}"#, rows.join(","));
}

fn rates(contender: &Contender, shape: usize, command: usize) -> [f64; 3] {
    spread(contender.rates[shape].iter().map(|rates| rates[command]).collect())
}

/// How many times as fast ours is, round by round.
fn ratios(ours: &Contender, theirs: &Contender, shape: usize, command: usize) -> [f64; 3] {
    let rounds = ours.rates[shape].iter().zip(&theirs.rates[shape]);
    spread(rounds.map(|(ours, theirs)| ours[command] / theirs[command]).collect())
}

fn print_tables(contenders: &[Contender], options: &Options) {
    for (shape, (block, depth)) in options.shapes().into_iter().enumerate() {
        println!(
            "\n{block} bytes random, {depth} in flight, one unix connection; median of {} rounds in turns, ours / theirs with \
             the least and the greatest of a round",
            options.rounds
        );
        println!("{:28} {:>11} {:>11} {:>20} {:>20}", "server", "read IOPS", "write IOPS", "ours/read", "ours/write");
        for contender in contenders {
            if let Some(error) = &contender.missing {
                println!("{:28} not measured: {error}; apt-get install nbdkit qemu-system-common", contender.name);
                continue;
            }
            let ours = contenders.iter().find(|other| other.is_ours() && other.keeps == contender.keeps);
            let [read, write] = [0, 1].map(|command| {
                let against = ours.filter(|_| !contender.is_ours());
                let [median, least, most] =
                    against.map_or([f64::NAN; 3], |ours| ratios(ours, contender, shape, command));
                if median.is_nan() { String::new() } else { format!("{median:.2} ({least:.2}-{most:.2})") }
            });
            let [reads, writes] = [0, 1].map(|command| rates(contender, shape, command)[0]);
            println!("{:28} {reads:>11.0} {writes:>11.0} {read:>20} {write:>20}", contender.name);
        }
    }
}
