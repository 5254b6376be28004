//! The models of a loop, described when they are needed and then kept.

use std::cell::RefCell;
use std::collections::BTreeMap;

use assize_domain::model::ModelId;
use assize_pipeline::optimise::LoopModels;
use assize_pipeline::size_gate::{SizedModel, admit};
use assize_pipeline::{PipelineError, Result};
use assize_providers::ProviderError;
use assize_store::StoreError;

use crate::commands::judge::auto::describe_helper;
use crate::session::{Providers, Session};
use crate::settings::Settings;

/// Finds models with the settings of one invocation.
pub struct Models<'a> {
    settings: &'a Settings,
    providers: RefCell<Providers>,
    /// By role and id.
    known: RefCell<BTreeMap<(&'static str, String), SizedModel>>,
}

impl<'a> Models<'a> {
    pub fn new(session: &Session, settings: &'a Settings) -> Self {
        Self {
            settings,
            providers: RefCell::new(session.providers(settings)),
            known: RefCell::default(),
        }
    }

    fn find(
        &self,
        role: &'static str,
        id: &str,
        describe: impl FnOnce(&mut Providers, &ModelId) -> anyhow::Result<SizedModel>,
    ) -> Result<SizedModel> {
        let key = (role, id.to_owned());
        if let Some(known) = self.known.borrow().get(&key) {
            return Ok(known.clone());
        }
        let parsed: ModelId = id
            .parse()
            .map_err(|error| PipelineError::Invalid(format!("the {role}: {error}")))?;
        let found = describe(&mut self.providers.borrow_mut(), &parsed).map_err(typed)?;
        self.known.borrow_mut().insert(key, found.clone());
        Ok(found)
    }
}

impl LoopModels for Models<'_> {
    fn generator(&self, id: &str) -> Result<SizedModel> {
        self.find("model", id, |providers, id| {
            let model = providers.describe(id, self.settings)?;
            let (mut admitted, rejected) = admit(vec![model], self.settings.options.max_model_b);
            admitted.pop().ok_or_else(|| {
                let reason = rejected.first().map_or("", |it| it.reason.as_str());
                let message = format!("the model {id} was rejected by the size gate: {reason}");
                PipelineError::Invalid(message).into()
            })
        })
    }

    fn judge(&self, id: &str) -> Result<SizedModel> {
        self.find("judge", id, |providers, id| {
            describe_helper(providers, "judge", id, self.settings)
        })
    }

    fn reflector(&self, id: &ModelId) -> Result<SizedModel> {
        self.find("reflector", &id.to_string(), |providers, id| {
            describe_helper(providers, "reflector", id, self.settings)
        })
    }
}

/// Errors of the session keep their kinds.
fn typed(error: anyhow::Error) -> PipelineError {
    let error = match error.downcast::<PipelineError>() {
        Ok(error) => return error,
        Err(error) => error,
    };
    let error = match error.downcast::<ProviderError>() {
        Ok(error) => return error.into(),
        Err(error) => error,
    };
    match error.downcast::<StoreError>() {
        Ok(error) => error.into(),
        Err(error) => PipelineError::Service(error.to_string()),
    }
}
