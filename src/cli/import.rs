//! The arguments of `assize import`.

use std::path::PathBuf;

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum Import {
    /// From a data set: CSV, TSV, semicolons, JSONL or JSON
    #[command(after_help = "Examples:
  assize import dataset tickets.csv my-task
  assize import dataset squad.jsonl my-task --map question=input --map answers=target

Known columns: id, input, target, choices, metadata, split (Inspect) and question, answer, text,
label and the like (Hugging Face). The known answers decide how outputs are scored: labels, numbers,
choices and JSON objects by rules, free text by judges. docs/import.md describes everything.")]
    Dataset {
        /// The file: .csv, .tsv, .jsonl or .json
        file: PathBuf,
        /// A new or empty folder for the task
        dir: PathBuf,
        /// Rename a column; repeatable
        #[arg(long, value_name = "COLUMN=NAME", value_parser = pair)]
        map: Vec<(String, String)>,
    },
    /// From a promptfoo configuration (YAML or JSON): prompts, variables, tests, assertions
    #[command(after_help = "Example:
  assize import promptfoo promptfooconfig.yaml my-task

What cannot be carried over is printed, and listed in import-notes.md of the new folder.")]
    Promptfoo {
        /// The configuration
        file: PathBuf,
        /// A new or empty folder for the task
        dir: PathBuf,
    },
}

fn pair(text: &str) -> Result<(String, String), String> {
    let both = text
        .split_once('=')
        .filter(|(left, right)| !left.is_empty() && !right.is_empty());
    let (left, right) = both.ok_or("write COLUMN=NAME, for example question=input")?;
    Ok((left.to_owned(), right.to_owned()))
}
