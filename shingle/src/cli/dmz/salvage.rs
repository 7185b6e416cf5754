//! `shingle dmz salvage`.

use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use shingle_core::dm::zoned::check::{Loss, Salvage};
use shingle_core::dm::zoned::format::Media;
use shingle_core::dm::zoned::{BLOCK_BYTES, ChunkNo, Number};

use super::image::{Image, Layout, cannot, create};
use super::set::{SetArgs, geometry, geometry_json, no_set};
use super::{CliError, output};
use crate::cli::output::with_percent;
use crate::cli::waiting::WaitingArgs;
use shingle_host::config::{format_bytes, parse_size};
use shingle_host::dmz::{Access, Disks};

/// Copy what is left of a set into an image, and list what is lost
///
/// Nothing is written to the disks. Of each piece of metadata either copy will do; what cannot be read is zeroes in the image.
#[derive(Args)]
pub struct SalvageArgs {
    #[command(flatten)]
    set: SetArgs,
    #[command(flatten)]
    waiting: WaitingArgs,
    /// The image: a new file, as large as the volume, with holes where nothing was written; or a block device, with --force
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Make files of this size of it, FILE.000, FILE.001 and so on, for file systems whose files cannot be so large
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    split: Option<u64>,
    /// Overwrite the block device
    #[arg(short, long)]
    force: bool,
    /// Write the list of what is lost to a new file, as JSON
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// Losses that are printed.
const MOST_PRINTED: usize = 20;

/// Runs the command.
pub fn run(args: &SalvageArgs) -> Result<(), CliError> {
    let mut disks = args.set.open(Access::Read)?;
    let salvage = with_percent("reading metadata", |progress| Salvage::survey(&mut disks, progress));
    let salvage = salvage.map_err(|why| no_set(&mut disks, why))?;
    let report = args.report.as_ref().map(|path| create(path)).transpose()?;
    let chunk_bytes = u64::from(disks.space().zone_blocks()) * BLOCK_BYTES as u64;
    let layout = Layout { bytes: u64::from(salvage.layout.chunks) * chunk_bytes, chunk_bytes, split: args.split };
    args.waiting.check([args.output.as_path()])?;
    let mut image = Image::create(&args.output, layout, args.force)?;
    let lost = with_percent("copying", |progress| copy(&mut image, &mut disks, &salvage, progress))?;
    if let (Some(file), Some(path)) = (report, &args.report) {
        let written =
            file.write_all_at(format!("{:#}\n", losses_json(&lost)).as_bytes(), 0).and_then(|()| file.sync_all());
        written.map_err(|error| cannot("write", path, &error))?;
    }
    args.tell(&disks, &salvage, &image, &lost)
}

/// Copies chunk after chunk; returns what is lost.
fn copy(
    image: &mut Image,
    disks: &mut Disks,
    salvage: &Salvage,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Vec<Loss>, CliError> {
    let (chunks, mut buffer) = (salvage.layout.chunks, vec![0; disks.space().zone_blocks() as usize * BLOCK_BYTES]);
    let (mut lost, chunk_bytes) = (salvage.losses.clone(), buffer.len() as u64);
    for chunk in ChunkNo(0).onwards().take(chunks as usize) {
        let at = u64::from(chunk) * chunk_bytes;
        if salvage.read(disks, chunk, &mut buffer, &mut |loss| add(&mut lost, loss)) {
            image.write(at, &buffer)?;
        } else {
            image.zero(at, chunk_bytes)?;
        }
        progress(u64::from(chunk) + 1, chunks.into());
    }
    image.sync()?;
    Ok(lost)
}

/// Adds a loss; blocks that follow each other are one.
fn add(lost: &mut Vec<Loss>, loss: Loss) {
    if let (Some(Loss::Blocks { first, count, .. }), Loss::Blocks { first: next, count: more, .. }) =
        (lost.last_mut(), &loss)
        && *first + u64::from(*count) == *next
    {
        *count += more;
        return;
    }
    lost.push(loss);
}

fn losses_text(lost: &[Loss]) -> String {
    if lost.is_empty() {
        return "Nothing is lost.\n".into();
    }
    let listed: String = lost.iter().take(MOST_PRINTED).map(|loss| format!("  {loss}\n")).collect();
    let more = match lost.len().saturating_sub(MOST_PRINTED) {
        0 => String::new(),
        more => format!("  and {more} more: --report writes all of them to a file\n"),
    };
    format!("Lost or assumed:\n{listed}{more}")
}

fn losses_json(lost: &[Loss]) -> Value {
    lost.iter().map(loss_json).collect()
}

fn loss_json(loss: &Loss) -> Value {
    let mut value = match loss {
        Loss::OlderCopy(copy) => {
            let devices: Vec<u32> = copy.suspects.iter().map(|member| member.0).collect();
            json!({"what": "older-copy", "devices": devices})
        }
        Loss::Superblocks(_) => json!({"what": "superblocks"}),
        Loss::Entries { first, count, .. } => json!({"what": "mapping", "chunk": first.0, "chunks": count}),
        Loss::Entry(problem) => json!({"what": "mapping", "chunk": problem.chunk.0, "chunks": 1}),
        Loss::OlderEntry(chunk) => json!({"what": "older-mapping", "chunk": chunk.0, "chunks": 1}),
        Loss::Bitmap { zone, .. } => json!({"what": "bitmap", "zone": zone.0}),
        Loss::OtherBitmap { zone, .. } => json!({"what": "other-bitmap", "zone": zone.0}),
        Loss::Orphan { zone, .. } => json!({"what": "orphan", "zone": zone.0}),
        Loss::Blocks { first, count, .. } => json!({"what": "blocks", "block": first, "blocks": count}),
    };
    value["message"] = json!(loss.to_string());
    value
}

impl SalvageArgs {
    fn tell(&self, disks: &Disks, salvage: &Salvage, image: &Image, lost: &[Loss]) -> Result<(), CliError> {
        if self.set.json {
            let mut value = geometry_json(disks);
            value["image"] = json!(image.path);
            value["bytes"] = json!(image.bytes);
            value["pieces"] = json!(image.pieces());
            value["written_bytes"] = json!(image.written);
            value["source"] = json!(salvage.source.to_string());
            value["chunks"] = json!(salvage.layout.chunks);
            value["mapped_chunks"] = json!(salvage.mapped());
            value["lost"] = losses_json(lost);
            output::print_json(&value)?;
        } else {
            output::print(&format!(
                "{}Numbers from: {}\n{} of {} chunks are mapped\n{}: {}, {} of it written\n{}",
                geometry(disks, self.set.detail()),
                salvage.source,
                salvage.mapped(),
                salvage.layout.chunks,
                image.path.display(),
                format_bytes(image.bytes),
                format_bytes(image.written),
                losses_text(lost)
            ))?;
        }
        if lost.is_empty() { Ok(()) } else { Err(CliError::Disorder) }
    }
}
