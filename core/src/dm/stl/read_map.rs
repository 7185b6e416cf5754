//! Reads of the map: nodes that are not in memory, for reads that wait for them; and what lies behind a node if somebody reads in order.

use alloc::collections::VecDeque;

use super::map::Node;
use super::policy::follows;
use super::read::Pinned;
use super::state::{Shared, State};
use super::{BLOCK_BYTES, BLOCK_SECTORS, Lba, Pba};
use crate::block::{Data, Reason};
use crate::prelude::*;

/// Reads of the map at one time.
pub(super) const NODE_READERS: usize = 32;
/// Nodes that are read together where the map is read in order: some 100 MiB of what was written in order.
pub(super) const ROW: usize = 32;

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
        let is_in_order = self.map_reads.take(|end| follows(*end, node.place())).is_some();
        let row = match waiter {
            Some(bio) if is_in_order => self.map.row(node, Lba(bio.sector.0 / u64::from(BLOCK_SECTORS)), ROW),
            _ => vec![node],
        };
        self.map_reads.put(end(&row));
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
    let reading = Pinned::begin(&mut shared.borrow_mut(), start, (end(row) - start) as u32);
    let data = reading.data(shared).await?;
    let mut state = shared.borrow_mut();
    let size = state.map.leaf_size;
    for node in more {
        if let Ok(extents) = node.decode(size, &bytes_of(*node, start, &data)) {
            state.map.cache.put(*node, extents.into());
        }
    }
    let damaged = |error| Reason::VolumeFailed(format!("block {start} of the map: {error}").into());
    let extents = wanted.decode(size, &bytes_of(*wanted, start, &data)).map_err(damaged)?;
    // The last one stays, whatever else has no room.
    state.map.cache.put(*wanted, extents.into());
    Ok(())
}

/// The bytes of a node, out of what was read from `start` on.
fn bytes_of(node: Node, start: Pba, data: &Data) -> Vec<u8> {
    data.slice((node.place() - start) as usize * BLOCK_BYTES, node.blocks() as usize * BLOCK_BYTES).to_vec()
}
