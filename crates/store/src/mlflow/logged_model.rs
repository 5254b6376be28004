//! Logged models: models that a run trained or used, with their own params, tags, metrics and
//! files.

use serde::{Deserialize, Serialize};

use super::{Entry, Point, Slice};

/// The status of a logged model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum ModelStatus {
    #[serde(rename = "LOGGED_MODEL_STATUS_UNSPECIFIED")]
    Unspecified,
    #[serde(rename = "LOGGED_MODEL_PENDING")]
    Pending,
    #[serde(rename = "LOGGED_MODEL_READY")]
    Ready,
    #[serde(rename = "LOGGED_MODEL_UPLOAD_FAILED")]
    Failed,
}

impl ModelStatus {
    /// In the order of their numbers in the protocol.
    pub const ALL: [Self; 4] = [Self::Unspecified, Self::Pending, Self::Ready, Self::Failed];

    /// The name in the protocol's enumeration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unspecified => "LOGGED_MODEL_STATUS_UNSPECIFIED",
            Self::Pending => "LOGGED_MODEL_PENDING",
            Self::Ready => "LOGGED_MODEL_READY",
            Self::Failed => "LOGGED_MODEL_UPLOAD_FAILED",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoggedModel {
    pub info: LoggedModelInfo,
    pub data: LoggedModelData,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoggedModelInfo {
    pub experiment_id: String,
    pub model_id: String,
    pub name: String,
    pub artifact_uri: String,
    pub creation_timestamp_ms: i64,
    pub last_updated_timestamp_ms: i64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub model_type: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub source_run_id: String,
    pub status: ModelStatus,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct LoggedModelData {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub params: Vec<Entry>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<ModelPoint>,
}

/// A point of a run's metric that refers to a model, and optionally to a dataset.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelPoint {
    #[serde(flatten)]
    pub point: Point,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub dataset_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub dataset_digest: String,
    pub model_id: String,
    pub run_id: String,
}

/// The data of a new logged model.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NewLoggedModel {
    pub experiment_id: String,
    pub name: Option<String>,
    pub model_type: String,
    pub source_run_id: String,
    pub params: Vec<Entry>,
    pub tags: Vec<Entry>,
}

/// A model that is an input or an output of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelUse {
    pub model_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<i64>,
}

/// A dataset that metrics refer to; without a digest, any dataset of that name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub struct DatasetRef {
    #[serde(default)]
    pub dataset_name: String,
    #[serde(default)]
    pub dataset_digest: String,
}

/// A sort order of logged models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelOrder {
    pub field: String,
    pub ascending: bool,
    /// If it has a name, only metrics that refer to this dataset are used.
    pub dataset: DatasetRef,
}

/// A search for logged models.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelSearch {
    pub experiment_ids: Vec<String>,
    pub filter: String,
    pub datasets: Vec<DatasetRef>,
    pub order_by: Vec<ModelOrder>,
    pub slice: Slice,
}
