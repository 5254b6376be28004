//! How the wall time and the cost of a collection grow with the number of hosts, by simulation of the
//! real scheduler: `cargo run --release -p assize-schedule --example scale [SVG]`. The tables are
//! Markdown, as docs/scale.md has them; the times are drawn as SVG.

use std::error::Error;
use std::io::Write;
use std::time::Instant;

use assize_schedule::simulation::{Outcome, SimulatedHost, World, run};
use assize_schedule::{HostSetup, ModelSetup};

/// (seconds of a load, seconds of one candidate), measured as docs/scale.md says.
const MODELS: [(f64, f64); 4] = [(6.3, 1.47), (7.8, 2.18), (4.4, 1.33), (4.6, 1.74)];
const CANDIDATES: f64 = 5.0;
/// Of each model: six prompts on 160 scenarios.
const CELLS: u64 = 960;
const HOSTS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

type Anything = Result<(), Box<dyn Error>>;

/// Hosts of equal speed; or one in four is three times as slow, and one in eight is out for 10
/// minutes.
fn world(hosts: usize, is_mixed: bool, load_factor: f64) -> World {
    let host = |number: usize| {
        let slow = if is_mixed && number % 4 == 3 {
            3.0
        } else {
            1.0
        };
        let is_out = is_mixed && number % 8 == 5;
        SimulatedHost {
            setup: HostSetup {
                memory: number,
                loads: true,
            },
            load_s: MODELS.iter().map(|it| it.0 * load_factor * slow).collect(),
            cell_s: MODELS.iter().map(|it| it.1 * CANDIDATES * slow).collect(),
            outages: if is_out {
                vec![(120.0, 720.0)]
            } else {
                Vec::new()
            },
        }
    };
    let models = MODELS.iter().map(|(load_s, candidate_s)| ModelSetup {
        cells: CELLS,
        hosts: (0..hosts).collect(),
        load_s: load_s * load_factor,
        cell_s: candidate_s * CANDIDATES,
    });
    World {
        hosts: (0..hosts).map(host).collect(),
        models: models.collect(),
        slots: 1,
        unload_s: 0.1,
        jitter: 0.2,
        seed: 20_261_116,
    }
}

/// No schedule ends earlier: all hosts together need this long for the cells, one load of each model and
/// one load on each host, with outages known in advance.
fn least_end(world: &World) -> f64 {
    let work = |it: &ModelSetup| it.load_s + it.cell_s * it.cells as f64;
    let shortest_load = world
        .models
        .iter()
        .map(|it| it.load_s)
        .fold(f64::MAX, f64::min);
    let more_loads = world.hosts.len().saturating_sub(world.models.len()) as f64;
    let work = world.models.iter().map(work).sum::<f64>() + more_loads * shortest_load;
    let done = |end: f64| -> f64 {
        let host = |it: &SimulatedHost| {
            let out: f64 = it
                .outages
                .iter()
                .map(|(from, to)| (to.min(end) - from).max(0.0))
                .sum();
            (end - out) * world.models[0].cell_s / it.cell_s[0]
        };
        world.hosts.iter().map(host).sum()
    };
    let (mut low, mut high) = (0.0, work);
    while high - low > 1e-3 {
        let middle = f64::midpoint(low, high);
        if done(middle) < work {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

struct Row {
    hosts: usize,
    outcome: Outcome,
    least_s: f64,
    decision_us: f64,
}

fn rows(is_mixed: bool, load_factor: f64) -> Vec<Row> {
    let row = |hosts: &usize| {
        let world = world(*hosts, is_mixed, load_factor);
        let started = Instant::now();
        let outcome = run(&world);
        let cells: u64 = outcome.settled.iter().sum();
        Row {
            hosts: *hosts,
            least_s: least_end(&world),
            decision_us: started.elapsed().as_secs_f64() * 1e6 / cells.max(1) as f64,
            outcome,
        }
    };
    HOSTS.iter().map(row).collect()
}

fn table(out: &mut impl Write, rows: &[Row]) -> Anything {
    let columns = [
        "hosts",
        "wall time",
        "above the bound",
        "loads",
        "host hours",
        "cells/s",
    ];
    writeln!(out, "| {} | scheduler, µs per cell |", columns.join(" | "))?;
    writeln!(out, "|---|---|---|---|---|---|---|")?;
    for row in rows {
        let end = row.outcome.end_s;
        let cells: u64 = row.outcome.settled.iter().sum();
        let hours = end * row.hosts as f64 / 3600.0;
        let above = 100.0 * (end / row.least_s - 1.0);
        write!(out, "| {} | {} | {above:.1} % ", row.hosts, minutes(end))?;
        write!(out, "| {} | {hours:.2} ", row.outcome.loads.len())?;
        writeln!(
            out,
            "| {:.2} | {:.0} |",
            cells as f64 / end,
            row.decision_us
        )?;
    }
    Ok(())
}

fn minutes(seconds: f64) -> String {
    if seconds >= 3600.0 {
        format!("{:.1} h", seconds / 3600.0)
    } else {
        format!("{:.1} min", seconds / 60.0)
    }
}

fn main() -> Anything {
    let mut out = std::io::stdout().lock();
    let curves = [
        ("equal hosts", rows(false, 1.0)),
        ("slow and failing hosts", rows(true, 1.0)),
        ("loads 20 times as long", rows(false, 20.0)),
    ];
    for (title, rows) in &curves {
        writeln!(out, "\n{title}:\n")?;
        table(&mut out, rows)?;
    }
    if let Some(file) = std::env::args().nth(1) {
        std::fs::write(file, svg(&curves))?;
    }
    Ok(())
}

fn x(hosts: usize) -> f64 {
    70.0 + (hosts as f64).log2() * 85.0
}

fn y(seconds: f64) -> f64 {
    330.0 - (seconds / 60.0).log10() * 105.0
}

fn path(points: impl Iterator<Item = (usize, f64)>) -> String {
    let points = points.map(|(hosts, seconds)| format!("{:.1},{:.1}", x(hosts), y(seconds)));
    points.collect::<Vec<_>>().join(" ")
}

/// Wall time over hosts, both logarithmic, with the bound for equal hosts as a dashed line.
fn svg(curves: &[(&str, Vec<Row>)]) -> String {
    let mut svg = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 640 400\" font-family=\"sans-serif\" \
         font-size=\"12\" role=\"img\">\n<title>Wall time of a collection by the number of hosts</title>\n\
         <rect width=\"640\" height=\"400\" fill=\"#fff\"/>\n",
    );
    for hosts in HOSTS {
        let at = x(hosts);
        svg.push_str(&format!(
            "<line x1=\"{at}\" y1=\"15\" x2=\"{at}\" y2=\"330\" stroke=\"#eee\"/>"
        ));
        svg.push_str(&format!(
            "<text x=\"{at}\" y=\"348\" text-anchor=\"middle\">{hosts}</text>\n"
        ));
    }
    for minutes in [1, 10, 100, 1000] {
        let at = y(60.0 * f64::from(minutes));
        svg.push_str(&format!(
            "<line x1=\"70\" y1=\"{at}\" x2=\"600\" y2=\"{at}\" stroke=\"#ddd\"/>"
        ));
        let text = at + 4.0;
        svg.push_str(&format!(
            "<text x=\"64\" y=\"{text}\" text-anchor=\"end\">{minutes} min</text>\n"
        ));
    }
    let bound = curves[0].1.iter().map(|it| (it.hosts, it.least_s));
    let mut lines = vec![(
        "lower bound, equal hosts",
        path(bound),
        "#888\" stroke-dasharray=\"5 4",
    )];
    for ((name, rows), colour) in curves.iter().zip(["#1f5fa8", "#b3541e", "#4b7f3a"]) {
        lines.push((
            name,
            path(rows.iter().map(|it| (it.hosts, it.outcome.end_s))),
            colour,
        ));
    }
    for (number, (name, points, stroke)) in lines.iter().enumerate() {
        let at = 30 + 18 * number;
        let text = at + 4;
        svg.push_str(&format!(
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{stroke}\" stroke-width=\"2\"/>\n"
        ));
        svg.push_str(&format!(
            "<path d=\"M420 {at}h25\" stroke=\"{stroke}\" stroke-width=\"2\"/>"
        ));
        svg.push_str(&format!("<text x=\"452\" y=\"{text}\">{name}</text>\n"));
    }
    svg.push_str("<text x=\"335\" y=\"375\" text-anchor=\"middle\">hosts (3,840 cells of four models)</text>\n</svg>\n");
    svg
}
