//! The HTTP server.

use crate::assets::{self, Asset};
use crate::columns::Columns;
use crate::credentials::Credentials;
use crate::guard::Door;
use crate::routes::{self, Route};
use crate::serving::Server;
use crate::state::Figure;
use crate::{
    code_page, control_routes, errors, guard, histogram_routes, map_routes, openapi, openmetrics, prometheus,
    session_routes, trace_routes, value_routes,
};
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{Html, IntoResponse, Response};
use futures_util::stream;
use serde::{Deserialize, Serialize};
use std::convert::Infallible;
use std::time::Duration;
use tokio::time::timeout;

/// Time that a request for new numbers waits for some.
const LONGEST_POLL: Duration = Duration::from_secs(1);

/// Longest pause between two states. Within it, a client can tell an unchanged run from a lost connection.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// Pause between two states for one client: a client that wants numbers more often asks for them.
const STATE_PAUSE: Duration = Duration::from_millis(200);

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";
const BINARY: &str = "application/octet-stream";

/// Returns all requests that are answered.
pub(crate) fn routes() -> Vec<Route> {
    let mut routes = vec![
        Route::get("/", index),
        Route::get("/assets/{*path}", asset),
        Route::get("/api/v1/openapi.json", description),
        Route::get("/api/v1/state", state),
        Route::get("/api/v1/alarms", alarms),
        Route::get("/api/v1/stream", state_stream),
        Route::get("/api/v1/nodes/{name}", node),
        Route::get("/api/v1/columns", column_list),
        Route::get("/api/v1/history", history),
        Route::get("/api/v1/live", live),
        Route::get("/metrics", metrics),
        Route::get("/prometheus/targets", targets),
        Route::get("/prometheus/rules.yml", rules),
        Route::get("/grafana/{file}", dashboard),
        Route::get("/healthz", healthy),
        Route::get("/codes", code_list),
    ];
    routes.extend(trace_routes::routes());
    routes.extend(histogram_routes::routes());
    routes.extend(map_routes::routes());
    routes.extend(value_routes::routes());
    routes.extend(control_routes::routes());
    routes.extend(session_routes::routes());
    routes
}

/// Returns the answers to all requests.
pub(crate) fn router(server: Server) -> Router {
    routes::router(routes())
        .fallback(not_found)
        .layer(from_fn_with_state(server.door.clone(), guard::check))
        .layer(from_fn(errors::as_json))
        .with_state(server)
}

/// Describes the interface for programs.
async fn description() -> Response {
    json(&openapi::document())
}

async fn index(headers: HeaderMap) -> Response {
    give("index.html", &headers)
}

async fn asset(Path(path): Path<String>, headers: HeaderMap) -> Response {
    give(&path, &headers)
}

/// Returns a file of the page, compressed for clients that say that they can read it.
fn give(path: &str, headers: &HeaderMap) -> Response {
    let Some(Asset { media_type, content, compressed, .. }) = assets::find(path) else { return missing() };
    let common = [(header::CONTENT_TYPE, *media_type), (header::VARY, "Accept-Encoding")];
    match takes_gzip(headers) {
        true => (common, [(header::CONTENT_ENCODING, "gzip")], compressed.clone()).into_response(),
        false => (common, &**content).into_response(),
    }
}

/// Returns whether a client takes answers that are compressed with gzip. One with a weight of zero refuses it.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let lists = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|list| list.to_str().ok());
    lists.flat_map(|list| list.split(',')).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let weight = weight.trim().trim_start_matches("q=").parse::<f32>();
        name.trim().eq_ignore_ascii_case("gzip") && weight != Ok(0.0)
    })
}

async fn not_found() -> Response {
    missing()
}

fn missing() -> Response {
    (StatusCode::NOT_FOUND, "nothing is here: the page is at /, metrics are at /metrics\n").into_response()
}

async fn healthy() -> &'static str {
    "ok\n"
}

async fn state(State(server): State<Server>) -> Response {
    let tick = server.ticks.borrow().clone();
    ([(header::CONTENT_TYPE, JSON)], tick.state).into_response()
}

async fn alarms(State(server): State<Server>) -> Response {
    let tick = server.ticks.borrow().clone();
    ([(header::CONTENT_TYPE, JSON)], tick.alarms).into_response()
}

/// Sends the newest state again and again, as server-sent events. A client that reads slowly misses states; it does not get old ones.
async fn state_stream(State(server): State<Server>, headers: HeaderMap) -> Response {
    let Server { mut ticks, door, .. } = server;
    ticks.mark_changed();
    let begin = (ticks, (door, Credentials::of(&headers)), true);
    let states = stream::unfold(begin, |(mut ticks, (door, credentials), is_first)| async move {
        if !is_first {
            tokio::time::sleep(STATE_PAUSE).await;
        }
        // The sender is gone when the server ends, and so does the stream.
        if let Ok(Err(_)) = timeout(HEARTBEAT, ticks.changed()).await {
            return None;
        }
        // A token may end while a page is open.
        if !door.admits(&credentials) {
            return None;
        }
        let event = ticks.borrow_and_update().event.clone();
        Some((Ok::<_, Infallible>(event), (ticks, (door, credentials), false)))
    });
    ([(header::CONTENT_TYPE, EVENTS)], Body::from_stream(states)).into_response()
}

/// Numbers of a node.
#[derive(Debug, Serialize)]
struct NodeFigures {
    name: String,
    figures: Vec<Figure>,
}

async fn node(State(server): State<Server>, Path(name): Path<String>) -> Response {
    let snapshot = server.shared.hub.snapshot();
    match snapshot.nodes.get(&name) {
        Some(node) => json(&NodeFigures { figures: crate::state::figures_of(node), name }),
        None => (StatusCode::NOT_FOUND, format!("no node {name} has published\n")).into_response(),
    }
}

async fn column_list() -> Response {
    json(&Columns::list())
}

/// The ring of numbers that is wanted.
#[derive(Debug, Deserialize)]
struct Step {
    step: u32,
}

async fn history(State(server): State<Server>, Query(Step { step }): Query<Step>) -> Response {
    match server.shared.history().all(step) {
        Some(bytes) => binary(bytes),
        None => (StatusCode::BAD_REQUEST, "step must be 100, 1000 or 10000 (milliseconds)\n").into_response(),
    }
}

/// The rows that are wanted: those after this number, or the newest one.
#[derive(Debug, Deserialize)]
struct After {
    after: Option<u64>,
}

async fn live(State(server): State<Server>, Query(After { after }): Query<After>) -> Response {
    let first =
        after.map_or_else(|| server.shared.history().rows().saturating_sub(1), |row| row.saturating_add(1));
    let mut ticks = server.ticks;
    // Without a new row in time, the answer has none.
    let _ = timeout(LONGEST_POLL, ticks.wait_for(|tick| tick.rows > first)).await;
    let bytes = server.shared.history().from(first);
    binary(bytes)
}

async fn metrics(State(server): State<Server>) -> Response {
    let (hosts, run) = (server.ticks.borrow().hosts.clone(), server.shared.run_labels());
    match openmetrics::encode(server.shared.hub.snapshot(), run, (&server.shared.values, &hosts)) {
        Ok(text) => ([(header::CONTENT_TYPE, openmetrics::MEDIA_TYPE)], text).into_response(),
        Err(error) => {
            (StatusCode::INTERNAL_SERVER_ERROR, format!("cannot encode metrics: {error}\n")).into_response()
        }
    }
}

/// Addresses that Prometheus scrapes, for its discovery over HTTP.
async fn targets(State(server): State<Server>, headers: HeaderMap) -> Response {
    let target = match &server.door {
        Door::Local => server.address.to_string(),
        // It may listen at all addresses of this host: the one that has been reached is good.
        Door::Remote(_) => guard::host(&headers).map_or_else(|| server.address.to_string(), str::to_owned),
    };
    let mut labels = serde_json::json!({ "job": "sheaf" });
    if let Some(partition) = &server.shared.partition {
        labels["partition"] = partition.clone().into();
    }
    json(&serde_json::json!([{ "targets": [target], "labels": labels }]))
}

async fn rules() -> Response {
    ([(header::CONTENT_TYPE, "application/yaml")], prometheus::rule_file()).into_response()
}

async fn dashboard(Path(file): Path<String>) -> Response {
    let id = file.strip_suffix(".json").unwrap_or_default();
    match prometheus::DASHBOARDS.iter().find(|dashboard| dashboard.id == id) {
        Some(dashboard) => json(&prometheus::dashboard_file(dashboard)),
        None => {
            let known: Vec<_> =
                prometheus::DASHBOARDS.iter().map(|dashboard| format!("{}.json", dashboard.id)).collect();
            (StatusCode::NOT_FOUND, format!("dashboards are {}\n", known.join(", "))).into_response()
        }
    }
}

async fn code_list() -> Html<String> {
    Html(code_page::html())
}

fn json(value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(bytes) => ([(header::CONTENT_TYPE, JSON)], bytes).into_response(),
        Err(error) => {
            (StatusCode::INTERNAL_SERVER_ERROR, format!("cannot encode: {error}\n")).into_response()
        }
    }
}

fn binary(bytes: Vec<u8>) -> Response {
    ([(header::CONTENT_TYPE, BINARY)], bytes).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn only_clients_that_take_compressed_answers_get_them() {
        let takes = |lists: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for list in lists {
                headers.append(header::ACCEPT_ENCODING, HeaderValue::from_static(list));
            }
            takes_gzip(&headers)
        };
        assert!(takes(&["gzip, deflate, br"]) && takes(&["br", "deflate;q=0.5, GZIP;q=0.8"]));
        assert!(!takes(&[]) && !takes(&["identity"]) && !takes(&["br, gzip;q=0"]) && !takes(&["gzipped"]));
    }
}
