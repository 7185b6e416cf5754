//! What an operator can tell a head in words.

use super::head::Head;
use super::policy::{PolicyKind, PolicyOptions};
use crate::block::{AnaState, Cx, MessageError};
use crate::prelude::*;

impl Head {
    pub(super) fn told(&mut self, words: &[&str], cx: &mut Cx<'_>) -> Result<(), MessageError> {
        match words {
            ["fail_path", path] => self.take_out(self.number_of(path)?, cx),
            ["reinstate_path", path] => self.put_in(self.number_of(path)?, cx),
            ["remove_path", path] => self.remove_path(self.number_of(path)?, cx),
            ["accept_losses"] => self.accept_losses(),
            ["policy", name, options @ ..] => {
                let kind = named("policy", name, &PolicyKind::ALL, PolicyKind::name)?;
                self.set_policy(kind, options_of(kind, options)?);
            }
            ["state", path, name] => {
                let state = named("state", name, &AnaState::ALL, AnaState::name)?;
                self.set_state(self.number_of(path)?, state, cx);
            }
            _ => {
                let usage = "write `fail_path N`, `reinstate_path N`, `remove_path N`, `policy NAME [decay PERCENT] [window US] \
                             [low-water SAMPLES]`, `state N NAME` or \
                             `accept_losses`";
                return Err(MessageError(usage.into()));
            }
        }
        Ok(())
    }

    fn number_of(&self, word: &str) -> Result<usize, MessageError> {
        let number = word.parse::<usize>().ok();
        let is_there = |number: &usize| self.paths.get(*number).is_some_and(|path| path.health.is_in_use());
        number.filter(is_there).ok_or_else(|| {
            let there = (0..self.paths.len()).filter(is_there).map(|number| number.to_string());
            let there = there.collect::<Vec<_>>().join(", ");
            MessageError(format!("there is no path {word}: those that are there are {there}"))
        })
    }
}

/// Options of a policy out of the words behind its name.
fn options_of(kind: PolicyKind, words: &[&str]) -> Result<PolicyOptions, MessageError> {
    let options = PolicyOptions::of_words(words).map_err(|word| {
        MessageError(format!(
            "`{word}` is no option of a policy: write `decay PERCENT`, `window US`, `low-water SAMPLES`"
        ))
    })?;
    options.check(kind).map_err(|error| MessageError(error.to_string()))?;
    Ok(options)
}

/// What has this name; it has to be the whole.
fn named<T: Copy>(what: &str, word: &str, all: &[T], name: fn(T) -> &'static str) -> Result<T, MessageError> {
    all.iter().copied().find(|one| name(*one) == word).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|one| name(*one)).collect();
        MessageError(format!("there is no {what} `{word}`: they are {}", names.join(", ")))
    })
}
