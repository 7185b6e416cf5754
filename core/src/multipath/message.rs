//! What an operator can tell a head in words.

use super::access::AnaState;
use super::head::Head;
use super::policy::PolicyKind;
use crate::block::{Cx, MessageError};
use crate::prelude::*;

impl Head {
    pub(super) fn told(&mut self, words: &[&str], cx: &mut Cx<'_>) -> Result<(), MessageError> {
        match words {
            ["fail_path", path] => self.take_out(self.number_of(path)?, cx),
            ["reinstate_path", path] => self.put_in(self.number_of(path)?, cx),
            ["policy", name] => self.set_policy(named("policy", name, &PolicyKind::ALL, PolicyKind::name)?),
            ["state", path, name] => {
                let state = named("state", name, &AnaState::ALL, AnaState::name)?;
                self.set_state(self.number_of(path)?, state, cx);
            }
            _ => {
                let usage = "write `fail_path N`, `reinstate_path N`, `policy NAME` or `state N NAME`";
                return Err(MessageError(usage.into()));
            }
        }
        Ok(())
    }

    fn number_of(&self, word: &str) -> Result<usize, MessageError> {
        let (paths, number) = (self.paths.len(), word.parse().ok());
        let number = number.filter(|number| *number < paths);
        number.ok_or_else(|| MessageError(format!("there is no path {word}: they are 0 to {}", paths - 1)))
    }
}

/// What has this name; it has to be the whole.
fn named<T: Copy>(what: &str, word: &str, all: &[T], name: fn(T) -> &'static str) -> Result<T, MessageError> {
    all.iter().copied().find(|one| name(*one) == word).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|one| name(*one)).collect();
        MessageError(format!("there is no {what} `{word}`: they are {}", names.join(", ")))
    })
}
