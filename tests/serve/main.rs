//! `assize serve`: its HTTP, the bench API and its jobs, and the web panel.

mod airflow_engine;
mod bench_api;
mod champion;
mod http;
mod job_requests;
mod jobs_on_hosts;
mod openapi;
mod panel_board;
mod panel_browser;
mod panel_forms;
mod policies;
mod policy_rollout;
mod seal;
mod simulation_jobs;
