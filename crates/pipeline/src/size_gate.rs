//! The size gate: no model above `max_model_b` is ever loaded.
//!
//! The count is the one that the model itself reports, or the one the user vouches for with
//! `--assume-size` where it reports none. Nothing is guessed from a tag's name.

use std::collections::BTreeMap;
use std::sync::Arc;

use assize_domain::model::ModelId;
use assize_providers::{ModelInfo, Provider, ProviderError};

use crate::{PipelineError, Result};

/// A model of known size: what its provider reports about it, and which providers have it.
#[derive(Debug, Clone)]
pub struct SizedModel {
    pub id: ModelId,
    pub info: ModelInfo,
    pub parameter_count: u64,
    /// Providers (hosts) that have the model, in the user's order.
    pub providers: Vec<Arc<dyn Provider>>,
}

impl SizedModel {
    pub fn billions(&self) -> f64 {
        self.parameter_count as f64 / 1e9
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
pub fn describe(
    id: &ModelId,
    providers: &[Arc<dyn Provider>],
    assume_size: &BTreeMap<String, f64>,
) -> Result<SizedModel> {
    let mut having = Vec::new();
    let mut first: Option<ModelInfo> = None;
    let mut last_error: Option<ProviderError> = None;
    for provider in providers {
        match provider.describe(&id.name) {
            Ok(info) => {
                // Another build of the same tag would be another model under one name.
                if first
                    .as_ref()
                    .is_none_or(|known| known.digest == info.digest)
                {
                    having.push(Arc::clone(provider));
                    first.get_or_insert(info);
                }
            }
            Err(error) => last_error = Some(error),
        }
    }
    let Some(info) = first else {
        let error = last_error.map_or_else(
            || PipelineError::Invalid(format!("nothing here can run '{id}'")),
            PipelineError::Provider,
        );
        return Err(error);
    };
    let assumed = assume_size
        .get(&id.to_string())
        .map(|billions| billions_to_count(*billions));
    let Some(parameter_count) = info.parameter_count.or(assumed) else {
        return Err(PipelineError::Invalid(format!(
            "{id} does not report its size, so the size gate cannot admit it: if you know the size, \
             say so with --assume-size {id}=B (in billions of parameters)"
        )));
    };
    Ok(SizedModel {
        id: id.clone(),
        info,
        parameter_count,
        providers: having,
    })
}

/// Splits models into those that may be loaded and those that may not.
pub fn admit(models: Vec<SizedModel>, max_model_b: f64) -> (Vec<SizedModel>, Vec<Rejected>) {
    let (admitted, rejected): (Vec<_>, Vec<_>) = models
        .into_iter()
        .partition(|model| model.billions() <= max_model_b);
    let rejected = rejected
        .into_iter()
        .map(|model| Rejected {
            reason: format!("larger than {max_model_b:?}B (--max-model-b)"),
            parameter_count: model.parameter_count,
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
