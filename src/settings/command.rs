//! `[command.NAME]`: programs that are models.

use assize_providers::command::CommandModel;
use serde::Deserialize;

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandSettings {
    /// The program and its arguments.
    run: Vec<String>,
    /// How many parameters its model has, where that is known.
    parameters: Option<f64>,
    #[serde(default)]
    version: String,
}

impl CommandSettings {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a number of parameters is positive and far below 2^64"
    )]
    pub fn model(&self, name: &str) -> CommandModel {
        CommandModel {
            name: name.to_owned(),
            run: self.run.clone(),
            parameters: self.parameters.map(|it| it as u64),
            version: self.version.clone(),
        }
    }

    pub(super) fn problems(&self, name: &str) -> Vec<(String, String)> {
        let mut problems = Vec::new();
        if self.run.first().is_none_or(String::is_empty) {
            let message = "names no program: write run = [\"PROGRAM\", \"ARGUMENT\"]".to_owned();
            problems.push((format!("command.{name}.run"), message));
        }
        if self.parameters.is_some_and(|it| !(1.0..1e15).contains(&it)) {
            let message = "must be a number of parameters, for example 0.5e9".to_owned();
            problems.push((format!("command.{name}.parameters"), message));
        }
        problems
    }
}
