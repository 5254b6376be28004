//! The gate's error rates and power, measured: `cargo run --release -p assize-pipeline --example
//! calibrate [EXPERIMENTS [SVG]]`. The seed is fixed, so the figures can be had again. The tables
//! are Markdown, as docs/statistics.md has them; the power by scenarios is also drawn as SVG.

use std::error::Error;
use std::io::Write;
use std::time::Instant;

use assize_pipeline::promote::Thresholds;
use assize_pipeline::promote::calibrate::{Design, Practice, Rates};
use assize_report::svg;
use assize_report::svg::power::{Curve, Labels};

const SEED: u64 = 20_260_427;
const SCENARIOS: [usize; 4] = [8, 24, 48, 96];
const EFFECTS: [f64; 3] = [0.5, 1.0, 1.5];

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> Outcome {
    let mut words = std::env::args().skip(1);
    let asked = words.next().map(|it| it.parse()).transpose()?;
    let experiments: usize = asked.unwrap_or(5_000);
    let file = words.next();
    let started = Instant::now();
    let mut out = std::io::stdout().lock();
    writeln!(out, "{experiments} experiments each, seed {SEED}\n")?;
    rules(&mut out, experiments)?;
    practices(&mut out, experiments)?;
    sizes(&mut out, experiments)?;
    let curves = power(&mut out, experiments)?;
    if let Some(file) = file {
        let labels = Labels {
            title: "Power of the whole gate by the number of scenarios",
            across: "scenarios, with 5 candidates each",
            wanted: Some(0.8),
        };
        std::fs::write(file, svg::power(&curves, labels).unwrap_or_default())?;
    }
    writeln!(out, "\n{:.0} seconds", started.elapsed().as_secs_f64())?;
    Ok(())
}

/// Pairs that share no model, for which power is stated.
fn apart() -> Design {
    Design {
        prompts: 1,
        ..Design::default()
    }
}

fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

/// The gate beside the rules that people use instead, on 8 scenarios × 5 candidates.
fn rules(out: &mut impl Write, experiments: usize) -> Outcome {
    let (design, apart, thresholds) = (Design::default(), apart(), Thresholds::default());
    let effect = design.detectable_effect().ok_or("no detectable effect")?;
    let share = |count: usize| percent(count as f64 / experiments as f64);
    let coverage = apart.coverage(experiments, SEED)?;
    writeln!(
        out,
        "| 95 % interval of a difference | coverage |\n|---|---|"
    )?;
    writeln!(out, "| paired t | {} |", share(coverage.paired))?;
    writeln!(
        out,
        "| percentile bootstrap | {} |\n",
        share(coverage.bootstrap)
    )?;
    writeln!(
        out,
        "| challengers | adjusted p ≤ .05 | whole gate | with confirmation | top of the board | top, if \
         bootstrap > 0 |\n|---|---|---|---|---|---|"
    )?;
    let mut row = |about: &str, design: &Design, effects: &[f64]| -> Outcome {
        let found = design.promotions(effects, experiments, SEED, &thresholds)?;
        let cells = [
            found.max_t,
            found.gate,
            found.confirmed,
            found.top,
            found.bootstrap,
        ];
        writeln!(out, "| {about} | {} |", cells.map(share).join(" | "))?;
        Ok(())
    };
    for challengers in [1, 5, 11, 23] {
        row(
            &format!("{challengers}, equal"),
            &design,
            &vec![0.0; challengers],
        )?;
    }
    let mixed: Vec<f64> = (0..11)
        .map(|pair| [0.0, -1.0, -2.0, 0.0][pair / 3])
        .collect();
    row("11, models equal or worse", &design, &mixed)?;
    row(&format!("1, better by {effect:.2}"), &apart, &[effect])?;
    row("1, better by 2.5", &apart, &[2.5])?;
    row("11, one better by 2.5", &design, &one_better(2.5))?;
    let power = apart.promotions(&[effect], experiments, SEED, &thresholds)?;
    writeln!(
        out,
        "\nThe paired one-sided test finds {effect:.3}, which is stated to be found in 80 %, in {}.\n",
        share(power.lower_bound)
    )?;
    Ok(())
}

fn one_better(effect: f64) -> Vec<f64> {
    let mut effects = vec![0.0; 11];
    effects[0] = effect;
    effects
}

/// The ways of working, each with its numbers of challengers and scenarios.
fn cases() -> [(&'static str, Practice, usize, usize); 13] {
    let later = |share| Practice::LaterJudge { share, kinder: 0.6 };
    let lost = |share| Practice::FailedCandidates { share };
    [
        (
            "judged later, 0.2 per criterion kinder, 8 scenarios",
            later(1.0),
            1,
            8,
        ),
        ("the same, 24 scenarios", later(1.0), 1, 24),
        ("a tenth of the verdicts judged later", later(0.1), 1, 8),
        ("auto picks the best of 11", Practice::Preselection, 11, 8),
        (
            "11, ten of them on 5 of 8 scenarios",
            Practice::RaggedCells,
            11,
            8,
        ),
        (
            "11, ten of them on 5 of 24 scenarios",
            Practice::RaggedCells,
            11,
            24,
        ),
        ("the worst 10 % of candidates lost", lost(0.1), 1, 8),
        ("the worst 5 % of candidates lost", lost(0.05), 1, 8),
        (
            "11, collected adaptively, 8 scenarios",
            Practice::Adaptive,
            11,
            8,
        ),
        (
            "11, collected adaptively, 24 scenarios",
            Practice::Adaptive,
            11,
            24,
        ),
        (
            "confirmation looked at once",
            Practice::Peeking { looks: 1 },
            1,
            8,
        ),
        (
            "confirmation looked at 5 times",
            Practice::Peeking { looks: 5 },
            1,
            8,
        ),
        (
            "confirmation looked at 13 times",
            Practice::Peeking { looks: 13 },
            1,
            8,
        ),
    ]
}

/// Ways of working that promote false winners without the gate's checks.
fn practices(out: &mut impl Write, experiments: usize) -> Outcome {
    writeln!(
        out,
        "| practice, all pairs equal | before | now | bound | with confirmation | bound |\n|---|---|---|---|---|---|"
    )?;
    for (about, practice, challengers, scenarios) in cases() {
        let design = Design {
            scenarios,
            ..Design::default()
        };
        let effects = vec![0.0; challengers];
        row(
            out,
            about,
            &rates(&design, practice, &effects, experiments)?,
        )?;
    }
    writeln!(out)?;
    Ok(())
}

fn rates(
    design: &Design,
    practice: Practice,
    effects: &[f64],
    experiments: usize,
) -> Result<Rates, Box<dyn Error>> {
    Ok(design.rates(practice, effects, experiments, SEED, &Thresholds::default())?)
}

fn row(out: &mut impl Write, about: &str, found: &Rates) -> Outcome {
    let ((before, _), (after, bound)) = (found.share(found.before), found.share(found.after));
    let (confirmed, confirmed_bound) = found.share(found.confirmed);
    let cells = [before, after, bound, confirmed, confirmed_bound].map(percent);
    writeln!(out, "| {about} | {} |", cells.join(" | "))?;
    Ok(())
}

/// False promotions by the size of the experiment.
fn sizes(out: &mut impl Write, experiments: usize) -> Outcome {
    writeln!(
        out,
        "| 11 equal challengers | before | now | bound | with confirmation | bound |\n|---|---|---|---|---|---|"
    )?;
    for candidates in [1, 5] {
        for scenarios in SCENARIOS {
            let design = Design {
                scenarios,
                candidates,
                ..Design::default()
            };
            let about = format!("{scenarios} scenarios × {candidates}");
            let found = rates(&design, Practice::Sound, &[0.0; 11], experiments)?;
            row(out, &about, &found)?;
        }
    }
    writeln!(out)?;
    Ok(())
}

/// How often one better challenger of 11 is promoted, by the number of scenarios.
fn power(out: &mut impl Write, experiments: usize) -> Result<Vec<Curve>, Box<dyn Error>> {
    writeln!(
        out,
        "| one of 11 better by | scenarios | before | now | with confirmation |\n|---|---|---|---|---|"
    )?;
    let mut curves = Vec::new();
    for effect in EFFECTS {
        let mut points = Vec::new();
        for scenarios in SCENARIOS {
            let design = Design {
                scenarios,
                confirmation: scenarios,
                ..Design::default()
            };
            let found = rates(&design, Practice::Sound, &one_better(effect), experiments)?;
            let shares = [found.before, found.after, found.confirmed].map(|it| found.share(it).0);
            let cells = shares.map(percent).join(" | ");
            writeln!(out, "| {effect:.1} | {scenarios} | {cells} |")?;
            points.push((scenarios as f64, shares[1]));
        }
        curves.push(Curve {
            name: format!("+{effect:.1}"),
            points,
        });
    }
    Ok(curves)
}
