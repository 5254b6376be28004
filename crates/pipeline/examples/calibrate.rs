//! The gate's error rates and power, measured: `cargo run --release -p assize-pipeline --example
//! calibrate [EXPERIMENTS]`. The seed is fixed, so the figures can be had again.

use std::io::Write as _;

use assize_pipeline::promote::Thresholds;
use assize_pipeline::promote::calibrate::Design;

const SEED: u64 = 20_260_427;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let asked = std::env::args().nth(1).map(|it| it.parse()).transpose()?;
    let experiments: usize = asked.unwrap_or(20_000);
    let (design, thresholds) = (Design::default(), Thresholds::default());
    // Power is stated for pairs that share nothing.
    let apart = Design {
        prompts: 1,
        ..design.clone()
    };
    let effect = design.detectable_effect().ok_or("no detectable effect")?;
    let mut out = std::io::stdout().lock();
    let share = |count: usize| 100.0 * count as f64 / experiments as f64;

    writeln!(
        out,
        "{experiments} experiments each, {} scenarios × {} candidates\n",
        design.scenarios, design.candidates
    )?;
    let coverage = apart.coverage(experiments, SEED)?;
    writeln!(out, "95 % interval of a difference holds the truth")?;
    writeln!(
        out,
        "  paired t                {:6.2} %",
        share(coverage.paired)
    )?;
    writeln!(
        out,
        "  percentile bootstrap    {:6.2} %\n",
        share(coverage.bootstrap)
    )?;

    writeln!(
        out,
        "promoted                   maxT    gate    + confirmation    top    bootstrap"
    )?;
    let mut row =
        |about: &str, design: &Design, effects: &[f64]| -> Result<(), Box<dyn std::error::Error>> {
            let found = design.promotions(effects, experiments, SEED, &thresholds)?;
            writeln!(
                out,
                "{about:<22} {:6.2} %{:6.2} %{:14.3} %{:8.1} %{:8.1} %",
                share(found.max_t),
                share(found.gate),
                share(found.confirmed),
                share(found.top),
                share(found.bootstrap),
            )?;
            Ok(())
        };
    for challengers in [1, 5, 11, 23] {
        let about = format!("{challengers} equal");
        row(&about, &design, &vec![0.0; challengers])?;
    }
    let mixed: Vec<f64> = (0..11)
        .map(|pair| [0.0, -1.0, -2.0, 0.0][pair / 3])
        .collect();
    row("11, models 0 −1 −2 0", &design, &mixed)?;
    row(&format!("1 better by {effect:.2}"), &apart, &[effect])?;
    row("1 better by 2.50", &apart, &[2.5])?;
    row("1 of 11 better by 2.50", &design, &{
        let mut effects = vec![0.0; 11];
        effects[4] = 2.5;
        effects
    })?;
    let power = apart.promotions(&[effect], experiments, SEED, &thresholds)?;
    writeln!(
        out,
        "\npaired one-sided test finds {effect:.3}, which is stated to be found in 80 %: {:.2} %",
        share(power.lower_bound)
    )?;
    Ok(())
}
