//! Has the model score one case, and reads its answer.

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
use super::budget::{Budget, BudgetStop};
use crate::judge::prompt;

/// How much of an unusable answer is sent back to the model.
const QUOTED_CHARS: usize = 300;

/// One case that waits for a verdict.
#[derive(Debug, Clone)]
pub(super) struct PendingCase {
    pub run_id: Arc<str>,
    pub index: u32,
    /// The same wherever the same cell is judged, unlike the run's id, so that a seeded judge gives
    /// the same verdicts again.
    pub identity: Arc<str>,
    pub text: String,
    pub flags: BTreeMap<String, bool>,
    pub computed: BTreeMap<String, f64>,
    pub context: Arc<Value>,
}

/// How scoring one case ended.
#[derive(Debug)]
pub(super) struct Outcome {
    pub run_id: Arc<str>,
    pub index: u32,
    pub result: ScoringResult,
    pub usage: Usage,
    pub asked_again: bool,
}

#[derive(Debug)]
pub(super) enum ScoringResult {
    Verdict(Verdict),
    /// The judge answered twice, and neither answer could be used.
    Unusable(String),
    /// The judge did not answer.
    Failed(String),
    /// It was not asked, because the budget is exhausted.
    NotAsked(BudgetStop),
}

/// Sends requests to the judging model.
#[derive(Debug)]
pub(super) struct Scorer<'a> {
    pub judge: &'a AutoJudge<'a>,
    pub provider: &'a dyn Provider,
    pub rubric: &'a Rubric,
    pub sitting: &'a Sitting,
    pub budget: Budget,
}

/// An answer that could not be used, and why.
struct Rejection {
    said: String,
    why: String,
}

impl Scorer<'_> {
    /// Asks about a candidate; once more, with what was wrong, where the answer could not be used.
    pub fn score(&self, case: &PendingCase) -> Outcome {
        let mut outcome = Outcome::not_asked(case);
        if let Some(rejection) = self.ask(case, None, &mut outcome) {
            self.ask(case, Some(&rejection), &mut outcome);
        }
        outcome
    }

    /// Asks once; returns what is wrong with the answer.
    fn ask(
        &self,
        case: &PendingCase,
        rejection: Option<&Rejection>,
        outcome: &mut Outcome,
    ) -> Option<Rejection> {
        let asked_flags = self.asked_flags(case);
        let messages = self.messages(case, &asked_flags, rejection);
        let reserved_usd = match self.budget.reserve(&messages, self.judge.max_tokens) {
            Ok(reserved_usd) => reserved_usd,
            Err(budget_stop) => {
                outcome.result = ScoringResult::NotAsked(budget_stop);
                return None;
            }
        };
        outcome.asked_again = rejection.is_some();
        let seed = candidate_seed(self.judge.seed, &case.identity, case.index);
        let bounded = self.judge.model.id.provider != ProviderKind::OpenAi;
        let request = Request {
            prompt: "judge".to_owned(),
            scenario: "judge".to_owned(),
            candidates: vec![assize_providers::Candidate { messages, seed }],
            sampling: Sampling {
                temperature: 0.0,
                max_tokens: self.judge.max_tokens,
                num_ctx: self.judge.num_ctx,
                json_schema: Some(prompt::schema(self.rubric, &asked_flags, bounded)),
                ..Sampling::default()
            },
            ..Request::default()
        };
        let mut answers = self.provider.generate(&self.judge.model.id.name, &request);
        let answer = answers.pop().unwrap_or_else(|| {
            Err(ProviderError::Malformed {
                host: self.provider.host().unwrap_or_default(),
                reason: "it did not answer".to_owned(),
            })
        });
        let cost = self.budget.settle(reserved_usd, answer.as_ref().ok());
        self.read(case, answer, cost, outcome)
    }

    fn read(
        &self,
        case: &PendingCase,
        answer: Result<Completion, ProviderError>,
        cost: Option<f64>,
        outcome: &mut Outcome,
    ) -> Option<Rejection> {
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                outcome.result = ScoringResult::Failed(error.to_string());
                return None;
            }
        };
        outcome.usage.add(&Usage {
            prompt_tokens: answer.prompt_tokens,
            completion_tokens: answer.completion_tokens,
            cost_usd: cost,
        });
        let (flags, computed) = (&case.flags, &case.computed);
        match prompt::read(self.rubric, &answer.text, case.index, flags, computed) {
            Ok(verdict) => {
                outcome.result = ScoringResult::Verdict(verdict);
                None
            }
            Err(why) => {
                outcome.result = ScoringResult::Unusable(why.clone());
                let said = answer.text.chars().take(QUOTED_CHARS).collect();
                Some(Rejection { said, why })
            }
        }
    }

    /// Flags that no mechanical check has computed.
    fn asked_flags(&self, case: &PendingCase) -> Vec<&str> {
        let names = self.rubric.flags.iter().map(|flag| flag.name.as_str());
        names
            .filter(|name| !case.flags.contains_key(*name))
            .collect()
    }

    fn messages(
        &self,
        case: &PendingCase,
        asked_flags: &[&str],
        rejection: Option<&Rejection>,
    ) -> Vec<Message> {
        // The author of the candidate cannot know the sitting's salt.
        let nonce = self.sitting.case_id(&case.run_id, case.index);
        let whole = self.judge.model.id.provider != ProviderKind::Embedded;
        let text = &case.text;
        let mut messages =
            prompt::messages(self.rubric, asked_flags, &case.context, text, &nonce, whole);
        if let Some(Rejection { said, why }) = rejection {
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
    fn not_asked(case: &PendingCase) -> Self {
        Self {
            run_id: Arc::clone(&case.run_id),
            index: case.index,
            result: ScoringResult::NotAsked(BudgetStop::CapReached),
            usage: Usage::default(),
            asked_again: false,
        }
    }
}
