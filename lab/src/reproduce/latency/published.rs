//! The published figures: of which policy, under which load, and what.

use serde::{Deserialize, Serialize};

use super::Class;
use crate::reproduce::published::split;

shingle_core::named_enum! {
    /// What a published figure says.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum What {
        /// Mean latency, in us.
        Mean => "mean, us",
        /// Its standard deviation, in us.
        Deviation => "deviation, us",
        /// 2^20 bytes a second.
        MebibytesPerSecond => "MiB/s",
        /// I/Os a second.
        IosPerSecond => "I/Os a second",
        /// Mean latency of the slowest path, in us.
        SlowestPath => "slowest path, us",
    }

    /// With its unit.
    fn name(self) -> &'static str;
}

/// A published figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// What it says.
    pub what: What,
    /// In the unit of that.
    pub value: f64,
}

/// What was published of a policy under a load.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    /// The policy, as a contender is called.
    pub policy: String,
    /// What a figure of ours beside it is worth.
    pub class: Class,
    /// The figures.
    pub figures: Vec<Figure>,
}

/// A published table.
pub struct Published {
    /// The comments of its file.
    pub source: String,
    header: &'static str,
    text: &'static str,
}

impl Published {
    fn new(header: &'static str, text: &'static str) -> Self {
        Self { source: split(text).0, header, text }
    }

    /// tiobench over Fibre Channel.
    pub fn latency() -> Self {
        let text = include_str!("../../../data/published/nvme-latency.csv");
        Self::new("policy,decay,op,avg_us,stddev_us", text)
    }

    /// Two NVMe/TCP paths, one with 30 ms more.
    pub fn adaptive() -> Self {
        let text = include_str!("../../../data/published/nvme-adaptive.csv");
        Self::new("op,numa,round-robin,queue-depth,adaptive", text)
    }

    /// An array with two fast and two slow paths.
    pub fn array() -> Self {
        let text = include_str!("../../../data/published/nvme-asymmetric-array.csv");
        Self::new("policy,ios_per_s,mean_ms,slowest_path_ms", text)
    }

    /// The rows, each as long as the header.
    fn rows(&self) -> Result<Vec<Vec<&'static str>>, String> {
        let (_, lines) = split(self.text);
        let Some(((_, header), rows)) = lines.split_first() else { return Err("it has no header".into()) };
        if *header != self.header {
            return Err(format!("the header has to be `{}`", self.header));
        }
        let count = self.header.split(',').count();
        let row = |(number, line): &(usize, &'static str)| {
            let fields: Vec<&str> = line.split(',').collect();
            let is_row = fields.len() == count;
            is_row.then_some(fields).ok_or_else(|| format!("line {number}: not the {count} fields of the header"))
        };
        rows.iter().map(row).collect()
    }
}

fn figure(what: What, text: &str, times: f64) -> Result<Figure, String> {
    let value = text.parse::<f64>().ok().filter(|value| value.is_finite() && *value > 0.0);
    value.map(|value| Figure { what, value: value * times }).ok_or_else(|| format!("`{text}` is no figure above 0"))
}

/// What is published of tiobench's phase `op`.
pub fn of_tiobench(op: &str) -> Result<Vec<Known>, String> {
    let known = |row: &Vec<&str>| {
        // How the disk came to be so slow for these is not known, and not modelled.
        let is_modelled = op != "random write";
        let (policy, class) = match (row[0], row[1]) {
            ("round-robin", "") => ("round-robin", Class::Calibrated),
            ("latency", "50") => ("latency", Class::Predicted),
            ("latency", "10") => ("latency, decay 10", Class::Predicted),
            (policy, decay) => return Err(format!("`{policy}` with decay `{decay}` is no policy that was published")),
        };
        let class = if is_modelled { class } else { Class::NotModelled };
        let figures = vec![figure(What::Mean, row[3], 1.0)?, figure(What::Deviation, row[4], 1.0)?];
        Ok(Known { policy: policy.to_owned(), class, figures })
    };
    Published::latency().rows()?.iter().filter(|row| row[2] == op).map(known).collect()
}

/// What is published of the paths of which one has 30 ms more; of the policy that the load was fitted to and of others.
pub fn of_adaptive(op: &str) -> Result<Vec<Known>, String> {
    let published = Published::adaptive();
    let rows = published.rows()?;
    let row = rows.iter().find(|row| row[0] == op).ok_or_else(|| format!("there is no row `{op}`"))?;
    // What is published of half reads and half writes is one direction.
    let directions = if op == "half" { 2.0 } else { 1.0 };
    let known = |(policy, text): (&str, &&str)| {
        let class = if policy == "numa" { Class::Calibrated } else { Class::Predicted };
        let figures = vec![figure(What::MebibytesPerSecond, text, directions)?];
        Ok(Known { policy: policy.to_owned(), class, figures })
    };
    published.header.split(',').zip(row).skip(1).map(known).collect()
}

/// What is published of the array with `policy`, and how many I/Os were under way.
pub fn of_array(policy: &str, class: Class) -> Result<(Known, u32), String> {
    let published = Published::array();
    let rows = published.rows()?;
    let row = rows.iter().find(|row| row[0] == policy).ok_or_else(|| format!("there is no row `{policy}`"))?;
    let figures = vec![
        figure(What::IosPerSecond, row[1], 1.0)?,
        figure(What::Mean, row[2], 1e3)?,
        figure(What::SlowestPath, row[3], 1e3)?,
    ];
    let under_way = (figures[0].value * figures[1].value / 1e6).round() as u32;
    Ok((Known { policy: policy.to_owned(), class, figures }, under_way))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(known: &[Known]) -> Vec<(&str, Vec<f64>)> {
        known.iter().map(|known| (&*known.policy, known.figures.iter().map(|of| of.value).collect())).collect()
    }

    #[test]
    fn the_published_figures_are_read_with_their_policies_and_classes() {
        let reads = of_tiobench("random read").unwrap();
        let expected =
            [("round-robin", [150.0, 68.0]), ("latency", [141.0, 58.0]), ("latency, decay 10", [140.0, 57.0])];
        assert_eq!(values(&reads), expected.map(|(policy, figures)| (policy, figures.to_vec())));
        assert_eq!(reads[0].class, Class::Calibrated);
        assert!(reads[1..].iter().all(|known| known.class == Class::Predicted));
        let writes = of_tiobench("random write").unwrap();
        assert!(writes.len() == 3 && writes.iter().all(|known| known.class == Class::NotModelled));
        let half = of_adaptive("half").unwrap();
        assert_eq!(values(&half)[3], ("adaptive", vec![350.0]));
        let (known, under_way) = of_array("queue-depth", Class::Calibrated).unwrap();
        assert_eq!((values(&[known])[0].1.clone(), under_way), (vec![50_172.0, 30_600.0, 459_000.0], 1535));
        assert_eq!(of_array("round-robin", Class::Predicted).unwrap().1, 1129);
    }

    #[test]
    fn every_figure_is_read_and_a_row_that_is_none_is_refused() {
        let phases = ["sequential write", "random write", "sequential read", "random read"];
        assert_eq!(phases.map(|phase| of_tiobench(phase).unwrap().len()), [3; 4]);
        assert_eq!(Published::latency().rows().unwrap().len(), 12);
        assert_eq!(Published::adaptive().rows().unwrap().len(), 3);
        let wrong = |text| Published { source: String::new(), header: "a,b", text }.rows().unwrap_err();
        assert!(wrong("").contains("no header"));
        assert!(wrong("a,c\n").contains("has to be `a,b`"));
        assert!(wrong("# source\na,b\n1\n").contains("line 3: not the 2 fields"));
        assert!(["", "-1", "0", "inf", "x"].iter().all(|text| figure(What::Mean, text, 1.0).is_err()));
        assert!(of_adaptive("erase").unwrap_err().contains("`erase`"));
    }
}
