//! Statistics: every message, its answer byte for byte, what it refuses, and the counters against a model that keeps
//! every I/O and computes from the list.

use shingle_core::block::{Bio, Data, DeviceId, Observer, Op, Payload, PortId, Span, Stack, Status};
use shingle_core::dm::Table;
use shingle_core::harness::MockDevice;
use shingle_core::mapper::stats::{DmStats, MAX_BYTES, MAX_REGIONS, StatsError};
use shingle_core::sector::Sector;
use shingle_core::time::{Duration, Instant};

use crate::allocator::allocations;

const CAPACITY: u64 = 1_000_000;

/// Statistics, a clock in us, and the bios in flight.
struct Bench {
    stats: DmStats,
    now: Instant,
}

impl Bench {
    fn new() -> Bench {
        Bench { stats: DmStats::new(), now: Instant(0) }
    }

    /// Statistics with one region; the clock stands at 1 ms.
    fn with(create: &str) -> Bench {
        let mut bench = Bench::new();
        assert_eq!(bench.say(create), "0");
        bench.at(1_000);
        bench
    }

    fn at(&mut self, us: u64) -> &mut Bench {
        self.now = Instant(us * 1_000);
        self
    }

    fn try_say(&mut self, message: &str) -> Result<String, StatsError> {
        let argv: Vec<&str> = message.split_whitespace().collect();
        self.stats.message(&argv, CAPACITY, self.now)
    }

    fn say(&mut self, message: &str) -> String {
        self.try_say(message).unwrap_or_else(|error| panic!("{message}: {error}"))
    }

    fn refusal(&mut self, message: &str) -> String {
        self.try_say(message).expect_err(message).to_string()
    }

    fn enter(&mut self, op: Op, sector: u64, sectors: u32) -> (Span, Instant) {
        let span = Span { op, sector: Sector(sector), sectors };
        self.stats.entered(&span, self.now);
        (span, self.now)
    }

    fn leave(&mut self, (span, entered): (Span, Instant)) {
        self.stats.left(&span, entered, self.now);
    }

    /// A bio that comes in at `from` and is done at `to`, in us.
    fn io(&mut self, op: Op, sector: u64, sectors: u32, (from, to): (u64, u64)) {
        let bio = self.at(from).enter(op, sector, sectors);
        self.at(to).leave(bio);
    }
}

#[test]
fn a_bio_counts_in_every_area_it_touches_with_the_sectors_that_lie_there() {
    let mut bench = Bench::with("@stats_create 0+1000 300");
    bench.io(Op::Read, 250, 100, (1_000, 3_000));
    bench.io(Op::Write, 899, 200, (4_000, 9_000));
    let expected = "0+300 1 0 50 2 0 0 0 0 0 2 2 2 0\n\
                    300+300 1 0 50 2 0 0 0 0 0 2 2 2 0\n\
                    600+300 0 0 0 0 1 0 1 5 0 5 5 0 5\n\
                    900+300 0 0 0 0 1 0 100 5 0 5 5 0 5\n";
    assert_eq!(bench.at(20_000).say("@stats_print 0"), expected);
    assert_eq!(bench.say("@stats_print 0"), expected, "printing changes nothing");
    let document = include_str!("../../../docs/targets/statistics.md");
    assert!(document.contains(expected), "the document's example is this one");
}

#[test]
fn time_with_io_in_flight_counts_once_and_weighted_by_how_many() {
    let mut bench = Bench::with("@stats_create - /1");
    let read = bench.at(10_000).enter(Op::Read, 0, 8);
    let write = bench.at(12_000).enter(Op::Write, 8, 16);
    bench.at(15_000).leave(read);
    // 2 ms one, 3 ms two, 5 ms one: busy for 10, weighted 13, and the write is in flight.
    assert_eq!(bench.at(20_000).say("@stats_print 0"), "0+1000000 1 0 8 5 0 0 0 0 1 10 13 5 8\n");
    bench.at(22_000).leave(write);
    assert_eq!(bench.at(99_000).say("@stats_print 0"), "0+1000000 1 0 8 5 1 0 16 10 0 12 15 5 10\n");
}

#[test]
fn without_precise_timestamps_every_instant_is_cut_to_a_millisecond_first() {
    let mut bench = Bench::with("@stats_create 0+100 100");
    bench.io(Op::Read, 0, 1, (5_900, 6_100));
    bench.io(Op::Read, 0, 1, (7_000, 7_999));
    assert_eq!(bench.at(9_000).say("@stats_print 0"), "0+100 2 0 2 1 0 0 0 0 0 1 1 1 0\n");
}

#[test]
fn precise_timestamps_count_in_nanoseconds() {
    let mut bench = Bench::with("@stats_create 0+100 100 1 precise_timestamps");
    bench.io(Op::Read, 0, 1, (5_900, 6_100));
    bench.io(Op::Write, 0, 1, (7_000, 7_999));
    let expected = "0+100 1 0 1 200000 1 0 1 999000 0 1199000 1199000 200000 999000\n";
    assert_eq!(bench.at(9_000).say("@stats_print 0"), expected);
}

#[test]
fn a_histogram_counts_what_took_exactly_a_boundary_above_it() {
    let mut bench = Bench::with("@stats_create 0+200 100 1 histogram:2,5,10");
    for ms in [0, 1, 2, 4, 5, 9, 10, 11] {
        bench.io(Op::Read, 99, 2, (50_000, 50_000 + ms * 1_000));
    }
    bench.io(Op::Write, 100, 1, (70_000, 73_000));
    let text = bench.at(80_000).say("@stats_print 0");
    let histograms: Vec<&str> = text.lines().map(|line| line.split(' ').nth(14).unwrap()).collect();
    assert_eq!(histograms, ["2:2:2:2", "2:3:2:2"]);

    let mut precise = Bench::with("@stats_create 0+100 100 2 precise_timestamps histogram:1000,2000");
    for us in [0, 1, 2, 3] {
        precise.io(Op::Read, 0, 1, (5_000, 5_000 + us));
    }
    assert!(precise.say("@stats_print 0").ends_with(" 1:1:2\n"), "boundaries are ns");
}

#[test]
fn all_but_reads_are_writes_and_what_has_no_sectors_is_not_counted() {
    for op in Op::ALL {
        let mut bench = Bench::with("@stats_create 0+100 100");
        bench.io(op, 0, if op.has_range() { 8 } else { 0 }, (1_000, 2_000));
        let expected = match op {
            Op::Read => "0+100 1 0 8 1 0 0 0 0 0 1 1 1 0\n",
            Op::Write | Op::ZoneAppend | Op::WriteZeroes | Op::Discard => "0+100 0 0 0 0 1 0 8 1 0 1 1 0 1\n",
            _ => "0+100 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
        };
        assert_eq!(bench.say("@stats_print 0"), expected, "{op:?}");
    }
}

#[test]
fn what_is_created_is_listed_as_the_kernel_lists_it() {
    for (create, listed) in [
        ("- /100", "0+1000000 10000 - -"),
        ("- /3", "0+1000000 333334 - -"),
        ("- /2000000", "0+1000000 1 - -"),
        ("5+1 10", "5+1 10 - -"),
        ("2048+1000 300", "2048+1000 300 - -"),
        ("- /1 dmstats", "0+1000000 1000000 dmstats -"),
        ("- /1 dmstats key=1", "0+1000000 1000000 dmstats key=1"),
        ("- /1 0", "0+1000000 1000000 - -"),
        ("- /1 0 7 x", "0+1000000 1000000 7 x"),
        ("- /1 1 precise_timestamps", "0+1000000 1000000 - - precise_timestamps"),
        ("- /1 1 histogram:10,20,30 me", "0+1000000 1000000 me - histogram:10,20,30"),
        ("- /1 2 histogram:10 PRECISE_timestamps a b", "0+1000000 1000000 a b precise_timestamps histogram:10"),
        // A later table may be longer.
        ("999999+2000000 500000", "999999+2000000 500000 - -"),
    ] {
        let mut bench = Bench::with(&format!("@STATS_create {create}"));
        assert_eq!(bench.say("@stats_list"), format!("0: {listed}\n"), "{create}");
    }
}

#[test]
fn the_last_area_is_printed_with_the_step_of_all_others() {
    let mut bench = Bench::with("@stats_create 10+25 /3");
    let text = bench.say("@stats_print 0");
    let areas: Vec<&str> = text.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(areas, ["10+9", "19+9", "28+9"]);
}

#[test]
fn a_device_without_sectors_has_a_region_of_one() {
    let mut stats = DmStats::new();
    assert_eq!(stats.message(&["@stats_create", "-", "/100"], 0, Instant(0)).unwrap(), "0");
    assert_eq!(stats.message(&["@stats_list"], 0, Instant(0)).unwrap(), "0: 0+1 1 - -\n");
}

#[test]
fn a_new_region_gets_the_lowest_number_that_is_free() {
    let mut bench = Bench::new();
    for number in ["0", "1", "2"] {
        assert_eq!(bench.say(&format!("@stats_create - /1 program{number}")), number);
    }
    assert_eq!(bench.say("@stats_delete 1"), "");
    assert_eq!(bench.refusal("@stats_print 1"), "there is no region 1: @stats_list prints those that there are");
    assert_eq!(bench.say("@stats_create - /2 new aux"), "1");
    assert_eq!(bench.say("@stats_create - /1"), "3");
    let [zero, two] = ["0", "2"].map(|n| format!("{n}: 0+1000000 1000000 program{n} -\n"));
    let listed = format!("{zero}1: 0+1000000 500000 new aux\n{two}3: 0+1000000 1000000 - -\n");
    assert_eq!(bench.say("@stats_list"), listed);
    assert_eq!(bench.say("@stats_list program2"), two);
    assert_eq!(bench.say("@stats_list nobody"), "");
}

#[test]
fn aux_data_may_have_spaces_and_is_given_back_as_it_is() {
    let mut bench = Bench::with("@stats_create - /1 me");
    let message = ["@stats_set_aux", "0", "foo bar baz"];
    assert_eq!(bench.stats.message(&message, CAPACITY, bench.now).unwrap(), "");
    assert_eq!(bench.say("@stats_list me"), "0: 0+1000000 1000000 me foo bar baz\n");
}

#[test]
fn lines_are_chosen_by_the_first_and_their_number() {
    let mut bench = Bench::with("@stats_create 0+500 100");
    let all = bench.say("@stats_print 0");
    let lines = |range: std::ops::Range<usize>| all.split_inclusive('\n').collect::<Vec<_>>()[range].concat();
    for (arguments, expected) in [
        ("1 2", lines(1..3)),
        ("- 2", lines(0..2)),
        ("3 -", lines(3..5)),
        ("- -", all.clone()),
        ("4 100", lines(4..5)),
        ("5 1", String::new()),
        ("77 18446744073709551615", String::new()),
        ("2 0", String::new()),
    ] {
        assert_eq!(bench.say(&format!("@stats_print 0 {arguments}")), expected, "{arguments}");
    }
}

#[test]
fn clear_forgets_everything_but_what_is_in_flight() {
    let mut bench = Bench::with("@stats_create 0+100 100 1 histogram:5");
    bench.io(Op::Write, 0, 8, (2_000, 3_000));
    let read = bench.at(4_000).enter(Op::Read, 0, 8);
    assert_eq!(bench.at(10_000).say("@stats_clear 0"), "");
    assert_eq!(bench.say("@stats_print 0"), "0+100 0 0 0 0 0 0 0 0 1 0 0 0 0 0:0\n");
    bench.at(13_000).leave(read);
    // It took 9 ms, 3 of them since.
    assert_eq!(bench.say("@stats_print 0"), "0+100 1 0 8 9 0 0 0 0 0 3 3 3 0 0:1\n");
}

#[test]
fn print_clear_clears_the_lines_that_it_prints_and_no_others() {
    let mut bench = Bench::with("@stats_create 0+300 100 1 histogram:1");
    bench.io(Op::Read, 0, 300, (2_000, 4_000));
    let line = |start| format!("{start}+100 1 0 100 2 0 0 0 0 0 2 2 2 0 0:1\n");
    let zero = |start| format!("{start}+100 0 0 0 0 0 0 0 0 0 0 0 0 0 0:0\n");
    assert_eq!(bench.say("@stats_print_clear 0 1 1"), line(100));
    assert_eq!(bench.say("@stats_print_clear 0"), [line(0), zero(100), line(200)].concat());
    assert_eq!(bench.say("@stats_print 0"), [zero(0), zero(100), zero(200)].concat());
}

#[test]
fn a_region_does_not_know_bios_that_came_in_before_it() {
    let mut bench = Bench::with("@stats_create - /1");
    let early = bench.at(2_000).enter(Op::Read, 0, 8);
    assert_eq!(bench.say("@stats_create - /1"), "1");
    let same_instant = bench.enter(Op::Read, 0, 8);
    let late = bench.at(2_001).enter(Op::Read, 0, 8);
    assert_eq!(bench.say("@stats_print 1"), "0+1000000 0 0 0 0 0 0 0 0 1 0 0 0 0\n");
    [early, same_instant, late].into_iter().for_each(|bio| bench.at(3_000).leave(bio));
    assert_eq!(bench.say("@stats_print 1"), "0+1000000 1 0 8 1 0 0 0 0 0 1 1 1 0\n");
    assert_eq!(bench.say("@stats_print 0"), "0+1000000 3 0 24 3 0 0 0 0 0 1 3 1 0\n");
}

#[test]
fn a_region_deleted_and_made_anew_under_way_counts_from_nothing() {
    let mut bench = Bench::with("@stats_create - /1");
    let bio = bench.at(2_000).enter(Op::Write, 0, 8);
    bench.at(3_000).say("@stats_delete 0");
    assert!(bench.stats.is_empty());
    assert_eq!(bench.say("@stats_create - /1"), "0");
    bench.at(4_000).leave(bio);
    assert_eq!(bench.say("@stats_print 0"), "0+1000000 0 0 0 0 0 0 0 0 0 0 0 0 0\n");
    bench.io(Op::Write, 0, 8, (5_000, 6_000));
    assert_eq!(bench.say("@stats_print 0"), "0+1000000 0 0 0 0 1 0 8 1 0 1 1 0 1\n");
}

#[test]
fn an_error_names_the_argument_and_what_is_allowed() {
    const RANGE: &str =
        "write `-` for the whole device, or `start+length` in sectors of 512 bytes, such as `2048+1024`";
    const STEP: &str = "write the sectors of an area, such as `2048`, or `/` and a number of areas, such as `/100`";
    const OPTION: &str = "write `precise_timestamps`, or one histogram such as `histogram:10,20,30`";
    const TIMES: &str = "write 1 to 1024 ascending times greater than 0, such as `10,20,30`";
    const COUNT: &str = "write as many options after it as it says";
    const REGION: &str = "write the number that @stats_create returned";
    const LINES: &str = "write a number of lines, counted from 0, or `-` for no bound";
    for (message, argument, text, allowed) in [
        ("@stats_create 5 1", "range", "5", RANGE),
        ("@stats_create 5+ 1", "range", "5+", RANGE),
        ("@stats_create 5+0 1", "range", "5+0", RANGE),
        ("@stats_create ++5 1", "range", "++5", RANGE),
        ("@stats_create 1+1+1 1", "range", "1+1+1", RANGE),
        ("@stats_create 1+18446744073709551615 1", "range", "1+18446744073709551615", RANGE),
        ("@stats_create - 0", "step", "0", STEP),
        ("@stats_create - /0", "step", "/0", STEP),
        ("@stats_create - 4k", "step", "4k", STEP),
        ("@stats_create - -1", "step", "-1", STEP),
        ("@stats_create - / 1", "step", "/", STEP),
        ("@stats_create - 1 1", "number of options", "1", COUNT),
        ("@stats_create - 1 3 precise_timestamps x", "number of options", "3", COUNT),
        ("@stats_create - 1 99999999999999999999 x", "number of options", "99999999999999999999", COUNT),
        ("@stats_create - 1 1 precise", "option", "precise", OPTION),
        ("@stats_create - 1 1 precise_timestamps:1", "option", "precise_timestamps:1", OPTION),
        ("@stats_create - 1 2 histogram:1 histogram:2", "option", "histogram:2", OPTION),
        ("@stats_create - 1 1 histogram:", "histogram", "", TIMES),
        ("@stats_create - 1 1 histogram:0", "histogram", "0", TIMES),
        ("@stats_create - 1 1 histogram:1,", "histogram", "1,", TIMES),
        ("@stats_create - 1 1 histogram:5,5", "histogram", "5,5", TIMES),
        ("@stats_create - 1 1 histogram:5,x", "histogram", "5,x", TIMES),
        ("@stats_delete -1", "region", "-1", REGION),
        ("@stats_clear x", "region", "x", REGION),
        ("@stats_print +0", "region", "+0", REGION),
        ("@stats_print_clear 4294967296", "region", "4294967296", REGION),
        ("@stats_set_aux all x", "region", "all", REGION),
        ("@stats_print 0 a 1", "first line", "a", LINES),
        ("@stats_print 0 1 b", "lines", "b", LINES),
    ] {
        let name = message.split(' ').next().unwrap();
        let expected = format!("{name}: the argument <{argument}> is `{text}`: {allowed}");
        let mut bench = Bench::with("@stats_create - /1");
        assert_eq!(bench.refusal(message), expected, "{message}");
        assert_eq!(bench.say("@stats_list"), "0: 0+1000000 1000000 - -\n", "{message} changed something");
    }
}

#[test]
fn a_message_with_the_wrong_number_of_arguments_is_told_its_form() {
    const CREATE: &str = "<range> <step> [<number of options> <option>...] [<program> [<aux>]]";
    const PRINT: &str = "<region> [<first line> <lines>]";
    for (message, form) in [
        ("@stats_create", CREATE),
        ("@stats_create -", CREATE),
        ("@stats_create - 1 program aux more", CREATE),
        ("@stats_delete", "<region>"),
        ("@stats_clear 0 1", "<region>"),
        ("@stats_list a b", "[<program>]"),
        ("@stats_print", PRINT),
        ("@stats_print 0 1", PRINT),
        ("@stats_print_clear 0 1 2 3", PRINT),
        ("@stats_set_aux 0", "<region> <aux>"),
    ] {
        let (name, given) = (message.split(' ').next().unwrap(), message.split(' ').count() - 1);
        let expected = format!("{name} takes `{form}`, not {given} arguments");
        assert_eq!(Bench::with("@stats_create - /1").refusal(message), expected);
    }
    let messages = "@stats_create, @stats_delete, @stats_clear, @stats_list, @stats_print, @stats_print_clear and \
                    @stats_set_aux";
    let unknown = |word| format!("unknown message `{word}`; messages of statistics are {messages}");
    assert_eq!(Bench::new().refusal("@stats_destroy 0"), unknown("@stats_destroy"));
    assert_eq!(Bench::new().refusal(""), unknown(""));
}

#[test]
fn programs_and_aux_data_that_would_break_a_listing_are_refused() {
    let mut bench = Bench::with("@stats_create - /1");
    let long = "x".repeat(1025);
    for text in ["", "two\nlines", &long] {
        let allowed = "write 1 to 1024 bytes without control characters: @stats_list prints a region per line";
        for (message, argument) in [
            (vec!["@stats_create", "-", "/1", "0", text], "program"),
            (vec!["@stats_create", "-", "/1", "0", "me", text], "aux"),
            (vec!["@stats_set_aux", "0", text], "aux"),
        ] {
            let expected = format!("{}: the argument <{argument}> is `{text}`: {allowed}", message[0]);
            let error = bench.stats.message(&message, CAPACITY, bench.now).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }
    assert_eq!(bench.say("@stats_list"), "0: 0+1000000 1000000 - -\n");
}

#[test]
fn everything_has_a_bound() {
    let mut bench = Bench::new();
    assert_eq!(
        bench.refusal("@stats_create 0+8388609 1"),
        "the region would have 8388609 areas, more than 8388608: make the step larger"
    );
    let boundaries = |n: usize| (1..=n).map(|time| time.to_string()).collect::<Vec<_>>().join(",");
    assert!(bench.refusal(&format!("@stats_create - /1 1 histogram:{}", boundaries(1025))).contains("<histogram>"));
    // An area takes 96 bytes of counters and 1024 buckets of 8.
    let wide = format!("@stats_create 0+200000 1 1 histogram:{}", boundaries(1023));
    assert_eq!(
        bench.refusal(&wide),
        "the region's counters take 1657600000 bytes, and 1073741824 of the device's 1073741824 are free, if the machine \
         has them: make the step larger, give the histogram fewer boundaries, or delete another region"
    );
    assert_eq!(bench.say("@stats_create 0+100000 1"), "0");
    let used = 100_000 * 96;
    let free = format!("and {} of the device's {MAX_BYTES} are free", MAX_BYTES - used);
    assert!(bench.refusal(&wide).contains(&free), "what other regions take is counted");
    assert_eq!(
        bench.refusal("@stats_print 0"),
        "an answer has at most 69905 lines of region 0, not 100000: name the lines, as in `@stats_print 0 0 69905`"
    );
    let in_parts = [bench.say("@stats_print 0 0 69905"), bench.say("@stats_print 0 69905 69905")].concat();
    assert_eq!(in_parts.lines().count(), 100_000);
    (1..MAX_REGIONS).for_each(|number| assert_eq!(bench.say("@stats_create - /1"), number.to_string()));
    assert_eq!(
        bench.refusal("@stats_create - /1"),
        "the device has 1024 regions, and may have no more: delete one with @stats_delete"
    );
}

#[test]
fn counting_a_bio_allocates_nothing() {
    let mut bench = Bench::with("@stats_create - /100 2 precise_timestamps histogram:1000,2000");
    let before = allocations();
    (0..1000).for_each(|n| bench.io(Op::Read, n * 900, 2000, (2_000 + n, 2_001 + n)));
    assert_eq!(allocations(), before);
    assert!(bench.say("@stats_print 0 50 1").starts_with("500000+10000 1"), "nothing was counted");
}

/// A table over a desk of 2^20 sectors, counted; the desk keeps its bios.
struct Mapped {
    stack: Stack,
    desk: DeviceId,
    top: DeviceId,
    port: PortId,
    now: Instant,
}

impl Mapped {
    fn new() -> Mapped {
        let mut stack = Stack::new();
        let desk = stack.add(Box::new(MockDevice::regular())).unwrap();
        let table = Table::linear(desk, stack.limits(desk), 4096, 8192).unwrap();
        let top = stack.add(Box::new(table)).unwrap();
        let port = stack.open_port();
        stack.observe(top, Some(Box::new(DmStats::new())));
        Mapped { stack, desk, top, port, now: Instant(0) }
    }

    fn say(&mut self, message: &str) -> String {
        let argv: Vec<&str> = message.split(' ').collect();
        self.stack.observer::<DmStats>(self.top).unwrap().message(&argv, 8192, self.now).unwrap()
    }

    fn submit(&mut self, op: Op, sector: u64, sectors: u32) {
        let payload = if op.has_data() { Payload::Data(Data::zeroed(sectors as usize * 512)) } else { Payload::None };
        self.stack.submit(self.port, 0, self.top, Box::new(Bio::new(op, Sector(sector), sectors, payload)));
    }

    fn at(&mut self, now: Duration) {
        self.now = Instant::ZERO + now;
        self.stack.turn(self.now);
    }

    fn end_all(&mut self) {
        for held in self.stack.device::<MockDevice>(self.desk).unwrap().held() {
            self.stack.with_device(self.desk, |desk: &mut MockDevice, cx| desk.end(held.number, Status::Ok, 0, cx));
        }
        self.stack.turn(self.now);
    }
}

const HOUR_MS: u64 = 3_600_000;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn a_stack_shows_bios_in_the_sectors_of_the_device_that_is_counted() {
    let mut mapped = Mapped::new();
    mapped.say("@stats_create - 4096");
    mapped.at(ms(1));
    mapped.submit(Op::Write, 4092, 8);
    mapped.submit(Op::Read, 0, 16);
    mapped.submit(Op::Flush, 0, 0);
    mapped.at(ms(3));
    mapped.at(ms(5));
    mapped.end_all();
    assert_eq!(
        mapped.say("@stats_print 0"),
        "0+4096 1 0 16 2 1 0 4 2 0 2 4 2 2\n4096+4096 0 0 0 0 1 0 4 2 0 2 2 0 2\n"
    );
}

#[test]
fn bios_that_wait_for_hours_at_the_door_are_not_in_flight_for_ever() {
    let mut mapped = Mapped::new();
    mapped.stack.suspend(mapped.top);
    mapped.submit(Op::Write, 0, 8);
    for (region, at) in [1, HOUR_MS, 4 * HOUR_MS].into_iter().enumerate() {
        mapped.at(ms(at));
        assert_eq!(mapped.say("@stats_create - /1"), region.to_string());
    }
    mapped.stack.resume(mapped.top);
    mapped.at(ms(5 * HOUR_MS));
    assert_eq!(mapped.stack.device::<MockDevice>(mapped.desk).unwrap().held().len(), 1);
    mapped.end_all();
    for region in 0..3 {
        let line = mapped.say(&format!("@stats_print {region}"));
        assert_eq!(line.split(' ').nth(9), Some("0"), "in flight in region {region}: {line}");
    }
}

#[test]
fn a_bio_that_comes_in_right_after_a_region_is_counted_both_ways_or_not_at_all() {
    let created = Duration(10_000_000_000);
    for after in [1, 1000, 5000] {
        let mut mapped = Mapped::new();
        mapped.stack.suspend(mapped.top);
        mapped.submit(Op::Write, 0, 8);
        mapped.at(created);
        mapped.say("@stats_create - /1");
        mapped.stack.resume(mapped.top);
        mapped.at(Duration(created.0 + after));
        let entered = mapped.say("@stats_print 0").split(' ').nth(9).unwrap() == "1";
        mapped.end_all();
        let line = mapped.say("@stats_print 0");
        let expected =
            if entered { "0+8192 0 0 0 0 1 0 8 0 0 0 0 0 0\n" } else { "0+8192 0 0 0 0 0 0 0 0 0 0 0 0 0\n" };
        assert_eq!(line, expected, "{after} ns after the region");
        assert!(entered || after < 4096, "a bio that came in {after} ns later was not counted");
    }
}
