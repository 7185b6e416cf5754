//! When there is no memory for a request, that request fails, and the next one does not.

use shingle_core::block::{Bio, Data, Op, Payload, Status};
use shingle_core::random::Rng;
use shingle_core::sector::Sector;

use crate::allocator::with_at_most;
use crate::mapped::{self, Mapped, disk, filled, zoned_disk};
use crate::zoned::{self, Volume, ZONE};

/// Less than the smallest buffer, and more than anything else takes.
const ALMOST_NOTHING: usize = 8000;

#[test]
fn there_is_no_data_without_memory_and_no_panic() {
    assert!(with_at_most(1 << 20, || Data::try_zeroed(1 << 20).is_none()));
    assert!(with_at_most(1 << 20, || Data::try_zeroed(1 << 19).is_some()));
}

/// Sends `bio` while there is no memory, and then a second time.
fn twice(table: &str, disk: Box<dyn shingle_core::block::BlockDevice>, bio: fn() -> Bio) -> [Status; 2] {
    let mut mapped = Mapped::new(table, vec![("a", disk), ("b", mapped::disk(8192))]);
    let first = bio();
    let first = with_at_most(ALMOST_NOTHING, || mapped.finish(first).status);
    [first, mapped.finish(bio()).status]
}

#[test]
fn a_write_without_memory_fails_and_can_be_sent_again() {
    let bio = || filled(Op::Write, 0, 8, 3);
    let once = [Status::Resource, Status::Ok];
    assert_eq!(twice("0 4096 linear a 0", disk(4096), bio), once, "a memory disk");
    assert_eq!(twice("0 4096 linear a 0", zoned_disk(4096, 1024), bio), once, "the pointer is where it was");
    let corrupts = "0 4096 flakey a 0 0 1 5 corrupt_bio_byte 1 w 9 0";
    assert_eq!(twice(corrupts, disk(4096), bio), once, "a copy that is corrupted");
    assert_eq!(twice("0 4096 log-writes a b", disk(4096), bio), once, "an entry of a log");
}

#[test]
fn a_crypt_line_without_memory_is_refused() {
    let table = "0 1024 crypt aes-xts-plain64 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff 0 a 0";
    let refused = with_at_most(100_000, || Mapped::try_new(table, vec![("a", disk(4096))]).err());
    assert!(refused.as_deref().is_some_and(|error| error.contains("no memory")), "{refused:?}");
}

/// Reclaim, commits and the disks themselves find no memory now and then: what was acknowledged is there all the same.
#[test]
fn a_volume_that_runs_out_of_memory_loses_nothing_that_it_acknowledged() {
    let (mut failed, mut copied) = (0, 0);
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let mut volume = Volume::new(&[zoned::disk(20, Some(5))], 2);
        let blocks = volume.blocks;
        // What it keeps for as long as it lives is there once it is loaded.
        volume.read(0, 1);
        // `None`: a failed write may have left anything.
        let mut model = vec![Some(0); blocks as usize];
        for n in 0..400 {
            let (at, count) = (rng.below(blocks - 16), 1 + rng.below(16) as u32);
            let (bio, fill) = (zoned::write(at, count, n as u8), n as u8);
            let flush = Bio::new(Op::Flush, Sector::ZERO, 0, Payload::None);
            // Metadata takes 8 KiB, a chunk of the disk 16, a window of a copy up to 260.
            let largest = [ALMOST_NOTHING, 12_000, 30_000, 100_000, 1 << 30, 1 << 30][rng.below(6) as usize];
            let status = with_at_most(largest, || {
                let status = volume.run(bio).1;
                if rng.below(8) == 0 {
                    volume.run(flush);
                }
                status
            });
            failed += u32::from(!status.is_ok());
            model[at as usize..][..count as usize].fill(status.is_ok().then_some(fill));
        }
        copied += volume.counters().copied_blocks;
        for at in (0..blocks).step_by(ZONE as usize) {
            let found = volume.read(at, ZONE);
            let expected = &model[at as usize..][..ZONE as usize];
            let is_right =
                expected.iter().zip(&found).all(|(expected, found)| expected.is_none_or(|fill| fill == *found));
            assert!(is_right, "seed {seed}, blocks from {at} on: {expected:?}, found {found:?}");
        }
    }
    assert!(failed > 100 && copied > 500, "{failed} writes failed, {copied} blocks were copied");
}
