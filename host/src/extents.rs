//! Extents of disks to which devices map. They tell whether paths lead to one disk, and whether members of a volume are different disks.

use shingle_core::dm::{TableError, TableLine, View};
use shingle_core::impl_display;

use crate::disk_identity::DiskIdentity;

/// Range of a disk to which a device maps, up to the next extent of the device.
#[derive(Clone, Debug)]
struct Extent {
    /// Name of the disk in the stack file.
    disk: String,
    identity: DiskIdentity,
    /// First sector of the device.
    start: u64,
    /// Sector of the disk minus sector of the device.
    shift: i128,
}

impl Extent {
    fn is_same(&self, other: &Self) -> bool {
        self.continues(other) && self.start == other.start
    }

    fn continues(&self, other: &Self) -> bool {
        self.shift == other.shift && self.identity.is_same(&other.identity)
    }
}

impl_display!(Extent, |self, f| {
    let Self { disk, identity, shift, .. } = self;
    if *shift == 0 {
        write!(f, "disk `{disk}` ({identity})")
    } else {
        write!(f, "disk `{disk}` {shift:+} ({identity})")
    }
});

/// Extents of a device, in the order of its sectors.
#[derive(Clone, Debug)]
pub struct Extents(Vec<Extent>);

impl_display!(Extents, |self, f| f.write_str(&self.0.iter().map(Extent::to_string).collect::<Vec<_>>().join(", ")));

/// Finds the extents of a device by its name.
pub type FindExtents<'a> = dyn Fn(&str) -> Option<Extents> + 'a;

/// Targets that change nothing of what they pass on.
const PLAIN: [&str; 5] = ["linear", "delay", "flakey", "faulty", "dust"];
/// Targets whose devices are members of a volume.
const VOLUMES: [&str; 2] = ["zoned", "stl"];

impl Extents {
    /// Finds the extents of the device called `name`, from the identities of disks and the tables of mapped devices. Returns `None` if these do not
    /// tell: through a target that changes data, or without a disk.
    #[must_use]
    pub fn of<'a>(
        name: &str,
        disk: &dyn Fn(&str) -> Option<DiskIdentity>,
        lines: &dyn Fn(&str) -> Option<&'a [TableLine]>,
    ) -> Option<Self> {
        if let Some(identity) = disk(name) {
            return Some(Self(vec![Extent { disk: name.to_owned(), identity, start: 0, shift: 0 }]));
        }
        let mut all: Vec<Extent> = Vec::new();
        for line in lines(name)? {
            let (below, start) = below(line)?;
            let Self(mut below) = Self::of(&below, disk, lines)?;
            let extent = below.pop().filter(|_| below.is_empty())?;
            let shift = extent.shift + i128::from(start) - i128::from(line.start);
            let extent = Extent { start: line.start, shift, ..extent };
            if !all.last().is_some_and(|last| last.continues(&extent)) {
                all.push(extent);
            }
        }
        (!all.is_empty()).then_some(Self(all))
    }

    fn is_same(&self, other: &Self) -> bool {
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(|(one, other)| one.is_same(other))
    }
}

/// Device to which a line passes bios on unchanged, and the first sector there.
fn below(line: &TableLine) -> Option<(String, u64)> {
    let mut text = String::new();
    line.write(&View { shows_keys: false, device: None }, &mut text).ok()?;
    let words: Vec<&str> = text.split_whitespace().collect();
    let places =
        line.target.devices().into_iter().map(|arg| Some((arg.name.clone(), words.get(arg.word + 1)?.parse().ok()?)));
    let mut places: Vec<(String, u64)> = places.collect::<Option<_>>()?;
    places.dedup();
    let is_plain = PLAIN.contains(&line.kind.name) && places.len() == 1;
    places.pop().filter(|_| is_plain)
}

/// Two paths of a device that lead to different disks, or to different sectors of one.
#[derive(Clone, Debug)]
pub struct OtherDisk {
    /// Number of the later path, from 0.
    pub path: usize,
    message: String,
    /// Next step for the user.
    pub advice: String,
}

impl_display!(OtherDisk, |self, f| f.write_str(&self.message));

/// Checks that all `paths` lead to one disk, as far as their extents are known.
///
/// # Errors
/// The first path that leads to another disk than one before it.
pub fn check_paths(paths: &[&str], extents: &FindExtents<'_>) -> Result<(), OtherDisk> {
    let known: Vec<(usize, Extents)> =
        paths.iter().enumerate().filter_map(|(path, name)| Some((path, extents(name)?))).collect();
    for (place, (path, there)) in known.iter().enumerate() {
        let Some((first, here)) = known[..place].iter().find(|(_, here)| !here.is_same(there)) else { continue };
        let message = format!("`{}` leads to {there}, and `{}` to {here}", paths[*path], paths[*first]);
        let disks = (&here.0[0].disk, &there.0[0].disk);
        let advice = if disks.0 == disks.1 {
            "let all paths lead to the same sectors".into()
        } else {
            format!(
                "if both are one disk, write the same `identity = \"NAME\"` into [disk.{}] and [disk.{}]; otherwise use each without the other",
                disks.0, disks.1
            )
        };
        return Err(OtherDisk { path: *path, message, advice });
    }
    Ok(())
}

/// Checks the devices of a table: paths of `multipath` have to lead to one disk, members of a volume to different ones.
///
/// # Errors
/// The first line with a path or member that is wrong.
pub fn check_lines(lines: &[TableLine], extents: &FindExtents<'_>) -> Result<(), TableError> {
    for line in lines {
        let devices = line.target.devices();
        let wrong =
            |device: usize, message| TableError { line: line.number, word: Some(devices[device].word), message };
        let names: Vec<&str> = devices.iter().map(|arg| arg.name.as_str()).collect();
        if line.kind.name == "multipath" {
            check_paths(&names, extents).map_err(|other| wrong(other.path, format!("{other}; {}", other.advice)))?;
        } else if VOLUMES.contains(&line.kind.name) {
            let members: Vec<Option<Extents>> = names.iter().map(|name| extents(name)).collect();
            for (place, member) in members.iter().enumerate() {
                let is_it =
                    |other: &Option<Extents>| member.as_ref().zip(other.as_ref()).is_some_and(|(a, b)| a.is_same(b));
                // The target itself refuses a name that is written twice.
                let first = members[..place].iter().position(is_it).filter(|first| names[*first] != names[place]);
                if let Some(first) = first {
                    let (one, other) = (names[first], names[place]);
                    let disk = members[first].as_ref().map(Extents::to_string).unwrap_or_default();
                    let message = format!("`{one}` and `{other}` are one disk, {disk}: a disk is in a volume once");
                    return Err(wrong(place, message));
                }
            }
        }
    }
    Ok(())
}
