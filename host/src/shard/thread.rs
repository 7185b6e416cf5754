//! A shard on a thread of its own.

use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use super::{Mailbox, Shard, ShardError};
use crate::mailbox::MailboxError;

/// From now on this thread, and those that it starts, take memory without writing anything out for it (`PR_SET_IO_FLUSHER`): what is
/// written out might come back to them as a bio, from a block device or through the kernel's NBD client. Without the right to do so
/// nothing changes; a front end that cannot do without says that itself.
pub(crate) fn never_wait_for_own_writes() {
    let _ = rustix::process::configure_io_flusher_behavior(true);
}

/// A shard on a thread of its own.
pub struct ShardThread {
    mailbox: Mailbox,
    thread: JoinHandle<Result<(), ShardError>>,
}

impl ShardThread {
    /// Starts a thread with a shard that `build` has furnished; returns when that is done, with what it returned.
    pub fn start<R: Send + 'static, E: From<ShardError> + Send + 'static>(
        name: &str,
        build: impl FnOnce(&mut Shard) -> Result<R, E> + Send + 'static,
    ) -> Result<(Self, R), E> {
        let (sender, built) = mpsc::sync_channel(1);
        let body = move || {
            never_wait_for_own_writes();
            let furnished = Shard::new().map_err(E::from).and_then(|mut shard| {
                let result = build(&mut shard)?;
                Ok((shard, result))
            });
            match furnished {
                Ok((mut shard, result)) => {
                    let _ = sender.send(Ok((shard.mailbox(), result)));
                    shard.run()
                }
                Err(error) => {
                    let _ = sender.send(Err(error));
                    Ok(())
                }
            }
        };
        let thread = thread::Builder::new().name(name.into()).spawn(body).map_err(ShardError::Thread)?;
        match built.recv() {
            Ok(Ok((mailbox, result))) => Ok((Self { mailbox, thread }, result)),
            Ok(Err(error)) => Err(error),
            Err(mpsc::RecvError) => Err(ShardError::Panicked.into()),
        }
    }

    /// The way to ask the shard.
    #[must_use]
    pub fn mailbox(&self) -> &Mailbox {
        &self.mailbox
    }

    /// Whether the shard has ended, asked or not.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Asks for the end, see [`Shard::stop`], and waits for it.
    pub fn stop(self) -> Result<(), ShardError> {
        loop {
            match self.mailbox.post(Shard::stop) {
                // A full mailbox is read sooner or later, or its shard is gone.
                Err(MailboxError::Full) if !self.thread.is_finished() => thread::yield_now(),
                _ => break,
            }
        }
        self.join()
    }

    /// Waits for the end without asking for it.
    pub fn join(self) -> Result<(), ShardError> {
        self.thread.join().unwrap_or(Err(ShardError::Panicked))
    }
}
