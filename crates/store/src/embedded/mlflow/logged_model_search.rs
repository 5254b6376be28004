//! Searching logged models: filters, and sorting by attribute or by metric.

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::conditions::{Sql, text_condition, text_test};
use super::experiments::{id_list, page};
use super::logged_models::read;
use crate::StoreError;
use crate::mlflow::filter::{
    Compared, Condition, Field, Operator, Subject, Test, parse, parse_order,
};
use crate::mlflow::{DatasetRef, LoggedModel, ModelOrder, ModelSearch, Page, limits};
use crate::sqlite::Attempt;

const STATUS: &str = "CASE m.status WHEN 1 THEN 'PENDING' WHEN 2 THEN 'READY' WHEN 3 THEN \
                      'FAILED' ELSE 'UNSPECIFIED' END";

/// The database limits the number of alternatives in a condition.
const MOST_DATASETS: usize = 100;

pub(super) fn search(conn: &Connection, search: &ModelSearch) -> Attempt<Page<LoggedModel>> {
    limits::list("order_by", search.order_by.len(), limits::ORDERS)?;
    limits::list("datasets", search.datasets.len(), MOST_DATASETS)?;
    let mut sql = Sql::new("m.lifecycle_stage = 'active'");
    let experiments = id_list(&search.experiment_ids)?;
    let within = "m.experiment IN (SELECT value FROM json_each(?))";
    sql.push(within.to_owned(), [Value::Text(experiments)]);
    let mut asks_for_metrics = false;
    for comparison in parse(&search.filter)? {
        let condition = Subject::LoggedModels.condition(comparison)?;
        asks_for_metrics |= matches!(condition.field, Field::Metric(_));
        add(&mut sql, &condition, &search.datasets);
    }
    if !search.datasets.is_empty() && !asks_for_metrics {
        let (about, values) = about(&search.datasets);
        let any = "EXISTS (SELECT 1 FROM logged_model_metrics x WHERE x.model = m.id";
        sql.push(format!("{any}{about})"), values);
    }
    let (orders, order_values) = orders(&search.order_by)?;
    let text = format!(
        "SELECT m.id FROM logged_models m WHERE {} ORDER BY {orders} LIMIT ? OFFSET ?",
        sql.conditions()
    );
    let bounds = [
        i64::from(search.slice.max_results) + 1,
        i64::try_from(search.slice.offset).unwrap_or(i64::MAX),
    ];
    let values = sql.values.into_iter().chain(order_values);
    let values = values.chain(bounds.map(Value::Integer));
    let mut list = conn.prepare_cached(&text)?;
    let ids = list.query_map(params_from_iter(values), |row| row.get::<_, i64>(0))?;
    let ids = page(ids.collect::<rusqlite::Result<Vec<_>>>()?, search.slice);
    let models = ids.items.into_iter().map(|id| read(conn, id));
    Ok(Page {
        items: models.collect::<Attempt<_>>()?,
        next_offset: ids.next_offset,
    })
}

/// The condition that the metric `x` refers to one of these datasets, if there are any.
fn about(datasets: &[DatasetRef]) -> (String, Vec<Value>) {
    if datasets.is_empty() {
        return (String::new(), Vec::new());
    }
    let mut values = Vec::new();
    let tests = datasets.iter().map(|dataset| {
        values.push(Value::Text(dataset.dataset_name.clone()));
        if dataset.dataset_digest.is_empty() {
            return "x.dataset_name = ?".to_owned();
        }
        values.push(Value::Text(dataset.dataset_digest.clone()));
        "(x.dataset_name = ? AND x.dataset_digest = ?)".to_owned()
    });
    let tests = tests.collect::<Vec<_>>().join(" OR ");
    (format!(" AND ({tests})"), values)
}

fn add(sql: &mut Sql, condition: &Condition, datasets: &[DatasetRef]) {
    let test = &condition.test;
    match &condition.field {
        Field::Metric(key) => metric(sql, key, test, datasets),
        Field::Param(key) => sql.entry_test("logged_model_params", "x.model = m.id", key, test),
        Field::Tag(key) => sql.entry_test("logged_model_tags", "x.model = m.id", key, test),
        Field::Number(column) => sql.number_test(number_column(column), test),
        Field::Text("status") => text_test(sql, STATUS, test),
        Field::Text(column) => text_test(sql, &format!("m.{column}"), test),
        // The grammar of logged models has no other field.
        Field::Dataset(_) => {
            let (condition, values) = text_condition("m.name", test);
            sql.push(condition, values);
        }
    }
}

fn number_column(attribute: &str) -> &'static str {
    if attribute.starts_with("creation") {
        "m.creation_time"
    } else {
        "m.last_update_time"
    }
}

fn metric(sql: &mut Sql, key: &str, test: &Test, datasets: &[DatasetRef]) {
    let (Some(sign), Compared::Number(number)) = (test.operator.sign(), &test.with) else {
        return;
    };
    let compared = if test.operator == Operator::NotEqual {
        format!("(x.is_nan OR x.value {sign} ?)")
    } else {
        format!("NOT x.is_nan AND x.value {sign} ?")
    };
    let (about, values) = about(datasets);
    let first = [Value::Text(key.to_owned()), Value::Real(*number)];
    sql.push(
        format!(
            "EXISTS (SELECT 1 FROM logged_model_metrics x WHERE x.model = m.id AND x.key = ? \
             AND {compared}{about})"
        ),
        first.into_iter().chain(values),
    );
}

/// Sorts by the latest point of each metric; models without it come last.
fn orders(order_by: &[ModelOrder]) -> Attempt<(String, Vec<Value>)> {
    let mut terms = Vec::new();
    let mut values = Vec::new();
    for order in order_by {
        let direction = if order.ascending { "" } else { " DESC" };
        let by = parse_order(&order.field)?;
        match Subject::LoggedModels.order(&by)? {
            Field::Metric(key) => {
                let (about, about_values) = if order.dataset.dataset_name.is_empty() {
                    about(&[])
                } else {
                    about(std::slice::from_ref(&order.dataset))
                };
                let latest = |column: &str| {
                    format!(
                        "(SELECT x.{column} FROM logged_model_metrics x WHERE x.model = m.id \
                         AND x.key = ?{about} ORDER BY x.timestamp DESC, x.step DESC, x.run_id \
                         LIMIT 1)"
                    )
                };
                let (nan, value) = (latest("is_nan"), latest("value"));
                terms.push(format!("coalesce({nan}, 2), {value}{direction}"));
                for _ in 0..2 {
                    values.push(Value::Text(key.clone()));
                    values.extend(about_values.iter().cloned());
                }
            }
            Field::Number(column) => {
                terms.push(format!("{}{direction}", number_column(column)));
            }
            Field::Text("status") => terms.push(format!("{STATUS}{direction}")),
            Field::Text(column) => terms.push(format!("m.{column}{direction}")),
            _ => {
                return Err(StoreError::Invalid(format!(
                    "logged models cannot be sorted by '{}': use an attribute or a metric",
                    order.field
                ))
                .into());
            }
        }
    }
    terms.push("m.creation_time DESC, m.model_id".to_owned());
    Ok((terms.join(", "), values))
}
