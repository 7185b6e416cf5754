//! The `shingle` program: parse, plan, run.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    shingle::cli::main()
}
