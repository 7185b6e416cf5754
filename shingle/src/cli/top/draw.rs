//! A frame in the cells of a terminal.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line as Text, Span};

use super::text::{Line, Tone};

/// Draws lines from the top of an area on.
pub fn draw(lines: &[Line], has_colour: bool, area: Rect, buffer: &mut Buffer) {
    for (line, y) in lines.iter().zip(area.top()..area.bottom()) {
        let spans = line.0.iter().map(|(tone, text)| Span::styled(text.as_str(), style(*tone, has_colour)));
        buffer.set_line(area.x, y, &Text::from_iter(spans), area.width);
    }
}

fn style(tone: Tone, has_colour: bool) -> Style {
    let (colour, modifier) = match tone {
        Tone::Plain => (None, Modifier::empty()),
        Tone::Title => (None, Modifier::BOLD),
        Tone::Faint => (None, Modifier::DIM),
        Tone::Warning => (Some(Color::Yellow), Modifier::BOLD),
        Tone::Bad => (Some(Color::Red), Modifier::BOLD),
        Tone::Cursor => (None, Modifier::REVERSED),
    };
    let style = Style::new().add_modifier(modifier);
    colour.filter(|_| has_colour).map_or(style, |colour| style.fg(colour))
}
