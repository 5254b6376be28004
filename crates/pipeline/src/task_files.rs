//! Tasks on disk: reading a folder, writing an editable copy.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use assize_domain::image::{self, Image};
use assize_domain::problem::Problem;
use assize_domain::task::{Task, TaskFiles, TaskScenarios};
use assize_domain::{builtin, templates};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

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
    let mut task = parsed(name_or_folder, Task::parse)?;
    if let Some(field) = task.images_field.clone() {
        task.images = images(Path::new(name_or_folder), &task, &field)?;
    }
    Ok(task)
}

/// The images that the scenarios name, read from the task's folder.
fn images(folder: &Path, task: &Task, field: &str) -> Result<BTreeMap<String, Arc<Image>>> {
    let named = image::all_named(&task.scenarios, field).map_err(PipelineError::Invalid)?;
    let mut images = BTreeMap::new();
    for name in named {
        let path = folder.join(&name);
        let failed = |reason: String| PipelineError::File {
            path: path.display().to_string(),
            reason,
        };
        // A link must not lead out of the folder.
        let inside = folder.canonicalize().ok().zip(path.canonicalize().ok());
        if inside.is_some_and(|(folder, path)| !path.starts_with(folder)) {
            return Err(failed("is not in the task's folder".to_owned()));
        }
        let size = fs::metadata(&path)
            .map_err(|error| failed(error.to_string()))?
            .len();
        let most = image::MOST_BYTES as u64;
        if size > most {
            return Err(failed(format!(
                "has {} MB: an image may have {} MB at most",
                size >> 20,
                most >> 20
            )));
        }
        let bytes = fs::read(&path).map_err(|error| failed(error.to_string()))?;
        let image = Image::new(&bytes, |bytes| BASE64.encode(bytes)).map_err(failed)?;
        images.insert(name, Arc::new(image));
    }
    Ok(images)
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
        let is_ours = ["toml", "md", "jsonl", "csv", "json"]
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
    write_new(&files, folder)?;
    Ok(files.into_keys().collect())
}

/// Writes a template as a task that is named after its folder.
pub fn init_template(template: &str, folder: &Path) -> Result<Vec<String>> {
    let name = folder.file_name().map(|it| it.to_string_lossy());
    let name: String = name
        .unwrap_or_default()
        .to_lowercase()
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '_' {
                c
            } else {
                '-'
            }
        })
        .collect();
    let name = name.trim_matches('-');
    let name = if name.is_empty() { template } else { name };
    let Some(files) = templates::files(template, name) else {
        let known: Vec<&str> = templates::names().collect();
        return Err(PipelineError::Invalid(format!(
            "there is no template '{template}': use {}",
            known.join(", ")
        )));
    };
    write_new(&files, folder)?;
    Ok(files.into_keys().collect())
}

/// Writes a task as a new folder, which appears whole or not at all. A folder that holds anything is
/// left alone.
pub fn write_new(files: &TaskFiles, folder: &Path) -> Result<()> {
    check_new(folder)?;
    let failed = |source: std::io::Error| PipelineError::NotWritten {
        path: folder.display().to_string(),
        source,
    };
    let whole = std::path::absolute(folder).map_err(failed)?;
    let name = whole
        .file_name()
        .map(|it| it.to_string_lossy().into_owned());
    let partial = format!(
        ".{}.{}.partial",
        name.unwrap_or_default(),
        std::process::id()
    );
    let partial = whole.with_file_name(partial);
    let written = fill(files, &partial).and_then(|()| fs::rename(&partial, &whole));
    if written.is_err() {
        let _ = fs::remove_dir_all(&partial);
    }
    written.map_err(failed)
}

/// Refuses a folder that holds anything, and a file.
pub fn check_new(folder: &Path) -> Result<()> {
    let remedy = "name a new folder, nothing was written";
    let refused = |what: &str| {
        let message = format!("{} {what}: {remedy}", folder.display());
        Err(PipelineError::Invalid(message))
    };
    match fs::read_dir(folder).map(|mut it| it.next().is_some()) {
        Ok(true) => refused("is not empty"),
        Err(_) if folder.exists() => refused("is not a folder that can be read"),
        Ok(false) | Err(_) => Ok(()),
    }
}

fn fill(files: &TaskFiles, folder: &Path) -> std::io::Result<()> {
    for (path, text) in files {
        let path = folder.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let mut file = fs::File::create(&path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
    }
    Ok(())
}
