//! Which reads stand beside which published figure, and which are ours alone.

use super::{Layers, Pattern, Reads, Target, Way};
use crate::reproduce::Publication;
use crate::reproduce::plan::{Cell, Class, Table, published_table};
use crate::reproduce::published::{Figure, SCHEMAS, Unit};

/// Most layers on top of each other.
const DEEPEST: u8 = 8;

/// The published table, and ours beside it: all targets, and layers on top of each other.
pub fn plan() -> Result<Vec<Table<Reads>>, String> {
    let about = ("Linear over a RAM disk, with clones and without", None);
    let schemas = SCHEMAS.iter().filter(|schema| Publication::of_table(schema.name) == Publication::Noclone);
    let mut tables: Vec<_> =
        schemas.map(|schema| published_table(schema, about, published_cell)).collect::<Result<_, _>>()?;
    tables.push(targets());
    tables.push(depths());
    Ok(tables)
}

fn published_cell(figure: &Figure) -> Option<Cell<Reads>> {
    let [machine] = &figure.keys[..] else { return None };
    let group = match machine.as_str() {
        "x86-64 2x six-core" => "x86-64",
        "arm64 quad core" => "arm64",
        _ => return None,
    };
    let (system, way) = match figure.column {
        "ram_disk" => ("RAM disk", None),
        "linear_clone" => ("clone", Some(Way::Cloned)),
        "linear_noclone" => ("no clone", Some(Way::Mapped)),
        "linear_noclone_with_per_bio_data" => ("no clone, per-bio data", Some(Way::PerBioData)),
        _ => return None,
    };
    let layers = way.map(|way| Layers { target: Target::Linear, way, depth: 1 });
    let reads = Reads { pattern: Pattern::Sequential, layers };
    Some(Cell {
        row: figure.keys.join(","),
        column: figure.column.to_owned(),
        published: Some(figure.value),
        class: Class::Measured,
        system: system.to_owned(),
        ..own_cell(reads, group, "linear", Unit::MebibytesPerSecond)
    })
}

/// A cell beside the published ones; it is compared with the disk itself under the same load.
fn own_cell(reads: Reads, group: &str, load: &str, unit: Unit) -> Cell<Reads> {
    Cell {
        row: String::new(),
        column: String::new(),
        group: group.to_owned(),
        load: load.to_owned(),
        system: reads.name().to_owned(),
        policy: reads.name().to_owned(),
        unit,
        class: Class::Own,
        is_baseline: reads.layers.is_none(),
        against: load.to_owned(),
        simulated: false,
        published: None,
        ours: reads,
        rival: None,
    }
}

/// Every target, one layer, in both orders of reads.
fn targets() -> Table<Reads> {
    let orders = [("sequential", Pattern::Sequential), ("random", Pattern::Random)];
    const WAYS: &[Way] = &[Way::Mapped, Way::Counted, Way::Cloned];
    let all = [
        ("linear", Target::Linear, &[Way::Mapped, Way::Counted, Way::PerBioData, Way::Cloned][..]),
        ("striped", Target::Striped, WAYS),
        ("zero", Target::Zero, WAYS),
        ("crypt", Target::Crypt, WAYS),
    ];
    let mut cells = Vec::new();
    for (group, pattern) in orders {
        for (load, target, ways) in all {
            let mut add = |layers: Option<Layers>| {
                let reads = Reads { pattern, layers };
                cells.push(own_cell(reads, group, load, Unit::MebibytesPerSecond));
            };
            add(None);
            ways.iter().for_each(|way| add(Some(Layers { target, way: *way, depth: 1 })));
        }
    }
    let source = "12 jobs, 512-byte reads of a RAM disk, one in flight each; nobody published these.".to_owned();
    let (name, title) = ("noclone-targets".to_owned(), "One layer of each target".to_owned());
    Table { name, title, axis: None, source, cells }
}

/// Layers on top of each other, in the time that a read takes: each adds its own.
fn depths() -> Table<Reads> {
    let cell = |depth: u8, layers: Option<Layers>| {
        let reads = Reads { pattern: Pattern::Sequential, layers };
        Cell { against: "0".to_owned(), ..own_cell(reads, "", &depth.to_string(), Unit::Nanoseconds) }
    };
    let mut cells = vec![cell(0, None)];
    for depth in 1..=DEEPEST {
        let layered = |way| cell(depth, Some(Layers { target: Target::Linear, way, depth }));
        cells.extend([Way::Mapped, Way::PerBioData, Way::Cloned].map(layered));
    }
    let source = "12 jobs, sequential 512-byte reads of a RAM disk through layers of linear; nobody published these.";
    let (name, title) = ("noclone-depth".to_owned(), "Layers on top of each other".to_owned());
    Table { name, title, axis: Some("layers of linear".to_owned()), source: source.to_owned(), cells }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_published_figure_has_exactly_one_cell_with_its_value() {
        let tables = plan().unwrap();
        let table = tables[0].cells.iter().filter_map(|cell| Some((&*cell.row, &*cell.column, cell.published?)));
        let x86 = |column, figure| ("x86-64 2x six-core", column, figure);
        let arm = |column, figure| ("arm64 quad core", column, figure);
        let expected = [
            x86("ram_disk", 2449.0),
            x86("linear_clone", 1970.0),
            x86("linear_noclone", 2238.0),
            x86("linear_noclone_with_per_bio_data", 2145.0),
            arm("ram_disk", 457.0),
            arm("linear_clone", 325.0),
            arm("linear_noclone", 364.0),
        ];
        assert_eq!(table.collect::<Vec<_>>(), expected);
        let elsewhere = tables[1..].iter().flat_map(|table| &table.cells);
        assert!(elsewhere.into_iter().all(|cell| cell.published.is_none() && cell.class == Class::Own));
    }

    #[test]
    fn every_cell_is_compared_with_the_disk_itself_in_the_same_order_of_reads() {
        for table in plan().unwrap() {
            for cell in &table.cells {
                let is_compared = |c: &&Cell<Reads>| c.is_baseline && c.group == cell.group && c.load == cell.against;
                let baselines: Vec<_> = table.cells.iter().filter(is_compared).map(|c| c.ours).collect();
                assert_eq!(baselines, [Reads::raw(cell.ours.pattern)], "{cell:?}");
            }
        }
    }
}
