#!/bin/sh
# Installs the programs that the build, the tests and the demo call, as far as they are missing. Debian and its descendants.
#
#   scripts/install-tools.sh [build]
#     build  only what the compiler and the test runner need
set -eu

# program:package
wanted='cc:gcc c++:g++ python3:python3'
[ "${1:-}" = build ] || wanted="$wanted
    mke2fs:e2fsprogs e2fsck:e2fsprogs debugfs:e2fsprogs mkfs.ext4:e2fsprogs mount:mount losetup:mount perl:perl-base
    nbdcopy:libnbd-bin nbdinfo:libnbd-bin qemu-img:qemu-utils qemu-io:qemu-utils nbdkit:nbdkit qemu-storage-daemon:qemu-system-common
    openssl:openssl strip:binutils cpio:cpio depmod:kmod xz:xz-utils zstd:zstd lowdown:lowdown mmdebstrap:mmdebstrap fio:fio
    chromium-headless-shell:chromium-headless-shell"

missing=
PATH=$PATH:/usr/sbin:/sbin
for pair in $wanted; do
    command -v "${pair%%:*}" >/dev/null || missing="$missing ${pair##*:}"
done
# A library: OpenSSL as the program is linked with it.
[ -e "/usr/include/openssl/ssl.h" ] || missing="$missing libssl-dev pkg-config"
# Debian's python3 comes without what makes virtual environments.
[ "${1:-}" = build ] || python3 -c 'import ensurepip, venv' 2>/dev/null || missing="$missing python3-venv"
[ -n "$missing" ] || exit 0
missing=$(printf '%s\n' $missing | sort -u | tr '\n' ' ')

if ! command -v apt-get >/dev/null; then
    echo "these packages are missing, and there is no apt-get to install them with: $missing" >&2
    exit 1
fi
as_root=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "run as root: apt-get install $missing" >&2; exit 1; }
    as_root=sudo
fi
echo "installing: $missing"
$as_root apt-get update -q >/dev/null
DEBIAN_FRONTEND=noninteractive $as_root apt-get install -qy --no-install-recommends $missing >/dev/null
