//! `sheaf tap --stream`: the events that go to one stream of a run's files, as far as a consumer gets them.

use crate::output;
use anyhow::{Context, bail};
use bytes::Bytes;
use sheaf_config::Config;
use sheaf_store::streams::{Route, Routing, StreamRule};
use sheaf_tap::client::Welcome;
use sheaf_wire::event_file::StoredEvent;

/// An output stream of a run that is being watched.
pub(crate) struct TappedStream {
    routing: Routing,
    place: usize,
    tags: Vec<String>,
}

impl TappedStream {
    /// Finds the stream `name` in a builder's description of its run.
    pub(crate) fn find(name: &str, welcome: &Welcome) -> anyhow::Result<Self> {
        let metadata: serde_json::Value =
            serde_json::from_str(&welcome.metadata).context("the run does not give its format")?;
        let text = metadata["configuration"].as_str().context("the run does not give its configuration")?;
        let config =
            Config::parse(text, "the run's configuration").context("the run is of another release")?;
        let rules = config.streams.iter().map(|(name, stream)| output::rule(&config, name, stream));
        let routing = Routing::new(rules.collect::<anyhow::Result<Vec<StreamRule>>>()?);
        let Some(place) = routing.rules().iter().position(|rule| rule.name.to_string() == name) else {
            let known: Vec<String> = routing.rules().iter().map(|rule| rule.name.to_string()).collect();
            bail!("no stream has the name \"{name}\"; the run has {}", known.join(", "));
        };
        let tags = config.streams.get(name).map(|stream| stream.tags.clone()).unwrap_or_default();
        Ok(Self { routing, place, tags })
    }

    /// The tags of which its events have one; none where it is not by tags that it takes events.
    pub(crate) fn tags(&self) -> &[String] {
        &self.tags
    }

    /// Returns whether an event belongs to the stream.
    pub(crate) fn takes(&self, stored: &StoredEvent<Bytes>) -> bool {
        let route: Route = self.routing.route(stored.event.id, stored.verdict.tags);
        route.has(self.place)
    }
}
