//! Tests the authorization of every route for every role, from the tables of routes.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use assize_domain::job::JobKind;
use assize_domain::options::Options;
use assize_domain::role::Role;
use assize_pipeline::Now;
use assize_pipeline::policies::alarm::AlarmRule;
use assize_pipeline::promote::Thresholds;
use assize_policy::PolicyKind;
use assize_policy::gate::GateThresholds;
use assize_store::embedded::EmbeddedStore;
use assize_store::policies::Durability;
use assize_store::state::State;
use axum::body::{Body, to_bytes};
use axum::extract::ConnectInfo;
use axum::http::Request;
use tower_service::Service as _;

use super::*;
use crate::access::Access;
use crate::boards::Boards;
use crate::jobs::Jobs;
use crate::jobs::plan::{FieldProblem, Planner};
use crate::judging_sessions::JudgingSessions;
use crate::policies::Engine;
use crate::{AccessConfig, Config, EndObserver, PoliciesConfig, token_create};

/// A part of the error message for a missing right.
const LACKS_RIGHT: &str = "does not permit this";

fn clock() -> Now {
    Now {
        ms: 1_700_000_000_000,
        rfc3339: "2023-11-14T22:13:20Z".to_owned(),
    }
}

#[expect(clippy::unnecessary_wraps, reason = "the type of the real one")]
fn entropy() -> io::Result<[u8; 16]> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&NEXT.fetch_add(1, Ordering::Relaxed).to_le_bytes());
    Ok(bytes)
}

fn policies(folder: &Path) -> PoliciesConfig {
    PoliciesConfig {
        path: folder.join("policies.db"),
        active: PolicyKind::EgreedyV1,
        durability: Durability::Normal,
        cache_bytes: 1 << 20,
        settings: BTreeMap::new(),
        alarm: AlarmRule {
            bound: 0.0,
            window: 500,
            rollback: false,
        },
        gate: GateThresholds::default(),
        shadows: Vec::new(),
        now_ms: || clock().ms,
        entropy,
    }
}

fn app(folder: &Path) -> App {
    let store = EmbeddedStore::open(&folder.join("a.db"), || clock().ms, entropy).unwrap();
    let store = Arc::new(store);
    let state = Arc::new(State::open(folder).unwrap());
    let reject = |_: JobKind, _: &_| {
        Err(vec![FieldProblem {
            field: "models".to_owned(),
            message: "is empty".to_owned(),
        }])
    };
    let config = Arc::new(Config {
        program: PathBuf::from("assize"),
        state_dir: folder.to_owned(),
        locks: folder.join("locks"),
        tracking_uri: "sqlite:a.db".to_owned(),
        job_credentials: crate::JobCredentials::default(),
        task: "tip".to_owned(),
        task_folders: Vec::new(),
        no_anchors: false,
        options: Options::default(),
        thresholds: Thresholds::default(),
        access: AccessConfig {
            host_names: Vec::new(),
            open_loopback: false,
            user: "admin".to_owned(),
        },
        policies: policies(folder),
        ollama_urls: Vec::new(),
        clock,
        entropy,
        plan: Planner::new(reject),
        ended: EndObserver::new(|_| {}),
        mlflow_pages: Some(folder.to_owned()),
    });
    let jobs = Jobs::start(Arc::clone(&state), Arc::clone(&config), None).unwrap();
    let stores = crate::Stores {
        file: Arc::clone(&store),
        team: None,
    };
    let access = Access {
        config: config.access.clone(),
        clock,
        state: Arc::clone(&state),
        results: Some(Arc::clone(&store)),
        team: None,
    };
    App {
        access: Arc::new(access),
        policies: Engine::start(config.policies.clone()).unwrap(),
        boards: Arc::new(Boards::start().unwrap()),
        judging: Arc::new(JudgingSessions::new(stores.clone(), Arc::clone(&config))),
        tracking: stores.tracking(),
        store,
        team: None,
        state,
        config,
        jobs,
        failed_sign_ins: Arc::default(),
        metrics: Arc::default(),
    }
}

/// The status, and whether the response reports a missing right.
async fn send(
    router: &Router,
    (method, path): (&Method, &str),
    token: Option<&str>,
) -> (u16, bool) {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost")
        .header("content-type", "application/json");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let mut request = request.body(Body::from("{}")).unwrap();
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
    request.extensions_mut().insert(ConnectInfo(address));
    let response = router.clone().call(request).await.unwrap();
    let status = response.status().as_u16();
    let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    (status, String::from_utf8_lossy(&body).contains(LACKS_RIGHT))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_accepts_exactly_the_roles_with_its_right() {
    let folder = tempfile::tempdir().unwrap();
    let app = app(folder.path());
    let tokens = Role::ALL.map(|role| {
        let tools = (clock as fn() -> Now, entropy as _);
        let (_, secret) = token_create(&app.state, role, None, tools).unwrap();
        (role, secret)
    });
    let router = router(app.clone());
    let mut walked = BTreeSet::new();
    for group in groups(false, true) {
        for route in group.routes {
            let path = format!("{}{}", group.prefix, route.path);
            if path == "/api/policies/events" {
                // Its answer has no end; a test of the whole server reads it.
                continue;
            }
            let path = path.replace("{*path}", "x/mlflow/runs/search");
            let path = path.replace(['{', '}'], "");
            let methods = route
                .method
                .map_or_else(|| vec![Method::GET, Method::POST], |it| vec![it]);
            for method in methods {
                let right = route.right;
                let shown = format!("{method} {path} needs {right:?}");
                assert!(walked.insert(shown.clone()), "{shown} is listed twice");
                let without_token = send(&router, (&method, &path), None).await.0;
                // The job does not exist, so its events are a 404 and not an endless stream.
                assert_eq!(
                    without_token == 401,
                    right != Right::Public,
                    "{shown}: {without_token}"
                );
                for (role, token) in &tokens {
                    let (status, lacks) = send(&router, (&method, &path), Some(token)).await;
                    let is_open = right.is_granted_to(*role);
                    assert_eq!(
                        (status == 403 && lacks),
                        !is_open,
                        "{shown}, {role}: {status}"
                    );
                    assert_ne!(status, 401, "{shown}, {role}");
                    assert_ne!(status, 500, "{shown}, {role}");
                }
            }
        }
    }
    assert!(walked.len() > 200, "{} routes", walked.len());
    app.jobs.stop();
    app.policies.stop();
}

#[test]
fn only_few_routes_are_public() {
    let open: Vec<&str> = groups(false, true)
        .iter()
        .flat_map(|it| &it.routes)
        .filter(|it| it.right == Right::Public)
        .map(|it| it.path)
        .collect();
    assert_eq!(
        open,
        [
            "/health",
            "/version",
            "/sign-in",
            "/sign-out",
            "/sign-in",
            "/assets/panel.css",
            "/assets/panel.js",
            "/assets/icon.svg",
        ]
    );
}
