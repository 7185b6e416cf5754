//! What a stack file says, without comments, order and places: by that it is found what another version of it changes.

use toml::{Table, Value};

/// The tables of a stack file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Written(Table);

impl Written {
    /// Those of a text; none of one that is not TOML.
    pub(super) fn of(text: &str) -> Self {
        Self(text.parse().unwrap_or_default())
    }

    /// What `[section]` says.
    #[must_use]
    pub fn section(&self, section: &str) -> Option<&Value> {
        self.0.get(section)
    }

    /// What `[section.name]` says.
    #[must_use]
    pub fn part(&self, section: &str, name: &str) -> Option<&Table> {
        self.0.get(section)?.get(name)?.as_table()
    }

    /// Has `[section]` say what it says in `other`, or nothing if that says nothing.
    pub fn adopt_section(&mut self, other: &Self, section: &str) {
        match other.section(section) {
            Some(value) => _ = self.0.insert(section.to_owned(), value.clone()),
            None => _ = self.0.remove(section),
        }
    }

    /// Has `[section.name]` say what it says in `other`, or nothing if that says nothing.
    pub fn adopt(&mut self, other: &Self, section: &str, name: &str) {
        let parts = self.0.entry(section).or_insert_with(|| Value::Table(Table::new()));
        let Some(parts) = parts.as_table_mut() else { return };
        match other.part(section, name) {
            Some(part) => _ = parts.insert(name.to_owned(), Value::Table(part.clone())),
            None => _ = parts.remove(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_order_and_the_way_in_which_something_is_written_do_not_count() {
        let one = Written::of("[disk.a]\ntype = \"null\" # fast\nsize = \"1GiB\"\n[disk.b]\ntype = \"null\"\n");
        let other = Written::of("disk.b.type = 'null'\n[disk.a]\nsize = \"1GiB\"\ntype = \"null\"\n");
        for name in ["a", "b"] {
            assert_eq!(one.part("disk", name), other.part("disk", name));
        }
        assert_ne!(one.part("disk", "a"), one.part("disk", "b"));
        assert_eq!(one.part("disk", "c"), None);
    }

    #[test]
    fn a_part_is_adopted_and_one_that_is_gone_is_as_well() {
        let mut one = Written::of("[disk.a]\nx = 1\n[disk.b]\nx = 2\n");
        let other = Written::of("[disk.a]\nx = 3\n[export.e]\nx = 4\n");
        for (section, name) in [("disk", "a"), ("disk", "b"), ("export", "e")] {
            one.adopt(&other, section, name);
            assert_eq!(one.part(section, name), other.part(section, name));
        }
    }
}
