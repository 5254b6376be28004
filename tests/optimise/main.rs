//! `assize optimise`: the prompt loop with scripted models, judges and reflectors. A test binary of its own,
//! because a loop uses every other part of the product.

mod agent;
mod budgets;
mod fixture;
mod interrupted;
mod litellm;
mod looks;
mod planted;
mod preflight;
mod recovery;
mod screens;
mod whole_loop;
