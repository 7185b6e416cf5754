//! Workloads, their replay, and the model that all random worlds are held to.

mod file_writer;
mod fio_workload;
mod plug_throughput;
mod replay;
mod sim_model;
mod xfs_workload;
