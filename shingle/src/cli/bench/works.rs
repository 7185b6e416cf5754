//! Who runs which jobs: a thread for each stack, with all rounds of its jobs one after the other.

use std::path::Path;
use std::sync::Arc;

use shingle_core::block::DeviceId;
use shingle_core::device::NullConfig;
use shingle_core::plug::WritePolicy;

use super::BenchArgs;
use crate::cli::CliError;
use shingle_host::backend::null_from_words;
use shingle_host::config::{Plan, build_shard, format_bytes};
use shingle_host::profile::Model;
use shingle_host::shard::Shard;
use shingle_lab::bench::{
    Bare, BuiltinStack, Drive, DriveSpec, Group, Host, JobOptions, Load, MOST_KEPT, Outcome, Progress, Sharded,
    Simulated, ZoneMode,
};

/// Groups of equal jobs that run together. Rounds come one after the other.
pub type Round = Vec<Arc<JobOptions>>;

/// The rounds of jobs: a new one begins where a job has `stonewall`.
pub fn rounds(jobs: &[JobOptions]) -> Result<Vec<Round>, String> {
    let mut rounds: Vec<Round> = Vec::new();
    for job in jobs {
        job.check()?;
        match rounds.last_mut() {
            Some(round) if !job.stonewall => round.push(Arc::new(job.clone())),
            _ => rounds.push(vec![Arc::new(job.clone())]),
        }
    }
    Ok(rounds)
}

/// One thread of the run.
pub type Work = Box<dyn FnOnce(&Progress) -> Result<Vec<Outcome>, CliError> + Send>;

/// What was simulated.
pub struct Simulation {
    pub profile: String,
    pub policy: Option<WritePolicy>,
}

/// All jobs on one simulated drive, on one thread: its time is theirs.
pub fn of_profile(profile: &str, args: &BenchArgs, rounds: Vec<Round>) -> Result<(Work, Simulation), CliError> {
    no_devices(&rounds, "a simulated drive")?;
    let spec = drive_spec(profile, &args.null)?;
    if let DriveSpec::Profile(drive) = &spec
        && let Model::Null(config) = &drive.model
        && config.completion == shingle_core::time::Duration::ZERO
    {
        return Err(CliError::Usage(format!(
            "the null device of profile {profile} takes no time, and virtual time would stand still: give it a \
             `completion`, as in \"10us\""
        )));
    }
    // Built twice: here for its mistakes, and on the thread of the jobs, which it does not leave.
    let verifying = || rounds.iter().flatten().filter(|options| options.verify.is_some());
    let keep_data = verifying().next().is_some();
    let (policy, name) = (args.policy, profile.to_owned());
    let drive = spec.build(policy, keep_data).map_err(CliError::Usage)?;
    verifying().try_for_each(|options| check_kept(drive.stack.limits(drive.top).capacity * 512, options))?;
    let simulation = Simulation { profile: name.clone(), policy: drive.policy };
    let work: Work = Box::new(move |progress| {
        let Drive { stack, top, .. } = spec.build(policy, keep_data).map_err(CliError::Usage)?;
        measure(&mut Simulated::new(stack), &[(name, top)], &rounds, 0, progress)
    });
    Ok((work, simulation))
}

/// The parameters of a null device, if there are any.
fn null_config(words: &[String]) -> Result<Option<NullConfig>, CliError> {
    if words.is_empty() { Ok(None) } else { null_from_words(words).map(Some).map_err(CliError::Usage) }
}

/// The drive that a profile's name and the parameters of a null device mean.
pub fn drive_spec(profile: &str, null: &[String]) -> Result<DriveSpec, CliError> {
    let null = null_config(null)?;
    if null.is_some() && profile != "null" {
        return Err(CliError::Usage("--null is for --profile null: copy the profile's file and edit it".into()));
    }
    Ok(DriveSpec::find(profile, null)?)
}

/// A simulated drive keeps what is verified in memory, all of the region in the end.
fn check_kept(capacity: u64, options: &JobOptions) -> Result<(), CliError> {
    let region = options.size.unwrap_or(capacity.saturating_sub(options.offset));
    if region <= MOST_KEPT {
        return Ok(());
    }
    let (region, most) = (format_bytes(region), format_bytes(MOST_KEPT));
    Err(CliError::Usage(format!(
        "--verify keeps in memory what is written to a simulated drive, up to {region} here: work in {most} at most, with \
         --size and --offset"
    )))
}

fn no_devices(rounds: &[Round], what: &str) -> Result<(), CliError> {
    match rounds.iter().flatten().find(|options| !options.device.is_empty()) {
        None => Ok(()),
        Some(_) => Err(CliError::Usage(format!("--device is for stack files: {what} has one device"))),
    }
}

/// A thread and a built-in stack for each job of a round.
pub fn of_builtin(args: &BenchArgs, round: &Round, number: usize) -> Result<Vec<Work>, CliError> {
    no_devices(std::slice::from_ref(round), "a built-in stack")?;
    let null = null_config(&args.null)?;
    let mut works: Vec<Work> = Vec::new();
    for options in round {
        let zoned = options.zonemode == Some(ZoneMode::Zbd) || options.append;
        let stack = BuiltinStack::parse(&args.stack, null.clone(), zoned).map_err(CliError::Usage)?;
        for of_group in 0..options.numjobs {
            let (stack, name, first_job) = (stack.clone(), args.stack.clone(), works.len() as u32);
            let options = Arc::new(JobOptions { numjobs: 1, ..options.of_job(of_group).as_ref().clone() });
            works.push(Box::new(move |progress| {
                let (stack, device) = stack.build().map_err(CliError::Usage)?;
                let alone = [vec![options]];
                let mut outcomes = measure(&mut Bare::new(stack), &[(name, device)], &alone, first_job, progress)?;
                outcomes.iter_mut().for_each(|outcome| outcome.group = number);
                Ok(outcomes)
            }));
        }
    }
    Ok(works)
}

/// A thread for each shard of the stack file that has a device under load.
pub fn of_file(args: &BenchArgs, rounds: Vec<Round>) -> Result<Vec<Work>, CliError> {
    if !args.null.is_empty() {
        return Err(CliError::Usage("--null is for built-in stacks: write the disk into the stack file".into()));
    }
    of_plan(&Arc::new(Plan::load(Path::new(&args.stack))?), rounds)
}

/// The same of a stack file that was read.
pub fn of_plan(plan: &Arc<Plan>, mut rounds: Vec<Round>) -> Result<Vec<Work>, CliError> {
    let names = names(plan);
    for options in rounds.iter_mut().flatten().filter(|options| options.device.is_empty()) {
        if plan.disks.len() + plan.devices.len() != 1 {
            return Err(CliError::Usage(format!("say which --device: {}", names.join(", "))));
        }
        Arc::make_mut(options).device.push(plan.disks[0].name.clone());
    }
    let all: Vec<String> = rounds.iter().flatten().flat_map(|options| options.device.clone()).collect();
    if let Some(name) = all.iter().find(|name| !names.contains(&name.as_str())) {
        return Err(CliError::Usage(format!(
            "{} has no device `{name}`: it has {}",
            plan.source.path.display(),
            names.join(", ")
        )));
    }
    let used = |shard: &u32| all.iter().any(|name| plan.shard_of(name) == Some(*shard));
    let shards: Vec<u32> = (0..plan.shards).filter(used).collect();
    if shards.len() > 1 && rounds.len() > 1 {
        return Err(CliError::Usage(
            "stonewall: the jobs are on devices of several shards, and shards do not wait for each other; use a job file \
             for each"
                .into(),
        ));
    }
    let work = |shard: &u32| -> Work {
        let (plan, shard, rounds) = (plan.clone(), *shard, rounds.clone());
        Box::new(move |progress| measure_shard(&plan, shard, &rounds, progress))
    };
    Ok(shards.iter().map(work).collect())
}

fn measure_shard(plan: &Plan, number: u32, rounds: &[Round], progress: &Progress) -> Result<Vec<Outcome>, CliError> {
    on_shard(plan, number, |host| {
        let mut devices: Vec<(String, DeviceId)> = Vec::new();
        for name in rounds.iter().flatten().flat_map(|options| &options.device) {
            if let Some(found) = host.shard.devices.find(name)
                && !devices.iter().any(|(other, _)| other == name)
            {
                devices.push((name.clone(), found.device));
            }
        }
        measure(host, &devices, rounds, number * 1000, progress)
    })
}

/// Does some work on a shard of a stack file, whose disks are flushed afterwards.
pub fn on_shard<T>(
    plan: &Plan,
    number: u32,
    work: impl FnOnce(&mut Sharded) -> Result<T, CliError>,
) -> Result<T, CliError> {
    let mut shard = Shard::new().map_err(CliError::failed)?;
    build_shard(plan, number, &mut shard)?;
    let mut host = Sharded::new(shard);
    let done = work(&mut host);
    host.shard.stop();
    let flushed = host.shard.run();
    let done = done?;
    flushed.map_err(CliError::failed)?;
    Ok(done)
}

/// The names that a stack file has for what can be under load.
pub fn names(plan: &Plan) -> Vec<&str> {
    plan.devices.iter().map(|device| &*device.name).chain(plan.disks.iter().map(|disk| &*disk.name)).collect()
}

/// Runs the rounds on `devices`: each job on those of them that it names, or on all if it names none.
fn measure(
    host: &mut impl Host,
    devices: &[(String, DeviceId)],
    rounds: &[Round],
    first_job: u32,
    progress: &Progress,
) -> Result<Vec<Outcome>, CliError> {
    let mut outcomes = Vec::new();
    for (number, round) in rounds.iter().enumerate() {
        let named = |options: &JobOptions| -> Vec<DeviceId> {
            let meant = |name: &String| options.device.is_empty() || options.device.contains(name);
            devices.iter().filter(|(name, _)| meant(name)).map(|(_, id)| *id).collect()
        };
        let groups: Vec<Group> =
            round.iter().map(|options| Group { options: options.clone(), devices: named(options) }).collect();
        let jobs = Load::of_groups(host, &groups, first_job).and_then(|load| load.run(host, progress));
        let places = groups.iter().flat_map(|group| {
            let each = group.devices.iter().flat_map(|id| std::iter::repeat_n(*id, group.options.numjobs as usize));
            each.map(|id| devices.iter().find(|(_, other)| *other == id).map_or("", |(name, _)| name))
        });
        outcomes.extend(
            jobs.map_err(CliError::Usage)?
                .into_iter()
                .zip(places)
                .map(|(job, device)| Outcome { group: number, ..Outcome::new(job, device.to_owned()) }),
        );
    }
    Ok(outcomes)
}
