//! `assize import`: a task folder from a data set or a promptfoo configuration.

use std::path::Path;

use assize_domain::task::Task;
use assize_import::{Import as Imported, NOTES_FILE, dataset, promptfoo};
use assize_pipeline::{PipelineError, task_files};
use serde_json::json;

use crate::Exit;
use crate::cli::Import;
use crate::output::safe;
use crate::session::Session;

/// The largest file that is read.
const MOST_BYTES: u64 = 512 << 20;
/// The most notes that are printed; the file has them all.
const MOST_NOTES: usize = 20;

pub fn run(session: &Session, args: &Import) -> anyhow::Result<Exit> {
    let (file, dir) = match args {
        Import::Dataset { file, dir, .. } | Import::Promptfoo { file, dir } => (file, dir),
    };
    task_files::check_new(dir)?;
    let shown = file.display().to_string();
    if let Import::Dataset { .. } = args {
        let known = dataset::read::format_of(&shown);
        known.map_err(|error| PipelineError::Invalid(error.0))?;
    }
    let text = read(file).map_err(|reason| PipelineError::File {
        path: shown.clone(),
        reason,
    })?;
    let name = dir.file_name().map(|it| it.to_string_lossy().into_owned());
    let name = name.unwrap_or_else(|| "task".to_owned());
    let imported = match args {
        Import::Dataset { map, .. } => dataset::import(dataset::Source {
            file: &shown,
            text: &text,
            name: &name,
            maps: map,
        }),
        Import::Promptfoo { .. } => {
            let folder = file.parent().unwrap_or(Path::new(""));
            promptfoo::import(promptfoo::Source {
                file: &shown,
                text: &text,
                name: &name,
                read: &|path| read(&folder.join(path)),
                list: &|path| list(&folder.join(path)),
            })
        }
    };
    let imported = imported.map_err(|error| PipelineError::Invalid(error.0))?;
    Task::parse(&imported.files).map_err(|problems| PipelineError::Task {
        name: format!("the task made from {shown}; nothing was written"),
        problems,
    })?;
    task_files::write_new(&imported.files, dir)?;
    report(session, &imported, dir)?;
    Ok(Exit::Done)
}

fn read(path: &Path) -> Result<String, String> {
    let size = std::fs::metadata(path)
        .map_err(|error| error.to_string())?
        .len();
    if size > MOST_BYTES {
        return Err(format!("is {} MB: 512 MB at most are read", size >> 20));
    }
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = valid.split(|byte| *byte == b'\n').count();
        format!("is not UTF-8 in line {line}: save it as UTF-8")
    })
}

/// The names of the files in a folder; none where it cannot be read.
fn list(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|it| it.file_name().into_string().ok())
        .collect()
}

fn report(session: &Session, imported: &Imported, dir: &Path) -> anyhow::Result<()> {
    let shown = dir.display().to_string();
    let Imported {
        scenarios,
        prompts,
        notes,
        models,
        ..
    } = imported;
    if session.output.json {
        let files: Vec<&String> = imported.files.keys().collect();
        return Ok(session.output.json_line(&json!({
            "dir": dir, "files": files, "scenarios": scenarios, "prompts": prompts, "models": models,
            "notes": notes,
        }))?);
    }
    let say = |text: &str| session.output.say(text);
    say(&format!(
        "Wrote the task {}: scenarios {scenarios}, prompts {prompts}.",
        safe(&shown)
    ));
    if !notes.is_empty() {
        say(&format!(
            "Not carried over ({} in {NOTES_FILE}):",
            notes.len()
        ));
        for note in notes.iter().take(MOST_NOTES) {
            say(&format!("  {}", safe(note).replace('\n', " ")));
        }
        if notes.len() > MOST_NOTES {
            say(&format!("  … and {} more", notes.len() - MOST_NOTES));
        }
    }
    let models = models.join(",");
    let mut flags = vec![("--task", shown.as_str())];
    if !models.is_empty() {
        flags.push(("--models", models.as_str()));
    }
    flags.push(("--experiment", "first"));
    say(&session.next("collect", &flags));
    Ok(())
}
