//! The size gate: no model above `max_model_b` is ever loaded.
//!
//! The count is the one that the model itself reports, or the one the user vouches for with
//! `--assume-size` where it reports none. Nothing is guessed from a tag's name. A hosted model (an
//! `openai:` endpoint on another machine) may be of unknown size: its weights are not loaded here.

use std::collections::BTreeMap;
use std::sync::Arc;

use assize_domain::model::{ModelId, ProviderKind};
use assize_providers::{ModelInfo, Provider, ProviderError};

use crate::{PipelineError, Result};

/// A model of known size: what its provider reports about it, and which providers have it.
#[derive(Debug, Clone)]
pub struct SizedModel {
    pub id: ModelId,
    pub info: ModelInfo,
    /// `None` for a hosted model that does not report it.
    pub parameter_count: Option<u64>,
    /// Providers (hosts) that have the model, in the user's order.
    pub providers: Vec<Arc<dyn Provider>>,
    /// Engine and build on each of `providers`.
    pub provenances: Vec<String>,
    /// Hosts that could not be asked whether they have it.
    pub unasked: Vec<UnaskedHost>,
}

/// A host that did not answer, and why.
#[derive(Debug, Clone)]
pub struct UnaskedHost {
    pub provider: Arc<dyn Provider>,
    pub reason: String,
}

impl SizedModel {
    /// Whether the gate admits it.
    pub fn is_within(&self, max_model_b: f64) -> bool {
        self.parameter_count
            .is_none_or(|count| count as f64 / 1e9 <= max_model_b)
    }
}

/// A model that the gate rejected.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Rejected {
    pub model: String,
    pub parameter_count: u64,
    pub reason: String,
}

/// Finds out what a model is and which of `providers` have it.
///
/// Hosts with different weights under one name are an error: which of them a cell would come from
/// would depend on which host is free, or on which one answers today.
pub fn describe(
    id: &ModelId,
    providers: &[Arc<dyn Provider>],
    assume_size: &BTreeMap<String, f64>,
) -> Result<SizedModel> {
    let (mut having, mut provenances, mut unasked) = (Vec::new(), Vec::new(), Vec::new());
    let mut first: Option<ModelInfo> = None;
    let mut errors: Vec<ProviderError> = Vec::new();
    for provider in providers {
        match provider.describe(&id.name) {
            Ok(info) => {
                having.push(Arc::clone(provider));
                provenances.push(info.provenance.clone());
                let known = first.get_or_insert_with(|| info.clone());
                if known.digest != info.digest {
                    let digests = [known.digest.as_str(), info.digest.as_str()];
                    return Err(different_weights(id, digests, [&having[0], provider]));
                }
            }
            Err(error) => {
                if !matches!(error, ProviderError::ModelNotFound { .. }) {
                    unasked.push(UnaskedHost {
                        provider: Arc::clone(provider),
                        reason: error.to_string(),
                    });
                }
                errors.push(error);
            }
        }
    }
    let Some(info) = first else {
        return Err(no_host(id, errors));
    };
    let assumed = assume_size
        .get(&id.to_string())
        .map(|billions| billions_to_count(*billions));
    let parameter_count = info.parameter_count.or(assumed);
    let is_hosted = || having.iter().all(|provider| provider.is_hosted());
    if parameter_count.is_none() && !is_hosted() {
        return Err(PipelineError::Invalid(format!(
            "{id} does not report its size, so the size gate cannot admit it: if you know the size, \
             say so with --assume-size {id}=B (in billions of parameters)"
        )));
    }
    Ok(SizedModel {
        id: id.clone(),
        info,
        parameter_count,
        providers: having,
        provenances,
        unasked,
    })
}

fn no_host(id: &ModelId, mut errors: Vec<ProviderError>) -> PipelineError {
    if errors.len() > 1 {
        let reasons: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let reasons = reasons.join("; ");
        return PipelineError::Service(format!("no host can run '{id}': {reasons}"));
    }
    errors.pop().map_or_else(
        || PipelineError::Invalid(format!("nothing here can run '{id}'")),
        PipelineError::Provider,
    )
}

fn different_weights(
    id: &ModelId,
    digests: [&str; 2],
    hosts: [&Arc<dyn Provider>; 2],
) -> PipelineError {
    let [one, other] = hosts.map(|it| it.address().unwrap_or_default());
    let short = digests.map(|it| it.chars().take(12).collect::<String>());
    let [one_digest, other_digest] = if short[0] == short[1] {
        digests.map(str::to_owned)
    } else {
        short
    };
    let (remedy, option) = match id.provider {
        ProviderKind::Ollama => (
            format!("run 'ollama pull {}' on both", id.name),
            "--ollama-url",
        ),
        _ => ("serve the same weights on both".to_owned(), "--base-url"),
    };
    PipelineError::Invalid(format!(
        "'{id}' is not the same model on every host: its digest is {one_digest} on {one} and \
         {other_digest} on {other}, and their cells cannot be compared as one model. To use both hosts, \
         {remedy}; otherwise leave one of them out of {option}"
    ))
}

/// Splits models into those that may be loaded and those that may not.
pub fn admit(models: Vec<SizedModel>, max_model_b: f64) -> (Vec<SizedModel>, Vec<Rejected>) {
    let (admitted, rejected): (Vec<_>, Vec<_>) = models
        .into_iter()
        .partition(|model| model.is_within(max_model_b));
    let rejected = rejected
        .into_iter()
        .map(|model| Rejected {
            reason: format!("larger than {max_model_b:?}B (--max-model-b)"),
            parameter_count: model.parameter_count.unwrap_or_default(),
            model: model.id.to_string(),
        })
        .collect();
    (admitted, rejected)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "sizes are validated to be positive and small"
)]
fn billions_to_count(billions: f64) -> u64 {
    (billions * 1e9) as u64
}

#[cfg(test)]
mod tests {
    use assize_providers::{Completion, Request};

    use super::*;

    /// A provider whose models do not report their size.
    #[derive(Debug)]
    struct Silent {
        is_hosted: bool,
    }

    impl Provider for Silent {
        fn host(&self) -> Option<String> {
            None
        }

        fn list(&self) -> assize_providers::Result<Vec<String>> {
            Ok(Vec::new())
        }

        fn describe(&self, _: &str) -> assize_providers::Result<ModelInfo> {
            Ok(ModelInfo {
                parameter_count: None,
                digest: String::new(),
                provenance: String::new(),
                size_bytes: None,
                context_length: None,
            })
        }

        fn generate(&self, _: &str, _: &Request) -> Vec<assize_providers::Result<Completion>> {
            Vec::new()
        }

        fn is_hosted(&self) -> bool {
            self.is_hosted
        }
    }

    fn described(is_hosted: bool) -> Result<SizedModel> {
        let provider: Arc<dyn Provider> = Arc::new(Silent { is_hosted });
        let id: ModelId = "openai:gpt-x".parse().expect("an id");
        describe(&id, &[provider], &BTreeMap::new())
    }

    #[test]
    fn only_a_hosted_model_may_be_of_unknown_size() {
        let error = described(false)
            .expect_err("it holds weights here")
            .to_string();
        assert!(error.contains("--assume-size openai:gpt-x=B"), "{error}");
        let hosted = described(true).expect("its weights are elsewhere");
        assert_eq!(hosted.parameter_count, None);
        let (admitted, rejected) = admit(vec![hosted], 4.0);
        assert_eq!((admitted.len(), rejected.len()), (1, 0));
    }
}
