//! Paths that are added to a device and removed while it is used.

use shingle_core::multipath::{AnaState, Head, Node, PathConfig};

use crate::devices::{MULTIPATH, Named};
use crate::shard::Shard;

/// Adds the device called `path` to those of `head`. Without a node it has that of its disk.
///
/// # Errors
/// Why it is no path to that disk, or who uses it.
pub(crate) fn add_path(
    shard: &mut Shard,
    head: &Named,
    (path, state, node): (&str, AnaState, Option<Node>),
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
    let mut all = devices.paths_of(head.leaf, stack);
    all.push(path.to_owned());
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let checked = devices.check_paths(&all);
    checked
        .map_err(|other| format!("the paths of `{}` do not lead to one disk: {other}; {}", head.name, other.advice))?;
    let id = named.device;
    let is_kept = devices.mapper.is_reserved(id, &head.name) && !stack.below(head.leaf).contains(&id);
    if !is_kept {
        devices.mapper.reserve(id, &head.name, stack).map_err(|error| error.to_string())?;
    }
    let node = node.or_else(|| devices.node_of(id, stack));
    let config = PathConfig { silence: stack.silence(id), state, node, ..PathConfig::new(id) };
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
