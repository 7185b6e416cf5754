//! Text for a screen: clean, cut to columns, and numbers in few characters.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// How a piece of text stands out. What it says does not depend on that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// It does not.
    Plain,
    /// A title.
    Title,
    /// Beside the point.
    Faint,
    /// Worth a look.
    Warning,
    /// Wrong.
    Bad,
    /// The cursor is here.
    Cursor,
}

/// A line of a screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line(pub Vec<(Tone, String)>);

impl Line {
    /// A line of one piece.
    pub fn of(tone: Tone, text: &str) -> Self {
        Self::default().with(tone, text)
    }

    /// The line with a piece more.
    pub fn with(mut self, tone: Tone, text: &str) -> Self {
        self.0.push((tone, clean(text)));
        self
    }

    /// The line in so many columns, in characters that the terminal has.
    pub fn fit(self, width: usize, glyphs: Glyphs) -> Self {
        let mut left = width;
        let mut pieces = Vec::new();
        let total: usize = self.0.iter().map(|(_, text)| text.width()).sum();
        for (tone, text) in self.0 {
            let text = if total > width { cut(&text, left) } else { text };
            left = left.saturating_sub(text.width());
            pieces.push((tone, glyphs.show(&text)));
        }
        Self(pieces)
    }
}

/// Which characters a terminal has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Glyphs {
    /// Those of Unicode.
    Unicode,
    /// Those of ASCII.
    Ascii,
}

impl Glyphs {
    /// Those of a locale, given by its variables in the order in which they count.
    pub fn of(variables: [Option<String>; 3]) -> Self {
        let locale = variables.into_iter().flatten().find(|value| !value.is_empty()).unwrap_or_default();
        let is_unicode = ["utf-8", "utf8"].iter().any(|name| locale.to_ascii_lowercase().contains(name));
        if is_unicode { Self::Unicode } else { Self::Ascii }
    }

    /// The same text, as wide.
    fn show(self, text: &str) -> String {
        if self == Self::Unicode { text.to_owned() } else { text.chars().flat_map(ascii).collect() }
    }
}

fn ascii(char: char) -> impl Iterator<Item = char> {
    let like = match char {
        '├' | '│' => '|',
        '└' => '`',
        '─' => '-',
        '█' => '#',
        '·' => '.',
        '…' => '~',
        'µ' => 'u',
        char if char.is_ascii() => char,
        _ => '?',
    };
    std::iter::repeat_n(like, char.width().unwrap_or(1))
}

/// The text without what would do something to a terminal or stand in no column of its own.
pub fn clean(text: &str) -> String {
    // Separators, and a hyphen that some terminals show and others do not.
    let is_odd = |char| matches!(char, '\u{2028}' | '\u{2029}' | '\u{ad}');
    text.chars().map(|char| if char.width().unwrap_or(0) == 0 || is_odd(char) { '?' } else { char }).collect()
}

/// As much of a clean text as fits, with a sign that there was more.
pub fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let (mut short, mut left) = (String::new(), width.saturating_sub(1));
    for char in text.chars() {
        let Some(rest) = left.checked_sub(char.width().unwrap_or(0)) else { break };
        left = rest;
        short.push(char);
    }
    if width > 0 {
        short.push('…');
    }
    short
}

/// A clean text in lines, some at most.
pub fn wrap(text: &str, width: usize, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_inclusive(' ') {
        let last = lines.last_mut().filter(|line| line.is_empty() || line.width() + word.trim_end().width() <= width);
        match last {
            Some(line) => line.push_str(word),
            None => lines.push(word.to_owned()),
        }
    }
    lines.truncate(most);
    lines
}

/// A column of a table.
#[derive(Clone, Copy)]
pub struct Column {
    pub title: &'static str,
    /// 0 in the first: as wide as it has to be, and may be.
    pub width: usize,
    pub is_right: bool,
}

/// A column of numbers.
pub const fn right(title: &'static str, width: usize) -> Column {
    Column { title, width, is_right: true }
}

/// A column of words.
pub const fn left(title: &'static str, width: usize) -> Column {
    Column { title, width, is_right: false }
}

/// The least room of a first column.
const LEAST: usize = 12;

/// A table in so many columns of a screen: what does not fit is left out from the right.
pub struct Table {
    columns: Vec<Column>,
}

impl Table {
    /// Room for these columns; the first one wants so much.
    pub fn new(columns: &[Column], wanted: usize, width: usize) -> Self {
        let mut columns = columns.to_vec();
        let rest = |columns: &[Column]| columns[1..].iter().map(|column| column.width + 1).sum::<usize>();
        while columns.len() > 1 && rest(&columns) + LEAST.min(wanted) > width {
            columns.pop();
        }
        columns[0].width = wanted.max(columns[0].title.width()).min(width.saturating_sub(rest(&columns)));
        Self { columns }
    }

    /// The titles.
    pub fn header(&self) -> String {
        self.row(&self.columns.iter().map(|column| column.title.to_owned()).collect::<Vec<_>>())
    }

    /// A row.
    pub fn row(&self, cells: &[String]) -> String {
        let cell = |(column, text): (&Column, &String)| {
            let text = cut(&clean(text), column.width);
            let room = " ".repeat(column.width.saturating_sub(text.width()));
            if column.is_right { room + &text } else { text + &room }
        };
        self.columns.iter().zip(cells).map(cell).collect::<Vec<_>>().join(" ").trim_end().to_owned()
    }

    /// How wide the first column is.
    pub fn first(&self) -> usize {
        self.columns[0].width
    }
}

/// How many columns a text takes.
pub fn width(text: &str) -> usize {
    clean(text).width()
}

/// A number in at most four characters, with letters for powers of `unit`.
fn scaled(number: f64, unit: f64) -> String {
    if !number.is_finite() {
        return "-".into();
    }
    let (mut number, mut level) = (number.max(0.0), 0);
    // Rounded they would take a digit more.
    while number >= if level == 0 { 9999.5 } else { 999.5 } && level < LETTERS.len() - 1 {
        number /= unit;
        level += 1;
    }
    let digits = usize::from(number < 9.95 && (level > 0 || number.fract() > 0.0));
    format!("{:.digits$}{}", if level == 0 { number } else { number.min(999.0) }, LETTERS[level])
}

const LETTERS: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];

/// A count, or a rate.
pub fn count(number: f64) -> String {
    scaled(number, 1000.0)
}

/// Bytes.
pub fn bytes(number: f64) -> String {
    scaled(number, 1024.0)
}

/// A time in nanoseconds, in at most five characters.
pub fn time(ns: u64) -> String {
    if ns == 0 {
        return "0".into();
    }
    let ns = ns as f64;
    let units = [("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 6e10), ("h", 3.6e12), ("d", 8.64e13)];
    // Up to the next unit, or three digits of this one.
    let of = units.windows(2).find(|two| (ns / two[0].1).round() < (two[1].1 / two[0].1).min(999.5));
    let (name, unit) = of.map_or(units[6], |two| two[0]);
    let number = ns / unit;
    let digits = usize::from(number < 9.95 && unit > 1.0 && number > 0.0);
    format!("{:.digits$}{name}", number.min(9999.0))
}

/// A value, or that there is none.
pub fn or_dash(value: Option<String>) -> String {
    value.unwrap_or_else(|| "-".into())
}
