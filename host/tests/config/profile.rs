//! Profiles: those that ship are right, and a wrong one says what, where and what is allowed.

use shingle_core::block::{Bio, Data, Op, Payload, Stack, Status};
use shingle_core::sector::Sector;
use shingle_core::time::{Duration, Instant};
use shingle_drives::ServiceTime;
use shingle_host::config::Source;
use shingle_host::profile::{Model, Profile};

fn shipped(name: &str) -> String {
    let path = format!("{}/profiles/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

fn parse(text: String) -> Result<Profile, String> {
    Profile::parse("mine", Source { path: "mine.toml".into(), text }).map_err(|error| error.to_string())
}

#[test]
fn every_profile_that_ships_is_right_and_says_unit_or_source_of_every_number() {
    for name in Profile::names() {
        let profile = Profile::find(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(!profile.description.is_empty());
        for line in shipped(name).lines().filter(|line| line.contains(" = ") && !line.starts_with(['#', 'd', 'm'])) {
            assert!(line.contains(" # "), "{name}: `{line}` says neither unit nor source");
        }
    }
}

#[test]
fn a_profile_says_if_its_drive_has_a_volatile_write_cache() {
    for name in Profile::names() {
        let model = Profile::find(name).unwrap().model;
        let cached = model.to_live(false).map(|drive| drive.unwrap().limits().write_cache);
        assert_eq!(model.loses_unflushed_writes(), cached, "{name}");
    }
}

#[test]
fn an_smr_disk_with_its_write_cache_disabled_loses_nothing_with_and_without_a_non_volatile_cache() {
    let disabled = shipped("smr-30tb").replace("write-back = true ", "write-back = false ");
    let Model::Smr(config) = parse(disabled.clone()).unwrap().model else { panic!("it is an SMR disk") };
    assert_eq!((config.cache.write_back, config.cache.non_volatile_bytes), (false, Some(95 << 20)));
    let none: String =
        disabled.lines().filter(|line| !line.starts_with("non-volatile-cache")).collect::<Vec<_>>().join("\n");
    let models = [&disabled, &none].map(|text| parse(text.clone()).unwrap().model);
    assert!(models.iter().all(|model| model.loses_unflushed_writes() == Some(false)));
    let small = parse(disabled.replace("\"95MiB\"", "\"64KiB\"")).unwrap_err();
    assert!(small.contains("cache segment has to be at most the size of the non-volatile cache"), "{small}");
}

#[test]
fn zns_1tb_volatile_is_zns_1tb_with_a_volatile_write_cache() {
    let [Model::Zns(volatile), Model::Zns(drive)] =
        ["zns-1tb-volatile", "zns-1tb"].map(|name| Profile::find(name).unwrap().model)
    else {
        panic!("both are zoned SSDs")
    };
    assert!(volatile.write_cache && !drive.write_cache);
    assert_eq!(shingle_drives::ZnsConfig { write_cache: false, ..volatile }, drive);
}

#[test]
fn a_profile_can_be_copied_edited_and_given_by_its_path() {
    let path = std::env::temp_dir().join(format!("shingle-profile-{}.toml", std::process::id()));
    std::fs::write(&path, shipped("smr-30tb").replace("rpm = 7200", "rpm = 5400")).unwrap();
    let profile = Profile::find(path.to_str().unwrap()).unwrap();
    std::fs::remove_file(&path).unwrap();
    let Model::Smr(config) = profile.model else { panic!("{profile:?}") };
    assert_eq!(config.media.turn.as_nanos(), 11_111_111);
    assert_eq!(config.capacity, 58_594_426_880 / 524_288 * 524_288);
}

#[test]
fn a_value_out_of_range_is_shown_with_file_line_key_and_range() {
    let error = parse(shipped("smr-30tb").replace("rpm = 7200", "rpm = 72")).unwrap_err();
    for part in ["mine.toml", "`rpm`", "1000", "20000 turns a minute", "rpm = 72"] {
        assert!(error.contains(part), "no {part} in:\n{error}");
    }
}

#[test]
fn all_mistakes_come_at_once() {
    let text =
        shipped("smr-30tb").replace("average = \"8.2ms\"", "average = \"quick\"").replace("depth = 32", "dpth = 32");
    let error = parse(text.replace("[manage]", "[menage]")).unwrap_err();
    for part in ["`average`", "500ms", "`dpth`", "`depth`", "[menage]", "no table `[manage]`"] {
        assert!(error.contains(part), "no {part} in:\n{error}");
    }
}

#[test]
fn values_that_do_not_go_together_are_refused() {
    let error = parse(shipped("smr-30tb").replace("average = \"8.2ms\"", "average = \"18ms\"")).unwrap_err();
    assert!(error.contains("seek times"), "{error}");
}

#[test]
fn every_profile_that_ships_makes_a_drive_that_reads_and_writes() {
    for name in Profile::names() {
        let mut stack = Stack::new();
        let drive = Profile::find(name).unwrap().model.add_to(&mut stack, true).unwrap();
        let port = stack.open_port();
        let mut now = Instant::ZERO;
        let mut transfer = |op, byte: u8| {
            let data = Data::zeroed(4096);
            data.fill(byte);
            let zone = stack.limits(drive).zoned.as_ref().map_or(0, |zoned| u64::from(zoned.zone_sectors));
            let last = Sector(stack.limits(drive).capacity - zone.max(8));
            stack.submit(port, 0, drive, Box::new(Bio::new(op, last, 8, Payload::Data(data.clone()))));
            loop {
                let next = stack.turn(now);
                if let Some(done) = stack.poll_completion(port) {
                    return (done.status, data.to_vec());
                }
                now = next.expect("it ends");
            }
        };
        assert_eq!(transfer(Op::Write, 7).0, Status::Ok, "{name}");
        assert!(transfer(Op::Read, 0) == (Status::Ok, vec![7; 4096]), "{name}");
    }
}

#[test]
fn service_times_have_a_shape_and_a_deviation_where_it_needs_one() {
    let Model::Link(link, disk) = Profile::find("link-fc32").unwrap().model else { panic!("it is a link") };
    let us = Duration::from_micros;
    assert_eq!((link.there, disk.read), (ServiceTime::Constant(us(10)), ServiceTime::Gamma(us(129), us(66))));
    let error = parse(shipped("link-fc32").replace("\"gamma\"", "\"gama\"")).unwrap_err();
    assert!(error.contains("did you mean") && error.contains("log-normal"), "{error}");
    let error = parse(shipped("link-fc32").replace("read-sd = \"66us\"", "")).unwrap_err();
    assert!(error.contains("`read-sd`"), "{error}");
    let error = parse(shipped("link-fc32").replace("read = \"129us\"", "read = \"0us\"")).unwrap_err();
    assert!(error.contains("mean"), "{error}");
}

#[test]
fn the_fibre_channel_profile_has_the_published_latencies() {
    for (op, mean, sd) in [(Op::Read, 149.0, 66.0), (Op::Write, 186.0, 331.0)] {
        let mut stack = Stack::new();
        let disk = Profile::find("link-fc32").unwrap().model.add_to(&mut stack, false).unwrap();
        let port = stack.open_port();
        let (mut now, mut times) = (Instant::ZERO, Vec::new());
        for _ in 0..40_000 {
            let began = now;
            stack.submit(port, 0, disk, Box::new(Bio::new(op, Sector(0), 1, Payload::Data(Data::zeroed(512)))));
            while let (Some(next), None) = (stack.turn(now), stack.poll_completion(port)) {
                now = next;
            }
            times.push(now.since(began).as_nanos() as f64 / 1e3);
        }
        let measured = times.iter().sum::<f64>() / times.len() as f64;
        let spread = (times.iter().map(|t| (t - measured).powi(2)).sum::<f64>() / times.len() as f64).sqrt();
        assert!((measured / mean - 1.0).abs() < 0.03, "{op:?}: mean {measured} us");
        assert!((spread / sd - 1.0).abs() < 0.07, "{op:?}: deviation {spread} us");
    }
}

#[test]
fn an_unknown_name_is_answered_with_those_there_are() {
    let error = Profile::find("smr-31tb").unwrap_err().to_string();
    assert!(error.contains("smr-30tb") && error.contains("path"), "{error}");
    let error = Profile::find("no/such.toml").unwrap_err().to_string();
    assert!(error.contains("no/such.toml"), "{error}");
    let error = parse("model = \"floppy\"".into()).unwrap_err();
    assert!(error.contains("description") && error.contains("known are: smr"), "{error}");
}

#[test]
fn a_pipe_into_which_nobody_writes_is_no_profile_and_nobody_waits_for_it() {
    let path = std::env::temp_dir().join(format!("shingle-pipe-{}.toml", std::process::id()));
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    let found = Profile::find(path.to_str().unwrap());
    std::fs::remove_file(&path).unwrap();
    assert!(found.unwrap_err().to_string().contains("model"));
}
