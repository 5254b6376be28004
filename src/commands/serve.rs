//! `assize serve`: what is tracked, over HTTP.

use std::io;
use std::net::{IpAddr, SocketAddr};

use anyhow::bail;
use assize_domain::task::TaskDefaults;
use assize_pipeline::PipelineError;
use assize_server::{Access, SHORTEST_TOKEN};
use serde_json::json;

use crate::Exit;
use crate::cli::Serve;
use crate::session::Session;
use crate::settings::Settings;

pub fn run(session: &Session, args: &Serve) -> anyhow::Result<Exit> {
    let settings = session.layers(&TaskDefaults::default())?.finish()?;
    let access = access(args, &settings)?;
    let store = session.embedded_store(false)?;
    let announce = |address: SocketAddr| -> io::Result<()> {
        let url = format!("http://{address}");
        if session.output.json {
            session
                .output
                .json_line(&json!({"event": "serving", "url": url}))
        } else {
            session.output.data(&format!(
                "Serving {} at {url} (MLFLOW_TRACKING_URI={url}); Ctrl-C stops",
                session.tracking_uri()
            ))
        }
    };
    assize_server::run(store, access, (args.host, args.port), announce)?;
    Ok(Exit::Done)
}

/// Who may come in; refuses what would let in more than the user said.
fn access(args: &Serve, settings: &Settings) -> anyhow::Result<Access> {
    let token = settings.serve_token.trim();
    let is_open = args.open_loopback || settings.serve_open_loopback;
    if !token.is_empty() && token.len() < SHORTEST_TOKEN {
        bail!(PipelineError::Invalid(format!(
            "the token of `assize serve` has {} characters: use at least {SHORTEST_TOKEN}",
            token.len()
        )));
    }
    if !is_loopback(args.host) && (!args.allow_remote || token.is_empty()) {
        bail!(PipelineError::Invalid(format!(
            "{} can be reached from other machines: say --allow-remote and set \
             ASSIZE_SERVE_TOKEN, or leave --host out",
            args.host
        )));
    }
    if token.is_empty() && !is_open {
        bail!(PipelineError::Invalid(
            "nobody could come in: set ASSIZE_SERVE_TOKEN (for example to the output of `openssl \
             rand -hex 16`), or say --open-loopback to let every program on this machine in"
                .to_owned()
        ));
    }
    Ok(Access {
        token: (!token.is_empty()).then(|| token.to_owned()),
        hosts: args
            .allowed_host
            .iter()
            .map(|it| it.to_ascii_lowercase())
            .collect(),
    })
}

fn is_loopback(host: IpAddr) -> bool {
    host.to_canonical().is_loopback()
}
