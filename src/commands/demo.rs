//! `assize demo`: the main job on embedded defaults.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use assize_domain::anchor::Anchors;
use assize_domain::leaderboard::BoardTier;
use assize_domain::run::param;
use assize_domain::scenario::Split;
use assize_pipeline::compare::candidates;
use assize_pipeline::counted;
use assize_store::{RunQuery, Tracking};

use crate::Exit;
use crate::cli::{AutoFlags, Compare, Demo, Format, Serve};
use crate::commands::{collect, compare, judge, models, serve};
use crate::session::{self, EMBEDDED_DEFAULT, Session};

/// Where the report is written.
const REPORT: &str = "demo.html";
/// Cases that the small model scores: enough for a board, and done in seconds.
const JUDGED_CASES: u32 = 24;
/// Where `assize serve` listens by default.
const PORT: u16 = 4658;

/// Collects a small grid with the embedded model, judges it automatically, prints the board.
pub fn run(session: &Session, args: &Demo) -> anyhow::Result<Exit> {
    let output = &session.output;
    let name = EMBEDDED_DEFAULT.trim_start_matches("embedded:");
    models::pull(session, name)?;
    let task = session.task()?;
    let mut layers = session.layers(&task.defaults)?;
    layers.flag("models", Some(EMBEDDED_DEFAULT.to_owned()));
    layers.flag("n_tips", Some(args.n_tips));
    layers.flag("max_tokens", Some(64));
    layers.flag("experiment", Some(args.experiment.clone()));
    let settings = layers.finish()?;
    let stop = session::stop_flag()?;

    output.say("\n1/3  Collect: every prompt on the same eight scenarios");
    let plan = collect::plan(session, task, &settings, None)?;
    let (summary, error) = collect::execute(session, &plan, &stop, false)?;
    if let Some(error) = error {
        return Err(error.into());
    }
    if summary.interrupted {
        return Ok(Exit::Interrupted);
    }
    output.say(&format!(
        "     {} collected, {} there already",
        counted(summary.collected, "cell", "cells"),
        summary.skipped
    ));
    let store = session.store(true)?;
    say_flags(session, store.as_ref(), &args.experiment)?;

    let open_cases = cases_to_judge(store.as_ref(), args)?;
    if let Some(limit) = open_cases.filter(|_| !args.no_judge) {
        output.say(
            "\n2/3  Judge: the embedded model scores some candidates blind, against the rubric",
        );
        let judged = judge::auto::judge_automatically(
            session,
            (store.as_ref(), &args.experiment),
            EMBEDDED_DEFAULT,
            // A judge that is noise is not worth calibrating.
            Anchors::default(),
            &AutoFlags {
                limit,
                ..AutoFlags::default()
            },
            &stop,
        )?;
        output.say(&format!(
            "     {} runs judged now, {} left pending",
            judged.judged, judged.left_pending
        ));
        if judged.interrupted {
            return Ok(Exit::Interrupted);
        }
    }

    output.say("\n3/3  Compare\n");
    compare::run(session, &board(session, args))?;
    output.say(&closing(&args.experiment));
    if args.panel {
        return open_panel(session, &args.experiment);
    }
    Ok(if summary.failed > 0 {
        Exit::CellsFailed
    } else {
        Exit::Done
    })
}

/// The board in the terminal, and as a report beside it.
fn board(session: &Session, args: &Demo) -> Compare {
    Compare {
        experiment: args.experiment.clone(),
        tier: (!args.no_judge).then_some(BoardTier::Auto),
        incumbent: None,
        split: Split::Selection,
        unseal: false,
        by: None,
        examples: None,
        format: (!session.output.json).then_some(Format::Table),
        output: vec![PathBuf::from(REPORT)],
        pareto: None,
        fail_under: None,
        fail_unless_winner: false,
        candidate: Vec::new(),
    }
}

/// How many cases are to be judged now: what earlier demos have left of the number, if anything.
fn cases_to_judge(store: &dyn Tracking, args: &Demo) -> anyhow::Result<Option<u32>> {
    let uses = store.rubric_list(&args.experiment)?;
    let judged = uses.iter().map(|it| it.runs - it.auto_pending).sum::<u64>();
    let cases = judged.saturating_mul(u64::from(args.n_tips));
    let left = u64::from(JUDGED_CASES).saturating_sub(cases);
    Ok(u32::try_from(left).ok().filter(|it| *it > 0))
}

/// What is known of every candidate without a judge: how often each flag is set, by prompt.
fn say_flags(session: &Session, store: &dyn Tracking, experiment: &str) -> anyhow::Result<()> {
    let query = RunQuery {
        max_results: 1000,
        ..RunQuery::default()
    };
    let mut set: BTreeMap<String, BTreeMap<String, (usize, usize)>> = BTreeMap::new();
    for run in store.run_list(experiment, &query)?.runs {
        let prompt = run.params.iter().find(|it| it.0 == param::PROMPT);
        let Some((_, prompt)) = prompt else { continue };
        let flags = set.entry(prompt.clone()).or_default();
        for candidate in candidates(store, &run.run_id)? {
            for (name, is_set) in candidate.flags {
                let (yes, all) = flags.entry(name).or_default();
                *yes += usize::from(is_set);
                *all += 1;
            }
        }
    }
    session
        .output
        .say("     computed of every candidate, without a judge:");
    for (prompt, flags) in set {
        let words = flags.iter().map(|(name, (yes, all))| {
            let percent = 100.0 * *yes as f64 / (*all).max(1) as f64;
            format!("{name} {percent:.0} %")
        });
        let words: Vec<String> = words.collect();
        session
            .output
            .say(&format!("       {prompt:<12}  {}", words.join("   ")));
    }
    Ok(())
}

/// Serves this data to the browsers of this machine, until Ctrl-C.
fn open_panel(session: &Session, experiment: &str) -> anyhow::Result<Exit> {
    let port = free_port()?;
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "-_.".contains(it);
    let page = if experiment.chars().all(is_plain) {
        format!("experiments/{experiment}")
    } else {
        String::new()
    };
    let url = format!("http://127.0.0.1:{port}/{page}");
    session.output.say(&format!("\nThe panel is at {url}"));
    if session.output.is_interactive {
        std::thread::spawn(move || browse(port, &url));
    }
    let args = Serve {
        only: None,
        host: Ipv4Addr::LOCALHOST.into(),
        port,
        open_loopback: true,
        allow_remote: false,
        allowed_host: Vec::new(),
        allow: Vec::new(),
        no_anchors: false,
        mlflow_ui: None,
    };
    serve::run(session, &args)
}

/// The usual port, or another one where that is taken.
fn free_port() -> std::io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, PORT));
    let listener = listener.or_else(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
    Ok(listener.local_addr()?.port())
}

/// Opens a page in the user's browser as soon as the server answers; without one, the address was printed.
fn browse(port: u16, url: &str) {
    for _ in 0..100 {
        if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let program = if cfg!(target_os = "macos") {
        "open"
    } else {
        "xdg-open"
    };
    let _no_browser = Command::new(program)
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
}

/// Nothing wider than 80 columns, and no claim that a judge of this size cannot carry.
fn closing(experiment: &str) -> String {
    format!(
        "
The judge above has 135M parameters: its scores are noise. Only the format and
length flags, which are computed, can be trusted. Do not ship on this board.

What to do next
  in a browser    assize serve --open-loopback
                  then http://127.0.0.1:{PORT}/experiments/{experiment}
                  (assize demo --panel does both)
  judge by hand   assize judge export --experiment {experiment} --out judge.json
                  fill in the scores, then assize judge apply judge.json
  real models     ollama pull qwen2.5:0.5b
                  assize collect --models qwen2.5:0.5b --experiment tip-bench
  your own task   assize init my-task, edit it, assize collect --task my-task"
    )
}
