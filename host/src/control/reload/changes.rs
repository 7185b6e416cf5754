//! What a changed stack file changes of a running stack, as a pure function of what is in force and what is wanted.
//!
//! ```text
//!  clients come elsewhere ─> disks are opened ─> devices made ─> tables swapped, paths changed ─> exports end ─> exports begin
//!      ─> devices removed ─> disks closed ─> metrics, the page and the control socket are elsewhere
//! ```
//!
//! In that order nothing needs what is not there yet, and nothing is removed that something still needs.

use std::collections::BTreeSet;

use shingle_core::plug::WritePolicy;

use crate::config::{DevicePlan, DiskPlan, ExportPlan, MadeOf, Plan};
use crate::control::protocol::{Part, Verb};

/// One thing that is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What kind of thing it is done to.
    pub part: Part,
    /// The name of that.
    pub name: String,
    pub verb: Verb,
    /// Why it cannot be done while the stack runs.
    pub obstacle: Option<String>,
}

impl Change {
    fn new(part: Part, name: &str, verb: Verb) -> Self {
        Self { part, name: name.to_owned(), verb, obstacle: None }
    }

    fn after_a_restart(part: Part, name: &str, why: impl Into<String>) -> Self {
        Self { obstacle: Some(why.into()), ..Self::new(part, name, Verb::Change) }
    }
}

/// What it takes to have `wanted` in the place of what is in force.
pub fn changes(now: &Plan, wanted: &Plan) -> Vec<Change> {
    let compare = Compare { now, wanted };
    let mut changes: Vec<Change> = compare.section("listen").into_iter().collect();
    changes.extend(wanted.disks.iter().filter_map(|disk| compare.disk(disk)));
    changes.extend(
        wanted
            .devices
            .iter()
            .filter(|device| !compare.has_device(device))
            .map(|device| Change::new(Part::Device, &device.name, Verb::Add)),
    );
    changes.extend(
        wanted.devices.iter().filter(|device| compare.has_device(device)).flat_map(|device| compare.device(device)),
    );
    let (ended, begun) = compare.exports();
    changes.extend(ended.into_iter().map(|name| Change::new(Part::Export, &name, Verb::Remove)));
    changes.extend(begun.into_iter().map(|name| Change::new(Part::Export, &name, Verb::Add)));
    changes.extend(compare.gone_devices());
    changes.extend(compare.gone_disks());
    changes.extend(["metrics", "web"].into_iter().filter_map(|name| compare.section(name)));
    changes.extend(compare.control());
    changes
}

struct Compare<'a> {
    now: &'a Plan,
    wanted: &'a Plan,
}

impl Compare<'_> {
    fn is_same(&self, section: &str, name: &str) -> bool {
        self.now.written.part(section, name) == self.wanted.written.part(section, name)
    }

    /// The keys of `[section.name]` that differ.
    fn keys(&self, section: &str, name: &str) -> BTreeSet<String> {
        let (now, wanted) = (self.now.written.part(section, name), self.wanted.written.part(section, name));
        let all = now.iter().chain(&wanted).flat_map(|part| part.keys().cloned());
        all.filter(|key| now.and_then(|part| part.get(key)) != wanted.and_then(|part| part.get(key))).collect()
    }

    fn section(&self, name: &str) -> Option<Change> {
        let is_same = self.now.written.section(name) == self.wanted.written.section(name);
        (!is_same).then(|| Change::new(Part::Section, name, Verb::Change))
    }

    fn control(&self) -> Option<Change> {
        let why = "without a control socket nobody could change anything any more";
        let obstacle = self.wanted.control.is_none().then(|| why.to_owned());
        self.section("control").map(|change| Change { obstacle, ..change })
    }

    fn disk(&self, disk: &DiskPlan) -> Option<Change> {
        let name = &disk.name;
        let Some(before) = self.now.disk(name) else {
            let add = Change::new(Part::Disk, name, Verb::Add);
            let missing = format!("it is on shard {}, and the stack runs {}", disk.shard, self.now.shards);
            let obstacle = (disk.shard >= self.now.shards).then_some(missing);
            return Some(Change { obstacle, ..add });
        };
        if self.is_same("disk", name) {
            return None;
        }
        let keys = self.keys("disk", name);
        // With `zone-lock` the queue depth is part of the plug.
        let locks = [before, disk].iter().any(|disk| disk.policy == Some(WritePolicy::ZoneLock));
        let is_set_live = |key: &String| match key.as_str() {
            "policy" => disk.policy.is_some(),
            "scheduler" => true,
            "queue-depth" => !locks,
            _ => false,
        };
        if keys.iter().all(is_set_live) {
            return Some(Change::new(Part::Disk, name, Verb::Set));
        }
        let keys: Vec<String> = keys.into_iter().map(|key| format!("`{key}`")).collect();
        Some(Change::after_a_restart(
            Part::Disk,
            name,
            format!("{} of a disk that is open stays as it is", keys.join(", ")),
        ))
    }

    fn has_device(&self, device: &DevicePlan) -> bool {
        self.now.devices.iter().any(|other| other.name == device.name)
    }

    /// What of a device is another: its table, its knobs, or both.
    fn device(&self, device: &DevicePlan) -> Vec<Change> {
        let (name, keys) = (&device.name, self.keys("device", &device.name));
        let before = self.now.devices.iter().find(|other| other.name == *name).map(|other| &other.made_of);
        let is_table = |made_of: &MadeOf| matches!(made_of, MadeOf::Table(_));
        if keys.is_empty() {
            return Vec::new();
        }
        let verbs: [(&[&str], Verb); 2] = match (before.is_some_and(is_table), is_table(&device.made_of)) {
            (true, true) => [(&["table"], Verb::Swap), (&["knobs"], Verb::Set)],
            (false, false) => [(&["paths"], Verb::Change), (&["policy", "decay", "window", "low-water"], Verb::Set)],
            _ => {
                let why =
                    "a device with a table has no paths, and one with paths no table: give the new one another name";
                return vec![Change::after_a_restart(Part::Device, name, why)];
            }
        };
        let is_told = |key: &&String| verbs.iter().any(|(of, _)| of.contains(&key.as_str()));
        let rest: Vec<String> = keys.iter().filter(|key| !is_told(key)).map(|key| format!("`{key}`")).collect();
        if !rest.is_empty() {
            let why = format!("{} of a device that is there stays as it is", rest.join(", "));
            return vec![Change::after_a_restart(Part::Device, name, why)];
        }
        verbs
            .into_iter()
            .filter(|(of, _)| of.iter().any(|key| keys.contains(*key)))
            .map(|(_, verb)| Change::new(Part::Device, name, verb))
            .collect()
    }

    /// Names of exports that end, and of those that begin; what is written otherwise does both.
    fn exports(&self) -> (Vec<String>, Vec<String>) {
        let names = |plan: &Plan, other: &Plan| -> Vec<String> {
            let is_there = |name: &str| other.exports.iter().any(|export| export.name == name);
            let differs = |export: &&ExportPlan| !is_there(&export.name) || !self.is_same("export", &export.name);
            plan.exports.iter().filter(differs).map(|export| export.name.clone()).collect()
        };
        (names(self.now, self.wanted), names(self.wanted, self.now))
    }

    /// Devices that nobody wants any more, those that lie on others first.
    fn gone_devices(&self) -> impl Iterator<Item = Change> {
        let stays = |name: &str| self.wanted.devices.iter().any(|device| device.name == name);
        let gone = self.now.devices.iter().rev().filter(move |device| !stays(&device.name));
        gone.map(|device| Change::new(Part::Device, &device.name, Verb::Remove))
    }

    fn gone_disks(&self) -> impl Iterator<Item = Change> {
        let stays = |name: &str| self.wanted.disks.iter().any(|disk| disk.name == name);
        let gone = self.now.disks.iter().filter(move |disk| !stays(&disk.name));
        gone.map(|disk| Change::new(Part::Disk, &disk.name, Verb::Remove))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Source;

    fn plan(text: &str) -> Plan {
        let source = Source { path: "stack.toml".into(), text: text.into() };
        Plan::parse(source).unwrap_or_else(|error| panic!("{error}"))
    }

    const BASE: &str = "
[disk.a]
type = \"null\"
size = \"64MiB\"
[disk.z]
type = \"null\"
size = \"1GiB\"
zone-size = \"256MiB\"
policy = \"plug\"
[device.low]
table = \"0 4096 linear a 0\"
[device.high]
table = \"0 2048 linear low 0\"
[export.e]
device = \"high\"
[listen]
unix = \"nbd.sock\"
";

    /// What it takes to get from one text to another: `verb part name`, and `!` where the stack has to start again.
    fn told(now: &str, wanted: &str) -> Vec<String> {
        let tell = |change: Change| {
            let Change { part, name, verb, obstacle } = change;
            format!("{} {} {name}{}", verb.name(), part.name(), if obstacle.is_some() { " !" } else { "" })
        };
        changes(&plan(now), &plan(wanted)).into_iter().map(tell).collect()
    }

    #[test]
    fn a_file_that_says_the_same_in_other_words_changes_nothing() {
        let other = BASE.replace(
            "[disk.a]\ntype = \"null\"\nsize = \"64MiB\"",
            "# The first one\ndisk.a = { size = \"64MiB\", type = 'null' }",
        );
        assert_eq!(told(BASE, BASE), [""; 0]);
        assert_eq!(told(BASE, &other), [""; 0]);
    }

    #[test]
    fn what_is_new_is_made_from_the_disk_up_and_what_is_gone_is_removed_from_the_export_down() {
        let bare = "[disk.a]\ntype = \"null\"\nsize = \"64MiB\"\n[listen]\nunix = \"nbd.sock\"\n";
        assert_eq!(told(bare, BASE), ["add disk z", "add device low", "add device high", "add export e"]);
        assert_eq!(told(BASE, bare), ["remove export e", "remove device high", "remove device low", "remove disk z"]);
    }

    #[test]
    fn a_table_that_is_written_otherwise_is_swapped_and_its_export_goes_on() {
        assert_eq!(told(BASE, &BASE.replace("linear a 0", "linear a 8")), ["swap device low"]);
    }

    #[test]
    fn an_export_that_is_written_otherwise_ends_and_begins_again() {
        let other = BASE.replace("device = \"high\"", "device = \"low\"");
        assert_eq!(told(BASE, &other), ["remove export e", "add export e"]);
    }

    #[test]
    fn the_policy_of_a_disk_is_set_and_anything_else_of_one_that_is_open_takes_a_restart() {
        assert_eq!(told(BASE, &BASE.replace("\"plug\"", "\"qd1\"")), ["set disk z"]);
        assert_eq!(told(BASE, &BASE.replace("policy = \"plug\"\n", "")), ["change disk z !"]);
        assert_eq!(told(BASE, &BASE.replace("64MiB", "128MiB")), ["change disk a !"]);
    }

    #[test]
    fn scheduler_and_its_queue_depth_are_set() {
        let with = |keys: &str| BASE.replace("\"64MiB\"", &format!("\"64MiB\"\n{keys}"));
        let deep = with("scheduler = \"mq-deadline\"\nqueue-depth = 4");
        assert_eq!(told(BASE, &with("scheduler = \"mq-deadline\"")), ["set disk a"]);
        assert_eq!(told(BASE, &deep), ["set disk a"]);
        assert_eq!(told(&deep, &with("scheduler = \"mq-deadline\"\nqueue-depth = 5")), ["set disk a"]);
        assert_eq!(told(&with("scheduler = \"mq-deadline\""), BASE), ["set disk a"]);
        assert_eq!(told(&deep, BASE), ["set disk a"]);
        assert_eq!(told(&with("scheduler = \"mq-deadline\""), &with("scheduler = \"none\"")), ["set disk a"]);
    }

    #[test]
    fn clients_come_elsewhere_before_and_those_who_watch_behind_the_rest() {
        let new = "[disk.n]\ntype = \"null\"\nsize = \"1MiB\"\n[metrics]\ntcp = \"127.0.0.1:0\"\n[web]\ntcp = \"127.0.0.1:0\"\n";
        let other = BASE.replace("nbd.sock", "other.sock") + new + "[control]\nsocket = \"c.sock\"\n";
        let sections = ["change section metrics", "change section web", "change section control"];
        assert_eq!(told(BASE, &other), [&["change section listen", "add disk n"], &sections[..]].concat());
    }

    #[test]
    fn paths_come_and_go_and_a_device_does_not_get_a_table_instead_of_them() {
        let paths = |keys: &str| {
            format!("{BASE}[device.x]\ntable = \"0 8 linear a 8192\"\n[device.p]\npaths = [\"x\"]\n{keys}")
        };
        let (base, more) = (paths(""), paths("").replace("[\"x\"]", "[\"x\", { device = \"y\" }]"));
        let more = more.replace("[device.p]", "[device.y]\ntable = \"0 8 linear a 8192\"\n[device.p]");
        assert_eq!(told(&base, &more), ["add device y", "change device p"]);
        assert_eq!(told(&more, &base), ["change device p", "remove device y"]);
        assert_eq!(told(&base, &paths("policy = \"round-robin\"\n")), ["set device p"]);
        let options = paths("policy = \"latency\"\ndecay = 10\nwindow = \"5ms\"\nlow-water = 4\n");
        assert_eq!(told(&base, &options), ["set device p"]);
        assert_eq!(told(&options, &options.replace("decay = 10\n", "")), ["set device p"]);
        assert_eq!(told(&base, &paths("probe = \"1s\"\n")), ["change device p !"]);
        assert_eq!(told(&base, BASE), ["remove device p", "remove device x"]);
        assert_eq!(
            told(&base, &paths("").replace("paths = [\"x\"]", "table = \"0 8 linear x 0\"")),
            ["change device p !"]
        );
    }

    #[test]
    fn the_control_socket_and_further_shards_take_a_restart() {
        let control = format!("{BASE}[control]\nsocket = \"c.sock\"\n");
        assert_eq!(told(&control, BASE), ["change section control !"]);
        let more = format!("{BASE}[disk.c]\ntype = \"null\"\nshard = 1\n");
        assert_eq!(told(BASE, &more), ["add disk c !"]);
    }
}
