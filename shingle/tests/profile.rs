//! Profiles: those that ship are right, and a wrong one says what, where and what is allowed.

use shingle::config::Source;
use shingle::profile::{Model, Profile};

fn shipped(name: &str) -> String {
    let path = format!("{}/../profiles/{name}.toml", env!("CARGO_MANIFEST_DIR"));
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
    let error = parse(shipped("smr-30tb").replace("track = \"0.32ms\"", "track = \"9ms\"")).unwrap_err();
    assert!(error.contains("seek times"), "{error}");
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
