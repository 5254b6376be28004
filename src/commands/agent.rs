//! `assize agent install`: lets agent sessions of a project find the judging queue.
//!
//! Every agent has a file for MCP servers and one for its own commands; this module knows their
//! paths and contents. A file that exists already is the user's: it is changed
//! only with consent, settings are merged so that every other entry stays, and a file that
//! cannot be merged safely is left alone with advice on what to add. Each file is written whole
//! or not at all.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use assize_domain::builtin;
use assize_pipeline::{task_files, whole_file};
use serde_json::json;

use crate::Exit;
use crate::cli::AgentInstall;
use crate::output::safe;
use crate::session::Session;

mod files;

use files::{Change, Wanted};

/// The result for one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
enum Fate {
    Written,
    Merged,
    Replaced,
    Unchanged,
    Left,
    Failed,
}

impl Fate {
    const fn words(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Merged => "merged, everything else in it kept",
            Self::Replaced => "replaced; the older file is kept as a .bak file",
            Self::Unchanged => "already up to date",
            Self::Left => "left alone",
            Self::Failed => "FAILED, left as it is",
        }
    }
}

/// Writes what Claude Code, Codex and Gemini CLI need to judge in this project.
pub fn install(session: &Session, args: &AgentInstall) -> anyhow::Result<Exit> {
    let mut fates = Vec::new();
    let mut failed = Vec::new();
    let flags = flags(session, &args.dir)?;
    for wanted in files::wanted(&flags) {
        let path = args.dir.join(wanted.path);
        // A failure with one file does not stop the others.
        let settled = settle(session, args.yes, &target(&path), &wanted);
        let (fate, advice) = settled.unwrap_or_else(|error| {
            failed.push(wanted.path);
            (Fate::Failed, Some(safe(&format!("{error:#}"))))
        });
        session
            .output
            .say(&format!("  {:<34} {}", wanted.path, fate.words()));
        if let Some(advice) = advice {
            session.output.say(&indented(&advice));
        }
        fates.push(json!({"file": path, "status": fate}));
    }
    if session.output.json {
        session.output.json_pretty(&json!({ "files": fates }))?;
    }
    if !is_on_path(session.environment.get("PATH").unwrap_or_default()) {
        session.output.say(
            "assize is not on your PATH: put it there, or write its whole path as the server's command.",
        );
    }
    if !failed.is_empty() {
        anyhow::bail!(
            "{} could not be installed: correct the problems above and run the command again",
            failed.join(", ")
        );
    }
    session.output.say(
        "Next: in Claude Code or Gemini CLI type /judge EXPERIMENT (or /reflect EXPERIMENT for a prompt loop), in \
         Codex $judge or $reflect.",
    );
    Ok(Exit::Done)
}

/// The flags with which agents start the server: the store, and the task where one was named
/// (otherwise every experiment's own task is used). Credentials are not written into files.
fn flags(session: &Session, dir: &Path) -> anyhow::Result<Vec<(&'static str, String)>> {
    let mut flags = Vec::new();
    if let Some(task) = &session.task_given {
        task_files::load(task)?;
        flags.push((
            "--task",
            from(dir, task, builtin::NAMES.contains(&task.as_str())),
        ));
    }
    match session.portable_uri() {
        Some(uri) => {
            let uri = match uri.strip_prefix("sqlite:") {
                Some(path) => format!("sqlite:{}", from(dir, path, false)),
                None => uri.to_owned(),
            };
            flags.push(("--tracking-uri", uri));
        }
        None => session.output.say(
            "The tracking URI contains credentials, which are not written into files: set \
             MLFLOW_TRACKING_URI where the agent runs.",
        ),
    }
    Ok(flags)
}

/// A path as it is valid in the project's folder, where the agent starts the server.
fn from(dir: &Path, path: &str, is_name: bool) -> String {
    if is_name || dir == Path::new(".") {
        return path.to_owned();
    }
    let absolute = std::path::absolute(path);
    absolute.map_or_else(|_| path.to_owned(), |it| it.display().to_string())
}

/// The file itself, where the path is a link to it: a link stays one.
fn target(path: &Path) -> PathBuf {
    if let Ok(target) = path.canonicalize() {
        return target;
    }
    match (std::fs::read_link(path), path.parent()) {
        (Ok(target), Some(folder)) => folder.join(target),
        _ => path.to_owned(),
    }
}

/// Brings one file to what it should be, as far as its owner agrees.
fn settle(
    session: &Session,
    yes: bool,
    path: &Path,
    wanted: &Wanted,
) -> anyhow::Result<(Fate, Option<String>)> {
    let existing = match std::fs::read_to_string(path) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            anyhow::bail!("It is not UTF-8 text: save it as UTF-8, or rename it.")
        }
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let (text, fate) = match wanted.change(existing.as_deref()) {
        Change::None => return Ok((Fate::Unchanged, None)),
        Change::New(text) => (text, Fate::Written),
        Change::Merge(text) => (text, Fate::Merged),
        Change::Replace(text) => (text, Fate::Replaced),
        Change::Impossible(reason) => {
            let advice = format!("It {reason}. Add by hand:\n{}", wanted.to_add());
            return Ok((Fate::Left, Some(advice)));
        }
    };
    if fate != Fate::Written && !yes && !agrees(session, path, fate) {
        let advice = if fate == Fate::Merged {
            format!(
                "It is there already. Add, or run again with --yes:\n{}",
                wanted.to_add()
            )
        } else {
            "It is there already and differs. --yes replaces it and keeps the older one.".to_owned()
        };
        return Ok((Fate::Left, Some(advice)));
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
    }
    if fate == Fate::Replaced {
        whole_file::keep_older(path)?;
    }
    whole_file::write(path, &text)?;
    Ok((fate, None))
}

/// Asks for confirmation on the terminal; without a terminal the answer is no.
fn agrees(session: &Session, path: &Path, fate: Fate) -> bool {
    if session.output.quiet || session.output.json || !std::io::stdin().is_terminal() {
        return false;
    }
    let deed = if fate == Fate::Merged {
        "Add assize to"
    } else {
        "Replace"
    };
    session.output.say(&format!(
        "{deed} {}, which is there already? [y/N]",
        safe(&path.display().to_string())
    ));
    let mut answer = String::new();
    let read = std::io::stdin().read_line(&mut answer);
    read.is_ok() && matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
}

fn indented(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("      {line}")).collect();
    lines.join("\n")
}

fn is_on_path(path: &str) -> bool {
    let name = format!("assize{}", std::env::consts::EXE_SUFFIX);
    std::env::split_paths(path).any(|folder: PathBuf| folder.join(&name).is_file())
}
