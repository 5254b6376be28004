//! Small tasks to start from, one for each common kind of work; `assize init --template` writes them.

use crate::task::{TASK_FILE, TaskFiles};

macro_rules! template {
    ($name:literal: $($path:literal),+) => {
        ($name, &[$(($path, include_str!(concat!("../../../tasks/templates/", $name, "/", $path)))),+])
    };
}

/// Name, and files with their texts.
type Template = (&'static str, &'static [(&'static str, &'static str)]);

const TEMPLATES: [Template; 5] = [
    template!("classify": "task.toml", "scenarios.csv", "rubric.md", "prompts/v1.md", "prompts/v2-list.md"),
    template!("extract": "task.toml", "scenarios.jsonl", "rubric.md", "prompts/v1.md", "prompts/v2-example.md"),
    template!("summarise": "task.toml", "scenarios.toml", "rubric.md", "prompts/v1.md", "prompts/v2-decision.md"),
    template!("chat": "task.toml", "scenarios.jsonl", "rubric.md", "prompts/v1.md", "prompts/v2-steps.md"),
    template!("empty": "task.toml", "scenarios.toml", "rubric.md", "prompts/v1.md"),
];

/// All names.
pub fn names() -> impl Iterator<Item = &'static str> {
    TEMPLATES.iter().map(|(name, _)| *name)
}

/// The files of a template, as a task of another name: two tasks must not share one.
pub fn files(template: &str, task: &str) -> Option<TaskFiles> {
    let (name, files) = TEMPLATES.iter().find(|(name, _)| *name == template)?;
    let files = files.iter().map(|(path, text)| {
        let text = if *path == TASK_FILE {
            text.replacen(
                &format!("name = \"{name}\""),
                &format!("name = \"{task}\""),
                1,
            )
        } else {
            (*text).to_owned()
        };
        ((*path).to_owned(), text)
    });
    Some(files.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::Task;

    #[test]
    fn every_template_is_a_sound_task() {
        for name in names() {
            let task = Task::parse(&files(name, "mine").unwrap());
            assert_eq!(
                task.unwrap_or_else(|it| panic!("{name}: {it:?}")).name,
                "mine"
            );
        }
        assert!(files("nothing", "mine").is_none());
    }
}
