//! Requests in the order of their arrival: a doubly linked list through the store of all requests.

use slab::Slab;

use super::mq_deadline::Request;

pub(super) const NIL: u32 = u32::MAX;

/// The places of a request's neighbours in a [`Fifo`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    older: u32,
    newer: u32,
}

impl Links {
    pub const NONE: Links = Links { older: NIL, newer: NIL };
}

/// A list of requests, oldest first. Every request is in one list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fifo {
    oldest: u32,
    newest: u32,
}

impl Fifo {
    pub const EMPTY: Fifo = Fifo { oldest: NIL, newest: NIL };

    pub fn oldest(&self) -> Option<u32> {
        (self.oldest != NIL).then_some(self.oldest)
    }

    pub fn push(&mut self, id: u32, requests: &mut Slab<Request>) {
        requests[id as usize].links = Links { older: self.newest, newer: NIL };
        match self.newest {
            NIL => self.oldest = id,
            newest => requests[newest as usize].links.newer = id,
        }
        self.newest = id;
    }

    pub fn remove(&mut self, id: u32, requests: &mut Slab<Request>) {
        let Links { older, newer } = requests[id as usize].links;
        match older {
            NIL => self.oldest = newer,
            older => requests[older as usize].links.newer = newer,
        }
        match newer {
            NIL => self.newest = older,
            newer => requests[newer as usize].links.older = older,
        }
    }
}
