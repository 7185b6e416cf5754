//! Commands of the laboratory, in a program that was built without it.

/// Commands that the feature `lab` adds.
const COMMANDS: [&[&str]; 6] =
    [&["bench"], &["reproduce"], &["sim"], &["trace", "replay"], &["profile", "fit"], &["disks", "test"]];

/// Error for a command line, without the name of the program, that asks for a command of the laboratory.
pub fn complaint(words: impl Iterator<Item = String>) -> Option<String> {
    let words: Vec<String> = words.skip_while(|word| word == "help").collect();
    let asked = COMMANDS.iter().find(|command| words.iter().take(command.len()).eq(**command))?;
    let command = asked.join(" ");
    Some(format!("shingle {command}: this program was built without the laboratory; build it with: make lab"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str) -> Option<String> {
        complaint(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn a_command_of_the_laboratory_says_how_to_build_it() {
        for line in ["trace replay", "trace replay a.trace --json", "help trace replay", "trace replay --help"] {
            let expected =
                "shingle trace replay: this program was built without the laboratory; build it with: make lab";
            assert_eq!(said(line).as_deref(), Some(expected), "{line}");
        }
        assert!(said("sim --seeds 7").is_some_and(|text| text.starts_with("shingle sim: ")));
    }

    #[test]
    fn other_mistakes_are_left_to_the_parser() {
        for line in ["", "help", "trace", "trace record", "disks --json", "profile show sim", "simm"] {
            assert_eq!(said(line), None, "{line}");
        }
    }

    #[test]
    fn every_command_of_the_list_is_added_by_the_feature() {
        use clap::CommandFactory;
        for command in COMMANDS {
            let program = crate::cli::Cli::command();
            let found = command.iter().try_fold(&program, |within, name| within.find_subcommand(name));
            assert_eq!(found.is_some(), cfg!(feature = "lab"), "{command:?}");
        }
    }
}
