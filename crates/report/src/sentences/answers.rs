//! Sentences about single scenarios and outputs.

use assize_domain::judge::COMPUTED;
use assize_domain::leaderboard::answers::{ByScenario, Example, Opinion, PairExamples, PairWins};

use crate::figure;
use crate::text::clean;

/// Who has the highest mean in how many scenarios, the most first.
pub fn wins(by: &ByScenario) -> String {
    let mut wins: Vec<&PairWins> = by.wins.iter().filter(|it| it.alone + it.tied > 0).collect();
    wins.sort_by_key(|it| std::cmp::Reverse((it.alone, it.tied)));
    let all = by
        .scenarios
        .iter()
        .filter(|row| !row.best.is_empty())
        .count();
    if all == 0 {
        return "No scenario has two judged pairs.".to_owned();
    }
    let one = |it: &PairWins| {
        let pair = it.pair.to_string();
        let what = match (it.alone, it.tied) {
            (alone, 0) => format!("leads in {alone}"),
            (0, tied) => format!("shares {tied}"),
            (alone, tied) => format!("leads in {alone} and shares {tied}"),
        };
        format!("{} {what}", clean(&pair))
    };
    let most = wins.iter().take(MOST_WINS).map(|it| one(it));
    let most: Vec<String> = most.collect();
    let rest = match wins.len().saturating_sub(MOST_WINS) {
        0 => String::new(),
        rest => format!("; {rest} more pairs lead somewhere"),
    };
    format!("Of {all} scenarios: {}{rest}.", most.join("; "))
}

/// The most pairs in the sentence about wins.
const MOST_WINS: usize = 4;

/// The kinds of examples by name.
pub fn example_kinds(pair: &PairExamples) -> [(&'static str, &[Example]); 3] {
    [
        ("best", &pair.best),
        ("worst", &pair.worst),
        ("disputed", &pair.disputed),
    ]
}

/// `worst 4.00 · late-parcel · candidate 2 · run 9f3a2c1b`
pub fn example_head(kind: &str, example: &Example) -> String {
    let run: String = example.run_id.chars().take(8).collect();
    let spread = match example.spread {
        Some(spread) if kind == "disputed" => format!(", {} apart", figure::plain(spread)),
        _ => String::new(),
    };
    format!(
        "{kind} {}{spread} · {} · candidate {} · run {run}",
        figure::plain(example.composite),
        example.scenario,
        example.candidate
    )
}

/// `12.00 by ana (human, expert): the reason`
pub fn opinion(opinion: &Opinion) -> String {
    let scores = opinion.scores.iter();
    let scores: Vec<String> = scores
        .map(|(name, value)| format!("{name} {}", figure::tick(*value)))
        .collect();
    let reason = match &opinion.rationale {
        Some(reason) => format!(": {reason}"),
        None => String::new(),
    };
    if opinion.judge.kind == COMPUTED {
        let composite = figure::plain(opinion.composite);
        return format!("{composite} computed ({})", scores.join(", "));
    }
    format!(
        "{} by {} ({}, {}; {}){reason}",
        figure::plain(opinion.composite),
        opinion.judge.name,
        opinion.judge.kind,
        opinion.tier,
        scores.join(", ")
    )
}
