//! What fio measured: the files of `--output-format=json`.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::load::{Figure, Load, Rw};
use super::search::Measurement;
use shingle_host::config::parse_size;

/// The longest file.
const LONGEST_BYTES: u64 = 64 << 20;

/// A job that says nothing about the parameters of a drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The file and the job.
    pub name: String,
    /// Why.
    pub reason: String,
}

/// What is in a file.
#[derive(Debug, Default)]
pub struct Reading {
    /// What can be used.
    pub measurements: Vec<Measurement>,
    /// What cannot.
    pub left_out: Vec<LeftOut>,
}

#[derive(Deserialize)]
struct Output {
    #[serde(default, rename = "global options")]
    global: Options,
    jobs: Vec<FioJob>,
}

/// Options as fio prints them: a flag is empty.
type Options = BTreeMap<String, String>;

#[derive(Deserialize)]
struct FioJob {
    jobname: String,
    #[serde(default)]
    error: i64,
    #[serde(default, rename = "job options")]
    options: Options,
    read: Flow,
    write: Flow,
}

#[derive(Deserialize)]
struct Flow {
    #[serde(default)]
    total_ios: u64,
    #[serde(default)]
    iops: f64,
    #[serde(default)]
    clat_ns: Latency,
}

#[derive(Default, Deserialize)]
struct Latency {
    #[serde(default)]
    mean: f64,
}

/// Reads a file. Jobs of one name that fio started several times are one measurement.
///
/// # Errors
/// If it cannot be read, or fio did not write it.
pub fn read(path: &Path) -> Result<Reading, String> {
    let fail = |why: String| format!("{}: {why}: name files that fio wrote with --output-format=json", path.display());
    let text = read_text(path, LONGEST_BYTES).map_err(fail)?;
    // Warnings of fio may stand before the object.
    let start = text.find('{').ok_or_else(|| fail("there is no JSON".into()))?;
    let output: Output = serde_json::from_str(&text[start..]).map_err(|error| fail(error.to_string()))?;
    let mut reading = Reading::default();
    let file = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let mut jobs = output.jobs.iter().peekable();
    while let Some(first) = jobs.next() {
        let mut clones = vec![first];
        while let Some(next) = jobs.next_if(|next| next.jobname == first.jobname) {
            clones.push(next);
        }
        let name = format!("{file}: {}", first.jobname);
        match measurement(&output.global, &clones) {
            Ok((load, figure)) => reading.measurements.push(Measurement { name, load, figure }),
            Err(reason) => reading.left_out.push(LeftOut { name, reason }),
        }
    }
    Ok(reading)
}

/// The text of a file, unless it is longer than it may be.
///
/// # Errors
/// If it is, or cannot be read.
pub fn read_text(path: &Path, longest_bytes: u64) -> Result<String, String> {
    let length = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
    if length > longest_bytes {
        return Err(format!("it has {length} bytes, and may have {longest_bytes}"));
    }
    std::fs::read_to_string(path).map_err(|error| error.to_string())
}

/// What jobs of one name measured.
fn measurement(global: &Options, clones: &[&FioJob]) -> Result<(Load, Figure), String> {
    let first = clones[0];
    let option = |key: &str| first.options.get(key).or_else(|| global.get(key)).map(String::as_str);
    if let Some(failed) = clones.iter().find(|job| job.error != 0) {
        return Err(format!("it ended with error {}", failed.error));
    }
    // The names of our generator and of SPDK's engine.
    let append =
        ["write_zone_append", "zone_append"].into_iter().any(|key| option(key).is_some_and(|flag| flag != "0"));
    let rw = match option("rw").or_else(|| option("readwrite")).unwrap_or("read") {
        "read" => Rw::Read,
        "randread" => Rw::RandRead,
        "write" if append => Rw::Append,
        "write" => Rw::Write,
        other => return Err(format!("rw={other} is not simulated alone: measure read, randread and write")),
    };
    let number = |key: &str| {
        option(key).map_or(Ok(1), |text| text.parse::<u32>().map_err(|_| format!("{key}={text} is no number")))
    };
    let (depth, jobs) = (number("iodepth")?, number("numjobs")?);
    if !(1..=4096).contains(&depth) || !(1..=256).contains(&jobs) {
        return Err(format!("iodepth={depth} and numjobs={jobs} are out of bounds: at most 4096 and 256"));
    }
    let bs = option("bs").or_else(|| option("blocksize")).unwrap_or("4k");
    let bytes = parse_size(bs).map_err(|_| format!("bs={bs} is not one size"))?;
    if bytes == 0 || !bytes.is_multiple_of(512) || bytes > 1 << 30 {
        return Err(format!("bs={bs} is not a multiple of 512 of at most 1GiB"));
    }
    let flows = clones.iter().map(|job| if matches!(rw, Rw::Read | Rw::RandRead) { &job.read } else { &job.write });
    let ios: u64 = flows.clone().map(|flow| flow.total_ios).sum();
    if ios == 0 {
        return Err("it did nothing".into());
    }
    let load = Load { rw, sectors: (bytes / 512) as u32, depth, jobs };
    // Deeper, a latency is the depth over the rate.
    let (clat, iops) = (flows.clone().map(|flow| flow.clat_ns.mean / 1e3).sum(), flows.map(|flow| flow.iops).sum());
    let figure = if depth * jobs == 1 && clat > 0.0 { Figure::Latency(clat) } else { Figure::Rate(iops) };
    let is_one = figure.value().is_finite() && figure.value() > 0.0;
    if is_one { Ok((load, figure)) } else { Err("it has no figure".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(text: &str) -> Result<Reading, String> {
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("shingle-fio-{}-{number}.json", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let read = read(&path);
        std::fs::remove_file(&path).unwrap();
        read
    }

    fn job(name: &str, options: &str, flow: &str) -> String {
        let none = "{\"total_ios\": 0, \"iops\": 0, \"clat_ns\": {\"mean\": 0}}";
        let (read, write) = if options.contains("write") { (none, flow) } else { (flow, none) };
        format!(
            "{{\"jobname\": \"{name}\", \"error\": 0, \"job options\": {{{options}}}, \"read\": {read}, \"write\": {write}}}"
        )
    }

    #[test]
    fn jobs_are_measurements_and_clones_of_one_are_one() {
        let alone = job(
            "a",
            "\"rw\": \"write\", \"bs\": \"4k\"",
            "{\"total_ios\": 9, \"iops\": 5, \"clat_ns\": {\"mean\": 12500.0}}",
        );
        let clone =
            job("r", "\"bs\": \"16k\", \"iodepth\": \"4\", \"numjobs\": \"2\"", "{\"total_ios\": 9, \"iops\": 100.5}");
        let mixed = job("m", "\"rw\": \"randrw\"", "{\"total_ios\": 9, \"iops\": 5}");
        let global = "\"global options\": {\"rw\": \"randread\"}";
        let text = format!("fio: a warning\n{{{global}, \"jobs\": [{alone}, {clone}, {clone}, {mixed}]}}");
        let Reading { measurements, left_out } = reading(&text).unwrap();
        let found: Vec<_> = measurements.iter().map(|one| (one.load, one.figure)).collect();
        let write = Load { rw: Rw::Write, sectors: 8, depth: 1, jobs: 1 };
        let read = Load { rw: Rw::RandRead, sectors: 32, depth: 4, jobs: 2 };
        assert_eq!(found, [(write, Figure::Latency(12.5)), (read, Figure::Rate(201.0))]);
        assert!(measurements[0].name.ends_with(".json: a") && left_out.len() == 1);
        assert!(left_out[0].reason.contains("rw=randrw"), "{left_out:?}");
    }

    #[test]
    fn files_that_fio_did_not_write_are_errors_that_name_them() {
        for text in ["", "no result", "{}", "{\"jobs\": 5}"] {
            let error = reading(text).unwrap_err().to_string();
            assert!(error.contains("shingle-fio-") && error.contains("--output-format=json"), "{error}");
        }
        let bad = job("x", "\"rw\": \"write\", \"iodepth\": \"0\"", "{\"total_ios\": 9, \"iops\": 5}");
        let reading = reading(&format!("{{\"jobs\": [{bad}]}}")).unwrap();
        assert!(reading.measurements.is_empty() && reading.left_out[0].reason.contains("iodepth=0"));
    }
}
