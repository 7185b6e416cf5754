//! The load generator against memory devices: what it writes is there, what is damaged is found, nothing hangs.

use std::sync::Arc;

use shingle_core::block::{Bio, Data, DeviceId, Op, Payload, Stack};
use shingle_core::sector::Sector;
use shingle_core::zone::Condition;
use shingle_host::backend::null_from_words;
use shingle_lab::bench::{
    Bare, BuiltinStack, ClockMode, Direction, Host, Job, JobOptions, Load, Progress, Rw, Verify, ZoneMode, report_zones,
};

const MEMORY: &str = "size=16MiB,block-size=4096,memory-backed";

fn host(stack: &str, null: &str) -> (Bare, DeviceId) {
    let null = null_from_words(&[null.to_owned()]).unwrap();
    let (stack, top) = BuiltinStack::parse(stack, Some(null), false).unwrap().build().unwrap();
    (Bare::new(stack), top)
}

fn run(host: &mut Bare, top: DeviceId, options: JobOptions) -> Vec<Job> {
    let load = Load::new(host, &[top], &Arc::new(options), 0).unwrap_or_else(|error| panic!("{error}"));
    load.run(host, &Progress::default()).unwrap()
}

fn zones(extra: &str) -> String {
    format!("{MEMORY},zone-size=1MiB{extra}")
}

#[track_caller]
fn assert_clean(jobs: &[Job], writes: u64) {
    for job in jobs {
        assert_eq!(job.failure, None);
        assert_eq!(job.stats.flow(Direction::Write).ios(), writes);
        assert!(job.stats.verified > 0, "nothing was read back");
    }
}

#[test]
fn what_is_written_in_any_order_at_any_depth_reads_back() {
    for rw in [Rw::Write, Rw::RandWrite] {
        for iodepth in [1, 7, 128] {
            let (mut host, top) = host("null,linear", MEMORY);
            let options = JobOptions { rw, iodepth, verify: Some(Verify::Crc32c), ..JobOptions::default() };
            assert_clean(&run(&mut host, top, options), 4096);
        }
    }
}

#[test]
fn zone_writes_fill_every_zone_in_order_at_any_depth_and_read_back() {
    for (rw, append) in [(Rw::Write, false), (Rw::RandWrite, false), (Rw::Write, true), (Rw::RandWrite, true)] {
        let (mut host, top) = host("null,plug,linear", &zones(""));
        let options = JobOptions { rw, append, iodepth: 64, verify: Some(Verify::Crc32c), ..JobOptions::default() };
        assert_clean(&run(&mut host, top, options), 4096);
        let report = report_zones(&mut host, top).unwrap();
        assert!(report.iter().all(|zone| zone.cond == Condition::Full), "{rw} append {append}");
    }
}

#[test]
fn open_and_active_limits_of_the_device_are_never_exceeded() {
    let jobs = |numjobs| {
        let (mut host, top) = host("null,plug", &zones(",max-open=2,max-active=2,zone-capacity=1000KiB"));
        let options =
            JobOptions { rw: Rw::RandWrite, numjobs, iodepth: 32, block_bytes: 12288, ..JobOptions::default() };
        run(&mut host, top, options)
    };
    for job in jobs(1).iter().chain(&jobs(2)) {
        assert_eq!(job.failure, None);
    }
}

#[test]
fn more_jobs_than_zones_share_them_as_fios_do() {
    for (limits, rw) in [("", Rw::Write), ("", Rw::RandWrite), (",max-open=2,max-active=2", Rw::RandWrite)] {
        for (iodepth, append) in [(1, false), (4, false), (4, true)] {
            let (mut host, top) = host("null,plug", &format!("size=16MiB,memory-backed,zone-size=4MiB{limits}"));
            let options =
                JobOptions { rw, append, iodepth, numjobs: 8, block_bytes: 256 << 10, ..JobOptions::default() };
            let jobs = run(&mut host, top, options);
            let resets: u64 = jobs.iter().map(|job| job.stats.zone_resets).sum();
            for job in &jobs {
                assert_eq!((job.failure.clone(), job.stats.flow(Direction::Write).ios()), (None, 64), "{rw} {limits}");
            }
            // 32 times 4 MiB into four zones that were empty; of fio's eight jobs on full ones the resets are 32.
            assert!((28..32).contains(&resets), "{rw}{limits} at depth {iodepth}: {resets} resets");
        }
    }
}

#[test]
fn all_jobs_together_write_no_more_zones_than_max_open_zones_says() {
    let (mut host, top) = host("null,plug", "size=16MiB,memory-backed,zone-size=1MiB");
    let options = JobOptions {
        rw: Rw::RandWrite,
        numjobs: 8,
        max_open_zones: Some(3),
        io_size: Some(100 << 10),
        ..JobOptions::default()
    };
    run(&mut host, top, options);
    let open = report_zones(&mut host, top).unwrap().iter().filter(|zone| zone.cond.is_active()).count();
    assert_eq!(open, 3);
}

#[test]
fn jobs_that_begin_further_each_have_zones_of_their_own() {
    let (mut host, top) = host("null,plug", &zones(""));
    let options = JobOptions {
        rw: Rw::Write,
        numjobs: 4,
        size: Some(1 << 20),
        offset_increment: 2 << 20,
        io_size: Some(64 << 10),
        ..JobOptions::default()
    };
    run(&mut host, top, options);
    let written: Vec<u64> = report_zones(&mut host, top).unwrap().iter().map(|zone| zone.wp - zone.start).collect();
    assert_eq!(written[..9], [128, 0, 128, 0, 128, 0, 128, 0, 0]);
}

#[test]
fn a_job_never_leaves_its_region_for_an_open_zone() {
    let (mut host, top) = host("null,plug", &zones(""));
    let options = JobOptions {
        rw: Rw::Write,
        numjobs: 3,
        size: Some(1 << 20),
        offset: 1 << 20,
        offset_increment: 2 << 20,
        max_open_zones: Some(1),
        ..JobOptions::default()
    };
    for job in run(&mut host, top, options) {
        assert_eq!((job.failure.clone(), job.stats.flow(Direction::Write).ios()), (None, 256));
    }
    let written: Vec<u64> = report_zones(&mut host, top).unwrap().iter().map(|zone| zone.wp - zone.start).collect();
    assert_eq!(written[..8], [0, 2048, 0, 2048, 0, 2048, 0, 0]);
}

#[test]
fn full_zones_are_reset_when_the_job_comes_round() {
    let (mut host, top) = host("null,plug", &zones(""));
    let options = JobOptions { rw: Rw::Write, iodepth: 16, io_size: Some(40 << 20), ..JobOptions::default() };
    let jobs = run(&mut host, top, options);
    assert_eq!((jobs[0].failure.clone(), jobs[0].stats.zone_resets), (None, 24));
}

#[test]
fn reads_of_a_zoned_device_stay_below_the_write_pointers() {
    let (mut host, top) = host("null,plug", &zones(",unwritten=255"));
    let part = |rw, size| JobOptions {
        rw,
        size: Some(size),
        iodepth: 8,
        verify: Some(Verify::Crc32c),
        ..JobOptions::default()
    };
    assert_clean(&run(&mut host, top, part(Rw::Write, 3 << 20)), 768);
    for rw in [Rw::Read, Rw::RandRead] {
        let jobs = run(&mut host, top, JobOptions { io_size: Some(8 << 20), ..part(rw, 16 << 20) });
        assert_eq!((jobs[0].failure.clone(), jobs[0].stats.verified), (None, 2048), "{rw}");
    }
}

#[test]
fn a_block_that_changed_on_the_device_is_found() {
    let (mut host, top) = host("null", MEMORY);
    let options = JobOptions { verify: Some(Verify::Crc32c), rw: Rw::Write, ..JobOptions::default() };
    assert_clean(&run(&mut host, top, options.clone()), 4096);
    damage(host.stack(), top, Sector(800));
    host.turn(true).unwrap();
    let jobs = run(&mut host, top, JobOptions { rw: Rw::Read, ..options });
    let failure = jobs[0].failure.clone().expect("the damage was not found");
    assert_eq!((failure.op, failure.sector), (Op::Read, Sector(800)));
    assert!(failure.mismatch.unwrap().to_string().contains("magic"));
}

fn damage(stack: &mut Stack, device: DeviceId, sector: Sector) {
    let port = stack.open_port();
    stack.submit(port, 0, device, Box::new(Bio::new(Op::Write, sector, 8, Payload::Data(Data::zeroed(4096)))));
}

#[test]
fn the_first_device_error_stops_the_job_and_is_named() {
    let (mut host, top) = host("null", "size=16MiB,block-size=4096");
    let bad = null_from_words(&["size=16MiB,block-size=4096,read-only".to_owned()]).unwrap();
    let (stack, read_only) = BuiltinStack::parse("null", Some(bad), false).unwrap().build().unwrap();
    let jobs = run(&mut Bare::new(stack), read_only, JobOptions { rw: Rw::Write, iodepth: 4, ..JobOptions::default() });
    let failure = jobs[0].failure.clone().unwrap();
    assert_eq!((failure.op, failure.sector, failure.status.errno()), (Op::Write, Sector(0), 30));
    assert_eq!(run(&mut host, top, JobOptions::default())[0].failure, None);
}

#[test]
fn a_mixed_load_has_the_share_of_reads_that_was_asked_for() {
    let (mut host, top) = host("null", "size=64MiB");
    let options =
        JobOptions { rw: Rw::RandRw, rwmixread: 70, iodepth: 32, clock: ClockMode::Bio, ..JobOptions::default() };
    let jobs = run(&mut host, top, options);
    let reads = jobs[0].stats.flow(Direction::Read).ios() as f64 / 16384.0;
    assert!((0.68..0.72).contains(&reads), "{reads}");
}

#[test]
fn the_same_seed_does_the_same_io() {
    let written = || {
        let (mut host, top) = host("null,plug", &zones(""));
        let options = JobOptions { rw: Rw::RandWrite, iodepth: 8, io_size: Some(4 << 20), ..JobOptions::default() };
        run(&mut host, top, options);
        report_zones(&mut host, top).unwrap()
    };
    assert_eq!(written(), written());
}

#[test]
fn a_job_with_nothing_to_read_ends_with_an_error_instead_of_waiting_for_ever() {
    let (mut host, top) = host("null,plug", &zones(""));
    let jobs = run(&mut host, top, JobOptions { rw: Rw::RandRead, iodepth: 4, ..JobOptions::default() });
    assert!(jobs[0].failure.is_some() && jobs[0].is_done());
}

#[test]
fn impossible_jobs_are_refused_before_they_start() {
    let refuse = |stack: &str, null: &str, options: JobOptions| {
        let (mut host, top) = host(stack, null);
        Load::new(&mut host, &[top], &Arc::new(options), 0).map(|_| ()).unwrap_err().to_string()
    };
    let write = JobOptions { rw: Rw::Write, ..JobOptions::default() };
    let none = JobOptions { zonemode: Some(ZoneMode::None), ..write.clone() };
    assert!(refuse("null,plug", &zones(""), none).contains("--zonemode=zbd"));
    let trim = JobOptions { rw: Rw::Trim, ..JobOptions::default() };
    assert!(refuse("null", MEMORY, trim).contains("does not discard"));
    // fio refuses nothing here, and finds that blocks changed.
    let many = JobOptions { rw: Rw::RandWrite, numjobs: 3, verify: Some(Verify::Crc32c), ..JobOptions::default() };
    assert!(refuse("null,plug", &zones(",max-open=2,max-active=2"), many).contains("no open or active zone left"));
    let append = JobOptions { append: true, ..write };
    assert!(refuse("null", MEMORY, append).contains("zoned device"));
}
