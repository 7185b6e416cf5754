//! Text for terminals and logs. Names of devices, labels of disks and messages of daemons come from other users: a control character in them could move the
//! cursor, set the title of the terminal, or forge a line.

use std::borrow::Cow;

/// True for a character that may do something else than be read. Lines and columns are laid out with the two others.
fn is_active(c: char) -> bool {
    c.is_control() && c != '\n' && c != '\t'
}

fn escape(text: &str, mut with: impl FnMut(char, &mut String)) -> Cow<'_, str> {
    if !text.contains(is_active) {
        return text.into();
    }
    let mut plain = String::with_capacity(text.len() + 16);
    text.chars().for_each(|c| if is_active(c) { with(c, &mut plain) } else { plain.push(c) });
    plain.into()
}

/// Replaces control characters by their escapes, as in `\u{1b}`; newlines and tabs stay.
pub fn escape_controls(text: &str) -> Cow<'_, str> {
    escape(text, |c, plain| plain.extend(c.escape_unicode()))
}

/// Replaces control characters in JSON text by escapes of JSON. Unescaped ones are in strings alone.
pub fn escape_json_controls(text: &str) -> Cow<'_, str> {
    escape(text, |c, plain| plain.push_str(&format!("\\u{:04x}", c as u32)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_and_not_done() {
        assert_eq!(escape_controls("\x1b[2Jdisk\x07\r\u{9b}1m\x7f"), "\\u{1b}[2Jdisk\\u{7}\\u{d}\\u{9b}1m\\u{7f}");
        let plain = "a\tb\nzone ü";
        assert!(matches!(escape_controls(plain), Cow::Borrowed(text) if text == plain));
    }

    #[test]
    fn json_stays_json() {
        let value = serde_json::json!({"name": "\u{9b}31m\x1b\x7f\n"});
        let text = format!("{value:#}\n");
        let escaped = escape_json_controls(&text);
        assert!(!escaped.contains(is_active));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), value);
    }
}
