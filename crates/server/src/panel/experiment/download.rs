//! The board as a file: the same bytes as `assize compare` writes.

use assize_pipeline::compare::{CurrentScenarios, compare_finding};
use assize_pipeline::{PipelineError, seal};
use assize_report::{csv, html};
use axum::extract::State;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
};
use axum::response::IntoResponse as _;

use super::requested_options;
use crate::App;
use crate::boards::Boards;
use crate::panel::fields::{Fields, Path, Query};
use crate::panel::page::{PageResult, blocking};

/// The formats that are offered.
#[derive(Debug, Clone, Copy)]
enum Format {
    Csv,
    Html,
    Json,
}

impl Format {
    const fn extension(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Html => "html",
            Self::Json => "json",
        }
    }

    const fn media_type(self) -> &'static str {
        match self {
            Self::Csv => "text/csv; charset=utf-8",
            Self::Html => "text/html; charset=utf-8",
            Self::Json => "application/json",
        }
    }
}

pub(crate) async fn csv(app: State<App>, name: Path, query: Query) -> PageResult {
    file(app.0, name.0, query.0, Format::Csv).await
}

pub(crate) async fn html(app: State<App>, name: Path, query: Query) -> PageResult {
    file(app.0, name.0, query.0, Format::Html).await
}

pub(crate) async fn json(app: State<App>, name: Path, query: Query) -> PageResult {
    file(app.0, name.0, query.0, Format::Json).await
}

async fn file(app: App, experiment: String, fields: Fields, format: Format) -> PageResult {
    super::pending(&app, &experiment).await?;
    let options = requested_options(&experiment, &fields)?;
    let text = blocking(&app, move |app| {
        let store = app.tracking.as_ref();
        seal::check(store, &options.experiment, options.split, None)?;
        Ok(match format {
            Format::Csv => csv::render(&Boards::get_blocking(app, &options)?.board),
            Format::Json => {
                let cached = Boards::get_blocking(app, &options)?;
                let json = serde_json::to_string_pretty(&cached.board);
                json.map_err(|error| PipelineError::Internal(error.to_string()))? + "\n"
            }
            Format::Html => {
                let rule = app.config.thresholds.decision_rule();
                let experiment = options.experiment.clone();
                let scored = compare_finding(store, options, rule, || {
                    let found = app.config.task_of(store, &experiment)?;
                    Ok::<_, PipelineError>(found.task().map(CurrentScenarios::from))
                })?;
                let answers = scored.report_answers(store)?;
                let at = (app.config.clock)().rfc3339;
                html::render_with(&scored.compared.board, &answers, &at)
            }
        })
    })
    .await?;
    let disposition = format!(
        "attachment; filename=\"{}-board.{}\"",
        plain(&experiment),
        format.extension()
    );
    let headers = [
        (CONTENT_TYPE, format.media_type().to_owned()),
        (CONTENT_DISPOSITION, disposition),
        (CACHE_CONTROL, "no-store".to_owned()),
        // A browser that shows the file anyway runs nothing in it.
        (
            CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'unsafe-inline'; sandbox".to_owned(),
        ),
    ];
    Ok((headers, text).into_response())
}

/// A name as part of a file's name.
fn plain(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let letters = name.chars().map(|c| if is_plain(c) { c } else { '_' });
    letters.take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_plain() {
        assert_eq!(plain("a b/\"é\r\n.csv"), "a_b_____.csv");
        assert_eq!(plain(&"x".repeat(200)).len(), 80);
    }
}
