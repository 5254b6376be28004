//! Error rates, power and cost of the prompt loop, measured: `cargo run --release -p assize-pipeline
//! --example calibrate_loop [STUDIES]`. The seed is fixed, so the figures can be had again. The tables are
//! Markdown, as docs/optimise.md has them.

use std::error::Error;
use std::io::Write;
use std::time::Instant;

use assize_pipeline::optimise::calibrate::{Rule, Study, Totals, World};

const SEED: u64 = 20_260_427;
/// Runs on the same scenarios before fresh confirmation scenarios are demanded.
const LOOKS: usize = 10;

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> Outcome {
    let asked = std::env::args().nth(1).map(|it| it.parse()).transpose()?;
    let studies: usize = asked.unwrap_or(2_000);
    let started = Instant::now();
    let mut out = std::io::stdout().lock();
    writeln!(out, "{studies} studies each, seed {SEED}\n")?;
    rules(&mut out, studies)?;
    looks(&mut out, studies)?;
    writeln!(out, "\n{:.0} seconds", started.elapsed().as_secs_f64())?;
    Ok(())
}

const WORLDS: [(&str, World); 3] = [
    ("equal", World::Equal),
    ("equal or worse", World::EqualOrWorse),
    ("mixed", World::Mixed),
];

/// One run of each rule in each world.
fn rules(out: &mut impl Write, studies: usize) -> Outcome {
    writeln!(
        out,
        "| children | rule | announced | true gain | shown gain | shown − true | auto: race + gate (most) | expert (most) |\n\
         |---|---|---|---|---|---|---|---|"
    )?;
    let rules = [
        ("GEPA, 12 children", Rule::Gepa { children: 12 }),
        ("GEPA, 36 children", Rule::Gepa { children: 36 }),
        ("Assize", Rule::Assize),
    ];
    let mut row = |about: &str, name: &str, study: &Study, rule: Rule| -> Outcome {
        let found = study.simulate(rule, studies, SEED)?;
        writeln!(out, "| {about} | {name} | {} |", cells(&found).join(" | "))?;
        Ok(())
    };
    for (about, world) in WORLDS {
        for (name, rule) in rules {
            row(about, name, &Study::new(world, 1), rule)?;
        }
    }
    // What the loop could reach at most, and what the gate's checks of flags cost, which two equal pairs
    // fail by chance.
    let mixed = Study::new(World::Mixed, 1);
    row(
        "mixed",
        "a search that knows the truth",
        &mixed,
        Rule::Perfect,
    )?;
    let mut without_flags = mixed.clone();
    without_flags.design.flags.clear();
    row("mixed, no flags", "Assize", &without_flags, Rule::Assize)?;
    row(
        "mixed, no flags",
        "a search that knows the truth",
        &without_flags,
        Rule::Perfect,
    )?;
    // More rounds, each on fewer scenarios: the same verdicts search wider.
    for (about, world) in WORLDS {
        row(about, "Assize, 8 rounds", &wide(world, 1), Rule::Assize)?;
    }
    // As many verdicts on more scenarios with fewer candidates each.
    for (name, study) in [
        ("Assize", Study::new(World::Mixed, 1)),
        ("Assize, 8 rounds", wide(World::Mixed, 1)),
    ] {
        let mut study = study;
        study.design.scenarios = 20;
        study.design.confirmation = 20;
        study.design.candidates = 2;
        row("mixed, 20 scenarios × 2", name, &study, Rule::Assize)?;
    }
    writeln!(out)?;
    Ok(())
}

/// A study of eight rounds.
fn wide(world: World, looks: usize) -> Study {
    let mut study = Study::new(world, looks);
    study.settings.rounds = 8;
    study
}

fn cells(found: &Totals) -> [String; 6] {
    let runs = found.runs.max(1) as f64;
    let promoted = found.promoted.max(1) as f64;
    let (true_gain, shown) = (found.true_gain / promoted, found.shown_gain / promoted);
    let share = share(found.promoted, found.runs);
    [
        share,
        format!("{true_gain:+.2}"),
        format!("{shown:+.2}"),
        format!("{:+.2}", shown - true_gain),
        format!(
            "{:.0} + {:.0} ({})",
            found.race_verdicts as f64 / runs,
            found.gate_verdicts as f64 / runs,
            found.most_auto
        ),
        format!(
            "{:.0} ({})",
            found.expert_verdicts as f64 / runs,
            found.most_expert
        ),
    ]
}

fn share(count: usize, of: usize) -> String {
    let n = of.max(1) as f64;
    let p = count as f64 / n;
    let se = (p * (1.0 - p) / n).sqrt();
    format!("{:.2} % ± {:.2}", 100.0 * p, 196.0 * se)
}

/// False promotions of repeated runs on the same scenarios.
fn looks(out: &mut impl Write, studies: usize) -> Outcome {
    writeln!(
        out,
        "| children | false promotions a run | in any of {LOOKS} runs |\n|---|---|---|"
    )?;
    for (about, world) in &WORLDS[..2] {
        for (rounds, study) in [
            ("", Study::new(*world, LOOKS)),
            (", 8 rounds", wide(*world, LOOKS)),
        ] {
            let found = study.simulate(Rule::Assize, studies, SEED)?;
            writeln!(
                out,
                "| {about}{rounds} | {} | {} |",
                share(found.false_promotions, found.runs),
                share(found.studies_with_false, found.studies)
            )?;
        }
    }
    Ok(())
}
