//! What a run has and its copy does not.
//!
//! What both have stays as the copy has it, because neither side knows which of two values is
//! the newer one; that they differ is reported. What follows from verdicts (who judged, scores as
//! metrics) is derived by each store from the verdicts that it has, and is not compared.

use std::collections::{HashMap, HashSet};

use assize_domain::judge::Tier;
use assize_domain::run::{RunStatus, artifact, tag};
use assize_store::mlflow::{Entry, Point};
use assize_store::{
    Additions, Run, WholeRun, is_bookkeeping, is_core, is_for_judges, is_storage_tag,
};

use super::value;

/// Tags that follow from verdicts, or from what a run is judged under.
const JUDGED: [&str; 10] = [
    tag::JUDGE_PENDING,
    tag::AUTO_PENDING,
    tag::JUDGE_KIND,
    tag::JUDGED_BY,
    tag::JUDGED_AT,
    tag::AUTO_JUDGED_BY,
    tag::AUTO_JUDGED_AT,
    tag::RUBRIC,
    tag::RUBRIC_SHA256,
    tag::SET_ASIDE,
];

#[derive(Debug, Default)]
pub(super) struct Missing {
    pub additions: Additions,
    /// Paths of files.
    pub files: Vec<String>,
    /// Something that both have is not the same.
    pub is_different: bool,
}

impl Missing {
    pub fn of(here: &WholeRun, there: &WholeRun) -> Self {
        let is_judged = is_for_judges(&here.run) || is_for_judges(&there.run);
        let mut missing = Self {
            is_different: !here.run.name.is_empty() && here.run.name != there.run.name,
            ..Self::default()
        };
        let params = here.run.params.iter();
        missing.additions.params = missing.entries(
            params.filter(|(key, _)| !(is_judged && is_bookkeeping(key))),
            &there.run.params,
        );
        let identity = [tag::CELL_KEY, tag::COPIED_FROM];
        let tags = here.run.tags.iter().filter(|(key, _)| {
            let follows = is_judged && JUDGED.contains(&key.as_str());
            !follows && !is_storage_tag(key) && !identity.contains(&key.as_str())
        });
        missing.additions.tags = missing.entries(tags, &there.run.tags);
        missing.additions.points = points(here, there, is_judged);
        let datasets = here.datasets.iter().filter(|input| {
            let id = (&input.dataset.name, &input.dataset.digest);
            let mut known = there.datasets.iter();
            !known.any(|it| (&it.dataset.name, &it.dataset.digest) == id)
        });
        missing.additions.datasets = datasets.cloned().collect();
        missing.additions.end = end(&here.run, &there.run);
        missing.files(here, there, is_judged);
        missing
    }

    pub fn is_empty(&self) -> bool {
        self.additions.is_empty() && self.files.is_empty()
    }

    /// Those whose key is not there.
    fn entries<'a>(
        &mut self,
        here: impl Iterator<Item = &'a (String, String)>,
        there: &[(String, String)],
    ) -> Vec<Entry> {
        let (missing, different) = compare_entries(here, there);
        self.is_different |= !different.is_empty();
        let entry = |(key, value): &(String, String)| Entry {
            key: key.clone(),
            value: value.clone(),
        };
        missing.into_iter().map(entry).collect()
    }

    /// Verdict files are imported with the run, and the files that a cell was recorded with are
    /// all there.
    fn files(&mut self, here: &WholeRun, there: &WholeRun, is_judged: bool) {
        let is_cell = value(&here.run, tag::CELL_KEY).is_some();
        let there: HashMap<&str, u64> = there
            .files
            .iter()
            .map(|(path, size)| (path.as_str(), *size))
            .collect();
        for (path, size) in &here.files {
            let is_verdicts = is_judged && path.starts_with(artifact::VERDICTS);
            if is_verdicts || is_cell && is_core(path) {
                continue;
            }
            match there.get(path.as_str()) {
                // Not every server tells sizes.
                Some(known) => self.is_different |= *known > 0 && *size > 0 && known != size,
                None => self.files.push(path.clone()),
            }
        }
    }
}

/// The entries whose key is not there, and the keys that have another value there.
pub(super) fn compare_entries<'a>(
    here: impl Iterator<Item = &'a (String, String)>,
    there: &[(String, String)],
) -> (Vec<&'a (String, String)>, Vec<&'a str>) {
    let there: HashMap<&str, &str> = there
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    let (mut missing, mut different) = (Vec::new(), Vec::new());
    for entry in here {
        match there.get(entry.0.as_str()) {
            None => missing.push(entry),
            Some(known) if *known != entry.1 => different.push(entry.0.as_str()),
            Some(_) => {}
        }
    }
    (missing, different)
}

fn points(here: &WholeRun, there: &WholeRun, is_judged: bool) -> Vec<Point> {
    let all = here.points.iter().chain(&there.points);
    let names: HashSet<&str> = all.map(|point| point.key.as_str()).collect();
    let follows = |name: &str| {
        is_judged
            && Tier::ALL.iter().any(|tier| {
                name.starts_with(&format!("{tier}."))
                    || names.contains(format!("{tier}.{name}").as_str())
            })
    };
    let follows: HashSet<&str> = names.iter().copied().filter(|it| follows(it)).collect();
    let known: HashSet<_> = there.points.iter().map(identity).collect();
    let points = here
        .points
        .iter()
        .filter(|point| !follows.contains(point.key.as_str()) && !known.contains(&identity(point)));
    points.cloned().collect()
}

/// What makes two points the same. MLflow keeps infinities as the largest numbers, and no sign
/// of zero.
fn identity(point: &Point) -> (&str, i64, i64, u64) {
    let value = if point.value.is_nan() {
        f64::NAN
    } else {
        point.value.clamp(-f64::MAX, f64::MAX) + 0.0
    };
    (&point.key, point.step, point.timestamp, value.to_bits())
}

/// The later end counts. How a cell ended is part of what identifies its content.
fn end(here: &Run, there: &Run) -> Option<(RunStatus, Option<i64>)> {
    let has_ended = |run: &Run| !matches!(run.status, RunStatus::Running | RunStatus::Scheduled);
    let is_cell = value(here, tag::CELL_KEY).is_some();
    let is_later = !has_ended(there) || here.end_time_ms > there.end_time_ms;
    (!is_cell && has_ended(here) && is_later).then_some((here.status, here.end_time_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(status: RunStatus, end_time_ms: Option<i64>) -> WholeRun {
        WholeRun {
            run: Run {
                run_id: "r".to_owned(),
                experiment: "e".to_owned(),
                name: "n".to_owned(),
                status,
                start_time_ms: 1,
                end_time_ms,
                params: vec![("p".to_owned(), "1".to_owned())],
                metrics: Vec::new(),
                tags: Vec::new(),
                artifacts: Vec::new(),
            },
            points: Vec::new(),
            datasets: Vec::new(),
            files: Vec::new(),
        }
    }

    fn point(key: &str, value: f64) -> Point {
        Point {
            key: key.to_owned(),
            value,
            timestamp: 1,
            step: 2,
        }
    }

    #[test]
    fn the_later_end_counts() {
        let running = run(RunStatus::Running, None);
        let failed = run(RunStatus::Failed, Some(5));
        let finished = run(RunStatus::Finished, Some(6));
        let end = |here, there| Missing::of(here, there).additions.end;
        assert_eq!(end(&failed, &running), Some((RunStatus::Failed, Some(5))));
        assert_eq!(
            end(&finished, &failed),
            Some((RunStatus::Finished, Some(6)))
        );
        assert_eq!(end(&failed, &finished), None);
        assert_eq!(end(&running, &failed), None);
        assert!(Missing::of(&failed, &failed).is_empty());
    }

    #[test]
    fn points_are_the_same_however_a_server_keeps_numbers() {
        let mut here = run(RunStatus::Finished, Some(6));
        let mut there = here.clone();
        let values = [f64::NAN, f64::INFINITY, -0.0, 0.5];
        here.points = values.map(|value| point("m", value)).to_vec();
        let kept = [f64::NAN, f64::MAX, 0.0];
        there.points = kept.map(|value| point("m", value)).to_vec();
        let missing = Missing::of(&here, &there);
        assert_eq!(missing.additions.points, [point("m", 0.5)]);
    }

    #[test]
    fn what_follows_from_verdicts_is_left_to_each_side() {
        let mut here = run(RunStatus::Finished, Some(6));
        here.run
            .tags
            .push((tag::JUDGE_PENDING.to_owned(), "false".to_owned()));
        let there = here.clone();
        here.run
            .tags
            .push((tag::JUDGED_BY.to_owned(), "ann".to_owned()));
        here.points = vec![
            point("expert.worth", 1.0),
            point("worth", 1.0),
            point("loss", 1.0),
        ];
        let missing = Missing::of(&here, &there);
        assert_eq!(missing.additions.points, [point("loss", 1.0)]);
        assert!(missing.additions.tags.is_empty());
    }

    #[test]
    fn values_that_differ_stay_and_are_reported() {
        let here = run(RunStatus::Finished, Some(6));
        let mut there = here.clone();
        assert!(!Missing::of(&here, &there).is_different);
        there.run.params[0].1 = "2".to_owned();
        let missing = Missing::of(&here, &there);
        assert!(missing.is_different && missing.is_empty());
    }
}
