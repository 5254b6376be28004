//! One tier's verdicts, as sums by pair and scenario.

use assize_domain::judge::Tier;
use assize_domain::verdict::LeanFile;
use assize_stats::table::Row;

/// One tier's verdicts, in few long vectors: a server computes boards of a hundred thousand runs
/// again and again, and many small allocations would fragment its memory.
#[derive(Debug, Default, Clone)]
pub struct TierScores {
    /// The composites, one a candidate.
    pub rows: Vec<Row>,
    /// By pair, then by scenario; without candidates where nothing is judged.
    pub(super) cells: Vec<Vec<CellSums>>,
    /// By pair: the sums of every score in its first cell, then in its second.
    pub(super) sums: Vec<Vec<f64>>,
    /// The number of scores.
    pub(super) width: usize,
    /// The raters whose verdicts count.
    raters: Vec<Rater>,
    /// How many verdicts in a cell are whose.
    pub(super) shares: Vec<RaterShare>,
}

/// Whose verdicts are comparable with each other: of people and agents those of one sitting, of
/// an automatic judge those of one version of it, because a model does not change between sittings.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rater {
    pub kind: String,
    pub name: String,
    /// The digest of a judging model, or an agent's program.
    pub version: Option<String>,
    /// `None` for automatic judges.
    pub sitting: Option<String>,
}

/// The verdicts of one rater in one cell.
#[derive(Debug, Clone, Copy)]
pub struct RaterShare {
    pub pair: u32,
    pub scenario: u32,
    pub rater: u32,
    pub verdicts: u32,
}

/// Sums over the judged candidates of one cell.
#[derive(Debug, Default, Clone, Copy)]
pub struct CellSums {
    /// Runs of which every candidate is judged.
    pub complete: u32,
    /// Runs of which some candidates are judged and some are not.
    pub partly: u32,
    pub candidates: u32,
    pub composite: f64,
}

impl TierScores {
    pub(super) fn new(width: usize) -> Self {
        Self {
            width,
            ..Self::default()
        }
    }

    /// The cell of a pair in a scenario, if anything in it is judged.
    pub fn cell(&self, pair: usize, scenario: usize) -> Option<&CellSums> {
        let cell = self.cells.get(pair)?.get(scenario)?;
        (cell.candidates > 0).then_some(cell)
    }

    /// The judged candidates of a pair.
    pub fn candidates_of(&self, pair: usize) -> u32 {
        let cells = self.cells.get(pair).into_iter().flatten();
        cells.map(|cell| cell.candidates).sum()
    }

    /// Runs of which every candidate is judged.
    pub fn judged(&self) -> u32 {
        self.cells.iter().flatten().map(|it| it.complete).sum()
    }

    /// Runs of which some candidates are judged and some are not.
    pub fn partly(&self) -> u32 {
        self.cells.iter().flatten().map(|it| it.partly).sum()
    }

    /// The means of one score in the judged cells of a pair, in the order of the scenarios.
    pub fn means_of(&self, pair: usize, score: usize) -> impl Iterator<Item = f64> {
        let cells = self.cells.get(pair).into_iter().flatten();
        let sums = self.sums.get(pair).into_iter().flatten();
        cells
            .zip(sums.skip(score).step_by(self.width.max(1)))
            .filter(|(cell, _)| cell.candidates > 0)
            .map(|(cell, sum)| sum / f64::from(cell.candidates))
    }

    /// A cell and the sums of its scores, to be added to.
    pub(super) fn cell_mut(&mut self, pair: usize, scenario: usize) -> (&mut CellSums, &mut [f64]) {
        if self.cells.len() <= pair {
            self.cells.resize_with(pair + 1, Vec::new);
            self.sums.resize_with(pair + 1, Vec::new);
        }
        let (cells, sums) = (&mut self.cells[pair], &mut self.sums[pair]);
        if cells.len() <= scenario {
            cells.resize(scenario + 1, CellSums::default());
            sums.resize((scenario + 1) * self.width, 0.0);
        }
        let first = scenario * self.width;
        (&mut cells[scenario], &mut sums[first..first + self.width])
    }

    /// Counts the verdicts of one cell by their raters.
    pub(super) fn count_raters<'a>(
        &mut self,
        files: impl Iterator<Item = &'a LeanFile<'a>>,
        tier: Tier,
        pair: usize,
        scenario: usize,
    ) {
        let small = |place: usize| u32::try_from(place).unwrap_or(u32::MAX);
        let first = self.shares.len();
        // The verdicts of a run are mostly of one file.
        let mut latest: Option<(*const LeanFile<'a>, usize)> = None;
        for file in files {
            if let Some((same, share)) = latest
                && std::ptr::eq(same, file)
            {
                self.shares[share].verdicts += 1;
                continue;
            }
            let rater = self.rater_of(file, tier);
            let known = self.shares[first..].iter().position(|it| it.rater == rater);
            let share = known.map_or(self.shares.len(), |place| first + place);
            if known.is_none() {
                self.shares.push(RaterShare {
                    pair: small(pair),
                    scenario: small(scenario),
                    rater,
                    verdicts: 0,
                });
            }
            self.shares[share].verdicts += 1;
            latest = Some((file, share));
        }
    }

    /// The number of a file's rater.
    fn rater_of(&mut self, file: &LeanFile<'_>, tier: Tier) -> u32 {
        let (sitting, judge) = file.rater();
        let sitting = (tier == Tier::Expert).then_some(sitting);
        let is_same = |it: &Rater| {
            it.sitting.as_deref() == sitting
                && it.name == judge.name
                && it.kind == judge.kind
                && it.version.as_deref() == judge.version.as_deref()
        };
        // The latest rater mostly judged this run too.
        let known = self.raters.iter().rposition(is_same);
        let place = known.unwrap_or_else(|| {
            self.raters.push(Rater {
                kind: judge.kind.to_string(),
                name: judge.name.to_string(),
                version: judge.version.as_deref().map(str::to_owned),
                sitting: sitting.map(str::to_owned),
            });
            self.raters.len() - 1
        });
        u32::try_from(place).unwrap_or(u32::MAX)
    }

    pub fn raters(&self) -> &[Rater] {
        &self.raters
    }

    /// Whose verdicts are in which cells.
    pub fn shares(&self) -> &[RaterShare] {
        &self.shares
    }
}
