//! A request, and how it is described.

use super::values::reference;
use serde_json::{Map, Value, json};

/// Errors of every request to run control that changes something.
const ERRORS_OF_CHANGES: [u16; 6] = [400, 401, 404, 413, 429, 503];

/// See the [module](self).
pub(super) struct Operation {
    method: &'static str,
    path: &'static str,
    description: Value,
    responses: Map<String, Value>,
}

impl Operation {
    pub(super) fn new(
        method: &'static str,
        path: &'static str,
        (tag, id): (&str, &str),
        summary: &str,
    ) -> Self {
        let description = json!({ "operationId": id, "tags": [tag], "summary": summary });
        let operation = Self { method, path, description, responses: Map::new() };
        if path.starts_with("/api/") {
            operation.errors(&[403])
        } else {
            operation.fails(403, "The request is for another host.")
        }
    }

    pub(super) fn get(path: &'static str, names: (&str, &str), summary: &str) -> Self {
        Self::new("get", path, names, summary)
    }

    pub(super) const fn path(&self) -> &'static str {
        self.path
    }

    pub(super) const fn method(&self) -> &'static str {
        self.method
    }

    /// Returns the description of the request in the document.
    pub(super) fn describe(&self) -> Value {
        let mut description = self.description.clone();
        description["responses"] = self.responses.clone().into();
        description
    }

    /// Adds more about it.
    pub(super) fn note(mut self, text: &str) -> Self {
        self.description["description"] = text.into();
        self
    }

    /// Adds a parameter of the path.
    pub(super) fn part(self, name: &str, schema: &Value, example: Value) -> Self {
        self.parameter("path", name, schema, ("", example))
    }

    /// Adds an optional parameter of the query.
    pub(super) fn query(self, name: &str, schema: &Value, meaning: (&str, Value)) -> Self {
        self.parameter("query", name, schema, meaning)
    }

    pub(super) fn parameter(
        mut self,
        place: &str,
        name: &str,
        schema: &Value,
        (text, example): (&str, Value),
    ) -> Self {
        let mut parameter = json!({ "name": name, "in": place, "schema": schema, "example": example });
        if !text.is_empty() {
            parameter["description"] = text.into();
        }
        if place == "path" {
            parameter["required"] = true.into();
        }
        let mut parameters = self.description["parameters"].as_array().cloned().unwrap_or_default();
        parameters.push(parameter);
        self.description["parameters"] = parameters.into();
        self
    }

    /// Makes a parameter required that was added last.
    pub(super) fn required(mut self) -> Self {
        if let Some(parameter) = self.description["parameters"].as_array_mut().and_then(|all| all.last_mut())
        {
            parameter["required"] = true.into();
        }
        self
    }

    /// Needs a token, and has the errors of changes.
    pub(super) fn changes(mut self) -> Self {
        self.description["security"] = json!([{ "token": [] }]);
        let text = "Where the request comes from. The record of the run has the first 64 characters of it, without \
                    control characters.";
        let schema = json!({ "type": "string" });
        self.parameter("header", "Sheaf-Via", &schema, (text, json!("hook logbook")))
            .errors(&ERRORS_OF_CHANGES)
    }

    /// Needs a token.
    pub(super) fn with_token(mut self) -> Self {
        self.description["security"] = json!([{ "token": [] }]);
        self.errors(&[401, 429])
    }

    /// Takes JSON.
    pub(super) fn takes(mut self, schema: &str, is_required: bool, examples: &[(&str, Value)]) -> Self {
        let examples: Map<String, Value> =
            examples.iter().map(|(name, value)| ((*name).to_owned(), json!({ "value": value }))).collect();
        let content = json!({ "schema": reference(schema), "examples": examples });
        self.description["requestBody"] =
            json!({ "required": is_required, "content": { "application/json": content } });
        self
    }

    /// Answers with JSON.
    pub(super) fn gives(self, status: u16, text: &str, schema: &Value, example: &Value) -> Self {
        let content = json!({ "schema": schema, "examples": { "answer": { "value": example } } });
        self.response(status, json!({ "description": text, "content": { "application/json": content } }))
    }

    /// Answers with something else.
    pub(super) fn gives_media(self, media_type: &str, text: &str) -> Self {
        let content = json!({ media_type: {} });
        self.response(200, json!({ "description": text, "content": content }))
    }

    /// Answers without a body.
    pub(super) fn succeeds(self, status: u16, text: &str) -> Self {
        self.response(status, json!({ "description": text }))
    }

    /// Answers without a body if the client has the answer.
    pub(super) fn unchanged(self) -> Self {
        self.response(304, json!({ "description": "The client has the answer." }))
    }

    /// Fails with plain text.
    pub(super) fn fails(self, status: u16, text: &str) -> Self {
        let content = json!({ "text/plain; charset=utf-8": { "schema": { "type": "string" } } });
        self.response(status, json!({ "description": text, "content": content }))
    }

    /// Fails with an error.
    pub(super) fn errors(self, statuses: &[u16]) -> Self {
        statuses.iter().fold(self, |operation, status| {
            let error = format!("#/components/responses/Error{status}");
            operation.response(*status, json!({ "$ref": error }))
        })
    }

    fn response(mut self, status: u16, response: Value) -> Self {
        self.responses.insert(status.to_string(), response);
        self
    }
}
