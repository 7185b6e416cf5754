//! The columns of `list` and `report`, with the names, headings and widths of dmstats'.

use clap::Args;
use serde_json::Value;

use super::super::columns::{Field, Layout, column, number, parse_fields};
use super::CliError;
use super::units::{size, time};

/// How a table is laid out.
#[derive(Args)]
pub struct LayoutArgs {
    /// With histograms
    #[arg(long)]
    pub histogram: bool,
    /// The columns, with commas between them; `+` in front adds them to the usual ones
    #[arg(short = 'o', long = "options", value_name = "FIELDS", conflicts_with = "json")]
    fields: Option<String>,
    /// Without the first line
    #[arg(long, conflicts_with = "json")]
    noheadings: bool,
    /// What stands between columns, which are not aligned then
    #[arg(long, conflicts_with = "json")]
    separator: Option<String>,
}

impl LayoutArgs {
    /// The layout of `list`.
    pub fn of_regions(&self) -> Result<Layout<Value>, CliError> {
        self.layout(if self.histogram { "bins,bounds" } else { "program_id" }, OF_REGION)
    }

    /// The layout of `report`.
    pub fn of_areas(&self, raw: bool) -> Result<Layout<Value>, CliError> {
        match (self.histogram, raw) {
            (true, _) => self.layout("util,await,hist_count_bounds", OF_REGION),
            (false, true) => self.layout(RAW, OF_AREA),
            (false, false) => self.layout(RATES, OF_AREA),
        }
    }

    fn layout(&self, what: &str, whose: &str) -> Result<Layout<Value>, CliError> {
        let usual = format!("{whose},{what}");
        let fields = parse_fields(&FIELDS, &usual, self.fields.as_deref()).map_err(CliError::Usage)?;
        Ok(Layout { fields, headings: !self.noheadings, separator: self.separator.clone() })
    }
}

const OF_REGION: &str = "name,group_id,region_id,obj_type,region_start,region_len,area_count,area_len";
const OF_AREA: &str = "name,group_id,region_id,obj_type,area_id,area_start,area_len";
const RATES: &str = "reads_merged_per_sec,writes_merged_per_sec,reads_per_sec,writes_per_sec,read_size_per_sec,\
                     write_size_per_sec,avg_request_size,queue_size,util,await,read_await,write_await";
const RAW: &str = "read_count,reads_merged_count,read_sector_count,read_time,read_ticks,write_count,writes_merged_count,\
                   write_sector_count,write_time,write_ticks,in_progress_count,io_ticks,queue_ticks";

/// Rows are what `Region::to_json` makes; those of a report have `object`, `area`, `area_start`, `counters` and `rates`.
static FIELDS: [Field<Value>; 41] = [
    column("name", "Name", 16, |row| text(row, "device").into()),
    number("group_id", "GrpID", 5, |_| "-".into()),
    number("region_id", "RgID", 4, |row| row["region"].to_string()),
    column("obj_type", "ObjType", 7, |row| row["object"].as_str().unwrap_or("region").into()),
    number("region_start", "RgStart", 7, |row| sectors(&row["start"])),
    number("region_len", "RgSize", 6, |row| sectors(&row["length"])),
    number("area_count", "#Areas", 6, |row| row["areas"].to_string()),
    number("area_id", "ArID", 4, |row| row["area"].to_string()),
    number("area_start", "ArStart", 7, |row| sectors(&row["area_start"])),
    number("area_len", "ArSize", 6, |row| sectors(&row["area_length"])),
    column("program_id", "ProgID", 6, |row| text(row, "program").into()),
    column("user_data", "UserData", 8, |row| text(row, "aux").into()),
    number("precise", "Precise", 7, |row| u8::from(row["precise"] == true).to_string()),
    column("bins", "#Bins", 9, |row| match list(row, "histogram_ns").len() {
        0 => "0".into(),
        bounds => (bounds + 1).to_string(),
    }),
    column("bounds", "Histogram Bounds", 16, |row| bounds(row).join(",")),
    number("reads_merged_per_sec", "RMrg/s", 6, |row| rate(row, "reads_merged_per_second")),
    number("writes_merged_per_sec", "WMrg/s", 6, |row| rate(row, "writes_merged_per_second")),
    number("reads_per_sec", "R/s", 4, |row| rate(row, "reads_per_second")),
    number("writes_per_sec", "W/s", 4, |row| rate(row, "writes_per_second")),
    number("read_size_per_sec", "RSz/s", 5, |row| bytes(row, "read_bytes_per_second")),
    number("write_size_per_sec", "WSz/s", 5, |row| bytes(row, "written_bytes_per_second")),
    number("avg_request_size", "AvgRqSz", 7, |row| bytes(row, "mean_bytes")),
    number("queue_size", "QSize", 5, |row| rate(row, "queue")),
    number("util", "Util%", 5, |row| rate(row, "busy_percent")),
    number("await", "AWait", 5, |row| rate(row, "mean_ms")),
    number("read_await", "RdAWait", 7, |row| rate(row, "mean_read_ms")),
    number("write_await", "WrAWait", 7, |row| rate(row, "mean_write_ms")),
    column("hist_count_bounds", "Histogram Counts", 16, counts),
    number("read_count", "#Reads", 6, |row| counter(row, "reads")),
    number("reads_merged_count", "#RdMrgs", 7, |row| counter(row, "reads_merged")),
    number("read_sector_count", "#RdSectors", 10, |row| counter(row, "read_sectors")),
    number("read_time", "AccRdTime", 11, |row| counter(row, "read_time_ns")),
    number("read_ticks", "RdTicks", 7, |row| counter(row, "read_ticks_ns")),
    number("write_count", "#Writes", 7, |row| counter(row, "writes")),
    number("writes_merged_count", "#WrMrgs", 7, |row| counter(row, "writes_merged")),
    number("write_sector_count", "#WrSectors", 10, |row| counter(row, "written_sectors")),
    number("write_time", "AccWrTime", 11, |row| counter(row, "write_time_ns")),
    number("write_ticks", "WrTicks", 7, |row| counter(row, "write_ticks_ns")),
    number("in_progress_count", "#InProg", 7, |row| counter(row, "in_flight")),
    number("io_ticks", "IoTicks", 7, |row| counter(row, "io_ticks_ns")),
    number("queue_ticks", "QueueTicks", 10, |row| counter(row, "queue_ticks_ns")),
];

fn text<'a>(row: &'a Value, key: &str) -> &'a str {
    row[key].as_str().unwrap_or_default()
}

fn list<'a>(row: &'a Value, key: &str) -> &'a [Value] {
    row[key].as_array().map_or(&[], Vec::as_slice)
}

fn sectors(value: &Value) -> String {
    size(value.as_u64().unwrap_or(0) as f64 * 512.0)
}

fn rate(row: &Value, key: &str) -> String {
    format!("{:.2}", row["rates"][key].as_f64().unwrap_or(0.0))
}

fn bytes(row: &Value, key: &str) -> String {
    size(row["rates"][key].as_f64().unwrap_or(0.0))
}

fn counter(row: &Value, key: &str) -> String {
    row["counters"][key].to_string()
}

/// Where each bin of the histogram begins.
fn bounds(row: &Value) -> Vec<String> {
    let bounds = list(row, "histogram_ns");
    let first = if bounds.is_empty() { None } else { Some(0) };
    first.into_iter().chain(bounds.iter().filter_map(Value::as_u64)).map(time).collect()
}

fn counts(row: &Value) -> String {
    let counts = list(&row["counters"], "histogram");
    let counts = counts.iter().map(Value::to_string);
    let bins = bounds(row).into_iter().zip(counts).map(|(bound, count)| format!("{bound:>6}:{count:>6}"));
    bins.collect::<Vec<_>>().join(",")
}
