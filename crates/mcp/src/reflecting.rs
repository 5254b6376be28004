//! What the tools for reflectors do: hand out the open packet of a prompt loop, and take its children.

use assize_domain::hash::hex;
use assize_pipeline::PipelineError;
use assize_pipeline::optimise::packets::{self, OpenList, OpenPacket, PacketAnswer, Taken};
use assize_pipeline::optimise::search_experiment;
use assize_store::state::State;

use crate::agent_session::{AgentSession, Answer, Client, reflector_name};
use crate::wire::{ChildrenOut, NextPacket, PacketOut, SubmitChildren};

impl AgentSession {
    /// The packet that waits for an agent. A judge who sits must not see which prompts are compared.
    pub fn next_packet(&mut self, request: &NextPacket, client: &Client) -> Answer<PacketOut> {
        let state = (self.config.open_state)()?;
        let OpenPacket { experiment, packet } = choose(&state, &request.experiment)?;
        self.refuse_while_sitting(
            [experiment.as_str(), &search_experiment(&experiment)],
            client,
        )?;
        let nonce = (self.config.entropy)();
        let nonce = nonce.map_err(|error| format!("no random numbers can be had: {error}"))?;
        Ok(PacketOut {
            text: packet.to_text(&hex(&nonce[..8])),
            experiment,
            packet: packet.id,
            round: packet.round,
            parent: packet.parent,
            children: packet.children,
        })
    }

    pub fn submit_children(
        &mut self,
        request: &SubmitChildren,
        client: &Client,
    ) -> Answer<ChildrenOut> {
        let state = (self.config.open_state)()?;
        let experiment = request.experiment.as_str();
        self.refuse_while_sitting([experiment, &search_experiment(experiment)], client)?;
        let reflector = reflector_name(&self.judge(client).kind);
        let taken = packets::submit(
            &state,
            &PacketAnswer {
                experiment,
                packet: &request.packet,
                children: &request.children,
                reflector: &reflector,
                now_ms: (self.config.clock)().ms,
            },
        );
        let taken = taken.map_err(|error| error.to_string())?;
        self.wrote_for(experiment);
        Ok(ChildrenOut {
            experiment: experiment.to_owned(),
            packet: request.packet.clone(),
            children: request.children.len() as u64,
            unchanged: taken == Taken::Unchanged,
            next: format!("assize optimise step --experiment {experiment}"),
        })
    }
}

/// The packet of the experiment that was named, or the only one.
fn choose(state: &State, experiment: &str) -> Answer<OpenPacket> {
    let failed = |error: PipelineError| error.to_string();
    if !experiment.is_empty()
        && let Some(packet) = packets::open_one(state, experiment).map_err(failed)?
    {
        return Ok(packet);
    }
    let OpenList { open, unreadable } = packets::open_list(state).map_err(failed)?;
    let names: Vec<String> = open.iter().map(|it| it.experiment.clone()).collect();
    let unreadable: Vec<String> = unreadable
        .iter()
        .map(|(experiment, error)| format!(". The loop of '{experiment}' cannot be read: {error}"))
        .collect();
    let unreadable = unreadable.concat();
    if !experiment.is_empty() {
        let others = match names.as_slice() {
            [] => String::new(),
            names => format!("; packets wait in {}", names.join(", ")),
        };
        return Err(format!(
            "no packet of '{experiment}' waits for an agent{others}. `assize optimise status --experiment \
             {experiment}` says what its loop waits for{unreadable}"
        ));
    }
    let mut asked = open.into_iter();
    match (asked.next(), names.len()) {
        (Some(only), 1) => Ok(only),
        (None, _) => Err(format!(
            "no packet waits for an agent: a loop that was started with --reflector agent asks for children when \
             `assize optimise step` comes to its next round{unreadable}"
        )),
        (Some(_), _) => Err(format!(
            "packets wait in {}: name the experiment{unreadable}",
            names.join(", ")
        )),
    }
}
