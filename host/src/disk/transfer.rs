use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::StatxFlags;
use shingle_core::block::{Data, Op, Payload, Reason, Status};
use shingle_core::sector::SECTOR_BYTES;

use super::files::Files;

/// Longest bio that goes to a file in one piece.
pub(super) const MOST_SECTORS: u32 = 8192;
/// Most segments of memory in one bio: what one system call takes.
pub(super) const MOST_SEGMENTS: u32 = 1024;

/// Memory and file addresses that direct I/O takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Alignment {
    /// Unit of memory addresses, in bytes.
    pub memory: usize,
    /// Unit of file offsets and lengths, in bytes.
    pub offset: u32,
}

impl Alignment {
    /// What direct I/O on `file` needs; `None`: it cannot do direct I/O, or nobody knows.
    pub fn of(files: &dyn Files, file: &impl AsFd) -> Option<Self> {
        let stat = files.statx(file.as_fd(), StatxFlags::DIOALIGN).ok()?;
        let told = stat.stx_mask & StatxFlags::DIOALIGN.bits() != 0 && stat.stx_dio_offset_align != 0;
        told.then_some(Self { memory: stat.stx_dio_mem_align.max(1) as usize, offset: stat.stx_dio_offset_align })
    }

    /// Whether memory of others does, which begins and ends at whole sectors.
    pub fn suits_remote(self) -> bool {
        self.memory <= SECTOR_BYTES as usize
    }

    fn suits(self, payload: &Payload) -> bool {
        let aligned = |data: &Data| (data.words().as_ptr().addr() | data.len()).is_multiple_of(self.memory);
        payload.segments().iter().all(aligned)
    }
}

/// Which way the data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    FromDisk,
    ToDisk,
}

/// Which way the data of a read, a write or an append goes.
pub(super) fn way_of(op: Op) -> Way {
    if op == Op::Read { Way::FromDisk } else { Way::ToDisk }
}

/// What a request gets that the ring refuses.
pub(super) const ENOBUFS: i32 = 105;
/// What a request gets that needs memory when there is none.
pub(super) const ENOMEM: i32 = 12;
/// What a read gets that finds the end where there was more.
pub(super) const EIO: i32 = 5;

/// Bytes of zeroes that are written at once.
const ZEROES: usize = 1 << 20;

/// Zeroes to write where a file system cannot make them, once they are needed.
#[derive(Default)]
pub(super) struct Zeroes(Option<Data>);

impl Zeroes {
    /// The next of `left` bytes of zeroes; `None` if there is no memory.
    pub fn next(&mut self, left: usize) -> Option<Payload> {
        let data = self.0.take().or_else(|| Data::try_zeroed(ZEROES))?;
        Some(Payload::Data(self.0.insert(data).slice(0, left.min(ZEROES))))
    }
}

/// The memory to hand to the kernel for a bio that carries `payload`: that memory itself, or a copy if direct I/O does not
/// take its addresses; `None` if there is no memory for one.
pub(super) fn lend(payload: &mut Payload, direct: Option<Alignment>) -> Option<Payload> {
    if direct.is_none_or(|alignment| alignment.suits(payload)) {
        return Some(std::mem::take(payload));
    }
    let copy = Data::try_zeroed(payload.bytes())?;
    // For reads, too: what an earlier, short one brought has to stay.
    payload.for_each_segment(|at, data| copy.slice(at as usize * 512, data.len()).copy_from_words(data.words()));
    Some(Payload::Data(copy))
}

/// Takes back what [`lend`] gave: the bio has its memory again, with the data that was read.
pub(super) fn take_back(payload: &mut Payload, lent: Payload, way: Way) {
    if matches!(payload, Payload::None) {
        *payload = lent;
    } else if let (Payload::Data(copy), Way::FromDisk) = (lent, way) {
        payload.for_each_segment(|at, data| data.copy_from_words(copy.slice(at as usize * 512, data.len()).words()));
    }
}

/// Zeroes all bytes of `payload` from `skip` on: what a file does not have reads as zeroes.
pub(super) fn zero_from(payload: &Payload, skip: usize) {
    let mut at = 0;
    for data in payload.segments() {
        let from = skip.saturating_sub(at).min(data.len());
        at += data.len();
        let whole_words = from.next_multiple_of(8).min(data.len());
        data.write(from, &[0; 8][..whole_words - from]);
        data.slice(whole_words, data.len() - whole_words).fill(0);
    }
}

/// The status for a failed system call, given as the ring reports it. A full file system, quota or file size limit is
/// "no space", whatever the kernel calls it.
pub(super) fn status_of(result: i32) -> Status {
    match -result {
        // EFBIG, ENOSPC, EDQUOT.
        27 | 28 | 122 => Status::NoSpace,
        // EAGAIN, ENOMEM, ENFILE, EMFILE, ENOBUFS.
        11 | 12 | 23 | 24 | 105 => Status::Resource,
        // ESTALE: the server of the file does not know it any more, or for now.
        116 => Status::Transport,
        errno => Status::from_errno(errno),
    }
}

/// Why a system call on the file at `path` failed, where it was to do `doing`.
pub(super) fn reason_of(result: i32, doing: &str, path: &Path) -> Reason {
    if result >= 0 {
        // Nothing was transferred, and nobody says why.
        return Reason::Host(Status::Io, format!("{doing} {}: the file system took nothing", path.display()).into());
    }
    let text = io::Error::from_raw_os_error(-result);
    Reason::Host(status_of(result), format!("{doing} {}: {text}", path.display()).into())
}

/// `EINTR`: nothing happened, ask again.
pub(super) fn was_interrupted(result: i32) -> bool {
    result == -4
}

/// `ENFILE` and `EMFILE`: the machine, or this process, has as many files open as it may.
pub(super) fn is_out_of_descriptors(result: i32) -> bool {
    matches!(result, -23 | -24)
}

/// `EOPNOTSUPP`: the file system does not do this.
pub(super) fn is_unsupported(result: i32) -> bool {
    result == -95
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segments() -> Payload {
        let payload = Payload::Segments([512, 1024, 512].map(Data::zeroed).to_vec());
        payload.segments().iter().zip(1..).for_each(|(data, n)| data.fill(n));
        payload
    }

    fn bytes(payload: &Payload) -> Vec<u8> {
        payload.segments().iter().flat_map(Data::to_vec).collect()
    }

    #[test]
    fn only_the_tail_is_zeroed() {
        for skip in [0, 3, 511, 512, 513, 1536, 2041, 2048] {
            let payload = segments();
            let mut expected = bytes(&payload);
            expected[skip..].fill(0);
            zero_from(&payload, skip);
            assert_eq!(bytes(&payload), expected, "from {skip}");
        }
    }

    #[test]
    fn memory_that_direct_io_does_not_take_is_copied_both_ways() {
        let direct = Some(Alignment { memory: 4096, offset: 512 });
        let (mut payload, expected) = (segments(), bytes(&segments()));
        let lent = lend(&mut payload, direct).unwrap();
        assert_eq!(bytes(&lent), expected);
        take_back(&mut payload, lent, Way::ToDisk);
        let lent = lend(&mut payload, direct).unwrap();
        lent.segments()[0].fill(9);
        take_back(&mut payload, lent, Way::FromDisk);
        assert_eq!((bytes(&payload), payload.segments().len()), (vec![9; 2048], 3));
        let lent = lend(&mut payload, None).unwrap();
        assert_eq!((lent.segments().len(), payload.segments().len()), (3, 0), "buffered I/O takes any memory");
        take_back(&mut payload, lent, Way::FromDisk);
        assert_eq!(payload.segments().len(), 3);
    }

    #[test]
    fn every_way_to_be_full_is_no_space() {
        for errno in [27, 28, 122] {
            assert_eq!(status_of(-errno), Status::NoSpace);
        }
        assert_eq!((status_of(-5), status_of(-24)), (Status::Io, Status::Resource));
    }
}
