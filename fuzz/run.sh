#!/bin/sh
# Builds the fuzz targets and runs them: fuzz/run.sh [target|all] [seconds each] [input to run once]. Fails if one fails.
# See README.md.
set -eu
input=${3:+$(realpath "$3")}
cd "$(dirname "$0")"
targets=${1:-all}
seconds=${2:-5}

# The instrumentation that libFuzzer steers by. Stable Rust has no switch for it, but passes it on to LLVM.
RUSTFLAGS="--cfg fuzzing -Ccodegen-units=1 -Cpasses=sancov-module"
for option in level=4 inline-8bit-counters pc-table trace-compares; do
    RUSTFLAGS="$RUSTFLAGS -Cllvm-args=-sanitizer-coverage-$option"
done
export RUSTFLAGS RUST_BACKTRACE=1
# With --target the flags stay away from build scripts and procedural macros.
host=$(rustc -vV | sed -n 's/^host: //p')
cargo build --quiet --release --locked --target "$host"
program="${CARGO_TARGET_DIR:-target}/$host/release/fuzz"
if [ "$targets" = all ]; then
    # libFuzzer says on standard error what it misses.
    targets=$(FUZZ_TARGET=list "$program" 2> /dev/null)
fi

for target in $targets; do
    # Which target the program runs; libFuzzer reads the arguments.
    export FUZZ_TARGET="$target"
    mkdir -p "corpus/$target" "artifacts/$target"
    if [ -n "$input" ]; then
        "$program" "$input"
        continue
    fi
    log="artifacts/$target/log"
    # len_control=10: longer inputs sooner. Most targets need several messages or operations to get anywhere.
    if ! "$program" "corpus/$target" -artifact_prefix="artifacts/$target/" -max_total_time="$seconds" \
        -max_len=4096 -len_control=10 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 >"$log" 2>&1; then
        tail -n 60 "$log"
        echo "$target failed: the input that does it is in fuzz/artifacts/$target/, see fuzz/README.md" >&2
        exit 1
    fi
    echo "$target: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs in $seconds s, no failure"
done
