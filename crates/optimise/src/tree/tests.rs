use assize_stats::rng::SplitMix64;
use assize_stats::simulate::seed_of;
use proptest::prelude::*;

use super::*;
use crate::event::{
    Confirming, Judged, Promoted, Rejected, Rejection, Returned, Screened, SeedRaced, Stopped,
    Submitted,
};
use crate::next::Next;
use crate::packet::TaskTexts;
use crate::packet::tests::cell;
use crate::reply::Proposal;

/// Answers every request of a loop. An answer follows from the seed and the request alone, as the
/// stored cells and verdicts of a real loop do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Player {
    pub seed: u64,
    /// The chance that a reflector returns nothing, and that a screen rejects a child.
    pub trouble: f64,
    /// The mean effect of a child.
    pub effect: f64,
    /// The chance that the gate refuses.
    pub refusal: f64,
}

impl Player {
    fn chance(self, key: &str) -> f64 {
        let hash = assize_domain::hash::sha256(key.as_bytes());
        let word = hash[..8]
            .iter()
            .fold(0, |word, byte| (word << 8) | u64::from(*byte));
        SplitMix64::new(seed_of(self.seed, word)).next_f64()
    }

    fn score(self, node: &str, scenario: &str) -> CellScore {
        let depth = if node == SEED { 0.0 } else { self.effect };
        let noise = self.chance(&format!("{node} {scenario}"));
        CellScore {
            node: node.to_owned(),
            model: "m".to_owned(),
            scenario: scenario.to_owned(),
            mean: 8.0 + depth + 4.0 * noise,
            candidates: 2,
        }
    }

    fn returned(self, packet: &str, asked: u32) -> Event {
        let is_silent = self.chance(packet) < self.trouble;
        let children = (1..=asked).map(|number| Proposal {
            hypothesis: format!("idea {number} of {packet}"),
            kind: Kind::Edit,
            system: None,
            template: format!("{packet} {number} {{{{ persona }}}}"),
        });
        Event::Returned(Returned {
            packet: packet.to_owned(),
            reflector: "script".to_owned(),
            children: if is_silent {
                Vec::new()
            } else {
                children.collect()
            },
            problem: is_silent.then(|| "no answer".to_owned()),
            cost_usd: 0.01,
        })
    }

    fn screened(self, child: String) -> Event {
        let is_bad = self.chance(&format!("screen {child}")) < self.trouble;
        Event::Screened(Screened {
            rejected: is_bad.then(|| Rejection {
                screen: "length".to_owned(),
                reason: "too long".to_owned(),
            }),
            child,
            cost_usd: 0.0,
        })
    }

    /// The event that follows, or `None` at the end.
    pub(crate) fn answer(self, tree: &Tree, next: Next) -> Option<Event> {
        let refuses = |key: &str| self.chance(key) < self.refusal;
        let rejected = || {
            Event::Rejected(Rejected {
                reason: "the gate failed".to_owned(),
                expert_verdicts: 80,
                ..Rejected::default()
            })
        };
        Some(match next {
            Next::RaceSeed { scenarios } => Event::SeedRaced(SeedRaced {
                auto_verdicts: 2 * u32::try_from(scenarios.len()).ok()?,
                scores: scenarios.iter().map(|it| self.score(SEED, it)).collect(),
                cost_usd: 0.0,
            }),
            Next::Reflect { children, .. } => {
                let cells = vec![cell("a", 3.0, "x"), cell("b", 9.0, "y")];
                tree.packet(children, cells, &TaskTexts::default())
            }
            Next::AwaitReflector { packet } => {
                self.returned(&packet, tree.packets.last()?.children)
            }
            Next::Screen { child } => self.screened(child),
            Next::Race(stage) => {
                let cells = stage
                    .children
                    .iter()
                    .flat_map(|child| stage.scenarios.iter().map(move |it| (child, it)));
                let scores: Vec<_> = cells.map(|(node, it)| self.score(node, it)).collect();
                let verdicts = 2 * u32::try_from(scores.len()).ok()?;
                tree.raced(&stage, scores, verdicts, 0.02)
            }
            Next::EndRound => tree.round_ended(),
            Next::EndSearch(end) => end.into(),
            Next::Nominate => tree.nomination(),
            Next::CollectSelection => Event::Submitted(Submitted {
                auto_verdicts: 80,
                cost_usd: 0.0,
            }),
            Next::AwaitJudge if refuses("selection") => rejected(),
            Next::AwaitJudge => Event::Judged(Judged {
                expert_verdicts: 80,
                ..Judged::default()
            }),
            Next::CollectConfirmation => Event::Confirming(Confirming::default()),
            Next::AwaitConfirmation if refuses("confirmation") => rejected(),
            Next::AwaitConfirmation => Event::Promoted(Promoted {
                promotion: 1,
                expert_verdicts: 80,
                gain: Some(1.5),
                gate: None,
            }),
            Next::Finished => return None,
        })
    }

    /// Plays to the end from where the log is.
    pub(crate) fn play(self, log: &mut Vec<Event>) -> Tree {
        let mut tree = Tree::fold(log.iter()).expect("legal").expect("started");
        while let Some(event) = self.answer(&tree, tree.next(0.0)) {
            tree.apply(&event).expect("legal");
            log.push(event);
            assert!(log.len() < 500, "the loop does not end");
        }
        tree
    }
}

pub(crate) fn settings() -> LoopSettings {
    LoopSettings {
        prompt: "v1".to_owned(),
        models: vec!["m".to_owned()],
        judge: "j".to_owned(),
        ..LoopSettings::default()
    }
}

pub(crate) fn started(settings: LoopSettings) -> Event {
    let scenarios: Vec<String> = (0..8).map(|it| format!("s{it}")).collect();
    Event::Started(Box::new(Started {
        scenarios: crate::race::scenarios(&settings, &scenarios).expect("they fit"),
        settings,
        seed: Version::new("v1", None, "Help {{ persona }}."),
        incumbent: Pair {
            model: "m".to_owned(),
            prompt: "v1".to_owned(),
        },
        composite_range: (2.0, 17.0),
        setup: serde_json::Value::Null,
    }))
}

pub(crate) const STEADY: Player = Player {
    seed: 1,
    trouble: 0.0,
    effect: 0.5,
    refusal: 0.0,
};

#[test]
fn a_whole_loop_goes_through_every_state_and_promotes() {
    let mut log = vec![started(settings())];
    let tree = STEADY.play(&mut log);
    assert_eq!(tree.state(), State::Promoted);
    assert_eq!(tree.used.rounds, 5);
    assert_eq!(tree.used.children, 20);
    assert_eq!(tree.used.auto_verdicts, 216 + 80);
    assert_eq!(tree.used.expert_verdicts, 160);
    assert_eq!(tree.gain, Some(1.5));
    let seen: Vec<State> = (1..=log.len())
        .map(|it| {
            let tree = Tree::fold(&log[..it]).expect("legal").expect("started");
            tree.state()
        })
        .collect();
    for state in State::ALL {
        assert_eq!(seen.contains(&state), state != State::Rejected, "{state}");
    }
    let nominee = tree.nominee.as_ref().expect("one").child.clone();
    for node in &tree.nodes[1..] {
        let expected = if node.id == nominee {
            State::Promoted
        } else {
            State::Rejected
        };
        assert_eq!(node.state, expected, "{}", node.id);
        assert_eq!(node.reason.is_none(), node.id == nominee, "{}", node.id);
    }
    assert_eq!(tree.node("r1c1").expect("a child").version.name, "v1.r1c1");
}

#[test]
fn a_leading_child_is_the_next_parent_and_others_wait_as_possible_parents() {
    let mut log = vec![started(settings())];
    let tree = STEADY.play(&mut log);
    for round in &tree.rounds {
        let Some(leader) = &round.leader else {
            continue;
        };
        assert_eq!(round.parent, *leader);
        assert_ne!(
            tree.node(leader).expect("a child").parent.as_ref(),
            Some(leader)
        );
    }
    assert!(tree.rounds.iter().any(|it| it.leader.is_some()));
}

#[test]
fn the_loop_waits_for_the_reflector_the_judge_and_the_confirmation() {
    let mut log = vec![started(settings())];
    STEADY.play(&mut log);
    for (number, event) in log.iter().enumerate() {
        let tree = Tree::fold(&log[..=number])
            .expect("legal")
            .expect("started");
        let expected = match event {
            Event::Reflecting(_) => Some(WaitingFor::Reflector),
            Event::Submitted(_) => Some(WaitingFor::Judge),
            Event::Confirming(_) => Some(WaitingFor::Confirmation),
            _ => None,
        };
        assert_eq!(tree.waiting_for(), expected, "{}", event.name());
        assert_eq!(
            tree.open_packet().is_some(),
            expected == Some(WaitingFor::Reflector)
        );
    }
}

#[test]
fn without_a_child_ahead_of_the_seed_nothing_is_nominated() {
    let worse = Player {
        effect: -9.0,
        ..STEADY
    };
    let mut log = vec![started(settings())];
    let tree = worse.play(&mut log);
    assert_eq!(tree.state(), State::Rejected);
    assert_eq!(tree.used.expert_verdicts, 0);
    assert_eq!(
        tree.search_end.as_ref().map(|it| it.0),
        Some(SearchEnd::StaleRounds)
    );
    let reason = tree.reason.expect("why");
    assert!(
        reason.starts_with("none of 12 children is above the seed"),
        "{reason}"
    );
    assert!(
        reason.contains("3 rounds in a row had no leader"),
        "{reason}"
    );
}

#[test]
fn every_limit_ends_the_search_with_its_reason() {
    let check = |settings: LoopSettings, player: Player, hours: f64, expected: SearchEnd| {
        let mut log = vec![started(settings)];
        let mut tree = Tree::fold(&log).expect("legal").expect("started");
        while let Some(event) = player.answer(&tree, tree.next(hours)) {
            tree.apply(&event).expect("legal");
            log.push(event);
        }
        assert_eq!(tree.search_end.map(|it| it.0), Some(expected));
    };
    check(settings(), STEADY, 0.0, SearchEnd::Rounds);
    let with = |change: fn(&mut LoopSettings)| {
        let mut settings = settings();
        change(&mut settings);
        settings
    };
    check(
        with(|it| it.max_children = Some(3)),
        STEADY,
        0.0,
        SearchEnd::Children,
    );
    check(
        with(|it| it.max_cost_usd = Some(0.02)),
        STEADY,
        0.0,
        SearchEnd::Cost,
    );
    check(
        with(|it| it.max_hours = Some(2.0)),
        STEADY,
        2.5,
        SearchEnd::Hours,
    );
    let better = Player {
        effect: 8.0,
        ..STEADY
    };
    check(settings(), better, 0.0, SearchEnd::Ceiling);
    let worse = Player {
        effect: -9.0,
        ..STEADY
    };
    check(
        with(|it| it.stale_rounds = 1),
        worse,
        0.0,
        SearchEnd::StaleRounds,
    );
}

/// Plays with stages that need more verdicts than planned, for example because some were invalid.
fn with_surplus(surplus: u32) -> (Vec<u32>, Tree) {
    let mut tree = Tree::fold(&[started(settings())])
        .expect("legal")
        .expect("started");
    let mut asked = Vec::new();
    while let Some(mut event) = STEADY.answer(&tree, tree.next(0.0)) {
        if let Event::Raced(it) = &mut event {
            it.auto_verdicts += surplus;
        }
        if let Event::Reflecting(it) = &event {
            asked.push(it.packet.children);
        }
        tree.apply(&event).expect("legal");
    }
    (asked, tree)
}

#[test]
fn no_round_is_started_that_exceeds_the_verdicts() {
    let (asked, tree) = with_surplus(9);
    assert_eq!(asked, [4, 4, 4, 4, 1]);
    assert_eq!(tree.search_end.map(|it| it.0), Some(SearchEnd::Rounds));
    let (asked, tree) = with_surplus(13);
    assert_eq!(asked, [4, 4, 4, 4]);
    assert_eq!(tree.search_end.map(|it| it.0), Some(SearchEnd::Verdicts));
}

#[test]
fn illegal_events_name_their_number_and_change_nothing() {
    let mut log = vec![started(settings())];
    STEADY.play(&mut log);
    for kept in 1..log.len() {
        let mut tree = Tree::fold(&log[..kept]).expect("legal").expect("started");
        let before = tree.clone();
        for wrong in &log {
            let is_next = *wrong == log[kept];
            let is_draft = matches!(
                (&log[kept], wrong),
                (Event::Screened(_), Event::Screened(_))
            );
            // The search may end at any time, and a task without a confirmation split promotes at once.
            let is_early = match wrong {
                Event::SearchEnded(_) => before.round > 0 || before.used.auto_verdicts > 0,
                Event::Promoted(_) => before.state() == State::Judged,
                _ => false,
            };
            if is_next || is_draft || is_early {
                continue;
            }
            let Err(error) = tree.apply(wrong) else {
                panic!("{} after {}", wrong.name(), log[kept - 1].name());
            };
            let start = format!("event {} of the loop's log ({})", kept + 1, wrong.name());
            assert!(error.to_string().starts_with(&start), "{error}");
            assert_eq!(tree, before);
        }
    }
    assert!(Tree::fold(&log[1..]).is_err());
    assert_eq!(Tree::fold(&[]), Ok(None));
}

#[test]
fn a_loop_can_be_stopped_until_it_has_ended() {
    let mut log = vec![started(settings())];
    STEADY.play(&mut log);
    let stop = Event::Stopped(Stopped {
        reason: "by ann".to_owned(),
    });
    for kept in 1..log.len() {
        let mut tree = Tree::fold(&log[..kept]).expect("legal").expect("started");
        tree.apply(&stop).expect("running");
        assert_eq!(tree.state(), State::Rejected);
        assert_eq!(tree.reason.as_deref(), Some("stopped: by ann"));
        assert_eq!(tree.next(0.0), Next::Finished);
        let mut children = tree.nodes.iter().skip(1);
        assert!(children.all(|it| it.state == State::Rejected));
    }
    let mut tree = Tree::fold(&log).expect("legal").expect("started");
    assert!(tree.apply(&stop).is_err());
}

proptest! {
    #[test]
    fn a_log_cut_anywhere_goes_on_to_the_same_tree(
        seed in any::<u64>(),
        trouble in 0.0..0.6_f64,
        effect in -2.0..3.0_f64,
        refusal in 0.0..1.0_f64,
        rounds in 1..5_u32,
        children in 1..=4_u32,
        cut in 0.0..1.0_f64,
    ) {
        let player = Player { seed, trouble, effect, refusal };
        let settings = LoopSettings { rounds, children, seed, ..settings() };
        let mut log = vec![started(settings)];
        let tree = player.play(&mut log);
        prop_assert!(tree.is_finished());
        prop_assert!(tree.used.auto_verdicts <= 300 + 80);
        for kept in 0..=log.len() {
            prop_assert!(Tree::fold(&log[..kept]).is_ok());
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in the log")]
        let kept = 1 + (cut * (log.len() - 1) as f64) as usize;
        // What survives a kill is text.
        let read = |it: &Event| Event::parse(1, &it.to_json()).expect("readable");
        let mut again: Vec<Event> = log[..kept].iter().map(read).collect();
        prop_assert_eq!(player.play(&mut again), tree);
        prop_assert_eq!(again, log);
    }
}
