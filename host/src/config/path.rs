//! Paths that are added to a device and removed while it is used.

use std::collections::BTreeMap;

use shingle_core::multipath::{AnaState, Head, PathConfig, PathHealth};

use super::head::end_of;
use crate::devices::{MULTIPATH, Named};
use crate::shard::Shard;

/// Adds the device called `path` to those of `head`; disks are what `identities` says.
///
/// # Errors
/// Why it is no path to that disk, or who uses it.
pub(crate) fn add_path(
    shard: &mut Shard,
    head: &Named,
    (path, state): (&str, AnaState),
    identities: &BTreeMap<String, String>,
) -> Result<(), String> {
    let (devices, stack) = (&mut shard.devices, &mut shard.stack);
    // One that has just left may come again.
    devices.free_paths(stack);
    let named = devices.find(path).ok_or_else(|| format!("there is no `{path}` on the shard of `{}`", head.name))?;
    if named.kind == MULTIPATH {
        return Err(format!("`{path}` has paths itself, and is no path"));
    }
    if named.plug.is_some() {
        let advice = "a zoned disk can be added only if the stack file has it as a path";
        return Err(format!(
            "`{path}` keeps its zone writes in order itself, and `{}` does so above its paths: {advice}",
            head.name
        ));
    }
    check_end(shard, head, path, identities)?;
    let (devices, stack) = (&mut shard.devices, &mut shard.stack);
    let id = named.device;
    let is_kept = devices.mapper.is_reserved(id, &head.name) && !stack.below(head.leaf).contains(&id);
    if !is_kept {
        devices.mapper.reserve(id, &head.name, stack).map_err(|error| error.to_string())?;
    }
    let config = PathConfig { silence: stack.silence(id), state, ..PathConfig::new(id) };
    match Head::add_path(stack, head.leaf, &config) {
        Ok(_) => {
            // Nobody removes it now: there was no message in between.
            let _ = devices.open(path);
            Ok(())
        }
        Err(error) => {
            if !is_kept {
                devices.mapper.release(id);
            }
            Err(format!("`{path}` does not go with the paths of `{}`: {error}", head.name))
        }
    }
}

/// Whether a device leads where the paths of `head` lead, as far as tables tell.
fn check_end(shard: &Shard, head: &Named, path: &str, identities: &BTreeMap<String, String>) -> Result<(), String> {
    let (devices, stack) = (&shard.devices, &shard.stack);
    let disk = |name: &str| identities.get(name).cloned();
    let lines = |name: &str| devices.mapper.lines(name);
    let paths = stack.device::<Head>(head.leaf).into_iter().flat_map(Head::paths);
    let in_use = paths.filter(|path| path.health != PathHealth::Leaving).map(|path| devices.label(path.device));
    let known = in_use.filter_map(|name| end_of(&name, &disk, &lines).map(|end| (name, end))).next();
    match (end_of(path, &disk, &lines), known) {
        (Some(elsewhere), Some((name, there))) if elsewhere != there => Err(format!(
            "`{path}` leads to {elsewhere}, and `{name}`, a path of `{}`, to {there}: they are not one disk",
            head.name
        )),
        _ => Ok(()),
    }
}

/// Has `head` remove the path of this number: it is free when nothing is under way there any more.
pub(crate) fn remove_path(shard: &mut Shard, head: &Named, number: usize) {
    let (devices, stack) = (&mut shard.devices, &mut shard.stack);
    let path = stack.with_device(head.leaf, |head: &mut Head, cx| {
        let device = head.paths().find(|path| path.number == number).map(|path| path.device);
        head.remove_path(number, cx);
        device
    });
    path.flatten().into_iter().for_each(|path| devices.begin_to_leave(head.leaf, path));
    devices.free_paths(stack);
}
