//! One step: everything that can be done now, one event for each thing that is done.
//!
//! What comes next follows from the log alone ([`Tree::next`]). Work is done before its event is
//! appended, and all work is found again by its cell keys; so a step that is killed anywhere leaves a log
//! from which the next step makes the same tree.

use std::sync::atomic::Ordering;
use std::time::Duration;

use assize_domain::judge::Tier;
use assize_domain::scenario::Split;
use assize_domain::task::Task;
use assize_optimise::event::{
    Confirming, Judged, Promoted, Rejected, Returned, Screened, SearchEnded, SeedRaced, Submitted,
    confirmed_gain,
};
use assize_optimise::{Event, Next, Rejection, SearchEnd, Stage, Tree};

use super::cells::{Part, Settled, TrackedCell, cost_of, verdicts_in};
use super::feedback::{scores, seed_scores};
use super::reflector::{Asked, ReflectContext, Reflector};
use super::ship::{Finalists, Verdict};
use super::{LoopContext, LoopLog, words};
use crate::events::LoopEntry;
use crate::{PipelineError, Result, lock, promote};

/// How far a step goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Until somebody is to be waited for.
    Everything,
    /// One event.
    One,
}

/// How a step ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Stepped {
    pub tree: Tree,
    /// Events that this step appended.
    pub events: usize,
    /// Whether the gate refused the nominee in this step.
    pub refused: bool,
    /// What judges must do besides judging what waits, before the gate can decide.
    pub repairs: Vec<promote::Step>,
}

/// What one turn of a step came to.
enum Turn {
    Did(Event),
    /// Somebody is to be waited for.
    Waits,
    /// The same, and they must do this first.
    NeedsRepair(Vec<promote::Step>),
}

impl Turn {
    fn of(event: Option<Event>) -> Self {
        event.map_or(Self::Waits, Self::Did)
    }
}

/// Takes the turn of a loop; a second step at the same time is refused.
pub fn turn(locks: &std::path::Path, experiment: &str) -> Result<lock::Lock> {
    let what = format!("prompt loop of {experiment}");
    match lock::acquire(locks, &what, &|| true, |_| {}) {
        Err(PipelineError::Interrupted) => Err(PipelineError::Busy(format!(
            "another step of the loop of '{experiment}' is running: wait until it has ended. Nothing was changed"
        ))),
        turn => turn,
    }
}

impl LoopContext<'_> {
    /// Does everything that can be done now, then returns. The caller holds the loop's [`turn`].
    pub fn step(&self, log: &mut LoopLog<'_>, task: &mut Task, extent: Extent) -> Result<Stepped> {
        let mut stepped = Stepped {
            tree: log.tree()?,
            events: 0,
            refused: false,
            repairs: Vec::new(),
        };
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Err(PipelineError::Interrupted);
            }
            self.add_versions(task, &stepped.tree);
            let next = stepped.tree.next(log.hours((self.clock)()));
            let event = match self.turn(task, &stepped.tree, next)? {
                Turn::Did(event) => event,
                Turn::Waits => return Ok(stepped),
                Turn::NeedsRepair(repairs) => {
                    stepped.repairs = repairs;
                    return Ok(stepped);
                }
            };
            stepped.refused |= matches!(&event, Event::Rejected(it) if it.gate.is_some());
            stepped.tree = log.append(event, (self.clock)())?;
            stepped.events += 1;
            if let Some(event) = log.events().last() {
                (self.logged)(LoopEntry {
                    number: log.events().len(),
                    name: event.name().to_owned(),
                    text: words::of(event, &stepped.tree),
                });
            }
            if extent == Extent::One {
                return Ok(stepped);
            }
        }
    }

    /// Does the next thing.
    fn turn(&self, task: &Task, tree: &Tree, next: Next) -> Result<Turn> {
        Ok(Turn::Did(match next {
            Next::RaceSeed { scenarios } => self.race_seed(task, tree, &scenarios)?,
            Next::Reflect { children, .. } => {
                let cells = self.feedback_cells(task, tree)?;
                tree.packet(children, cells, &self.texts(task, tree)?)
            }
            Next::AwaitReflector { .. } => return Ok(Turn::of(self.reflect(tree)?)),
            Next::Screen { child } => self.screen(task, tree, &child)?,
            Next::Race(stage) => self.race(task, tree, &stage)?,
            Next::EndRound => tree.round_ended(),
            Next::EndSearch(end) => end.into(),
            Next::Nominate => self.nominate(task, tree),
            Next::CollectSelection => {
                self.check_looks(task)?;
                let finalists = Finalists::of(tree)?;
                let cost_usd = self.submit(task, &finalists, Split::Selection)?;
                Event::Submitted(Submitted {
                    auto_verdicts: 0,
                    cost_usd,
                })
            }
            Next::AwaitJudge => return self.await_judge(task, tree),
            Next::CollectConfirmation => self.collect_confirmation(task, tree)?,
            Next::AwaitConfirmation => return self.await_confirmation(task, tree),
            Next::Finished => return Ok(Turn::Waits),
        }))
    }

    /// Names the nominee and registers it. A tracking server without a prompt registry does not stop the loop:
    /// the log holds the text, and a promotion registers it again.
    fn nominate(&self, task: &Task, tree: &Tree) -> Event {
        let mut event = tree.nomination();
        if let Event::Nominated(nominated) = &mut event {
            match self.register(task, tree, &nominated.child) {
                Ok(version) => nominated.registered_version = Some(version),
                Err(error) => (self.tell)(&format!("The nominee was not registered: {error}")),
            }
        }
        event
    }

    fn money_left(&self, tree: &Tree) -> Option<f64> {
        let most = self.settings.max_cost_usd?;
        Some((most - tree.used.cost_usd).max(0.0))
    }

    fn race_seed(&self, task: &Task, tree: &Tree, scenarios: &[String]) -> Result<Event> {
        let part = self.race_part(&[tree.seed()], scenarios);
        let (settled, cells) = self.settle(task, &part, self.money_left(tree))?;
        if settled == Settled::OutOfMoney {
            return Err(PipelineError::Refused(format!(
                "the money for this loop does not suffice to judge its seed ({:.2} of {:.2} USD are spent): stop it, and \
                 start another with a higher --max-cost",
                tree.used.cost_usd + cost_of(&cells),
                self.settings.max_cost_usd.unwrap_or_default()
            )));
        }
        Ok(Event::SeedRaced(SeedRaced {
            scores: seed_scores(tree, &cells)?,
            auto_verdicts: verdicts_in(&cells, Tier::Auto),
            cost_usd: cost_of(&cells),
        }))
    }

    fn race(&self, task: &Task, tree: &Tree, stage: &Stage) -> Result<Event> {
        let children = stage.children.iter().map(|it| tree.node(it));
        let children = children.collect::<std::result::Result<Vec<_>, _>>()?;
        let part = self.race_part(&children, &stage.scenarios);
        let (settled, cells) = self.settle(task, &part, self.money_left(tree))?;
        if settled == Settled::OutOfMoney {
            let reason =
                "the judge stopped before this loop would cost more than it may".to_owned();
            return Ok(Event::SearchEnded(SearchEnded {
                end: SearchEnd::Cost,
                reason,
                auto_verdicts: verdicts_in(&cells, Tier::Auto),
                cost_usd: cost_of(&cells),
            }));
        }
        let scores = scores(tree, &cells)?;
        Ok(tree.raced(
            stage,
            scores,
            verdicts_in(&cells, Tier::Auto),
            cost_of(&cells),
        ))
    }

    fn reflect(&self, tree: &Tree) -> Result<Option<Event>> {
        let Some(packet) = tree.open_packet() else {
            return Err(PipelineError::Internal("no packet waits".to_owned()));
        };
        let reflector = Reflector::parse(&self.settings.reflector)?;
        let model = reflector.model().map(|it| self.models.reflector(it));
        let model = model.transpose()?;
        let asked = reflector.ask(
            packet,
            &ReflectContext {
                model: model.as_ref(),
                guard: self.guard,
                num_ctx: self.values.num_ctx,
                prices: self.prices,
                timeout: Duration::from_secs(self.values.timeout),
                seed: self.settings.seed,
                entropy: self.entropy,
                stop: self.stop,
            },
        )?;
        Ok(match asked {
            Asked::Waits => None,
            Asked::Answered(answer) => Some(Event::Returned(Returned {
                packet: packet.id.clone(),
                reflector: reflector.to_string(),
                children: answer.children,
                problem: answer.problem,
                cost_usd: answer.cost_usd,
            })),
        })
    }

    fn screen(&self, task: &Task, tree: &Tree, child: &str) -> Result<Event> {
        let node = tree.node(child)?;
        let mut rejected = self.screens(task, tree, node)?;
        let mut cost_usd = 0.0;
        if rejected.is_none() {
            // One model and one scenario; the same ones for every child.
            let part = self.race_part(&[node], &tree.scenarios[..1]);
            let smoke = self.smoke(
                task,
                &Part {
                    pairs: part.pairs.into_iter().take(1).collect(),
                    candidates: 1,
                    ..part
                },
            )?;
            cost_usd = smoke.cost_usd;
            rejected = smoke.problem.map(|reason| Rejection {
                screen: "smoke".to_owned(),
                reason: format!("a candidate did not fit the output contract: {reason}"),
            });
        }
        Ok(Event::Screened(Screened {
            child: child.to_owned(),
            rejected,
            cost_usd,
        }))
    }

    /// The gate on the selection split, once everybody who must has judged it.
    fn await_judge(&self, task: &Task, tree: &Tree) -> Result<Turn> {
        let finalists = Finalists::of(tree)?;
        let money_left = self.money_left(tree);
        let judging = self.judging(task, &finalists, Split::Selection, money_left)?;
        if !judging.missing.is_empty() {
            self.tell_missing(&judging.missing, Split::Selection);
            return Ok(Turn::Waits);
        }
        let expert_verdicts = verdicts_in(&judging.cells, Tier::Expert);
        let auto_verdicts = verdicts_in(&judging.cells, Tier::Auto);
        let cost_usd = judging.cells.iter().map(TrackedCell::judging_usd).sum();
        Ok(Turn::Did(match self.gate(task, &finalists)? {
            Verdict::NotAlike(repairs) => return Ok(Turn::NeedsRepair(repairs)),
            Verdict::No(reason, gate) => Event::Rejected(Rejected {
                reason,
                expert_verdicts,
                auto_verdicts,
                gate,
                cost_usd,
            }),
            Verdict::Clear(gate) => Event::Judged(Judged {
                expert_verdicts,
                auto_verdicts,
                gate: Some(gate),
                cost_usd,
            }),
            Verdict::Passed(assessment) => Event::Judged(Judged {
                expert_verdicts,
                auto_verdicts,
                gate: Some(assessment.report),
                cost_usd,
            }),
        }))
    }

    fn collect_confirmation(&self, task: &Task, tree: &Tree) -> Result<Event> {
        let finalists = Finalists::of(tree)?;
        if task.split(Split::Confirmation).next().is_none() {
            return Err(PipelineError::Invalid(format!(
                "the task {} has no confirmation split any more: restore its scenarios",
                task.name
            )));
        }
        self.check_looks(task)?;
        let cost_usd = self.submit(task, &finalists, Split::Confirmation)?;
        Ok(Event::Confirming(Confirming { cost_usd }))
    }

    /// The whole gate, once the experts have judged the confirmation split.
    fn await_confirmation(&self, task: &Task, tree: &Tree) -> Result<Turn> {
        let finalists = Finalists::of(tree)?;
        let money_left = self.money_left(tree);
        let judging = self.judging(task, &finalists, Split::Confirmation, money_left)?;
        if !judging.missing.is_empty() {
            self.tell_missing(&judging.missing, Split::Confirmation);
            return Ok(Turn::Waits);
        }
        let expert_verdicts = verdicts_in(&judging.cells, Tier::Expert);
        if let Some(promotion) = self.promoted(task, &finalists)? {
            return Ok(Turn::Did(Event::Promoted(Promoted {
                promotion: promotion.number,
                expert_verdicts,
                gain: promotion
                    .gate
                    .as_ref()
                    .and_then(|it| confirmed_gain(&it.checks)),
                gate: promotion.gate,
            })));
        }
        Ok(Turn::Did(match self.gate(task, &finalists)? {
            Verdict::NotAlike(repairs) => return Ok(Turn::NeedsRepair(repairs)),
            Verdict::No(reason, gate) => Event::Rejected(Rejected {
                reason,
                expert_verdicts,
                auto_verdicts: 0,
                gate,
                cost_usd: judging.cells.iter().map(TrackedCell::judging_usd).sum(),
            }),
            Verdict::Clear(report) => {
                let check = report.check("confirmation");
                let why = check.and_then(|it| it.why.clone()).unwrap_or_default();
                return Err(PipelineError::Invalid(format!(
                    "the confirmation split cannot be tested: {why} Stop this loop, or add scenarios with \
                     split = \"confirmation\" and run the step again"
                )));
            }
            Verdict::Passed(assessment) => {
                let promotion = self.promote(&assessment, &self.note(tree))?;
                Event::Promoted(Promoted {
                    promotion: promotion.number,
                    expert_verdicts,
                    gain: confirmed_gain(&assessment.report.checks),
                    gate: Some(assessment.report),
                })
            }
        }))
    }

    /// The note of the promotion: what the nominee's author thought.
    fn note(&self, tree: &Tree) -> String {
        let nominee = tree.nominee.as_ref();
        let node = nominee.and_then(|it| tree.node(&it.child).ok());
        let hypothesis = node.map_or("", |it| it.hypothesis.as_str());
        format!("optimise {}: {hypothesis}", self.experiment)
    }

    fn tell_missing(&self, missing: &[(Tier, usize)], split: Split) {
        for (tier, cells) in missing {
            (self.tell)(&format!(
                "{} of the {split} split {} for {} verdicts",
                crate::count(*cells, "cell"),
                if *cells == 1 { "waits" } else { "wait" },
                match tier {
                    Tier::Expert => "expert",
                    Tier::Auto => "automatic",
                }
            ));
        }
    }
}
