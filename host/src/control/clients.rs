//! Who is connected to the control socket, and who makes room for others.
//!
//! A place is taken for as long as its client keeps the daemon busy. When all are taken, the client that has kept the daemon
//! waiting for longest, for a request or to take a response, has to go: those that say nothing cannot shut out one that asks.

use std::io::{self, ErrorKind as IoErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Most clients at a time; as many again may be on their way out.
pub(super) const MOST_CLIENTS: usize = 16;
/// Bytes of a response that are written at once: one buffer of the kernel.
const PIECE: usize = 16 << 10;
/// How long a client may take for a request.
const SILENCE: Duration = Duration::from_secs(60);
/// How long a client may take to read a response.
const SLOWNESS: Duration = Duration::from_secs(10);
/// How long a new client waits for those on their way out.
const CROWDED: Duration = Duration::from_secs(1);
/// How long it may take when others want its place.
const SLOWNESS_IN_A_CROWD: Duration = Duration::from_secs(1);

/// All clients.
#[derive(Default)]
pub(super) struct Clients {
    list: Mutex<Vec<Arc<Client>>>,
    /// Somebody is gone.
    left: Condvar,
}

/// A client.
pub(super) struct Client {
    stream: UnixStream,
    state: Mutex<State>,
}

struct State {
    waits: Waits,
    has_to_go: bool,
}

/// What the daemon waits for, and since when.
#[derive(Clone, Copy)]
enum Waits {
    ForRequest(Instant),
    ForReader(Instant),
    No,
    /// For nothing, and it has no place: its request is served without one.
    Elsewhere,
}

impl Clients {
    /// Takes in a client, in the place of another one if there is none free.
    ///
    /// # Errors
    /// If all others keep the daemon busy: what to tell this one.
    pub fn admit(&self, stream: UnixStream, now: Instant) -> Result<Arc<Client>, (UnixStream, String)> {
        let count = |list: &Vec<Arc<Client>>| list.iter().filter(|client| !client.is_elsewhere()).count();
        let too_many = |list: &mut Vec<Arc<Client>>| count(list) >= 2 * MOST_CLIENTS;
        let waited = self.left.wait_timeout_while(lock(&self.list), CROWDED, too_many);
        let (mut list, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let staying: Vec<&Arc<Client>> = list.iter().filter(|client| client.has_place()).collect();
        let is_full = staying.len() >= MOST_CLIENTS;
        // The first of those that are as slow: they are in the order in which they came.
        let slowest = staying.iter().rev().filter_map(|client| Some((client.kept_waiting(now)?, *client)));
        let slowest = slowest.max_by_key(|(waited, _)| *waited).map(|(_, client)| client.clone());
        if count(&list) >= 2 * MOST_CLIENTS || is_full && slowest.is_none() {
            return Err((stream, format!("{MOST_CLIENTS} clients are being served already: try again later")));
        }
        if is_full {
            slowest.iter().for_each(|client| client.evict());
        }
        let state = Mutex::new(State { waits: Waits::ForRequest(now), has_to_go: false });
        let client = Arc::new(Client { stream, state });
        list.push(client.clone());
        Ok(client)
    }

    /// Whether all places are taken: the next client is in the place of another one.
    pub fn is_crowded(&self) -> bool {
        lock(&self.list).iter().filter(|client| !client.is_elsewhere()).count() >= MOST_CLIENTS
    }

    /// A client is gone.
    pub fn release(&self, gone: &Arc<Client>) {
        lock(&self.list).retain(|client| !Arc::ptr_eq(client, gone));
        self.left.notify_all();
    }
}

impl Client {
    /// The user at the other end, and its process, as the kernel knows them.
    pub fn peer(&self) -> Option<(u32, i32)> {
        shingle_sys::unix::peer(&self.stream).ok()
    }

    /// Whether it has to make room for others.
    pub fn has_to_go(&self) -> bool {
        lock(&self.state).has_to_go
    }

    fn is_elsewhere(&self) -> bool {
        matches!(lock(&self.state).waits, Waits::Elsewhere)
    }

    /// Whether it has one of the places, and keeps it.
    fn has_place(&self) -> bool {
        let state = lock(&self.state);
        !state.has_to_go && !matches!(state.waits, Waits::Elsewhere)
    }

    /// Gives its place to others while its request is served, which can take long. The number of such requests has a bound of its own. It has a
    /// place again when this is dropped, also if all are taken by then.
    pub fn give_up_place(&self) -> Elsewhere<'_> {
        self.wait(Waits::Elsewhere);
        Elsewhere(self)
    }

    /// For how long it has kept the daemon waiting, if that is a reason for it to go.
    fn kept_waiting(&self, now: Instant) -> Option<Duration> {
        match lock(&self.state).waits {
            Waits::ForRequest(since) => Some(now.saturating_duration_since(since)),
            Waits::ForReader(since) => {
                Some(now.saturating_duration_since(since)).filter(|waited| *waited >= SLOWNESS_IN_A_CROWD)
            }
            Waits::No | Waits::Elsewhere => None,
        }
    }

    /// Ends the wait. A request that it has sent already is still read and answered.
    fn evict(&self) {
        let mut state = lock(&self.state);
        state.has_to_go = true;
        let how = if matches!(state.waits, Waits::ForReader(_)) { Shutdown::Both } else { Shutdown::Read };
        // It fails only if the client is gone by itself.
        let _ = self.stream.shutdown(how);
    }

    fn wait(&self, waits: Waits) {
        lock(&self.state).waits = waits;
    }

    /// Takes what it sends next. `since`: when it could begin with its request. Nothing is the end.
    pub fn read(&self, since: Instant, into: &mut [u8]) -> io::Result<usize> {
        self.wait(Waits::ForRequest(since));
        self.stream.set_read_timeout(Some(left_of(SILENCE, since)?))?;
        let read = (&self.stream).read(into);
        self.wait(Waits::No);
        read
    }

    /// Has it take a response.
    pub fn send(&self, line: &[u8]) -> io::Result<()> {
        self.send_within(SLOWNESS, line)
    }

    fn send_within(&self, patience: Duration, mut line: &[u8]) -> io::Result<()> {
        let since = Instant::now();
        self.wait(Waits::ForReader(since));
        while !line.is_empty() {
            self.stream.set_write_timeout(Some(left_of(patience, since)?))?;
            // The kernel begins the time anew with each buffer that it fills.
            match (&self.stream).write(&line[..line.len().min(PIECE)]) {
                Ok(0) => return Err(IoErrorKind::WriteZero.into()),
                Ok(count) => line = &line[count..],
                Err(error) if error.kind() == IoErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.wait(Waits::No);
        Ok(())
    }
}

/// The time in which a client has no place.
pub(super) struct Elsewhere<'a>(&'a Client);

impl Drop for Elsewhere<'_> {
    fn drop(&mut self) {
        self.0.wait(Waits::No);
    }
}

/// What is left of `patience`; an error if it is at its end.
fn left_of(patience: Duration, since: Instant) -> io::Result<Duration> {
    let left = patience.saturating_sub(since.elapsed());
    if left.is_zero() { Err(IoErrorKind::TimedOut.into()) } else { Ok(left) }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admit(clients: &Clients, now: Instant) -> Option<(Arc<Client>, UnixStream)> {
        let (ours, theirs) = UnixStream::pair().unwrap();
        clients.admit(ours, now).ok().map(|client| (client, theirs))
    }

    /// Clients in all places; number n came after n seconds.
    fn crowd(waits: impl Fn(Instant) -> Waits) -> (Clients, Vec<(Arc<Client>, UnixStream)>, Instant) {
        let (clients, start) = (Clients::default(), Instant::now());
        let at = |n: usize| start + Duration::from_secs(n as u64);
        let all: Vec<_> = (0..MOST_CLIENTS).map(|n| admit(&clients, at(n)).unwrap()).collect();
        all.iter().enumerate().for_each(|(n, (client, _))| client.wait(waits(at(n))));
        (clients, all, at(MOST_CLIENTS))
    }

    #[test]
    fn the_client_that_was_silent_for_longest_makes_room_and_what_it_has_sent_is_still_read() {
        let (clients, all, now) = crowd(Waits::ForRequest);
        (&all[0].1).write_all(b"hello").unwrap();
        assert!(admit(&clients, now).is_some());
        let gone: Vec<usize> = (0..MOST_CLIENTS).filter(|n| all[*n].0.has_to_go()).collect();
        assert_eq!(gone, [0]);
        let mut heard = [0; 8];
        assert_eq!(all[0].0.read(Instant::now(), &mut heard).unwrap(), 5);
        assert_eq!(all[0].0.read(Instant::now(), &mut heard).unwrap(), 0);
    }

    #[test]
    fn a_client_that_does_not_read_makes_room_but_is_given_a_moment() {
        let (clients, all, now) = crowd(Waits::ForReader);
        assert!(admit(&clients, now - Duration::from_secs(MOST_CLIENTS as u64)).is_none());
        assert!(admit(&clients, now).is_some());
        assert!(all[0].0.has_to_go() && !all[1].0.has_to_go());
        assert!(all[0].0.send(b"too late").is_err());
    }

    #[test]
    fn clients_that_are_being_served_are_not_disturbed() {
        let (clients, all, now) = crowd(|_| Waits::No);
        assert!(admit(&clients, now).is_none());
        assert!(all.iter().all(|(client, _)| !client.has_to_go()));
        clients.release(&all[3].0);
        assert!(admit(&clients, now).is_some());
    }

    #[test]
    fn a_reload_that_waits_gives_its_slot_back() {
        let (clients, all, now) = crowd(|_| Waits::No);
        assert!(admit(&clients, now).is_none() && clients.is_crowded());
        let elsewhere = all[0].0.give_up_place();
        assert!(!clients.is_crowded());
        let (another, _theirs) = admit(&clients, now).expect("there is a place");
        another.wait(Waits::No);
        assert!(admit(&clients, now).is_none(), "one place, for one client");
        drop(elsewhere);
        clients.release(&another);
        assert!(admit(&clients, now).is_none(), "it has its place again");
    }

    #[test]
    fn those_on_their_way_out_are_bounded_too() {
        let (clients, start) = (Clients::default(), Instant::now());
        let admitted: Vec<_> = (0..=2 * MOST_CLIENTS).filter_map(|_| admit(&clients, start)).collect();
        assert_eq!(admitted.len(), 2 * MOST_CLIENTS);
    }

    #[test]
    fn a_client_that_takes_a_response_in_drips_does_not_take_for_ever() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let client = Clients::default().admit(ours, Instant::now()).map_err(|(_, why)| why).unwrap();
        let dripping = std::thread::spawn(move || {
            let mut drop = [0; 4096];
            while (&theirs).read(&mut drop).is_ok_and(|count| count > 0) {
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        // A hundred times of what it takes in this time.
        let sent = client.send_within(Duration::from_millis(50), &vec![0; 10 << 20]);
        assert!(matches!(sent.unwrap_err().kind(), IoErrorKind::TimedOut | IoErrorKind::WouldBlock));
        drop(client);
        dripping.join().unwrap();
    }
}
