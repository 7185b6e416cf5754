//! `shingle profile fit` as its users run it, on the figures of a study of a real drive (`lab/data/measured`).

use serde_json::Value;

use crate::program::Scratch;

const MEASURED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../lab/data/measured/zns-a-4k.json");

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn a_profile_is_fitted_and_predicts_most_of_what_was_held_out() {
    let scratch = Scratch::new();
    let words = format!("profile fit --base zns-1tb {MEASURED} -o mine.toml --json");
    let found = scratch.json(&words);
    let measurements = found["measurements"].as_array().unwrap();
    let off = |of: &Value, key: &str| (number(&of[key]) / number(&of["measured"]) - 1.0).abs();
    let of_role = |role: &'static str| measurements.iter().filter(move |one| one["role"] == role);
    let sum = |role: &'static str, key: &'static str| of_role(role).map(|one| off(one, key)).sum::<f64>();
    assert_eq!((of_role("fitted").count(), of_role("held out").count()), (15, 4));
    assert!(sum("fitted", "after") < sum("fitted", "before") / 3.0, "{found:#}");
    assert!(of_role("held out").filter(|one| off(one, "after") < 0.15).count() >= 3, "{found:#}");
    assert!(sum("held out", "after") < sum("held out", "before"), "{found:#}");
    // What was written is a profile that can be used, and says where its numbers come from.
    let text = std::fs::read_to_string(scratch.0.join("mine.toml")).unwrap();
    assert!(
        text.contains("fitted; matters most to zns-a-4k.json: ") && text.contains("# Fitted from zns-1tb"),
        "{text}"
    );
    scratch.ok("bench --profile mine.toml --rw=write --bs=4k --size=2GiB --io_size=8MiB");
    scratch.fails(&words, 1, &["mine.toml exists", "--force"]);
    // A fit that fails leaves what was there, and nothing where nothing was.
    scratch.file("none.json", "{\"jobs\": []}");
    scratch.fails("profile fit --base zns-1tb none.json -o mine.toml --force", 1, &["0 measurements"]);
    scratch.fails("profile fit --base zns-1tb none.json -o other.toml", 1, &["0 measurements"]);
    assert_eq!(std::fs::read_to_string(scratch.0.join("mine.toml")).unwrap(), text);
    assert!(!scratch.0.join("other.toml").exists());
    scratch.fails(
        &format!("profile fit --base zns-1tb {MEASURED} -o /nowhere/mine.toml"),
        1,
        &["cannot write /nowhere"],
    );
}

#[test]
fn what_cannot_be_fitted_is_an_error_that_says_what_to_measure() {
    let scratch = Scratch::new();
    scratch.file("none.json", "{\"jobs\": []}");
    scratch.fails(
        "profile fit --base zns-1tb none.json",
        1,
        &["0 measurements can be used, and 3 are needed", "random reads"],
    );
    scratch.fails("profile fit --base zns-1tb missing.json", 1, &["missing.json", "--output-format=json"]);
    scratch.fails(&format!("profile fit --base ssd-500gb {MEASURED}"), 1, &["the drive has no zones"]);
    scratch.fails(&format!("profile fit --base nosuch {MEASURED}"), 2, &["there is no profile `nosuch`"]);
    assert!(scratch.ok("profile list").contains("zns-1tb-4k"));
}

#[test]
fn what_ships_can_be_printed_edited_and_used() {
    let scratch = Scratch::new();
    scratch.file("mine.toml", &scratch.ok("profile show zns-1tb"));
    scratch.ok("bench --profile mine.toml --rw=write --bs=4k --size=2GiB --io_size=8MiB");
    assert!(scratch.ok("profile show paths-jitter").contains("model = \"paths\""));
    scratch.fails("profile show nosuch", 2, &["there is no profile `nosuch`", "smr-15tb", "paths-jitter"]);
}
