//! Which files of a crate name which others, and the circles in that.
//!
//! A file names another if it imports or spells out something that is defined there, whichever modules hand it on. What a
//! `pub use` hands on is not named by the one that does.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

type Module = Vec<String>;

struct File {
    /// As it is called below `src`.
    name: String,
    named: Vec<Module>,
    /// What others reach through it, or its children as its own.
    hands_on: BTreeMap<String, Module>,
}

/// The files of a crate.
pub struct Files(BTreeMap<Module, File>);

impl Files {
    /// What these sources, each with its name below `src`, say of each other.
    pub fn of(sources: &[(String, String)]) -> Self {
        let modules: BTreeSet<Module> = sources.iter().map(|(name, _)| module(name)).collect();
        let files = sources.iter().map(|(name, text)| (module(name), File::read(name, text, &modules)));
        Self(files.collect())
    }

    /// The file in which `path` ends.
    fn home(&self, mut path: Module) -> Module {
        for _ in 0..16 {
            let known = (0..=path.len()).rev().find(|len| self.0.contains_key(&path[..*len])).unwrap_or(0);
            let (module, rest) = (path[..known].to_vec(), &path[known..]);
            let next = rest.first().and_then(|name| self.0.get(&module)?.hands_on.get(name));
            match next.map(|target| [target, &rest[1..]].concat()).filter(|next| *next != path) {
                Some(next) => path = next,
                None => return module,
            }
        }
        panic!("{path:?} is handed on for ever")
    }

    /// The names of files that lead from one to itself through more than one folder.
    pub fn circle(&self) -> Option<Vec<&str>> {
        let is_ours = |module: &Module| self.0.contains_key(module);
        let homes = |file: &File| file.named.iter().map(|path| self.home(path.clone())).filter(is_ours).collect();
        let edges: BTreeMap<&Module, BTreeSet<Module>> =
            self.0.iter().map(|(module, file)| (module, homes(file))).collect();
        let folder = |module: &Module| self.0[module].name.rsplit_once('/').map(|(folder, _)| folder);
        let leaves = edges.iter().flat_map(|(from, to)| to.iter().map(|to| (*from, to)));
        let mut circles =
            leaves.filter(|(from, to)| folder(from) != folder(to)).filter_map(|(from, to)| way(&edges, to, from));
        circles.next().map(|way| way.iter().map(|module| self.0[*module].name.as_str()).collect())
    }
}

/// The shortest way from one file to another and on to the first.
fn way<'a>(edges: &'a BTreeMap<&Module, BTreeSet<Module>>, from: &'a Module, to: &Module) -> Option<Vec<&'a Module>> {
    let mut ways = VecDeque::from([vec![from]]);
    let mut seen = BTreeSet::from([from]);
    while let Some(way) = ways.pop_front() {
        let last = way[way.len() - 1];
        if last == to {
            return Some([way, vec![from]].concat());
        }
        ways.extend(edges[last].iter().filter(|next| seen.insert(next)).map(|next| [way.clone(), vec![next]].concat()));
    }
    None
}

impl File {
    fn read(name: &str, text: &str, modules: &BTreeSet<Module>) -> Self {
        let mut file = File { name: name.to_owned(), named: vec![], hands_on: BTreeMap::new() };
        let module = module(name);
        let absolute = |path: &str| {
            let words: Vec<String> = path.split("::").map(str::to_owned).collect();
            let supers = words.iter().take_while(|word| *word == "super").count();
            match words[0].as_str() {
                "crate" => Some(words[1..].to_vec()),
                "self" => Some([&module, &words[1..]].concat()),
                "super" => Some([&module[..module.len() - supers], &words[supers..]].concat()),
                child => modules
                    .contains(&[&module[..], &[child.to_owned()]].concat())
                    .then(|| [&module, &words[..]].concat()),
            }
        };
        let mut lines = text.lines().map(|line| line.split("//").next().unwrap_or(line).trim());
        while let Some(line) = lines.next() {
            let Some((before, tree)) = line.split_once("use ").filter(|(before, _)| is_visibility(before)) else {
                let paths = line.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
                file.named
                    .extend(paths.filter(|path| path.contains("::") && !path.starts_with(':')).filter_map(absolute));
                continue;
            };
            let mut tree = tree.to_owned();
            while !tree.ends_with(';') {
                tree += lines.next().expect("a `use` ends");
            }
            for path in branches(tree.trim_end_matches(';')) {
                let (path, alias) = path.split_once(" as ").unwrap_or((&path, ""));
                let Some(path) = absolute(path.trim()) else { continue };
                let name = if alias.is_empty() { path.last().cloned().unwrap_or_default() } else { alias.to_owned() };
                file.hands_on.insert(name, path.clone());
                if before.is_empty() {
                    file.named.push(path);
                }
            }
        }
        file
    }
}

fn is_visibility(before: &str) -> bool {
    before.is_empty() || before.starts_with("pub") && before.ends_with([' ', ')']) && !before.contains("fn")
}

/// `a::{b, c::{d, e}}` as `a::b`, `a::c::d` and `a::c::e`.
fn branches(tree: &str) -> Vec<String> {
    let Some((stem, rest)) = tree.split_once('{') else { return vec![tree.trim().replace("::self", "")] };
    let (inside, mut depth) = (&rest[..rest.rfind('}').expect("a brace is closed")], 0);
    let parts = inside.split(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    parts
        .filter(|part| !part.trim().is_empty())
        .flat_map(|part| branches(&format!("{}{}", stem.trim(), part.trim())))
        .collect()
}

/// The module of a file: `a/b` of `a/b.rs` and of `a/b/mod.rs`.
fn module(name: &str) -> Module {
    let mut words: Module = name.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    words.pop_if(|word| ["mod", "lib", "main"].contains(&word.as_str()));
    words
}
