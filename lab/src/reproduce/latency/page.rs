//! The report as one page.

use std::fmt::Write;

use super::drawn::DrawnOutcome;
use super::outcome::{Report, Row, SceneOutcome};
use super::text::{self, Numbers};
use super::{ALONE, ORACLE, curves, spread, strips};
use crate::reproduce::Goal;
use crate::reproduce::figures::times;
use crate::reproduce::page::markup::Escaped;
use crate::reproduce::page::{Sheet, profiles, source};

/// What is this publication's own on its page.
pub fn sheet(report: &Report, goals: Vec<Goal>) -> Sheet {
    let (title, lead) = if report.own {
        (
            "Policies over paths of your own",
            "Every policy of multipath over the same paths, beside an oracle that knows all queues and everything that will \
             happen to a path.",
        )
    } else {
        (
            "A latency policy for multipath, run again",
            "What Linux's policies, those that were proposed for it and dm-multipath's do on paths that are alike, that differ, \
             and to which something happens, in virtual time; beside them the published figures, and an oracle that knows \
             all queues and everything that will happen to a path.",
        )
    };
    let mut sections = overview(report);
    report.scenes.chunk_by(|a, b| a.group == b.group).for_each(|scenes| write_group(&mut sections, scenes));
    report.drawn.iter().for_each(|drawn| write_drawn(&mut sections, drawn));
    let foot = format!("All of it in virtual time, seed {}.{}", report.seed, profiles(&report.profiles));
    let warning =
        report.quick.then(|| "Runs were cut short: the figures show that everything runs, no more.".to_owned());
    Sheet { name: "latency", title, lead, link: None, warning, summary: String::new(), goals, key: "", sections, foot }
}

/// All scenes in a table: means, times the oracle's.
fn overview(report: &Report) -> String {
    let Some(first) = report.scenes.first() else { return String::new() };
    let policies: Vec<&str> =
        first.rows.iter().map(|row| &*row.policy).filter(|of| ![ORACLE, ALONE].contains(of)).collect();
    let policies: Vec<&str> =
        policies.into_iter().filter(|of| report.scenes.iter().all(|scene| scene.row(of).is_some())).collect();
    let mut html = String::from(
        "<section class=\"full\" aria-labelledby=\"overview\">\n<h2 id=\"overview\">Mean latency, times the oracle's</h2>\n\
         <p class=\"source\">Bold: within 2 % of the best policy. A policy that sends more in the same time, in a closed loop, \
         may pay for it with latency: open loops compare exactly.</p>\n\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Overview\"><table>\n<thead><tr><th class=\"text\">set / load</th>",
    );
    policies.iter().for_each(|policy| _ = write!(html, "<th scope=\"col\">{}</th>", Escaped(policy)));
    html.push_str("</tr></thead>\n<tbody>\n");
    for scene in &report.scenes {
        let ratios: Vec<Option<f64>> = policies.iter().map(|policy| scene.to_oracle(scene.row(policy)?)).collect();
        let best = ratios.iter().copied().flatten().fold(f64::MAX, f64::min);
        let _ = write!(html, "<tr><th scope=\"row\">{}</th>", Escaped(&scene.name()));
        for (policy, ratio) in policies.iter().zip(&ratios) {
            let class = if text::is_ours(policy) { " class=\"own\"" } else { "" };
            let is_best = ratio.is_some_and(|ratio| ratio <= best * 1.02);
            let (from, to) = if is_best { ("<b>", "</b>") } else { ("", "") };
            let _ = write!(html, "<td{class}>{from}{}{to}</td>", ratio.map_or_else(String::new, times));
        }
        html.push_str("</tr>\n");
    }
    html + "</tbody></table></div>\n</section>\n"
}

fn write_group(page: &mut String, scenes: &[SceneOutcome]) {
    let (group, title) = (Escaped(&scenes[0].group), Escaped(&scenes[0].title));
    let id = format!("set-{group}");
    let _ = writeln!(page, "<section class=\"full\" aria-labelledby=\"{id}\">\n<h2 id=\"{id}\">{title}</h2>");
    page.push_str(&source(&text::note(&scenes[0].group)));
    page.push_str(&curves::key(scenes[0].rows.iter().map(|row| &*row.policy)));
    for (place, scene) in scenes.iter().enumerate() {
        write_scene(page, scene, &format!("{id}-{place}"));
    }
    page.push_str("</section>\n");
}

fn write_scene(page: &mut String, scene: &SceneOutcome, id: &str) {
    let (name, load) = (Escaped(&scene.load_name).to_string(), Escaped(&scene.load).to_string());
    let _ = writeln!(page, "<h3>{name}: {load}</h3>\n<div class=\"panels pairs\">");
    let figures = [
        ("How long I/Os take", curves::draw(scene, &format!("{id}-c"))),
        ("Which path they take", strips::draw(scene, &format!("{id}-s"))),
    ];
    for (title, svg) in figures {
        let _ =
            writeln!(page, "<figure class=\"plain\"><figcaption><strong>{title}</strong></figcaption>{svg}</figure>");
    }
    page.push_str("</div>\n");
    let numbers = text::scene_numbers(scene);
    // What was published is what a reader came for.
    let open = if scene.rows.iter().any(|row: &Row| !row.compared.is_empty()) { " open=\"\"" } else { "" };
    let _ = writeln!(page, "<details{open}>\n<summary>All numbers</summary>\n{}</details>", table(&numbers));
}

fn write_drawn(page: &mut String, drawn: &DrawnOutcome) {
    let _ = writeln!(
        page,
        "<section class=\"full\" aria-labelledby=\"drawn\">\n<h2 id=\"drawn\">{} drawn sets under drawn loads</h2>\n\
         <p class=\"source\">Nothing was fitted to them, and they were there before any policy of ours was. A mark is a set; the black \
         one is in the middle. adaptive renews its shares every fifteen seconds, which a run of these does not last: here it takes \
         paths in turn.</p>\n\
         <figure class=\"plain curves\">{}</figure>\n{}</section>",
        drawn.sets.len(),
        spread::draw(drawn, "drawn-ratios"),
        table(&text::drawn_numbers(drawn))
    );
}

/// A table in a frame that scrolls sideways where the page is narrow.
fn table(numbers: &Numbers) -> String {
    let mut html = String::from(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Numbers\"><table>\n<thead><tr>",
    );
    let class_of = |place: usize| if numbers.right.contains(&place) { "" } else { " class=\"text\"" };
    for (place, name) in numbers.header.iter().enumerate() {
        let _ = write!(html, "<th scope=\"col\"{}>{}</th>", class_of(place), Escaped(name));
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for row in &numbers.rows {
        let own = if text::is_ours(&row[0]) { " class=\"own\"" } else { "" };
        let _ = write!(html, "<tr{own}><th scope=\"row\">{}</th>", Escaped(&row[0]));
        for (place, cell) in row.iter().enumerate().skip(1) {
            let class = if cell == "OFF" { " class=\"text miss\"" } else { class_of(place) };
            let _ = write!(html, "<td{class}>{}</td>", Escaped(cell));
        }
        html.push_str("</tr>\n");
    }
    html + "</tbody>\n</table></div>\n"
}
