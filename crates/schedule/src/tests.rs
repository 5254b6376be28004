use super::*;

const HOST: HostSetup = HostSetup {
    memory: 0,
    loads: true,
};

fn hosts(count: usize) -> Vec<HostSetup> {
    (0..count)
        .map(|memory| HostSetup { memory, ..HOST })
        .collect()
}

fn model(cells: u64, hosts: &[usize]) -> ModelSetup {
    ModelSetup {
        cells,
        hosts: hosts.to_vec(),
        load_s: 1.0,
        cell_s: 1.0,
    }
}

/// Loads what the scheduler says; panics if it says something else.
fn load(scheduler: &mut Scheduler, host: usize, now: f64) -> usize {
    let Next::Load(model) = scheduler.next(host, now) else {
        panic!("host {host} has nothing to load: {scheduler:?}");
    };
    scheduler.loaded(host, 1.0);
    model
}

#[test]
fn one_host_takes_the_models_in_the_users_order() {
    let models = [model(2, &[0]), model(9, &[0]), model(1, &[0])];
    let mut scheduler = Scheduler::new(&hosts(1), &models, 1);
    for (expected, setup) in models.iter().enumerate() {
        assert_eq!(load(&mut scheduler, 0, 0.0), expected);
        for cell in 0..setup.cells {
            let now = cell as f64;
            assert!(scheduler.take(0, now));
            scheduler.finished(0, now, now + 1.0);
        }
        assert!(!scheduler.take(0, 9.0));
        assert!(scheduler.is_model_done(expected));
        scheduler.released(0);
    }
    assert_eq!(scheduler.next(0, 9.0), Next::Done);
}

#[test]
fn two_hosts_take_different_models() {
    let models = [model(10, &[0, 1]), model(10, &[0, 1])];
    let mut scheduler = Scheduler::new(&hosts(2), &models, 1);
    let taken = [load(&mut scheduler, 0, 0.0), load(&mut scheduler, 1, 0.0)];
    assert_ne!(taken[0], taken[1]);
}

#[test]
fn hosts_of_one_memory_work_one_after_the_other() {
    let models = [model(10, &[0, 1]), model(10, &[0, 1])];
    let mut scheduler = Scheduler::new(&[HOST, HOST], &models, 1);
    load(&mut scheduler, 0, 0.0);
    assert_eq!(scheduler.next(1, 0.0), Next::Wait);
    scheduler.released(0);
    let both = [scheduler.next(0, 0.0), scheduler.next(1, 0.0)];
    let loads = both.iter().filter(|it| matches!(it, Next::Load(_)));
    assert_eq!(loads.count(), 1, "{both:?}");
}

#[test]
fn an_idle_host_helps_one_that_falls_behind_only_if_that_ends_earlier() {
    let mut scheduler = Scheduler::new(&hosts(2), &[model(20, &[0, 1])], 1);
    scheduler.remember(1, 0, 30.0, 1.0);
    load(&mut scheduler, 0, 0.0);
    assert!(scheduler.take(0, 0.0));
    scheduler.finished(0, 0.0, 1.0);
    assert_eq!(
        scheduler.next(1, 1.0),
        Next::Wait,
        "19 s are left and a load takes 30"
    );
    assert!(scheduler.take(0, 1.0));
    scheduler.finished(0, 1.0, 31.0);
    assert_eq!(
        scheduler.next(1, 31.0),
        Next::Load(0),
        "it takes minutes now"
    );
}

#[test]
fn a_cell_that_does_not_end_counts_with_the_time_that_it_has_run() {
    let mut scheduler = Scheduler::new(&hosts(2), &[model(5, &[0, 1])], 1);
    scheduler.remember(1, 0, 30.0, 1.0);
    load(&mut scheduler, 0, 0.0);
    assert!(scheduler.take(0, 0.0));
    assert_eq!(scheduler.next(1, 1.0), Next::Wait);
    assert_eq!(scheduler.next(1, 60.0), Next::Load(0));
}

#[test]
fn the_slow_host_leaves_the_last_cells_to_the_fast_one() {
    let mut scheduler = Scheduler::new(&hosts(2), &[model(30, &[0, 1])], 1);
    scheduler.remember(0, 0, 1.0, 1.0);
    scheduler.remember(1, 0, 1.0, 10.0);
    load(&mut scheduler, 0, 0.0);
    load(&mut scheduler, 1, 0.0);
    assert!(scheduler.take(1, 0.0), "many are left");
    scheduler.settled(0, 26);
    scheduler.finished(1, 0.0, 10.0);
    assert!(
        !scheduler.take(1, 10.0),
        "three are left, and it takes 10 s for one"
    );
    assert!(scheduler.take(0, 10.0));
}

#[test]
fn a_failed_host_is_probed_at_growing_intervals_and_used_again() {
    let mut scheduler = Scheduler::new(&hosts(2), &[model(5, &[0, 1]), model(5, &[0])], 1);
    load(&mut scheduler, 0, 0.0);
    assert!(scheduler.take(0, 0.0));
    scheduler.lost(0, 0.0);
    assert!(!scheduler.take(0, 0.0), "a failing host takes nothing");
    scheduler.failed(0, 0.0);
    let mut now = 0.0;
    let mut intervals = Vec::new();
    for _ in 0..8 {
        let Next::Probe(at) = scheduler.next(0, now) else {
            panic!("{scheduler:?}");
        };
        intervals.push(at - now);
        now = at;
        scheduler.failed(0, now);
    }
    assert_eq!(intervals, [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]);
    assert!(!scheduler.is_stuck(), "the other host has work");
    assert_eq!(load(&mut scheduler, 1, now), 0);
    scheduler.recovered(0);
    assert_eq!(scheduler.next(0, now), Next::Load(1));
}

#[test]
fn cells_of_a_failed_host_go_to_another() {
    let mut scheduler = Scheduler::new(&hosts(2), &[model(2, &[0, 1])], 2);
    scheduler.remember(1, 0, 100.0, 1.0);
    load(&mut scheduler, 0, 0.0);
    assert!(scheduler.take(0, 0.0) && scheduler.take(0, 0.1));
    assert_eq!(scheduler.next(1, 0.2), Next::Wait);
    scheduler.lost(0, 0.0);
    scheduler.lost(0, 0.1);
    scheduler.failed(0, 0.3);
    assert_eq!(scheduler.next(1, 0.3), Next::Load(0));
}

#[test]
fn nothing_more_is_expected_when_every_needed_host_has_failed_often() {
    let mut scheduler = Scheduler::new(&hosts(2), &[model(1, &[0])], 1);
    for misses in 0..=MOST_MISSES {
        assert!(!scheduler.is_stuck(), "{misses}");
        scheduler.failed(0, 0.0);
    }
    assert!(scheduler.is_stuck(), "host 1 does not have the model");
    scheduler.recovered(0);
    assert!(!scheduler.is_stuck());
    for _ in 1..MOST_FAILURES {
        scheduler.failed(0, 0.0);
        let is_last = scheduler.is_stuck();
        scheduler.recovered(0);
        assert_eq!(is_last, scheduler.hosts[0].failures == MOST_FAILURES);
    }
    assert_eq!(scheduler.hosts[0].failures, MOST_FAILURES);
}

#[test]
fn a_refused_model_goes_to_other_hosts_while_there_are_any() {
    let mut scheduler = Scheduler::new(&hosts(2), &[model(1, &[0, 1])], 1);
    assert_eq!(scheduler.next(0, 0.0), Next::Load(0));
    scheduler.refused(0, 0);
    assert!(scheduler.has_host(0));
    assert_eq!(scheduler.next(0, 0.0), Next::Wait);
    assert_eq!(scheduler.next(1, 0.0), Next::Load(0));
    scheduler.refused(1, 0);
    assert!(!scheduler.has_host(0));
}

#[test]
fn a_cell_that_failed_by_itself_does_not_make_its_host_fast() {
    let mut scheduler = Scheduler::new(&hosts(2), &[model(9, &[0, 1])], 1);
    load(&mut scheduler, 0, 0.0);
    assert!(scheduler.take(0, 0.0));
    scheduler.dropped(0, 0.0);
    assert_eq!(scheduler.measured(0, 0), None);
    assert!(scheduler.has_other_host(0, 0));
    scheduler.failed(1, 0.0);
    assert!(!scheduler.has_other_host(0, 0), "it is down");
}

#[test]
fn the_plan_can_be_looked_at() {
    let scheduler = Scheduler::new(&hosts(2), &[model(10, &[0, 1]), model(10, &[1])], 1);
    let plan = scheduler.plan(0.0);
    let cells: u64 = plan.iter().map(|it| it.cells).sum();
    assert_eq!(cells, 20, "{plan:?}");
    let end = |host| {
        let own = plan.iter().filter(|it| it.host == host);
        own.map(|it| it.seconds).sum::<f64>()
    };
    assert!((end(0) - 11.0).abs() < 1.5, "{plan:?}");
    assert!((end(1) - 11.0).abs() < 1.5, "{plan:?}");
}
