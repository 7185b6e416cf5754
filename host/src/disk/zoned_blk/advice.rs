//! What the owner of a zoned disk should know about how the kernel below treats it.

use std::fs;

use shingle_core::plug::WritePolicy;

use super::attributes::{Attributes, Model};

/// The first kernel that puts writes to a zone in order whatever the scheduler is (zone write plugging).
const ORDERS_SINCE: (u32, u32) = (6, 10);

/// Version and patch level of the running kernel; zeroes if it does not say.
#[must_use]
pub fn kernel_version() -> (u32, u32) {
    parse_version(&fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default())
}

fn parse_version(text: &str) -> (u32, u32) {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

impl Attributes {
    /// Whether a kernel of this version keeps the order of writes to a zone.
    #[must_use]
    pub fn is_ordered_by(&self, kernel: (u32, u32)) -> bool {
        self.has_plugs(kernel) || self.scheduler == "mq-deadline"
    }

    /// Whether a kernel of this version does so by itself, whatever the scheduler is.
    #[must_use]
    pub fn has_plugs(&self, kernel: (u32, u32)) -> bool {
        self.model == Model::HostManaged && kernel >= ORDERS_SINCE
    }

    /// What stands between `policy` and what it promises on a kernel of this version.
    #[must_use]
    pub fn advice(&self, policy: WritePolicy, kernel: (u32, u32)) -> Vec<String> {
        let (mut advice, name) = (Vec::new(), &self.name);
        let has_many = matches!(policy, WritePolicy::Plug | WritePolicy::Elevator | WritePolicy::None);
        if self.one_write_at_a_time == Some(true) && has_many {
            advice.push(format!(
                "the kernel has one zone write in flight for the whole disk, so the policy `{policy}` cannot choose among \
                 several: echo 0 > /sys/block/{name}/queue/zoned_qd1_writes, or use the policy `qd1`"
            ));
        }
        if !self.is_ordered_by(kernel) {
            let (major, minor) = kernel;
            let order = match policy {
                WritePolicy::None => {
                    "nobody does under the policy `none`: echo mq-deadline > /sys/block/NAME/queue/scheduler"
                        .replace("NAME", name)
                }
                policy => format!("the policy `{policy}` does above it"),
            };
            advice.push(format!(
                "Linux {major}.{minor} does not keep the order of writes to a zone without the scheduler mq-deadline; {order}"
            ));
        }
        advice
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(scheduler: &str, one_write_at_a_time: Option<bool>) -> Attributes {
        Attributes {
            scheduler: scheduler.into(),
            one_write_at_a_time,
            model: Model::HostManaged,
            ..Attributes::unknown("sdz")
        }
    }

    #[test]
    fn a_kernel_that_holds_writes_back_is_told_of_to_who_wants_several() {
        let held = disk("mq-deadline", Some(true));
        for policy in [WritePolicy::Elevator, WritePolicy::Plug] {
            let advice = held.advice(policy, (7, 2));
            assert!(
                advice.len() == 1 && advice[0].contains("echo 0 > /sys/block/sdz/queue/zoned_qd1_writes"),
                "{advice:?}"
            );
        }
        assert!(held.advice(WritePolicy::Qd1, (7, 2)).is_empty(), "both want the same");
        assert!(disk("none", Some(false)).advice(WritePolicy::Elevator, (7, 2)).is_empty());
    }

    #[test]
    fn a_kernel_that_does_not_keep_the_order_is_told_of() {
        for (scheduler, kernel, ordered) in
            [("none", (6, 9), false), ("mq-deadline", (6, 1), true), ("none", (6, 10), true), ("bfq", (5, 15), false)]
        {
            let advice = disk(scheduler, None).advice(WritePolicy::Plug, kernel);
            assert_eq!(advice.is_empty(), ordered, "{scheduler} {kernel:?}: {advice:?}");
        }
        let advice = disk("none", None).advice(WritePolicy::None, (6, 1));
        assert!(advice[0].contains("echo mq-deadline > /sys/block/sdz/queue/scheduler"), "{advice:?}");
    }

    #[test]
    fn versions_are_read_as_kernels_write_them() {
        assert_eq!(parse_version("6.12.95+deb13-amd64\n"), (6, 12));
        assert_eq!(parse_version("7.2\n"), (7, 2));
        assert_eq!(parse_version(""), (0, 0));
    }
}
