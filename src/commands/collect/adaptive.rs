//! `assize collect --adaptive`: halving, round by round, and what comes after it.

use anyhow::bail;
use assize_domain::anchor::Anchors;
use assize_domain::job::JobKind;
use assize_domain::leaderboard::Pair;
use assize_domain::rubric::Rubric;
use assize_domain::scenario::Split;
use assize_pipeline::collect::adaptive::{Adaptive, Ended, Outcome, Round, Standing};
use assize_pipeline::collect::{Collection, Speeds};
use assize_pipeline::events::{JobEvent, RoundPair, SettledRound};
use assize_pipeline::{PipelineError, count};
use assize_report::shell::command_lines;
use serde_json::{Value, json};

use super::{Plan, closing_line, collection, emit_summary, exit_of, observed, say_hosts};
use crate::Exit;
use crate::cli::{AutoFlags, Collect, JudgeFlags};
use crate::commands::compare::decision_rule;
use crate::commands::judge;
use crate::output::safe;
use crate::session::{self, Session};
use crate::webhook;

/// Collects adaptively, or shows what that would mean.
pub fn run(
    session: &Session,
    plan: &Plan,
    args: &Collect,
    judge: Option<&str>,
) -> anyhow::Result<Exit> {
    if plan.options.values.split == Split::Confirmation {
        bail!(PipelineError::Invalid(
            "--adaptive chooses pairs by their scores, and those of the confirmation split are \
             sealed: collect it without --adaptive, or choose another --split"
                .to_owned()
        ));
    }
    let given = args.options.0.of(JobKind::Judge);
    if let Some(judge) = judge {
        judge::auto::check_judge(session, judge, &given)?;
    }
    let stop = session::stop_flag()?;
    let guard = session.guard(&plan.options.values)?;
    let opened = session.open_store(false)?;
    let speeds = Speeds::default();
    let collection = collection(plan, &opened, &guard, &speeds, &stop);
    let rule = decision_rule(session)?;
    let adaptive = Adaptive::plan(&collection, args.incumbent.as_deref(), rule)?;
    if args.dry_run {
        return dry_run(session, plan, &adaptive, judge);
    }
    let flags = AutoFlags {
        options: JudgeFlags(given),
        ..AutoFlags::default()
    };
    let judged = || -> anyhow::Result<()> {
        // Computed verdicts came with the cells.
        let Some(judge) = judge else {
            return Ok(());
        };
        let experiment = &plan.options.values.experiment;
        let summary = judge::auto::judge_automatically(
            session,
            (&*opened.store, experiment),
            judge,
            // Rounds only nominate; the gate decides on what is judged afterwards.
            Anchors::default(),
            &flags,
            &stop,
        )?;
        if let Some(reason) = summary.gave_up {
            anyhow::bail!("{judge} failed too often in a row: {reason}");
        }
        for reason in &summary.reasons {
            session
                .output
                .say(&format!("  left unjudged: {}", safe(reason)));
        }
        Ok(())
    };
    let mut unread = None;
    let mut ended = observed(session, plan, &stop, false, |observer| {
        let decided = |round: &Round| {
            let told = tell_round(session, &adaptive, round);
            unread = unread.take().or(told.err());
        };
        adaptive.run(&collection, observer, judged, decided)
    });
    if let Some(error) = unread {
        return Err(error.into());
    }
    let error = ended.error.take();
    ended.summary.adaptive = Some(outcome(&adaptive, &ended));
    finish(session, args, &collection, &adaptive, &ended, error)
}

/// The model that judges between the rounds; `None` where every criterion is computed.
pub fn judge_of<'a>(
    session: &Session,
    rubric: &Rubric,
    args: &'a Collect,
) -> anyhow::Result<Option<&'a str>> {
    let named = args.judge.as_deref();
    if rubric.needs_judge() {
        return Ok(Some(named.ok_or_else(|| {
            PipelineError::Invalid(format!(
                "--adaptive needs --judge MODEL: a judge scores every round, because not every criterion of {} \
                 is computed",
                rubric.id
            ))
        })?));
    }
    if let Some(judge) = named {
        let words = format!(
            "Note: {} is not asked: every criterion of {} is computed.",
            safe(judge),
            rubric.id
        );
        session.output.say(&words);
    }
    Ok(None)
}

fn finish(
    session: &Session,
    args: &Collect,
    collection: &Collection<'_>,
    adaptive: &Adaptive,
    ended: &Ended<anyhow::Error>,
    error: Option<anyhow::Error>,
) -> anyhow::Result<Exit> {
    let output = &session.output;
    emit_summary(output, &ended.summary)?;
    output.say(&closing_line(
        &ended.summary,
        &collection.options.values.experiment,
    ));
    say_hosts(output, &ended.summary);
    let event = webhook::Event::Collected {
        experiment: &collection.options.values.experiment,
        summary: &ended.summary,
    };
    webhook::notify(session, &event);
    if let Some(error) = error {
        return Err(error);
    }
    let exit = exit_of(output, &ended.summary);
    if let Some(nominated) = ended.nominated().filter(|_| exit != Exit::Interrupted) {
        let (saved, full) = saved_cells(adaptive, &ended.rounds);
        let share = percent(saved, full);
        output.say(&format!(
            "Saved {saved} of {} ({share:.0} %) by halving.",
            count(full, "cell")
        ));
        output.say(&advice(session, args, collection, adaptive, nominated));
    }
    Ok(exit)
}

/// Cells that were not collected, of the whole grid.
fn saved_cells(adaptive: &Adaptive, rounds: &[Round]) -> (usize, usize) {
    let full = adaptive.schedule.full_cells();
    let used: usize = rounds.iter().map(|round| round.cells).sum();
    (full.saturating_sub(used), full)
}

fn percent(part: usize, of: usize) -> f64 {
    100.0 * part as f64 / of.max(1) as f64
}

/// Halving only nominates; this is how its winner is confirmed.
fn advice(
    session: &Session,
    args: &Collect,
    collection: &Collection<'_>,
    adaptive: &Adaptive,
    nominated: &Standing,
) -> String {
    let winner = &adaptive.pairs[nominated.pair];
    let incumbent = &adaptive.pairs[adaptive.incumbent];
    let needs_judge = collection.task.rubric.needs_judge();
    let scores = if needs_judge {
        "automatic scores"
    } else {
        "computed scores"
    };
    if winner == incumbent {
        return format!(
            "No challenger is ahead of the incumbent {} by {scores}: nothing to confirm.",
            safe(&incumbent.to_string())
        );
    }
    let lead = format!(
        "Nominated: {}, {} against the incumbent {} on {} ({scores}).\n\
         Halving nominates and proves nothing: the winner was chosen on these scores.",
        safe(&winner.to_string()),
        signed(nominated),
        safe(&incumbent.to_string()),
        count(nominated.scenarios, "scenario"),
    );
    let task = collection.task;
    if task.split(Split::Confirmation).next().is_none() {
        return format!(
            "{lead}\nThe task {} has no confirmation split: add scenarios with split = \"confirmation\",\n\
             and test the pair on them.",
            task.name
        );
    }
    let experiment = &collection.options.values.experiment;
    let rest = args
        .options
        .0
        .flags(&["experiment", "split", "models", "prompts"]);
    let line = |verb: &str, flags: &[(&str, &str)]| {
        command_lines(verb, &session.flags(flags), session.output.width)
    };
    let mut commands: Vec<String> = confirmations(winner, incumbent)
        .into_iter()
        .map(|(models, prompts)| {
            let mut flags = vec![
                ("--experiment", experiment.as_str()),
                ("--split", Split::Confirmation.as_str()),
                ("--models", &models),
                ("--prompts", &prompts),
            ];
            flags.extend(rest.iter().map(|(name, value)| (&**name, &**value)));
            line("collect", &flags)
        })
        .collect();
    let (candidate, incumbent) = (winner.id(), incumbent.id());
    let pairs = [
        ("--experiment", experiment.as_str()),
        ("--candidate", &candidate),
        ("--incumbent", &incumbent),
    ];
    commands.push(line("promote", &pairs));
    let judging = if needs_judge { ", judge them," } else { "" };
    format!(
        "{lead}\nConfirm it on scenarios that it has not seen{judging} and promote it:\n{}",
        commands.join("\n")
    )
}

/// Models and prompts of the collects that give these two pairs and no third.
fn confirmations(winner: &Pair, incumbent: &Pair) -> Vec<(String, String)> {
    if winner.model == incumbent.model {
        let prompts = format!("{},{}", incumbent.prompt, winner.prompt);
        vec![(winner.model.clone(), prompts)]
    } else if winner.prompt == incumbent.prompt {
        let models = format!("{},{}", incumbent.model, winner.model);
        vec![(models, winner.prompt.clone())]
    } else {
        [incumbent, winner]
            .map(|pair| (pair.model.clone(), pair.prompt.clone()))
            .to_vec()
    }
}

/// Reports after each round which pairs continue and which were dropped.
fn tell_round(session: &Session, adaptive: &Adaptive, round: &Round) -> std::io::Result<()> {
    let rounds = adaptive.schedule.rounds();
    let (kept, dropped) = (&round.halved.kept, &round.halved.dropped);
    if session.output.json {
        let settled = SettledRound {
            round: round.number,
            rounds,
            scenarios: round.scenarios.clone(),
            cells: round.cells,
            kept: standings(adaptive, kept, None),
            dropped: standings(adaptive, dropped, Some(round)),
        };
        session
            .output
            .json_line(&JobEvent::Round(Box::new(settled)))?;
    }
    session.output.say(&format!(
        "Round {} of {rounds}: {} on {}, {} left",
        round.number,
        count(kept.len() + dropped.len(), "pair"),
        count(round.scenarios.len(), "new scenario"),
        kept.len(),
    ));
    for it in dropped {
        let pair = safe(&adaptive.pairs[it.pair].to_string());
        let why = reason(it, round);
        session.output.say(&format!("  dropped {pair}: {why}"));
    }
    Ok(())
}

fn standings(
    adaptive: &Adaptive,
    standings: &[Standing],
    dropped: Option<&Round>,
) -> Vec<RoundPair> {
    let standing = |it: &Standing| {
        let pair = &adaptive.pairs[it.pair];
        RoundPair {
            model: pair.model.clone(),
            prompt: pair.prompt.clone(),
            diff: it.diff,
            scenarios: it.scenarios,
            reason: dropped.map(|round| reason(it, round)),
        }
    };
    standings.iter().map(standing).collect()
}

/// Why a pair does not go on.
fn reason(dropped: &Standing, round: &Round) -> String {
    if dropped.diff.is_none() {
        return "it shares no judged scenario with the incumbent".to_owned();
    }
    format!(
        "{} against the incumbent on {}, not among the {} that stay",
        signed(dropped),
        count(dropped.scenarios, "scenario"),
        round.halved.kept.len(),
    )
}

fn signed(standing: &Standing) -> String {
    let diff = standing.diff.unwrap_or(0.0);
    format!("{diff:+.2}").replace('-', "−")
}

/// What the summary says of the halving.
fn outcome(adaptive: &Adaptive, ended: &Ended<anyhow::Error>) -> Outcome {
    let (saved, full) = saved_cells(adaptive, &ended.rounds);
    let is_whole = ended.rounds.len() == adaptive.schedule.rounds();
    let nominated = ended.nominated().filter(|_| is_whole);
    Outcome {
        rounds: ended.rounds.len(),
        rounds_planned: adaptive.schedule.rounds(),
        full_cells: full,
        saved_cells: is_whole.then_some(saved),
        saved_percent: is_whole.then(|| percent(saved, full)),
        incumbent: adaptive.pairs[adaptive.incumbent].clone(),
        nominated: nominated.map(|it| adaptive.pairs[it.pair].clone()),
    }
}

fn dry_run(
    session: &Session,
    plan: &Plan,
    adaptive: &Adaptive,
    judge: Option<&str>,
) -> anyhow::Result<Exit> {
    let schedule = &adaptive.schedule;
    let incumbent = &adaptive.pairs[adaptive.incumbent];
    let (cells, full) = (schedule.all_cells(), schedule.full_cells());
    let outputs = cells * plan.options.values.n_tips as usize;
    if session.output.json {
        let rounds: Vec<Value> = (0..schedule.rounds())
            .map(|round| {
                json!({"round": round + 1, "pairs": schedule.pairs(round),
                       "scenarios": schedule.scenarios(round), "cells": schedule.cells(round)})
            })
            .collect();
        session.output.json_pretty(&json!({
            "experiment": plan.options.values.experiment, "judge": judge, "incumbent": incumbent,
            "pairs": adaptive.pairs, "rounds": rounds, "cells": cells, "full_cells": full,
            "outputs": outputs, "rejected_models": plan.rejected,
        }))?;
        return Ok(Exit::Done);
    }
    let scored = judge.map_or_else(
        || "scored by rules".to_owned(),
        |it| format!("judged by {it}"),
    );
    let mut text = format!(
        "{} in {}, {scored} in between\n\n",
        count(adaptive.pairs.len(), "pair"),
        count(schedule.rounds(), "round"),
    );
    for round in 0..schedule.rounds() {
        text.push_str(&format!(
            "  round {:<4} {:>3} pairs × {:>3} scenarios = {:>5} cells\n",
            round + 1,
            schedule.pairs(round),
            schedule.scenarios(round).len(),
            schedule.cells(round),
        ));
    }
    text.push_str(&format!(
        "\n  in all     {cells} of {full} cells ({:.0} % saved), {outputs} outputs\n  \
         incumbent  {incumbent}, which always stays\n  \
         loads      each model that is still in it, once a round\n",
        percent(full - cells, full),
    ));
    session.output.data(&text)?;
    Ok(Exit::Done)
}
