//! What the tools for reflectors do: hand out the open packet of a prompt loop, and take its children.

use assize_domain::hash::hex;
use assize_pipeline::optimise::packets::{self, OpenPacket, PacketAnswer, Taken};
use assize_pipeline::optimise::search_experiment;

use crate::agent_session::{AgentSession, Answer, Client};
use crate::wire::{ChildrenOut, NextPacket, PacketOut, SubmitChildren};

impl AgentSession {
    /// The packet that waits for an agent. A judge who sits must not see which prompts are compared.
    pub fn next_packet(&mut self, request: &NextPacket, client: &Client) -> Answer<PacketOut> {
        let state = (self.config.open_state)()?;
        let open = packets::open_list(&state).map_err(|error| error.to_string())?;
        let OpenPacket { experiment, packet } = choose(open, &request.experiment)?;
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
        let judge = self.judge(client);
        let reflector = match judge.kind.as_str() {
            "agent" => "agent".to_owned(),
            kind => format!("agent {kind}"),
        };
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
fn choose(open: Vec<OpenPacket>, experiment: &str) -> Answer<OpenPacket> {
    let names: Vec<String> = open.iter().map(|it| it.experiment.clone()).collect();
    let mut asked = open.into_iter();
    if !experiment.is_empty() {
        return asked.find(|it| it.experiment == experiment).ok_or_else(|| {
            let others = match names.as_slice() {
                [] => String::new(),
                names => format!("; packets wait in {}", names.join(", ")),
            };
            format!(
                "no packet of '{experiment}' waits for an agent{others}. `assize optimise status --experiment \
                 {experiment}` says what its loop waits for"
            )
        });
    }
    match (asked.next(), names.len()) {
        (Some(only), 1) => Ok(only),
        (None, _) => Err(
            "no packet waits for an agent: a loop that was started with --reflector agent asks for children when \
             `assize optimise step` comes to its next round"
                .to_owned(),
        ),
        (Some(_), _) => Err(format!(
            "packets wait in {}: name the experiment",
            names.join(", ")
        )),
    }
}
