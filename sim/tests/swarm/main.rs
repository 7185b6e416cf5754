//! Random scenarios by their seeds, with faults and power cuts: no promise of a disk, a plug, a table or a volume is broken.

mod determinism;
mod dmzoned;
mod paths;
mod stl;
mod ublk;
mod zoned;
