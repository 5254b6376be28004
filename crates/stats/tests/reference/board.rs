//! The reference's rows as a table: six treatments (two factors with two and three levels), eight
//! blocks, five replicates.

use crate::support::{load, number};
use assize_stats::Draws;
use assize_stats::paired::{Pairing, differences, pair};
use assize_stats::table::{Row, Table};
use serde_json::Value;

pub const TREATMENTS: [&str; 6] = ["m1/p0", "m1/p1", "m1/p2", "m2/p0", "m2/p1", "m2/p2"];
pub const CHALLENGERS: [&str; 5] = ["m1/p1", "m1/p2", "m2/p0", "m2/p1", "m2/p2"];
pub const DRAWS: Draws = Draws {
    count: 10_000,
    seed: 42,
};

pub fn data() -> Value {
    load(include_str!("../data/leaderboard.json"))
}

pub fn treatment_of(row: &Value) -> usize {
    let name = format!(
        "{}/{}",
        row["model"].as_str().unwrap(),
        row["prompt"].as_str().unwrap()
    );
    TREATMENTS
        .iter()
        .position(|treatment| *treatment == name)
        .unwrap()
}

fn block_of(row: &Value) -> usize {
    let name = row["scenario"].as_str().unwrap();
    name.trim_start_matches('s').parse::<usize>().unwrap() - 1
}

pub fn table_of(data: &Value, column: &str, keep: impl Fn(&Value) -> bool) -> Table {
    let rows: Vec<Row> = data["rows"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| keep(row))
        .map(|row| Row {
            treatment: treatment_of(row),
            block: block_of(row),
            value: number(&row[column]),
        })
        .collect();
    Table::from_rows(6, 8, &rows).unwrap()
}

pub fn composite(data: &Value) -> Table {
    table_of(data, "composite", |_| true)
}

pub fn pairing(table: &Table, challenger: &str) -> Pairing {
    let treatment = TREATMENTS
        .iter()
        .position(|name| *name == challenger)
        .unwrap();
    pair(&table.treatment_means(treatment), &table.treatment_means(0)).unwrap()
}

pub fn family(table: &Table) -> Vec<Vec<Option<f64>>> {
    (1..6)
        .map(|treatment| differences(&table.treatment_means(treatment), &table.treatment_means(0)))
        .collect()
}
