//! Published measurements beside those of the simulated drives, and the load generator.

mod drive_measured;
mod drive_tables;
mod generator;
