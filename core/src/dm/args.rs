//! The words of a table line, read one by one.

use core::fmt;
use core::str::FromStr;

use crate::prelude::*;

/// The words of `text`, split at white space; a backslash takes the next character as it is
/// (`drivers/md/dm-table.c:dm_split_args`).
#[must_use]
pub fn split_words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut in_word) = (Vec::new(), String::new(), false);
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c.is_whitespace() {
            if core::mem::take(&mut in_word) {
                words.push(core::mem::take(&mut word));
            }
            continue;
        }
        in_word = true;
        word.push(if c == '\\' { chars.next().unwrap_or(c) } else { c });
    }
    if in_word {
        words.push(word);
    }
    words
}

/// The word as [`split_words`] reads it back.
#[must_use]
pub fn quote(word: &str) -> String {
    let special = |c: char| c.is_whitespace() || c == '\\';
    word.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect()
}

/// The words behind a target's name, taken from the front.
#[derive(Clone)]
pub struct Args<'a> {
    words: &'a [String],
    /// Where the first of them stands in its line, from 0.
    place: usize,
    target: &'static str,
    usage: &'static str,
}

/// A device that a line names, and where it names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceArg {
    /// The name.
    pub name: String,
    /// Its place in the line, from 0.
    pub word: usize,
}

/// What is wrong with a line: one of its words, if one is to blame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgError {
    /// The place of the word in the line, from 0.
    pub word: Option<usize>,
    /// What is wrong and what to do.
    pub message: String,
}

impl ArgError {
    /// An error of the word in place `word`.
    #[must_use]
    pub fn at(word: usize, message: impl Into<String>) -> Self {
        Self { word: Some(word), message: message.into() }
    }
}

impl_display!(ArgError, |self, f| f.write_str(&self.message));

impl<'a> Args<'a> {
    /// `words`, of which the first stands in place `place` of its line, of a target that is written as `usage` says.
    #[must_use]
    pub fn new(words: &'a [String], place: usize, target: &'static str, usage: &'static str) -> Self {
        Self { words, place, target, usage }
    }

    /// Words that are left.
    #[must_use]
    pub fn left(&self) -> usize {
        self.words.len()
    }

    /// The place of the next word in its line.
    #[must_use]
    pub fn place(&self) -> usize {
        self.place
    }

    /// The next word, which stays.
    #[must_use]
    pub fn peek(&self) -> Option<&'a str> {
        self.words.first().map(String::as_str)
    }

    /// All words that are left.
    #[must_use]
    pub fn rest(&self) -> Vec<&'a str> {
        self.words.iter().map(String::as_str).collect()
    }

    /// Takes the next word, which is `what`.
    ///
    /// # Errors
    /// If there is none.
    pub fn word(&mut self, what: &str) -> Result<&'a str, ArgError> {
        let Some((first, rest)) = self.words.split_first() else {
            let message = format!("{}: {what} is missing; write `{}`", self.target, self.usage);
            return Err(ArgError { word: None, message });
        };
        (self.words, self.place) = (rest, self.place + 1);
        Ok(first)
    }

    /// Takes the next word as a number.
    ///
    /// # Errors
    /// If there is none, or it is none.
    pub fn number<N: FromStr>(&mut self, what: &str) -> Result<N, ArgError> {
        let word = self.word(what)?;
        word.parse().map_err(|_| self.blame(format!("{what} is `{word}`: write a number")))
    }

    /// Takes the next word as a number of sectors.
    ///
    /// # Errors
    /// If there is none, or it is none.
    pub fn sectors(&mut self, what: &str) -> Result<u64, ArgError> {
        let word = self.word(what)?;
        word.parse().map_err(|_| self.blame(format!("{what} is `{word}`: write a number of 512-byte sectors")))
    }

    /// Takes the next word as the name of a device.
    ///
    /// # Errors
    /// If there is none.
    pub fn device(&mut self) -> Result<DeviceArg, ArgError> {
        let name = self.word("the device")?.to_string();
        Ok(DeviceArg { name, word: self.place - 1 })
    }

    /// Takes a counted group, `<n> <word>...`: at most `most` words; none at all is an empty group.
    ///
    /// # Errors
    /// If the number is wrong or words are missing.
    pub fn group(&mut self, what: &str, most: usize) -> Result<Args<'a>, ArgError> {
        let count = if self.words.is_empty() { 0 } else { self.number::<usize>(&format!("the number of {what}"))? };
        if count > most || count > self.words.len() {
            let bound = most.min(self.words.len());
            let message = format!("the number of {what} is {count}: at most {bound} can follow here");
            return Err(self.blame(message));
        }
        let (group, rest) = self.words.split_at(count);
        let group = Args { words: group, ..self.clone() };
        (self.words, self.place) = (rest, self.place + count);
        Ok(group)
    }

    /// Takes the next `count` words, each of them `what`.
    ///
    /// # Errors
    /// If words are missing.
    pub fn take(&mut self, count: usize, what: &str) -> Result<Args<'a>, ArgError> {
        let front = self.clone();
        for _ in 0..count {
            self.word(what)?;
        }
        Ok(Args { words: &front.words[..count], ..front })
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// If words are left.
    pub fn finish(&self) -> Result<(), ArgError> {
        let Some(word) = self.peek() else { return Ok(()) };
        let message = format!("{}: `{word}` is too much; write `{}`", self.target, self.usage);
        Err(ArgError::at(self.place, message))
    }

    /// An error of the word that was taken last.
    #[must_use]
    pub fn blame(&self, message: impl fmt::Display) -> ArgError {
        ArgError::at(self.place.saturating_sub(1), format!("{}: {message}", self.target))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_at_white_space_and_a_backslash_quotes() {
        assert_eq!(split_words("  a\\ b\tc\\\\d  "), ["a b", "c\\d"]);
        for word in ["plain", "two words", "back\\slash", "tab\tbed"] {
            assert_eq!(split_words(&quote(word)), [word]);
        }
        assert!(split_words(" \t ").is_empty());
    }

    #[test]
    fn a_group_takes_as_many_words_as_it_says_and_no_more() {
        let words = split_words("2 a b c");
        let mut args = Args::new(&words, 3, "flakey", "flakey <device>");
        let group = args.group("features", 8).unwrap();
        assert_eq!((group.rest(), args.rest()), (["a", "b"].to_vec(), ["c"].to_vec()));
        assert_eq!(args.finish().unwrap_err().word, Some(6));
        for (text, words) in [("3 a", "at most 1"), ("9 a b c d e f g h i", "at most 8"), ("x", "`x`")] {
            let split = split_words(text);
            let error = Args::new(&split, 3, "flakey", "").group("features", 8).err().unwrap();
            assert!(error.message.contains(words) && error.word == Some(3), "{text}: {error:?}");
        }
    }
}
