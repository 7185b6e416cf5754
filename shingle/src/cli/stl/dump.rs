//! `shingle stl dump`.

use clap::Args;
use serde_json::{Value, json};
use shingle_core::dm::stl::ZoneIndex;
use shingle_core::dm::stl::format::{BatchKind, PieceKind, ZoneRow, ZoneUse};
use shingle_core::dm::stl::log::Pool;
use shingle_core::dm::stl::tools::{FindError, Findings, Found, RootFound, Volume, follow};
use shingle_host::dmz::Access;

use super::set::{SetArgs, geometry, geometry_json, no_volume, table_line, volume_json, volume_text};
use super::{CliError, output};

/// Print what a volume has on its disks: its root, its zones, and the batches of one of them
///
/// Zones are numbered through over all disks. Free ones are left out without --all.
#[derive(Args)]
pub struct DumpArgs {
    #[command(flatten)]
    set: SetArgs,
    /// The zone whose batches are printed
    #[arg(long, value_name = "NUMBER")]
    zone: Option<u32>,
    /// Print all zones
    #[arg(long)]
    all: bool,
}

/// Runs the command.
pub fn run(args: &DumpArgs) -> Result<(), CliError> {
    let mut disks = args.set.open(Access::Read)?;
    let mut findings = Findings::default();
    let volume = Volume::find(&mut disks, &mut findings).map_err(|error| match error {
        FindError::None(why) => no_volume(&mut disks, why),
        FindError::Members(wrong) => CliError::failed(wrong),
    })?;
    let zone = args.zone.map(|zone| {
        let known = volume.space.zones().find(|known| known.0 == zone);
        known.ok_or_else(|| {
            CliError::Usage(format!("--zone: there is no zone {zone}: {} are there", volume.zones.len()))
        })
    });
    let zone = zone.transpose()?;
    let batches = zone.map(|zone| follow(&mut disks, &volume, zone).0);
    if args.set.json {
        let mut value = geometry_json(&disks);
        value["volume"] = volume_json(&volume);
        value["table"] = json!(table_line(&disks, &volume));
        value["roots"] = volume.of_disks.iter().map(|found| found.as_ref().map_or(Value::Null, root_json)).collect();
        let zones = volume.space.zones();
        value["zone_list"] = zones.map(|zone| zone_json(&volume, zone)).collect();
        if let Some(chain) = &batches {
            value["batches"] = chain.found.iter().map(batch_json).collect();
            value["batches_end"] = json!({"block": chain.end, "why": chain.why});
        }
        value["findings"] = findings.all().iter().map(|finding| json!(finding.to_string())).collect();
        return output::print_json(&value);
    }
    let mut text = geometry(&disks) + &volume_text(&disks, &volume);
    text.extend(findings.all().iter().map(|finding| format!("  {finding}\n")));
    match batches {
        Some(chain) => {
            let header = ["block", "kind", "number", "attempt", "life", "records", "blocks", "first"];
            text += &format!("\n{}", output::table(&header, &[0, 2, 3, 4, 5, 6, 7], chain.found.iter().map(batch_row)));
            let why = chain.why.map_or(String::new(), |why| format!(": {why}"));
            text += &format!("its batches end at block {}{why}\n", chain.end);
        }
        None => text += &format!("\n{}", zones_text(&volume, args.all)),
    }
    output::print(&text)
}

fn root_json(found: &RootFound) -> Value {
    let RootFound { header, root, spot } = found;
    let pieces = |kind| root.pieces.iter().filter(|piece| piece.kind == kind).count();
    json!({
        "disk": spot.disk,
        "block": spot.block,
        "number": header.batch.number,
        "life": header.batch.epoch.0,
        "batches_up_to": root.cut.0,
        "copies_up_to": root.copies.0,
        "open_zones": root.open.len(),
        "zone_pieces": pieces(PieceKind::Zones),
        "leaf_pieces": pieces(PieceKind::Leaves),
        "runs": pieces(PieceKind::Run),
    })
}

/// What is written to a zone, in a word.
fn stream(row: &ZoneRow) -> &'static str {
    let has_stream = matches!(row.used_for, ZoneUse::Open | ZoneUse::Full);
    let pool = Pool::ALL.into_iter().find(|pool| *pool as u8 == row.stream).filter(|_| has_stream);
    pool.map_or("-", Pool::name)
}

fn zones_text(volume: &Volume, all: bool) -> String {
    let header = ["zone", "use", "stream", "generation", "live at most", "ends at", "written", "blocks"];
    let is_shown =
        |zone: &ZoneIndex| all || volume.zones[zone.0 as usize].is_none_or(|row| row.used_for != ZoneUse::Free);
    let rows = volume.space.zones().filter(is_shown).map(|zone| {
        let [pointer, room] = [volume.space.pointer(zone), volume.space.room(zone)].map(|block| block.to_string());
        let pointer = if volume.space.is_sequential(zone) { pointer } else { "-".into() };
        match volume.zones[zone.0 as usize] {
            None => [zone.to_string()].into_iter().chain(["?"; 5].map(String::from)).chain([pointer, room]).collect(),
            Some(row) => vec![
                zone.to_string(),
                row.used_for.name().into(),
                stream(&row).into(),
                row.generation.to_string(),
                row.live.to_string(),
                row.written.to_string(),
                pointer,
                room,
            ],
        }
    });
    output::table(&header, &[0, 3, 4, 5, 6, 7], rows)
}

fn zone_json(volume: &Volume, zone: ZoneIndex) -> Value {
    let row = volume.zones[zone.0 as usize];
    json!({
        "zone": zone.0,
        "use": row.map(|row| row.used_for.name()),
        "stream": row.map(|row| stream(&row)),
        "generation": row.map(|row| row.generation.0),
        "live_at_most": row.map(|row| row.live),
        "ends_at": row.map(|row| row.written),
        "written_blocks": volume.space.is_sequential(zone).then(|| volume.space.pointer(zone)),
        "blocks": volume.space.room(zone),
    })
}

fn kind(kind: &BatchKind) -> &'static str {
    match kind {
        BatchKind::User(_) => "users",
        BatchKind::Copies(_) => "copies",
        BatchKind::Map(_) => "map",
        BatchKind::Root(_) => "root",
        BatchKind::Footer => "footer",
        BatchKind::Filler => "filler",
    }
}

fn records(kind: &BatchKind) -> usize {
    match kind {
        BatchKind::User(records) => records.len(),
        BatchKind::Copies(records) => records.len(),
        _ => 0,
    }
}

fn batch_row(found: &Found) -> Vec<String> {
    let (batch, header) = (&found.header.batch, &found.header);
    let first = header.lbas().first().map_or("-".to_owned(), ToString::to_string);
    vec![
        batch.place.to_string(),
        kind(&header.kind).into(),
        batch.number.to_string(),
        batch.attempt.to_string(),
        batch.epoch.to_string(),
        records(&header.kind).to_string(),
        header.checksums.len().to_string(),
        first,
    ]
}

fn batch_json(found: &Found) -> Value {
    let (batch, header) = (&found.header.batch, &found.header);
    let records: Vec<Value> = match &header.kind {
        BatchKind::User(records) => {
            let one = |it: &shingle_core::dm::stl::format::Written| json!({"block": it.lba.0, "blocks": it.blocks, "data": it.has_data});
            records.iter().map(one).collect()
        }
        BatchKind::Copies(records) => {
            let one = |it: &shingle_core::dm::stl::format::Copied| json!({"block": it.lba.0, "from": it.from.0, "written": it.written.0});
            records.iter().map(one).collect()
        }
        _ => Vec::new(),
    };
    json!({
        "place": batch.place.0,
        "kind": kind(&header.kind),
        "number": batch.number,
        "attempt": batch.attempt,
        "life": batch.epoch.0,
        "generation": batch.generation.0,
        "payload": found.payload.0,
        "payload_blocks": header.checksums.len(),
        "records": records,
    })
}
