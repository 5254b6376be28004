//! Boards as `compare` makes them, and some that it should never make.

use assize_domain::leaderboard::{
    BoardTier, Coverage, Decision, Estimate, Leaderboard, Pair, Pareto, Row, Scores, Variance,
    Versus,
};
use assize_domain::verdict::RubricRef;

pub fn pair(model: &str, prompt: &str) -> Pair {
    Pair {
        model: model.to_owned(),
        prompt: prompt.to_owned(),
    }
}

/// A row whose other figures follow from its mean.
fn row(rank: u32, (model, prompt): (&str, &str), mean: f64, latency_ms: f64) -> Row {
    let se = 0.24 + 0.01 * f64::from(rank);
    let score = |offset: f64| (mean - 2.0) / 3.0 + offset;
    Row {
        rank,
        model: model.to_owned(),
        prompt: prompt.to_owned(),
        scenarios: 8,
        candidates: 40,
        composite: Estimate {
            mean,
            se: Some(se),
            ci95: Some([mean - 2.365 * se, mean + 2.365 * se]),
        },
        criteria: Scores::from([
            ("relevance".to_owned(), score(0.3)),
            ("actionability".to_owned(), score(-0.2)),
            ("tone".to_owned(), score(-0.1)),
        ]),
        flags: Scores::from([("format_ok".to_owned(), 0.95), ("overlong".to_owned(), 0.1)]),
        vs_incumbent: None,
        p_best: None,
        n_failed: 0,
        latency_ms: Some(latency_ms),
        tokens_per_s: Some(36_000.0 / latency_ms),
        latency_p50_ms: None,
        latency_p95_ms: None,
        cost_usd_per_1000: None,
        thinking_tokens: None,
    }
}

/// Puts the last row in the place of the incumbent and compares the others with it.
fn against_last(rows: &mut [Row], p_adjusted: &[f64]) -> Option<Pair> {
    let (incumbent, challengers) = rows.split_last_mut()?;
    for (position, row) in challengers.iter_mut().enumerate() {
        let diff = row.composite.mean - incumbent.composite.mean;
        let half = 0.9 + 0.04 * f64::from(row.rank);
        let p = p_adjusted.get(position).copied().unwrap_or(1.0);
        row.vs_incumbent = Some(Versus {
            diff,
            ci95: Some([diff - half, diff + half]),
            lower95: Some(diff - 0.8 * half),
            scenarios: 8,
            p: Some(p / 2.0),
            p_adjusted: Some(p),
            judged_apart: None,
        });
        row.p_best = Some(if position == 0 {
            0.91
        } else {
            0.09 / challengers_left(position)
        });
    }
    incumbent.p_best = Some(0.0);
    Some(incumbent.pair())
}

fn challengers_left(position: usize) -> f64 {
    2_f64.powi(i32::try_from(position).unwrap())
}

fn board(rows: Vec<Row>, incumbent: Option<Pair>) -> Leaderboard {
    let cells = u32::try_from(rows.len()).unwrap() * 8;
    Leaderboard {
        experiment: "tip-bench".to_owned(),
        rubric: Some(RubricRef {
            id: "tip-v1".to_owned(),
            sha256: "5f0c9a".repeat(10) + "abcd",
        }),
        tier: BoardTier::Expert,
        computed: false,
        split: "selection".to_owned(),
        incumbent,
        pareto: Pareto::of(&rows),
        rows,
        decision: None,
        variance: None,
        adaptive: false,
        coverage: Coverage {
            cells,
            judged: cells,
            pending: 0,
            failed: 0,
        },
        composite_range: Some([2.0, 17.0]),
        confirmation: None,
        warnings: Vec::new(),
        rule: None,
        combination: None,
        method: None,
        unjudged_pairs: Vec::new(),
        failed_pairs: Vec::new(),
        harm: None,
        older_versions: Vec::new(),
    }
}

fn shares() -> Variance {
    Variance {
        model: 0.07,
        prompt: 0.2,
        interaction: 0.05,
        scenario: 0.38,
        by_scenario: 0.06,
        noise: Some(0.24),
    }
}

/// Twelve pairs, and a challenger that wins.
pub fn winner() -> Leaderboard {
    let figures = [
        ("qwen2.5:1.5b", "v3-few-shot", 12.75, 412.0),
        ("llama3.2:3b", "v3-few-shot", 12.10, 905.0),
        ("llama3.2:3b", "v2-mentor", 11.92, 934.0),
        ("gemma3:1b", "v3-few-shot", 11.81, 388.0),
        ("qwen2.5:1.5b", "v2-mentor", 11.60, 431.0),
        ("llama3.2:3b", "v1", 11.44, 871.0),
        ("gemma3:1b", "v2-mentor", 11.20, 402.0),
        ("gemma3:1b", "v1", 11.02, 371.0),
        ("qwen2.5:0.5b", "v3-few-shot", 10.40, 188.0),
        ("qwen2.5:0.5b", "v2-mentor", 9.95, 201.0),
        ("qwen2.5:0.5b", "v1", 9.71, 175.0),
        ("qwen2.5:1.5b", "v1", 10.77, 398.0),
    ];
    let mut rows: Vec<Row> = (1..)
        .zip(figures)
        .map(|(rank, (model, prompt, mean, latency_ms))| {
            row(rank, (model, prompt), mean, latency_ms)
        })
        .collect();
    let incumbent = against_last(
        &mut rows,
        &[0.008, 0.094, 0.141, 0.2, 0.33, 0.47, 0.71, 0.86],
    );
    rows.sort_by(|a, b| b.composite.mean.total_cmp(&a.composite.mean));
    for (rank, row) in (1..).zip(&mut rows) {
        row.rank = rank;
    }
    let best = pair("qwen2.5:1.5b", "v3-few-shot");
    Leaderboard {
        decision: Some(Decision {
            reason: format!(
                "{best} beats the incumbent by +1.98 [1.04, 2.92], one-sided p = .008 over 11 challengers."
            ),
            winner: Some(best),
            scenarios_needed: None,
            champion_holds: false,
            corrected_diff: None,
        }),
        variance: Some(shares()),
        ..board(rows, incumbent)
    }
}

/// Six pairs that the data cannot tell apart, with cells pending and failed.
pub fn no_winner() -> Leaderboard {
    let mut rows = vec![
        row(1, ("gemma3:1b", "v2-mentor"), 11.18, 402.0),
        row(2, ("qwen2.5:1.5b", "v2-mentor"), 11.02, 431.0),
        row(3, ("gemma3:1b", "v1"), 10.95, 371.0),
        row(4, ("qwen2.5:1.5b", "v1"), 10.77, 398.0),
    ];
    let incumbent = against_last(&mut rows, &[0.31, 0.55, 0.78]);
    let mut it = board(rows, incumbent);
    it.decision = Some(Decision {
        winner: None,
        reason:
            "No winner yet: the best challenger, gemma3:1b × v2-mentor, is +0.41 [-0.53, 1.35]. \
                 About 14 more scenarios would show a difference of 0.5 with 80 % power."
                .to_owned(),
        scenarios_needed: Some(22),
        champion_holds: false,
        corrected_diff: None,
    });
    it.variance = Some(Variance {
        model: 0.02,
        prompt: 0.01,
        interaction: 0.0,
        scenario: 0.5,
        by_scenario: 0.12,
        noise: Some(0.35),
    });
    it.coverage = Coverage {
        cells: 32,
        judged: 27,
        pending: 3,
        failed: 2,
    };
    it.warnings = vec![
        "2 cells failed and are missing here: run the same collect again".to_owned(),
        "5 cells of the grid are without verdicts: pairs are compared on the scenarios that both have".to_owned(),
    ];
    it
}

/// Collected, but nothing is judged.
pub fn nothing_judged() -> Leaderboard {
    let mut it = board(Vec::new(), None);
    it.coverage = Coverage {
        cells: 96,
        judged: 0,
        pending: 96,
        failed: 0,
    };
    it.decision = Some(Decision {
        winner: None,
        reason: "No winner yet: nothing is judged.".to_owned(),
        scenarios_needed: None,
        champion_holds: false,
        corrected_diff: None,
    });
    it
}

/// Not even collected.
pub fn nothing_collected() -> Leaderboard {
    let mut it = nothing_judged();
    it.coverage = Coverage::default();
    it.rubric = None;
    it.composite_range = None;
    it.split = "feedback".into();
    it
}

pub fn one_pair() -> Leaderboard {
    let mut rows = vec![row(1, ("qwen2.5:0.5b", "v1"), 10.2, 188.0)];
    let incumbent = against_last(&mut rows, &[]);
    rows[0].p_best = None;
    let mut it = board(rows, incumbent);
    it.decision = Some(Decision {
        winner: None,
        reason: "No winner yet: qwen2.5:0.5b × v1 is alone; collect another pair to compare."
            .to_owned(),
        scenarios_needed: None,
        champion_holds: false,
        corrected_diff: None,
    });
    it
}

/// Twenty-four pairs with very long names, some of them wide.
pub fn long_names() -> Leaderboard {
    let mut rows = Vec::new();
    for model in 0..8_u32 {
        for prompt in 0..3_u32 {
            let name = match model {
                0 => "日本語の大きな言語モデル、指示に従うように調整済み:4bit".to_owned(),
                _ => format!(
                    "hf.co/some-organisation/Llama-3.2-{model}B-Instruct-abliterated-GGUF:Q4_K_M"
                ),
            };
            let version = [
                "v1",
                "v2-mentor-with-a-kind-voice",
                "v3-few-shot-examples-from-the-field@3fa2c1",
            ];
            let rank = model * 3 + prompt + 1;
            let mean = 13.4 - 0.17 * f64::from(rank);
            let latency_ms = 180.0 + 97.0 * f64::from((rank * 7) % 24);
            rows.push(row(
                rank,
                (&name, version[prompt as usize]),
                mean,
                latency_ms,
            ));
        }
    }
    let incumbent = against_last(&mut rows, &[0.03, 0.2]);
    let winner = rows[0].pair();
    Leaderboard {
        decision: Some(Decision {
            reason: format!(
                "{winner} beats the incumbent by +3.91 [2.97, 4.85], one-sided p = .030 over 23 challengers."
            ),
            winner: Some(winner),
            scenarios_needed: None,
            champion_holds: false,
            corrected_diff: None,
        }),
        variance: Some(shares()),
        ..board(rows, incumbent)
    }
}

/// One scenario: means without any uncertainty. The judge was automatic.
pub fn one_scenario() -> Leaderboard {
    let mut it = no_winner();
    for row in &mut it.rows {
        (row.scenarios, row.candidates) = (1, 5);
        (row.composite.se, row.composite.ci95, row.p_best) = (None, None, None);
        if let Some(versus) = &mut row.vs_incumbent {
            (versus.ci95, versus.p, versus.p_adjusted) = (None, None, None);
        }
    }
    it.tier = BoardTier::Auto;
    it.variance = None;
    it.warnings.clear();
    it.coverage = Coverage {
        cells: 4,
        judged: 4,
        pending: 0,
        failed: 0,
    };
    it.decision = Some(Decision {
        winner: None,
        reason: "No winner yet: 1 scenario cannot carry a test, because even a clean sweep has p = 1/2^1; \
                 5 are needed."
            .to_owned(),
        scenarios_needed: Some(5),
        champion_holds: false,
        corrected_diff: None,
    });
    it
}

/// Figures that are not numbers, which no reader should meet.
pub fn not_numbers() -> Leaderboard {
    let mut it = winner();
    for row in &mut it.rows {
        row.composite = Estimate {
            mean: f64::NAN,
            se: Some(f64::NAN),
            ci95: Some([f64::NAN, f64::INFINITY]),
        };
        row.vs_incumbent = Some(Versus {
            diff: f64::NAN,
            ci95: Some([f64::NAN; 2]),
            lower95: Some(f64::NAN),
            scenarios: 8,
            p: Some(f64::NAN),
            p_adjusted: Some(f64::NAN),
            judged_apart: None,
        });
        row.criteria.values_mut().for_each(|it| *it = f64::NAN);
        row.flags.values_mut().for_each(|it| *it = f64::NAN);
        (row.p_best, row.latency_ms, row.tokens_per_s) =
            (Some(f64::NAN), Some(f64::NAN), Some(f64::INFINITY));
    }
    it.variance = Some(Variance {
        model: f64::NAN,
        prompt: f64::NAN,
        interaction: f64::NAN,
        scenario: f64::NAN,
        by_scenario: f64::NAN,
        noise: Some(f64::NAN),
    });
    it.pareto = Pareto::of(&it.rows);
    it.composite_range = Some([f64::NAN, f64::NAN]);
    it
}

/// Malicious strings.
pub const ATTACKS: [&str; 8] = [
    "<script>alert(1)</script>",
    "\"quoted\" 'names' <b>",
    "]]><svg onload=x>",
    "a|b`c`|**d** [e](http://f) ![g](h)",
    "\x1b[31mred\x1b[0m\x07\u{9b}2J",
    "two\nlines\r\n\ttab",
    "right\u{202E}tfel\u{2066}x",
    "=HYPERLINK(\"http://x\",\"y\")",
];

/// Every string of the board is an attack.
pub fn hostile() -> Leaderboard {
    let mut it = winner();
    it.experiment = ATTACKS.join(" ");
    it.split = ATTACKS[0].into();
    it.rubric = Some(RubricRef {
        id: ATTACKS[2].to_owned(),
        sha256: ATTACKS[0].to_owned(),
    });
    it.warnings = ATTACKS.map(str::to_owned).to_vec();
    for (row, attack) in it.rows.iter_mut().zip(ATTACKS.iter().cycle()) {
        row.model = format!("{attack}{}", row.rank);
        row.prompt = (*attack).into();
        row.criteria = Scores::from(ATTACKS.map(|attack| (attack.to_owned(), 3.0)));
        row.flags = Scores::from(ATTACKS.map(|attack| (attack.to_owned(), 0.5)));
    }
    it.pareto = Pareto::of(&it.rows);
    it.incumbent = it.rows.last().map(Row::pair);
    let winner = it.rows[0].pair();
    it.decision = Some(Decision {
        reason: format!("{winner} beats {}", ATTACKS.join(" ")),
        winner: Some(winner),
        scenarios_needed: None,
        champion_holds: false,
        corrected_diff: None,
    });
    it
}

/// Halving dropped pairs early, latency was not measured, and cells have one candidate.
pub fn uneven() -> Leaderboard {
    let mut it = no_winner();
    for (row, scenarios) in it.rows.iter_mut().zip([24, 24, 6, 12]) {
        (row.scenarios, row.candidates) = (scenarios, scenarios);
        row.latency_ms = Some(0.0);
        row.tokens_per_s = None;
    }
    it.pareto = Pareto::of(&it.rows);
    it.adaptive = true;
    it.variance = Some(Variance {
        by_scenario: 0.47,
        noise: None,
        ..it.variance.unwrap_or_else(shares)
    });
    it.warnings = vec!["collected adaptively".to_owned()];
    it
}

/// All of them, by name.
pub fn all() -> Vec<(&'static str, Leaderboard)> {
    vec![
        ("winner", winner()),
        ("no_winner", no_winner()),
        ("nothing_judged", nothing_judged()),
        ("nothing_collected", nothing_collected()),
        ("one_pair", one_pair()),
        ("long_names", long_names()),
        ("one_scenario", one_scenario()),
        ("not_numbers", not_numbers()),
        ("hostile", hostile()),
        ("uneven", uneven()),
    ]
}
