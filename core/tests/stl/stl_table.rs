//! The table line of `stl`, and what a volume says of itself through it.

use shingle_core::block::{BlockDevice, DeviceId, Extent, Figure, Stack, Status};
use shingle_core::device::{NullConfig, NullDevice, NullZones};
use shingle_core::dm::{add_table, parse_table, stl::Stl};

use crate::shingled::{self, Volume, disk, small};
use crate::tables::{Mapped, Shelf};

/// A volume as a table line makes it of disks that are formatted, `a` and `b`.
struct Line {
    volume: Volume,
    shelf: Shelf,
}

impl Line {
    fn over(disks: &[NullConfig]) -> Self {
        let mut volume = Volume::new(disks, 100, small());
        volume.stop();
        let shelf = Shelf(["a", "b"].map(String::from).into_iter().zip(volume.disks.clone()).collect());
        Self { volume, shelf }
    }

    fn add(&mut self, arguments: &str) -> Result<(), String> {
        let lines = parse_table(&format!("0 {} stl {arguments}", self.volume.blocks * 8));
        let lines = lines.map_err(|error| error.to_string())?;
        let top = add_table(&mut self.volume.rig.stack, &lines, &self.shelf).map_err(|error| error.to_string())?;
        self.volume.rig.top = top;
        Ok(())
    }

    /// The device below the table.
    fn target(&self) -> DeviceId {
        self.volume.rig.stack.below(self.volume.rig.top)[0]
    }

    fn message(&mut self, words: &str) -> Result<String, String> {
        let (words, target): (Vec<&str>, _) = (words.split(' ').collect(), self.target());
        self.volume.rig.stack.message(target, &words).map_err(|error| error.0)
    }

    fn figure(&self, wanted: &str) -> Figure {
        let mut found = None;
        let stack: &Stack = &self.volume.rig.stack;
        let show = &mut |name: &'static str, figure| found = found.or((name == wanted).then_some(figure));
        stack.device::<Stl>(self.target()).unwrap().figures(show);
        found.unwrap_or_else(|| panic!("no figure {wanted}"))
    }

    fn holes(&self) -> Vec<Extent> {
        let (mut out, all) = (Vec::with_capacity(9), self.volume.blocks * 8);
        self.volume.rig.stack.extents(self.volume.rig.top, 0..all, &mut out);
        out
    }
}

/// The figure is what users see as the state of cleaning in metrics and `stl status`.
#[test]
fn the_figure_of_cleaning_follows_the_free_zones() {
    let cleaning = |line: &Line| match line.figure("cleaning") {
        Figure::Word(word) => word,
        other => panic!("{other:?}"),
    };
    let mut line = Line::over(&[disk(24, Some(2))]);
    line.add("a").unwrap();
    assert_eq!(cleaning(&line), "none", "it is not loaded yet");
    line.volume.write(0, 1, 1);
    assert_eq!(cleaning(&line), "resting");
    let blocks = line.volume.blocks;
    let mut seen = Vec::new();
    for turn in 0..4 {
        for block in (0..blocks - 8).step_by(8) {
            line.volume.write((block * 7 + turn) % (blocks - 8), 8, 2);
            seen.push(cleaning(&line));
        }
    }
    assert!(["resting", "working"].iter().all(|state| seen.contains(state)), "{seen:?}");
}

#[test]
fn a_line_makes_a_volume_that_writes_and_reads_whatever_the_order_of_its_devices() {
    for devices in ["a b", "b a memory:16 batch:8"] {
        let mut line = Line::over(&[disk(24, Some(2)), disk(24, Some(0))]);
        line.add(devices).unwrap();
        line.volume.write(5, 3, 9);
        assert_eq!(line.volume.read(4, 5), [0, 9, 9, 9, 0]);
    }
}

#[test]
fn a_line_reads_as_it_was_written() {
    for text in ["stl a", "stl a b", "stl 8:16 a\\ b memory:64 replay:7"] {
        let lines = parse_table(&format!("0 800 {text}")).unwrap();
        let mut out = String::from("stl ");
        let view = shingle_core::dm::View { shows_keys: false, device: None };
        lines[0].target.arguments(&view, &mut out).unwrap();
        assert_eq!(out, text);
    }
}

#[test]
fn a_wrong_word_of_a_line_is_named() {
    let cases: [(&str, Option<usize>, &str); 6] = [
        ("stl", None, "the device is missing; write `stl <device>"),
        ("stl a memory:1", Some(4), "memory is `1`: write a number from 4 to 65536"),
        ("stl a memory:", Some(4), "memory is ``"),
        ("stl a speed:9", Some(4), "no knob `speed`; knobs are memory, batch, replay, turn, runs, idle"),
        ("stl a batch:8 b", Some(5), "`b` is no knob: devices come first"),
        (&format!("stl{}", " a".repeat(65)), Some(67), "65 devices: at most 64"),
    ];
    for (text, word, says) in cases {
        let error = parse_table(&format!("0 800 {text}")).unwrap_err();
        assert!(error.message.contains(says) && error.word == word, "{text}: {error:?}");
    }
}

#[test]
fn devices_that_make_no_set_are_refused_by_name() {
    let with_zones = |zone_sectors| {
        let zoned = disk(10, Some(0)).zoned.map(|zoned| NullZones { zone_sectors, ..zoned });
        NullConfig { zoned, block_bytes: 512, ..disk(10, None) }
    };
    let (small_zones, odd) = (with_zones(256), with_zones(4));
    let devices = [disk(10, Some(0)), disk(10, None), small_zones, odd];
    let device = |config: &NullConfig| Box::new(NullDevice::new(config).unwrap()) as Box<dyn BlockDevice>;
    let mut mapped = Mapped::over(devices.iter().map(device));
    for (devices, says) in [
        ("b", "no device of these has zones"),
        ("a b a", "`a` is named twice"),
        ("a c", "`c` has zones of 256 sectors, others of 512"),
        ("d", "`d` has zones of 4 sectors, which are no whole blocks"),
        ("a x", "there is no device `x`"),
    ] {
        let error = mapped.add("volume", &format!("0 800 stl {devices}")).unwrap_err();
        assert!(error.contains(says), "{devices}: {error}");
    }
    let error = mapped.add("volume", "0 801 stl a").unwrap_err();
    assert!(error.contains("a length of 801 sectors is not a multiple of 8"), "{error}");
}

#[test]
fn a_volume_that_is_longer_or_shorter_than_its_line_is_not_used() {
    for wrong in [-1, 1] {
        let mut line = Line::over(&[disk(40, Some(4))]);
        let has = line.volume.blocks * 8;
        line.volume.blocks = line.volume.blocks.saturating_add_signed(wrong);
        line.add("a").unwrap();
        assert_ne!(line.volume.run(shingled::read(0, 1)).1, Status::Ok);
        let mut status = String::new();
        line.volume.rig.stack.status(line.target(), &mut status).unwrap();
        assert!(status.contains(&format!("failed: the volume has {has} sectors")), "{status}");
    }
}

#[test]
fn knobs_of_the_line_can_be_turned_and_wrong_ones_change_nothing() {
    let mut line = Line::over(&[disk(40, Some(4))]);
    line.add("a memory:16").unwrap();
    assert_eq!(line.message("knobs").unwrap(), "memory 16\nbatch 256\nreplay 3\nturn 4096\nruns 200\nidle 10\n");
    line.message("set batch 4 runs 9").unwrap();
    let error = line.message("set memory 32 runs 0").unwrap_err();
    assert_eq!(error, "runs is `0`: write a number from 1 to 250");
    assert_eq!(line.message("knobs").unwrap(), "memory 16\nbatch 4\nreplay 3\nturn 4096\nruns 9\nidle 10\n");
    line.volume.write(0, 40, 1);
    assert_eq!(line.figure("batches"), Figure::Count(10), "of four blocks each");
    for words in ["set batch", "set", "speed", "sweep now"] {
        let error = line.message(words).unwrap_err();
        assert!(error.starts_with(&format!("stl does not know `{words}`: write `checkpoint`")), "{error}");
    }
}

#[test]
fn a_volume_tells_what_it_has_and_does() {
    let mut line = Line::over(&[disk(40, Some(4))]);
    line.add("a").unwrap();
    assert_eq!(line.figure("volume"), Figure::Word("unloaded"));
    line.volume.write(0, 100, 1);
    assert_eq!(line.figure("volume"), Figure::Word("ready"));
    assert_eq!(line.figure("exposed_blocks"), Figure::Count(line.volume.blocks));
    assert_eq!([line.figure("live_blocks"), line.figure("user_blocks")], [Figure::Count(100); 2]);
    assert_eq!(line.figure("pending_extents"), Figure::Count(2), "two batches in two zones");
    line.message("checkpoint").unwrap();
    line.volume.rig.settle();
    assert_eq!([line.figure("pending_extents"), line.figure("runs")], [0, 1].map(Figure::Count));
    line.message("sweep").unwrap();
    line.volume.rig.settle();
    assert_eq!(line.figure("sweeps"), Figure::Count(1));
    let said = line.message("counters").unwrap();
    assert!(said.contains("\nlive_blocks 100\n") && said.contains("amplification "), "{said}");
}

#[test]
fn what_was_never_written_or_was_discarded_is_a_hole_as_far_as_memory_knows() {
    let mut line = Line::over(&[disk(40, Some(4))]);
    line.add("a").unwrap();
    let all = line.volume.blocks * 8;
    let data = |sectors| Extent { sectors, is_hole: false };
    let hole = |sectors| Extent { sectors, is_hole: true };
    assert_eq!(line.holes(), [data(all)], "before it is loaded nobody knows");
    line.volume.write(2, 6, 1);
    assert_eq!(line.volume.run(shingled::discard(4, 2)).1, Status::Ok);
    let expected = [hole(16), data(16), hole(16), data(16), hole(all - 64)];
    assert_eq!(line.holes(), expected);
    line.message("sweep").unwrap();
    line.volume.rig.settle();
    // Whatever is in memory then, no data is called a hole.
    let mut at = 0;
    for extent in line.holes() {
        assert!(
            !extent.is_hole || at + extent.sectors <= 16 || at >= 64 || (at, extent.sectors) == (32, 16),
            "{extent:?}"
        );
        at += extent.sectors;
    }
    assert_eq!(at, all);
}
