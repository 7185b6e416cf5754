//! The `shingle` program: parse, plan, run.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

fn main() -> std::process::ExitCode {
    shingle::cli::main()
}
