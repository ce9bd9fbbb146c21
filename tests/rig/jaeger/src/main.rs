//! Jaeger's page over the traces that this program is sent: POST /v1/traces, as OpenTelemetry's protocol over HTTP has it,
//! in protobuf, with gzip or without. otlp-embedded brings the page and what it asks; it takes traces by gRPC alone, so
//! they come to it from here.
//!
//! Listens on loopback, prints its address and runs until its standard input ends.

use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use otlp_embedded::proto::collector::trace::v1::ExportTraceServiceRequest;
use otlp_embedded::{ui_app, Config, State, StateRef, TraceService, TraceServiceImpl};
use prost::Message;
use std::io::Read;

/// More than a test sends.
const MOST_TRACES: u32 = 1 << 20;
const MOST_BYTES: usize = 1 << 30;

const PROTOBUF: &str = "application/x-protobuf";

type Answer = Result<([(axum::http::HeaderName, &'static str); 1], Vec<u8>), (StatusCode, String)>;

/// Takes a request's spans, or says what is wrong with it.
async fn export(state: StateRef, headers: HeaderMap, body: Bytes) -> Answer {
    let wrong = |text: String| (StatusCode::BAD_REQUEST, text);
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if header(CONTENT_TYPE) != PROTOBUF {
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, format!("not {PROTOBUF}")));
    }
    let mut bytes = Vec::new();
    match header(CONTENT_ENCODING) {
        "" | "identity" => bytes.extend(&body),
        "gzip" => {
            let mut packed = flate2::read::GzDecoder::new(&body[..]);
            packed.read_to_end(&mut bytes).map_err(|error| wrong(format!("gzip: {error}")))?;
        }
        other => return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, format!("packed by {other}"))),
    }
    let request = ExportTraceServiceRequest::decode(&bytes[..]).map_err(|error| wrong(error.to_string()))?;
    let taken = TraceServiceImpl::new(state).export(tonic::Request::new(request)).await;
    let taken = taken.map_err(|status| wrong(status.to_string()))?.into_inner();
    Ok(([(CONTENT_TYPE, PROTOBUF)], taken.encode_to_vec()))
}

fn main() -> std::io::Result<()> {
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(0);
    });
    let state = State::new(Config { max_length: MOST_TRACES, max_memory_usage: MOST_BYTES });
    let of_requests = state.clone();
    let take = post(move |headers, body| export(of_requests.clone(), headers, body));
    let app = ui_app(state, "/").route("/v1/traces", take).layer(DefaultBodyLimit::disable());
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        println!("http://{}", listener.local_addr()?);
        axum::serve(listener, app).await
    })
}
