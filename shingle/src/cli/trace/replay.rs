//! `shingle trace replay`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};
use serde_json::{Value, json};
use shingle_core::plug::WritePolicy;
use shingle_sim::workload::replay::{Pace, PlayerOptions};

use super::show::{find_device, load, nanos};
use crate::cli::bench::works::{drive_spec, names, on_shard};
use crate::cli::{CliError, interrupt, output, words};
use shingle_host::config::{Plan, format_bytes};
use shingle_host::trace::{Recording, Summary, work_of};
use shingle_lab::bench::format_rate;
use shingle_lab::replay::{Replayed, Script, Watch, perform, simulate};

/// Do again what a recording says, on a simulated drive or on a real stack
///
/// Writes are filled with a pattern: a recording does not say what was written. Zones are replayed where the write
/// pointers of the new device are, with a reset where a write would not fit; docs/trace-format.md has the rules.
#[derive(Args)]
#[command(group = ArgGroup::new("where").required(true).args(["profile", "stack"]), after_help = "\
Examples:
  shingle trace replay seq.trace --profile smr-30tb --policy qd1
  shingle trace replay seq.trace --profile smr-30tb --policy elevator --speed max --depth 128
  shingle trace replay seq.trace --stack lab.toml --device seq --write

Exit codes: 0 everything was done, 1 something failed, 2 wrong command line.")]
pub struct ReplayArgs {
    /// The recording
    file: PathBuf,
    /// The recorded device; may be left out if there is one
    #[arg(long, value_name = "DEVICE")]
    from: Option<String>,
    /// Replay in virtual time on a simulated drive: null, the name of a profile, or the path of one
    #[arg(long, value_name = "NAME|PATH", value_parser = words::profile())]
    profile: Option<String>,
    /// How writes to the zones of the simulated drive are ordered; as Linux does it if left out
    #[arg(long, requires = "profile", value_parser = words::policy())]
    policy: Option<WritePolicy>,
    /// Parameters of --profile null, as in a stack file: size=8GiB,zone-size=64MiB,completion=20us
    #[arg(long, value_name = "KEY=VALUE,...", requires = "profile")]
    null: Vec<String>,
    /// Replay on the real stack of this file, which no daemon may have open
    #[arg(long, value_name = "FILE", requires = "device")]
    stack: Option<PathBuf>,
    /// Device of that stack
    #[arg(long, requires = "stack", conflicts_with = "profile")]
    device: Option<String>,
    /// Allow the replay to write to it: what is there is destroyed
    #[arg(long, requires = "stack", conflicts_with = "profile")]
    write: bool,
    /// When bios are sent: at their times, or as fast as the depth allows
    #[arg(long, value_enum, default_value = "as-recorded")]
    speed: Speed,
    /// Most bios in flight; without it, no bound as recorded, and at --speed max as many as were in flight at once
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    depth: Option<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Speed {
    AsRecorded,
    Max,
}

/// Runs the command.
pub fn run(args: &ReplayArgs) -> Result<(), CliError> {
    let recording = load(&args.file)?;
    let from = source(&recording, args.from.as_deref())?;
    let asked = work_of(&recording, from);
    let before = Summary::new(&recording.devices[usize::from(from)], &asked);
    if asked.is_empty() {
        let name = &recording.devices[usize::from(from)].name;
        return Err(CliError::Failed(format!("nothing was asked of `{name}` while it was recorded")));
    }
    let options = PlayerOptions {
        pace: if args.speed == Speed::Max { Pace::Max } else { Pace::AsRecorded },
        depth: match (args.depth, args.speed) {
            (Some(depth), _) => depth,
            (None, Speed::Max) => before.most_in_flight.max(1),
            (None, Speed::AsRecorded) => u32::MAX,
        },
    };
    let script = Script::new(&recording, from, &asked);
    let (replayed, mut about) = match &args.stack {
        Some(stack) => on_stack(args, stack, script, options)?,
        None => on_drive(args, script, options)?,
    };
    about["from"] = json!(recording.devices[usize::from(from)].name);
    about["speed"] = json!(if args.speed == Speed::Max { "max" } else { "as-recorded" });
    about["depth"] = if options.depth == u32::MAX { Value::Null } else { json!(options.depth) };
    if args.json {
        (about["recorded"], about["replayed"]) = (before.to_json(), replayed.to_json());
        output::print_json(&about)?;
    } else {
        output::print(&text(&about, &before, &replayed))?;
    }
    match &replayed.first_failure {
        None => Ok(()),
        Some((work, status)) => Err(CliError::Failed(format!(
            "{} bios failed; the first was {} at sector {} of the recording: {status}",
            replayed.errors(),
            work.op.name(),
            work.sector
        ))),
    }
}

/// The recorded device to replay.
fn source(recording: &Recording, wanted: Option<&str>) -> Result<u16, CliError> {
    if let Some(name) = wanted {
        return find_device(recording, name);
    }
    let recorded: Vec<usize> = (0..recording.devices.len()).filter(|n| recording.devices[*n].recorded).collect();
    match recorded.as_slice() {
        [one] => Ok(*one as u16),
        many => {
            let names: Vec<&str> = many.iter().map(|place| recording.devices[*place].name.as_str()).collect();
            Err(CliError::Usage(format!("say which device of the recording with --from: {}", names.join(", "))))
        }
    }
}

/// Runs a replay under a bar, until it ends or Ctrl-C does.
fn watched(replay: impl FnOnce(Watch<'_>) -> Result<Replayed, String>) -> Result<Replayed, CliError> {
    let stop = interrupt::catch()?;
    let replayed = output::with_bar("replaying {bar:40} {pos}/{len} bios ({eta} left)", |progress| {
        replay(Watch { stop: &stop, progress: &mut |done, all| progress(done as u64, all as u64) })
    });
    replayed.map_err(CliError::Usage)
}

fn on_drive(args: &ReplayArgs, script: Script, options: PlayerOptions) -> Result<(Replayed, Value), CliError> {
    let profile = args.profile.as_deref().unwrap_or("null");
    let drive = drive_spec(profile, &args.null)?.build(args.policy, false).map_err(CliError::Usage)?;
    let about = json!({"clock": "virtual", "profile": profile, "policy": drive.policy.map(WritePolicy::name)});
    Ok((watched(|watch| simulate(script, drive, options, watch))?, about))
}

fn on_stack(
    args: &ReplayArgs,
    path: &PathBuf,
    script: Script,
    options: PlayerOptions,
) -> Result<(Replayed, Value), CliError> {
    let name = args.device.as_deref().unwrap_or_default();
    if script.writes() && !args.write {
        return Err(CliError::Usage(format!(
            "the recording writes: replayed on `{name}` of {} it destroys what is there; say --write if you want that, or \
             use --profile",
            path.display()
        )));
    }
    let plan = Plan::load(path)?;
    let Some(number) = plan.shard_of(name) else {
        let names = names(&plan).join(", ");
        return Err(CliError::Usage(format!("{} has no device `{name}`: it has {names}", path.display())));
    };
    let replayed = on_shard(&plan, number, |host| {
        let found = host.shard.devices.find(name).map(|named| named.device);
        let device = found.ok_or_else(|| CliError::failed("the device was not built"))?;
        watched(|watch| perform(script, (host, device), options, watch))
    })?;
    Ok((replayed, json!({"clock": "real", "stack": path, "device": name})))
}

fn text(about: &Value, before: &Summary, after: &Replayed) -> String {
    let word = |key: &str| about[key].as_str().unwrap_or("-").to_owned();
    let place = match about["clock"] == "virtual" {
        true => format!("simulated drive {}, policy {}, in virtual time", word("profile"), word("policy")),
        false => format!("device {} of {}", word("device"), word("stack")),
    };
    let depth = about["depth"].as_u64().map_or(String::new(), |depth| format!(", depth {depth}"));
    let seconds = |ns: u64| ns as f64 / 1e9;
    let mut text = format!(
        "{} replayed on {place}, {}{depth}\nrecorded in {:.3} s, replayed in {:.3} s\n\n",
        word("from"),
        word("speed"),
        seconds(before.span),
        seconds(after.span)
    );
    let header =
        ["operation", "bios", "size", "recorded", "p50", "p99", "max", "replayed", "p50", "p99", "max", "errors"];
    let rows = after.ops.iter().map(|(op, figures)| {
        let recorded = before.ops.get(op);
        let rate = |bytes: u64, span: u64| match op.has_range() && span > 0 {
            true => format!("{}/s", format_rate(bytes as f64 / seconds(span))),
            false => "-".into(),
        };
        let mut row = vec![op.name().to_owned(), figures.count.to_string(), format_bytes(figures.bytes)];
        row.push(recorded.map_or("-".into(), |recorded| rate(recorded.bytes, before.span)));
        row.extend(times(recorded.map(|recorded| recorded.latency())));
        row.push(rate(figures.bytes, after.span));
        row.extend(times(Some(figures.latency())));
        row.push(figures.errors.to_string());
        row
    });
    text += &output::table(&header, &(1..12).collect::<Vec<_>>(), rows);
    let notes = [
        (after.skipped, "bio", "left out: zone reports, and what the device cannot do"),
        (after.pending, "bio", "without an end: the replay was stopped"),
        (after.moved_zones.into(), "zone", "replayed under another number"),
        (after.added_resets, "reset", "added where writes did not fit behind the write pointer"),
        (after.rounded, "bio", "made longer, as the device has larger blocks"),
    ];
    let notes = notes.iter().filter(|(count, ..)| *count > 0);
    let notes: Vec<String> =
        notes.map(|(count, thing, what)| format!("{} {what}\n", output::counted(*count as usize, thing))).collect();
    if !notes.is_empty() {
        text += "\n";
        text += &notes.concat();
    }
    if after.latest > 0 && word("speed") == "as-recorded" {
        text += &format!("the latest bio was sent {} after its time\n", nanos(after.latest));
    }
    text
}

fn times(latency: Option<shingle_host::latency::Summary>) -> [String; 3] {
    let Some(latency) = latency.filter(|latency| latency.count > 0) else { return ["-", "-", "-"].map(str::to_owned) };
    let percentile = |at: usize| latency.percentiles.get(at).map_or("-".into(), |(_, ns)| nanos(*ns));
    [percentile(0), percentile(2), nanos(latency.max)]
}
