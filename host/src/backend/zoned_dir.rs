//! `type = "zoned-dir"`: a zoned disk in a directory, made by `shingle create`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use shingle_core::block::BlockDevice;

use super::{BackEnd, BackEndError, BackEndType, Placed};
use crate::disk::drive_dir::DriveDir;
use crate::disk::zoned_dir::{ErrorKind, Options, ZonedDir, ZonedDirError, inspect, open};
use crate::fields::Fields;
use crate::shard::Shard;

pub(super) const TYPE: BackEndType = BackEndType {
    name: "zoned-dir",
    read,
    at,
    ask: Some(|stack, disk| {
        stack.with_device(disk, |disk: &mut ZonedDir, cx| disk.check(cx.now(), cx)).unwrap_or_default()
    }),
};

#[derive(Debug)]
struct Directory {
    path: PathBuf,
    options: Options,
}

fn read(fields: &mut Fields<'_>) -> Option<Placed> {
    let defaults = Options::default();
    let options = Options {
        direct: fields.flag("direct").map_or(defaults.direct, |at| at.value),
        read_only: fields.flag("read-only").map_or(defaults.read_only, |at| at.value),
        most_files: fields.count("open-files").map_or(defaults.most_files, |at| at.value.max(1) as usize),
        timeout: fields.duration("timeout").map_or(defaults.timeout, |at| at.value),
        ..defaults
    };
    let path = fields.required_path("path", "\"disk0\"")?;
    Some(path.map(|path| Arc::new(Directory { path, options }) as _))
}

/// What is not there is taken for a directory: most disks of tools are, and the error tells how to make one.
fn at(path: &Path, read_only: bool) -> Option<Arc<dyn BackEnd>> {
    let is_file = path.metadata().is_ok_and(|metadata| !metadata.is_dir());
    let options = Options { read_only, ..Options::default() };
    let is_other = DriveDir::describe(path).is_some();
    (!is_file && !is_other).then(|| Arc::new(Directory { path: path.into(), options }) as _)
}

impl BackEnd for Directory {
    fn is_zoned(&self) -> bool {
        true
    }

    fn open(&self, shard: &mut Shard) -> Result<Box<dyn BlockDevice>, BackEndError> {
        Ok(Box::new(open(&self.path, &self.options, shard.ring()).map_err(|error| self.explain(&error))?))
    }

    fn inspect(&self) -> Result<(), BackEndError> {
        match inspect(&self.path, None) {
            Err(error) if !matches!(error.kind, ErrorKind::InUse(_)) => Err(self.explain(&error)),
            _ => Ok(()),
        }
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.path)
    }
}

impl Directory {
    fn explain(&self, error: &ZonedDirError) -> BackEndError {
        let is_missing = matches!(error.kind, ErrorKind::Absent | ErrorKind::NoGeometry);
        let path = self.path.display();
        let help = is_missing.then(|| format!("create it with: shingle create {path} --size 8GiB --zone-size 64MiB"));
        BackEndError { help, ..error.into() }
    }
}
