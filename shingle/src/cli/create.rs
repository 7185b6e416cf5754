//! `shingle create`: a new zoned disk in a directory.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use shingle_core::zone::{GeometryError, ResourceLimits, ZoneGeometry};

use super::{CliError, output};
use shingle_host::config::{format_bytes, parse_size};
use shingle_host::disk::zoned_dir::{self, Shape};

/// Create a zoned disk in a directory
///
/// The directory must not exist or be empty. Every zone becomes a file in it; space is taken as zones are written. With --adopt
/// the zone files are there already, as in a directory of the kernel's zloop driver: what they hold stays.
#[derive(Args)]
pub struct CreateArgs {
    /// The directory
    directory: PathBuf,
    /// Size of the disk, as in 8GiB
    #[arg(long, value_parser = parse_size)]
    size: u64,
    /// Size of a zone, a power of two, as in 64MiB
    #[arg(long, value_parser = parse_size)]
    zone_size: u64,
    /// Writable part of a sequential zone; the zone size if left out
    #[arg(long, value_parser = parse_size)]
    zone_capacity: Option<u64>,
    /// Number of conventional zones; they come first
    #[arg(long, default_value_t = 0)]
    conventional: u32,
    /// Most zones open at once; no limit if left out
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    max_open: Option<u32>,
    /// Most zones open or closed at once; no limit if left out
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    max_active: Option<u32>,
    /// Logical block size; 4096 if the sizes are multiples of it
    #[arg(long, value_parser = parse_size)]
    block_size: Option<u64>,
    /// No native zone append; it is emulated above the disk
    #[arg(long)]
    no_append: bool,
    /// Take the zone files that lie in the directory, if they are those of such a disk
    #[arg(long)]
    adopt: bool,
    /// Print what was made as JSON
    #[arg(long)]
    json: bool,
}

impl CreateArgs {
    fn shape(&self) -> Result<Shape, CliError> {
        let capacity = self.zone_capacity.unwrap_or(self.zone_size);
        for (name, bytes) in [("--size", self.size), ("--zone-size", self.zone_size), ("--zone-capacity", capacity)] {
            if !bytes.is_multiple_of(512) {
                return Err(CliError::Usage(format!("{name} is {bytes} bytes: use a multiple of 512")));
            }
        }
        let geometry =
            ZoneGeometry::new(self.size / 512, self.zone_size / 512, capacity / 512, self.conventional.into());
        let mut shape = Shape::new(geometry.map_err(|error| CliError::Usage(what_to_write(error)))?);
        shape.limits = ResourceLimits::new(self.max_open, self.max_active).map_err(CliError::usage)?;
        shape.append = !self.no_append;
        if let Some(block) = self.block_size {
            let too_large = |_| CliError::Usage(format!("--block-size of {block} is too large"));
            shape.block_bytes = u32::try_from(block).map_err(too_large)?;
        }
        shape.check().map_err(CliError::usage)?;
        Ok(shape)
    }
}

/// Describes the wrong option in the units of the command line, with a value that works.
fn what_to_write(error: GeometryError) -> String {
    match error {
        GeometryError::ZoneSize(sectors) => {
            let below = 1_u64 << sectors.clamp(1, 1 << 31).ilog2();
            let [size, below, above] = [sectors, below, 2 * below].map(|sectors| format_bytes(sectors * 512));
            let or_above = if sectors < 1 << 31 { format!(" or {above}") } else { String::new() };
            format!("--zone-size of {size} is not a power of two from 512 B to 1 TiB: use {below}{or_above}")
        }
        GeometryError::Conventional(conventional, zones) => format!(
            "--conventional {conventional} leaves none of the {zones} zones to be sequential: use {} or less, a larger --size or a \
             smaller --zone-size",
            zones.saturating_sub(1)
        ),
        other => other.to_string(),
    }
}

/// Runs the command.
pub fn run(args: &CreateArgs) -> Result<(), CliError> {
    let shape = args.shape()?;
    let zones = shape.zones;
    let made = match args.adopt {
        true => zoned_dir::adopt(&args.directory, &shape),
        false => output::with_bar("creating zones {bar:40} {pos}/{len} ({eta} left)", |progress| {
            zoned_dir::create(&args.directory, &shape, &mut |done| progress(done.into(), zones.zones().into()))
        }),
    };
    made.map_err(CliError::failed)?;
    if args.json {
        return output::print_json(&json!({
            "path": args.directory,
            "bytes": zones.capacity() * 512,
            "zones": zones.zones(),
            "zone_bytes": u64::from(zones.zone_sectors()) * 512,
            "zone_capacity_bytes": u64::from(zones.zone_capacity()) * 512,
            "conventional": zones.conventional(),
            "block_bytes": shape.block_bytes,
            "max_open": shape.limits.max_open(),
            "max_active": shape.limits.max_active(),
            "append": shape.append,
        }));
    }
    let directory = args.directory.display();
    output::print(&format!(
        "{} {directory}: {}, {} zones of {} ({} conventional, {} sequential with {} writable), {}-byte blocks\n\
         next: shingle zones report {directory}, or serve it: see `man shingle-stack` (docs/stack-file.md) and shingle up\n",
        if args.adopt { "adopted" } else { "created" },
        format_bytes(zones.capacity() * 512),
        zones.zones(),
        format_bytes(u64::from(zones.zone_sectors()) * 512),
        zones.conventional(),
        zones.sequential(),
        format_bytes(u64::from(zones.zone_capacity()) * 512),
        shape.block_bytes,
    ))
}
