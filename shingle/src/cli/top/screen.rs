//! The terminal: what is typed becomes inputs, frames are drawn, and it is given back as it was, whatever ends the program.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::draw::draw;
use super::model::{Input, Key, Top};
use super::poll::{self, Poller, Wish};
use crate::cli::CliError;

/// Inputs that wait at most; who has more waits, too.
const MOST_INPUTS: usize = 64;

/// What a terminal does to the program.
enum Happened {
    Input(Input),
    /// A signal, or the terminal is gone.
    End,
    /// A thread has panicked, and said so.
    Broken,
}

/// Shows `top` until it is told to end.
pub fn run(mut top: Top, poller: Poller, start: Instant, has_colour: bool) -> Result<(), CliError> {
    if !std::io::stdout().is_terminal() {
        return Err(CliError::usage("stdout is no terminal: use --once for text"));
    }
    let failed = |error: std::io::Error| CliError::failed(format!("cannot use the terminal: {error}"));
    let (sender, happened) = mpsc::sync_channel(MOST_INPUTS);
    let signals = Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(failed)?;
    // It gives the terminal back upon a panic, too, of whatever thread.
    let mut terminal = ratatui::try_init().map_err(|error| {
        // It may have come half of the way.
        let _ = ratatui::try_restore();
        failed(error)
    })?;
    let size = terminal.size().map_err(failed);
    let shown = size.and_then(|size| {
        top.apply(Input::Size(size.width, size.height));
        let wish = Arc::new(Wish::new(top.want()));
        listen(poller, &wish, &sender, signals)?;
        drop(sender);
        show(&mut top, &happened, |top| {
            wish.tell(top.want());
            let frame = top.frame();
            let drawn = terminal.draw(|canvas| draw(&frame, has_colour, canvas.area(), canvas.buffer_mut()));
            drawn.map(|_| start.elapsed()).map_err(failed)
        })
    });
    ratatui::restore();
    shown
}

/// Takes in what happens and has it drawn, all that has come in the meantime at once.
fn show(
    top: &mut Top,
    happened: &Receiver<Happened>,
    mut draw: impl FnMut(&Top) -> Result<Duration, CliError>,
) -> Result<(), CliError> {
    loop {
        let clock = draw(top)?;
        top.apply(Input::Clock(clock));
        let mut next = match happened.recv_timeout(Duration::from_secs(1)) {
            Ok(first) => Some(first),
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return Err(CliError::failed("nobody reads the keyboard any more")),
        };
        for _ in 0..MOST_INPUTS {
            match next {
                Some(Happened::Input(input)) => top.apply(input),
                Some(Happened::End) => return Ok(()),
                Some(Happened::Broken) => {
                    return Err(CliError::failed("a thread has panicked: what it said is a bug to report"));
                }
                None => break,
            }
            next = happened.try_recv().ok();
        }
        if top.has_ended() {
            return Ok(());
        }
    }
}

/// Starts those who wait for the daemon, the keyboard and signals. They end with the program.
fn listen(
    poller: Poller,
    wish: &Arc<Wish>,
    sender: &SyncSender<Happened>,
    mut signals: Signals,
) -> Result<(), CliError> {
    let failed = |error: std::io::Error| CliError::failed(format!("cannot start a thread: {error}"));
    let start = |name: &str, work: Box<dyn FnOnce() + Send>| {
        thread::Builder::new().name(name.into()).spawn(work).map(drop).map_err(failed)
    };
    let (wish, out) = (wish.clone(), Ends(sender.clone()));
    start("poll", Box::new(move || poll::run(poller, &wish, &|input| out.send(input))))?;
    let out = Ends(sender.clone());
    start(
        "keys",
        Box::new(move || while event::read().is_ok_and(|event| input_of(event).is_none_or(|key| out.send(key))) {}),
    )?;
    let out = Ends(sender.clone());
    start(
        "signals",
        Box::new(move || {
            signals.forever().next();
            drop(out);
        }),
    )
}

/// A thread's end, whatever it comes from, is that of the program.
struct Ends(SyncSender<Happened>);

impl Ends {
    fn send(&self, input: Input) -> bool {
        self.0.send(Happened::Input(input)).is_ok()
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.send(if thread::panicking() { Happened::Broken } else { Happened::End });
    }
}

fn input_of(event: Event) -> Option<Input> {
    match event {
        Event::Resize(columns, rows) => Some(Input::Size(columns, rows)),
        Event::Key(key) if key.kind != KeyEventKind::Release => key_of(key).map(Input::Key),
        _ => None,
    }
}

fn key_of(KeyEvent { code, modifiers, .. }: KeyEvent) -> Option<Key> {
    let has_control = modifiers.contains(KeyModifiers::CONTROL);
    Some(match code {
        KeyCode::Char('c') if has_control => Key::Interrupt,
        KeyCode::Char(_) if has_control || modifiers.contains(KeyModifiers::ALT) => return None,
        KeyCode::Char(char) => Key::Char(char),
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Tab => Key::Tab,
        KeyCode::BackTab => Key::BackTab,
        _ => return None,
    })
}
