//! What is to be done now, and when the search ends. A pure decision: time is passed in.

use crate::event::{Event, SearchEnd, SearchEnded};
use crate::race::{Stage, race_verdicts};
use crate::score::lead;
use crate::settings::LoopSettings;
use crate::tree::{Phase, State, Tree, count};

/// The next thing to do. Whoever does it records the event that is named here.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Collect and judge the seed on these scenarios: [`Event::SeedRaced`].
    RaceSeed { scenarios: Vec<String> },
    /// Write a packet ([`Tree::packet`]) for so many children: [`Event::Reflecting`].
    Reflect {
        round: u32,
        parent: String,
        children: u32,
    },
    /// Ask the reflector, if it can be asked now: [`Event::Returned`].
    AwaitReflector { packet: String },
    /// Run the screens: [`Event::Screened`].
    Screen { child: String },
    /// Collect and judge a stage: [`Tree::raced`].
    Race(Stage),
    /// Record [`Tree::round_ended`].
    EndRound,
    /// Record this event.
    EndSearch(SearchEnded),
    /// Record [`Tree::nomination`].
    Nominate,
    /// Collect nominee and incumbent on the selection split: [`Event::Submitted`].
    CollectSelection,
    /// If experts have judged them, run the gate: [`Event::Judged`] or [`Event::Rejected`].
    AwaitJudge,
    /// Collect both on the confirmation split: [`Event::Confirming`].
    CollectConfirmation,
    /// If experts have judged them, run the gate: [`Event::Promoted`] or [`Event::Rejected`].
    AwaitConfirmation,
    /// The loop has ended.
    Finished,
}

impl From<SearchEnded> for Event {
    fn from(end: SearchEnded) -> Self {
        Self::SearchEnded(end)
    }
}

impl Tree {
    /// What is to be done now, `hours` after the start.
    pub fn next(&self, hours: f64) -> Next {
        match self.phase {
            Phase::SeedRace => Next::RaceSeed {
                scenarios: self.scenarios.clone(),
            },
            Phase::BeforeRound => match self.end_before_round(hours) {
                Some(end) => Next::EndSearch(end),
                None => Next::Reflect {
                    round: self.round + 1,
                    parent: self.parent.clone(),
                    children: self.children_to_ask(),
                },
            },
            Phase::Reflecting => match self.spent(hours) {
                Some(end) => Next::EndSearch(end),
                None => Next::AwaitReflector {
                    packet: self
                        .packets
                        .last()
                        .map_or_else(String::new, |it| it.id.clone()),
                },
            },
            Phase::Screening => {
                let mut drafts = self.children_of(self.round);
                let draft = drafts.find(|it| it.state == State::Draft);
                // Without a draft the phase would have ended.
                draft.map_or(Next::EndRound, |it| Next::Screen {
                    child: it.id.clone(),
                })
            }
            Phase::Racing(done) => match self.spent(hours) {
                Some(end) => Next::EndSearch(end),
                None => Next::Race(self.stage(done)),
            },
            Phase::RoundDone => Next::EndRound,
            Phase::SearchEnded => Next::Nominate,
            Phase::Nominated => Next::CollectSelection,
            Phase::PendingJudgement => Next::AwaitJudge,
            Phase::Judged => Next::CollectConfirmation,
            Phase::Confirming => Next::AwaitConfirmation,
            Phase::Promoted | Phase::Rejected => Next::Finished,
        }
    }

    /// The children that the next round can race within every budget.
    fn children_to_ask(&self) -> u32 {
        let left = self.settings.children_in_all();
        let left = left.saturating_sub(self.used.children);
        let verdicts = self.settings.race_verdicts();
        let verdicts = verdicts.saturating_sub(self.used.auto_verdicts);
        let fits = |children: &u32| {
            race_verdicts(&self.settings, *children, self.scenarios.len()) <= verdicts
        };
        let most = self.settings.children.min(left);
        (1..=most).rev().find(fits).unwrap_or(0)
    }

    fn end_before_round(&self, hours: f64) -> Option<SearchEnded> {
        let settings = &self.settings;
        if let Some(end) = self.at_ceiling() {
            return Some(end);
        }
        if self.round >= settings.rounds {
            let reason = all(settings.rounds, "round", "done");
            return Some(ended(SearchEnd::Rounds, reason));
        }
        let stale = self
            .rounds
            .iter()
            .rev()
            .take_while(|it| it.leader.is_none());
        let stale = stale.count();
        if stale >= settings.stale_rounds as usize {
            let reason = match stale {
                1 => "the last round had no leader".to_owned(),
                stale => format!("{stale} rounds in a row had no leader"),
            };
            return Some(ended(SearchEnd::StaleRounds, reason));
        }
        if self.used.children >= settings.children_in_all() {
            let reason = all(settings.children_in_all(), "child", "written");
            return Some(ended(SearchEnd::Children, reason));
        }
        if self.children_to_ask() == 0 {
            let reason = format!(
                "of {} automatic verdicts for the race {} are used, too many for another round",
                settings.race_verdicts(),
                self.used.auto_verdicts
            );
            return Some(ended(SearchEnd::Verdicts, reason));
        }
        self.spent(hours)
    }

    /// Money and time, which are looked at before everything that uses some.
    fn spent(&self, hours: f64) -> Option<SearchEnded> {
        let LoopSettings {
            max_cost_usd,
            max_hours,
            ..
        } = self.settings;
        if let Some(most) = max_cost_usd.filter(|most| self.used.cost_usd >= *most) {
            let reason = format!("{:.2} of {most:.2} USD are spent", self.used.cost_usd);
            return Some(ended(SearchEnd::Cost, reason));
        }
        let most = max_hours.filter(|most| hours >= *most)?;
        let reason = format!("{hours:.1} of {most:.1} hours are over");
        Some(ended(SearchEnd::Hours, reason))
    }

    /// Whether the best version is so good that the race cannot tell better ones apart.
    fn at_ceiling(&self) -> Option<SearchEnded> {
        let (low, high) = self.composite_range;
        let top = low + self.settings.ceiling * (high - low);
        let finished = self.nodes.iter().filter(|it| it.is_finished);
        let best = finished
            .filter_map(|it| Some((it, it.feedback()?.mean)))
            .max_by(|a, b| a.1.total_cmp(&b.1))?;
        let (node, mean) = best;
        (mean >= top).then(|| {
            let reason = format!(
                "{} has a mean of {mean:.2} of at most {high:.2} points on the feedback split",
                node.id
            );
            ended(SearchEnd::Ceiling, reason)
        })
    }

    /// How far a version is ahead of its parent in the race, over the cells that both have.
    pub fn lead_over_parent(&self, id: &str) -> Option<f64> {
        let node = self.node(id).ok()?;
        let parent = self.node(node.parent.as_deref()?).ok()?;
        lead(&node.scores, &parent.scores)
    }
}

/// `the only round is done`, `all 5 rounds are done`.
fn all(number: u32, noun: &str, what: &str) -> String {
    match number {
        1 => format!("the only {noun} is {what}"),
        number => format!("all {} are {what}", count(number as usize, noun)),
    }
}

const fn ended(end: SearchEnd, reason: String) -> SearchEnded {
    SearchEnded {
        end,
        reason,
        auto_verdicts: 0,
        cost_usd: 0.0,
    }
}
