//! Requests to score: what they contain, and what is wrong with them.
//!
//! The body is read into types directly. What the features do not use is kept as the client sent
//! it, for the log.

use std::collections::HashSet;
use std::fmt;

use assize_domain::error_kind::ErrorKind;
use assize_policy::{Context, FeatureVector, Policy, PolicyError, Profile, SHARED_ARM, UserModels};
use assize_store::policies::{CandidateRecord, TipSource};
use axum::body::Bytes;
use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use schemars::JsonSchema;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::error::{ApiError, ApiResult};
use crate::http::{BODY_TIMEOUT, read_body};
use crate::jobs::plan::FieldProblem;

/// The size limit of a body, in bytes.
const MAX_BODY: usize = 8 << 20;
const MOST_CANDIDATES: usize = 1000;
/// The longest user id, arm and the like, in characters.
const LONGEST_NAME: usize = 200;

/// Candidates to choose from for a user, in a context.
#[derive(Debug, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScoreRequest {
    /// 1 to 200 characters
    pub user_id: String,
    /// `hour` in [0, 24), `weekend`, `open_tasks` from 0, `urgency` in [0, 1]; all optional, other
    /// keys are logged
    #[serde(default)]
    #[schemars(with = "Option<Map<String, Value>>")]
    pub context: Option<Box<RawValue>>,
    /// 1 to 1,000 candidates with different ids
    pub candidates: Vec<Candidate>,
    /// `completion_rate`, `dismiss_rate` in [0, 1], `mean_dwell_s`, `tip_volume` from 0,
    /// `preferred_hour` in [0, 24); all optional
    #[serde(default)]
    #[schemars(with = "Option<Map<String, Value>>")]
    pub profile_features: Option<Box<RawValue>>,
    /// Determines the random part of the choice; random without it
    #[serde(default)]
    pub seed: Option<u64>,
    /// The version of the features that the client expects; refused if the policy has another
    #[serde(default)]
    pub feature_version: Option<u8>,
}

/// One candidate. Other keys are allowed and logged.
#[derive(Debug, Clone, JsonSchema)]
pub(crate) struct Candidate {
    /// 1 to 200 characters
    pub id: String,
    /// A stable key; candidates of one arm share a model, and those without one share another
    pub arm: Option<String>,
    /// How well the tip fits the task, in [0, 1]
    pub task_match: Option<f64>,
    /// Features of the client in place of the built-in ones, for all candidates or none
    pub features: Option<Vec<f64>>,
    /// The run that made the tip
    pub run_id: Option<String>,
    /// The champion prompt that made the tip
    pub prompt: Option<String>,
    #[schemars(skip)]
    other: Option<Box<RawValue>>,
}

impl<'de> Deserialize<'de> for Candidate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(CandidateVisitor)
    }
}

struct CandidateVisitor;

impl<'de> Visitor<'de> for CandidateVisitor {
    type Value = Candidate;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with the key id")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Candidate, M::Error> {
        use serde::de::Error as _;
        let mut id: Option<String> = None;
        let (mut arm, mut run_id, mut prompt) = (None, None, None);
        let (mut task_match, mut features) = (None, None);
        let mut other = String::new();
        while let Some(Key(key)) = map.next_key::<Key<'de>>()? {
            match &*key {
                "id" if id.is_none() => id = Some(map.next_value()?),
                "arm" if arm.is_none() => arm = map.next_value()?,
                "task_match" if task_match.is_none() => task_match = map.next_value()?,
                "features" if features.is_none() => features = map.next_value()?,
                "run_id" if run_id.is_none() => run_id = map.next_value()?,
                "prompt" if prompt.is_none() => prompt = map.next_value()?,
                "id" | "arm" | "task_match" | "features" | "run_id" | "prompt" => {
                    return Err(M::Error::custom(format!("the key {key} occurs twice")));
                }
                key => {
                    let value: &RawValue = map.next_value()?;
                    other.push(if other.is_empty() { '{' } else { ',' });
                    other.push_str(&Value::from(key).to_string());
                    other.push(':');
                    other.push_str(value.get());
                }
            }
        }
        let other = if other.is_empty() {
            None
        } else {
            other.push('}');
            Some(RawValue::from_string(other).map_err(M::Error::custom)?)
        };
        Ok(Candidate {
            id: id.ok_or_else(|| M::Error::missing_field("id"))?,
            arm,
            task_match,
            features,
            run_id,
            prompt,
            other,
        })
    }
}

/// The key of an object, borrowed where it has no escapes.
struct Key<'a>(std::borrow::Cow<'a, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl<'de> Visitor<'de> for KeyVisitor {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(text.into()))
            }

            fn visit_str<E>(self, text: &str) -> Result<Key<'de>, E> {
                Ok(Key(text.to_owned().into()))
            }
        }
        deserializer.deserialize_identifier(KeyVisitor)
    }
}

impl Candidate {
    pub fn arm(&self) -> &str {
        self.arm.as_deref().unwrap_or(SHARED_ARM)
    }

    /// The candidate for the log.
    pub fn into_record(self, score: f64, propensity: f64) -> CandidateRecord {
        let source = self.run_id.map(TipSource::Run);
        CandidateRecord {
            id: self.id,
            arm: self.arm,
            task_match: self.task_match,
            features: self.features,
            source: source.or(self.prompt.map(TipSource::Prompt)),
            other: self.other,
            score,
            propensity,
        }
    }
}

/// A checked request.
#[derive(Debug)]
pub(crate) struct Situation {
    pub user: String,
    pub context: Context,
    pub profile: Option<Profile>,
    pub raw_context: Box<RawValue>,
    pub raw_profile: Option<Box<RawValue>>,
    pub candidates: Vec<Candidate>,
    pub seed: Option<u64>,
    pub feature_version: Option<u8>,
}

/// The body of a JSON request.
pub(crate) async fn body(request: Request) -> ApiResult<Bytes> {
    let kind = request.headers().get(CONTENT_TYPE);
    let is_json = kind
        .and_then(|it| it.to_str().ok())
        .and_then(|it| it.split(';').next())
        .is_some_and(|it| it.trim().eq_ignore_ascii_case("application/json"));
    let bytes = read_body(request.into_body(), MAX_BODY, BODY_TIMEOUT).await?;
    // Browsers let pages of other sites send forms and plain text without a preflight request,
    // but not JSON.
    if !is_json {
        return Err(ApiError::invalid(
            "send a JSON object with the header Content-Type: application/json",
        ));
    }
    Ok(bytes)
}

/// Reads JSON into a type; an error names the place.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> ApiResult<T> {
    serde_json::from_slice(bytes).map_err(|error| {
        // The place is worked out only for requests that cannot be read.
        let mut again = serde_json::Deserializer::from_slice(bytes);
        let place = serde_path_to_error::deserialize::<_, T>(&mut again);
        match place.err().and_then(|it| known_place(it.path())) {
            Some(place) => problem(place, format!("cannot be read: {}", plain(&error))),
            None => ApiError::invalid(format!("the request cannot be read: {}", plain(&error))),
        }
    })
}

/// A path in words, unless it is the whole text or not known.
fn known_place(path: &serde_path_to_error::Path) -> Option<String> {
    let place = path.to_string();
    (place != "." && !place.contains('?')).then_some(place)
}

/// An error about one field.
pub(crate) fn problem(field: impl Into<String>, message: impl Into<String>) -> ApiError {
    ApiError::fields(vec![FieldProblem {
        field: field.into(),
        message: message.into(),
    }])
}

/// A name of 1 to 200 characters.
pub(crate) fn check_name(field: &str, name: &str) -> ApiResult<()> {
    let length = name.chars().take(LONGEST_NAME + 1).count();
    if (1..=LONGEST_NAME).contains(&length) {
        return Ok(());
    }
    let what = if length == 0 {
        "is empty"
    } else {
        "is too long"
    };
    Err(problem(
        field,
        format!("{what}: use 1 to {LONGEST_NAME} characters"),
    ))
}

impl ScoreRequest {
    pub fn check(mut self) -> ApiResult<Situation> {
        check_name("user_id", &self.user_id)?;
        let count = self.candidates.len();
        if count == 0 {
            return Err(problem(
                "candidates",
                format!("is empty: send 1 to {MOST_CANDIDATES} candidates"),
            ));
        }
        if count > MOST_CANDIDATES {
            return Err(problem(
                "candidates",
                format!("has {count} entries: send at most {MOST_CANDIDATES}"),
            ));
        }
        let mut ids = HashSet::with_capacity(count);
        let brought = self.candidates[0].features.is_some();
        for (index, candidate) in self.candidates.iter().enumerate() {
            check_candidate(index, candidate, brought)?;
            if !ids.insert(candidate.id.as_str()) {
                return Err(problem(
                    format!("candidates[{index}].id"),
                    format!(
                        "'{}' occurs twice: give each candidate its own id",
                        candidate.id
                    ),
                ));
            }
        }
        for candidate in &mut self.candidates {
            candidate.arm.take_if(|it| it == SHARED_ARM);
        }
        let empty = || RawValue::from_string("{}".to_owned());
        let raw_context = self.context.map_or_else(empty, Ok);
        let raw_context = raw_context.map_err(|error| ApiError::internal(error.to_string()))?;
        let profile = self.profile_features.as_deref();
        for (index, candidate) in self.candidates.iter().enumerate() {
            if let Some(other) = &candidate.other {
                check_raw(&format!("candidates[{index}]"), other)?;
            }
        }
        check_raw("context", &raw_context)?;
        if let Some(profile) = profile {
            check_raw("profile_features", profile)?;
        }
        Ok(Situation {
            context: object("context", &raw_context)?,
            profile: profile
                .map(|it| object("profile_features", it))
                .transpose()?,
            user: self.user_id,
            raw_context,
            raw_profile: self.profile_features,
            candidates: self.candidates,
            seed: self.seed,
            feature_version: self.feature_version,
        })
    }
}

fn check_candidate(index: usize, candidate: &Candidate, brought: bool) -> ApiResult<()> {
    let field = |name: &str| format!("candidates[{index}].{name}");
    check_name(&field("id"), &candidate.id)?;
    let names = [
        ("arm", &candidate.arm),
        ("run_id", &candidate.run_id),
        ("prompt", &candidate.prompt),
    ];
    for (name, value) in names {
        if let Some(value) = value {
            check_name(&field(name), value)?;
        }
    }
    if candidate.run_id.is_some() && candidate.prompt.is_some() {
        return Err(problem(
            field("prompt"),
            "is given beside run_id: name the run or the prompt that made the tip",
        ));
    }
    if candidate.features.is_some() != brought {
        return Err(problem(
            field("features"),
            "is given for some candidates only: send features for all candidates or none",
        ));
    }
    Ok(())
}

/// An error unless a value that is logged as it came can be read back later: values that are nested
/// too deeply, numbers that are too large and broken characters cannot.
fn check_raw(field: &str, raw: &RawValue) -> ApiResult<()> {
    let read = serde_json::from_str::<Value>(raw.get());
    read.map(drop)
        .map_err(|error| problem(field, format!("cannot be read: {}", plain(&error))))
}

fn object<T: DeserializeOwned>(field: &str, raw: &RawValue) -> ApiResult<T> {
    let text = raw.get();
    if !text.starts_with('{') {
        return Err(problem(
            field,
            "is not an object: send an object or leave it out",
        ));
    }
    serde_json::from_str(text).map_err(|error| {
        let mut again = serde_json::Deserializer::from_str(text);
        let place = serde_path_to_error::deserialize::<_, T>(&mut again);
        let place = place.err().and_then(|it| known_place(it.path()));
        problem(
            place.map_or_else(|| field.to_owned(), |place| format!("{field}.{place}")),
            format!("cannot be read: {}", plain(&error)),
        )
    })
}

/// What is wrong with JSON, without the words of the language that this is written in.
fn plain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.replace("expected f64", "expected a number");
    let text = text.replace("expected u64", "expected a whole number from 0");
    text.replace("expected u8", "expected a whole number from 0 to 255")
}

/// What one policy makes of a situation.
#[derive(Debug)]
pub(crate) struct Scores<'a> {
    /// In the order of the candidates.
    pub values: Vec<f64>,
    base: FeatureVector,
    candidates: &'a [Candidate],
}

impl Scores<'_> {
    /// The features of a candidate.
    pub fn features(&self, index: usize) -> Result<Vec<f64>, PolicyError> {
        let candidate = &self.candidates[index];
        match &candidate.features {
            Some(features) => Ok(features.clone()),
            None => Ok(self.base.with_task_match(candidate.task_match)?.to_vec()),
        }
    }
}

/// Scores all candidates.
pub(crate) fn score<'a>(
    policy: &Policy,
    models: &UserModels,
    (context, profile): (&Context, Option<&Profile>),
    candidates: &'a [Candidate],
) -> Result<Scores<'a>, ApiError> {
    let version = policy.feature_version();
    let base = version
        .prepare(context, profile)
        .map_err(|it| refusal("", &it))?;
    let mut values = Vec::with_capacity(candidates.len());
    for (index, candidate) in candidates.iter().enumerate() {
        let score = match &candidate.features {
            Some(features) => policy.score(models, candidate.arm(), features),
            None => base
                .with_task_match(candidate.task_match)
                .and_then(|x| policy.score(models, candidate.arm(), &x)),
        };
        values.push(score.map_err(|error| refusal(&format!("candidates[{index}]"), &error))?);
    }
    Ok(Scores {
        values,
        base,
        candidates,
    })
}

/// The answer to what a policy refuses.
pub(crate) fn refusal(place: &str, error: &PolicyError) -> ApiError {
    let separator = match error {
        PolicyError::OutOfRange { .. } | PolicyError::NotFinite { .. } => ".",
        _ => ": ",
    };
    let message = match place {
        "" => error.to_string(),
        place => format!("{place}{separator}{error}"),
    };
    let kind = match error {
        PolicyError::Dimension { .. } | PolicyError::NotPositiveDefinite => ErrorKind::Conflict,
        PolicyError::State { .. } => ErrorKind::Corrupt,
        _ => ErrorKind::InvalidInput,
    };
    ApiError::new(kind, message)
}
