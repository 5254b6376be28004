//! Asking the model about a few candidates, and reading what it says.

use std::collections::BTreeMap;
use std::sync::Arc;

use assize_domain::cell::candidate_seed;
use assize_domain::model::ProviderKind;
use assize_domain::rubric::Rubric;
use assize_domain::sitting::Sitting;
use assize_domain::verdict::{Usage, Verdict};
use assize_providers::{Completion, Message, Provider, ProviderError, Request, Role, Sampling};
use serde_json::Value;

use super::AutoJudge;
use super::purse::{Purse, Shut};
use crate::judge::prompt;

/// Answers as long as this are nonsense; the judge is not sent more of its own back.
const QUOTED_CHARS: usize = 300;

/// One candidate that waits for a verdict.
#[derive(Debug, Clone)]
pub(super) struct Pending {
    pub run_id: Arc<str>,
    pub index: u32,
    pub text: String,
    pub flags: BTreeMap<String, bool>,
    pub context: Arc<Value>,
}

/// What became of one candidate.
#[derive(Debug)]
pub(super) struct Outcome {
    pub run_id: Arc<str>,
    pub index: u32,
    pub found: Found,
    pub usage: Usage,
    pub asked_again: bool,
}

#[derive(Debug)]
pub(super) enum Found {
    Verdict(Verdict),
    /// The judge answered twice, and neither answer could be used.
    Unusable(String),
    /// The judge did not answer.
    Failed(String),
    /// It was not asked, because nothing more may be spent.
    Unasked(Shut),
}

/// Who asks.
#[derive(Debug)]
pub(super) struct Asker<'a> {
    pub judge: &'a AutoJudge<'a>,
    pub provider: &'a dyn Provider,
    pub rubric: &'a Rubric,
    pub sitting: &'a Sitting,
    pub purse: Purse,
}

/// What was wrong with an answer, and the answer.
struct Complaint {
    said: String,
    why: String,
}

impl Asker<'_> {
    /// Asks about these candidates in one request; once more, with what was wrong, about those
    /// whose answers could not be used.
    pub fn ask(&self, pending: &[Pending]) -> Vec<Outcome> {
        let mut complaints = BTreeMap::new();
        let all: Vec<usize> = (0..pending.len()).collect();
        let mut outcomes: Vec<Outcome> = pending.iter().map(Outcome::unasked).collect();
        self.round(pending, &all, &mut complaints, &mut outcomes);
        let again: Vec<usize> = complaints.keys().copied().collect();
        if !again.is_empty() {
            self.round(pending, &again, &mut complaints, &mut outcomes);
        }
        outcomes
    }

    fn round(
        &self,
        pending: &[Pending],
        places: &[usize],
        complaints: &mut BTreeMap<usize, Complaint>,
        outcomes: &mut [Outcome],
    ) {
        let asked_flags = self.asked_flags(pending);
        let mut candidates = Vec::new();
        let mut sent = Vec::new();
        for place in places {
            let case = &pending[*place];
            let messages = self.messages(case, &asked_flags, complaints.get(place));
            match self.purse.set_aside(&messages, self.judge.max_tokens) {
                Ok(set_aside_usd) => {
                    let seed = candidate_seed(self.judge.seed, &case.run_id, case.index);
                    candidates.push(assize_providers::Candidate { messages, seed });
                    sent.push((*place, set_aside_usd));
                }
                Err(shut) => outcomes[*place].found = Found::Unasked(shut),
            }
        }
        let bounded = self.judge.model.id.provider != ProviderKind::OpenAi;
        let request = Request {
            prompt: "judge".to_owned(),
            scenario: "judge".to_owned(),
            candidates,
            sampling: Sampling {
                temperature: 0.0,
                max_tokens: self.judge.max_tokens,
                num_ctx: self.judge.num_ctx,
                json_schema: Some(prompt::schema(self.rubric, &asked_flags, bounded)),
            },
        };
        let answers = self.provider.generate(&self.judge.model.id.name, &request);
        for ((place, set_aside_usd), answer) in sent.into_iter().zip(answers) {
            let cost = self.purse.settle(set_aside_usd, answer.as_ref().ok());
            let outcome = &mut outcomes[place];
            outcome.asked_again |= complaints.contains_key(&place);
            self.read(&pending[place], place, answer, cost, complaints, outcome);
        }
    }

    fn read(
        &self,
        case: &Pending,
        place: usize,
        answer: Result<Completion, ProviderError>,
        cost: Option<f64>,
        complaints: &mut BTreeMap<usize, Complaint>,
        outcome: &mut Outcome,
    ) {
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                complaints.remove(&place);
                outcome.found = Found::Failed(error.to_string());
                return;
            }
        };
        outcome.usage.add(&Usage {
            prompt_tokens: answer.prompt_tokens,
            completion_tokens: answer.completion_tokens,
            cost_usd: cost,
        });
        match prompt::read(self.rubric, &answer.text, case.index, &case.flags) {
            Ok(verdict) => {
                complaints.remove(&place);
                outcome.found = Found::Verdict(verdict);
            }
            Err(why) => {
                outcome.found = Found::Unusable(why.clone());
                let said = answer.text.chars().take(QUOTED_CHARS).collect();
                complaints.insert(place, Complaint { said, why });
            }
        }
    }

    /// Flags that no mechanical check has computed.
    fn asked_flags(&self, pending: &[Pending]) -> Vec<&str> {
        let names = self.rubric.flags.iter().map(|flag| flag.name.as_str());
        let is_open = |name: &&str| pending.iter().any(|case| !case.flags.contains_key(*name));
        names.filter(is_open).collect()
    }

    fn messages(
        &self,
        case: &Pending,
        asked_flags: &[&str],
        complaint: Option<&Complaint>,
    ) -> Vec<Message> {
        // Whoever wrote the candidate cannot know the sitting's salt.
        let nonce = self.sitting.case_id(&case.run_id, case.index);
        let whole = self.judge.model.id.provider != ProviderKind::Embedded;
        let text = &case.text;
        let mut messages =
            prompt::messages(self.rubric, asked_flags, &case.context, text, &nonce, whole);
        if let Some(Complaint { said, why }) = complaint {
            messages.push(Message {
                role: Role::Assistant,
                content: said.clone(),
            });
            messages.push(Message {
                role: Role::User,
                content: format!(
                    "That answer could not be used: {why}. Score the same candidate again, with one \
                     JSON object and nothing else."
                ),
            });
        }
        messages
    }
}

impl Outcome {
    fn unasked(case: &Pending) -> Self {
        Self {
            run_id: Arc::clone(&case.run_id),
            index: case.index,
            found: Found::Unasked(Shut::CapReached),
            usage: Usage::default(),
            asked_again: false,
        }
    }
}
