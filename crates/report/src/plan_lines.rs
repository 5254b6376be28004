//! The plan of an experiment as lines of label, figure and explanation; the terminal and the panel
//! show the same lines.

use assize_domain::plan::{Basis, Cheapest, Plan, PowerPoint};

use crate::svg::power::{Curve, Labels};
use crate::terminal::MIN_WIDTH;
use crate::text::{clean, width, wrap};
use crate::{figure, svg};

/// One line of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub label: &'static str,
    pub figure: String,
    pub about: String,
}

/// The plan for a terminal. Ends with a line break.
pub fn table(plan: &Plan, columns: usize) -> String {
    let columns = columns.clamp(MIN_WIDTH, 100);
    let lines = lines(plan);
    let label = lines.iter().map(|it| width(it.label)).max().unwrap_or(0);
    let figures = lines.iter().map(|it| width(&it.figure)).max().unwrap_or(0);
    let left = 1 + label + 2 + figures + 2;
    let mut text: Vec<String> = wrap(&heading(plan), columns - 1)
        .into_iter()
        .map(|it| format!(" {it}"))
        .collect();
    text.push(String::new());
    for line in &lines {
        let gap = " ".repeat(label - width(line.label));
        let figure = " ".repeat(figures - width(&line.figure)) + &line.figure;
        let mut about = wrap(&line.about, columns.saturating_sub(left).max(16)).into_iter();
        let first = about.next().unwrap_or_default();
        let row = format!(" {}{gap}  {figure}  {first}", line.label);
        text.push(row.trim_end().to_owned());
        text.extend(about.map(|it| format!("{}{it}", " ".repeat(left))));
    }
    text.push(String::new());
    for sentence in sentences(plan) {
        let wrapped = wrap(&sentence, columns - 1).into_iter();
        text.extend(wrapped.map(|it| format!(" {it}")));
    }
    text.join("\n") + "\n"
}

/// `2 models × 3 prompts × 8 scenarios × 5 = 240 outputs, and 60 to confirm the winner`
pub fn heading(plan: &Plan) -> String {
    let grid = &plan.grid;
    let confirming = 2 * u64::from(grid.confirmation) * u64::from(grid.candidates);
    let mut text = format!(
        "{} × {} × {} × {} = {} outputs",
        count(grid.models.len(), "model"),
        count(grid.prompts.len(), "prompt"),
        count(grid.scenarios as usize, "scenario"),
        grid.candidates,
        grid.outputs - confirming,
    );
    if confirming > 0 {
        text.push_str(&format!(", and {confirming} to confirm the winner"));
    }
    text
}

/// Power, hours and cost.
pub fn lines(plan: &Plan) -> Vec<Line> {
    let points = |value: f64| points(plan, value);
    let power = &plan.power;
    let others = plan.grid.pairs.saturating_sub(1);
    let better = format!(
        "that one of {} is found that is truly {} better",
        count(others as usize, "challenger"),
        points(power.effect)
    );
    let line = |label, figure: String, about: String| Line {
        label,
        figure,
        about,
    };
    let confirmation = if plan.grid.confirmation > 0 {
        format!(
            "on {} of the confirmation split",
            count(plan.grid.confirmation as usize, "scenario")
        )
    } else {
        "if the task had a confirmation split as large as this one".to_owned()
    };
    let smallest = match power.smallest_effect {
        Some(_) => format!("is found with {} power", figure::percent(power.wanted)),
        None => format!(
            "no effect is found with {} power",
            figure::percent(power.wanted)
        ),
    };
    let mut lines = vec![
        line(
            "power of the whole gate",
            figure::percent(power.whole_gate),
            better,
        ),
        line(
            "  without confirmation",
            figure::percent(power.without_confirmation),
            String::new(),
        ),
        line(
            "  with confirmation",
            figure::percent(power.with_confirmation),
            confirmation,
        ),
        line(
            "smallest effect",
            power
                .smallest_effect
                .map_or_else(|| figure::NONE.to_owned(), points),
            smallest,
        ),
        line(
            "false promotions",
            share(power.false_promotions),
            "where all pairs are equal".to_owned(),
        ),
    ];
    lines.extend(spending(plan));
    lines
}

/// Hours and cost.
fn spending(plan: &Plan) -> Vec<Line> {
    let hours_known = plan.generation.hours.map(hours);
    let mut lines = vec![
        Line {
            label: "generation",
            figure: hours_known.unwrap_or_else(|| figure::NONE.to_owned()),
            about: generation(plan),
        },
        Line {
            label: "judging",
            figure: hours(plan.judging.hours),
            about: judging(plan),
        },
    ];
    lines.extend(plan.cost_usd.map(|cost| Line {
        label: "cost",
        figure: figure::dollars(cost),
        about: "by what these models charged before".to_owned(),
    }));
    lines
}

/// Power by the size of the effect, as SVG.
pub fn chart(plan: &Plan) -> Option<String> {
    let curve = |name: &str, power: fn(&PowerPoint) -> f64| Curve {
        name: name.to_owned(),
        points: plan
            .power
            .curve
            .iter()
            .map(|it| (it.effect, power(it)))
            .collect(),
    };
    let labels = Labels {
        title: "Power of the whole gate by the true effect",
        across: "true effect in points of the composite",
        wanted: Some(plan.power.wanted),
    };
    let without = curve("unconfirmed", |it| it.without_confirmation);
    let with = curve("confirmed", |it| it.with_confirmation);
    svg::power(&[without, with], labels)
}

/// The cheapest design, the assumptions and the notes.
pub fn sentences(plan: &Plan) -> Vec<String> {
    let mut sentences = vec![cheapest(plan), spreads(plan)];
    let notes = plan.notes.iter();
    sentences.extend(notes.map(|it| format!("Note: {}.", clean(it))));
    sentences
}

fn cheapest(plan: &Plan) -> String {
    let goal = format!(
        "{} power for {}",
        figure::percent(plan.power.wanted),
        points(plan, plan.power.effect)
    );
    let Some(it) = &plan.cheapest else {
        return format!("No design of up to 200 scenarios × 8 candidates has {goal}.");
    };
    let Cheapest {
        scenarios,
        candidates,
        outputs,
        power,
        ..
    } = it;
    let confirmation = if it.confirmation > 0 {
        format!(
            " and {} to confirm",
            count(it.confirmation as usize, "scenario")
        )
    } else {
        String::new()
    };
    let cost = it
        .cost_usd
        .map_or_else(String::new, |cost| format!(", {}", figure::dollars(cost)));
    format!(
        "The fewest outputs with {goal}: {} × {}{confirmation}, {outputs} outputs, {} of judging{cost} \
         (power {}).",
        count(*scenarios as usize, "scenario"),
        count(*candidates as usize, "candidate"),
        hours(it.judging_hours),
        figure::percent(*power),
    )
}

fn spreads(plan: &Plan) -> String {
    let it = &plan.spreads;
    let source = match it.basis {
        Basis::Earlier => format!(
            "from {}: {}",
            count(it.experiments.len(), "earlier experiment"),
            clean(&it.experiments.join(", "))
        ),
        _ => format!(
            "defaults, because no earlier experiment has verdicts under {}",
            clean(&plan.rubric.id)
        ),
    };
    let size = |value: f64| points(plan, value).trim_start_matches('+').to_owned();
    format!(
        "Assumed spreads: scenarios {}, pairs over scenarios {}, candidates {} ({source}). Gate: level \
         {}, margin {}, floor {}.",
        size(it.scenario_sd),
        size(it.pair_by_scenario_sd),
        size(it.candidate_sd),
        figure::p_value(Some(plan.gate.level)),
        points(plan, plan.gate.margin),
        points(plan, plan.gate.scenario_floor),
    )
}

fn generation(plan: &Plan) -> String {
    let models = &plan.generation.models;
    let of = |basis: Basis| models.iter().filter(move |it| it.basis == basis);
    let unknown: Vec<&str> = of(Basis::Unknown).map(|it| it.model.as_str()).collect();
    if !unknown.is_empty() {
        return format!("not known for {}", clean(&unknown.join(", ")));
    }
    match of(Basis::ModelSizes).count() {
        0 => "at the pace of earlier runs".to_owned(),
        all if all == models.len() => "on a CPU, guessed from the models' sizes".to_owned(),
        _ => "partly guessed from the models' sizes, for a CPU".to_owned(),
    }
}

fn judging(plan: &Plan) -> String {
    let it = &plan.judging;
    let source = match it.basis {
        Basis::Earlier => "as in earlier sittings",
        _ => "by default",
    };
    format!(
        "{} cases × {:.1} minutes, {source}",
        it.cases, it.minutes_per_case
    )
}

/// A difference in points, with as many digits as the composite's range asks for.
pub fn points(plan: &Plan, value: f64) -> String {
    let [low, high] = plan.composite_range;
    if high - low >= 5.0 {
        return figure::signed(value);
    }
    format!("{value:+.3}").replace('-', "−")
}

/// `45 min`, `3.2 h`
fn hours(hours: f64) -> String {
    if hours < 0.995 {
        format!("{:.0} min", hours * 60.0)
    } else {
        format!("{hours:.1} h")
    }
}

/// A small share with a decimal.
fn share(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn count(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}
