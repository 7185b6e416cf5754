//! Stack files and profiles of drives: what they say, and what is said of their mistakes.

mod path_sets;
mod profile;
mod stack_file;
mod stack_file_paths;
