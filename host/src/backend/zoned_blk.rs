//! `type = "zoned-blk"`: a zoned block device of the kernel.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use shingle_core::block::BlockDevice;
use shingle_core::plug::WritePolicy;

use super::{BackEnd, BackEndError, BackEndType, Placed};
use crate::disk::zoned_blk::advice::kernel_version;
use crate::disk::zoned_blk::attributes::Attributes;
use crate::disk::zoned_blk::{ErrorKind, Options, ZonedBlk, ZonedBlkError, check, is_zoned, open};
use crate::fields::Fields;
use crate::shard::Shard;

/// Name of the type in a stack file.
pub(crate) const NAME: &str = "zoned-blk";

pub(super) const TYPE: BackEndType = BackEndType {
    name: NAME,
    read,
    at,
    ask: Some(|stack, disk| {
        stack.with_device(disk, |disk: &mut ZonedBlk, cx| disk.check(cx.now())).unwrap_or_default()
    }),
};

#[derive(Debug)]
struct Device {
    path: PathBuf,
    options: Options,
}

fn read(fields: &mut Fields<'_>) -> Option<Placed> {
    let defaults = Options::default();
    let options = Options {
        read_only: fields.flag("read-only").map_or(defaults.read_only, |at| at.value),
        timeout: fields.duration("timeout").map_or(defaults.timeout, |at| at.value),
    };
    let path = fields.required_path("path", "\"/dev/sda\"")?;
    Some(path.map(|path| Arc::new(Device { path, options }) as _))
}

fn at(path: &Path, read_only: bool) -> Option<Arc<dyn BackEnd>> {
    let options = Options { read_only, ..Options::default() };
    is_zoned(path).then(|| Arc::new(Device { path: path.into(), options }) as _)
}

impl BackEnd for Device {
    fn is_zoned(&self) -> bool {
        true
    }

    fn open(&self, shard: &mut Shard) -> Result<Box<dyn BlockDevice>, BackEndError> {
        Ok(Box::new(open(&self.path, &self.options, shard).map_err(explain)?))
    }

    fn inspect(&self) -> Result<(), BackEndError> {
        check(&self.path).map_err(explain)
    }

    fn advice(&self, policy: WritePolicy) -> Vec<String> {
        let attributes = Attributes::of(&self.path);
        attributes.map_or(Vec::new(), |attributes| attributes.advice(policy, kernel_version()))
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.path)
    }
}

fn explain(error: ZonedBlkError) -> BackEndError {
    let is_absent = matches!(error.kind, ErrorKind::Absent | ErrorKind::NotZoned);
    let help = is_absent.then(|| "`shingle disks` lists the zoned disks of this machine".into());
    BackEndError { help, ..error.into() }
}
