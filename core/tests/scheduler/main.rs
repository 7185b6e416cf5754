//! I/O schedulers: the order of dispatch, bounds on starvation, and switching under load.

mod in_stack;
mod mq_deadline;
mod starvation;
