//! The search for parameters: Levenberg's and Marquardt's method on the logarithms of parameters and figures, so that a
//! factor is a factor whatever is measured.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use super::document::{Document, Kind};
use super::load::{Drive, Figure, Load};
use shingle_host::profile::Model;

/// What a real drive did under a load.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// Where it comes from.
    pub name: String,
    /// The load.
    pub load: Load,
    /// What was measured.
    pub figure: Figure,
}

/// A number of a profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Its table.
    pub table: String,
    /// Its key.
    pub key: String,
    /// Its value; of times in us.
    pub value: f64,
    pub(super) kind: Kind,
}

impl Parameter {
    /// Its name, as in `front.completion`.
    pub fn name(&self) -> String {
        format!("{}.{}", self.table, self.key)
    }

    /// Its unit, if it is a time.
    pub fn unit(&self) -> &'static str {
        if self.kind == Kind::Time { "us" } else { "" }
    }
}

/// What came out.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The parameters that the measurements determine.
    pub parameters: Vec<Fitted>,
    /// Parameters that matter to no measurement, or to fewer than there are parameters.
    pub undetermined: Vec<Parameter>,
    /// What the drive does, for each measurement.
    pub residuals: Vec<Residual>,
}

/// A parameter that measurements determine.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// As it was.
    pub before: Parameter,
    /// As it is.
    pub after: Parameter,
    /// The measurement that it matters most to.
    pub by: String,
}

/// A measurement, and what the drive does instead.
#[derive(Clone, Debug)]
pub struct Residual {
    /// The measurement.
    pub measurement: Measurement,
    /// Whether it was held out, to see what the fit is worth: nothing was fitted to it.
    pub held_out: bool,
    /// What the drive did before the fit.
    pub before: f64,
    /// What it does after it.
    pub after: f64,
}

/// Error of fitting a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FitError {
    /// There are too few measurements: so many.
    TooFew(usize),
    /// A load cannot be put on the drive: its name.
    Load(String, String),
    /// No parameter matters.
    Nothing,
}

shingle_core::impl_error!(FitError, |self, f| match self {
    Self::TooFew(found) => write!(
        f,
        "{found} measurements can be used, and {FEWEST} are needed: measure reads, writes and random reads, each with 1 and \
         with many I/Os in flight"
    ),
    Self::Load(name, error) => write!(f, "{name} cannot be run on the drive of the profile: {error}"),
    Self::Nothing => f.write_str(
        "no parameter of the profile matters to these measurements: begin with the profile of a drive of the same kind",
    ),
});

/// Fewest measurements.
const FEWEST: usize = 3;
/// A parameter matters to a figure if that changes by this share of the parameter's own change.
const MATTERS: f64 = 0.05;
/// How far parameters are moved to see what they do.
const NUDGE: f64 = 1.1;
/// What it costs to leave the value that a parameter had: where measurements do not tell apart, it stays near.
const STAY: f64 = 1e-3;
/// What a step has to gain for another to follow.
const ENOUGH: f64 = 1e-5;
/// Most steps, and most tries of a step.
const STEPS: usize = 10;
const TRIES: usize = 5;

/// Fits the parameters of `document` to `measurements`, of which every `hold_out`-th is held out; 0: none. `progress` is told how
/// many runs of all loads are done, and how many there can be.
///
/// # Errors
/// If there are too few, or one cannot be run, or nothing can be learnt from them.
pub fn fit(
    document: &Document,
    measurements: &[Measurement],
    hold_out: usize,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Fit, FitError> {
    let is_held = |place: usize| hold_out > 0 && place % hold_out == hold_out - 1;
    let (held, fitted): (Vec<_>, Vec<_>) = measurements.iter().enumerate().partition(|(place, _)| is_held(*place));
    let [held, fitted] =
        [held, fitted].map(|all| all.into_iter().map(|(_, one)| one.clone()).collect::<Vec<Measurement>>());
    if fitted.len() < FEWEST {
        return Err(FitError::TooFew(fitted.len()));
    }
    let all = document.parameters();
    let mut search = Search { document, fitted: &fitted, runs: 0, most: 1 + all.len(), progress };
    let base = search.run(&all)?;
    let (chosen, undetermined) = search.choose(all, &base);
    if chosen.is_empty() {
        return Err(FitError::Nothing);
    }
    search.most = search.runs + STEPS * (chosen.len() + TRIES);
    let before: Vec<Parameter> = chosen.iter().map(|(parameter, _)| parameter.clone()).collect();
    let after = search.descend(&before, base)?;
    let parameters = chosen.into_iter().zip(&after).map(|((before, by), after)| {
        let by = fitted[by].name.clone();
        Fitted { before, after: after.clone(), by }
    });
    let parameters = parameters.collect();
    let mut residuals = Vec::new();
    for (held_out, of_role) in [(false, &fitted), (true, &held)] {
        let (was, is) = (figures(document, &before, of_role)?, figures(document, &after, of_role)?);
        let rows = of_role.iter().zip(was).zip(is);
        residuals.extend(rows.map(|((measurement, before), after)| {
            let measurement = measurement.clone();
            Residual { measurement, held_out, before, after }
        }));
    }
    Ok(Fit { parameters, undetermined, residuals })
}

struct Search<'a> {
    document: &'a Document,
    fitted: &'a [Measurement],
    runs: usize,
    most: usize,
    progress: &'a mut dyn FnMut(u64, u64),
}

impl Search<'_> {
    /// The logarithm of what the drive does over what was measured, for each measurement.
    fn run(&mut self, parameters: &[Parameter]) -> Result<Vec<f64>, FitError> {
        self.runs += 1;
        (self.progress)(self.runs.min(self.most) as u64, self.most as u64);
        let figures = figures(self.document, parameters, self.fitted)?;
        Ok(figures.iter().zip(self.fitted).map(|(ours, measured)| (ours / measured.figure.value()).ln()).collect())
    }

    /// How each measurement follows a parameter: the change of its logarithm for a change of the parameter's.
    fn slope(&mut self, parameters: &[Parameter], place: usize, base: &[f64]) -> Vec<f64> {
        let mut nudged = parameters.to_vec();
        nudged[place].value *= NUDGE;
        // A value that the profile does not allow tells nothing.
        let Ok(moved) = self.run(&nudged) else { return vec![0.0; base.len()] };
        moved.iter().zip(base).map(|(moved, base)| (moved - base) / NUDGE.ln()).collect()
    }

    /// The parameters that matter, each with the measurement that it matters most to, and the others. No more than there are
    /// measurements are fitted: those that matter most.
    fn choose(&mut self, all: Vec<Parameter>, base: &[f64]) -> (Vec<(Parameter, usize)>, Vec<Parameter>) {
        let slopes: Vec<Vec<f64>> = (0..all.len()).map(|place| self.slope(&all, place, base)).collect();
        let strongest = |slopes: &Vec<f64>| {
            let strengths = slopes.iter().map(|slope| slope.abs()).enumerate();
            strengths.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((0, 0.0))
        };
        let mut rated: Vec<(Parameter, usize, f64)> = all
            .into_iter()
            .zip(&slopes)
            .map(|(parameter, slopes)| {
                let (place, strength) = strongest(slopes);
                (parameter, place, strength)
            })
            .collect();
        rated.sort_by(|a, b| b.2.total_cmp(&a.2));
        let count = rated.iter().take_while(|(.., strength)| *strength >= MATTERS).count().min(self.fitted.len());
        let rest = rated.split_off(count);
        let chosen = rated.into_iter().map(|(parameter, place, _)| (parameter, place)).collect();
        (chosen, rest.into_iter().map(|(parameter, ..)| parameter).collect())
    }

    /// Goes down from `before` until it does not get better.
    fn descend(&mut self, before: &[Parameter], base: Vec<f64>) -> Result<Vec<Parameter>, FitError> {
        let (mut now, mut residuals, mut damping) = (before.to_vec(), base, 1e-2);
        for _ in 0..STEPS {
            let slopes: Vec<Vec<f64>> = (0..now.len()).map(|place| self.slope(&now, place, &residuals)).collect();
            let old = Loss { residuals: &residuals, away: &away(before, &now) };
            let better = (0..TRIES).find_map(|_| {
                let step = step(&slopes, &old, damping)?;
                let tried = moved(&now, &step);
                let found = self.run(&tried).ok().map(|found| {
                    let new = Loss { residuals: &found, away: &away(before, &tried) }.value();
                    (new, found)
                });
                let better = found.filter(|(new, _)| *new < old.value());
                damping = if better.is_some() { damping / 4.0 } else { damping * 8.0 };
                better.map(|(new, found)| (tried, found, old.value() - new))
            });
            let Some((tried, found, gained)) = better else { break };
            (now, residuals) = (tried, found);
            if gained < ENOUGH {
                break;
            }
        }
        Ok(now)
    }
}

/// What the drive with these parameters does, for each measurement. The loads run side by side, each on a drive of its own.
fn figures(document: &Document, parameters: &[Parameter], of: &[Measurement]) -> Result<Vec<f64>, FitError> {
    let impossible = || FitError::Load("a load".into(), "the values that were tried make no drive".into());
    let model = document.with(parameters).ok_or_else(impossible)?;
    let next = AtomicUsize::new(0);
    let work = || -> Vec<(usize, Result<f64, FitError>)> {
        let take = || Some(next.fetch_add(1, Relaxed)).filter(|place| *place < of.len());
        std::iter::from_fn(take).map(|place| (place, figure(&model, &of[place]))).collect()
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(of.len().max(1));
    let mut all: Vec<(usize, Result<f64, FitError>)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect()
    });
    all.sort_by_key(|(place, _)| *place);
    all.into_iter().map(|(_, figure)| figure).collect()
}

fn figure(model: &Model, Measurement { name, load, figure }: &Measurement) -> Result<f64, FitError> {
    let measured = Drive::new(model, *load).and_then(|mut drive| drive.measure(*load, *figure));
    measured.map_err(|error| FitError::Load(name.clone(), error))
}

/// How far parameters are from where they began, as logarithms.
fn away(before: &[Parameter], now: &[Parameter]) -> Vec<f64> {
    now.iter().zip(before).map(|(now, before)| (now.value / before.value).ln()).collect()
}

/// Parameters after a step, which at most halves or doubles each.
fn moved(now: &[Parameter], step: &[f64]) -> Vec<Parameter> {
    let most = 2_f64.ln();
    let values = now.iter().zip(step);
    values.map(|(now, step)| Parameter { value: now.value * step.clamp(-most, most).exp(), ..now.clone() }).collect()
}

/// What is to become small.
struct Loss<'a> {
    residuals: &'a [f64],
    away: &'a [f64],
}

impl Loss<'_> {
    fn value(&self) -> f64 {
        let squares = |values: &[f64]| values.iter().map(|value| value * value).sum::<f64>();
        squares(self.residuals) + STAY * squares(self.away)
    }
}

/// The step of Levenberg and Marquardt; `slopes` has for each parameter those of all measurements.
fn step(slopes: &[Vec<f64>], loss: &Loss<'_>, damping: f64) -> Option<Vec<f64>> {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let rows = slopes.iter().enumerate().map(|(place, row)| {
        let mut equation: Vec<f64> = slopes.iter().map(|other| dot(row, other)).collect();
        equation[place] = equation[place] * (1.0 + damping) + STAY;
        equation.push(-dot(row, loss.residuals) - STAY * loss.away[place]);
        equation
    });
    solve(rows.collect())
}

/// Solves linear equations by elimination, the right side last in each row; `None` if they do not determine anything.
fn solve(mut rows: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let count = rows.len();
    for column in 0..count {
        let pivot = (column..count).max_by(|a, b| rows[*a][column].abs().total_cmp(&rows[*b][column].abs()))?;
        rows.swap(column, pivot);
        let head = rows[column].clone();
        if head[column].abs() < 1e-12 {
            return None;
        }
        for row in rows.iter_mut().skip(column + 1) {
            let factor = row[column] / head[column];
            row.iter_mut().zip(&head).for_each(|(value, head)| *value -= factor * head);
        }
    }
    let mut solution = vec![0.0; count];
    for (place, row) in rows.iter().enumerate().rev() {
        let known: f64 = (place + 1..count).map(|other| row[other] * solution[other]).sum();
        solution[place] = (row[count] - known) / row[place];
    }
    Some(solution)
}

#[cfg(test)]
mod tests {
    use super::super::Rw;
    use super::*;
    use shingle_host::config::Source;

    fn document(name: &str) -> Document {
        let text = match name {
            "zns" => include_str!("../../../host/profiles/zns-1tb-4k.toml"),
            _ => include_str!("../../../host/profiles/smr-26tb.toml"),
        };
        Document::new(Source { path: name.into(), text: text.into() }).unwrap()
    }

    fn load(rw: Rw, kib: u32, depth: u32, jobs: u32) -> Load {
        Load { rw, sectors: kib * 2, depth, jobs }
    }

    /// What the drive of `document` does under these loads.
    fn measured(document: &Document, loads: &[Load]) -> Vec<Measurement> {
        let model = document.with(&[]).unwrap();
        let measure = |load: &Load| {
            let ours = |figure| Drive::new(&model, *load).unwrap().measure(*load, figure).unwrap();
            let alone = load.depth * load.jobs == 1;
            let figure =
                if alone { Figure::Latency(ours(Figure::Latency(0.0))) } else { Figure::Rate(ours(Figure::Rate(0.0))) };
            Measurement { name: format!("{load:?}"), load: *load, figure }
        };
        loads.iter().map(measure).collect()
    }

    fn changed(document: &Document, changes: &[(&str, f64)]) -> Document {
        let mut changed = document.clone();
        for parameter in document.parameters() {
            if let Some((_, factor)) = changes.iter().find(|(name, _)| *name == parameter.name()) {
                changed.set(&Parameter { value: parameter.value * factor, ..parameter }, None);
            }
        }
        changed
    }

    #[test]
    fn what_a_drive_was_made_of_is_found_again_from_what_it_did() {
        let real = document("zns");
        let base = changed(&real, &[("front.write-command", 1.5), ("front.completion", 0.6), ("flash.read", 1.4)]);
        let loads = [
            load(Rw::Write, 4, 1, 1),
            load(Rw::Write, 4, 1, 4),
            load(Rw::RandRead, 4, 1, 1),
            load(Rw::RandRead, 16, 1, 1),
            load(Rw::RandRead, 4, 8, 1),
        ];
        let found = fit(&base, &measured(&real, &loads), 5, &mut |_, _| ()).unwrap();
        let before = real.parameters();
        for name in ["front.write-command", "front.completion", "flash.read"] {
            let right = before.iter().find(|parameter| parameter.name() == name).unwrap().value;
            let after = &found.parameters.iter().find(|fitted| fitted.after.name() == name).unwrap().after;
            assert!((after.value / right - 1.0).abs() < 0.1, "{name} is {} instead of {right}", after.value);
        }
        for Residual { measurement, held_out, before: was, after: is } in &found.residuals {
            let off = |value: f64| (value / measurement.figure.value() - 1.0).abs();
            assert!(off(*is) < 0.03 && off(*is) <= off(*was) + 0.01, "{held_out} {}: {was} {is}", measurement.name);
        }
        assert!(found.undetermined.iter().any(|parameter| parameter.name() == "manage.erase"));
    }

    #[test]
    fn too_few_measurements_and_loads_that_do_not_fit_are_errors_that_name_them() {
        let zns = document("zns");
        let two = measured(&zns, &[load(Rw::Write, 4, 1, 1), load(Rw::RandRead, 4, 1, 1)]);
        assert_eq!(fit(&zns, &two, 0, &mut |_, _| ()).unwrap_err(), FitError::TooFew(2));
        let mut three = two.clone();
        three.push(Measurement {
            name: "huge".into(),
            load: load(Rw::Write, 1 << 20, 1, 1),
            figure: Figure::Rate(1.0),
        });
        let error = fit(&zns, &three, 0, &mut |_, _| ()).unwrap_err().to_string();
        assert!(error.starts_with("huge cannot be run on the drive of the profile: I/Os of"), "{error}");
    }

    #[test]
    fn equations_are_solved_and_those_that_say_nothing_are_not() {
        let solved = solve(vec![vec![0.0, 2.0, 4.0], vec![1.0, 1.0, 5.0]]).unwrap();
        assert!((solved[0] - 3.0).abs() < 1e-9 && (solved[1] - 2.0).abs() < 1e-9);
        assert_eq!(solve(vec![vec![1.0, 1.0, 1.0], vec![2.0, 2.0, 2.0]]), None);
    }
}
