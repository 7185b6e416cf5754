//! Who is being served: at most so many, and who idles makes room.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::AbortHandle;

/// Most clients at a time.
const MOST_CLIENTS: usize = 64;
/// How long an answer may wait for its client while others wait for its place.
const LINGER: Duration = Duration::from_secs(1);

/// What a client is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It has not sent a whole request.
    Silent,
    /// Its answer is being made.
    Served,
    /// It has not taken the answer.
    Answered,
}

struct Client {
    id: u64,
    stage: Stage,
    since: Instant,
    /// What ends it; not at once there.
    end: Option<AbortHandle>,
}

/// All places.
#[derive(Default)]
pub(super) struct Places(Mutex<(u64, Vec<Client>)>);

impl Places {
    fn lock(&self) -> MutexGuard<'_, (u64, Vec<Client>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a new client, if there is one.
    pub fn take(self: &Arc<Self>) -> Option<Arc<Place>> {
        let (next, clients) = &mut *self.lock();
        if clients.len() >= MOST_CLIENTS {
            return None;
        }
        *next += 1;
        clients.push(Client { id: *next, stage: Stage::Silent, since: Instant::now(), end: None });
        Some(Arc::new(Place { id: *next, places: self.clone() }))
    }

    /// Sends away the client that has been silent for longest, or else the one that has not taken its answer for longest. Whether there was
    /// one: its place is free soon.
    pub fn make_room(&self) -> bool {
        let (_, clients) = &*self.lock();
        let oldest = |stage, age| {
            let idle = clients.iter().filter(|client| client.stage == stage && client.since.elapsed() >= age);
            idle.filter_map(|client| Some((client.since, client.end.as_ref()?))).min_by_key(|(since, _)| *since)
        };
        let victim = oldest(Stage::Silent, Duration::ZERO).or_else(|| oldest(Stage::Answered, LINGER));
        victim.inspect(|(_, end)| end.abort()).is_some()
    }
}

/// The place of a client, and of the work for it. It is free when this is dropped.
pub(super) struct Place {
    id: u64,
    places: Arc<Places>,
}

impl Place {
    fn change(&self, change: impl FnOnce(&mut Client)) {
        if let Some(client) = self.places.lock().1.iter_mut().find(|client| client.id == self.id) {
            change(client);
        }
    }

    /// How this client is sent away.
    pub fn ends_with(&self, end: AbortHandle) {
        self.change(|client| client.end = Some(end));
    }

    /// It has sent its request.
    pub fn asked(&self) {
        self.change(|client| (client.stage, client.since) = (Stage::Served, Instant::now()));
    }

    /// Its answer is there.
    pub fn answered(&self) {
        self.change(|client| (client.stage, client.since) = (Stage::Answered, Instant::now()));
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.lock().1.retain(|client| client.id != self.id);
    }
}
