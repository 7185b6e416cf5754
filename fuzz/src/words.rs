//! Words for bytes: an input that is text gets somewhere sooner if a byte can be a whole word.

/// The text with each character whose number is that of a word, from 1 on, replaced by the word and `after`.
pub fn spell(text: &str, words: &[&str], after: &str) -> String {
    let mut spelled = String::new();
    for c in text.chars() {
        match words.get((c as usize).wrapping_sub(1)) {
            Some(word) => spelled.extend([word, after]),
            None => spelled.push(c),
        }
    }
    spelled
}
