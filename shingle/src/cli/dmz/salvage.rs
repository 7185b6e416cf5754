//! `shingle dmz salvage`.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use shingle_core::target::zoned::BLOCK_BYTES;
use shingle_core::target::zoned::check::{Loss, Salvage};
use shingle_core::target::zoned::format::Media;

use super::set::{SetArgs, bar, geometry, geometry_json, show};
use super::{CliError, output};
use crate::config::format_bytes;
use crate::dmz::{Access, Disks};

/// Copy what is left of a set into an image, and list what is lost
///
/// Nothing is written to the disks. Of each piece of metadata either copy will do; what cannot be read is zeroes in the image.
#[derive(Args)]
pub struct SalvageArgs {
    #[command(flatten)]
    set: SetArgs,
    /// The image: a new file, as large as the volume, with holes where nothing was written
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Write the list of what is lost to a new file, as JSON
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// Losses that are printed.
const MOST_PRINTED: usize = 20;

/// Runs the command.
pub fn run(args: &SalvageArgs) -> Result<(), CliError> {
    let mut disks = args.set.open(Access::Read)?;
    let survey_bar = bar("reading metadata");
    let salvage = Salvage::survey(&mut disks, &mut show(&survey_bar));
    survey_bar.finish_and_clear();
    let salvage = salvage.map_err(|error| CliError::Failed(format!("{error}: there is nothing to salvage")))?;
    let report = args.report.as_ref().map(|path| create(path)).transpose()?;
    let mut image = Image::create(&args.output, &disks, &salvage)?;
    let copy_bar = bar("copying");
    let copied = image.copy(&mut disks, &salvage, &mut show(&copy_bar));
    copy_bar.finish_and_clear();
    let lost = Losses { all: copied? };
    if let (Some(file), Some(path)) = (report, &args.report) {
        let written = file.write_all_at(format!("{:#}\n", lost.to_json()).as_bytes(), 0).and_then(|()| file.sync_all());
        written.map_err(|error| cannot("write", path, &error))?;
    }
    args.tell(&disks, &salvage, (&image, &lost))
}

/// The file that is written.
struct Image {
    path: PathBuf,
    file: File,
    bytes: u64,
    /// Bytes that are no holes.
    written: u64,
}

impl Image {
    fn create(path: &Path, disks: &Disks, salvage: &Salvage) -> Result<Self, CliError> {
        let file = create(path)?;
        let bytes = u64::from(salvage.layout.chunks) * u64::from(disks.space().zone_blocks()) * BLOCK_BYTES as u64;
        file.set_len(bytes).map_err(|error| cannot("make", path, &error))?;
        Ok(Self { path: path.into(), file, bytes, written: 0 })
    }

    /// Copies chunk after chunk; returns what is lost.
    fn copy(
        &mut self,
        disks: &mut Disks,
        salvage: &Salvage,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Vec<Loss>, CliError> {
        let (chunks, chunk_bytes) = (salvage.layout.chunks, disks.space().zone_blocks() as usize * BLOCK_BYTES);
        let (mut lost, mut buffer) = (salvage.losses.clone(), vec![0; chunk_bytes]);
        for chunk in 0..chunks {
            if salvage.read(disks, chunk, &mut buffer, &mut |loss| add(&mut lost, loss)) {
                self.write(u64::from(chunk) * chunk_bytes as u64, &buffer)
                    .map_err(|error| cannot("write", &self.path, &error))?;
            }
            progress(u64::from(chunk) + 1, chunks.into());
        }
        self.file.sync_all().map_err(|error| cannot("write", &self.path, &error))?;
        Ok(lost)
    }

    /// Writes all blocks but those of zeroes, several at once where they follow each other.
    fn write(&mut self, at: u64, bytes: &[u8]) -> std::io::Result<()> {
        let is_zero = |block: &[u8]| block.iter().all(|byte| *byte == 0);
        let blocks: Vec<&[u8]> = bytes.chunks(BLOCK_BYTES).collect();
        let mut first = 0;
        for run in blocks.chunk_by(|one, other| is_zero(one) == is_zero(other)) {
            let range = first..first + run.len() * BLOCK_BYTES;
            if !is_zero(run[0]) {
                self.file.write_all_at(&bytes[range.clone()], at + range.start as u64)?;
                self.written += range.len() as u64;
            }
            first = range.end;
        }
        Ok(())
    }
}

/// What is lost.
struct Losses {
    all: Vec<Loss>,
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

impl Losses {
    fn to_json(&self) -> Value {
        self.all.iter().map(loss_json).collect()
    }

    fn text(&self) -> String {
        if self.all.is_empty() {
            return "Nothing is lost.\n".into();
        }
        let listed: String = self.all.iter().take(MOST_PRINTED).map(|loss| format!("  {loss}\n")).collect();
        let more = match self.all.len().saturating_sub(MOST_PRINTED) {
            0 => String::new(),
            more => format!("  and {more} more: --report writes all of them to a file\n"),
        };
        format!("Lost or assumed:\n{listed}{more}")
    }
}

fn loss_json(loss: &Loss) -> Value {
    let mut value = match loss {
        Loss::Superblocks(_) => json!({"what": "superblocks"}),
        Loss::Entries { first, count, .. } => json!({"what": "mapping", "chunk": first, "chunks": count}),
        Loss::Entry(problem) => json!({"what": "mapping", "chunk": problem.chunk, "chunks": 1}),
        Loss::OlderEntry(chunk) => json!({"what": "older-mapping", "chunk": chunk, "chunks": 1}),
        Loss::Bitmap { zone, .. } => json!({"what": "bitmap", "zone": zone}),
        Loss::OtherBitmap { zone, .. } => json!({"what": "other-bitmap", "zone": zone}),
        Loss::Orphan { zone, .. } => json!({"what": "orphan", "zone": zone}),
        Loss::Blocks { first, count, .. } => json!({"what": "blocks", "block": first, "blocks": count}),
    };
    value["message"] = json!(loss.to_string());
    value
}

fn create(path: &Path) -> Result<File, CliError> {
    let file = fs::OpenOptions::new().write(true).create_new(true).open(path);
    file.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            CliError::Failed(format!("{} exists already: choose another name, or remove it", path.display()))
        }
        _ => cannot("make", path, &error),
    })
}

fn cannot(doing: &str, path: &Path, error: &std::io::Error) -> CliError {
    CliError::Failed(format!("cannot {doing} {}: {error}", path.display()))
}

impl SalvageArgs {
    fn tell(&self, disks: &Disks, salvage: &Salvage, (image, lost): (&Image, &Losses)) -> Result<(), CliError> {
        if self.set.json {
            let mut value = geometry_json(disks);
            value["image"] = json!(image.path);
            value["bytes"] = json!(image.bytes);
            value["written_bytes"] = json!(image.written);
            value["source"] = json!(salvage.source.to_string());
            value["chunks"] = json!(salvage.layout.chunks);
            value["mapped_chunks"] = json!(salvage.mapped());
            value["lost"] = lost.to_json();
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
                lost.text()
            ))?;
        }
        if lost.all.is_empty() { Ok(()) } else { Err(CliError::Disorder) }
    }
}
