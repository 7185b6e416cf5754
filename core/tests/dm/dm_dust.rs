//! `dust`: which bios meet a bad block, what writing does to it, and what the messages answer.

use shingle_core::block::{Flags, Op, Status};

use crate::desk::{flush, read, write};
use crate::mapped::{Mapped, bare, bytes, disk, filled, refused};

/// Blocks of eight sectors from sector 800 of a disk on: the line's first is block 100.
fn dusty() -> Mapped {
    let mut dust = Mapped::new("0 1000 dust a 800 4096", vec![("a", disk(8192)), ("b", disk(8192))]);
    dust.message("enable").unwrap();
    dust
}

#[test]
fn only_reads_that_touch_a_bad_block_fail_and_only_while_enabled() {
    let mut dust = dusty();
    dust.message("addbadblock 102").unwrap();
    let mut outcome = |bio| dust.finish(bio).status;
    assert_eq!([outcome(read(8, 8)), outcome(read(24, 8))], [Status::Ok; 2]);
    for (sector, sectors) in [(16, 8), (23, 1), (15, 2), (23, 2), (0, 1000)] {
        assert_eq!(outcome(read(sector, sectors)), Status::Io, "{sector}+{sectors}");
    }
    dust.message("disable").unwrap();
    assert_eq!(dust.finish(read(0, 1000)).status, Status::Ok);
    assert_eq!(dust.message("countbadblocks").unwrap(), "countbadblocks: 1 badblock(s) found", "it keeps the list");
}

#[test]
fn a_write_makes_a_block_good_once_its_fail_count_is_used_up() {
    let mut dust = dusty();
    dust.message("addbadblock 101 2").unwrap();
    let outcomes: Vec<Status> = (0..3).map(|_| dust.finish(filled(Op::Write, 9, 1, 0x55)).status).collect();
    assert_eq!(outcomes, [Status::Io, Status::Io, Status::Ok]);
    let back = dust.finish(read(8, 8));
    assert_eq!((back.status, bytes(&back.bio)[512]), (Status::Ok, 0x55));
    assert_eq!(dust.message("listbadblocks").unwrap(), "No blocks in badblocklist");
}

#[test]
fn a_write_over_many_blocks_fails_as_a_whole_and_writes_the_good_ones() {
    let mut dust = dusty();
    dust.message("addbadblock 101 1").unwrap();
    dust.message("addbadblock 103").unwrap();
    assert_eq!(dust.finish(filled(Op::Write, 0, 40, 0x77)).status, Status::Io);
    assert_eq!(dust.message("listbadblocks").unwrap(), "101\n", "103 was written, 101 has failed once");
    dust.message("disable").unwrap();
    let sectors: Vec<u8> = bytes(&dust.finish(read(0, 40)).bio).chunks(512).map(|sector| sector[0]).collect();
    assert_eq!(sectors[..8], [0x77; 8]);
    assert!(sectors[8..16].iter().all(|byte| *byte != 0x77), "what failed is not on the disk");
    assert_eq!(sectors[16..], [0x77; 24]);
}

#[test]
fn discards_and_zeroing_are_writes_and_a_flush_touches_no_block() {
    let mut dust = Mapped::over_desks("0 1000 dust a 0 512");
    dust.message("enable").unwrap();
    for block in ["0 1", "5", "6"] {
        dust.message(&format!("addbadblock {block}")).unwrap();
    }
    for bio in [flush(), bare(Op::Discard, 5, 1), bare(Op::WriteZeroes, 6, 1)] {
        dust.rig.submit(bio);
    }
    assert_eq!(dust.at("a"), ["FLUSH 0+0", "DISCARD 5+1", "WRITE_ZEROES 6+1"]);
    assert_eq!(dust.message("listbadblocks").unwrap(), "0\n");
}

#[test]
fn bios_are_cut_where_bad_blocks_begin_and_end_and_nowhere_else() {
    let mut dust = Mapped::over_desks("0 1000 dust a 4 4096");
    dust.message("enable").unwrap();
    dust.rig.submit(write(0, 100));
    dust.message("addbadblock 2").unwrap();
    dust.rig.submit(write(0, 40));
    assert_eq!(dust.at("a"), ["WRITE 4+100", "WRITE 4+12", "WRITE 16+8", "WRITE 24+20"], "block 2 is sectors 16 to 23");
    dust.message("addbadblock 2").unwrap();
    let waits_for_nothing = dust.rig.submit(write(0, 40).with_flags(Flags::NOWAIT));
    assert_eq!(dust.ended(), [(waits_for_nothing, Status::Again)], "a bio that must not wait is not cut");
}

#[test]
fn random_accesses_meet_bad_blocks_as_a_list_of_them_does() {
    let mut dust = dusty();
    let mut bad = std::collections::BTreeMap::new();
    let mut rng = shingle_core::random::Rng::new(3);
    for round in 0..3000 {
        let block = 100 + rng.below(125);
        if rng.chance(1, 4) {
            let count = rng.below(3) as u8;
            let added = dust.message(&format!("addbadblock {block} {count}")).is_ok();
            assert_eq!(added, !bad.contains_key(&block), "round {round}");
            bad.entry(block).or_insert(count);
            continue;
        }
        let sector = rng.below(1000);
        let sectors = 1 + rng.below((1000 - sector).min(40));
        let blocks: Vec<u64> =
            (100 + sector / 8..=100 + (sector + sectors - 1) / 8).filter(|b| bad.contains_key(b)).collect();
        let is_read = rng.chance(1, 2);
        let mut ends_well = blocks.is_empty();
        if !is_read {
            ends_well = blocks.iter().all(|block| bad[block] == 0);
            bad.retain(|block, count| !blocks.contains(block) || *count > 0);
            bad.iter_mut().filter(|(block, _)| blocks.contains(block)).for_each(|(_, count)| *count -= 1);
        }
        let op = if is_read { Op::Read } else { Op::Write };
        let status = dust.finish(filled(op, sector, sectors as u32, 1)).status;
        assert_eq!(status.is_ok(), ends_well, "round {round}: {op:?} {sector}+{sectors}");
    }
    let list: String = bad.keys().map(|block| format!("{block}\n")).collect();
    assert_eq!(dust.message("listbadblocks").unwrap(), list);
}

#[test]
fn messages_answer_in_the_kernels_words() {
    let mut dust = Mapped::over_desks("0 1000 dust a 0 512");
    assert_eq!(dust.status(), "a bypass verbose");
    for (message, answer) in [
        ("countbadblocks", "countbadblocks: 0 badblock(s) found"),
        ("clearbadblocks", "dust_clear_badblocks: no badblocks found"),
        ("listbadblocks", "No blocks in badblocklist"),
        ("addbadblock 60", ""),
        ("ADDBADBLOCK 7 255", ""),
        ("queryblock 60", "dust_query_block: block 60 found in badblocklist"),
        ("queryblock 61", "dust_query_block: block 61 not found in badblocklist"),
        ("listbadblocks", "7\n60\n"),
        ("removebadblock 60", ""),
        ("countbadblocks", "countbadblocks: 1 badblock(s) found"),
        ("clearbadblocks", "dust_clear_badblocks: badblocks cleared"),
        ("countbadblocks", "countbadblocks: 0 badblock(s) found"),
        ("enable", ""),
        ("quiet", ""),
    ] {
        assert_eq!(dust.message(message).as_deref(), Ok(answer), "{message}");
    }
    assert_eq!(dust.status(), "a fail_read_on_bad_block quiet");
    dust.message("quiet").unwrap();
    assert_eq!(dust.status(), "a fail_read_on_bad_block verbose");
}

#[test]
fn a_wrong_message_changes_nothing_and_says_what_to_write() {
    let mut dust = Mapped::over_desks("0 1000 dust a 0 512");
    dust.message("addbadblock 5").unwrap();
    for (message, words) in [
        ("addbadblock 5", "remove it first"),
        ("addbadblock 1048576", "has 1048576 blocks"),
        ("addbadblock -1", "`-1`"),
        ("addbadblock 6 256", "from 0 to 255"),
        ("removebadblock 6", "not in the list"),
        ("addbadblock", "addbadblock <block> [<write fail count>]"),
        ("enable now", "`enable now`"),
        ("", "countbadblocks"),
    ] {
        let error = dust.message(message).unwrap_err();
        assert!(error.contains(words), "{message}: {error}");
    }
    assert_eq!(dust.message("listbadblocks").unwrap(), "5\n");
}

#[test]
fn the_list_of_bad_blocks_is_bounded() {
    let mut dust = Mapped::over_desks("0 1000 dust a 0 512");
    (0..65_536).for_each(|block| drop(dust.message(&format!("addbadblock {block}")).unwrap()));
    assert!(dust.message("addbadblock 65536").unwrap_err().contains("65536 bad blocks and no more"));
}

#[test]
fn a_wrong_line_is_refused_with_its_argument() {
    assert_eq!(dusty().table(), "0 1000 dust a 800 4096");
    for size in ["0", "256", "1000", "2147483648"] {
        refused(&format!("0 9000000 dust a 0 {size}"), &["argument 3", "a power of two from 512 to 1073741824"]);
    }
    refused("0 8 dust a 0 8192", &["argument 3", "16 sectors and the line 8 long"]);
    refused("0 8 dust a 0", &["the block size is missing", "dust <device> <start sector> <block size in bytes>"]);
    refused("0 8 dust a 0 512 9", &["argument 4", "too much"]);
    refused("0 8 dust a 0 4k", &["argument 3", "`4k`"]);
    let error = Mapped::over_zones("0 128 dust z 64 512").err().unwrap();
    assert!(error.contains("argument 1: `z` is zoned") && error.contains("name a regular device"), "{error}");
    assert!(Mapped::over_zones("0 64 dust z 0 512").is_ok(), "conventional zones alone are a regular device");
}
