//! The OpenAPI document, made from the [`table`](super::table) of operations.

use assize_domain::role::Role;
use serde_json::{Map, Value, json};

use super::Reply;
use super::table::{OPERATIONS, Operation};
use crate::App;
use crate::access::Caller;
use crate::error::Answer;
use crate::mlflow::fields::Nothing;

/// Answers that every operation can have: a field that cannot be read, no token, too little
/// right, a body that is too large, a fault of ours.
const ALWAYS: [u16; 5] = [400, 401, 403, 413, 500];

#[expect(clippy::unnecessary_wraps, reason = "handlers look alike")]
pub(crate) fn document(_: &App, _: &Caller, _: &Nothing) -> Answer<Reply> {
    Ok(build().into())
}

/// The whole document.
pub(crate) fn build() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for operation in OPERATIONS {
        let path = paths
            .entry(operation.path)
            .or_insert_with(|| Value::Object(Map::new()));
        path[operation.method] = describe(operation);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Assize",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Which (model, prompt) pair to ship, and the proof. MLflow's tracking API is served beside this one, under /api/2.0/mlflow.",
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": schemas(),
        },
    })
}

fn describe(operation: &Operation) -> Value {
    let mut parameters: Vec<Value> = path_names(operation.path)
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
        .collect();
    let is_read = operation.method == "get";
    let fields = operation.fields.iter();
    let mut described = json!({
        "summary": operation.summary,
        "operationId": operation_id(operation),
        "responses": responses(operation),
    });
    if is_read {
        parameters.extend(fields.map(|(name, kind, required, about)| {
            json!({"name": name, "in": "query", "required": required, "description": about,
                   "schema": schema_of(kind)})
        }));
    } else if !operation.fields.is_empty() {
        let mut properties = Map::new();
        let mut required = Vec::new();
        for (name, kind, is_required, about) in fields {
            let mut schema = schema_of(kind);
            schema["description"] = (*about).into();
            properties.insert((*name).to_owned(), schema);
            if *is_required {
                required.push(*name);
            }
        }
        let mut schema = json!({"type": "object", "properties": properties,
                                "additionalProperties": false});
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        described["requestBody"] =
            json!({"required": true, "content": {"application/json": {"schema": schema}}});
    }
    if !parameters.is_empty() {
        described["parameters"] = json!(parameters);
    }
    described
}

fn operation_id(operation: &Operation) -> String {
    let words = operation
        .path
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|it| !it.is_empty());
    let words: Vec<&str> = words.collect();
    format!("{}_{}", operation.method, words.join("_"))
}

fn path_names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

fn schema_of(kind: &str) -> Value {
    match kind {
        "verdicts" => json!({"type": "array", "items": {
            "type": "object", "required": ["case", "scores"], "additionalProperties": false,
            "properties": {"case": {"type": "string"}, "scores": {"type": "object"},
                           "rationale": {"type": ["string", "null"]}},
        }}),
        "role" => json!({"enum": Role::ALL}),
        "array" => json!({"type": "array", "items": {"type": "string"}}),
        other => json!({"type": other}),
    }
}

fn responses(operation: &Operation) -> Value {
    let (status, shape) = operation.answer;
    let content = if shape.contains('/') {
        json!({shape: {"schema": {"type": "string"}}})
    } else {
        json!({"application/json": {"schema": {"$ref": format!("#/components/schemas/{shape}")}}})
    };
    let mut all = Map::new();
    all.insert(
        status.to_string(),
        json!({"description": "Done", "content": content}),
    );
    let mut failures: Vec<u16> = ALWAYS.iter().chain(operation.others).copied().collect();
    failures.sort_unstable();
    for failure in failures {
        let about = match failure {
            400 => "A field is missing or wrong",
            401 => "No token, or one that is not known",
            403 => "The token's role may not do this, or the request comes from elsewhere",
            404 => "There is no such thing",
            409 => "Something else is the case than the request supposes",
            413 => "The request is too large",
            _ => "A fault of the server",
        };
        let error = json!({"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}});
        all.insert(
            failure.to_string(),
            json!({"description": about, "content": error}),
        );
    }
    Value::Object(all)
}

fn schemas() -> Value {
    let text = || json!({"type": "string"});
    let maybe = |kind: &str| json!({"type": [kind, "null"]});
    let list = |name: &str, of: Value| {
        json!({"type": "object", "required": [name],
               "properties": {name: {"type": "array", "items": of}}})
    };
    let job = json!({
        "type": "object",
        "required": ["job_id", "kind", "status", "experiment", "cells"],
        "properties": {
            "job_id": text(), "kind": {"enum": ["collect", "judge"]},
            "status": {"enum": ["queued", "running", "done", "failed", "cancelled"]},
            "experiment": text(), "by": text(), "request": {"type": "object"},
            "cells": {"type": "object", "required": ["done", "failed", "total"],
                      "properties": {"done": {"type": "integer"}, "failed": {"type": "integer"},
                                     "total": {"type": "integer"}}},
            "eta_seconds": maybe("integer"), "created_at": text(), "started_at": maybe("string"),
            "finished_at": maybe("string"), "error": maybe("string"), "log": text(),
        },
    });
    let mut runs = list(
        "runs",
        json!({"type": "object", "required": ["run_id", "name", "status"]}),
    );
    runs["properties"]["next_page_token"] = text();
    json!({
        "Error": {"type": "object", "required": ["error"], "properties": {
            "error": {"type": "object", "required": ["code", "message"], "properties": {
                "code": text(), "message": text(),
                "fields": {"type": "array", "items": {"type": "object",
                    "required": ["field", "message"],
                    "properties": {"field": text(), "message": text()}}},
            }},
        }},
        "Experiments": list("experiments", json!({
            "type": "object",
            "required": ["name", "experiment_id", "runs", "pending", "judged", "last_updated"],
            "properties": {"name": text(), "experiment_id": text(), "runs": {"type": "integer"},
                           "pending": {"type": "integer"}, "judged": {"type": "integer"},
                           "last_updated": {"type": "integer"}},
        })),
        "Runs": runs,
        "Leaderboard": {"type": "object", "required": ["experiment", "rows", "decision", "coverage"]},
        "Queued": {"type": "object", "required": ["job_id", "status"],
                   "properties": {"job_id": text(), "status": text(), "experiment": text()}},
        "Jobs": list("jobs", json!({"$ref": "#/components/schemas/Job"})),
        "Job": job,
        "Tokens": list("tokens", json!({"$ref": "#/components/schemas/Token"})),
        "Token": {"type": "object", "required": ["id"],
                  "properties": {"id": text(), "role": text(), "name": text(), "token": text()}},
        "Cases": {"type": "object", "required": ["experiment", "cases"],
                  "properties": {"experiment": text(), "sitting": maybe("string"),
                                 "cases": {"type": "array", "items": {"type": "object",
                                     "required": ["case", "context", "candidate", "scores"]}}}},
        "Accepted": {"type": "object", "required": ["scored", "revised", "unchanged", "progress"]},
        "Finished": {"type": "object", "required": ["sitting", "state", "judged", "released"]},
        "OpenApi": {"type": "object", "required": ["openapi", "paths"]},
    })
}
