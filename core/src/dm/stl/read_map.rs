//! Reads of the map: nodes that are not in memory, for reads that wait for them; and what lies behind a node if somebody reads in order.

use alloc::collections::VecDeque;

use super::map::Node;
use super::state::{Shared, State};
use super::{BLOCK_BYTES, BLOCK_SECTORS, Lba, Pba};
use crate::block::{Data, Reason};
use crate::prelude::*;

/// Reads of the map at one time.
pub(super) const NODE_READERS: usize = 32;
/// Nodes that are read together where the map is read in order: some 100 MiB of what was written in order.
const ROW: usize = 32;
/// Most blocks between two nodes that are read in order: a header.
const MOST_GAP: u64 = 8;
/// Readers in order that are known at one time.
const READERS: usize = 4;

/// Where reads of the map ended, the last one first: what is read there next is read in order.
#[derive(Debug, Default)]
pub(super) struct Ends(VecDeque<Pba>);

impl Ends {
    /// The map is read from `start` to `end`.
    fn note(&mut self, start: Pba, end: Pba) {
        match self.find(start) {
            Some(at) => drop(self.0.remove(at)),
            None => self.0.truncate(READERS - 1),
        }
        self.0.push_front(end);
    }

    fn find(&self, start: Pba) -> Option<usize> {
        self.0.iter().position(|end| *end <= start && start - *end <= MOST_GAP)
    }
}

/// Reads nodes for reads that wait.
pub(super) async fn run(shared: Shared) {
    let signals = shared.borrow().signals.clone();
    loop {
        let node = signals.nodes.until(|| shared.borrow_mut().wanted_nodes.pop_front()).await;
        let row = shared.borrow_mut().row_of(node);
        let result = match load(&shared, &row).await {
            // Something that nobody asked for may be what cannot be read.
            Err(_) if row.len() > 1 => load(&shared, &row[..1]).await,
            result => result,
        };
        let mut state = shared.borrow_mut();
        let waiters = state.node_waiters.remove(&node.place()).unwrap_or_default();
        match result {
            Ok(()) => state.back.extend(waiters),
            Err(reason) => waiters.into_iter().for_each(|bio| state.end(bio, Err(reason.clone()))),
        }
        state.is_notified = true;
    }
}

impl State {
    /// A node that is waited for, with those behind it that are read together with it.
    fn row_of(&mut self, node: Node) -> Vec<Node> {
        let waiter = self.node_waiters.get(&node.place()).and_then(VecDeque::front);
        let most = if self.map_reads.find(node.place()).is_some() { ROW } else { 1 };
        let row = match waiter {
            Some(bio) if most > 1 => self.map.row(node, Lba(bio.sector.0 / u64::from(BLOCK_SECTORS)), most),
            _ => vec![node],
        };
        self.map_reads.note(node.place(), end(&row));
        row
    }
}

/// Behind the last of nodes in a row.
fn end(row: &[Node]) -> Pba {
    row.last().map_or(Pba::END, |node| node.place() + u64::from(node.blocks()))
}

/// Brings nodes that lie in a row into memory, of which the first is wanted.
pub(super) async fn load(shared: &Shared, row: &[Node]) -> Result<(), Reason> {
    let (wanted, more) = row.split_first().expect("a row has a first one");
    let start = wanted.place();
    let (zone, reading) = {
        let mut state = shared.borrow_mut();
        let (zone, _) = state.disks.set.zone_of(start);
        state.pin(zone);
        (zone, state.disks.read(&state.io, start, (end(row) - start) as u32))
    };
    let data = match reading {
        Ok(reading) => reading.data().await,
        Err(reason) => Err(reason),
    };
    let mut state = shared.borrow_mut();
    state.unpin(zone);
    let data = data?;
    for node in more {
        if let Ok(extents) = node.decode(&bytes_of(*node, start, &data)) {
            state.map.cache.put(*node, extents.into());
        }
    }
    let damaged = |error| Reason::VolumeFailed(format!("block {start} of the map: {error}").into());
    let extents = wanted.decode(&bytes_of(*wanted, start, &data)).map_err(damaged)?;
    // The last one stays, whatever else has no room.
    state.map.cache.put(*wanted, extents.into());
    Ok(())
}

/// The bytes of a node, out of what was read from `start` on.
fn bytes_of(node: Node, start: Pba, data: &Data) -> Vec<u8> {
    data.slice((node.place() - start) as usize * BLOCK_BYTES, node.blocks() as usize * BLOCK_BYTES).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_who_read_the_map_in_order_are_known_and_the_one_that_read_last_is_forgotten_last() {
        let mut ends = Ends::default();
        for step in 0..10 {
            for reader in 0..READERS as u64 {
                let start = Pba(reader * 1000 + step * 10);
                assert_eq!(ends.find(start).is_some(), step > 0, "reader {reader}, step {step}");
                ends.note(start, start + 8);
            }
        }
        (0..READERS as u64).for_each(|other| ends.note(Pba(9000 + other * 100), Pba(9001 + other * 100)));
        assert_eq!((ends.find(Pba(100)), ends.0.len()), (None, READERS));
    }
}
