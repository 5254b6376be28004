//! The page in place of a sealed board, and the form that unseals it.
//!
//! Unsealing is for one page: the response to the form is the board itself, and the address still
//! shows the explanation.

use askama::Template;
use assize_domain::ledger::Via;
use assize_domain::scenario::Split;
use assize_pipeline::seal;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use super::{Top, board, grid, pending, requested_options};
use crate::App;
use crate::panel::fields::{Fields, Form, Path};
use crate::panel::page::{Frame, PageError, PageResult, Visit, blocking, with_status};
use crate::unsealing::author;

#[derive(Template)]
#[template(path = "sealed.html")]
struct SealedPage {
    frame: Frame,
    top: Top,
    /// The fields of the form.
    fields: Vec<(&'static str, String)>,
}

/// The explanation, if the requested board is sealed.
pub(crate) async fn instead_of_board(
    app: &App,
    experiment: &str,
    fields: &Fields,
    visit: &Visit,
    tab: &'static str,
) -> Result<Option<Response>, PageError> {
    let options = requested_options(experiment, fields)?;
    if options.split != Split::Confirmation {
        return Ok(None);
    }
    let pending = pending(app, experiment).await?;
    let name = experiment.to_owned();
    let is_open = blocking(app, move |app| {
        Ok(seal::is_open(app.tracking.as_ref(), &name)?)
    })
    .await?;
    if is_open {
        return Ok(None);
    }
    let mut kept = vec![
        ("split", Split::Confirmation.to_string()),
        ("tab", tab.to_owned()),
    ];
    for name in ["tier", "incumbent"] {
        kept.extend(fields.owned(name).map(|it| (name, it)));
    }
    let page = SealedPage {
        frame: Frame::new("experiments", visit),
        top: Top {
            name: experiment.to_owned(),
            tab,
            sentence: "The confirmation split is sealed".to_owned(),
            note: None,
            is_auto: false,
            coverage: None,
            warnings: Vec::new(),
            pending,
            kept: String::new(),
        },
        fields: kept,
    };
    with_status(StatusCode::FORBIDDEN, &page).map(Some)
}

/// Records a look, and shows the board.
pub(crate) async fn unseal(
    State(app): State<App>,
    Path(experiment): Path,
    visit: Visit,
    Form(fields): Form,
) -> PageResult {
    let (name, by) = (experiment.clone(), visit.name.clone());
    blocking(&app, move |app| {
        let author = author(app, &by, Via::Panel);
        let split = Split::Confirmation;
        Ok(seal::check(
            app.tracking.as_ref(),
            &name,
            split,
            Some(&author),
        )?)
    })
    .await?;
    match fields.get("tab") {
        Some("grid") => grid::render(&app, &experiment, &fields, &visit).await,
        _ => board::render(&app, &experiment, &fields, &visit).await,
    }
}
