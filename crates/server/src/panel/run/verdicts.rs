//! All verdicts on a run's candidates, and which of them count.

use assize_domain::judge::{self, Judge};
use assize_domain::rubric::Rubric;
use assize_domain::verdict::{Verdict, VerdictFile, as_number, by_precedence};
use assize_report::figure;
use serde_json::Value;

use crate::panel::relative_time::RelativeTime;

/// The verdicts on one run.
pub(super) struct Verdicts<'a> {
    /// Latest first.
    files: Vec<&'a VerdictFile>,
    rubric_sha256: &'a str,
    /// The sittings that are set aside, separated by spaces.
    set_aside: &'a str,
    /// Criteria and flags in the rubric's order, then those of other rubrics.
    pub heads: Vec<String>,
}

/// One verdict.
pub(super) struct VerdictRow {
    pub judge: String,
    pub tier: &'static str,
    pub composite: String,
    /// One for each of [`Verdicts::heads`].
    pub scores: Vec<String>,
    pub reason: String,
    pub at: RelativeTime,
    pub counts: bool,
    /// Whether it counts, and if not, why.
    pub standing: String,
}

impl<'a> Verdicts<'a> {
    pub fn new(
        files: &'a [VerdictFile],
        rubric: Option<&Rubric>,
        rubric_sha256: &'a str,
        set_aside: &'a str,
    ) -> Self {
        let mut files = by_precedence(files.iter());
        files.reverse();
        let mut heads: Vec<String> = Vec::new();
        for name in rubric.into_iter().flat_map(Rubric::score_names) {
            heads.push(name.to_owned());
        }
        let mut others: Vec<(&String, &Value)> = files
            .iter()
            .flat_map(|file| &file.verdicts)
            .flat_map(|verdict| &verdict.scores)
            .collect();
        // Criteria, then flags.
        others.sort_by_key(|(_, value)| value.is_boolean());
        for (name, _) in others {
            if !heads.contains(name) {
                heads.push(name.clone());
            }
        }
        Self {
            files,
            rubric_sha256,
            set_aside,
            heads,
        }
    }

    /// The verdicts on one candidate, latest first.
    pub fn on(&self, candidate: u32, now_ms: i64) -> Vec<VerdictRow> {
        let row = |file: &&VerdictFile| {
            let verdict = verdict_on(file, candidate)?;
            let (counts, standing) = self.standing(file, candidate);
            Some(VerdictRow {
                judge: label(&file.judge),
                tier: if file.is_computed() {
                    judge::COMPUTED
                } else {
                    file.tier.as_str()
                },
                composite: figure::plain(verdict.composite),
                scores: self.heads.iter().map(|it| score(verdict, it)).collect(),
                reason: verdict.rationale.clone().unwrap_or_default(),
                at: RelativeTime::of_text(&file.judged_at, now_ms),
                counts,
                standing,
            })
        };
        self.files.iter().filter_map(row).collect()
    }

    fn is_set_aside(&self, file: &VerdictFile) -> bool {
        self.set_aside
            .split_whitespace()
            .any(|id| id == file.sitting)
    }

    /// Whether a verdict counts, and why. In each tier the latest verdict counts, as in
    /// [`assize_domain::verdict::effective`].
    fn standing(&self, file: &VerdictFile, candidate: u32) -> (bool, String) {
        if self.is_set_aside(file) {
            return (false, "set aside".to_owned());
        }
        if file.rubric.sha256 != self.rubric_sha256 {
            return (false, "under another rubric".to_owned());
        }
        let latest = self.files.iter().find(|it| {
            it.counts_in(file.tier)
                && it.rubric.sha256 == self.rubric_sha256
                && !self.is_set_aside(it)
                && verdict_on(it, candidate).is_some()
        });
        let Some(latest) = latest.filter(|it| it.sitting != file.sitting) else {
            let words = file.amends.as_ref().map_or_else(
                || "counts".to_owned(),
                |it| format!("counts, in place of {}'s", it.judge.name),
            );
            return (true, words);
        };
        let by = &latest.judge.name;
        let is_amended = latest.amends.is_some() && latest.rater().0 == file.rater().0;
        let words = if is_amended {
            format!("amended by {by}")
        } else {
            format!("{by} judged it later")
        };
        (false, words)
    }
}

fn verdict_on(file: &VerdictFile, candidate: u32) -> Option<&Verdict> {
    file.verdicts.iter().find(|it| it.candidate == candidate)
}

fn score(verdict: &Verdict, name: &str) -> String {
    match verdict.scores.get(name) {
        Some(Value::Bool(true)) => "yes".to_owned(),
        Some(Value::Bool(false)) => "no".to_owned(),
        other => {
            let number = other.and_then(as_number);
            number.map_or_else(String::new, |it| format!("{it}"))
        }
    }
}

fn label(judge: &Judge) -> String {
    if judge.name == judge.kind {
        judge.name.clone()
    } else {
        format!("{} ({})", judge.name, judge.kind)
    }
}

#[cfg(test)]
mod tests {
    use assize_domain::judge::Tier;
    use assize_domain::verdict::{Amends, RubricRef};
    use serde_json::json;

    use super::*;

    fn file(sitting: &str, name: &str, at: &str, amends: Option<&VerdictFile>) -> VerdictFile {
        let scores = json!({"ok": true, "worth": 2, "clear": 1});
        VerdictFile {
            sitting: sitting.to_owned(),
            tier: Tier::Expert,
            judge: Judge {
                kind: "human".to_owned(),
                name: name.to_owned(),
                version: None,
            },
            rubric: RubricRef {
                id: "r".to_owned(),
                sha256: "abc".to_owned(),
            },
            judged_at: at.to_owned(),
            verdicts: vec![Verdict {
                candidate: 0,
                scores: serde_json::from_value(scores).unwrap(),
                composite: 3.0,
                rationale: None,
            }],
            usage: None,
            amends: amends.map(|it| Amends {
                sitting: it.sitting.clone(),
                judge: it.judge.clone(),
                replaces: None,
            }),
        }
    }

    #[test]
    fn the_latest_counts_and_the_others_have_a_reason() {
        let bad = file("s0", "eve", "2026-01-05", None);
        let ana = file("s1", "ana", "2026-01-01", None);
        let amended = file("s2", "bob", "2026-01-02", Some(&ana));
        let again = file("s3", "cleo", "2026-01-03", Some(&ana));
        let files = [ana, amended, again, bad];
        let rows = Verdicts::new(&files, None, "abc", "s0").on(0, 0);
        let words: Vec<(bool, &str)> = rows.iter().map(|it| (it.counts, &*it.standing)).collect();
        assert_eq!(
            words,
            [
                (false, "set aside"),
                (true, "counts, in place of ana's"),
                (false, "amended by cleo"),
                (false, "amended by cleo"),
            ]
        );
        assert!(Verdicts::new(&files, None, "abc", "").on(1, 0).is_empty());
        let other = Verdicts::new(&files[..1], None, "xyz", "");
        assert_eq!(other.on(0, 0)[0].standing, "under another rubric");
    }

    #[test]
    fn scores_are_in_the_rubric_s_order() {
        let files = [file("s1", "ana", "2026-01-01", None)];
        let text = "+++\nid = \"r\"\ncomposite = \"worth\"\n[[criteria]]\nname = \"worth\"\nmin = 1\nmax = 2\n\
                    [criteria.anchors]\n1 = \"no\"\n2 = \"yes\"\n[[flags]]\nname = \"ok\"\n+++\nJudge.\n";
        let rubric = Rubric::parse("rubric.md", text).unwrap();
        let verdicts = Verdicts::new(&files, Some(&rubric), "abc", "");
        assert_eq!(verdicts.heads, ["worth", "ok", "clear"]);
        assert_eq!(verdicts.on(0, 0)[0].scores, ["2", "yes", "1"]);
    }
}
