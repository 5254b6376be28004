//! The forms of the policies page: promotion, rollback, the switch of a shadow, a simulation.

use assize_domain::error_kind::ErrorKind;
use assize_domain::job::JobKind;
use assize_pipeline::policies::rollout::{Signed, rollback as go_back, shadow_switch};
use assize_store::policies::PolicyAction;
use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect};
use serde_json::{Map, Value, json};

use super::{LONGEST_REASON, configured, render, run_gate};
use crate::App;
use crate::api::jobs::plan;
use crate::panel::fields::{Fields, Form, named, query};
use crate::panel::page::{PageError, PageResult, Visit, blocking};

/// An error unless the history is as the form showed it.
fn check_number(app: &App, fields: &Fields) -> Result<(), PageError> {
    let latest = app.policies.file().history_latest()?;
    let number = latest.map_or(0, |it| it.number);
    let seen = fields.get("number").and_then(|it| it.parse::<u32>().ok());
    if seen == Some(number) {
        return Ok(());
    }
    let message = "The policies have changed since this form was shown.";
    Err(PageError::new(ErrorKind::Conflict, message))
}

fn signed<'a>(visit: &'a Visit, reason: &'a str) -> Signed<'a> {
    Signed {
        author: &visit.name,
        reason,
        now_ms: visit.now_ms,
    }
}

fn reason(fields: &Fields) -> Result<String, PageError> {
    let reason = fields.owned("reason").unwrap_or_default();
    let length = reason.chars().count();
    if length > LONGEST_REASON {
        let message = format!("The reason has {length} characters; the limit is {LONGEST_REASON}.");
        return Err(PageError::invalid(message));
    }
    Ok(reason)
}

/// Runs the gate again and makes the candidate active.
pub(crate) async fn promote(
    State(app): State<App>,
    visit: Visit,
    Form(fields): Form,
) -> PageResult {
    blocking(&app, move |app| {
        check_number(app, &fields)?;
        let name = fields.owned("candidate").unwrap_or_default();
        let reason = reason(&fields)?;
        let signed = signed(&visit, &reason);
        let (_, entry) = run_gate(app, &visit, &name, Some(&signed))?;
        let back = match entry {
            Some(_) => query(&[("done", Some("promoted"))]),
            None => query(&[("candidate", Some(name.as_str()))]),
        };
        Ok(Redirect::to(&format!("/policies{back}")).into_response())
    })
    .await
}

/// Makes the policy before active again.
pub(crate) async fn rollback(
    State(app): State<App>,
    visit: Visit,
    Form(fields): Form,
) -> PageResult {
    blocking(&app, move |app| {
        check_number(app, &fields)?;
        let reason = reason(&fields)?;
        let signed = signed(&visit, &reason);
        let setting = app.policies.config().active;
        let action = PolicyAction::Rollback;
        go_back(app.policies.file(), setting, action, &signed, Value::Null)?;
        Ok(Redirect::to("/policies?done=rolled-back").into_response())
    })
    .await
}

/// Turns a shadow on or off.
pub(crate) async fn switch(State(app): State<App>, visit: Visit, Form(fields): Form) -> PageResult {
    blocking(&app, move |app| {
        check_number(app, &fields)?;
        let name = fields.get("shadow").unwrap_or_default();
        let shadows = configured(app);
        let Some(shadow) = shadows.iter().find(|it| it.name == name) else {
            let message = format!("There is no shadow '{name}' in the settings.");
            return Err(PageError::new(ErrorKind::NotFound, message));
        };
        let reason = reason(&fields)?;
        let signed = signed(&visit, &reason);
        let enable = fields.get("switch") == Some("on");
        shadow_switch(app.policies.file(), shadow, enable, &signed)?;
        Ok(Redirect::to("/policies?done=shadow").into_response())
    })
    .await
}

/// Queues a simulation and redirects to its job.
pub(crate) async fn simulate(
    State(app): State<App>,
    visit: Visit,
    Form(fields): Form,
) -> PageResult {
    blocking(&app, move |app| {
        let mut request = Map::new();
        for key in ["steps", "seeds"] {
            let given = fields.get(key).filter(|it| !it.is_empty());
            if let Some(text) = given {
                let number = text
                    .parse::<u64>()
                    .map_or_else(|_| json!(text), |it| json!(it));
                request.insert(key.to_owned(), number);
            }
        }
        match plan(app, JobKind::Simulate, &request) {
            Ok(plan) => {
                let request = Value::Object(request).to_string();
                let job = app.jobs.submit(plan, request, &visit.name)?;
                Ok(Redirect::to(&format!("/jobs/{}", job.id)).into_response())
            }
            Err(problems) => {
                let problems = named(&problems, JobKind::Simulate);
                render(app, &visit, &Fields::default(), problems)
            }
        }
    })
    .await
}
