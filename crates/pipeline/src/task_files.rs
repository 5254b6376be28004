//! Tasks on disk: reading a folder, writing an editable copy.

use std::fs;
use std::path::Path;

use assize_domain::builtin;
use assize_domain::problem::Problem;
use assize_domain::task::{Task, TaskFiles, TaskScenarios};

use crate::{PipelineError, Result};

/// A task's folder holds text of moderate size; anything larger is a mistake.
const MAX_FILE_BYTES: u64 = 512 * 1024 * 1024;

/// The place of a built-in task, as runs name it.
pub const BUILT_IN: &str = "built in";

/// Where the files of the task are that the user named, as runs record it: [`BUILT_IN`] or an
/// absolute path.
pub fn source_of(name_or_folder: &str) -> String {
    if builtin::NAMES.contains(&name_or_folder) {
        return BUILT_IN.to_owned();
    }
    let folder = Path::new(name_or_folder);
    let absolute = folder
        .canonicalize()
        .or_else(|_| std::path::absolute(folder));
    absolute.map_or_else(
        |_| name_or_folder.to_owned(),
        |path| path.display().to_string(),
    )
}

/// Loads the task that the user named: a built-in name or a folder.
pub fn load(name_or_folder: &str) -> Result<Task> {
    parsed(name_or_folder, Task::parse)
}

/// Loads only the scenarios of a task.
pub fn load_scenarios(name_or_folder: &str) -> Result<TaskScenarios> {
    parsed(name_or_folder, TaskScenarios::parse)
}

fn parsed<T>(
    name_or_folder: &str,
    parse: fn(&TaskFiles) -> std::result::Result<T, Vec<Problem>>,
) -> Result<T> {
    let files = read(name_or_folder)?;
    parse(&files).map_err(|problems| PipelineError::Task {
        name: name_or_folder.to_owned(),
        problems,
    })
}

/// The files of the task that the user named. A folder wins over a built-in of that name
/// only when it is written as a path.
pub fn read(name_or_folder: &str) -> Result<TaskFiles> {
    if let Some(files) = builtin::files(name_or_folder) {
        return Ok(files);
    }
    let folder = Path::new(name_or_folder);
    if !folder.is_dir() {
        return Err(PipelineError::Invalid(format!(
            "there is no task '{name_or_folder}': it is neither a built-in task ({}) nor a folder",
            builtin::DEFAULT
        )));
    }
    let mut files = TaskFiles::new();
    read_folder(folder, "", &mut files)?;
    Ok(files)
}

fn read_folder(folder: &Path, prefix: &str, files: &mut TaskFiles) -> Result<()> {
    let failed = |path: &Path, reason: String| PipelineError::File {
        path: path.display().to_string(),
        reason,
    };
    let entries = fs::read_dir(folder).map_err(|error| failed(folder, error.to_string()))?;
    for entry in entries {
        let entry = entry.map_err(|error| failed(folder, error.to_string()))?;
        let path = entry.path();
        let Some(name) = entry.file_name().to_str().map(str::to_owned) else {
            continue;
        };
        if name.starts_with('.') {
            continue;
        }
        if path.is_dir() {
            // A task is two levels deep: its folder and the folder of prompts.
            if prefix.is_empty() {
                read_folder(&path, &format!("{name}/"), files)?;
            }
            continue;
        }
        let is_ours = ["toml", "md", "jsonl", "csv"]
            .iter()
            .any(|it| path.extension().is_some_and(|e| e == *it));
        if !is_ours {
            continue;
        }
        let size = entry
            .metadata()
            .map_err(|error| failed(&path, error.to_string()))?
            .len();
        if size > MAX_FILE_BYTES {
            return Err(failed(
                &path,
                format!("is {} MB: a task's file has 512 MB at most", size >> 20),
            ));
        }
        let bytes = fs::read(&path).map_err(|error| failed(&path, error.to_string()))?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let line = error.as_bytes()[..error.utf8_error().valid_up_to()]
                .split(|byte| *byte == b'\n')
                .count();
            let problem = Problem::new(
                &format!("{prefix}{name}"),
                Some(line),
                "is not UTF-8 here: save it as UTF-8",
            );
            PipelineError::Task {
                name: folder.display().to_string(),
                problems: vec![problem],
            }
        })?;
        let text = text
            .strip_prefix('\u{feff}')
            .unwrap_or(&text)
            .replace("\r\n", "\n");
        files.insert(format!("{prefix}{name}"), text);
    }
    Ok(())
}

/// Writes an editable copy of a built-in task. A folder that holds anything is left alone.
pub fn init(task: &str, folder: &Path) -> Result<Vec<String>> {
    let Some(files) = builtin::files(task) else {
        return Err(PipelineError::Invalid(format!(
            "there is no built-in task '{task}' to copy: use {}",
            builtin::DEFAULT
        )));
    };
    let failed = |reason: std::io::Error| PipelineError::File {
        path: folder.display().to_string(),
        reason: reason.to_string(),
    };
    if folder.exists() && fs::read_dir(folder).map_err(failed)?.next().is_some() {
        return Err(PipelineError::Invalid(format!(
            "{} is not empty: name a new folder, nothing was written",
            folder.display()
        )));
    }
    for (path, text) in &files {
        let path = folder.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        fs::write(&path, text).map_err(failed)?;
    }
    Ok(files.into_keys().collect())
}
