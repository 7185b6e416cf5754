//! `shingle top` as people run it: on a terminal, with a daemon that comes and goes, and once as text.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};

use crate::program::nbd::{Nbd, verified_random_load};
use crate::program::{Ends, Scratch};

/// A file that is used, and a drive with zones.
fn stack() -> Scratch {
    let scratch = Scratch::with_stack(
        "[disk.plain]\ntype = \"file\"\npath = \"plain\"\n\
         [disk.drive]\ntype = \"profile\"\nprofile = \"smr-14tb\"\nzones = 300\nmemory = \"8MiB\"\n\
         [export.plain]\ndevice = \"plain\"\n[export.drive]\ndevice = \"drive\"\n\
         [listen]\nunix = \"nbd.sock\"\n[control]\nsocket = \"control.sock\"\n",
    );
    File::create(scratch.0.join("plain")).unwrap().set_len(1 << 20).unwrap();
    scratch
}

/// The cells of the row that begins with this name.
fn row<'a>(page: &'a str, name: &str) -> Vec<&'a str> {
    let row = page.lines().find(|line| line.split_whitespace().next() == Some(name));
    row.unwrap_or_else(|| panic!("{name} is missing in\n{page}")).split_whitespace().collect()
}

#[test]
fn one_frame_as_text_tells_rates_and_latencies_of_an_interval() {
    let scratch = stack();
    let daemon = scratch.up();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let client = Nbd::connect(&scratch, "plain");
        scope.spawn(|| verified_random_load(client, &stop));
        let _ends = Ends(&stop);
        // A machine that is busy elsewhere may have done nothing in an interval.
        let page = loop {
            let page = scratch.ok("top --once --interval 200ms");
            if row(&page, "\"plain\"")[1] != "0" {
                break page;
            }
        };
        assert!(!page.contains('\x1b'), "{page}");
        let export = row(&page, "\"plain\"");
        assert!(export[5].ends_with('s') && export[6].ends_with('s'), "p50 and p99: {export:?}");
        assert_eq!(row(&page, "\"drive\"")[1..5], ["0", "0", "0", "0"], "{page}");
    });
    assert!(scratch.ok("top --once --view stuck --interval 100ms").contains("nothing is stuck"));
    let zones = scratch.ok("top drive --once --view zones --interval 100ms");
    assert!(zones.contains("drive: 300 zones") && zones.contains("full 0"), "{zones}");
    scratch.ok("power cut drive");
    assert!(scratch.ok("top --once --view stuck --interval 100ms").contains("no power"));
    scratch.ok("power on drive");
    scratch.fails("top --interval 1ms", 2, &["100ms to 3600s"]);
    scratch.fails("top", 2, &["--once"]);
    daemon.stop();
    scratch.fails("top --once", 1, &["cannot reach a daemon"]);
}

/// A terminal, and `shingle top` on it.
struct Terminal {
    master: File,
    peer: OwnedFd,
    child: Child,
    screen: Screen,
    /// Its modes without a program.
    before: String,
}

impl Terminal {
    fn start(scratch: &Scratch) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let peer = ioctl_tiocgptpeer(&master, OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        let end = || Stdio::from(peer.try_clone().unwrap());
        let mut command: Command = scratch.shingle();
        command.args(["top", "--interval", "100ms"]).env("TERM", "xterm").env("LC_ALL", "C.UTF-8");
        resize(&master, 80, 24);
        let before = modes(&peer);
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        Self { master: master.into(), peer, child, screen: Screen::default(), before }
    }

    fn press(&mut self, keys: &[u8]) {
        self.master.write_all(keys).unwrap();
    }

    /// Waits until the screen shows all of this.
    #[track_caller]
    fn sees(&mut self, wanted: &[&str]) {
        let mut bytes = [0; 4096];
        while !wanted.iter().all(|wanted| self.screen.text().contains(wanted)) {
            if let Some(code) = self.child.try_wait().unwrap() {
                panic!("it ended with {code} before there was {wanted:?} in\n{}", self.screen.text());
            }
            let count = self.master.read(&mut bytes).unwrap();
            self.screen.take(&bytes[..count]);
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn modes(&self) -> String {
        modes(&self.peer)
    }

    /// Reads until the program has left the screen that is not the shell's, and waits for its end.
    fn ends(&mut self) -> Option<i32> {
        let mut bytes = [0; 4096];
        while self.screen.is_other || !self.screen.has_cursor {
            let count = self.master.read(&mut bytes).unwrap();
            self.screen.take(&bytes[..count]);
        }
        self.child.wait().unwrap().code()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How lines are edited, keys told and signals made.
fn modes(terminal: &OwnedFd) -> String {
    let modes = tcgetattr(terminal).unwrap();
    format!("{:?} {:?} {:?}", modes.local_modes, modes.input_modes, modes.output_modes)
}

fn resize(master: &OwnedFd, columns: u16, rows: u16) {
    tcsetwinsize(master, Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
}

/// What a terminal shows, as far as this program uses one.
#[derive(Default)]
struct Screen {
    cells: Vec<Vec<char>>,
    at: (usize, usize),
    /// What has come of a character or sequence that is not whole.
    rest: Vec<u8>,
    is_other: bool,
    has_cursor: bool,
}

impl Screen {
    fn text(&self) -> String {
        self.cells.iter().map(|row| row.iter().collect::<String>().trim_end().to_owned() + "\n").collect()
    }

    fn take(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        let text = String::from_utf8_lossy(&self.rest).into_owned();
        let mut chars = text.char_indices().peekable();
        let mut done = 0;
        while let Some((_, char)) = chars.next() {
            match char {
                '\u{fffd}' => break,
                '\x1b' if chars.next_if(|(_, next)| *next == '[').is_some() => {
                    let mut words = String::new();
                    let Some(end) = chars.by_ref().map(|(_, char)| char).find(|char| {
                        words.push(*char);
                        char.is_ascii_alphabetic()
                    }) else {
                        break;
                    };
                    words.pop();
                    self.control(&words, end);
                }
                '\x1b' if chars.peek().is_none() => break,
                char => self.put(char),
            }
            done = chars.peek().map_or(text.len(), |(place, _)| *place);
        }
        self.rest.drain(..done);
    }

    fn put(&mut self, char: char) {
        let (row, column) = self.at;
        let room = self.cells.len().max(row + 1);
        self.cells.resize(room, Vec::new());
        let room = self.cells[row].len().max(column + 1);
        self.cells[row].resize(room, ' ');
        self.cells[row][column] = char;
        self.at.1 += 1;
    }

    fn control(&mut self, words: &str, end: char) {
        match (words, end) {
            ("?1049", 'h' | 'l') => self.is_other = end == 'h',
            ("?25", 'h' | 'l') => self.has_cursor = end == 'h',
            ("2", 'J') => self.cells.clear(),
            (place, 'H') => {
                let mut numbers = place.split(';').map(|number| number.parse::<usize>().unwrap_or(1) - 1);
                self.at = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
            }
            _ => {}
        }
    }
}

#[test]
fn on_a_terminal_keys_choose_what_is_seen_and_the_end_gives_it_back() {
    let scratch = stack();
    let daemon = scratch.up();
    let mut terminal = Terminal::start(&scratch);
    terminal.sees(&["[1 devices]", "└─plain", "\"drive\"", "? help"]);
    assert!(terminal.screen.is_other && !terminal.screen.has_cursor);
    terminal.press(b"3");
    terminal.sees(&["[3 stuck]", "nothing is stuck"]);
    terminal.press(b"2");
    terminal.sees(&["[2 zones]", "drive: 300 zones", "a cell is 1 zone"]);
    terminal.press(b"\x1b[B\x1b[C");
    terminal.sees(&["zone 33; 0% written"]);
    terminal.press(b"?");
    terminal.sees(&["any key goes back"]);
    scratch.ok("power cut drive");
    terminal.press(b"\t");
    terminal.sees(&["[3 stuck (1!)]", "no power"]);
    resize(&terminal.master.try_clone().unwrap().into(), 100, 30);
    terminal.signal(Signal::WINCH);
    terminal.press(b"1");
    terminal.sees(&["[1 devices]"]);
    while !terminal.screen.cells.get(29).is_some_and(|row| row.iter().collect::<String>().contains("? help")) {
        terminal.sees(&["? help"]);
        let mut bytes = [0; 4096];
        let count = terminal.master.read(&mut bytes).unwrap();
        terminal.screen.take(&bytes[..count]);
    }
    daemon.kill();
    terminal.sees(&["NO DAEMON", "cannot reach a daemon at control.sock", "└─plain"]);
    let daemon = scratch.up();
    terminal.sees(&[&format!("pid {}", daemon.child.id())]);
    terminal.press(b"q");
    assert_eq!(terminal.ends(), Some(0));
    assert!(terminal.modes() == terminal.before, "{} instead of {}", terminal.modes(), terminal.before);
    daemon.stop();
}

#[test]
fn a_signal_gives_the_terminal_back_too() {
    let scratch = stack();
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let mut terminal = Terminal::start(&scratch);
        terminal.sees(&["NO DAEMON", "cannot reach a daemon at control.sock"]);
        assert_ne!(terminal.modes(), terminal.before);
        terminal.signal(signal);
        assert_eq!(terminal.ends(), Some(0));
        assert!(terminal.modes() == terminal.before, "{} instead of {}", terminal.modes(), terminal.before);
    }
}

#[test]
fn a_device_that_is_not_there_is_an_error() {
    let scratch = stack();
    let daemon = scratch.up();
    scratch.fails("top nosuch --once", 1, &["no device `nosuch`; there are: plain, drive"]);
    daemon.stop();
}
