//! How other threads ask a thread with a ring for something: a bounded queue of closures, and an eventfd that ends its sleep.

use std::any::Any;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::time::Duration;

use rustix::event::EventfdFlags;
use shingle_core::impl_error;

/// Something to do on the thread of `T`, between two turns.
pub type Message<T> = Box<dyn FnOnce(&mut T) + Send>;

/// Most messages that wait in one mailbox.
const MOST_MESSAGES: usize = 256;
/// How long [`Mailbox::ask`] waits for an answer that is overdue.
const PATIENCE: Duration = Duration::from_secs(10);

/// The sending end. Any number of threads may have one.
pub struct Mailbox<T> {
    sender: SyncSender<Message<T>>,
    wake: Arc<OwnedFd>,
}

impl<T> Clone for Mailbox<T> {
    fn clone(&self) -> Self {
        Self { sender: self.sender.clone(), wake: self.wake.clone() }
    }
}

/// The receiving end.
pub(crate) struct Inbox<T> {
    receiver: Receiver<Message<T>>,
    wake: Arc<OwnedFd>,
}

/// A new mailbox, both ends.
pub(crate) fn new<T>() -> io::Result<(Mailbox<T>, Inbox<T>)> {
    let wake = Arc::new(rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let (sender, receiver) = mpsc::sync_channel(MOST_MESSAGES);
    Ok((Mailbox { sender, wake: wake.clone() }, Inbox { receiver, wake }))
}

impl<T> Mailbox<T> {
    /// Has `message` run there soon. Messages of one thread run in their order.
    pub fn post(&self, message: impl FnOnce(&mut T) + Send + 'static) -> Result<(), MailboxError> {
        self.sender.try_send(Box::new(message)).map_err(|error| match error {
            TrySendError::Full(_) => MailboxError::Full,
            TrySendError::Disconnected(_) => MailboxError::Stopped,
        })?;
        self.wake();
        Ok(())
    }

    /// The same for who can wait until there is room, and has nobody to tell that there was none. Whether it arrived.
    pub(crate) fn deliver(&self, message: impl FnOnce(&mut T) + Send + 'static) -> bool {
        let arrived = self.sender.send(Box::new(message)).is_ok();
        self.wake();
        arrived
    }

    fn wake(&self) {
        // The counter is full only if the shard has not looked for a very long time; then it is awake already.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Runs `question` there and waits for what it returns.
    pub fn ask<R: Send + 'static>(
        &self,
        question: impl FnOnce(&mut T) -> R + Send + 'static,
    ) -> Result<R, MailboxError> {
        self.ask_later(|thread, reply| reply.send(question(thread)))
    }

    /// Runs `question` there and waits until somebody there uses the [`Reply`].
    pub fn ask_later<R: Send + 'static>(
        &self,
        question: impl FnOnce(&mut T, Reply<R>) + Send + 'static,
    ) -> Result<R, MailboxError> {
        self.ask_slowly(Duration::ZERO, question)
    }

    /// The same for a question whose answer may take `time` by itself.
    pub fn ask_slowly<R: Send + 'static>(
        &self,
        time: Duration,
        question: impl FnOnce(&mut T, Reply<R>) + Send + 'static,
    ) -> Result<R, MailboxError> {
        let (sender, answer) = mpsc::sync_channel(1);
        self.post(move |thread| question(thread, Reply { sender, answer: PhantomData }))?;
        let answer = receive(&answer, time + PATIENCE)?;
        Ok(*answer.downcast().expect("a reply sends what it is a reply of"))
    }
}

/// An answer of any type: with a channel for each type, the code of channels would be there some fifty times.
type Answer = Box<dyn Any + Send>;

fn receive(answer: &Receiver<Answer>, time: Duration) -> Result<Answer, MailboxError> {
    answer.recv_timeout(time).map_err(|error| match error {
        RecvTimeoutError::Timeout => MailboxError::NoAnswer,
        RecvTimeoutError::Disconnected => MailboxError::Stopped,
    })
}

/// The way back to a thread that asked.
pub struct Reply<R> {
    sender: SyncSender<Answer>,
    answer: PhantomData<fn(R)>,
}

impl<R: Send + 'static> Reply<R> {
    /// Answers.
    pub fn send(self, answer: R) {
        // Who asked may have lost patience.
        let _ = self.sender.try_send(Box::new(answer));
    }
}

impl<T> Inbox<T> {
    /// The file that becomes readable with a message.
    pub fn wake(&self) -> io::Result<OwnedFd> {
        self.wake.as_fd().try_clone_to_owned()
    }

    /// Makes the file unreadable again. To be called before the messages are taken, so that none is slept through.
    pub fn rearm(&self) {
        // It fails only if there is nothing to read.
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
    }

    /// Takes the next message.
    pub fn take(&self) -> Option<Message<T>> {
        self.receiver.try_recv().ok()
    }
}

/// Error of asking a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailboxError {
    /// Too many messages wait.
    Full,
    /// The shard has ended, or dropped the question.
    Stopped,
    /// It takes too long.
    NoAnswer,
}

impl_error!(MailboxError, |self, f| match self {
    Self::Full => write!(f, "the shard has {MOST_MESSAGES} unread messages: try again later"),
    Self::Stopped => write!(f, "the shard has stopped: start the daemon again"),
    Self::NoAnswer => write!(
        f,
        "no answer from the shard in {} s: I/O below it may be stuck, see `shingle status`",
        PATIENCE.as_secs()
    ),
});
