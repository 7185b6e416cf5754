//! Who changes how clients come, and how they are treated, while they do.

use std::sync::Arc;

use shingle_core::frontend::nbd::SessionLimits;
use shingle_core::random::Rng;
use shingle_core::time::{Duration, Instant};
use shingle_host::serve::Directory;
use shingle_host::serve::listen::{Address, Listener};
use shingle_host::serve::nbd::{Nbd, NbdOptions};
use shingle_host::tls::TlsServer;

use super::net::{Bug, Net};

/// After so many deeds it is content: a world in which nothing happens any more is to be found.
const MOST_DEEDS: u64 = 20;
/// How long a home has to do as it is told.
const PATIENCE: Duration = Duration::from_millis(5);

/// Listens for clients, and changes its mind if it is a restless one.
pub struct Operator {
    rng: Rng,
    nbd: Nbd,
    options: NbdOptions,
    listener: Listener,
    directory: Directory,
    tls: Option<Arc<TlsServer>>,
    /// When it does something next; `None`: it is content.
    next: Option<Instant>,
    /// Since when nobody is to be let in.
    left: Option<Instant>,
    deeds: u64,
}

impl Operator {
    /// Lets clients come who choose from `directory`.
    pub fn new(
        seed: u64,
        (nbd, options): (&Nbd, NbdOptions),
        directory: Directory,
        tls: Option<Arc<TlsServer>>,
    ) -> Result<Self, String> {
        let mut rng = Rng::new(seed ^ 0x0b5e_55ed);
        // Nobody connects here: clients come from the simulated kernel.
        let address = Address::Tcp(([127, 0, 0, 1], 0).into());
        let listener = Listener::bind(&address).map_err(|error| error.to_string())?;
        let next = rng.chance(1, 2).then(|| Instant::ZERO + Duration::from_micros(rng.below(5_000)));
        let new = Self { rng, nbd: nbd.clone(), options, listener, directory, tls, next, left: None, deeds: 0 };
        new.listen()?;
        Ok(new)
    }

    fn listen(&self) -> Result<(), String> {
        let listener = self.listener.share().map_err(|error| error.to_string())?;
        let homes = std::slice::from_ref(&self.nbd);
        self.nbd.listen(listener, &self.directory, homes, self.tls.clone()).map_err(|error| error.to_string())
    }

    /// Looks at what it has done, and does something if it is time.
    pub fn turn(&mut self, net: &mut Net, now: Instant) -> Result<(), String> {
        if self.left.is_some_and(|left| now.since(left) > PATIENCE) && net.lets_in() {
            return Err("a client is let in where nobody listens any more".into());
        }
        if self.next.is_some_and(|next| next <= now) {
            self.act(net.bug, now)?;
            self.deeds += 1;
            let is_content = self.deeds >= MOST_DEEDS && self.left.is_none();
            self.next = (!is_content).then(|| now + Duration::from_micros(self.rng.below(20_000)));
        }
        net.wakes_at = self.next;
        Ok(())
    }

    fn act(&mut self, bug: Bug, now: Instant) -> Result<(), String> {
        if self.left.take().is_some() {
            return self.listen();
        }
        let done = match self.rng.below(3) {
            // What is offered there is offered anew.
            0 => return self.listen(),
            1 => {
                self.left = Some(now);
                if bug == Bug::NotLeft { Ok(()) } else { self.nbd.leave(self.listener.address()) }
            }
            _ => {
                let session = SessionLimits { requests: 2 + self.rng.below(8) as usize, ..self.options.session };
                // The longest request has to fit.
                let memory_bytes = 128 << 10 << self.rng.below(3);
                let options =
                    NbdOptions { session, memory_bytes, keep_bytes: memory_bytes / 2, ..self.options.clone() };
                self.nbd.treat(options)
            }
        };
        done.map_err(|error| error.to_string())
    }
}
