//! `assize optimise`: the prompt loop with scripted models, judges and reflectors. A test binary of its own,
//! because a loop uses every other part of the product.

mod agent;
mod agent_tools;
mod budgets;
mod fixture;
mod interrupted;
mod litellm;
mod looks;
mod planted;
mod preflight;
mod recovery;
mod screens;
mod served;
mod tracked_run;
mod whole_loop;
