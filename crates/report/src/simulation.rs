//! A study of policies for readers: terminal, CSV, SVG and HTML.
//!
//! All figures are the study's; nothing is computed here. Names of policies and personas come from
//! files, so every format cleans and escapes them.

use assize_policy::simulate::{Comparison, EntrantResult, Simulation, Variant};
use assize_policy::study::Study;

use crate::figure;
use crate::markup::Markup;
use crate::svg::curves::{BandCurve, BandPoint, CurveLabels, draw};
use crate::terminal::MIN_WIDTH;
use crate::text::{clean, shorten, width, wrap};

pub mod csv;
pub mod html;

const NAME_COLUMNS: usize = 28;

/// The study for a terminal of so many columns. Ends with a line break.
pub fn terminal(study: &Study, columns: usize) -> String {
    let columns = columns.clamp(MIN_WIDTH, 100);
    let mut lines = vec![format!(" {}", heading(study)), String::new()];
    if let Some(base) = study.base() {
        lines.extend(table(&policies(study, base)));
        lines.push(String::new());
        lines.extend(table(&by_persona(study, base)));
    }
    let sensitivity = sensitivity(study);
    if sensitivity.len() > 1 {
        lines.extend([String::new(), " With other assumptions".to_owned()]);
        lines.extend(table(&sensitivity));
    }
    lines.push(String::new());
    for sentence in [conclusion(study), READING.to_owned()] {
        lines.extend(
            wrap(&sentence, columns - 1)
                .iter()
                .map(|it| format!(" {it}")),
        );
    }
    let cut = lines.iter().map(|it| shorten(it, columns));
    cut.collect::<Vec<_>>().join("\n") + "\n"
}

pub(crate) const READING: &str = "Rewards are expected rewards per decision; regret is what the best \
     candidates would have had more, in total. Intervals are 95 % over personas, because the persona \
     is the unit.";

/// `9 personas × 20 seeds × 2000 decisions, personas: built-in, seed 1`
pub fn heading(study: &Study) -> String {
    let Some(base) = study.base() else {
        return "Nothing was simulated".to_owned();
    };
    let personas = base.entrants.first().map_or(0, |it| it.personas.len());
    format!(
        "{personas} personas × {} seeds × {} decisions, personas: {}, seed {}",
        base.seeds,
        base.steps,
        clean(&study.personas),
        base.seed
    )
}

/// Which policy is ahead of the baseline, and whether that is shown.
pub fn conclusion(study: &Study) -> String {
    let baseline = clean(study.baseline()).into_owned();
    let compared = study.comparisons.iter();
    let base = compared.filter(|it| it.variant == Variant::Base);
    let Some(best) = base.max_by(|a, b| a.mean.total_cmp(&b.mean)) else {
        return "There is nothing to compare: name at least two policies and two personas."
            .to_owned();
    };
    let name = clean(&best.candidate);
    let figures = difference(best);
    if best.low > 0.0 {
        let harmed = best.worst().filter(|it| it.difference < 0.0);
        let harm = harmed.map_or_else(String::new, |it| {
            let persona = clean(&it.persona);
            format!(" The persona {persona} loses {:.3}.", -it.difference)
        });
        return format!("{name} earns more than {baseline}: {figures} per decision.{harm}");
    }
    format!("No policy is shown to earn more than {baseline}; the best is {name}: {figures}.")
}

fn policies(study: &Study, base: &Simulation) -> Vec<Vec<String>> {
    let mut rows = vec![
        [
            "policy",
            "reward",
            "regret",
            "difference [95 %]",
            "best choices",
        ]
        .map(str::to_owned)
        .to_vec(),
    ];
    for entrant in &base.entrants {
        let versus = study.comparison(&entrant.name, Variant::Base);
        rows.push(vec![
            clean(&entrant.name).into_owned(),
            three(entrant.expected_reward)
                .trim_start_matches('+')
                .to_owned(),
            format!("{:.1}", entrant.regret),
            versus.map_or_else(|| "baseline".to_owned(), difference),
            figure::percent(best_share(entrant)),
        ]);
    }
    rows
}

fn best_share(entrant: &EntrantResult) -> f64 {
    let shares = entrant.personas.iter().map(|it| it.best_share);
    shares.sum::<f64>() / entrant.personas.len().max(1) as f64
}

/// One row a persona: the baseline's reward, and the differences of the others.
pub(crate) fn by_persona(study: &Study, base: &Simulation) -> Vec<Vec<String>> {
    let mut head = vec!["persona".to_owned(), "family".to_owned()];
    head.extend(base.entrants.iter().map(|it| clean(&it.name).into_owned()));
    let mut rows = vec![head];
    let Some(first) = base.entrants.first() else {
        return rows;
    };
    for (place, persona) in first.personas.iter().enumerate() {
        let held_out = if persona.is_held_out {
            " (held out)"
        } else {
            ""
        };
        let mut row = vec![
            shorten(&clean(&persona.persona), NAME_COLUMNS),
            format!(
                "{}{held_out}",
                shorten(&clean(&persona.family), NAME_COLUMNS)
            ),
            format!("{:.3}", persona.expected_reward),
        ];
        row.extend(base.entrants[1..].iter().map(|it| {
            let own = study.comparison(&it.name, Variant::Base);
            let found = own.and_then(|own| own.personas.get(place));
            found.map_or_else(|| figure::NONE.to_owned(), |it| three(it.difference))
        }));
        rows.push(row);
    }
    rows
}

/// One row an assumption: the differences to the baseline.
pub(crate) fn sensitivity(study: &Study) -> Vec<Vec<String>> {
    let others = study.policies.iter().skip(1);
    let mut head = vec!["assumption".to_owned()];
    head.extend(others.clone().map(|it| clean(&it.name).into_owned()));
    let mut rows = vec![head];
    for simulation in study.simulations.iter().skip(1) {
        let mut row = vec![simulation.variant.to_string()];
        row.extend(others.clone().map(|it| {
            let found = study.comparison(&it.name, simulation.variant);
            found.map_or_else(|| figure::NONE.to_owned(), difference)
        }));
        rows.push(row);
    }
    rows
}

/// `+0.021 [+0.010, +0.032]`
pub(crate) fn difference(it: &Comparison) -> String {
    format!("{} [{}, {}]", three(it.mean), three(it.low), three(it.high))
}

/// Three decimals and a sign.
pub(crate) fn three(value: f64) -> String {
    if !value.is_finite() {
        return figure::NONE.to_owned();
    }
    format!("{value:+.3}").replace('-', "−")
}

/// Aligns columns: the first to the left, all others to the right.
fn table(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widest = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|it| width(it)).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(widest).collect();
    let line = |row: &Vec<String>| {
        let mut text = String::new();
        for (column, cell) in row.iter().enumerate() {
            let gap = " ".repeat(widths[column] - width(cell));
            let is_name = column == 0 || rows[0][column] == "family";
            text.push_str(if column == 0 { " " } else { "  " });
            if is_name {
                text.extend([cell.as_str(), &gap]);
            } else {
                text.extend([gap.as_str(), cell]);
            }
        }
        text.trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// The regret of every policy over the decisions as SVG; `None` where nothing was simulated.
pub fn regret_chart(simulation: &Simulation) -> Option<String> {
    regret_curves(simulation).map(Markup::into_string)
}

fn regret_curves(simulation: &Simulation) -> Option<Markup> {
    let curve = |entrant: &EntrantResult| BandCurve {
        name: entrant.name.clone(),
        points: entrant
            .curve
            .iter()
            .map(|it| BandPoint {
                position: it.step as f64,
                value: it.regret,
                low: it.regret_low,
                high: it.regret_high,
            })
            .collect(),
    };
    let curves: Vec<BandCurve> = simulation.entrants.iter().map(curve).collect();
    let title = format!("Regret over decisions, {}", simulation.variant);
    draw(
        &curves,
        CurveLabels {
            title: &title,
            across: "decisions; the band is the 95 % interval over personas",
            up: "regret, less is better",
        },
    )
}
