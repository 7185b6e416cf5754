//! "Something changed": how tasks wait for state that others change.

use alloc::rc::Rc;
use core::cell::RefCell;
use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::{Poll, Waker};

use crate::prelude::*;

/// Wakes all tasks that wait at it. Clones are the same.
#[derive(Clone, Default)]
pub struct Signal(Rc<RefCell<Vec<Waker>>>);

impl Signal {
    /// Tells everybody who waits to look again.
    pub fn notify(&self) {
        // Whoever wakes a task only notes it: none looks again in here, and the memory of the list stays.
        self.0.borrow_mut().drain(..).for_each(Waker::wake);
    }

    /// Waits until `ready` has something, looking now and whenever [`Signal::notify`] was called.
    pub async fn until<T>(&self, mut ready: impl FnMut() -> Option<T>) -> T {
        poll_fn(|cx| match ready() {
            Some(value) => Poll::Ready(value),
            None => {
                let mut waiting = self.0.borrow_mut();
                if !waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                    waiting.push(cx.waker().clone());
                }
                Poll::Pending
            }
        })
        .await
    }

    /// The same, but no longer than until `end`: `None` if that came first.
    pub async fn until_or<T>(&self, end: impl Future<Output = ()>, ready: impl FnMut() -> Option<T>) -> Option<T> {
        let (mut end, mut ready) = (pin!(end), pin!(self.until(ready)));
        poll_fn(|cx| match ready.as_mut().poll(cx) {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            Poll::Pending => end.as_mut().poll(cx).map(|()| None),
        })
        .await
    }
}
