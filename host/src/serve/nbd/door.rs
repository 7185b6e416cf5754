//! Where clients of a home come in, and what they are offered there.

use std::cell::RefCell;
use std::rc::Rc;

use super::connection::Connection;
use super::offer::Offer;
use super::{NbdOptions, NbdShard};
use crate::serve::listen::{Address, Listener};
use crate::serve::{Acceptor, Terms};
use crate::shard::SourceCx;

/// An acceptor of a home.
pub(super) struct Door {
    address: Address,
    /// What those are offered who come next.
    offer: Rc<RefCell<Offer>>,
    terms: Rc<Terms>,
}

impl Door {
    /// Lets clients of `listener` in, and offers them this. If they are let in there already they are offered something else.
    pub fn open(home: &Rc<NbdShard>, (listener, offer): (Listener, Offer), cx: &mut SourceCx<'_>) {
        let address = listener.address().clone();
        if let Some(door) = home.doors.borrow().iter().find(|door| door.address == address) {
            *door.offer.borrow_mut() = offer;
            return;
        }
        let offer = Rc::new(RefCell::new(offer));
        let (offered, its_home) = (offer.clone(), home.clone());
        let welcome = move |client, handshake, now| {
            Connection::new(client, handshake, offered.borrow().clone(), its_home.clone(), now)
        };
        let NbdOptions { connections, log, .. } = home.options().clone();
        let acceptor = Acceptor::new(listener, (connections, log), welcome);
        home.doors.borrow_mut().push(Self { address, offer, terms: acceptor.terms() });
        cx.spawn(Box::new(acceptor));
    }

    /// Lets no more clients in at `address`.
    pub fn close(home: &NbdShard, address: &Address, cx: &mut SourceCx<'_>) {
        home.doors.borrow_mut().extract_if(.., |door| door.address == *address).for_each(|door| door.terms.end(cx));
    }

    /// Lets `most` clients in at once.
    pub fn admit(&self, most: usize) {
        self.terms.admit(most);
    }
}
