//! `type = "file"`: a regular file or a block device.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use shingle_core::block::BlockDevice;

use super::{BackEnd, BackEndError, BackEndType, Placed};
use crate::disk::file::{FileDisk, Options, check, open};
use crate::fields::Fields;
use crate::shard::Shard;

pub(super) const TYPE: BackEndType = BackEndType {
    name: "file",
    read,
    at,
    ask: Some(|stack, disk| {
        stack.with_device(disk, |disk: &mut FileDisk, cx| disk.check(cx.now())).unwrap_or_default()
    }),
};

#[derive(Debug)]
struct File {
    path: PathBuf,
    options: Options,
}

fn read(fields: &mut Fields<'_>) -> Option<Placed> {
    let defaults = Options::default();
    let options = Options {
        direct: fields.flag("direct").map_or(defaults.direct, |at| at.value),
        read_only: fields.flag("read-only").map_or(defaults.read_only, |at| at.value),
        block_bytes: fields.size("block-size").map(|at| u32::try_from(at.value).unwrap_or(u32::MAX)),
        timeout: fields.duration("timeout").map_or(defaults.timeout, |at| at.value),
    };
    let path = fields.required_path("path", "\"disk.img\"")?;
    Some(path.map(|path| Arc::new(File { path, options }) as _))
}

fn at(path: &Path, read_only: bool) -> Option<Arc<dyn BackEnd>> {
    let is_file = path.metadata().is_ok_and(|metadata| !metadata.is_dir());
    let options = Options { read_only, direct: false, ..Options::default() };
    is_file.then(|| Arc::new(File { path: path.into(), options }) as _)
}

impl BackEnd for File {
    fn is_zoned(&self) -> bool {
        false
    }

    fn open(&self, shard: &mut Shard) -> Result<Box<dyn BlockDevice>, BackEndError> {
        Ok(Box::new(open(&self.path, &self.options, shard.ring())?))
    }

    fn inspect(&self) -> Result<(), BackEndError> {
        Ok(check(&self.path)?)
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.path)
    }
}
