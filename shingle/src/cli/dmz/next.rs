//! How a set is used: its table line, and what to write into a stack file.

use std::collections::BTreeSet;
use std::path::Path;

use shingle_core::dm::zoned::BLOCK_SECTORS;
use shingle_core::dm::zoned::format::Media;

use shingle_host::backend;
use shingle_host::dmz::Disks;

/// The lines of a stack file that serve a set, and its table line.
pub struct Next {
    /// The table line.
    pub table: String,
    /// The whole text.
    pub stack: String,
}

impl Next {
    /// How to serve a set of `chunks` chunks that is called `label`.
    pub fn new(disks: &Disks, label: &str, chunks: u32) -> Self {
        let device = clean(label);
        let mut taken = BTreeSet::from([device.clone()]);
        let (mut names, mut stack, mut is_real) = (Vec::new(), String::new(), false);
        for (member, path) in disks.space().members().iter().zip(disks.names().map(Path::new)) {
            let name = free_name(&name_of(path), &mut taken);
            let found = backend::at(path, true);
            let (kind, lines) = found.map_or(("", String::new()), |(kind, disk)| (kind.name, disk.lines(kind)));
            is_real |= kind == "zoned-blk";
            let what = if member.is_zoned { "" } else { "  # the regular disk" };
            stack += &format!("[disk.{name}]{what}\n{lines}\n");
            names.push(name);
        }
        let sectors = u64::from(chunks) * u64::from(disks.space().zone_blocks() * BLOCK_SECTORS);
        let table = format!("0 {sectors} zoned {}", names.join(" "));
        stack += &format!("[device.{device}]\ntable = \"{table}\"\n\n[export.{device}]\ndevice = \"{device}\"\n");
        // Who may open a disk of the machine may make one of the volume.
        stack += if is_real { "ublk = true\n" } else { "\n[listen]\nunix = \"nbd.sock\"\n" };
        stack += "\n[control]\nsocket = \"control.sock\"\n";
        Self { table, stack }
    }
}

/// A name for the disk at `path`, as stack files and labels take one.
pub fn name_of(path: &Path) -> String {
    let whole = path.canonicalize();
    let last = whole.as_deref().unwrap_or(path).file_name().unwrap_or_default();
    let name = clean(&last.to_string_lossy());
    if name.is_empty() { "disk".into() } else { name }
}

pub fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() || "._-+".contains(c) { c } else { '-' }).collect()
}

/// `name`, or one made of it that is not taken.
pub fn free_name(name: &str, taken: &mut BTreeSet<String>) -> String {
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let free = std::iter::once(name.to_owned()).chain(numbered).find(|name| !taken.contains(name));
    let free = free.unwrap_or_default();
    taken.insert(free.clone());
    free
}
