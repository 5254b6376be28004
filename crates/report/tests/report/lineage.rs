use assize_domain::leaderboard::Pair;
use assize_optimise::event::Nominated;
use assize_optimise::lineage::{Lineage, LineageVersion};
use assize_optimise::tree::{State, Used};
use assize_optimise::{FeedbackEstimate, Kind, LoopSettings, Version};
use assize_report::lineage::{branches, chart, conclusion, html, markdown, terminal};

fn version(id: &str, parent: Option<&str>, hypothesis: &str, mean: Option<f64>) -> LineageVersion {
    LineageVersion {
        id: id.to_owned(),
        parent: parent.map(str::to_owned),
        round: u32::from(parent.is_some()),
        hypothesis: hypothesis.to_owned(),
        kind: Kind::Edit,
        reflector: parent.map(|_| "agent".to_owned()),
        state: State::Rejected,
        reason: None,
        feedback: mean.map(|mean| FeedbackEstimate {
            mean,
            ci95: Some([mean - 0.75, mean + 0.75]),
            scenarios: 8,
        }),
        lead: None,
        version: Version {
            name: format!("v1.{id}"),
            system: None,
            body: format!("Advise on {{{{ topic }}}}.\nVersion {id}."),
            sha256: "0".repeat(64),
        },
        scores: Vec::new(),
    }
}

/// Two rounds; the second one's first child was promoted.
fn promoted() -> Lineage {
    let mut seed = version("seed", None, "", Some(10.2));
    "v1".clone_into(&mut seed.version.name);
    let mut dropped = version("r1c1", Some("seed"), "Ask for one example.", Some(9.8));
    dropped.reason = Some("behind r1c2 after the first 4 scenarios".to_owned());
    dropped.lead = Some(-0.4);
    let mut leader = version(
        "r1c2",
        Some("seed"),
        "Name the reader's next step in the first sentence, so that nobody has to search for it.",
        Some(11.5),
    );
    leader.lead = Some(1.3);
    leader.reason = Some("r2c1 was nominated".to_owned());
    let mut nominee = version("r2c1", Some("r1c2"), "Forbid filler words.", Some(12.1));
    nominee.lead = Some(0.6);
    nominee.state = State::Promoted;
    let mut screened = version("r2c2", Some("r1c2"), "Copy the best answer.", None);
    screened.reason =
        Some("leak: shares the 5-gram “take the bus at nine” with a scenario".to_owned());
    Lineage {
        experiment: "tip-loop".to_owned(),
        settings: LoopSettings {
            prompt: "v1".to_owned(),
            max_cost_usd: Some(2.0),
            ..LoopSettings::default()
        },
        incumbent: "qwen2.5:1.5b × v1".to_owned(),
        scenarios: Vec::new(),
        state: State::Promoted,
        reason: None,
        used: Used {
            rounds: 2,
            children: 4,
            auto_verdicts: 96,
            expert_verdicts: 64,
            cost_usd: 0.31,
        },
        versions: vec![seed, dropped, leader, nominee, screened],
        rounds: Vec::new(),
        search_end: None,
        nominee: Some(Nominated {
            child: "r2c1".to_owned(),
            pair: Pair {
                model: "qwen2.5:1.5b".to_owned(),
                prompt: "v1.r2c1".to_owned(),
            },
            lead: 1.9,
            level: 11.8,
            registered_version: None,
        }),
        gain: Some(1.42),
    }
}

#[test]
fn every_format_tells_the_same_story() {
    let lineage = promoted();
    insta::assert_snapshot!("lineage_terminal", terminal(&lineage, 80));
    insta::assert_snapshot!("lineage_markdown", markdown::render(&lineage));
    insta::assert_snapshot!("lineage_svg", chart(&lineage).expect("a chart"));
    insta::assert_snapshot!(
        "lineage_html",
        html::render(&lineage, "2026-01-01T00:00:00Z")
    );
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    let mut lineage = promoted();
    for depth in 3..30 {
        let parent = format!("r{}c1", depth - 1);
        let hypothesis = "A long hypothesis about words, ".repeat(6);
        let mut deep = version(
            &format!("r{depth}c1"),
            Some(&parent),
            &hypothesis,
            Some(12.0),
        );
        deep.reason = Some("x".repeat(300));
        lineage.versions.push(deep);
    }
    assert_eq!(branches(&lineage).len(), lineage.versions.len());
    for columns in [80, 100] {
        for line in terminal(&lineage, columns).lines() {
            assert!(line.chars().count() <= columns, "{columns}: {line}");
        }
    }
}

#[test]
fn model_text_is_escaped_everywhere() {
    let mut lineage = promoted();
    let hostile = "<script>alert(1)</script>|`x`\u{1b}[31m\u{202e}";
    lineage.versions[1].hypothesis = hostile.to_owned();
    lineage.versions[1].reason = Some(hostile.to_owned());
    lineage.versions[1].version.body = hostile.to_owned();
    lineage.incumbent = hostile.to_owned();
    let texts = [
        terminal(&lineage, 80),
        markdown::render(&lineage),
        chart(&lineage).expect("a chart"),
        html::render(&lineage, "now"),
    ];
    for text in &texts {
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text}");
    }
    for text in &texts[1..] {
        assert!(!text.contains("<script>"), "{text}");
    }
    assert!(texts[1].contains("\\|\\`x\\`"), "{}", texts[1]);
}

#[test]
fn a_loop_that_is_under_way_says_where_it_stands() {
    let mut lineage = promoted();
    lineage.state = State::PendingJudgement;
    lineage.gain = None;
    assert_eq!(
        conclusion(&lineage),
        "r2c1 is nominated: pending judgement."
    );
    lineage.state = State::Rejected;
    lineage.reason = Some("the gate refused it: p = .31".to_owned());
    assert_eq!(
        conclusion(&lineage),
        "r2c1 was not promoted. The gate refused it: p = .31."
    );
    lineage.nominee = None;
    lineage.reason = Some("by request".to_owned());
    assert_eq!(conclusion(&lineage), "Nothing was nominated. By request.");
    lineage.state = State::Reflecting;
    assert_eq!(conclusion(&lineage), "Round 2 of 5: reflecting.");
}
