//! A server on threads of its own, over disks made of memory, and the tools that talk to it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use shingle_core::device::null::{NullConfig, NullDevice, NullZones};
use shingle_core::plug::{PlugOptions, ZonePlug};
use shingle_core::time::Duration;
use shingle_host::serve::listen::{Address, Listener};
use shingle_host::serve::nbd::{Nbd, NbdOptions};
use shingle_host::serve::{Directory, Export};
use shingle_host::shard::{Shard, ShardError, ShardThread};

/// Size of every disk.
pub const SIZE: u64 = 64 << 20;
/// Size of a zone.
pub const ZONE: u64 = 1 << 20;
/// Conventional zones of a zoned disk.
pub const CONVENTIONAL: u64 = 4;

/// A disk and how it is exported.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk {
    pub name: &'static str,
    pub description: &'static str,
    pub zoned: bool,
    pub read_only: bool,
    /// How long each request takes.
    pub completion_ns: u64,
}

impl Disk {
    pub fn regular(name: &'static str) -> Self {
        Self { name, ..Self::default() }
    }

    pub fn zoned(name: &'static str) -> Self {
        Self { zoned: true, ..Self::regular(name) }
    }

    /// Puts the disk on a shard, under a plug if it has zones.
    fn build(&self, shard: &mut Shard) -> Export {
        let base = NullConfig {
            memory_backed: true,
            write_zeroes: true,
            discard: !self.zoned,
            write_cache: true,
            completion: Duration::from_nanos(self.completion_ns),
            ..NullConfig::new(SIZE / 512)
        };
        let zones = NullZones { conventional: CONVENTIONAL as u32, ..NullZones::new(ZONE / 512) };
        let config = NullConfig { zoned: self.zoned.then_some(zones), ..base };
        let null = NullDevice::new(&config).unwrap();
        let mut top = shard.stack.add(Box::new(null)).unwrap();
        if self.zoned {
            let plug = ZonePlug::new(top, shard.stack.limits(top), PlugOptions::default()).unwrap();
            top = shard.stack.add(Box::new(plug)).unwrap();
        }
        Export {
            description: self.description.to_owned(),
            asked_read_only: self.read_only,
            ..Export::new(self.name, top, shard.stack.limits(top))
        }
    }
}

/// A running server. Each inner list of disks has a shard of its own; the first shard listens.
pub struct Server {
    shards: Vec<ShardThread>,
    homes: Vec<Nbd>,
    exports: Vec<Export>,
    pub path: PathBuf,
    log: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub fn start(disks: &[Disk]) -> Self {
        Self::with(&[disks], NbdOptions::default())
    }

    pub fn with(disks_of_shards: &[&[Disk]], options: NbdOptions) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("shingle-test-nbd-{}-{number}", std::process::id()));
        let log = Arc::new(Mutex::new(Vec::new()));
        let lines = log.clone();
        let options =
            NbdOptions { log: Arc::new(move |complaint| lines.lock().unwrap().push(complaint.to_string())), ..options };
        let mut server = Self { shards: Vec::new(), homes: Vec::new(), exports: Vec::new(), path, log };
        for (number, disks) in disks_of_shards.iter().enumerate() {
            let (options, disks) = (options.clone(), disks.to_vec());
            let build = move |shard: &mut Shard| -> Result<_, ShardError> {
                let exports: Vec<Export> = disks.iter().map(|disk| disk.build(shard)).collect();
                Ok((Nbd::install(shard, options), exports))
            };
            let (shard, (home, exports)) = ShardThread::start("nbd", build).unwrap_or_else(|error| panic!("{error}"));
            server.exports.extend(exports.into_iter().map(|export| Export { shard: number, ..export }));
            server.shards.push(shard);
            server.homes.push(home);
        }
        server.listen(&Address::Unix(server.path.clone()));
        server
    }

    /// Has the first shard listen on `address`; where it really does.
    pub fn listen(&self, address: &Address) -> Address {
        let listener = Listener::bind(address).unwrap_or_else(|error| panic!("{error}"));
        let bound = listener.address().clone();
        let directory = Directory::default();
        let added = self.exports.iter().cloned().try_for_each(|export| directory.add(export));
        added.unwrap_or_else(|error| panic!("{error}"));
        self.homes[0].listen(listener, &directory, &self.homes, None).unwrap_or_else(|error| panic!("{error}"));
        bound
    }

    /// Asks the first shard.
    pub fn ask<R: Send + 'static>(&self, question: impl FnOnce(&mut Shard) -> R + Send + 'static) -> R {
        self.shards[0].mailbox().ask(question).unwrap_or_else(|error| panic!("{error}"))
    }

    /// What clients are told to connect to.
    pub fn uri(&self, export: &str) -> String {
        format!("nbd+unix:///{export}?socket={}", self.path.display())
    }

    /// Connections that live on each shard.
    pub fn connections(&self) -> Vec<usize> {
        self.homes.iter().map(Nbd::connections).collect()
    }

    /// Waits until nobody is connected.
    pub fn wait_until_empty(&self) {
        while self.connections().iter().any(|n| *n > 0) {
            std::thread::yield_now();
        }
    }

    pub fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    /// Waits for a line that contains `text`.
    pub fn wait_for_log(&self, text: &str) {
        while !self.log().iter().any(|line| line.contains(text)) {
            std::thread::yield_now();
        }
    }

    pub fn stop(mut self) {
        self.shards.drain(..).for_each(|shard| shard.stop().unwrap_or_else(|error| panic!("{error}")));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for shard in self.shards.drain(..) {
            let stopped = shard.stop();
            if !std::thread::panicking() {
                stopped.unwrap_or_else(|error| panic!("{error}"));
            }
        }
    }
}

/// Runs a program that has to be there.
pub fn run(program: &str, arguments: &[&str]) -> Output {
    let package = if program.starts_with("nbd") { "libnbd-bin" } else { "qemu-utils" };
    Command::new(program)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("cannot run {program}: {error}; apt-get install {package}"))
}

/// Runs a program that has to succeed; what it printed.
pub fn succeed(program: &str, arguments: &[&str]) -> String {
    let output = run(program, arguments);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {arguments:?}: {}\n{out}\n{err}", output.status);
    out.into_owned()
}

/// Runs a program that has to fail; what it said.
pub fn fail(program: &str, arguments: &[&str]) -> String {
    let output = run(program, arguments);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(!output.status.success(), "{program} {arguments:?} succeeded\n{out}");
    format!("{out}{err}")
}

/// A file that is gone afterwards.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("shingle-test-{}-{name}", std::process::id())))
    }

    /// Filled with `bytes` that do not repeat within a block and are never a block of zeroes.
    pub fn noise(name: &str, bytes: u64) -> Self {
        let scratch = Self::new(name);
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let noise: Vec<u8> = (0..bytes / 8)
            .flat_map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state.to_ne_bytes()
            })
            .collect();
        std::fs::write(&scratch.0, noise).unwrap();
        scratch
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn text(&self) -> &str {
        self.0.to_str().unwrap()
    }

    pub fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.0).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
