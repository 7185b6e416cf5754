//! `shingle disks`: the zoned disks of this machine and what they can do.

#[cfg(feature = "lab")]
mod test;

use clap::Args;
#[cfg(feature = "lab")]
use clap::Subcommand;
use serde_json::{Value, json};
use shingle_core::block::Limits;
use shingle_core::plug::WritePolicy;
use shingle_core::sector::SECTOR_BYTES;

use crate::cli::{CliError, output};
use shingle_host::config::format_bytes;
use shingle_host::disk::zoned_blk::advice::kernel_version;
use shingle_host::disk::zoned_blk::attributes::Attributes;
use shingle_host::disk::zoned_blk::{FoundDisk, find_disks};

/// List the zoned disks of this machine and what they can do
///
/// How the kernel orders zone writes below is shown in the words of policies: `plug` one in flight for each zone, `qd1` one for the disk,
/// `zone-lock` by the scheduler mq-deadline, `none` not at all.
#[derive(Args)]
#[command(
    after_help = "A disk is used by its path, with `type = \"zoned-blk\"` in a stack file, `shingle zones` and `shingle dmz`."
)]
#[command(args_conflicts_with_subcommands = true)]
pub struct DisksArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[cfg(feature = "lab")]
    #[command(subcommand)]
    command: Option<DisksCommand>,
}

#[cfg(feature = "lab")]
#[derive(Subcommand)]
enum DisksCommand {
    Test(test::TestArgs),
}

/// Runs the command.
pub fn run(args: &DisksArgs) -> Result<(), CliError> {
    #[cfg(feature = "lab")]
    if let Some(DisksCommand::Test(args)) = &args.command {
        return test::run(args);
    }
    let disks = find_disks().map_err(|error| {
        CliError::Failed(format!("cannot list the block devices in /sys/block: {error}; is sysfs mounted?"))
    })?;
    let kernel = kernel_version();
    if args.json {
        let disks: Vec<Value> = disks.iter().map(|disk| to_json(disk, kernel)).collect();
        return output::print_json(&json!({"disks": disks}));
    }
    output::print(&to_text(&disks, kernel))
}

fn bytes(sectors: u64) -> u64 {
    sectors.saturating_mul(SECTOR_BYTES.into())
}

/// What the kernel does to the order of zone writes, as a policy.
fn order(disk: &Attributes, kernel: (u32, u32)) -> WritePolicy {
    match disk.one_write_at_a_time {
        _ if !disk.is_ordered_by(kernel) => WritePolicy::None,
        _ if !disk.has_plugs(kernel) => WritePolicy::ZoneLock,
        Some(true) => WritePolicy::Qd1,
        _ => WritePolicy::Plug,
    }
}

/// What stands against the policy that it would have if none was named.
fn advice(disk: &Attributes, kernel: (u32, u32)) -> Vec<String> {
    let limits = Limits { rotational: disk.rotational, ..Limits::new(1) };
    disk.advice(WritePolicy::default_for(&limits), kernel)
}

fn to_text(disks: &[FoundDisk], kernel: (u32, u32)) -> String {
    if disks.is_empty() {
        return "this machine has no zoned disks; `shingle create` makes one in a directory\n".into();
    }
    let header = [
        "disk",
        "model",
        "size",
        "zones",
        "conventional",
        "zone",
        "open/active",
        "block",
        "command",
        "cache",
        "kernel's order",
        "used by",
    ];
    let mut text = output::table(&header, &[2, 3, 4, 5, 8], disks.iter().map(|disk| row(disk, kernel)));
    for FoundDisk { attributes, .. } in disks {
        for line in advice(attributes, kernel) {
            text += &format!("\n{}: {line}\n", attributes.name);
        }
    }
    text
}

fn row(FoundDisk { path, attributes: disk, conventional, user }: &FoundDisk, kernel: (u32, u32)) -> Vec<String> {
    let or_dash = |number: Option<u32>| number.map_or("-".into(), |number| number.to_string());
    let cache = match (disk.write_cache, disk.fua) {
        (false, _) => "none",
        (true, false) => "flush",
        (true, true) => "flush, FUA",
    };
    vec![
        path.display().to_string(),
        if disk.product.is_empty() { "-".into() } else { disk.product.clone() },
        format_bytes(bytes(disk.sectors)),
        disk.zones().to_string(),
        or_dash(*conventional),
        format_bytes(bytes(disk.zone_sectors)),
        format!("{}/{}", or_dash(disk.max_open), or_dash(disk.max_active)),
        format!("{}/{}", disk.logical_block_bytes, disk.write_granularity),
        format_bytes(bytes(disk.max_sectors.into())),
        cache.into(),
        order(disk, kernel).name().into(),
        user.clone().unwrap_or_else(|| "-".into()),
    ]
}

fn to_json(FoundDisk { path, attributes: disk, conventional, user }: &FoundDisk, kernel: (u32, u32)) -> Value {
    json!({
        "path": path,
        "name": disk.name,
        "model": disk.product,
        "serial": disk.serial,
        "bytes": bytes(disk.sectors),
        "zones": disk.zones(),
        "conventional_zones": conventional,
        "zone_bytes": bytes(disk.zone_sectors),
        "max_open": disk.max_open,
        "max_active": disk.max_active,
        "logical_block_bytes": disk.logical_block_bytes,
        "physical_block_bytes": disk.physical_block_bytes,
        "write_granularity_bytes": disk.write_granularity,
        "max_command_bytes": bytes(disk.max_sectors.into()),
        "write_cache": disk.write_cache,
        "fua": disk.fua,
        "rotational": disk.rotational,
        "scheduler": disk.scheduler,
        "kernel_order": order(disk, kernel).name(),
        "user": user,
        "advice": advice(disk, kernel),
    })
}

#[cfg(test)]
mod tests {
    use shingle_host::disk::zoned_blk::attributes::Model;

    use super::*;

    fn disk(name: &str, one_write_at_a_time: Option<bool>) -> FoundDisk {
        let attributes = Attributes {
            product: "HSH721414ALN6M0".into(),
            sectors: 27_344_764_928,
            model: Model::HostManaged,
            zone_sectors: 524_288,
            max_open: Some(128),
            write_granularity: 4096,
            max_sectors: 2560,
            write_cache: true,
            rotational: true,
            scheduler: "mq-deadline".into(),
            one_write_at_a_time,
            ..Attributes::unknown(name)
        };
        let path = format!("/dev/{name}").into();
        FoundDisk { path, attributes, conventional: Some(524), user: Some("process 7 (shingle up)".into()) }
    }

    #[test]
    fn a_disk_is_a_line_with_what_it_can_do_and_what_its_kernel_does() {
        let text = to_text(&[disk("sda", Some(true)), disk("sdb", None)], (7, 2));
        let lines: Vec<&str> = text.lines().collect();
        for word in ["/dev/sda", "HSH721414ALN6M0", "52156", "524", "256 MiB", "128/-", "512/4096", "1.25 MiB", "qd1"] {
            assert!(lines[1].contains(word), "{word} is missing: {text}");
        }
        assert!(lines[2].contains("plug") && lines[2].contains("process 7 (shingle up)"), "{text}");
    }

    #[test]
    fn the_order_of_a_kernel_is_that_of_a_policy() {
        let order = |disk: &FoundDisk, kernel| order(&disk.attributes, kernel);
        let mut disk = disk("sda", Some(false));
        assert_eq!((order(&disk, (7, 2)), order(&disk, (6, 1))), (WritePolicy::Plug, WritePolicy::ZoneLock));
        disk.attributes.scheduler = "none".into();
        assert_eq!((order(&disk, (6, 10)), order(&disk, (6, 9))), (WritePolicy::Plug, WritePolicy::None));
        assert!(to_text(&[disk], (6, 9)).contains("does not keep the order"));
    }

    #[test]
    fn a_machine_without_such_disks_says_what_else_there_is() {
        assert!(to_text(&[], (7, 2)).contains("shingle create"));
    }
}
