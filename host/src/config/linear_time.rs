//! Mistakes in a stack file cost time in proportion to its length, however many there are. Work is counted, not timed.

use std::fmt::Write;

use super::plan::Plan;
use crate::fields::{ConfigError, MAX_MISTAKES, Source, work};

const SMALL: usize = 32 << 10;
const FACTOR: usize = 8;

/// Lines that `line` makes of numbers from 0 on, together as long as this.
fn lines(bytes: usize, line: impl Fn(usize) -> String) -> String {
    let mut text = String::with_capacity(bytes + 100);
    (0..)
        .take_while(|number| {
            text += &line(*number);
            text.len() < bytes
        })
        .for_each(drop);
    text
}

fn disks(bytes: usize) -> String {
    lines(bytes, |n| format!("[disk.d{n}]\ntype = \"null\"\n"))
}

/// Files of this length that are wrong everywhere, each in another way.
fn wrong_files(bytes: usize) -> Vec<(&'static str, String)> {
    let half = bytes / 2;
    let long = "x".repeat(half);
    let chain = |to: usize| lines(half, move |n| format!("[device.c{n}]\ntable = \"0 8 linear c{} 0\"\n", n + to));
    let heads = lines(half, |n| format!("[device.h{n}]\npaths = [\"d1\", \"d1\", \"h0\"]\n"));
    vec![
        ("exports of nothing", disks(half) + &lines(half, |n| format!("[export.e{n}]\ndevice = \"nothing{n}\"\n"))),
        ("lines over nothing", {
            let table = lines(half, |n| format!("{} 8 linear nothing{n} 0\n", n * 8));
            disks(half) + "[device.t]\ntable = \"\"\"\n" + &table + "\"\"\"\n"
        }),
        ("unknown keys below a long name", format!("[disk.{long}]\n") + &lines(half, |n| format!("k{n} = 1\n"))),
        ("unknown keys", String::from("[listen]\n") + &lines(bytes, |n| format!("unixx{n} = 1\n"))),
        ("unknown sections", lines(bytes, |n| format!("[sect{n}]\n"))),
        ("a long unknown key", format!("[listen]\n{long} = 1\n[disk.{long}y]\ntype = \"null\"\n")),
        ("a long unknown word", format!("[disk.a]\ntype = \"{long}\"\n")),
        ("wrong values", lines(bytes, |n| format!("[disk.d{n}]\ntype = \"null\"\nsize = true\n"))),
        ("no type", lines(bytes, |n| format!("[disk.d{n}]\n"))),
        ("no names", lines(bytes, |n| format!("[disk.\"d {n}\"]\ntype = \"null\"\n"))),
        (
            "both a disk and a device",
            lines(bytes, |n| format!("[disk.d{n}]\ntype = \"null\"\n[device.d{n}]\ntable = \"0 8 zero\"\n")),
        ),
        ("a chain that ends nowhere", chain(1)),
        ("each below itself", chain(0)),
        ("paths that are named twice", disks(half) + &heads),
        ("no TOML", "x = \n".repeat(bytes / 5)),
    ]
}

fn mistakes(text: &str) -> (ConfigError, u64) {
    let source = Source { path: "stack.toml".into(), text: text.to_owned() };
    work::take();
    let error = Plan::parse(source).expect_err("the file is wrong");
    (error, work::take())
}

#[test]
fn mistakes_cost_linear_time() {
    for ((name, small), (_, large)) in wrong_files(SMALL).into_iter().zip(wrong_files(SMALL * FACTOR)) {
        let ((few, less), (many, more)) = (mistakes(&small), mistakes(&large));
        let bound = less.max(10_000) * FACTOR as u64 * 3 / 2;
        assert!(more <= bound, "{name}: {less} comparisons grow to {more}, where {bound} would be linear");
        for error in [few, many] {
            assert!(error.diagnostics.len() <= 4 * MAX_MISTAKES, "{name}: {} mistakes", error.diagnostics.len());
        }
    }
}

#[test]
fn what_is_shown_of_mistakes_is_bounded_and_says_so() {
    for (name, text) in wrong_files(SMALL) {
        let shown = mistakes(&text).0.render(false);
        let errors = shown.lines().filter(|line| line.starts_with("error")).count();
        assert!(errors <= MAX_MISTAKES, "{name}: {errors} errors");
        assert!(shown.len() <= 4 * MAX_MISTAKES * SMALL, "{name}: {} bytes", shown.len());
        let is_cut = errors == MAX_MISTAKES;
        assert_eq!(shown.contains("these are the first"), is_cut, "{name}");
    }
}

#[test]
fn devices_are_put_in_order_in_linear_time() {
    // From the top down: each device stands before the one that it needs. As many as may lie on top of each other, many times.
    let file = |towers: usize| {
        let mut text = String::from("[disk.d]\ntype = \"null\"\n");
        for tower in 0..towers {
            for level in (0..8).rev() {
                let below = if level == 0 { "d".to_owned() } else { format!("t{tower}-{}", level - 1) };
                let _ = write!(text, "[device.t{tower}-{level}]\ntable = \"0 8 linear {below} 0\"\n");
            }
        }
        Source { path: "stack.toml".into(), text }
    };
    let ordered = |towers| {
        work::take();
        let plan = Plan::parse(file(towers)).expect("the file is right");
        let place = |name: &str| plan.devices.iter().position(|device| device.name == name);
        assert!(place("t0-0") < place("t0-1") && place("t0-6") < place("t0-7"));
        work::take()
    };
    let (few, many) = (ordered(10), ordered(100));
    assert!(few > 0 && many <= few * 11, "{few} looks grow to {many}");
}
