//! `assize serve`: everything over HTTP.

use std::io::{self, IsTerminal as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::bail;
use assize_domain::role::Role;
use assize_domain::task::TaskDefaults;
use assize_pipeline::PipelineError;
use assize_server::{AccessConfig, Config, EndObserver, PoliciesServer, ServerError};
use assize_store::Tracking;
use assize_store::state::State;
use serde_json::json;

use crate::Exit;
use crate::cli::{Only, Serve};
use crate::commands::judge::sitting::{self, Notifier};
use crate::environment::{self, STATE_DIR};
use crate::session::Session;
use crate::settings::Settings;
use crate::tracking;

mod mlflow_ui;
mod plan;

pub fn run(session: &Session, args: &Serve) -> anyhow::Result<Exit> {
    let settings = session.layers(&TaskDefaults::default())?.finish()?;
    let is_open = args.open_loopback || settings.serve_open_loopback;
    check(args, is_open)?;
    start_log(&settings)?;
    if args.only == Some(Only::Policies) {
        mlflow_ui::refuse_alone(args)?;
        return run_policies(session, args, &settings);
    }
    let pages = mlflow_ui::find(args, session.tracking_uri())?;
    let state = Arc::new(State::open(Path::new(STATE_DIR))?);
    let stores = session.served_stores(&state)?;
    let part = Part {
        only: None,
        what: session.tracking_uri(),
        shows_mlflow: args.mlflow_ui.is_some(),
    };
    let announce = |address| announce(session, address, part, (&state, is_open));
    let teller = Notifier::new(session);
    let ended = EndObserver::new(teller.observer());
    let shared = (stores.tracking(), Arc::clone(&state), ended);
    let config = Config {
        mlflow_pages: pages,
        ..config(session, args, &settings, shared)?
    };
    let place = (args.host, args.port);
    let served = assize_server::run(stores, Arc::clone(&state), config, place, announce);
    teller.wait();
    served?;
    Ok(Exit::Done)
}

/// Serves the policies alone; no tracking store is opened.
fn run_policies(session: &Session, args: &Serve, settings: &Settings) -> anyhow::Result<Exit> {
    let folder = Path::new(STATE_DIR);
    let state = Arc::new(State::open(folder)?);
    let config = PoliciesServer {
        access: access(session, args, settings),
        policies: settings.policy.config(folder),
        clock: environment::now,
    };
    let what = format!("the policies of {}", config.policies.path.display());
    let is_open = config.access.open_loopback;
    let part = Part {
        only: args.only,
        what: &what,
        shows_mlflow: false,
    };
    let announce = |address| announce(session, address, part, (&state, is_open));
    let place = (args.host, args.port);
    assize_server::run_policies(Arc::clone(&state), config, place, announce)?;
    Ok(Exit::Done)
}

/// Refuses what would let in more than the user said.
fn check(args: &Serve, is_open: bool) -> anyhow::Result<()> {
    if args.host.to_canonical().is_loopback() {
        return Ok(());
    }
    let remedy = match (args.allow_remote, is_open) {
        (false, _) => "say --allow-remote, or leave --host out",
        (true, true) => "leave --open-loopback (or serve_open_loopback) out",
        (true, false) => return Ok(()),
    };
    bail!(PipelineError::Invalid(format!(
        "{} can be reached from other machines: {remedy}",
        args.host
    )))
}

/// Makes the first admin's token, where there is none.
fn first_token(session: &Session, state: &State) -> Result<Option<String>, ServerError> {
    let mut tokens = state.token_list()?;
    tokens.retain(|it| it.revoked_ms.is_none());
    if tokens.iter().any(|it| it.role == Role::Admin) {
        return Ok(None);
    }
    let name = user(session);
    let name = Some(name.as_str()).filter(|name| tokens.iter().all(|it| it.name != *name));
    let tools = (environment::now as fn() -> _, environment::entropy as _);
    let (_, secret) = assize_server::token_create(state, Role::Admin, name, tools)?;
    Ok(Some(secret))
}

fn user(session: &Session) -> String {
    session
        .environment
        .user()
        .unwrap_or_else(|| "admin".to_owned())
}

/// What is served.
#[derive(Debug, Clone, Copy)]
struct Part<'a> {
    only: Option<Only>,
    what: &'a str,
    shows_mlflow: bool,
}

/// Says what is served where. A token is shown once, so the first one is made here, when nothing can
/// come between any more.
fn announce(
    session: &Session,
    address: SocketAddr,
    part: Part<'_>,
    (state, is_open): (&State, bool),
) -> Result<(), ServerError> {
    let token = if is_open {
        None
    } else {
        first_token(session, state)?
    };
    let token = token.as_deref();
    Ok(announced(session, address, part, (token, is_open))?)
}

fn announced(
    session: &Session,
    address: SocketAddr,
    Part {
        only,
        what,
        shows_mlflow,
    }: Part<'_>,
    (token, is_open): (Option<&str>, bool),
) -> io::Result<()> {
    let url = format!("http://{address}");
    let pages = shows_mlflow.then(|| format!("{url}{}", assize_server::MLFLOW_PAGES));
    if session.output.json {
        let mut line = json!({"event": "serving", "url": url});
        if let Some(pages) = pages {
            line["mlflow_ui"] = pages.into();
        }
        if let Some(token) = token {
            line["token"] = token.into();
        }
        return session.output.json_line(&line);
    }
    let mut text = format!("Serving {what} at {url}; Ctrl-C stops\n");
    if let Some(pages) = pages {
        text.push_str(&format!("MLflow's own pages are at {pages}\n"));
    }
    if let Some(token) = token {
        let use_it = match only {
            None if tracking::is_server(what) => format!("Sign in with it at {url}"),
            None => format!(
                "Sign in with it at {url}, or: export MLFLOW_TRACKING_URI={url} MLFLOW_TRACKING_TOKEN={token}"
            ),
            Some(Only::Policies) => "Send it as the header Authorization: Bearer TOKEN; \
                 assize token create --role service makes one for an application"
                .to_owned(),
        };
        text.push_str(&format!(
            "\nThe admin's token, shown this once (assize token create makes others):\n\n  {token}\n\n\
             {use_it}\n"
        ));
    } else if !is_open && only.is_none() {
        text.push_str("Sign in with a token; assize token create --role admin makes another\n");
    }
    session.output.data(&text)
}

/// People read lines, machines read JSON.
fn start_log(settings: &Settings) -> anyhow::Result<()> {
    let level: tracing::Level = settings.serve_log.parse()?;
    let log = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_target(false)
        .with_writer(io::stderr);
    if io::stderr().is_terminal() {
        log.with_ansi(true).init();
    } else {
        log.json().flatten_event(true).init();
    }
    Ok(())
}

/// Task folders that runs may name: the server's own, those below its working directory, and those
/// that are allowed.
pub fn task_folders(session: &Session, allowed: &[String]) -> Vec<PathBuf> {
    let named = [".", session.task_name.as_str()].into_iter();
    let places = named.chain(allowed.iter().map(String::as_str));
    let folders = places.filter_map(|it| Path::new(it).canonicalize().ok());
    folders.filter(|it| it.is_dir()).collect()
}

fn access(session: &Session, args: &Serve, settings: &Settings) -> AccessConfig {
    let names = args.allowed_host.iter();
    AccessConfig {
        host_names: names.map(|it| it.to_ascii_lowercase()).collect(),
        open_loopback: args.open_loopback || settings.serve_open_loopback,
        user: user(session),
    }
}

fn config(
    session: &Session,
    args: &Serve,
    settings: &Settings,
    (store, state, ended): (Arc<dyn Tracking>, Arc<State>, EndObserver),
) -> anyhow::Result<Config> {
    let task = session.task()?;
    let mut allowed = settings.serve_allow.clone();
    allowed.extend(args.allow.iter().cloned());
    Ok(Config {
        program: environment::program()?,
        state_dir: PathBuf::from(STATE_DIR),
        locks: sitting::locks(),
        tracking_uri: session.tracking_uri().to_owned(),
        job_credentials: session.job_credentials(),
        task: session.task_name.clone(),
        task_folders: task_folders(session, &allowed),
        no_anchors: args.no_anchors,
        options: session.layers(&task.defaults)?.finish()?.options,
        thresholds: settings.gate.clone(),
        access: access(session, args, settings),
        policies: settings.policy.config(Path::new(STATE_DIR)),
        ollama_urls: settings.options.ollama_url.clone(),
        clock: environment::now,
        entropy: environment::entropy,
        plan: plan::planner(session, settings, allowed, (store, state, args.no_anchors)),
        ended,
        mlflow_pages: None,
    })
}
