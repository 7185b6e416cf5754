//! The program as users run it: in a directory of its own, with a daemon that lives as long as the test wants.
#![allow(dead_code, reason = "each program uses its part")]

pub mod nbd;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// Sets a flag when it goes, also because a test fails: who works until then ends.
pub struct Ends<'a>(pub &'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Loopback address that no other test uses, with a port that the system gives to no client: for a test that has to name the same address
/// twice. A port that was free a moment ago may be another process's by then.
pub fn own_address() -> SocketAddr {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let number = 1 + COUNT.fetch_add(1, Ordering::Relaxed) as u8 % 250;
    SocketAddr::from(([127, number, high, low], 20_809))
}

/// A directory that is gone afterwards.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("shingle-cli-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    /// A directory with a stack file.
    pub fn with_stack(text: &str) -> Self {
        let scratch = Self::new();
        scratch.file("stack.toml", text);
        scratch
    }

    pub fn file(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).unwrap();
    }

    pub fn shingle(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shingle"));
        // As nobody started it: no other daemon, and no service manager.
        let others =
            ["SHINGLE_CONTROL", "NOTIFY_SOCKET", "RUNTIME_DIRECTORY", "WATCHDOG_USEC", "LISTEN_PID", "FDSTORE"];
        others.into_iter().for_each(|name| _ = command.env_remove(name));
        command.current_dir(&self.0);
        command
    }

    /// Runs `shingle dm` with words that may hold spaces; what it said.
    #[track_caller]
    pub fn dm(&self, words: &[&str]) -> String {
        let output = self.shingle().arg("dm").args(words).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "dm {words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs `shingle dm`, which has to fail; what it said.
    #[track_caller]
    pub fn dm_fails(&self, words: &[&str], code: i32) -> String {
        let output = self.shingle().arg("dm").args(words).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "dm {words:?}: {said}");
        said
    }

    /// Runs the program; exit code, stdout and stderr.
    pub fn run(&self, words: &str) -> (i32, String, String) {
        let output = self.shingle().args(words.split_whitespace()).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
    }

    #[track_caller]
    pub fn ok(&self, words: &str) -> String {
        let (code, stdout, stderr) = self.run(words);
        assert_eq!(code, 0, "shingle {words}:\n{stdout}{stderr}");
        stdout
    }

    #[track_caller]
    pub fn json(&self, words: &str) -> Value {
        serde_json::from_str(&self.ok(words)).unwrap_or_else(|error| panic!("shingle {words}: {error}"))
    }

    #[track_caller]
    pub fn fails(&self, words: &str, code: i32, says: &[&str]) {
        let (found, stdout, stderr) = self.run(words);
        assert_eq!(found, code, "shingle {words}:\n{stdout}{stderr}");
        says.iter()
            .for_each(|say| assert!(stderr.contains(say), "{say:?} is missing in the answer to {words}:\n{stderr}"));
    }

    pub fn up(&self) -> Daemon {
        self.up_as(self.shingle().args(["up", "stack.toml"]).stderr(self.stderr_file()))
    }

    /// The daemon, also if exports cannot be used.
    pub fn up_degraded(&self) -> Daemon {
        self.up_as(self.shingle().args(["up", "--degraded", "stack.toml"]).stderr(self.stderr_file()))
    }

    /// The daemon with so much address space, in KiB.
    pub fn up_within(&self, kib: u32) -> Daemon {
        let run = format!("ulimit -v {kib}; exec {} up stack.toml", env!("CARGO_BIN_EXE_shingle"));
        self.up_as(Command::new("sh").args(["-c", &run]).current_dir(&self.0).stderr(self.stderr_file()))
    }

    pub fn stderr_file(&self) -> fs::File {
        fs::File::create(self.0.join("stderr")).unwrap()
    }

    /// A daemon that is started by `command`.
    pub fn up_as(&self, command: &mut Command) -> Daemon {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut notice = Vec::new();
        // The program ends if it cannot start, and with it this pipe: there is nothing to wait for by the clock.
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            notice.push(line.unwrap());
            if notice.last().is_some_and(|line| line == "ready") {
                return Daemon { child, notice };
            }
        }
        let said = fs::read_to_string(self.0.join("stderr")).unwrap_or_default();
        panic!("the daemon ended with {:?} before it was ready: {notice:?}\n{said}", child.wait());
    }

    /// What the last daemon said on standard error.
    pub fn stderr(&self) -> String {
        fs::read_to_string(self.0.join("stderr")).unwrap()
    }

    /// Waits until the daemon's standard error contains `words`, and returns all of it. The daemon writes its log from a thread, so that a line
    /// may appear after the client has seen the effect. Panics after 60 seconds.
    #[track_caller]
    pub fn stderr_with(&self, words: &str) -> String {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let said = self.stderr();
            if said.contains(words) {
                return said;
            }
            assert!(Instant::now() < end, "{words:?} is missing in {said:?}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// TCP address at which the daemon serves NBD: with the port that the system chose if the stack file has port 0.
    #[track_caller]
    pub fn tcp_address(&self) -> SocketAddr {
        let status = self.json("status --json");
        let addresses = status["listen"].as_array().unwrap();
        let tcp = addresses.iter().find_map(|address| address.as_str()?.strip_prefix("tcp:"));
        tcp.unwrap_or_else(|| panic!("no TCP address: {addresses:?}")).parse().unwrap()
    }

    pub fn control(&self) -> Control {
        let stream = UnixStream::connect(self.0.join("control.sock")).unwrap();
        Control(BufReader::new(stream))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub struct Daemon {
    pub child: Child,
    pub notice: Vec<String>,
}

impl Daemon {
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    pub fn stop(self) {
        self.stop_with(0);
    }

    /// Stops it; it has to end with this code.
    pub fn stop_with(mut self, code: i32) {
        self.signal(rustix::process::Signal::TERM);
        assert_eq!(self.child.wait().unwrap().code(), Some(code));
    }

    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client of the control socket that can say anything.
pub struct Control(pub BufReader<UnixStream>);

impl Control {
    pub fn say(&mut self, line: &str) {
        self.0.get_mut().write_all(line.as_bytes()).unwrap();
        self.0.get_mut().write_all(b"\n").unwrap();
    }

    pub fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"))
    }

    pub fn ask(&mut self, line: &str) -> Value {
        self.say(line);
        self.hear()
    }

    pub fn error_kind(&mut self, line: &str) -> String {
        let answer = self.ask(line);
        answer["error"]["kind"].as_str().unwrap_or_else(|| panic!("{line}: {answer}")).to_owned()
    }
}
