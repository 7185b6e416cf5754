# What the programs of this folder that run on the host have in common: they source it. $here is this folder.
# shellcheck shell=bash disable=SC2034

# Where everything is kept. It is below `target`, so `cargo clean` takes it away.
cache=${GUEST_CACHE:-$(dirname "$here")/target/guest}

# The series of kernels, newest first.
all_series=(7.2 6.12)
