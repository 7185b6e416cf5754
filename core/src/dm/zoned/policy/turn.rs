//! How reclaim copies, and how long it rests.

use super::{Knobs, Urgency};
use crate::time::Duration;

/// How reclaim copies in its next turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyTurn {
    /// How much is read before it is written, in blocks.
    pub window_blocks: u32,
    /// Commands under way at once.
    pub pieces_in_flight: u32,
    /// Longest command, in blocks.
    pub piece_blocks: u32,
    /// Holes up to so many blocks are read through rather than skipped.
    pub gap_blocks: u32,
    /// Whether the next turn is read while this one is written.
    pub reads_ahead: bool,
    /// Pause after the turn that was before.
    pub rest: Duration,
}

/// The kernel's pieces: 512 KiB (`drivers/md/dm-kcopyd.c:DEFAULT_SUB_JOB_SIZE_KB`), 8 at once (`SPLIT_COUNT`).
const KERNEL_PIECE_BLOCKS: u32 = 128;
const KERNEL_PIECES: u32 = 8;
/// Percent of the time that the kernel copies for while there is a third of the buffers left, or about
/// (`drivers/md/dm-zoned-reclaim.c:dmz_reclaim_work`).
const KERNEL_DUTY: u32 = 75;
/// The longest pause.
const LONGEST_REST: Duration = Duration::from_millis(1_000);

/// Where a copy comes from and goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyWay {
    /// Whether one of its devices turns.
    pub is_rotational: bool,
    /// Whether all of it comes from other devices than the one it goes to.
    pub is_across: bool,
}

/// How reclaim copies in its next turn, on that `way`, when the turn before `took` so long.
///
/// From one device to another, a turn is read while the one before is written: the one that is written never waits for the
/// other, and what looks like many short turns there is a single long one. Each is half of what is copied at once.
#[must_use]
pub fn copy_turn(knobs: &Knobs, urgency: Urgency, way: CopyWay, took: Duration) -> CopyTurn {
    // Users wait for a copy only where they and it share the devices by choice.
    let has_company = matches!(urgency, Urgency::None | Urgency::Normal);
    let rest = |duty| if has_company { rest_after(took, duty) } else { Duration::ZERO };
    if knobs.style.is_kernel() {
        return CopyTurn {
            window_blocks: KERNEL_PIECE_BLOCKS * KERNEL_PIECES,
            pieces_in_flight: KERNEL_PIECES,
            piece_blocks: KERNEL_PIECE_BLOCKS,
            gap_blocks: 0,
            reads_ahead: false,
            rest: rest(KERNEL_DUTY),
        };
    }
    let share = if way.is_rotational { 1 } else { knobs.flash_share.max(1) };
    let rest = rest(knobs.duty_percent);
    // Who rests after each turn has time to read then.
    let reads_ahead = way.is_across && rest == Duration::ZERO;
    let window_blocks = (knobs.window_blocks / share / if reads_ahead { 2 } else { 1 }).max(1);
    CopyTurn {
        window_blocks,
        pieces_in_flight: if has_company { knobs.busy_pieces.min(knobs.pieces) } else { knobs.pieces },
        piece_blocks: knobs.piece_blocks.min(window_blocks),
        gap_blocks: knobs.gap_blocks / share,
        reads_ahead,
        rest,
    }
}

/// The pause that makes `took` so many percent of the time.
fn rest_after(took: Duration, duty_percent: u32) -> Duration {
    let duty = u64::from(duty_percent.clamp(1, 100));
    Duration::from_nanos((took.as_nanos() / duty).saturating_mul(100 - duty)).min(LONGEST_REST)
}

#[cfg(test)]
mod tests {
    use super::super::Style;
    use super::*;

    const TOOK: Duration = Duration::from_millis(300);

    const DISK: CopyWay = CopyWay { is_rotational: true, is_across: false };
    const FLASH: CopyWay = CopyWay { is_rotational: false, is_across: false };
    const FROM_CACHE: CopyWay = CopyWay { is_rotational: true, is_across: true };

    #[test]
    fn a_spindle_reads_16_mib_before_it_writes_and_flash_less() {
        let turn = |way| copy_turn(&Knobs::default(), Urgency::Urgent, way, TOOK);
        assert_eq!((turn(DISK).window_blocks, turn(DISK).gap_blocks), (4_096, 64));
        assert_eq!((turn(FLASH).window_blocks, turn(FLASH).gap_blocks), (512, 8));
    }

    #[test]
    fn reclaim_rests_and_keeps_few_commands_under_way_only_beside_users() {
        let knobs = Knobs { duty_percent: 75, ..Knobs::default() };
        let turn = |urgency| copy_turn(&knobs, urgency, DISK, TOOK);
        let beside = turn(Urgency::Normal);
        assert_eq!((beside.rest, beside.pieces_in_flight), (Duration::from_millis(100), knobs.busy_pieces));
        for alone in [Urgency::Idle, Urgency::Urgent, Urgency::Emergency] {
            assert_eq!((turn(alone).rest, turn(alone).pieces_in_flight), (Duration::ZERO, knobs.pieces));
        }
    }

    #[test]
    fn a_copy_from_another_device_reads_one_half_while_it_writes_the_other() {
        let turn = |knobs: &Knobs, way| copy_turn(knobs, Urgency::Normal, way, TOOK);
        let knobs = Knobs::default();
        assert!(turn(&knobs, FROM_CACHE).reads_ahead && !turn(&knobs, DISK).reads_ahead);
        assert_eq!(2 * turn(&knobs, FROM_CACHE).window_blocks, turn(&knobs, DISK).window_blocks);
        let resting = Knobs { duty_percent: 75, ..knobs };
        assert_eq!(turn(&resting, FROM_CACHE), turn(&resting, DISK));
    }

    #[test]
    fn a_rest_is_bounded_however_long_the_turn_was() {
        let lazy = Knobs { duty_percent: 1, ..Knobs::default() };
        assert_eq!(copy_turn(&lazy, Urgency::Normal, DISK, Duration(u64::MAX)).rest, LONGEST_REST);
        let eager = Knobs { duty_percent: 100, ..Knobs::default() };
        assert_eq!(copy_turn(&eager, Urgency::Normal, DISK, Duration(u64::MAX)).rest, Duration::ZERO);
    }

    #[test]
    fn no_knob_makes_a_piece_longer_than_its_window() {
        let knobs = Knobs { window_blocks: 64, piece_blocks: 4_096, flash_share: 64, ..Knobs::default() };
        let turn = copy_turn(&knobs, Urgency::Idle, FLASH, TOOK);
        assert_eq!((turn.window_blocks, turn.piece_blocks), (1, 1));
    }

    #[test]
    fn the_kernel_copies_pieces_of_512_kib_and_rests_a_quarter_of_the_time() {
        let knobs = Knobs { style: Style::Kernel, ..Knobs::default() };
        let turn = copy_turn(&knobs, Urgency::Normal, DISK, TOOK);
        assert_eq!((turn.piece_blocks, turn.pieces_in_flight, turn.gap_blocks), (128, 8, 0));
        assert_eq!(turn.rest, Duration::from_millis(100));
        assert!(!copy_turn(&knobs, Urgency::Urgent, FROM_CACHE, TOOK).reads_ahead);
        assert_eq!(copy_turn(&knobs, Urgency::Urgent, DISK, TOOK).rest, Duration::ZERO);
    }
}
