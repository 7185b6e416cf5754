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
    assert_eq!(rows.len(), 5, "two runs and three published phases:\n{text}");
    assert!(rows[2].contains("0 to 400") && rows[2].contains("110"), "{}", rows[2]);
}

#[test]
fn what_is_no_run_of_dmzoned_or_no_table_of_it_is_refused_with_what_there_is() {
    let refused = |words: &str| {
        let Output { status, stderr, .. } = shingle(words).output().unwrap();
        assert!(!status.success(), "shingle {words} went well");
        text(&stderr)
    };
    assert!(refused("reproduce dmzoned --only triple").contains("dual / shingle"));
    assert!(refused("reproduce qd1 --minutes 3").contains("--minutes is for dmzoned"));
}
