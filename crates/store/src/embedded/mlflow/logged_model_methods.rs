//! The logged-model methods of the MLflow API.

use super::{Mlflow, logged_model_search, logged_models};
use crate::Result;
use crate::mlflow::{Entry, LoggedModel, ModelSearch, ModelStatus, NewLoggedModel, Page, limits};

impl Mlflow<'_> {
    pub fn logged_model_create(&self, new: NewLoggedModel) -> Result<LoggedModel> {
        if let Some(name) = &new.name {
            limits::logged_model_name(name)?;
        }
        limits::length("the model's type", &new.model_type, limits::EXPERIMENT_NAME)?;
        limits::length("the model's run id", &new.source_run_id, 32)?;
        new.params.iter().try_for_each(limits::param)?;
        new.tags.iter().try_for_each(limits::registry_tag)?;
        self.store
            .writer
            .write(move |session| logged_models::create(session, &new))
    }

    pub fn logged_model_get(&self, model_id: &str, also_deleted: bool) -> Result<LoggedModel> {
        self.store
            .read(|conn| logged_models::get(conn, model_id, also_deleted))
    }

    pub fn logged_model_search(&self, search: &ModelSearch) -> Result<Page<LoggedModel>> {
        self.store
            .read(|conn| logged_model_search::search(conn, search))
    }

    pub fn logged_model_finalize(
        &self,
        model_id: &str,
        status: ModelStatus,
    ) -> Result<LoggedModel> {
        let model_id = model_id.to_owned();
        self.store
            .writer
            .write(move |session| logged_models::finalize(session, &model_id, status))
    }

    pub fn logged_model_params_log(&self, model_id: &str, params: Vec<Entry>) -> Result<()> {
        params.iter().try_for_each(limits::param)?;
        let model_id = model_id.to_owned();
        self.store
            .writer
            .write(move |session| logged_models::params_log(session, &model_id, &params))
    }

    pub fn logged_model_tags_set(&self, model_id: &str, tags: Vec<Entry>) -> Result<()> {
        tags.iter().try_for_each(limits::registry_tag)?;
        let model_id = model_id.to_owned();
        self.store
            .writer
            .write(move |session| logged_models::tags_set(session, &model_id, &tags))
    }

    pub fn logged_model_tag_delete(&self, model_id: &str, key: &str) -> Result<()> {
        let (model_id, key) = (model_id.to_owned(), key.to_owned());
        self.store
            .writer
            .write(move |session| logged_models::tag_delete(session, &model_id, &key))
    }

    pub fn logged_model_delete(&self, model_id: &str) -> Result<()> {
        let model_id = model_id.to_owned();
        self.store
            .writer
            .write(move |session| logged_models::delete(session, &model_id))
    }
}
