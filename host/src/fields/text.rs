//! Places in the text of a stack file, and words that are nearly right.

use std::ops::Range;

/// Where word `word` of line `line` (from 1) of a TOML string lies in the file, if the string is written without escapes.
///
/// `span` is the string's place with its quotes, `content` what it means.
pub fn word_in_string(
    source: &str,
    span: Range<usize>,
    content: &str,
    line: usize,
    word: Option<usize>,
) -> Option<Range<usize>> {
    let raw = source.get(span.clone())?;
    let at = raw.find(content).filter(|_| !content.is_empty())?;
    let start_of_line: usize = content.split_inclusive('\n').take(line.checked_sub(1)?).map(str::len).sum();
    let text = content.get(start_of_line..)?.lines().next()?;
    let words: Vec<&str> = text.split_whitespace().collect();
    let base = span.start + at + start_of_line;
    let place = |part: &str| {
        let offset = part.as_ptr().addr() - text.as_ptr().addr();
        base + offset..base + offset + part.len()
    };
    match word.and_then(|word| words.get(word)) {
        Some(word) => Some(place(word)),
        None => Some(place(text.trim())).filter(|range| !range.is_empty()),
    }
}

/// Longest word that is looked for, and candidate that is looked at, in bytes: names are at most 127 bytes long. Comparing two words
/// takes time in proportion to the product of their lengths.
const MAX_WORD: usize = 128;

/// The one of `known` that `word` is probably meant to be.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > MAX_WORD {
        return None;
    }
    let candidates = known.into_iter().filter(|candidate| candidate.len() <= MAX_WORD);
    let best = candidates.map(|candidate| (distance(word, candidate), candidate)).min()?;
    (best.0 <= word.chars().count().max(3) / 3).then_some(best.1)
}

/// Comparisons of letters in this thread so far, for tests: work is counted there, not timed.
#[cfg(test)]
pub mod work {
    use std::cell::Cell;

    thread_local! {
        static COMPARED: Cell<u64> = const { Cell::new(0) };
    }

    /// Notes comparisons.
    pub fn add(count: usize) {
        COMPARED.set(COMPARED.get() + count as u64);
    }

    /// Comparisons since the last call.
    pub fn take() -> u64 {
        COMPARED.take()
    }
}

/// Letters to insert, delete or replace to get from one word to the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    #[cfg(test)]
    work::add(b.len() * a.chars().count());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_a_table_is_found_in_the_file() {
        let source = "table = \"\"\"\n0 10 linear a 0\n10 20 liner b 5\n\"\"\"\n";
        let span = 8..source.len() - 1;
        let content = "0 10 linear a 0\n10 20 liner b 5\n";
        let place = |line, word| &source[word_in_string(source, span.clone(), content, line, word).unwrap()];
        assert_eq!((place(1, Some(2)), place(2, Some(2)), place(2, None)), ("linear", "liner", "10 20 liner b 5"));
        assert_eq!(word_in_string(source, span.clone(), "with\tescape", 1, None), None);
    }

    #[test]
    fn a_misspelt_word_is_recognised_and_a_foreign_one_is_not() {
        let known = ["zone-size", "zone-capacity", "size", "path"];
        assert_eq!(nearest("zonesize", known), Some("zone-size"));
        assert_eq!(nearest("pth", known), Some("path"));
        assert_eq!(nearest("colour", known), None);
    }
}
