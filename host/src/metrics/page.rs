//! The page that says what there is: `docs/metrics.md` is what this makes.

use std::fmt::Write as _;

use super::families::{FAMILIES, Family};

const HEAD: &str = include_str!("page.md");

/// The page, as Markdown.
#[must_use]
pub fn page() -> String {
    let mut page = HEAD.to_owned();
    let mut group = "";
    for family in FAMILIES.iter() {
        let of = family.name.split('_').next().unwrap_or_default();
        if title(of) != group {
            group = title(of);
            // A string takes everything.
            let _ = write!(page, "\n## {group}\n\n| metric | | labels | |\n| --- | --- | --- | --- |\n");
        }
        let Family { kind, labels, help, .. } = family;
        let labels = labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ");
        let _ = writeln!(page, "| `shingle_{}` | {} | {labels} | {help} |", family.sample(), kind.name());
    }
    page
}

/// The heading under which a name that begins so is found.
fn title(first: &str) -> &'static str {
    match first {
        "export" => "Exports",
        "device" | "disk" => "Disks and mapped devices",
        "zones" | "plug" => "Zones, and the plug",
        "path" | "paths" => "Paths",
        "dmzoned" => "dm-zoned",
        "stl" => "`stl`",
        "multipath" => "`multipath`",
        _ => "The daemon",
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_page_in_the_docs_is_made_from_the_table() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics.md");
        if std::env::var_os("SHINGLE_WRITE_METRICS").is_some() {
            std::fs::write(&path, page()).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap();
        assert!(written == page(), "it is not: run this test with SHINGLE_WRITE_METRICS=1 and commit what it writes");
    }
}
