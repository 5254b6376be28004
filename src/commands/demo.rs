//! `assize demo`: the main job on embedded defaults.

use assize_domain::anchor::Anchors;
use assize_domain::leaderboard::BoardTier;
use assize_pipeline::compare::{CompareOptions, compare};
use assize_pipeline::counted;

use crate::Exit;
use crate::cli::{AutoFlags, Demo};
use crate::commands::{collect, judge, models};
use crate::session::{self, EMBEDDED_DEFAULT, Session};

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

    if !args.no_judge {
        output.say(
            "\n2/3  Judge: the embedded model scores each candidate blind, against the rubric",
        );
        let store = session.store(true)?;
        let judged = judge::auto::judge_automatically(
            session,
            (store.as_ref(), &args.experiment),
            EMBEDDED_DEFAULT,
            // A judge that is noise is not worth calibrating.
            Anchors::default(),
            &AutoFlags::default(),
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
    let store = session.store(true)?;
    let board = compare(
        store.as_ref(),
        &CompareOptions {
            tier: (!args.no_judge).then_some(BoardTier::Auto),
            current: Some((&plan.task).into()),
            ..CompareOptions::usual(&args.experiment)
        },
        settings.gate.decision_rule(),
    )?;
    if output.json {
        output.json_pretty(&board)?;
    } else {
        super::compare::print(session, &board)?;
    }
    output.say(&closing(&args.experiment));
    Ok(if summary.failed > 0 {
        Exit::CellsFailed
    } else {
        Exit::Done
    })
}

/// Nothing wider than 80 columns, and no claim that a judge of this size cannot carry.
fn closing(experiment: &str) -> String {
    format!(
        "
The judge above has 135M parameters: its scores are noise. Only the format and
length flags, which are computed, can be trusted. Do not ship on this board.

What to do next
  judge by hand   assize judge export --experiment {experiment} --out judge.json
                  fill in the scores, then assize judge apply judge.json
  real models     ollama pull qwen2.5:0.5b
                  assize collect --models qwen2.5:0.5b --experiment tip-bench
  your own task   assize init my-task, edit it, assize collect --task my-task"
    )
}
