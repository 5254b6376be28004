//! The table of the promotion gate's checks for a terminal, with figure, threshold and outcome.
//!
//! A symbol and a word show the outcome of each check; colour only repeats it.

use assize_domain::promotion::{Check, GateReport, Outcome, Quantity, Relation};

use crate::figure;
use crate::terminal::{MIN_WIDTH, Paint, painted};
use crate::text::{clean, shorten, width, wrap};

/// Columns of a row that are not the check's description.
const FIGURES: usize = 38;
/// With fewer columns than this, each check takes two lines.
const NARROW: usize = 64;

/// The table of checks. Ends with a line break.
pub fn table(report: &GateReport, columns: usize, color: bool) -> String {
    let columns = columns.clamp(MIN_WIDTH, 100);
    let mut lines = Vec::new();
    for (role, pair) in [
        ("Candidate", &report.candidate),
        ("Incumbent", &report.incumbent),
    ] {
        let name = shorten(&clean(&pair.to_string()), columns - 12);
        lines.push(format!(" {role}  {}", painted(&name, Paint::Strong, color)));
    }
    lines.push(String::new());
    lines.extend(check_lines(&report.checks, columns, color));
    lines.join("\n") + "\n"
}

/// The checks of any gate. Ends with a line break.
pub fn checks(checks: &[Check], columns: usize, color: bool) -> String {
    let columns = columns.clamp(MIN_WIDTH, 100);
    check_lines(checks, columns, color).join("\n") + "\n"
}

fn check_lines(checks: &[Check], columns: usize, color: bool) -> Vec<String> {
    let mut lines = Vec::new();
    let layout = Layout::new(checks, columns);
    if !layout.is_narrow {
        let heading = layout.row(" ", "check", "figure", "needs", "result");
        lines.push(painted(&heading, Paint::Faint, color));
    }
    for check in checks {
        let (mark, result, paint) = outcome_style(check.outcome);
        let (figure, needs) = numbers(check);
        let row = layout.row(mark, &check.about, &figure, &needs, result);
        lines.extend(row.lines().map(|line| painted(line, paint, color)));
        for line in wrap(&clean(check.why.as_deref().unwrap_or("")), columns - 6) {
            lines.push(format!("      {}", painted(&line, Paint::Faint, color)));
        }
    }
    lines
}

/// The widths of the columns; a narrow terminal gets two lines for each check.
struct Layout {
    about: usize,
    is_narrow: bool,
}

impl Layout {
    fn new(checks: &[Check], columns: usize) -> Self {
        let is_narrow = columns < NARROW;
        let room = columns - if is_narrow { 4 } else { FIGURES };
        let longest = checks.iter().map(|it| width(&clean(&it.about)));
        Self {
            about: longest.max().unwrap_or(0).clamp(5, room),
            is_narrow,
        }
    }

    fn row(&self, mark: &str, about: &str, figure: &str, needs: &str, result: &str) -> String {
        let about = shorten(&clean(about), self.about);
        if self.is_narrow {
            return format!(" {mark}  {about}\n      {figure}  {needs}  {result}");
        }
        let gap = " ".repeat(self.about - width(&about));
        format!(" {mark}  {about}{gap}  {figure:>9}  {needs:<9}  {result}")
    }
}

/// The gate's decision in one sentence.
pub fn sentence(report: &GateReport) -> String {
    let failed = report.failures().count();
    let tentative = report
        .checks
        .iter()
        .any(|it| it.outcome == Outcome::Tentative);
    let sentence = if report.passed && tentative {
        format!(
            "{} passes the gate tentatively: see the checks above.",
            report.candidate
        )
    } else if report.passed {
        format!("{} passes the gate.", report.candidate)
    } else if failed == 0 {
        format!(
            "{} passes every check but the confirmation, which is sealed.",
            report.candidate
        )
    } else {
        let checks = if failed == 1 { "check" } else { "checks" };
        format!(
            "{} does not pass the gate: {failed} {checks} failed.",
            report.candidate
        )
    };
    clean(&sentence).into_owned()
}

/// A symbol and a word for the outcome of a check.
pub fn outcome_label(outcome: Outcome) -> (&'static str, &'static str) {
    let (mark, word, _) = outcome_style(outcome);
    (mark, word)
}

fn outcome_style(outcome: Outcome) -> (&'static str, &'static str, Paint) {
    match outcome {
        Outcome::Passed => ("✓", "passed", Paint::Plain),
        Outcome::Tentative => ("~", "tentative", Paint::Warning),
        Outcome::Failed => ("✗", "FAILED", Paint::Strong),
        Outcome::NotApplicable => ("–", "not needed", Paint::Faint),
        Outcome::Sealed => ("·", "sealed", Paint::Faint),
    }
}

/// The figure and its threshold, with enough decimals to show how they differ.
pub fn numbers(check: &Check) -> (String, String) {
    let needs = |text: String| format!("{} {text}", check.relation.symbol());
    let Some(figure) = check.figure.filter(|it| it.is_finite()) else {
        let threshold = number(check, check.threshold, 0);
        return (figure::NONE.to_owned(), needs(threshold));
    };
    let differ = (figure - check.threshold).abs() > 1e-9;
    let texts = |more| {
        (
            number(check, figure, more),
            number(check, check.threshold, more),
        )
    };
    let found = (0..5)
        .map(texts)
        .find(|(figure, threshold)| !differ || figure != threshold);
    let (figure, threshold) = found.unwrap_or_else(|| texts(5));
    (figure, needs(threshold))
}

fn number(check: &Check, value: f64, more_decimals: usize) -> String {
    let is_signed = check.relation != Relation::AtMost;
    let text = match check.quantity {
        Quantity::P if value < 0.0005 => return "<.001".to_owned(),
        Quantity::Points | Quantity::Reward if value == 0.0 => "0".to_owned(),
        Quantity::Count => format!("{value:.0}"),
        Quantity::P => {
            let text = format!("{value:.*}", 3 + more_decimals);
            return text.trim_start_matches('0').to_owned();
        }
        Quantity::Coefficient => format!("{value:.*}", 3 + more_decimals),
        Quantity::Share => format!("{:+.*} %", more_decimals, value * 100.0),
        Quantity::Proportion => format!("{:.*} %", more_decimals, value * 100.0),
        Quantity::Reward => format!("{value:+.*}", 3 + more_decimals),
        Quantity::Points if is_signed => format!("{value:+.*}", 2 + more_decimals),
        Quantity::Points => format!("{value:.*}", 2 + more_decimals),
    };
    text.replace('-', "−")
}

#[cfg(test)]
mod tests {
    use assize_domain::judge::Tier;
    use assize_domain::leaderboard::Pair;

    use super::*;

    fn check(quantity: Quantity, relation: Relation, figure: f64, threshold: f64) -> Check {
        Check {
            name: "c".to_owned(),
            about: "c".to_owned(),
            quantity,
            figure: Some(figure),
            relation,
            threshold,
            outcome: Outcome::Failed,
            why: None,
        }
    }

    #[test]
    fn a_near_miss_can_be_told_from_a_hit() {
        use Quantity::{Coefficient, Count, P, Points, Proportion, Share};
        use Relation::{Above, AtLeast, AtMost};
        let shown = |quantity, relation, figure, threshold| {
            let (figure, needs) = numbers(&check(quantity, relation, figure, threshold));
            format!("{figure} {needs}")
        };
        assert_eq!(shown(Points, AtLeast, 0.4996, 0.5), "+0.4996 ≥ +0.5000");
        assert_eq!(shown(Points, AtLeast, 0.5, 0.5), "+0.50 ≥ +0.50");
        assert_eq!(shown(Points, Above, -0.2, 0.0), "−0.20 > 0");
        assert_eq!(shown(P, AtMost, 0.0504, 0.05), ".0504 ≤ .0500");
        assert_eq!(shown(P, AtMost, 1e-9, 0.05), "<.001 ≤ .050");
        assert_eq!(shown(Coefficient, AtLeast, 0.667, 0.8), "0.667 ≥ 0.800");
        assert_eq!(shown(Share, AtLeast, -0.125, -0.1), "−12 % ≥ −10 %");
        assert_eq!(shown(Proportion, AtMost, 0.25, 0.1), "25 % ≤ 10 %");
        assert_eq!(shown(Count, AtLeast, 29.0, 30.0), "29 ≥ 30");
    }

    #[test]
    fn hostile_names_stay_on_their_lines() {
        let hostile = "a\x1b[31m\n\u{202e}".repeat(30);
        let pair = |prompt: &str| Pair {
            model: hostile.clone(),
            prompt: prompt.to_owned(),
        };
        let mut long = check(Quantity::Points, Relation::Above, f64::NAN, 0.0);
        long.about.clone_from(&hostile);
        long.why = Some(hostile.clone());
        let report = GateReport {
            candidate: pair("p1"),
            incumbent: pair("p2"),
            tier: Tier::Expert,
            passed: false,
            checks: vec![long],
        };
        for columns in [0, 40, 80, 200] {
            let text = table(&report, columns, false);
            assert!(!text.contains(['\x1b', '\u{202e}']), "{text}");
            let most = columns.clamp(MIN_WIDTH, 100);
            assert!(text.lines().all(|line| width(line) <= most), "{text}");
        }
        assert!(!sentence(&report).contains('\x1b'));
    }
}
