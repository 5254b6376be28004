//! The OpenAPI document, generated from the [`table`](super::table) of operations. Schemas are
//! derived from the types that are deserialised and serialised.

use assize_domain::error_kind::ErrorKind;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::table::{Content, Field, Operation, Request, operations};
use crate::App;
use crate::access::Caller;
use crate::error::{ApiResult, ErrorBody, status_of};
use crate::mlflow::fields::NoFields;

/// Errors that every operation can return.
const COMMON_ERRORS: [ErrorKind; 5] = [
    ErrorKind::InvalidInput,
    ErrorKind::Unauthenticated,
    ErrorKind::Forbidden,
    ErrorKind::TooLarge,
    ErrorKind::Internal,
];

/// The whole document.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct OpenApi {
    openapi: &'static str,
    info: Value,
    security: Value,
    paths: Map<String, Value>,
    components: Value,
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "all handlers have the same signature"
)]
pub(crate) fn document(_: &App, _: &Caller, _: &NoFields) -> ApiResult<OpenApi> {
    Ok(build(&operations()))
}

/// The document of these operations.
pub(crate) fn build<S>(operations: &[Operation<S>]) -> OpenApi {
    let mut generator = response_schemas();
    let mut paths: Map<String, Value> = Map::new();
    for operation in operations {
        let path = paths
            .entry(operation.path)
            .or_insert_with(|| Value::Object(Map::new()));
        path[operation.method] = describe(operation, &mut generator);
    }
    let schemas = generator.take_definitions(true);
    OpenApi {
        openapi: "3.1.0",
        info: json!({
            "title": "Assize",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Evaluates (model, prompt) pairs and shows which one to ship. MLflow's tracking API is available under /api/2.0/mlflow.",
        }),
        security: json!([{"token": []}]),
        paths,
        components: json!({
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": schemas,
        }),
    }
}

/// The generator for schemas of responses; named types go to `components`.
fn response_schemas() -> SchemaGenerator {
    let settings = SchemaSettings::draft2020_12().with(|it| {
        it.definitions_path = "/components/schemas".into();
        it.meta_schema = None;
    });
    settings.for_serialize().into_generator()
}

/// The schema of a request, without references: an object of fields.
fn request_schema(request: Request) -> Value {
    match request {
        Request::Type(schema_of) => {
            let settings = SchemaSettings::draft2020_12().with(|it| {
                it.inline_subschemas = true;
                it.meta_schema = None;
            });
            let mut generator = settings.for_deserialize().into_generator();
            let mut schema = schema_of(&mut generator).to_value();
            if let Some(fields) = schema.as_object_mut() {
                fields.remove("title");
                fields.remove("description");
            }
            schema
        }
        Request::Table(fields) => {
            let required: Vec<&str> = fields.iter().filter(|it| it.2).map(|it| it.0).collect();
            let properties: Map<String, Value> = fields.iter().map(property).collect();
            let mut schema = json!({"type": "object", "properties": properties,
                                    "additionalProperties": false});
            if !required.is_empty() {
                schema["required"] = json!(required);
            }
            schema
        }
    }
}

fn property((name, kind, _, about): &Field) -> (String, Value) {
    let mut schema = match *kind {
        "array" => json!({"type": "array", "items": {"type": "string"}}),
        other => json!({"type": other}),
    };
    schema["description"] = (*about).into();
    ((*name).to_owned(), schema)
}

/// A field of an operation's query or body.
#[derive(Debug)]
pub(crate) struct RequestField {
    pub name: String,
    pub is_required: bool,
    pub about: String,
    schema: Value,
}

impl RequestField {
    /// The name of the JSON type.
    pub fn kind(&self) -> &str {
        let kind = &self.schema["type"];
        let first = kind.as_array().and_then(|all| all.first());
        first.unwrap_or(kind).as_str().unwrap_or("string")
    }
}

impl<S> Operation<S> {
    /// The fields of the query or the body, without those of the path.
    pub fn fields(&self) -> Vec<RequestField> {
        fields_of(self, &request_schema(self.request))
    }
}

fn fields_of<S>(operation: &Operation<S>, schema: &Value) -> Vec<RequestField> {
    let required = |name: &str| {
        let all = schema["required"].as_array();
        all.is_some_and(|all| all.iter().any(|it| it == name))
    };
    let properties = schema["properties"].as_object().into_iter().flatten();
    properties
        .filter(|(name, _)| path_names(operation.path).all(|it| it != name.as_str()))
        .map(|(name, schema)| RequestField {
            name: name.clone(),
            is_required: required(name),
            about: schema["description"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            schema: schema.clone(),
        })
        .collect()
}

fn describe<S>(operation: &Operation<S>, generator: &mut SchemaGenerator) -> Value {
    let mut parameters: Vec<Value> = path_names(operation.path)
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
        .collect();
    let mut described = json!({
        "summary": operation.summary,
        "operationId": operation_id(operation),
        "responses": responses(operation, generator),
    });
    let schema = request_schema(operation.request);
    let fields = fields_of(operation, &schema);
    if operation.method == "get" {
        parameters.extend(fields.into_iter().map(|mut it| {
            if let Some(schema) = it.schema.as_object_mut() {
                schema.remove("description");
            }
            json!({"name": it.name, "in": "query", "required": it.is_required,
                   "description": it.about, "schema": it.schema})
        }));
    } else if !fields.is_empty() {
        described["requestBody"] =
            json!({"required": true, "content": {"application/json": {"schema": schema}}});
    }
    if !parameters.is_empty() {
        described["parameters"] = json!(parameters);
    }
    described
}

fn operation_id<S>(operation: &Operation<S>) -> String {
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

fn responses<S>(operation: &Operation<S>, generator: &mut SchemaGenerator) -> Value {
    let content = match operation.response {
        Content::Json(schema_of) => json!({"application/json": {"schema": schema_of(generator)}}),
        Content::EventStream => json!({"text/event-stream": {"schema": {"type": "string"}}}),
    };
    let mut all = Map::new();
    all.insert(
        operation.status.as_u16().to_string(),
        json!({"description": "Done", "content": content}),
    );
    let mut failures: Vec<ErrorKind> = COMMON_ERRORS
        .iter()
        .chain(operation.failures)
        .copied()
        .collect();
    failures.sort_by_key(|it| it.report().http_status);
    let error: Schema = generator.subschema_for::<ErrorBody<'_>>();
    for kind in failures {
        all.insert(
            status_of(kind).as_u16().to_string(),
            json!({"description": about(kind), "content": {"application/json": {"schema": error}}}),
        );
    }
    Value::Object(all)
}

const fn about(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::InvalidInput => "A field is missing or invalid",
        ErrorKind::Unauthenticated => "The token is missing, unknown or revoked",
        ErrorKind::Forbidden => {
            "The token's role does not permit this, or the request comes from another site"
        }
        ErrorKind::Sealed => {
            "The token's role does not permit this, or the confirmation split is sealed"
        }
        ErrorKind::NotFound => "The requested resource does not exist",
        ErrorKind::Conflict => "The request conflicts with the current state",
        ErrorKind::TooLarge => "The request is too large",
        ErrorKind::Unavailable => "Too many writes are waiting; send the request again later",
        _ => "Internal error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_come_from_the_types() {
        let document = serde_json::to_value(build(&operations())).unwrap();
        let schemas = &document["components"]["schemas"];
        let job = &schemas["Job"];
        assert_eq!(
            job["properties"]["cells"]["$ref"],
            "#/components/schemas/Cells"
        );
        let required = job["required"].as_array().unwrap();
        assert!(required.contains(&json!("error")) && !required.contains(&json!("log")));
        assert_eq!(
            schemas["JobStatus"]["enum"],
            json!(["queued", "running", "done", "failed", "cancelled"])
        );
        assert!(schemas["Leaderboard"]["properties"]["rows"].is_object());
        let tokens = &document["paths"]["/api/tokens"]["post"];
        let body = &tokens["requestBody"]["content"]["application/json"]["schema"];
        assert_eq!(body["required"], json!(["role"]));
        assert_eq!(body["additionalProperties"], false);
        let runs = &document["paths"]["/api/bench/runs/{experiment}"]["get"];
        let names: Vec<&Value> = runs["parameters"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| &it["name"])
            .collect();
        assert_eq!(names[..3], ["experiment", "page_token", "max_results"]);
        let text = document.to_string();
        assert!(!text.contains("$defs"), "{text}");
    }
}
