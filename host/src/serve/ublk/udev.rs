//! What udev says of a block device: the driver has no name for it. A file of properties is there before the device is, and the rule
//! in `packaging/60-shingle.rules` reads it.

use std::fs;
use std::path::PathBuf;

const FOLDER: &str = "/run/shingle/udev";

/// Says what the device of this number will be.
pub(super) fn describe(number: u32, export: &str, mark: u64) {
    let name: String =
        export.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' }).collect();
    let serial = format!("{mark:016x}");
    let text = format!(
        "SHINGLE_EXPORT={name}\nID_MODEL=Shingle\nID_SERIAL=Shingle_{name}_{serial}\nID_SERIAL_SHORT={serial}\n"
    );
    let written = fs::create_dir_all(FOLDER).and_then(|()| fs::write(path(number), text));
    if let Err(error) = written {
        tracing::warn!(
            export,
            "export `{export}`: /dev/ublkb{number} has no name for udev, as {FOLDER} cannot be written: {error}"
        );
    }
}

/// The device of this number is gone.
pub(super) fn forget(number: u32) {
    // If it is not there, that is as well.
    let _ = fs::remove_file(path(number));
}

fn path(number: u32) -> PathBuf {
    format!("{FOLDER}/ublkb{number}").into()
}
