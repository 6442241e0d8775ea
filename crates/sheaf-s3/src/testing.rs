//! A small object store in this process: enough of the S3 protocol for puts, parts, heads, gets and deletes, with
//! faults on demand. The bucket is `bucket`. It checks that a request is signed, but not the signature.

#![allow(missing_docs, clippy::unwrap_used, reason = "for tests, which may stop where they cannot go on")]

use crate::client::base64;
use sheaf_wire::checksum::crc32c;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};

/// The accepted access key.
pub const ACCESS_KEY: &str = "AKTEST";

/// Injected fault of one request.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// An error with this status.
    Status(u16, &'static str),
    /// The connection ends without an answer.
    Cut,
    /// No answer is sent before the other side's timeout.
    Silence,
    /// The stored object has a wrong byte, and the store does not notice.
    Damage,
    /// A success with an error in its body, as a store sends it that notices the error late.
    LateError,
}

#[derive(Debug, Default)]
pub struct State {
    pub objects: BTreeMap<String, Vec<u8>>,
    pub open: BTreeMap<String, BTreeMap<u16, Vec<u8>>>,
    /// For one of the next requests: the number of requests served before it.
    fault: Option<(usize, Fault)>,
    /// Whether it keeps checksums of objects.
    pub keeps_checksums: bool,
    /// Whether it refuses all requests.
    pub is_locked: bool,
    /// Whether it accepts objects without confirming them.
    pub is_silent: bool,
    /// Number of times that it has reported the object as present.
    pub told_of: u64,
    requests: u64,
}

#[derive(Clone, Debug)]
pub struct Server {
    state: Arc<Mutex<State>>,
    address: SocketAddr,
}

impl Server {
    /// Serves until the process ends.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let state = State { keeps_checksums: true, ..State::default() };
        let server = Self { state: Arc::new(Mutex::new(state)), address: listener.local_addr().unwrap() };
        let serving = server.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let serving = serving.clone();
                std::thread::spawn(move || serving.serve(stream));
            }
        });
        server
    }

    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Makes a request fail after `served` further ones.
    pub fn fail_at(&self, served: usize, fault: Fault) {
        self.state().fault = Some((served, fault));
    }

    /// One request a connection.
    fn serve(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream);
        let Some(request) = Request::read(&mut reader) else { return };
        let mut stream = reader.into_inner();
        let (status, headers, body) = {
            let mut state = self.state();
            state.requests += 1;
            let fault = match state.fault.take() {
                Some((0, fault)) => Some(fault),
                Some((served, fault)) => {
                    state.fault = Some((served - 1, fault));
                    None
                }
                None => None,
            };
            match fault {
                Some(Fault::Cut) => return,
                Some(Fault::Silence) => {
                    drop(state);
                    // Until the other side has had enough.
                    let _ = stream.read(&mut [0; 1]);
                    return;
                }
                Some(Fault::Status(status, code)) => error(status, code),
                Some(Fault::LateError) => {
                    let (_, headers, body) = error(200, "InternalError");
                    (200, headers, body)
                }
                fault => answer(&mut state, &request, matches!(fault, Some(Fault::Damage))),
            }
        };
        let length = if request.method == "HEAD" {
            String::new()
        } else {
            format!("Content-Length: {}\r\n", body.len())
        };
        let head = format!("HTTP/1.1 {status} OK\r\nConnection: close\r\n{length}{headers}\r\n");
        let _ = stream.write_all(head.as_bytes());
        if request.method != "HEAD" {
            let _ = stream.write_all(&body);
        }
    }
}

struct Request {
    method: String,
    /// Behind the bucket.
    key: String,
    query: BTreeMap<String, String>,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl Request {
    fn read(reader: &mut impl BufRead) -> Option<Self> {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let mut words = line.split(' ');
        let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
        let mut headers = BTreeMap::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        let bytes = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; bytes];
        reader.read_exact(&mut body).ok()?;
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (name.to_owned(), value.to_owned())
        };
        let key = path.strip_prefix("/bucket/").unwrap_or_default().to_owned();
        Some(Self { method, key, query: query.split('&').map(pair).collect(), headers, body })
    }
}

type Reply = (u16, String, Vec<u8>);

fn error(status: u16, code: &str) -> Reply {
    let body =
        format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>said the test</Message></Error>");
    (status, String::new(), body.into_bytes())
}

fn answer(state: &mut State, request: &Request, damage: bool) -> Reply {
    let query = |name: &str| request.query.get(name).cloned();
    let is_known = query("X-Amz-Credential").is_some_and(|who| who.starts_with(ACCESS_KEY));
    if state.is_locked || !is_known || query("X-Amz-Signature").is_none_or(|signature| signature.len() != 64)
    {
        return error(403, "AccessDenied");
    }
    if state.is_silent && request.method == "HEAD" {
        return error(403, "AccessDenied");
    }
    let mut body = request.body.clone();
    if let Some(given) = request.headers.get("x-amz-checksum-crc32c")
        && request.method == "PUT"
    {
        // Headers that are not signed may have been added by a third party.
        assert!(query("X-Amz-SignedHeaders").unwrap().contains("x-amz-checksum-crc32c"));
        if *given != base64(crc32c(&body)) {
            return error(400, "BadDigest");
        }
    }
    if damage && let Some(byte) = body.first_mut() {
        *byte ^= 1;
    }
    let plain = |body: String| (200, String::new(), body.into_bytes());
    match (request.method.as_str(), query("uploadId"), query("partNumber")) {
        ("POST", None, _) => {
            let id = format!("upload-{}", state.requests);
            state.open.insert(id.clone(), BTreeMap::new());
            plain(format!(
                "<InitiateMultipartUploadResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Bucket>bucket</Bucket>\
                 <Key>k</Key><UploadId>{id}</UploadId></InitiateMultipartUploadResult>"
            ))
        }
        ("PUT", Some(id), Some(number)) => match state.open.get_mut(&id) {
            Some(parts) => {
                parts.insert(number.parse().unwrap(), body);
                (200, format!("ETag: \"part-{number}\"\r\n"), Vec::new())
            }
            None => error(404, "NoSuchUpload"),
        },
        ("POST", Some(id), _) => {
            let Some(parts) = state.open.remove(&id) else { return error(404, "NoSuchUpload") };
            let named = String::from_utf8(request.body.clone()).unwrap();
            assert!(parts.keys().all(|number| named.contains(&format!("part-{number}"))), "{named}");
            let whole: Vec<u8> = parts.into_values().flatten().collect();
            state.objects.insert(request.key.clone(), whole);
            plain(
                "<CompleteMultipartUploadResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><ETag>x</ETag>\
                 </CompleteMultipartUploadResult>"
                    .to_owned(),
            )
        }
        ("DELETE", Some(id), _) => {
            state.open.remove(&id);
            (204, String::new(), Vec::new())
        }
        ("PUT", None, _) => {
            state.objects.insert(request.key.clone(), body);
            (200, "ETag: \"x\"\r\n".to_owned(), Vec::new())
        }
        ("HEAD" | "GET", ..) => match state.objects.get(&request.key) {
            Some(object) => {
                let mut headers = String::new();
                if request.method == "HEAD" {
                    state.told_of += 1;
                    headers += &format!("Content-Length: {}\r\n", object.len());
                }
                if state.keeps_checksums {
                    headers += &format!("x-amz-checksum-crc32c: {}\r\n", base64(crc32c(object)));
                }
                (200, headers, object.clone())
            }
            None => error(404, "NoSuchKey"),
        },
        ("DELETE", ..) => {
            state.objects.remove(&request.key);
            (204, String::new(), Vec::new())
        }
        _ => error(405, "MethodNotAllowed"),
    }
}
