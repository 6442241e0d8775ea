//! Requests for the map over HTTP.

use crate::map::Quantity;
use crate::routes::Route;
use crate::serving::{Server, on_another_thread};
use axum::extract::{Query, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

/// Returns the requests for the map.
pub(crate) fn routes() -> Vec<Route> {
    vec![Route::get("/api/v1/map", map)]
}

/// The map that is wanted.
#[derive(Debug, Deserialize)]
struct Wanted {
    #[serde(default)]
    quantity: Quantity,
}

async fn map(State(server): State<Server>, Query(Wanted { quantity }): Query<Wanted>) -> Response {
    // A large map takes longer than others should wait.
    match on_another_thread(move || Ok(server.shared.map_of(quantity))).await {
        Ok(bytes) => ([(header::CONTENT_TYPE, "application/octet-stream")], bytes).into_response(),
        Err(answer) => answer,
    }
}
