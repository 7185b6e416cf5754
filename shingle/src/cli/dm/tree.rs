//! `shingle dm ls --tree`: what lies on what.

use std::collections::BTreeSet;

use super::deps::Style;
use shingle_host::control::protocol::{Dep, Deps, MappedDevice};

/// The words for what a tree shows, and how it is drawn.
const OPTIONS: [&str; 10] =
    ["device", "nodevice", "blkdevname", "active", "open", "rw", "uuid", "ascii", "utf", "inverted"];

/// What a tree shows, and how it is drawn.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TreeOptions(BTreeSet<String>);

impl TreeOptions {
    /// Reads dmsetup's list of options.
    ///
    /// # Errors
    /// If one is unknown.
    pub fn parse(list: &str) -> Result<Self, String> {
        let mut options = BTreeSet::new();
        for word in list.split(',').filter(|word| !word.is_empty()) {
            match word {
                "device" => _ = options.remove("nodevice"),
                "utf" => _ = options.remove("ascii"),
                _ if OPTIONS.contains(&word) => _ = options.insert(word.to_owned()),
                _ => return Err(format!("a tree has no option `{word}`; there are: {}", OPTIONS.join(", "))),
            }
        }
        Ok(Self(options))
    }

    fn has(&self, word: &str) -> bool {
        self.0.contains(word)
    }
}

/// Devices and what each of them lies on.
pub struct Tree {
    nodes: Vec<Node>,
    /// For each node the places of those below.
    below: Vec<Vec<usize>>,
}

/// A device, with its state if it is a mapped one.
struct Node {
    device: Dep,
    mapped: Option<MappedDevice>,
}

impl Tree {
    /// Of mapped devices, and what they lie on, in the same order.
    pub fn new(infos: Vec<MappedDevice>, deps: &[Deps]) -> Self {
        let node = |mapped: MappedDevice| {
            let device = Dep { name: mapped.name.clone(), major: Some(mapped.major), minor: Some(mapped.minor) };
            Node { device, mapped: Some(mapped) }
        };
        let mut nodes: Vec<Node> = infos.into_iter().map(node).collect();
        let mut below = vec![Vec::new(); nodes.len()];
        for Deps { name, deps } in deps {
            let Some(place) = nodes.iter().position(|node| node.device.name == *name) else { continue };
            for dep in deps {
                let known = nodes.iter().position(|node| node.device.name == dep.name);
                let dep_place = known.unwrap_or_else(|| {
                    nodes.push(Node { device: dep.clone(), mapped: None });
                    below.push(Vec::new());
                    nodes.len() - 1
                });
                below[place].push(dep_place);
            }
        }
        Self { nodes, below }
    }

    /// The tree, from the devices that nothing lies on down to disks, or the other way round.
    pub fn show(&self, options: &TreeOptions) -> String {
        let mut shown = String::new();
        let places = 0..self.nodes.len();
        let roots = places.filter(|place| self.next(*place, !options.has("inverted")).is_empty());
        roots.for_each(|root| self.draw(root, "", options, &mut shown));
        shown
    }

    /// The nodes above or below one.
    fn next(&self, place: usize, upwards: bool) -> Vec<usize> {
        if !upwards {
            return self.below[place].clone();
        }
        (0..self.nodes.len()).filter(|above| self.below[*above].contains(&place)).collect()
    }

    /// Draws a node and, behind `indent`, what hangs on it. Tables cannot go round, so this ends.
    fn draw(&self, place: usize, indent: &str, options: &TreeOptions, shown: &mut String) {
        *shown += &(label(&self.nodes[place], options) + "\n");
        let next = self.next(place, options.has("inverted"));
        let (branch, more, last) = if options.has("ascii") { ("|-", "| ", "`-") } else { ("├─", "│ ", "└─") };
        for (number, child) in next.iter().enumerate() {
            let is_last = number + 1 == next.len();
            *shown += &format!("{indent} {}", if is_last { last } else { branch });
            self.draw(*child, &format!("{indent} {}", if is_last { "  " } else { more }), options, shown);
        }
    }
}

fn label(Node { device, mapped }: &Node, options: &TreeOptions) -> String {
    let mut label = device.name.clone();
    if options.has("blkdevname") {
        label += &format!(" <{}>", Style::Blkdevname.show(device, ":"));
    }
    if !options.has("nodevice") {
        label += &format!(" ({})", Style::Devno.show(device, ":"));
    }
    // Disks have no state of this kind.
    let Some(mapped) = mapped else { return label };
    let attributes: Vec<String> = [
        options.has("active").then(|| if mapped.is_suspended() { "SUSPENDED" } else { "ACTIVE" }.to_owned()),
        options.has("rw").then(|| if mapped.read_only { "RO" } else { "RW" }.to_owned()),
        options.has("open").then(|| mapped.open.to_string()),
        options.has("uuid").then(|| mapped.uuid.clone()),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !attributes.is_empty() {
        label += &format!(" [{}]", attributes.join(", "));
    }
    label
}

#[cfg(test)]
mod tests {
    use super::super::view::example;
    use super::*;

    /// `top` on `a` and `mid`, `mid` on `b`.
    fn tree() -> Tree {
        let dep =
            |name: &str, major: u32, minor: usize| Dep { name: name.into(), major: Some(major), minor: Some(minor) };
        let deps = [
            Deps { name: "mid".into(), deps: vec![dep("b", 252, 1)] },
            Deps { name: "top".into(), deps: vec![dep("a", 252, 0), dep("mid", 253, 1)] },
        ];
        Tree::new(vec![example("mid", 1), example("top", 0)], &deps)
    }

    #[test]
    fn a_tree_goes_down_from_devices_that_nothing_lies_on() {
        let shown = tree().show(&TreeOptions::default());
        assert_eq!(shown, "top (253:0)\n ├─a (252:0)\n └─mid (253:1)\n    └─b (252:1)\n");
    }

    #[test]
    fn options_say_what_is_shown_and_how_it_is_drawn() {
        let options = TreeOptions::parse("ascii,inverted,nodevice,active,rw,open,uuid").unwrap();
        let top = "top [ACTIVE, RW, 1, u]";
        assert_eq!(tree().show(&options), format!("b\n `-mid [ACTIVE, RW, 1, u]\n    `-{top}\na\n `-{top}\n"));
        let options = TreeOptions::parse("blkdevname").unwrap();
        assert!(tree().show(&options).contains(" └─mid <dm-1> (253:1)\n    └─b <b> (252:1)\n"));
        assert!(TreeOptions::parse("colour").unwrap_err().contains("no option `colour`"));
    }
}
