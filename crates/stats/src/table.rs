//! Rows collapsed to one cell per treatment and block.
//!
//! The estimand is the mean over blocks of the cell means ȳ(a, s): every block weighs the same,
//! however many replicates it has. A cell keeps its number of rows, its mean and its sum of
//! squared deviations, which is all that any method here needs; rows are not kept.
//!
//! Missing is normal: a cell may be empty, cells may have different numbers of replicates, and
//! rows that are not finite are left out and counted. Nothing is imputed.

use crate::StatsError;
use crate::describe::finite;

/// One observation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    pub treatment: usize,
    pub block: usize,
    pub value: f64,
}

/// The rows of one treatment in one block, summarised.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cell {
    pub rows: usize,
    pub mean: f64,
    /// Σ (y − ȳ)² over the cell's rows.
    pub squared_deviations: f64,
}

/// Treatments × blocks, any cell of which may be missing.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    treatments: usize,
    blocks: usize,
    cells: Vec<Option<Cell>>,
    skipped_rows: usize,
}

impl Table {
    /// Collapses rows into cells in two passes, so that the spread keeps its digits however far
    /// the scores are from zero. Rows that are not finite are skipped and counted.
    pub fn from_rows(treatments: usize, blocks: usize, rows: &[Row]) -> Result<Self, StatsError> {
        let mut cells = vec![(0_usize, 0.0_f64, 0.0_f64); treatments * blocks];
        let mut skipped_rows = 0;
        for row in rows {
            in_range("treatment", row.treatment, treatments)?;
            in_range("block", row.block, blocks)?;
            if row.value.is_finite() {
                let (count, total, _) = &mut cells[row.treatment * blocks + row.block];
                *count += 1;
                *total += row.value;
            } else {
                skipped_rows += 1;
            }
        }
        for (count, total, _) in &mut cells {
            if *count > 0 {
                *total /= *count as f64;
            }
        }
        for row in rows.iter().filter(|row| row.value.is_finite()) {
            let (_, mean, squares) = &mut cells[row.treatment * blocks + row.block];
            *squares += (row.value - *mean).powi(2);
        }
        let cells = cells
            .into_iter()
            .map(|(rows, mean, squared_deviations)| {
                (rows > 0).then_some(Cell {
                    rows,
                    mean,
                    squared_deviations,
                })
            })
            .collect();
        Ok(Self {
            treatments,
            blocks,
            cells,
            skipped_rows,
        })
    }

    /// A table of cell means with one replicate each: `means[treatment][block]`.
    pub fn from_means(means: &[Vec<Option<f64>>]) -> Result<Self, StatsError> {
        let blocks = means.first().map_or(0, Vec::len);
        if let Some(ragged) = means.iter().find(|treatment| treatment.len() != blocks) {
            return Err(StatsError::LengthMismatch {
                left: blocks,
                right: ragged.len(),
            });
        }
        let given = means.iter().flatten();
        let skipped_rows = given
            .clone()
            .filter(|mean| mean.is_some_and(|m| !m.is_finite()))
            .count();
        let cells = given
            .map(|mean| {
                finite(*mean).map(|mean| Cell {
                    rows: 1,
                    mean,
                    squared_deviations: 0.0,
                })
            })
            .collect();
        Ok(Self {
            treatments: means.len(),
            blocks,
            cells,
            skipped_rows,
        })
    }

    pub fn treatments(&self) -> usize {
        self.treatments
    }

    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// How many rows were left out because they were not finite numbers.
    pub fn skipped_rows(&self) -> usize {
        self.skipped_rows
    }

    /// The cell, unless it is missing or outside the table.
    pub fn cell(&self, treatment: usize, block: usize) -> Option<Cell> {
        if block >= self.blocks {
            return None;
        }
        *self.cells.get(treatment * self.blocks + block)?
    }

    /// The cells of one treatment by block; empty for a treatment outside the table.
    pub fn treatment_cells(&self, treatment: usize) -> &[Option<Cell>] {
        let start = treatment.saturating_mul(self.blocks);
        self.cells
            .get(start..start.saturating_add(self.blocks))
            .unwrap_or_default()
    }

    /// The cell means of one treatment by block.
    pub fn treatment_means(&self, treatment: usize) -> Vec<Option<f64>> {
        self.treatment_cells(treatment)
            .iter()
            .map(|cell| cell.map(|c| c.mean))
            .collect()
    }

    /// All cell means, `[treatment][block]`.
    pub fn means(&self) -> Vec<Vec<Option<f64>>> {
        (0..self.treatments)
            .map(|treatment| self.treatment_means(treatment))
            .collect()
    }

    /// The (treatment, block) pairs without a row.
    pub fn missing_cells(&self) -> Vec<(usize, usize)> {
        (0..self.treatments)
            .flat_map(|treatment| (0..self.blocks).map(move |block| (treatment, block)))
            .filter(|&(treatment, block)| self.cell(treatment, block).is_none())
            .collect()
    }

    /// The blocks that every treatment has.
    pub fn complete_blocks(&self) -> Vec<usize> {
        (0..self.blocks)
            .filter(|&block| {
                (0..self.treatments).all(|treatment| self.cell(treatment, block).is_some())
            })
            .collect()
    }

    /// The smallest and the largest number of replicates over the cells that are there.
    pub fn replicates(&self) -> Option<(usize, usize)> {
        let rows = || self.cells.iter().flatten().map(|cell| cell.rows);
        Some((rows().min()?, rows().max()?))
    }
}

fn in_range(what: &'static str, index: usize, len: usize) -> Result<(), StatsError> {
    if index < len {
        Ok(())
    } else {
        Err(StatsError::IndexOutOfRange { what, index, len })
    }
}

#[cfg(test)]
mod tests {
    use super::{Row, Table};
    use crate::StatsError;

    fn row(treatment: usize, block: usize, value: f64) -> Row {
        Row {
            treatment,
            block,
            value,
        }
    }

    #[test]
    fn a_ragged_table_knows_what_it_lacks() {
        let rows = [
            row(0, 0, 1.0),
            row(0, 0, 3.0),
            row(0, 1, 5.0),
            row(1, 0, 2.0),
            row(1, 1, f64::NAN),
        ];
        let table = Table::from_rows(2, 2, &rows).unwrap();
        let cell = table.cell(0, 0).unwrap();
        assert_eq!(
            (cell.rows, cell.mean, cell.squared_deviations),
            (2, 2.0, 2.0)
        );
        assert_eq!(table.missing_cells(), [(1, 1)]);
        assert_eq!(table.complete_blocks(), [0]);
        assert_eq!(table.replicates(), Some((1, 2)));
        assert_eq!(table.skipped_rows(), 1);
        assert_eq!(table.treatment_means(1), [Some(2.0), None]);
        assert_eq!(table.cell(0, 2), None);
        assert!(table.treatment_cells(9).is_empty());
    }

    #[test]
    fn an_index_outside_the_table_is_refused() {
        let refused = Table::from_rows(1, 1, &[row(0, 3, 1.0)]);
        assert_eq!(
            refused,
            Err(StatsError::IndexOutOfRange {
                what: "block",
                index: 3,
                len: 1
            })
        );
        assert!(Table::from_means(&[vec![None], vec![]]).is_err());
    }

    #[test]
    fn spread_survives_a_large_offset() {
        let rows: Vec<Row> = [1.0, 2.0, 3.0].map(|v| row(0, 0, 1e9 + v)).to_vec();
        let cell = Table::from_rows(1, 1, &rows).unwrap().cell(0, 0).unwrap();
        assert!((cell.squared_deviations - 2.0).abs() < 1e-6);
    }
}
