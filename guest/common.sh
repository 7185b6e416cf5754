# What the programs of this folder that run on the host have in common: they source it. $here is this folder.
# shellcheck shell=bash disable=SC2034

# What guests are booted from, kept for all checkouts of this user. GUEST_CACHE names another folder.
kept=${GUEST_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/shingle/guest}

# The images of this checkout. Checkouts with the same scripts share them, and one whose scripts differ makes its own.
images=$kept/$(cat "$here/build" "$here/initrd-init" | sha256sum | cut -c1-16)

# What this checkout has of its own: runs, with consoles, logs and what tests left.
results=${CARGO_TARGET_DIR:-$(dirname "$here")/target}/guest

# The series of kernels, newest first.
all_series=(7.2 6.12)
