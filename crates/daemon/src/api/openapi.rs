//! `GET /openapi.json`: the API for programs.
//!
//! The document is a file, so that the daemon needs nothing to serve it. It is written by the test
//! below, from the handlers and the types of the wire.

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};

const DOCUMENT: &str = include_str!("../../../../docs/reference/openapi.json");

/// The document.
pub(super) async fn document() -> Response {
    ([(CONTENT_TYPE, "application/json")], DOCUMENT).into_response()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use minimal_proto::stream::{ClientMessage, ServerMessage, Stream};
    use minimal_proto::{ErrorBody, Event};
    use serde_json::{Value, json};
    use utoipa::OpenApi;

    use crate::api::{attach, create, end, execs, host, list, resume, show, streams};
    use crate::testing::{World, compare_generated};

    #[derive(OpenApi)]
    #[openapi(
        info(
            title = "Minimal",
            description = "The daemon's API on its Unix socket. docs/reference/wire.md says what it means.",
            version = "1",
            license(name = "Apache-2.0", identifier = "Apache-2.0"),
        ),
        servers((url = "http://localhost", description = "minimald.sock in the state directory")),
        paths(
            host::version, host::healthz, host::show, host::step_down, host::metrics,
            create::create, create::cancel, list::list, show::show, show::spec, show::wait, streams::events,
            streams::log, streams::exec_log, attach::attach, attach::attach_exec, execs::create, execs::list,
            execs::show, execs::wait, execs::stop, execs::signal, end::stop, end::signal, end::pause, end::unpause, resume::resume, end::acknowledge, end::remove,
        ),
        components(schemas(ErrorBody, Event, Stream, ServerMessage, ClientMessage)),
    )]
    struct Document;

    /// The document, with what every operation has in common.
    fn generated() -> Value {
        let mut document = serde_json::to_value(Document::openapi()).unwrap();
        let error = json!({
            "description": "A fault.",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorBody"}}},
        });
        let address = json!({
            "name": "box", "in": "path", "required": true, "schema": {"type": "string"},
            "description": "A full id, a name, or a part of an id that only one box has.",
        });
        let exec = json!({
            "name": "exec", "in": "path", "required": true, "schema": {"type": "string"},
            "description": "A full id of an exec of that box, or a part of one that only one has.",
        });
        for (path, operations) in document["paths"].as_object_mut().unwrap() {
            for (method, operation) in operations.as_object_mut().unwrap() {
                let operation = operation.as_object_mut().unwrap();
                operation.remove("tags");
                operation["operationId"] = operation_id(method, path).into();
                operation["responses"]["default"] = error.clone();
                if path.contains("{box}") {
                    let parameters = operation.entry("parameters").or_insert_with(|| json!([]));
                    let parameters = parameters.as_array_mut().unwrap();
                    parameters.insert(0, address.clone());
                    if path.contains("{exec}") {
                        parameters.insert(1, exec.clone());
                    }
                }
            }
        }
        document
    }

    /// `get_boxes_box_wait` for `GET /v1/boxes/{box}/wait`.
    fn operation_id(method: &str, path: &str) -> String {
        let words = path.split(['/', '{', '}', '.', '-']).filter(|word| !word.is_empty());
        words.filter(|word| *word != "v1").fold(method.to_owned(), |id, word| id + "_" + word)
    }

    #[test]
    fn every_reference_in_the_document_leads_somewhere() {
        let document = generated();
        let text = document.to_string();
        for (_, rest) in
            text.match_indices("\"$ref\":\"#").map(|(at, mark)| text.split_at(at + mark.len()))
        {
            let (pointer, _) = rest.split_once('"').unwrap();
            assert!(document.pointer(pointer).is_some(), "{pointer}");
        }
    }

    #[test]
    fn the_generated_document_is_that_of_the_code() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/openapi.json");
        let mut text = serde_json::to_string_pretty(&generated()).unwrap();
        text.push('\n');
        compare_generated(Path::new(path), &text);
    }

    /// A path that is described is served: it answers something other than that it is not there.
    #[tokio::test]
    async fn every_described_operation_is_served() {
        let world = World::new().await;
        let document = generated();
        for (path, operations) in document["paths"].as_object().unwrap() {
            for method in operations.as_object().unwrap().keys() {
                // Leaving would end the test's daemon.
                if path == "/v1/step-down" || path == "/metrics" {
                    continue;
                }
                let called = path.replace("{box}", "nobody").replace("{exec}", "none");
                let (_, answer) = world.call(&method.to_uppercase(), &called).await;
                let message = answer["message"].as_str().unwrap_or_default();
                assert!(!message.contains("there is no"), "{method} {path}: {answer}");
                assert!(!message.contains("does not take"), "{method} {path}: {answer}");
            }
        }
        let served = world.call("GET", "/openapi.json").await.1;
        assert_eq!(served["openapi"], "3.1.0");
    }
}
