//! A study as CSV: one record for each assumption, policy and persona.

use assize_policy::study::Study;

use crate::csv::{number, text};

const HEADER: &str = "variant,policy,persona,family,held_out,steps,seeds,expected_reward,realised_reward,regret,best_share";

/// A header and the records, in full precision.
pub fn render(study: &Study) -> String {
    let mut lines = vec![HEADER.to_owned()];
    for simulation in &study.simulations {
        for entrant in &simulation.entrants {
            for persona in &entrant.personas {
                let fields = [
                    text(simulation.variant.name()),
                    text(&entrant.name),
                    text(&persona.persona),
                    text(&persona.family),
                    persona.is_held_out.to_string(),
                    simulation.steps.to_string(),
                    simulation.seeds.to_string(),
                    number(Some(persona.expected_reward)),
                    number(Some(persona.realised_reward)),
                    number(Some(persona.regret)),
                    number(Some(persona.best_share)),
                ];
                lines.push(fields.join(","));
            }
        }
    }
    lines.join("\r\n") + "\r\n"
}
