//! `shingle reproduce` as users run it: every published figure is there, in each form of the result, and the forms agree.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use shingle_lab::reproduce::figures::grouped;
use shingle_lab::reproduce::{Imprint, Publication, Report, SCHEMAS, Schema, from_json, to_json};

fn shingle(words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shingle"));
    command.args(words.split_whitespace());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[track_caller]
fn ok(words: &str) -> String {
    let Output { status, stdout, stderr } = shingle(words).env("SOURCE_DATE_EPOCH", "1700000000").output().unwrap();
    assert!(status.success(), "shingle {words}: {}", text(&stderr));
    text(&stdout)
}

#[track_caller]
fn report(words: &str) -> Report {
    from_json(&ok(words)).unwrap()
}

/// A path that is free, and what is there when the test is over.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("shingle-reproduce-{}-{name}", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// The published figures of `publication`, with table, row and column.
fn published(publication: &str) -> BTreeSet<(String, String, String, u64)> {
    let mut all = BTreeSet::new();
    let is_of = |schema: &&Schema| serde_json::json!(Publication::of_table(schema.name)) == publication;
    for schema in SCHEMAS.iter().filter(is_of) {
        let figures = schema.read().unwrap().figures.into_iter();
        all.extend(figures.map(|figure| {
            (schema.name.to_owned(), figure.keys.join(","), figure.column.to_owned(), figure.value as u64)
        }));
    }
    all
}

fn published_in(report: &Report) -> BTreeSet<(String, String, String, u64)> {
    let cells = report.cells().filter_map(|(table, cell)| {
        Some((table.name.clone(), cell.row.clone(), cell.column.clone(), cell.published? as u64))
    });
    cells.collect()
}

/// Elements that have no end tag; here they say so themselves.
const VOID: [&str; 2] = ["meta", "br"];

/// Goes through the tags of `html`, which has to be balanced; returns each start tag.
fn tags(html: &str) -> Vec<String> {
    let (mut open, mut all): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let body = html.strip_prefix("<!DOCTYPE html>\n").expect("a document type");
    for piece in body.split('<').skip(1) {
        let (tag, rest) = piece.split_once('>').unwrap_or_else(|| panic!("a tag without end: <{piece}"));
        assert!(!rest.contains('>') || tag == "style", "a stray > in {rest:?}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "</{name}> ends something else");
            continue;
        }
        let quotes = tag.matches('"').count();
        assert!(quotes.is_multiple_of(2), "an attribute without end in <{tag}>");
        all.push(tag.to_owned());
        let name = tag.split([' ', '/']).next().unwrap().to_owned();
        if tag.ends_with('/') {
            continue;
        }
        assert!(!VOID.contains(&name.as_str()), "<{tag}> has to end itself");
        open.push(name);
    }
    assert!(open.is_empty(), "these never end: {open:?}");
    all
}

fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
    rest.split('"').next()
}

#[track_caller]
fn assert_is_a_whole_page(html: &str, report: &Report) {
    let tags = tags(html);
    // A link is followed by who reads the page, and loads nothing: what it stands beside may be named, at the foot.
    let link = tags.iter().find(|tag| tag.starts_with("a "));
    assert_eq!(
        (link.is_some(), tags.iter().filter(|tag| tag.starts_with("a ")).count() <= 1),
        (report.publication != Publication::Noclone, true)
    );
    let link = link.map_or("", String::as_str);
    assert!(link.is_empty() || link.starts_with("a href=\"https://lore.kernel.org/linux-block/"), "{link}");
    let itself = html.replacen(&format!("<{link}>"), "", 1);
    for outside in ["http:", "https:", "//", "url(", "@import", "<script", "<link", "<img", " src=", " href="] {
        assert!(!itself.contains(outside), "the page refers to something outside of it: {outside}");
    }
    let ids: Vec<&str> = tags.iter().filter_map(|tag| attribute(tag, "id")).collect();
    assert_eq!(ids.len(), ids.iter().collect::<BTreeSet<_>>().len(), "an id is there twice");
    for names in tags.iter().filter_map(|tag| attribute(tag, "aria-labelledby")) {
        assert!(names.split(' ').all(|name| ids.contains(&name)), "nothing is called {names}");
    }
    for plot in tags.iter().filter(|tag| tag.starts_with("svg")) {
        let named = attribute(plot, "aria-labelledby").is_some() || attribute(plot, "aria-hidden").is_some();
        assert!(named, "a plot without a title: {plot}");
    }
    for (_, cell) in report.cells() {
        for figure in cell.published.into_iter().chain([cell.ours.value]) {
            assert!(html.contains(&format!(">{}<", grouped(figure))), "{figure} of {cell:?} is not on the page");
        }
    }
    assert!(html.contains("prefers-color-scheme: dark") && html.contains("width=device-width"));
}

#[test]
fn every_published_figure_of_each_publication_has_one_of_ours_beside_it_in_every_form() {
    for publication in ["zwp", "qd1", "noclone"] {
        let page = Scratch::new(publication);
        let json = ok(&format!("reproduce {publication} --quick --json --html {}", page.0.display()));
        let report = from_json(&json).unwrap();
        let in_report = published_in(&report);
        let lost: Vec<_> = published(publication).difference(&in_report).cloned().collect();
        assert_eq!(lost, [], "these were published, and are not in the report");
        assert_eq!(in_report.len(), published(publication).len(), "nothing else is said to be published");
        for (table, cell) in report.cells() {
            let name = cell.name(&table.name);
            assert!(cell.ours.value.is_finite() && cell.ours.value > 0.0, "{name}: {:?}", cell.ours);
            assert!(cell.ours.longest_wait_ns > 0, "{name}: {:?}", cell.ours);
        }
        assert_is_a_whole_page(&fs::read_to_string(&page.0).unwrap(), &report);
        // The JSON reads as what it was made from, and the page and the table are made from nothing else.
        assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap(), to_json(&report));
        let saved = Scratch::new(&format!("{publication}.json"));
        fs::write(&saved.0, &json).unwrap();
        let words = format!("shingle reproduce {publication} --quick --json --html {}", page.0.display());
        let imprint = Imprint::new(1_700_000_000, words.split(' ').map(str::to_owned));
        let made = fs::read_to_string(&page.0).unwrap();
        assert_eq!(report.findings().sheet.to_html(&imprint), made);
        assert!(made.contains(&format!(
            "Made by shingle {} on 2023-11-14 with <code>{words}</code>",
            env!("CARGO_PKG_VERSION")
        )));
        assert!(made.contains(&format!("built with profile {}.", shingle_lab::BUILD_PROFILE)));
        let table = ok(&format!("reproduce {publication} --from {}", saved.0.display()));
        for (_, row, _, figure) in published(publication) {
            assert!(table.contains(&grouped(figure as f64)), "{figure} of {row} is not in the table");
        }
    }
}

#[test]
fn a_page_that_cannot_be_written_is_refused_before_anything_runs_and_one_that_can_is_not_touched() {
    let fails = |html: &str| {
        // A filter that nothing has would be the first mistake of the run.
        let words = ["reproduce", "qd1", "--only", "nothing has this", "--html", html];
        let output = Command::new(env!("CARGO_BIN_EXE_shingle")).args(words).output().unwrap();
        assert!(!output.status.success());
        text(&output.stderr).to_owned()
    };
    assert!(fails("/nowhere/page.html").contains("cannot write /nowhere/page.html: No such file"));
    let page = Scratch::new("refused");
    assert!(!fails(page.0.to_str().unwrap()).contains("page") && !page.0.exists());
    let words = ["reproduce", "qd1", "--only", "nothing has this"];
    let output =
        Command::new(env!("CARGO_BIN_EXE_shingle")).args(words).env("SOURCE_DATE_EPOCH", "soon").output().unwrap();
    assert!(text(&output.stderr).contains("SOURCE_DATE_EPOCH is no number of seconds"));
    fs::write(&page.0, "kept").unwrap();
    fails(page.0.to_str().unwrap());
    assert_eq!(fs::read_to_string(&page.0).unwrap(), "kept");
}

#[test]
fn simulated_cells_depend_on_the_seed_and_on_nothing_else() {
    let words = "reproduce qd1 --quick --only random-zones --seed";
    let run = |seed: u32| ok(&format!("{words} {seed} --json"));
    assert_eq!(run(7), run(7));
    assert_ne!(report(&format!("{words} 7 --json")).tables, report(&format!("{words} 8 --json")).tables);
}

#[test]
fn a_filter_keeps_what_it_names_and_the_baseline_to_compare_it_with() {
    let report = report("reproduce zwp --quick --only rndw4K16 --json");
    let measured: Vec<&str> = report.cells().filter(|(_, c)| c.group == "nullblk").map(|(_, c)| &*c.load).collect();
    assert!(!measured.is_empty() && measured.iter().all(|load| *load == "rndw4K16"), "{measured:?}");
    let words = ["reproduce", "zwp", "--quick", "--json", "--only", "nullblk / rndw4k16 / zwp none"];
    let output = Command::new(env!("CARGO_BIN_EXE_shingle")).args(words).output().unwrap();
    let report = from_json(&text(&output.stdout)).unwrap();
    let systems: Vec<&str> = report.cells().map(|(_, cell)| &*cell.system).collect();
    assert_eq!(systems, ["baseline mq-deadline", "zwp none"]);
}

#[test]
fn wrong_words_say_what_would_be_right() {
    let fails = |words: &str, code: i32, say: &str| {
        let output = shingle(words).output().unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words}: {stderr}");
        assert!(stderr.contains(say), "{words}: {stderr}");
    };
    fails("reproduce zwp --only floppy", 2, "names are like `zwp-devices / nullblk / seqw4K1 / baseline mq-deadline`");
    fails("reproduce dm", 2, "zwp");
    fails("reproduce zwp --from /dev/null", 1, "no report of `shingle reproduce --json`");
    fails("reproduce zwp --from /nowhere.json", 1, "/nowhere.json");
    fails("reproduce zwp --from a.json --quick", 2, "--quick");
    let saved = Scratch::new("other.json");
    fs::write(&saved.0, ok("reproduce qd1 --quick --only sequential --json")).unwrap();
    fails(&format!("reproduce zwp --from {}", saved.0.display()), 1, "another publication");
    fails("reproduce qd1 --quick --only sequential --html /nowhere/page.html", 1, "/nowhere/page.html");
}

#[test]
fn an_interrupt_ends_a_run_soon_and_shows_nothing_of_it() {
    let mut command = shingle("reproduce zwp --only nullblk --json");
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let interrupted = Instant::now();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(interrupted.elapsed() < Duration::from_secs(5));
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), String::new()));
    assert!(text(&output.stderr).contains("interrupted"), "{}", text(&output.stderr));
}

#[test]
fn minutes_of_dmzoned_are_shown_as_text_and_page_and_again_from_a_saved_report() {
    let (page, saved) = (Scratch::new("dmzoned.html"), Scratch::new("dmzoned.json"));
    let json = ok(&format!("reproduce dmzoned --only single --minutes 2 --json --html {}", page.0.display()));
    fs::write(&saved.0, &json).unwrap();
    assert!(fs::read_to_string(&page.0).unwrap().contains("One SMR disk of 15 TB"));
    let text = ok(&format!("reproduce dmzoned --from {}", saved.0.display()));
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("single")).collect();
    assert_eq!(rows.len(), 6, "three runs and three published phases:\n{text}");
    assert!(rows[3].contains("0 to 400") && rows[3].contains("110"), "{}", rows[3]);
}

#[test]
fn what_is_no_run_of_dmzoned_or_no_table_of_it_is_refused_with_what_there_is() {
    let refused = |words: &str| {
        let Output { status, stderr, .. } = shingle(words).output().unwrap();
        assert!(!status.success(), "shingle {words} went well");
        text(&stderr)
    };
    assert!(refused("reproduce dmzoned --only triple").contains("dual / shingle"));
    assert!(refused("reproduce qd1 --minutes 3").contains("--minutes is for dmzoned and stl"));
    assert!(refused("reproduce qd1 --profile smr-15tb").contains("--profile is for stl"));
}

#[test]
fn a_load_on_stl_is_shown_as_text_and_page_and_again_from_a_saved_report() {
    let (page, saved) = (Scratch::new("stl.html"), Scratch::new("stl.json"));
    let words = "reproduce stl --minutes 1 --only";
    let own = ["--profile", "smr-26tb"].join(" ");
    let json = ok(&format!("{words} sync-ssd {own} --json --html {}", page.0.display()));
    fs::write(&saved.0, &json).unwrap();
    let html = fs::read_to_string(&page.0).unwrap();
    assert!(html.contains("4 KiB writes and flushes in turns") && html.contains("smr-26tb"));
    let text = ok(&format!("reproduce stl --from {}", saved.0.display()));
    assert_eq!(text.lines().filter(|line| line.starts_with("sync-ssd  ")).count(), 4, "{text}");
    assert!(text.contains("pairs_per_s"));
}

#[test]
fn policies_of_multipath_are_shown_in_every_form_and_again_from_a_saved_report() {
    let (page, saved) = (Scratch::new("latency.html"), Scratch::new("latency.json"));
    let words = "reproduce latency --quick --only";
    let json = ok(&format!("{words} fc32-two --json --html {}", page.0.display()));
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    let scenes = report["scenes"].as_array().unwrap();
    assert_eq!(scenes.len(), 4, "tiobench has four phases");
    let html = fs::read_to_string(&page.0).unwrap();
    let tags = tags(&html);
    for outside in ["http:", "https:", "//", "url(", "@import", "<script", "<link", "<img", " src=", " href="] {
        assert!(!html.contains(outside), "the page refers to something outside of it: {outside}");
    }
    let ids: Vec<&str> = tags.iter().filter_map(|tag| attribute(tag, "id")).collect();
    assert_eq!(ids.len(), ids.iter().collect::<BTreeSet<_>>().len(), "an id is there twice");
    assert!(tags.iter().filter(|tag| tag.starts_with("svg")).count() > 8, "two plots of each phase");
    let json_again = ok(&format!("{words} fc32-two --json"));
    assert_eq!(json, json_again, "the same seed gives the same report");
    fs::write(&saved.0, &json).unwrap();
    let shown = ok(&format!("reproduce latency --from {}", saved.0.display()));
    assert_eq!(shown, ok(&format!("{words} fc32-two")));
    assert_eq!(json, ok(&format!("reproduce latency --json --from {}", saved.0.display())));
    for scene in scenes {
        let rows = scene["rows"].as_array().unwrap();
        assert_eq!(rows[0]["policy"], "oracle");
        let published: Vec<&str> =
            rows.iter().filter(|row| row["class"] != "own").map(|row| row["policy"].as_str().unwrap()).collect();
        assert_eq!(published, ["round-robin", "latency", "latency, decay 10"]);
        for row in rows {
            let mean = row["mean_us"].as_f64().unwrap();
            assert!(mean > 50.0, "{row}");
            for form in [&shown, &html] {
                assert!(form.contains(&grouped(mean)), "{mean} of {} is not shown", row["policy"]);
            }
        }
    }
    for figure in ["4,598", "7,903", "186", "331"] {
        assert!(shown.contains(figure) && html.contains(figure), "{figure} was published");
    }
}

#[test]
fn drawn_sets_depend_on_the_seed_and_every_policy_is_held_against_the_oracle() {
    let run = |seed: u32| -> serde_json::Value {
        serde_json::from_str(&ok(&format!("reproduce latency --quick --only drawn --json --seed {seed}"))).unwrap()
    };
    let report = run(1);
    assert_eq!(report["drawn"], run(1)["drawn"]);
    assert_ne!(report["drawn"], run(2)["drawn"]);
    let standings = report["drawn_ratios"].as_array().unwrap();
    assert_eq!(standings.len(), report["drawn"]["policies"].as_array().unwrap().len());
    assert_eq!((&standings[0]["policy"], standings[0]["average"].as_f64()), (&"oracle".into(), Some(1.0)));
    assert!(standings.iter().any(|standing| standing["worst"].as_f64().unwrap() > 1.2), "{standings:?}");
}

/// Two paths; the text of the second one.
fn paths_file(second: &str) -> String {
    let path =
        |name: &str| format!("[[path]]\nname = \"{name}\"\nordered = false\nthere = \"40us\"\nback = \"40us\"\n");
    format!(
        "description = \"mine\"\nmodel = \"paths\"\n[ram]\nsize = \"1GiB\"\nblock = \"4KiB\"\nservers = 8\nread = \"80us\"\nwrite = \"30us\"\n{}{}{second}",
        path("one"),
        path("two")
    )
}

#[test]
fn paths_of_a_user_are_tried_under_a_load_of_theirs() {
    let file = Scratch::new("mine.toml");
    fs::write(&file.0, paths_file("[[path.step]]\nat = \"0s\"\nthere = \"1ms\"\nback = \"0ms\"\n")).unwrap();
    let words = format!("reproduce latency --quick --json --paths {} --paths paths-jitter --jobs 2", file.0.display());
    let report: serde_json::Value = serde_json::from_str(&ok(&words)).unwrap();
    let scenes = report["scenes"].as_array().unwrap();
    let (mine, oracle) = (&scenes[0], &scenes[0]["rows"][0]);
    assert_eq!((scenes.len(), &mine["title"], &mine["load"]), (2, &"mine".into(), &"2 jobs, 4 KiB 70 % reads".into()));
    assert_eq!(oracle["paths"][1]["sent"], 0, "the second path is slower for all");
    assert!(oracle["paths"][0]["sent"].as_u64().unwrap() > 100);
    let open = ok(&words.replace("--jobs 2", "--rate 1000 --reads 100 --block 8KiB --submitters 2"));
    assert!(open.contains("1000 a second, 8 KiB reads, 2 submitters"));
    let tuned = ok(&format!("{words} --decay 30 --window 500us"));
    assert!(tuned.contains("latency, decay 30, window 500 us") && tuned.contains("adaptive, decay 30, window 500 us"));
    let refused = shingle(&format!("{words} --window 10us")).output().unwrap();
    let said = text(&refused.stderr);
    assert!(refused.status.code() == Some(2) && said.contains("`window` is 10 us, allowed: 100 us to 1 h"), "{said}");
}

#[test]
fn paths_that_are_wrong_are_refused_with_the_line_and_what_is_allowed() {
    let file = Scratch::new("wrong.toml");
    let refused = |words: &str, code: i32, says: &[&str]| {
        let output = shingle(words).output().unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words}: {stderr}");
        assert!(says.iter().all(|say| stderr.contains(say)), "{words}: {stderr}");
    };
    let wrong = paths_file("state = \"best\"\n");
    let line = wrong.lines().position(|line| line.contains("best")).unwrap() + 1;
    fs::write(&file.0, &wrong).unwrap();
    let words = format!("reproduce latency --paths {}", file.0.display());
    refused(&words, 1, &[&format!("{}:{line}:", file.0.display()), "optimized"]);
    fs::write(&file.0, paths_file("")).unwrap();
    refused(&format!("{words} --block 512B"), 1, &["multiples of 4096 bytes"]);
    refused(&format!("{words} --block 1000"), 2, &["multiples of 512"]);
    refused(&format!("{words} --jobs 4 --rate 100"), 2, &["--jobs", "--rate"]);
    refused("reproduce latency --jobs 4", 2, &["--paths"]);
    refused("reproduce latency --paths paths-fc", 1, &["paths-fc32-two"]);
    refused("reproduce latency --paths /nowhere/mine.toml", 1, &["/nowhere/mine.toml"]);
    refused("reproduce qd1 --paths paths-jitter", 2, &["--paths is for latency"]);
    refused("reproduce latency --only floppy", 2, &["`floppy`", "fc32-two / random read", "drawn"]);
    refused("reproduce latency --from /dev/null", 1, &["no report of `shingle reproduce latency --json`"]);
}
