//! `shingle sim --digest`: one hash of the traces of many seeds. Two builds with the same hash do the same in all of them.

use serde_json::json;
use shingle_core::random::Rng;
use shingle_sim::swarm::{Profile, SwarmOptions};

use super::{SimArgs, scenario, sweep, told};
use crate::cli::{CliError, output};

/// Seeds of each profile.
const SEEDS: std::ops::Range<u64> = 0..100;
/// Power cuts of a volume of which one is examined. All of them would take longer than a minute.
const ONE_CUT_OF: u64 = 16;

/// Runs the command.
pub(super) fn run(args: &SimArgs) -> Result<(), CliError> {
    let seeds = args.seeds.clone().unwrap_or(SEEDS);
    if seeds.end == u64::MAX {
        return Err(CliError::Usage("--digest takes seeds with an end, as in --seeds 0..100".into()));
    }
    let profiles = args.profile.map_or(Profile::ALL.to_vec(), |profile| vec![profile]);
    let (mut whole, mut rows, mut failures) = (0, Vec::new(), String::new());
    for profile in profiles {
        let one_cut_of = profile.has_branches().then_some(args.one_cut_of.unwrap_or(ONE_CUT_OF));
        let options = SwarmOptions { profile, ops: args.ops, one_cut_of, ..SwarmOptions::default() };
        let tally = sweep(&seeds, None, &options, args.jobs.unwrap_or(1));
        failures += &told(&tally, |failure| scenario::keep(failure, &options, &scenario::folder(args)));
        whole = Rng::new(whole ^ tally.digest).draw();
        rows.push((profile.name(), tally));
    }
    if args.json {
        let of = |(name, tally): &(&str, super::Tally)| json!({ "profile": name, "seeds": tally.seeds, "digest": hex(tally.digest) });
        let profiles: Vec<_> = rows.iter().map(of).collect();
        output::print_json(
            &json!({ "digest": hex(whole), "first": seeds.start, "end": seeds.end, "profiles": profiles }),
        )?;
    } else {
        let row =
            |(name, tally): (&str, super::Tally)| vec![name.to_owned(), tally.seeds.to_string(), hex(tally.digest)];
        let table = output::table(&["PROFILE", "SEEDS", "DIGEST"], &[1], rows.into_iter().map(row));
        output::print(&format!("{table}{}\n", hex(whole)))?;
    }
    output::remark(&failures);
    if failures.is_empty() { Ok(()) } else { Err(CliError::Silent) }
}

fn hex(digest: u64) -> String {
    format!("{digest:016x}")
}
