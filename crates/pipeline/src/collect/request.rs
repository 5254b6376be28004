//! What a cell asks of a model: messages, seeds and sampling.

use assize_domain::cell::candidate_seed;
use assize_domain::chat::Speaker;
use assize_domain::options::Options;
use assize_domain::prompt::Rendered;
use assize_domain::sweep::value_of;
use assize_domain::task::Task;
use assize_providers::{Candidate, Message, Request, Role, Sampling};
use serde_json::Value;

use super::CollectOptions;
use super::grid::Cell;

/// What a cell asks for.
pub(super) fn request(task: &Task, options: &CollectOptions, cell: &Cell<'_>) -> Request {
    let candidates = (0..options.values.n_tips)
        .map(|index| Candidate {
            messages: messages(&cell.rendered[index as usize % cell.rendered.len()]),
            seed: candidate_seed(options.values.seed, &cell.key, index),
        })
        .collect();
    Request {
        prompt: cell.variant.label.clone(),
        scenario: cell.scenario.id.clone(),
        candidates,
        sampling: Sampling {
            temperature: cell.variant.values.temperature,
            max_tokens: cell.variant.values.max_tokens,
            num_ctx: cell.variant.values.num_ctx,
            model_options: model_options(&cell.variant.values),
            json_schema: task.output.schema.clone(),
        },
        images: cell.images.clone(),
        tools: task.tools.clone(),
    }
}

/// The options that are sent to the model as they are.
fn model_options(values: &Options) -> Vec<(String, Value)> {
    let options = values.model_options.iter();
    options
        .filter_map(|it| it.split_once('='))
        .map(|(key, text)| (key.to_owned(), value_of(text)))
        .collect()
}

fn messages(rendered: &Rendered) -> Vec<Message> {
    let system = rendered.system.iter().map(|content| Message {
        role: Role::System,
        content: content.clone(),
    });
    let turns = rendered.turns.iter().map(|turn| Message {
        role: match turn.speaker {
            Speaker::User => Role::User,
            Speaker::Assistant => Role::Assistant,
        },
        content: turn.content.clone(),
    });
    system.chain(turns).collect()
}
