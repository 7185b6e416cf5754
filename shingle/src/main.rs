//! The `shingle` program: parse, plan, run.
#![forbid(unsafe_code)]
// They panic if nobody reads: `cli::output` prints, and `tracing` says what happens meanwhile.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod cli;
mod log;
mod plain_text;

fn main() -> std::process::ExitCode {
    cli::main()
}
