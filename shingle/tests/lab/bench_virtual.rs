//! The load generator on simulated drives: time is what the drive takes, and nothing else.

use std::collections::VecDeque;
use std::process::Command;
use std::sync::Arc;

use serde_json::Value;
use shingle_core::block::{Bio, BlockDevice, Cx, DeviceId, Limits, Stack};
use shingle_core::device::{NullConfig, NullDevice};
use shingle_core::time::Duration;
use shingle_host::profile::{Model, Profile};
use shingle_lab::bench::{BuiltinStack, Direction, Job, JobOptions, Load, Progress, Rw, Simulated};

fn shingle(words: &str) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_shingle")).args(words.split_whitespace()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

#[track_caller]
fn json(words: &str) -> Value {
    let (code, stdout, stderr) = shingle(&format!("bench --output-format=json {words}"));
    assert_eq!(code, 0, "{words}: {stderr}");
    serde_json::from_str(&stdout).unwrap()
}

fn null(completion: Duration) -> (Simulated, DeviceId) {
    let mut stack = Stack::new();
    let config = NullConfig { completion, ..NullConfig::new(1 << 20) };
    let device = stack.add(Box::new(NullDevice::new(&config).unwrap())).unwrap();
    (Simulated::new(stack), device)
}

fn run(host: &mut Simulated, device: DeviceId, options: JobOptions) -> Result<Vec<Job>, String> {
    Load::new(host, &[device], &Arc::new(options), 0)?.run(host, &Progress::default())
}

fn seconds(s: u64) -> JobOptions {
    let runtime = Some(std::time::Duration::from_secs(s));
    JobOptions { rw: Rw::RandRead, runtime, time_based: true, ..JobOptions::default() }
}

#[test]
fn a_latency_is_what_the_drive_takes_to_the_nanosecond() {
    let (mut host, device) = null(Duration::from_micros(250));
    let jobs = run(&mut host, device, JobOptions { iodepth: 4, ..seconds(2) }).unwrap();
    let flow = jobs[0].stats.flow(Direction::Read);
    let latency = flow.latency.summary(&[]);
    assert_eq!((latency.min, latency.max, flow.busy_ns), (250_000, 250_000, 2_000_000_000));
    // What is sent before the end of the two seconds comes back.
    assert_eq!(flow.ios(), 2_000_000 / 250 * 4);
}

#[test]
fn two_hours_of_a_disk_are_two_hours_on_its_clock() {
    let report = json("--profile smr-30tb --rw=write --bs=1m --iodepth=32 --runtime=7200s --time_based");
    let write = &report["jobs"][0]["write"];
    assert!((7_200_000..7_201_000).contains(&write["runtime"].as_u64().unwrap()), "{write}");
    // A disk is not faster than its medium.
    let Model::Smr(config) = Profile::find("smr-30tb").unwrap().model else { panic!("it is an SMR disk") };
    let (rate, medium) = (write["bw_bytes"].as_f64().unwrap(), config.media.outer_rate);
    assert!((0.3 * medium..medium).contains(&rate), "{rate} with a medium of {medium}");
    let options = &report["global options"];
    assert_eq!((options["clock"].as_str(), options["profile"].as_str()), (Some("virtual"), Some("smr-30tb")));
}

#[test]
fn the_same_command_line_gives_the_same_result_to_the_byte() {
    for policy in ["plug", "qd1"] {
        let words = format!("--profile smr-26tb --policy {policy} --rw=randrw --iodepth=32 --runtime=20s --time_based");
        let jobs = || json(&words)["jobs"].to_string();
        assert_eq!(jobs(), jobs());
    }
}

#[test]
fn jobs_that_share_zones_give_the_same_result_to_the_byte() {
    for rw in ["write", "randwrite", "randrw"] {
        let words = format!(
            "--profile null --null size=16MiB,zone-size=4MiB,completion=10us --rw={rw} --bs=64k --iodepth=4 --numjobs=8 \
             --runtime=1s --time_based"
        );
        let report = json(&words);
        assert!(report["jobs"].as_array().unwrap().iter().all(|job| job["error"] == 0), "{report}");
        assert_eq!(report["jobs"].to_string(), json(&words)["jobs"].to_string());
    }
}

#[test]
fn jobs_in_one_zone_take_turns_and_so_are_as_fast_as_one() {
    let words =
        "--profile null --null size=16MiB,zone-size=4MiB,completion=10us --rw=write --bs=4k --runtime=1s --time_based";
    let ios = |words: &str| -> Vec<u64> {
        let report = json(words);
        report["jobs"].as_array().unwrap().iter().map(|job| job["write"]["total_ios"].as_u64().unwrap()).collect()
    };
    let alone = ios(&format!("{words} --max_open_zones=1"))[0];
    let together = ios(&format!("{words} --max_open_zones=1 --numjobs=8"));
    assert!(together.iter().sum::<u64>() <= alone, "{together:?} but {alone} alone");
    assert!(together.iter().all(|job| job.abs_diff(alone / 8) < alone / 80), "{together:?} of {alone}");
}

#[test]
fn the_text_says_that_time_is_virtual_and_whose() {
    let (code, stdout, _) = shingle("bench --profile null --rw=randread --runtime=1s --time_based");
    assert_eq!(code, 0);
    assert!(stdout.starts_with("simulated drive null: all times are virtual; 1.0 s of them took "), "{stdout}");
    let (_, stdout, _) = shingle("bench --profile smr-14tb --policy plug --rw=write --io_size=1m");
    assert!(stdout.starts_with("simulated drive smr-14tb, policy plug: "), "{stdout}");
}

#[test]
fn what_is_written_to_a_simulated_disk_reads_back() {
    let words = "--profile smr-30tb --rw=randwrite --bs=64k --iodepth=32 --offset=400GiB --size=1GiB --io_size=64m";
    let report = json(&format!("{words} --verify=crc32c"));
    assert_eq!(report["jobs"][0]["verified_blocks"], 1024);
}

#[test]
fn a_drive_that_answers_at_once_is_told_instead_of_running_for_ever() {
    let (mut host, device) = null(Duration::ZERO);
    let error = run(&mut host, device, seconds(1)).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("virtual time stands still") && error.contains("completion="), "{error}");
}

#[test]
fn a_pause_follows_every_so_many_ios_once_they_are_back() {
    let micros = std::time::Duration::from_micros;
    // One I/O of 100 us, then 300 us of nothing.
    for (blocks, iodepth, ios) in [(1, 1, 2500), (1, 8, 2500), (4, 4, 10_000), (4, 1, 5716)] {
        let (mut host, device) = null(Duration::from_micros(100));
        let options = JobOptions { thinktime: Some(micros(300)), thinktime_blocks: blocks, iodepth, ..seconds(1) };
        let jobs = run(&mut host, device, options).unwrap();
        let flow = jobs[0].stats.flow(Direction::Read);
        assert_eq!((flow.ios(), jobs[0].failure.clone()), (ios, None), "{blocks} blocks at depth {iodepth}");
        assert!((1_000_000_000..1_000_400_000).contains(&flow.busy_ns), "{}", flow.busy_ns);
    }
}

#[test]
fn a_flush_follows_every_so_many_writes() {
    let report = json("--profile smr-26tb --rw=write --bs=64k --iodepth=4 --io_size=6400k --fsync=10");
    let job = &report["jobs"][0];
    assert_eq!((&job["write"]["total_ios"], &job["sync"]["total_ios"]), (&100.into(), &10.into()), "{job}");
    // The cache has to go to the medium: that is not done within the time of a command.
    assert!(job["sync"]["lat_ns"]["mean"].as_f64().unwrap() > 1e6, "{job}");
    assert_eq!(json("--profile null --rw=read --io_size=64k --fsync=1")["jobs"][0]["sync"]["total_ios"], 0);
}

#[test]
fn jobs_of_a_group_are_reported_as_one() {
    let words = "--profile null --rw=randread --numjobs=4 --iodepth=2 --runtime=1s --time_based";
    let (apart, together) = (json(words), json(&format!("{words} --group_reporting")));
    let ios = |report: &Value| -> Vec<u64> {
        let jobs = report["jobs"].as_array().unwrap();
        jobs.iter().map(|job| job["read"]["total_ios"].as_u64().unwrap()).collect()
    };
    assert_eq!((ios(&apart), ios(&together)), (vec![200_000; 4], vec![800_000]));
    assert_eq!(together["jobs"][0]["read"]["runtime"], 1000);
    let rate = |report: &Value| report["jobs"][0]["read"]["iops"].as_f64().unwrap();
    assert!((rate(&together) - 800_000.0).abs() < 1.0, "{}", rate(&together));
    let (_, text, _) = shingle(&format!("bench {words} --group_reporting"));
    assert!(text.contains("(groupid=0, jobs=4)"), "{text}");
}

/// Takes every bio and never gives one back.
struct Grave(Limits, VecDeque<Box<Bio>>);

impl BlockDevice for Grave {
    fn limits(&self) -> &Limits {
        &self.0
    }
    fn submit(&mut self, bio: Box<Bio>, _: &mut Cx<'_>) {
        self.1.push_back(bio);
    }
    fn describe(&self, out: &mut dyn std::fmt::Write) -> std::fmt::Result {
        out.write_str("grave")
    }
}

#[test]
fn io_that_nothing_will_ever_end_is_an_error_and_not_a_wait() {
    let mut stack = Stack::new();
    let device = stack.add(Box::new(Grave(Limits::new(1024), VecDeque::new()))).unwrap();
    let error = run(&mut Simulated::new(stack), device, seconds(1)).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("nothing in the simulated drive will ever end it"), "{error}");
}

#[test]
fn built_in_stacks_run_on_a_simulated_clock_too() {
    let config = NullConfig { completion: Duration::from_micros(20), ..NullConfig::new(1 << 21) };
    let (stack, top) = BuiltinStack::parse("null,linear,linear", Some(config), false).unwrap().build().unwrap();
    let jobs = run(&mut Simulated::new(stack), top, seconds(1)).unwrap();
    assert_eq!(jobs[0].stats.flow(Direction::Read).ios(), 50_000);
}

#[test]
fn what_makes_no_sense_with_a_profile_is_refused_with_what_would() {
    for (words, says) in [
        ("--profile smr-31tb", "use one of smr-14tb"),
        ("--profile no/such.toml", "cannot read profile"),
        ("--profile null --policy qd1", "only zoned drives have a write policy"),
        ("--profile smr-30tb --policy fast", "use one of: plug"),
        ("--policy plug", "--profile"),
        ("--profile null --stack null", "cannot be used with"),
        ("--profile smr-30tb --null size=1MiB", "copy the profile's file"),
    ] {
        let (code, _, stderr) = shingle(&format!("bench {words}"));
        assert_eq!(code, 2, "{words}: {stderr}");
        assert!(stderr.contains(says), "{words}: {stderr}");
    }
}

#[test]
fn what_would_not_fit_in_memory_to_verify_is_refused() {
    let (code, _, stderr) = shingle("bench --profile smr-30tb --rw=write --verify=crc32c --runtime=1s --time_based");
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("16 GiB at most, with --size"), "{stderr}");
    let (code, _, stderr) = shingle("bench --null size=8TiB --bs=4k --rw=write --verify=crc32c --runtime=1s");
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("--verify takes memory for each of the 2147483648 blocks"), "{stderr}");
    let verified =
        json("--profile smr-30tb --rw=write --offset=300GiB --size=1GiB --bs=1m --io_size=64MiB --verify=crc32c");
    assert_eq!(verified["jobs"][0]["error"], 0);
}

#[test]
fn a_null_device_that_takes_no_time_is_refused_before_it_is_filled() {
    let path = std::env::temp_dir().join(format!("shingle-null-{}.toml", std::process::id()));
    let text = include_str!("../../../host/profiles/null.toml");
    let bench = || shingle(&format!("bench --profile {} --rw=write --bs=4k --runtime=10ms", path.display()));
    std::fs::write(&path, text.replace("memory-backed = false", "memory-backed = true")).unwrap();
    let (code, _, stderr) = bench();
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("give it a `completion`") && stderr.contains("shingle-null-"), "{stderr}");
    std::fs::write(&path, text.replace("\"0us\"", "\"10us\"")).unwrap();
    let (code, _, stderr) = bench();
    assert_eq!(code, 0, "{stderr}");
    std::fs::remove_file(&path).unwrap();
}

/// A job file in a directory of its own.
fn with_job_file(text: &str) -> std::path::PathBuf {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("shingle-{}-{number}.fio", std::process::id()));
    std::fs::write(&path, text).unwrap();
    path
}

const JOBS: &str = "\
; two writers together, then a reader of what they wrote
[global]
ioengine=libaio
direct=1
thread
norandommap=1
description=two writers
bs=64k
runtime=1
time_based
[seq]
rw=write
size=32MiB
[rand]
rw=randwrite
offset=32m
size=32m
numjobs=2
iodepth=4
[check]
stonewall
rw=randread
bs=4k
io_size=4m
time_based=0
";

#[test]
fn the_jobs_of_a_job_file_run_together_and_those_behind_a_stonewall_after_them() {
    let path = with_job_file(JOBS);
    let words =
        format!("--profile null --null size=64MiB,zone-size=4MiB,completion=10us,unwritten=1 {}", path.display());
    let report = json(&words);
    let jobs = report["jobs"].as_array().unwrap();
    let brief: Vec<_> =
        jobs.iter().map(|job| (job["jobname"].as_str().unwrap(), job["groupid"].as_u64().unwrap())).collect();
    assert_eq!(brief, [("seq", 0), ("rand", 0), ("rand", 0), ("check", 1)]);
    assert!(jobs.iter().all(|job| job["error"] == 0), "{report}");
    assert_eq!((&jobs[3]["read"]["total_ios"], &jobs[0]["write"]["runtime"]), (&1024.into(), &1000.into()));
    assert_eq!(report["jobs"].to_string(), json(&words)["jobs"].to_string(), "the clock is virtual");
    let (_, text, _) = shingle(&format!("bench {words} --output-format=normal"));
    assert!(
        text.contains("Run status group 0 (all jobs):") && text.contains("Run status group 1 (all jobs):"),
        "{text}"
    );
    std::fs::remove_file(&path).unwrap();
    let path = with_job_file(&JOBS.replace("[seq]", "group_reporting\n[seq]"));
    let report = json(&format!("--profile null --null size=64MiB,zone-size=4MiB,completion=10us {}", path.display()));
    let names: Vec<_> = report["jobs"].as_array().unwrap().iter().map(|job| job["jobname"].as_str().unwrap()).collect();
    assert_eq!(names, ["seq", "check"]);
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn jobs_of_a_file_on_built_in_stacks_have_a_stack_each() {
    let path = with_job_file("[global]\nrw=write\nio_size=1m\n[a]\nnumjobs=2\n[b]\nstonewall\nverify=crc32c\n");
    let report = json(&format!("--stack null,plug --null size=16MiB,zone-size=1MiB,memory-backed {}", path.display()));
    let ios: Vec<_> = report["jobs"].as_array().unwrap().iter().map(|job| job["write"]["total_ios"].as_u64()).collect();
    assert_eq!((ios, &report["jobs"][2]["verified_blocks"]), (vec![Some(256); 3], &256.into()));
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_mistake_in_a_job_file_is_shown_in_its_line() {
    let path = with_job_file("[global]\niodepht=4\n[a]\nrw=wriet\n");
    let (code, _, stderr) = shingle(&format!("bench {}", path.display()));
    assert_eq!(code, 1, "{stderr}");
    for says in
        ["unknown key `iodepht`", "did you mean `iodepth`?", ":2:1", "rw=wriet", "use one of: read, write", ":4:1"]
    {
        assert!(stderr.contains(says), "{says}: {stderr}");
    }
    let (code, _, stderr) = shingle(&format!("bench {} --bs=4k", path.display()));
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("cannot be used with"), "{stderr}");
    std::fs::remove_file(&path).unwrap();
    let (code, _, stderr) = shingle("bench no/such.fio");
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.contains("cannot read the job file no/such.fio"), "{stderr}");
    let path = with_job_file("[a]\nfilename=seq\n");
    let (code, _, stderr) = shingle(&format!("bench --profile null {}", path.display()));
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("a simulated drive has one device"), "{stderr}");
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn times_without_a_unit_are_fios() {
    let report = json("--profile null --rw=randread --runtime=2 --time_based --thinktime=30");
    assert_eq!(report["jobs"][0]["read"]["runtime"], 2000);
    assert_eq!(report["jobs"][0]["read"]["total_ios"], 50_000);
}
