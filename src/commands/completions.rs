//! `assize completions`: what a shell offers for each argument.
//!
//! Shells offer the names of files where nothing else is known. That is right for files and folders
//! only, so every other value is marked here, and those of a fixed set are listed.

use std::any::TypeId;
use std::path::PathBuf;

use assize_domain::scenario::Split;
use clap::builder::PossibleValuesParser;
use clap::{Arg, Command, CommandFactory as _, ValueHint};

use crate::Exit;
use crate::cli::Cli;
use crate::session::Session;

/// Prints shell completions.
pub fn run(session: &Session, shell: clap_complete::Shell) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    let mut command = described(Cli::command());
    clap_complete::generate(shell, &mut command, "assize", &mut script);
    session.output.data(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}

fn described(command: Command) -> Command {
    command.mut_args(offering).mut_subcommands(described)
}

/// An argument with what it offers.
fn offering(arg: Arg) -> Arg {
    if !arg.get_action().takes_values() || !arg.get_possible_values().is_empty() {
        return arg;
    }
    let names = arg.get_value_names().unwrap_or_default();
    let name = names.first().map_or("", |name| name.as_str());
    if name == "SPLIT" {
        return arg.value_parser(PossibleValuesParser::new(Split::ALL.map(Split::as_str)));
    }
    match name {
        "expert|auto" => return arg.value_parser(["expert", "auto"]),
        "expert|auto|combined" => return arg.value_parser(["expert", "auto", "combined"]),
        _ => {}
    }
    let is_path = arg.get_value_parser().type_id() == TypeId::of::<PathBuf>();
    let is_file = ["FILE", "DIR", "PATH"].iter().any(|it| name.contains(it));
    if is_path || is_file || arg.get_value_hint() != ValueHint::Unknown {
        return arg;
    }
    arg.value_hint(ValueHint::Other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(path: &[&str], flag: &str) -> (ValueHint, Vec<String>) {
        let mut command = described(Cli::command());
        for name in path {
            command = command.find_subcommand(name).expect(name).clone();
        }
        let arg = command
            .get_arguments()
            .find(|it| it.get_long() == Some(flag));
        let arg = arg.expect(flag);
        let values = arg.get_possible_values();
        let values = values.iter().map(|it| it.get_name().to_owned()).collect();
        (arg.get_value_hint(), values)
    }

    #[test]
    fn files_are_offered_for_files_only() {
        let splits = ["selection", "feedback", "confirmation"].map(str::to_owned);
        for command in [&["collect"][..], &["compare"], &["runs", "list"]] {
            assert_eq!(hint(command, "split").1, splits, "{command:?}");
        }
        assert_eq!(hint(&["compare"], "tier").1, ["expert", "auto", "combined"]);
        assert_eq!(hint(&["compare"], "experiment").0, ValueHint::Other);
        assert_eq!(hint(&["collect"], "models").0, ValueHint::Other);
        for (command, flag) in [("collect", "script"), ("compare", "output")] {
            assert_ne!(hint(&[command], flag).0, ValueHint::Other, "{flag}");
        }
    }
}
