//! Drives and links in virtual time: what they promise, and how long they take.

mod bench;
mod desk;

mod array;
mod link;
mod live;
mod live_store;
mod live_swarm;
mod path;
mod smr;
mod zns_ssd;
mod zns_swarm;
