//! The rules of the log: which event may follow which, and what it changes.

use crate::error::OptimiseError;
use crate::event::{
    Event, Judged, Nominated, Promoted, Raced, Reflecting, Rejected, Returned, RoundEnded,
    Screened, SearchEnded, SeedRaced, Stopped,
};
use crate::score::CellScore;
use crate::settings::LoopSettings;
use crate::version::Version;

use super::{Node, Phase, State, Tree};

/// Why an event does not fit.
type Refusal = String;

impl Tree {
    /// Adds the next event of the log. A refused event changes nothing.
    pub fn apply(&mut self, event: &Event) -> Result<(), OptimiseError> {
        let refused = match event {
            Event::Started(_) => Err("the loop has started already".to_owned()),
            Event::SeedRaced(it) => self.seed_raced(it),
            Event::Reflecting(it) => self.reflecting(it),
            Event::Returned(it) => self.returned(it),
            Event::Screened(it) => self.screened(it),
            Event::Raced(it) => self.stage_raced(it),
            Event::RoundEnded(it) => self.end_round(it),
            Event::SearchEnded(it) => self.end_search(it),
            Event::Nominated(it) => self.nominated(it),
            Event::Submitted(it) => self
                .advance(Phase::Nominated, Phase::PendingJudgement)
                .map(|()| self.spend(it.auto_verdicts, 0, it.cost_usd)),
            Event::Judged(it) => self.judged(it),
            Event::Confirming(it) => self
                .advance(Phase::Judged, Phase::Confirming)
                .map(|()| self.spend(0, 0, it.cost_usd)),
            Event::Promoted(it) => self.promoted(it),
            Event::Rejected(it) => self.rejected(it),
            Event::Stopped(it) => self.stopped(it),
        };
        refused.map_err(|why| OptimiseError::IllegalEvent {
            number: self.events + 1,
            event: event.name(),
            why,
        })?;
        self.events += 1;
        Ok(())
    }

    fn during(&self, phase: Phase) -> Result<(), Refusal> {
        let state = self.state();
        let is_now = self.phase == phase;
        is_now
            .then_some(())
            .ok_or_else(|| format!("the loop is in the state {state} of round {}", self.round))
    }

    fn spend(&mut self, auto: u32, expert: u32, cost_usd: f64) {
        self.used.auto_verdicts = self.used.auto_verdicts.saturating_add(auto);
        self.used.expert_verdicts = self.used.expert_verdicts.saturating_add(expert);
        if cost_usd.is_finite() {
            self.used.cost_usd += cost_usd;
        }
    }

    fn known(&self, id: &str) -> Result<usize, Refusal> {
        let place = self.nodes.iter().position(|it| it.id == id);
        place.ok_or_else(|| format!("there is no version {id}"))
    }

    /// Scores must be of these versions, once for each cell, on the race's scenarios.
    fn check_scores(&self, scores: &[CellScore], nodes: &[String]) -> Result<(), Refusal> {
        for (place, score) in scores.iter().enumerate() {
            let (node, scenario) = (&score.node, &score.scenario);
            if !nodes.contains(node) {
                return Err(format!("{node} is not part of it"));
            }
            if !self.scenarios.contains(scenario) {
                return Err(format!("{scenario} is not a scenario of the race"));
            }
            if !score.mean.is_finite() {
                return Err(format!("the score of {node} on {scenario} is not a number"));
            }
            let same = |it: &CellScore| {
                it.node == *node && it.scenario == *scenario && it.model == score.model
            };
            let earlier = self.nodes.iter().flat_map(|it| &it.scores);
            if earlier.chain(&scores[..place]).any(same) {
                return Err(format!("{node} has two scores on {scenario}"));
            }
        }
        Ok(())
    }

    fn add_scores(&mut self, scores: &[CellScore]) {
        for score in scores {
            if let Ok(place) = self.known(&score.node) {
                self.nodes[place].scores.push(score.clone());
            }
        }
    }

    fn seed_raced(&mut self, it: &SeedRaced) -> Result<(), Refusal> {
        self.during(Phase::SeedRace)?;
        if it.scores.is_empty() {
            return Err("the seed has no scores".to_owned());
        }
        self.check_scores(&it.scores, &[crate::SEED.to_owned()])?;
        self.add_scores(&it.scores);
        self.nodes[0].is_finished = true;
        self.spend(it.auto_verdicts, 0, it.cost_usd);
        self.phase = Phase::BeforeRound;
        Ok(())
    }

    fn reflecting(&mut self, it: &Reflecting) -> Result<(), Refusal> {
        self.during(Phase::BeforeRound)?;
        let packet = &it.packet;
        if packet.round != self.round + 1 || packet.parent != self.parent {
            return Err(format!(
                "the packet is for round {} from {}, and round {} starts from {}",
                packet.round,
                packet.parent,
                self.round + 1,
                self.parent
            ));
        }
        self.round = packet.round;
        self.used.rounds = packet.round;
        self.packets.push(packet.clone());
        self.phase = Phase::Reflecting;
        Ok(())
    }

    fn returned(&mut self, it: &Returned) -> Result<(), Refusal> {
        self.during(Phase::Reflecting)?;
        let open = self.packets.last().filter(|open| open.id == it.packet);
        let open = open.ok_or_else(|| format!("no packet {} waits", it.packet))?;
        if it.children.len() > open.children as usize {
            return Err(format!("at most {} children were asked for", open.children));
        }
        for (place, proposal) in it.children.iter().enumerate() {
            let id = format!("r{}c{}", self.round, place + 1);
            let name = child_name(&self.settings, &id);
            self.nodes.push(Node {
                parent: Some(self.parent.clone()),
                round: self.round,
                hypothesis: proposal.hypothesis.clone(),
                kind: proposal.kind,
                reflector: Some(it.reflector.clone()),
                version: Version::new(&name, proposal.system.as_deref(), &proposal.template),
                state: State::Draft,
                reason: None,
                scores: Vec::new(),
                is_finished: false,
                id,
            });
            self.used.children += 1;
        }
        self.spend(0, 0, it.cost_usd);
        self.phase = if it.children.is_empty() {
            Phase::RoundDone
        } else {
            Phase::Screening
        };
        Ok(())
    }

    fn screened(&mut self, it: &Screened) -> Result<(), Refusal> {
        self.during(Phase::Screening)?;
        let place = self.known(&it.child)?;
        let child = &mut self.nodes[place];
        if child.state != State::Draft {
            return Err(format!("{} is {} already", it.child, child.state));
        }
        match &it.rejected {
            None => child.state = State::Screened,
            Some(rejection) => {
                child.reject(format!("{}: {}", rejection.screen, rejection.reason));
            }
        }
        self.spend(0, 0, it.cost_usd);
        let states = || self.children_of(self.round).map(|it| it.state);
        if states().any(|it| it == State::Draft) {
            return Ok(());
        }
        self.entrants = states().filter(|it| *it == State::Screened).count();
        self.phase = if self.entrants == 0 {
            Phase::RoundDone
        } else {
            Phase::Racing(0)
        };
        Ok(())
    }

    fn stage_raced(&mut self, it: &Raced) -> Result<(), Refusal> {
        let Phase::Racing(done) = self.phase else {
            return self.during(Phase::Racing(0));
        };
        let stage = self.stage(done);
        if it.round != stage.round || it.stage != stage.stage {
            return Err(format!(
                "it is stage {} of round {}, and stage {} of round {} is next",
                it.stage, it.round, stage.stage, stage.round
            ));
        }
        self.check_scores(&it.scores, &stage.children)?;
        for dropped in &it.dropped {
            if !stage.children.contains(&dropped.child) {
                return Err(format!("{} is not in the race", dropped.child));
            }
        }
        self.add_scores(&it.scores);
        for id in &stage.children {
            let place = self.known(id)?;
            let dropped = it.dropped.iter().find(|it| it.child == *id);
            let child = &mut self.nodes[place];
            if let Some(dropped) = dropped {
                child.reject(dropped.reason.clone());
            } else {
                child.state = State::Racing;
                child.is_finished = stage.is_last;
            }
        }
        self.spend(it.auto_verdicts, 0, it.cost_usd);
        let is_over = stage.is_last || it.dropped.len() == stage.children.len();
        self.phase = if is_over {
            Phase::RoundDone
        } else {
            Phase::Racing(done + 1)
        };
        Ok(())
    }

    fn end_round(&mut self, it: &RoundEnded) -> Result<(), Refusal> {
        self.during(Phase::RoundDone)?;
        if it.round != self.round {
            return Err(format!("round {} is running", self.round));
        }
        for id in it.leader.iter().chain([&it.parent]) {
            let place = self.known(id)?;
            if !self.nodes[place].is_finished {
                return Err(format!("{id} did not finish its race"));
            }
        }
        let parent = self.parent.clone();
        for node in &mut self.nodes {
            let is_beaten = node.round == self.round && node.is_finished;
            if is_beaten && it.leader.as_deref() != Some(node.id.as_str()) {
                node.reason = Some(format!("finished the race without leading {parent}"));
            }
        }
        self.parent.clone_from(&it.parent);
        self.rounds.push(it.clone());
        self.phase = Phase::BeforeRound;
        Ok(())
    }

    fn end_search(&mut self, it: &SearchEnded) -> Result<(), Refusal> {
        if !self.is_searching() {
            return self.during(Phase::BeforeRound);
        }
        self.reject_unfinished(&format!("the search ended: {}", it.reason));
        self.search_end = Some((it.end, it.reason.clone()));
        self.spend(it.auto_verdicts, 0, it.cost_usd);
        self.phase = Phase::SearchEnded;
        Ok(())
    }

    const fn is_searching(&self) -> bool {
        matches!(
            self.phase,
            Phase::BeforeRound
                | Phase::Reflecting
                | Phase::Screening
                | Phase::Racing(_)
                | Phase::RoundDone
        )
    }

    /// Children that have not finished a race never will.
    fn reject_unfinished(&mut self, reason: &str) {
        for node in self.nodes.iter_mut().skip(1) {
            if !node.is_finished && node.state != State::Rejected {
                node.reject(reason.to_owned());
            }
        }
    }

    fn nominated(&mut self, it: &Nominated) -> Result<(), Refusal> {
        self.during(Phase::SearchEnded)?;
        let place = self.known(&it.child)?;
        if place == 0 || !self.nodes[place].is_finished {
            return Err(format!("{} did not finish its race", it.child));
        }
        for (other, node) in self.nodes.iter_mut().enumerate().skip(1) {
            if other == place {
                node.state = State::Nominated;
                node.reason = None;
            } else if node.state != State::Rejected {
                let reason = node.reason.take();
                node.reject(reason.unwrap_or_else(|| format!("{} was nominated", it.child)));
            }
        }
        self.nominee = Some(it.clone());
        self.phase = Phase::Nominated;
        Ok(())
    }

    /// The nominee and the loop go from one phase to the next.
    fn advance(&mut self, from: Phase, to: Phase) -> Result<(), Refusal> {
        self.during(from)?;
        self.phase = to;
        let state = self.state();
        if let Some(node) = self.nominee_mut() {
            node.state = state;
        }
        Ok(())
    }

    fn nominee_mut(&mut self) -> Option<&mut Node> {
        let nominee = self.nominee.as_ref()?;
        self.nodes.iter_mut().find(|it| it.id == nominee.child)
    }

    fn judged(&mut self, it: &Judged) -> Result<(), Refusal> {
        self.advance(Phase::PendingJudgement, Phase::Judged)?;
        self.spend(it.auto_verdicts, it.expert_verdicts, it.cost_usd);
        self.gate = it.gate.clone().or(self.gate.take());
        Ok(())
    }

    fn promoted(&mut self, it: &Promoted) -> Result<(), Refusal> {
        // A task without a confirmation split has nothing to confirm.
        if self.phase != Phase::Judged {
            self.during(Phase::Confirming)?;
        }
        self.advance(self.phase, Phase::Promoted)?;
        self.spend(0, it.expert_verdicts, 0.0);
        self.gain = it.gain;
        self.gate = it.gate.clone().or(self.gate.take());
        Ok(())
    }

    fn rejected(&mut self, it: &Rejected) -> Result<(), Refusal> {
        let is_waiting = matches!(
            self.phase,
            Phase::Nominated | Phase::PendingJudgement | Phase::Judged | Phase::Confirming
        );
        if !is_waiting {
            self.during(Phase::SearchEnded)?;
        }
        self.close(&it.reason);
        self.spend(it.auto_verdicts, it.expert_verdicts, it.cost_usd);
        self.gate = it.gate.clone().or(self.gate.take());
        Ok(())
    }

    fn stopped(&mut self, it: &Stopped) -> Result<(), Refusal> {
        if self.is_finished() {
            return Err("the loop has ended already".to_owned());
        }
        self.close(&format!("stopped: {}", it.reason));
        Ok(())
    }

    /// Ends the loop: whatever is undecided is rejected for the same reason.
    fn close(&mut self, reason: &str) {
        for node in self.nodes.iter_mut().skip(1) {
            if node.state != State::Rejected {
                let earlier = node.reason.take();
                node.reject(earlier.unwrap_or_else(|| reason.to_owned()));
            }
        }
        self.reason = Some(reason.to_owned());
        self.phase = Phase::Rejected;
    }
}

impl Node {
    fn reject(&mut self, reason: String) {
        self.state = State::Rejected;
        self.reason = Some(reason);
    }
}

/// The name under which a child is collected.
pub fn child_name(settings: &LoopSettings, id: &str) -> String {
    format!("{}.{id}", settings.prompt)
}
