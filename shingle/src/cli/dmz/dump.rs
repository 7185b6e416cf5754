//! `shingle dmz dump`.

use serde_json::{Value, json};
use shingle_core::dm::zoned::format::{
    LoadError, MapEntry, Media, MemberFound, NO_ZONE, Sets, Superblock, Volume, read_bitmap, read_members,
};
use shingle_core::dm::zoned::{Block, ChunkNo, Rows, SetZone, ZoneClass, ZoneInfo};
use uuid::Uuid;

use super::set::{SetArgs, class_name, condition_name, geometry, geometry_json, in_force, no_set, superblock_json};
use super::{CliError, output};
use crate::cli::output::with_percent;
use shingle_host::dmz::{Access, Disks};

/// What a zone is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Free,
    Metadata,
    Data(ChunkNo),
    Buffer(ChunkNo),
}

/// A zone with all that is known of it.
struct ZoneView {
    info: ZoneInfo,
    role: Role,
    /// Valid blocks.
    weight: u32,
}

/// Runs the command.
pub fn run(args: &SetArgs) -> Result<(), CliError> {
    let mut disks = args.open(Access::Read)?;
    let volume = Volume::load(&mut disks).map_err(|error| match error {
        LoadError::NoSet(_) => {
            no_set(&mut disks, format_args!("{error}: `shingle dmz check` tells whether anything is left"))
        }
        other => CliError::Failed(other.to_string()),
    })?;
    let zones = view(&mut disks, &volume)?;
    if args.json {
        let members = read_members(&mut disks);
        return output::print_json(&to_json(&disks, &volume, (&members, &zones)));
    }
    let shows_all = args.detail() > 0;
    let mut text = geometry(&disks, 0);
    text += &superblocks(&volume.sets);
    text += &tertiary_superblocks(&mut disks);
    text += &mapping(&volume.entries, &zones);
    let shown =
        |zone: &ZoneView| shows_all || zone.role != Role::Free || zone.weight > 0 || zone.info.wp > Block::FIRST;
    let rows = zones.numbered().filter(|(_, zone)| shown(zone)).map(|(number, zone)| zone.row(number));
    text += &output::table(&["zone", "class", "condition", "written", "valid", "use"], &[0, 3, 4], rows);
    output::print(&text)
}

/// All zones; reads the bitmap of each.
fn view(disks: &mut Disks, volume: &Volume) -> Result<Rows<SetZone, ZoneView>, CliError> {
    let (layout, start) = (&volume.sets.layout, volume.sets.start(disks.space()));
    let infos = disks.space().zones().clone();
    let mut roles = Rows::filled(Role::Free, infos.len());
    let mut set = |zone: SetZone, role| roles.get_mut(zone).into_iter().for_each(|slot| *slot = role);
    for (chunk, MapEntry { dzone, bzone }) in volume.entries.numbered() {
        set(*dzone, Role::Data(chunk));
        set(*bzone, Role::Buffer(chunk));
    }
    infos.numbers().filter(|zone| layout.is_metadata(disks.space(), *zone)).for_each(|zone| set(zone, Role::Metadata));
    with_percent("reading bitmaps", |progress| {
        let mut views = Rows::default();
        for (zone, info) in infos.numbered() {
            let weight = read_bitmap(disks, start, layout, zone)?.weight();
            views.push(ZoneView { info: *info, role: roles[zone], weight });
            progress(zone.into(), disks.space().zones().len() as u64);
        }
        Ok(views)
    })
}

fn superblocks(sets: &Sets) -> String {
    let mut text = String::new();
    for (set, found) in sets.found.iter().enumerate() {
        let (name, in_force) = (["Primary", "Secondary"][set], if sets.choice.set == set { ", in force" } else { "" });
        match found {
            Err(problem) => text += &format!("{name} superblock: {problem}\n"),
            Ok(superblock) => {
                let uuid =
                    |bytes| if superblock.version > 1 { Uuid::from_bytes(bytes).to_string() } else { "none".into() };
                text += &format!(
                    "{name} superblock at block {}{in_force}: version {}, generation {}\n  label {:?}, UUID {}, device UUID \
                     {}\n  {} chunks, {} reserved zones, {} blocks of metadata: {} of mapping, {} of bitmaps\n",
                    superblock.block,
                    superblock.version,
                    superblock.generation,
                    superblock.label.text(),
                    uuid(superblock.set_uuid),
                    uuid(superblock.device_uuid),
                    superblock.chunks,
                    superblock.reserved,
                    superblock.metadata_blocks,
                    superblock.map_blocks,
                    superblock.bitmap_blocks
                );
            }
        }
    }
    text
}

/// The superblocks of the zoned disks behind a regular one.
fn tertiary_superblocks(disks: &mut Disks) -> String {
    let line = |found: &MemberFound| match &found.superblock {
        None => format!("Tertiary superblock of {}: none\n", found.name),
        Some(superblock) => {
            let uuid = Uuid::from_bytes(superblock.device_uuid);
            let Superblock { block, version, .. } = superblock;
            format!("Tertiary superblock of {} at block {block}: version {version}, device UUID {uuid}\n", found.name)
        }
    };
    let zoned = if disks.space().has_cache() { read_members(disks) } else { Vec::new() };
    zoned.iter().skip(1).map(line).collect()
}

/// The chunks that have zones.
fn mapping(entries: &Rows<ChunkNo, MapEntry>, zones: &Rows<SetZone, ZoneView>) -> String {
    let part = |zone: SetZone| match zones.get(zone) {
        _ if zone == NO_ZONE => ["-".to_owned(), "-".to_owned()],
        Some(view) => [zone.to_string(), view.weight.to_string()],
        None => [zone.to_string(), "no such zone".to_owned()],
    };
    let mapped = entries.numbered().filter(|(_, entry)| **entry != MapEntry::UNMAPPED);
    let rows = mapped
        .map(|(chunk, entry)| [vec![chunk.to_string()], part(entry.dzone).into(), part(entry.bzone).into()].concat());
    let rows: Vec<Vec<String>> = rows.collect();
    if rows.is_empty() {
        return "No chunk is mapped.\n\n".into();
    }
    output::table(&["chunk", "data zone", "valid", "buffer zone", "valid"], &[0, 1, 2, 3, 4], rows) + "\n"
}

impl ZoneView {
    fn role(&self) -> (&'static str, Option<ChunkNo>) {
        match self.role {
            Role::Free => ("free", None),
            Role::Metadata => ("metadata", None),
            Role::Data(chunk) => ("data", Some(chunk)),
            Role::Buffer(chunk) => ("buffer", Some(chunk)),
        }
    }

    fn row(&self, number: SetZone) -> Vec<String> {
        let (role, chunk) = self.role();
        let role = chunk.map_or(role.to_owned(), |chunk| format!("{role} of chunk {chunk}"));
        let written = if self.info.class == ZoneClass::Sequential { self.info.wp.to_string() } else { "-".into() };
        vec![
            number.to_string(),
            class_name(&self.info).into(),
            condition_name(&self.info).into(),
            written,
            self.weight.to_string(),
            role,
        ]
    }
}

fn to_json(disks: &Disks, volume: &Volume, (members, zones): (&[MemberFound], &Rows<SetZone, ZoneView>)) -> Value {
    let id = |zone: SetZone| (zone != NO_ZONE).then_some(zone.0);
    let found = |set: usize| match &volume.sets.found[set] {
        Ok(superblock) => superblock_json(superblock),
        Err(problem) => json!({"problem": problem.to_string()}),
    };
    let zone = |(number, zone): (SetZone, &ZoneView)| {
        let (role, chunk) = zone.role();
        json!({
            "zone": number.0,
            "class": class_name(&zone.info),
            "condition": condition_name(&zone.info),
            "written_blocks": (zone.info.class == ZoneClass::Sequential).then_some(zone.info.wp.0),
            "use": role,
            "chunk": chunk.map(|chunk| chunk.0),
            "valid_blocks": zone.weight,
        })
    };
    let mapped = volume.entries.numbered().filter(|(_, entry)| **entry != MapEntry::UNMAPPED);
    let mapping =
        mapped.map(|(chunk, entry)| json!({"chunk": chunk.0, "dzone": id(entry.dzone), "bzone": id(entry.bzone)}));
    let mut value = geometry_json(disks);
    value["primary"] = found(0);
    value["secondary"] = found(1);
    let tertiary = |found: &MemberFound| found.superblock.as_ref().map(superblock_json);
    value["tertiary"] =
        if disks.space().has_cache() { members.iter().skip(1).map(tertiary).collect() } else { json!([]) };
    value["in_force"] = json!(in_force(&volume.sets));
    value["mapping"] = mapping.collect();
    value["problems"] = volume.problems.iter().map(|problem| json!(problem.to_string())).collect();
    value["zone_list"] = zones.numbered().map(zone).collect();
    value
}
