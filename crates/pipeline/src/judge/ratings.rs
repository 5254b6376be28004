//! All verdicts that count under one rubric, by judge.
//!
//! What agreement, disagreements and spot checks are computed from. A rater is a judge, or
//! the expert tier as a whole: there the latest verdict on a candidate counts, as on boards.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use assize_domain::judge::{Judge, Tier};
use assize_domain::prompt::short_hash;
use assize_domain::rubric::Rubric;
use assize_domain::scenario::Split;
use assize_domain::sweep::label_of;
use assize_domain::verdict::{LeanScores, RubricRef, Verdict, by_precedence};
use assize_store::{BoardRun, Judging};

use super::rubric_of;
use crate::Result;

/// One candidate that somebody has judged.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Item {
    pub run_id: String,
    pub candidate: u32,
    pub model: String,
    pub prompt: String,
    /// The content of the prompt.
    pub prompt_sha256: String,
    pub scenario: String,
    pub split: Split,
}

/// What one rater said about one item.
#[derive(Debug, Clone, PartialEq)]
pub struct Rating {
    /// In the order of the rubric's names; NaN where one is missing.
    pub scores: Vec<f64>,
    pub composite: f64,
    pub judged_at: String,
}

/// A judge with all of its ratings.
#[derive(Debug, Clone, PartialEq)]
pub struct Rater {
    pub tier: Tier,
    /// `None` for the expert tier as a whole.
    pub judge: Option<Judge>,
    /// Whether another version of the same judge has ratings, too.
    pub has_versions: bool,
    /// By the item's place.
    pub ratings: BTreeMap<usize, Rating>,
}

impl Rater {
    /// The rater's name in tables.
    pub fn label(&self) -> String {
        let Some(judge) = &self.judge else {
            return self.tier.to_string();
        };
        let version = judge.version.as_deref().filter(|_| self.has_versions);
        let version = match version {
            Some(version) => format!(", {}", short_version(version)),
            None if self.has_versions => ", no version".to_owned(),
            None => String::new(),
        };
        if judge.name == judge.kind {
            let version = version.trim_start_matches(", ");
            return match version {
                "" => judge.name.clone(),
                version => format!("{} ({version})", judge.name),
            };
        }
        format!("{} ({}{version})", judge.name, judge.kind)
    }
}

/// A version as tables show it: the start of a digest, and any other version as it is.
pub fn short_version(version: &str) -> &str {
    let digest = version.strip_prefix("sha256:").unwrap_or(version);
    let is_digest = digest.len() >= 32 && digest.bytes().all(|it| it.is_ascii_hexdigit());
    if is_digest {
        short_hash(digest)
    } else {
        version
    }
}

/// All ratings under one rubric.
#[derive(Debug)]
pub struct Ratings {
    pub rubric_ref: RubricRef,
    pub rubric: Rubric,
    /// The rubric's criteria, then its flags.
    pub names: Vec<String>,
    pub items: Vec<Item>,
    /// The expert tier as a whole where it has judged, then every judge.
    pub raters: Vec<Rater>,
}

/// Reads the verdicts of an experiment under the newest rubric; `None` where nothing is
/// finished.
pub fn read(store: &dyn Judging, experiment: &str) -> Result<Option<Ratings>> {
    let Some(newest) = store.rubric_list(experiment)?.pop() else {
        return Ok(None);
    };
    let rubric = rubric_of(store, &newest.run_id, &newest.rubric)?;
    let mut reader = Reader {
        ratings: Ratings {
            names: rubric.asked_names().map(str::to_owned).collect(),
            rubric_ref: newest.rubric,
            rubric,
            items: Vec::new(),
            raters: Vec::new(),
        },
        places: HashMap::new(),
    };
    for split in Split::ALL {
        store.board_each(experiment, split, &mut |run| {
            reader.add(&run, split);
            Ok(())
        })?;
    }
    let mut ratings = reader.ratings;
    mark_versions(&mut ratings.raters);
    ratings
        .raters
        .sort_by_key(|rater| (rater.tier, rater.judge.is_some(), rater.label()));
    Ok(Some(ratings))
}

/// Notes which judges have judged in several versions.
fn mark_versions(raters: &mut [Rater]) {
    for place in 0..raters.len() {
        let Some(judge) = &raters[place].judge else {
            continue;
        };
        let is_namesake = |it: &Rater| it.judge.as_ref().is_some_and(|it| it.is_namesake(judge));
        let count = raters.iter().filter(|it| is_namesake(it)).count();
        raters[place].has_versions = count > 1;
    }
}

impl Ratings {
    /// The expert tier as a whole.
    pub fn expert(&self) -> Option<&Rater> {
        self.raters
            .iter()
            .find(|it| it.tier == Tier::Expert && it.judge.is_none())
    }

    /// Every single judge of a tier.
    pub fn judges(&self, tier: Tier) -> impl Iterator<Item = &Rater> {
        self.raters
            .iter()
            .filter(move |it| it.tier == tier && it.judge.is_some())
    }

    /// The ratings on these splits. Items keep their places.
    #[must_use]
    pub fn on_splits(&self, splits: &[Split]) -> Self {
        let is_kept = |item: &usize| splits.contains(&self.items[*item].split);
        let mut raters = self.raters.clone();
        for rater in &mut raters {
            rater.ratings.retain(|item, _| is_kept(item));
        }
        raters.retain(|rater| !rater.ratings.is_empty());
        Self {
            rubric_ref: self.rubric_ref.clone(),
            rubric: self.rubric.clone(),
            names: self.names.clone(),
            items: self.items.clone(),
            raters,
        }
    }

    /// What the automatic tier says about each item that it has judged: the mean of its judges.
    pub fn auto_composites(&self) -> BTreeMap<usize, Vec<f64>> {
        let mut all: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        for rater in self.judges(Tier::Auto) {
            for (item, rating) in &rater.ratings {
                all.entry(*item).or_default().push(rating.composite);
            }
        }
        all
    }
}

struct Reader {
    ratings: Ratings,
    places: HashMap<(Tier, Option<Judge>), usize>,
}

impl Reader {
    fn add(&mut self, run: &BoardRun<'_>, split: Split) {
        let rubric = &self.ratings.rubric_ref;
        let is_under = run.rubric.sha256 == rubric.sha256 && run.rubric.id == rubric.id;
        if !is_under || run.files.is_empty() {
            return;
        }
        let files = run.files.iter().filter(|file| !file.is_computed());
        let files = by_precedence(files.filter(|file| file.rubric.sha256 == run.rubric.sha256));
        let mut items: HashMap<u32, usize> = HashMap::new();
        for file in files {
            let whole = (file.tier == Tier::Expert).then(|| self.rater(file.tier, None));
            let judge = self.rater(file.tier, Some(file.rater().1));
            for verdict in &file.verdicts {
                let item = *items.entry(verdict.candidate).or_insert_with(|| {
                    self.ratings.items.push(Item {
                        run_id: run.run_id.to_owned(),
                        candidate: verdict.candidate,
                        model: run.model.to_owned(),
                        prompt: label_of(run.prompt, run.settings),
                        prompt_sha256: run.prompt_sha256.to_owned(),
                        scenario: run.scenario.to_owned(),
                        split,
                    });
                    self.ratings.items.len() - 1
                });
                let rating = self.rating(verdict, &file.judged_at);
                let raters = &mut self.ratings.raters;
                if let Some(whole) = whole {
                    raters[whole].ratings.insert(item, rating.clone());
                }
                raters[judge].ratings.insert(item, rating);
            }
        }
    }

    fn rating(&self, verdict: &Verdict<LeanScores<'_>>, judged_at: &str) -> Rating {
        let score = |name: &String| {
            let found = verdict.scores.0.iter().find(|(known, _)| known == name);
            found.map_or(f64::NAN, |(_, score)| *score)
        };
        Rating {
            scores: self.ratings.names.iter().map(score).collect(),
            composite: verdict.composite,
            judged_at: judged_at.to_owned(),
        }
    }

    /// The place of a rater, which is added where it is new.
    fn rater(&mut self, tier: Tier, judge: Option<&Judge<Cow<'_, str>>>) -> usize {
        let judge = judge.map(|it| Judge {
            kind: it.kind.to_string(),
            name: it.name.to_string(),
            version: it.version.as_deref().map(str::to_owned),
        });
        let raters = &mut self.ratings.raters;
        *self.places.entry((tier, judge)).or_insert_with_key(|key| {
            raters.push(Rater {
                tier,
                judge: key.1.clone(),
                has_versions: false,
                ratings: BTreeMap::new(),
            });
            raters.len() - 1
        })
    }
}
