//! The decisions of a loop, each as the event that is to be recorded: what the reflector gets, who is
//! dropped, who leads, from which version the next round starts, and who is nominated.
//!
//! They are made once and read from the log ever after.

use assize_domain::leaderboard::Pair;

use crate::event::{Event, Nominated, Raced, Reflecting, Rejected, RoundEnded};
use crate::packet::{FeedbackCell, Packet, RejectedHypothesis, TaskTexts, choose};
use crate::parent::{Contender, draw, pareto_set};
use crate::race::{Stage, Standing, dropped, ranked};
use crate::score::{CellScore, lead};
use crate::tree::{Node, Tree, count};

/// Levels closer than this share of the composite's range are equal: half of a hundredth of a point of a
/// composite from 2 to 17, far below what one verdict changes.
const EQUAL: f64 = 1.0 / 3000.0;

impl Tree {
    /// The packet for the next round, from the parent's judged cells of the feedback split.
    pub fn packet(&self, children: u32, cells: Vec<FeedbackCell>, task: &TaskTexts) -> Event {
        let round = self.round + 1;
        let (worst, good) = choose(cells);
        let parent = self.nodes.iter().find(|it| it.id == self.parent);
        let packet = Packet {
            id: format!("p{round}"),
            round,
            parent: self.parent.clone(),
            version: parent.unwrap_or_else(|| self.seed()).version.clone(),
            output_contract: task.output_contract.clone(),
            rubric: task.rubric.clone(),
            variables: task.variables.clone(),
            longest: task.longest,
            children,
            worst,
            good,
            rejected: self.rejected_hypotheses(),
        };
        Event::Reflecting(Box::new(Reflecting { packet }))
    }

    /// Hypotheses that were screened out, dropped, or finished behind their parents.
    pub fn rejected_hypotheses(&self) -> Vec<RejectedHypothesis> {
        let rejected = self.nodes.iter().filter_map(|it| {
            Some(RejectedHypothesis {
                id: it.id.clone(),
                hypothesis: it.hypothesis.clone(),
                reason: it.reason.clone()?,
            })
        });
        rejected.collect()
    }

    /// The event of a judged stage: who is dropped follows from the scores.
    pub fn raced(
        &self,
        stage: &Stage,
        mut scores: Vec<CellScore>,
        auto_verdicts: u32,
        cost_usd: f64,
    ) -> Event {
        scores.retain(|it| it.mean.is_finite());
        let parent = self.nodes.iter().find(|it| it.id == self.parent);
        let standing = |id: &String| {
            let earlier = self.nodes.iter().filter(|it| it.id == *id);
            let own: Vec<CellScore> = earlier
                .flat_map(|it| &it.scores)
                .chain(scores.iter().filter(|it| it.node == *id))
                .cloned()
                .collect();
            Standing {
                child: id.clone(),
                lead: parent.and_then(|parent| lead(&own, &parent.scores)),
            }
        };
        let standings = stage.children.iter().map(standing).collect();
        Event::Raced(Raced {
            round: stage.round,
            stage: stage.stage,
            dropped: dropped(standings, stage.is_last),
            scores,
            auto_verdicts,
            cost_usd,
        })
    }

    /// The event that ends the round: its leader, and the parent of the next one.
    pub fn round_ended(&self) -> Event {
        let levels = self.levels();
        let level = |id: &str| levels.get(id).copied();
        let finished = self.children_of(self.round).filter(|it| it.is_finished);
        let standings = finished.map(|it| Standing {
            child: it.id.clone(),
            lead: level(&it.id)
                .zip(level(&self.parent))
                .map(|(own, parent)| own - parent),
        });
        let best = ranked(standings.collect()).into_iter().next();
        let least = self.least_lead();
        let leader = best.and_then(|it| Some((it.child, it.lead.filter(|lead| *lead > least)?)));
        let (leader, parent, reason) = if let Some((child, lead)) = leader {
            let reason = format!(
                "the level of {child} is {lead:.2} points above that of {}",
                self.parent
            );
            (Some(child.clone()), child, reason)
        } else {
            let (parent, reason) = self.drawn_parent();
            (None, parent, reason)
        };
        Event::RoundEnded(RoundEnded {
            round: self.round,
            leader,
            parent,
            reason,
        })
    }

    /// A version of the Pareto set.
    fn drawn_parent(&self) -> (String, String) {
        let finished = self.nodes.iter().filter(|it| it.is_finished);
        let contenders: Vec<Contender<'_>> = finished
            .map(|it| Contender {
                id: &it.id,
                scores: self.by_cell(it),
            })
            .collect();
        let set = pareto_set(&contenders);
        let cells = self.scenarios.len() * self.settings.models.len();
        let Some(it) = draw(&set, self.settings.seed, self.round) else {
            let reason = format!("no child leads; {} stays the parent", self.parent);
            return (self.parent.clone(), reason);
        };
        let reason = format!(
            "no child leads; {} was drawn of {}: it leads {} of {cells} cells",
            it.id,
            count(set.len(), "version"),
            it.cells
        );
        (it.id.to_owned(), reason)
    }

    /// A version's scores in one order for all versions.
    fn by_cell(&self, node: &Node) -> Vec<Option<f64>> {
        let models = self.settings.models.iter();
        let cells = models.flat_map(|model| self.scenarios.iter().map(move |it| (model, it)));
        cells
            .map(|(model, scenario)| {
                let same = |it: &&CellScore| it.model == *model && it.scenario == *scenario;
                node.scores.iter().find(same).map(|it| it.mean)
            })
            .collect()
    }

    /// A smaller lead is none.
    fn least_lead(&self) -> f64 {
        let (low, high) = self.composite_range;
        (high - low).abs() * EQUAL
    }

    /// The event that names the nominee: of the versions that finished their race, the one with the highest
    /// level ([`crate::correct`]); of equal ones that of the earliest round, then the shortest. Where none
    /// is above the seed the loop ends.
    pub fn nomination(&self) -> Event {
        let levels = self.levels();
        let least = self.least_lead();
        let finished = self.nodes.iter().skip(1).filter(|it| it.is_finished);
        let above: Vec<(&Node, f64)> = finished
            .filter_map(|it| Some((it, *levels.get(&it.id)?)))
            .filter(|(_, level)| *level > least)
            .collect();
        let highest = above.iter().map(|it| it.1).fold(f64::MIN, f64::max);
        let best = above
            .into_iter()
            .filter(|(_, level)| highest - level <= least)
            .min_by_key(|(node, _)| (node.round, node.version.as_text().len()));
        match best {
            Some((node, level)) => Event::Nominated(Nominated {
                child: node.id.clone(),
                pair: Pair {
                    model: self.best_model(node),
                    prompt: node.version.name.clone(),
                },
                lead: lead(&node.scores, &self.seed().scores).unwrap_or(0.0),
                level,
                registered_version: None,
            }),
            None => Event::Rejected(Rejected {
                reason: self.no_nominee(),
                ..Rejected::default()
            }),
        }
    }

    fn no_nominee(&self) -> String {
        let end = self.search_end.as_ref();
        let end = end.map_or_else(String::new, |(_, reason)| format!(" ({reason})"));
        let children = match self.nodes.len() - 1 {
            0 => "there was no child".to_owned(),
            1 => "the only child is not above the seed on the feedback split".to_owned(),
            many => format!("none of {many} children is above the seed on the feedback split"),
        };
        format!("{children}{end}: nothing was put before the gate")
    }

    /// The model with which a version has the highest mean; the earlier of equal ones.
    fn best_model(&self, node: &Node) -> String {
        let mean = |model: &String| {
            let own = node.scores.iter().filter(|it| it.model == *model);
            let own: Vec<f64> = own.map(|it| it.mean).collect();
            assize_stats::describe::mean(&own).unwrap_or(f64::NEG_INFINITY)
        };
        let models = self.settings.models.iter().rev();
        let best = models.max_by(|a, b| mean(a).total_cmp(&mean(b)));
        best.cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Returned, Screened, SeedRaced};
    use crate::next::Next;
    use crate::reply::{Kind, Proposal};
    use crate::tree::tests::{settings, started};

    /// A loop with one child a round; `mean` says what a version scores in every cell.
    fn played(rounds: u32, mean: impl Fn(&str) -> f64) -> (Tree, Event) {
        let settings = crate::LoopSettings {
            children: 1,
            rounds,
            stale_rounds: rounds,
            ..settings()
        };
        let first = started(settings);
        let mut tree = Tree::fold([&first]).expect("legal").expect("started");
        let scores = |node: &str, scenarios: &[String]| -> Vec<CellScore> {
            let cell = |scenario: &String| CellScore {
                node: node.to_owned(),
                model: "m".to_owned(),
                scenario: scenario.clone(),
                mean: mean(node),
                candidates: 2,
            };
            scenarios.iter().map(cell).collect()
        };
        loop {
            let event = match tree.next(0.0) {
                Next::RaceSeed { scenarios } => Event::SeedRaced(SeedRaced {
                    scores: scores("seed", &scenarios),
                    auto_verdicts: 0,
                    cost_usd: 0.0,
                }),
                Next::Reflect { children, .. } => {
                    tree.packet(children, Vec::new(), &TaskTexts::default())
                }
                Next::AwaitReflector { packet } => Event::Returned(Returned {
                    children: vec![Proposal {
                        hypothesis: packet.clone(),
                        kind: Kind::Edit,
                        system: None,
                        template: format!("{packet} {{{{ persona }}}}"),
                    }],
                    packet,
                    reflector: "script".to_owned(),
                    problem: None,
                    cost_usd: 0.0,
                }),
                Next::Screen { child } => Event::Screened(Screened {
                    child,
                    rejected: None,
                    cost_usd: 0.0,
                }),
                Next::Race(stage) => {
                    let own = scores(&stage.children[0], &stage.scenarios);
                    tree.raced(&stage, own, 0, 0.0)
                }
                Next::EndRound => tree.round_ended(),
                Next::EndSearch(end) => end.into(),
                _ => {
                    let nomination = tree.nomination();
                    return (tree, nomination);
                }
            };
            tree.apply(&event).expect("legal");
        }
    }

    #[test]
    fn equal_versions_do_not_lead_and_the_earliest_of_them_is_nominated() {
        let (tree, nomination) = played(5, |node| if node == "seed" { 9.0 } else { 11.0 });
        let leaders: Vec<Option<&str>> =
            tree.rounds.iter().map(|it| it.leader.as_deref()).collect();
        assert_eq!(leaders, [Some("r1c1"), None, None, None, None]);
        assert!(
            matches!(&nomination, Event::Nominated(it) if it.child == "r1c1"),
            "{nomination:?}"
        );
    }

    #[test]
    fn children_that_score_as_the_seed_are_not_nominated() {
        let (_, nomination) = played(1, |_| 9.0);
        let Event::Rejected(it) = nomination else {
            unreachable!("{nomination:?}");
        };
        assert_eq!(
            it.reason,
            "the only child is not above the seed on the feedback split (the only round is done): nothing was put \
             before the gate"
        );
    }
}
