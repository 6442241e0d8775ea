//! One request each.

use crate::error::ObjectError;
use crate::settings::{Secrets, Settings};
use base64::Engine;
use rusty_s3::actions::{
    AbortMultipartUpload, CompleteMultipartUpload, CreateMultipartUpload, DeleteObject, GetObject,
    HeadObject, PutObject, UploadPart,
};
use rusty_s3::{Bucket, Credentials, Method, S3Action, UrlStyle};
use sheaf_wire::checksum::crc32c_append;
use std::io::Read;
use std::time::Duration;
use ureq::http::{HeaderMap, Request, Response};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body};

/// Time for which a signature is valid. The request itself may take longer: its beginning counts.
const SIGNED_FOR: Duration = Duration::from_secs(600);

/// Maximum number of bytes of an answer that are read.
const MOST_ANSWER_BYTES: u64 = 256 << 10;

const CHECKSUM: &str = "x-amz-checksum-crc32c";

/// A way to a bucket. Connections are kept and used again.
#[derive(Debug)]
pub struct Client {
    bucket: Bucket,
    credentials: Credentials,
    agent: Agent,
    settings: Settings,
}

/// Description of an object by the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Its size.
    pub bytes: u64,
    /// Its CRC-32C as the store has it: base64, with a hyphen and a number where it is one of the checksums of parts.
    pub checksum: Option<String>,
}

impl Client {
    /// Makes a client. Nothing is sent yet.
    ///
    /// # Errors
    /// An [`ObjectError`] for an invalid address, or certificates that cannot be read.
    pub fn new(settings: Settings, secrets: Secrets) -> Result<Self, ObjectError> {
        let wrong = |error: String| ObjectError::Endpoint { endpoint: settings.endpoint.clone(), error };
        let url = settings.endpoint.parse().map_err(|error| wrong(format!("{error}")))?;
        let style = if settings.path_style { UrlStyle::Path } else { UrlStyle::VirtualHost };
        let bucket = Bucket::new(url, style, settings.bucket.clone(), settings.region.clone())
            .map_err(|error| wrong(error.to_string()))?;
        let credentials = match secrets.token {
            Some(token) => Credentials::new_with_token(secrets.key, secrets.secret, token),
            None => Credentials::new(secrets.key, secrets.secret),
        };
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .user_agent(concat!("sheaf/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(Duration::from_nanos(settings.timeout.0.min(10_000_000_000))))
            .timeout_per_call(Some(Duration::from_nanos(settings.timeout.0)));
        if let Some(roots) = roots(&settings)? {
            config = config.tls_config(TlsConfig::builder().root_certs(roots).build());
        }
        Ok(Self { bucket, credentials, agent: config.build().new_agent(), settings })
    }

    /// Returns its settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The name of the object `name` below the prefix of all.
    #[must_use]
    pub fn key(&self, name: &str) -> String {
        match self.settings.prefix.as_str() {
            "" => name.to_owned(),
            prefix => format!("{prefix}/{name}"),
        }
    }

    /// Returns the address of the object with this key, as the manifest names it.
    #[must_use]
    pub fn address(&self, key: &str) -> String {
        format!("s3://{}/{key}", self.settings.bucket)
    }

    /// Sends an object in one request. The store verifies the checksum of the data.
    ///
    /// # Errors
    /// An [`ObjectError`]; it is then unknown whether the object exists.
    pub fn put(&self, key: &str, bytes: &[u8], crc32c: u32) -> Result<(), ObjectError> {
        let action = PutObject::new(&self.bucket, Some(&self.credentials), key);
        self.send(action, &[(CHECKSUM, &base64(crc32c))], bytes).map(drop)
    }

    /// Begins an object that is sent in parts, and gives the number that the store has for it.
    ///
    /// # Errors
    /// An [`ObjectError`].
    pub fn begin(&self, key: &str) -> Result<String, ObjectError> {
        let action = CreateMultipartUpload::new(&self.bucket, Some(&self.credentials), key);
        let headers = [("x-amz-checksum-algorithm", "CRC32C"), ("x-amz-checksum-type", "FULL_OBJECT")];
        let answer = self.send(action, &headers, &[])?;
        CreateMultipartUpload::parse_response(&answer.body)
            .map(|answer| answer.upload_id().to_owned())
            .map_err(|_| ObjectError::Answer { request: answer.request, missing: "number of an upload" })
    }

    /// Sends a part, numbered from 1, and returns the store's name for it.
    ///
    /// # Errors
    /// An [`ObjectError`]; the part may be sent again.
    pub fn part(
        &self,
        key: &str,
        upload: &str,
        number: u16,
        bytes: &[u8],
        crc32c: u32,
    ) -> Result<String, ObjectError> {
        let action = UploadPart::new(&self.bucket, Some(&self.credentials), key, number, upload);
        let answer = self.send(action, &[(CHECKSUM, &base64(crc32c))], bytes)?;
        answer.header("etag").ok_or(ObjectError::Answer { request: answer.request, missing: "ETag" })
    }

    /// Makes an object from its parts. The store verifies the checksum of the whole, if it can.
    ///
    /// # Errors
    /// An [`ObjectError`]; it is then unknown whether the object exists.
    pub fn complete(
        &self,
        key: &str,
        upload: &str,
        parts: &[String],
        crc32c: u32,
    ) -> Result<(), ObjectError> {
        let parts = parts.iter().map(String::as_str);
        let action = CompleteMultipartUpload::new(&self.bucket, Some(&self.credentials), key, upload, parts);
        let body = action.clone().body();
        let headers = [(CHECKSUM, &*base64(crc32c)), ("x-amz-checksum-type", "FULL_OBJECT")];
        let answer = self.send(action, &headers, body.as_bytes())?;
        // A store may send status 200 before it knows the result, followed by the error.
        match answer.error() {
            None => Ok(()),
            Some((code, message)) => {
                Err(ObjectError::Refused { request: answer.request, status: 500, code, message })
            }
        }
    }

    /// Gives up an object that is sent in parts.
    ///
    /// # Errors
    /// An [`ObjectError`]; the parts then lie in the store until a rule of the bucket removes them.
    pub fn abort(&self, key: &str, upload: &str) -> Result<(), ObjectError> {
        let action = AbortMultipartUpload::new(&self.bucket, Some(&self.credentials), key, upload);
        self.send(action, &[], &[]).map(drop)
    }

    /// Returns size and checksum of an object; `None` if it does not exist.
    ///
    /// # Errors
    /// An [`ObjectError`].
    pub fn head(&self, key: &str) -> Result<Option<Head>, ObjectError> {
        let action = HeadObject::new(&self.bucket, Some(&self.credentials), key);
        let answer = match self.send(action, &[("x-amz-checksum-mode", "ENABLED")], &[]) {
            Err(ObjectError::Refused { status: 404, .. }) => return Ok(None),
            answer => answer?,
        };
        let bytes = answer.header("content-length").and_then(|length| length.parse().ok());
        let checksum = answer.header(CHECKSUM);
        let bytes =
            bytes.ok_or(ObjectError::Answer { request: answer.request, missing: "Content-Length" })?;
        Ok(Some(Head { bytes, checksum }))
    }

    /// Reads an object, and gives its size and its CRC-32C.
    ///
    /// # Errors
    /// An [`ObjectError`].
    pub fn read(&self, key: &str) -> Result<(u64, u32), ObjectError> {
        let action = GetObject::new(&self.bucket, Some(&self.credentials), key);
        let (request, response) = self.exchange(action, &[], &[])?;
        let response = refuse(&request, response)?;
        let mut body = response.into_body().into_reader();
        let (mut bytes, mut checksum) = (0, 0);
        let mut block = vec![0; 64 << 10];
        loop {
            let read = body.read(&mut block).map_err(|error| ObjectError::Connection {
                request: request.clone(),
                error: error.to_string(),
            })?;
            if read == 0 {
                return Ok((bytes, checksum));
            }
            bytes += read as u64;
            checksum = crc32c_append(checksum, &block[..read]);
        }
    }

    /// Removes an object. A missing object is not an error.
    ///
    /// # Errors
    /// An [`ObjectError`].
    pub fn delete(&self, key: &str) -> Result<(), ObjectError> {
        let action = DeleteObject::new(&self.bucket, Some(&self.credentials), key);
        match self.send(action, &[], &[]) {
            Err(ObjectError::Refused { status: 404, .. }) => Ok(()),
            sent => sent.map(drop),
        }
    }

    /// Sends a request and reads a short answer.
    fn send<'a, A: S3Action<'a>>(
        &self,
        action: A,
        headers: &[(&'static str, &str)],
        body: &[u8],
    ) -> Result<Answer, ObjectError> {
        let (request, response) = self.exchange(action, headers, body)?;
        let mut response = refuse(&request, response)?;
        let text =
            response.body_mut().with_config().limit(MOST_ANSWER_BYTES).lossy_utf8(true).read_to_string();
        let body = text.map_err(|error| ObjectError::Connection {
            request: request.clone(),
            error: error.to_string(),
        })?;
        Ok(Answer { request, headers: response.headers().clone(), body })
    }

    /// Signs and sends a request; also returns its name in errors.
    fn exchange<'a, A: S3Action<'a>>(
        &self,
        mut action: A,
        headers: &[(&'static str, &str)],
        body: &[u8],
    ) -> Result<(String, Response<Body>), ObjectError> {
        for (name, value) in headers {
            action.headers_mut().insert(*name, (*value).to_owned());
        }
        let url = action.sign(SIGNED_FOR);
        let method = match A::METHOD {
            Method::Head => "HEAD",
            Method::Get => "GET",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Delete => "DELETE",
        };
        // Without the query, which has the signature.
        let shown = format!("{method} {}", &url.as_str()[..query_start(url.as_str())]);
        let failed = |error: String| ObjectError::Connection { request: shown.clone(), error };
        let mut request = Request::builder().method(method).uri(url.as_str());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let has_body = matches!(A::METHOD, Method::Put | Method::Post);
        let response = if has_body {
            request
                .body(body)
                .map_err(|error| failed(error.to_string()))
                .and_then(|request| self.agent.run(request).map_err(|error| failed(error.to_string())))
        } else {
            request
                .body(())
                .map_err(|error| failed(error.to_string()))
                .and_then(|request| self.agent.run(request).map_err(|error| failed(error.to_string())))
        };
        response.map(|response| (shown, response))
    }
}

/// An answer of a few lines.
struct Answer {
    request: String,
    headers: HeaderMap,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> Option<String> {
        self.headers.get(name)?.to_str().ok().map(str::to_owned)
    }

    /// The error that it has in spite of its status.
    fn error(&self) -> Option<(String, String)> {
        self.body.contains("<Error>").then(|| said(&self.body))
    }
}

/// Returns the offset of the query in an address.
fn query_start(url: &str) -> usize {
    url.find('?').unwrap_or(url.len())
}

/// Returns an error for an answer with an error status.
fn refuse(request: &str, mut response: Response<Body>) -> Result<Response<Body>, ObjectError> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let text = response.body_mut().with_config().limit(MOST_ANSWER_BYTES).lossy_utf8(true).read_to_string();
    let (code, message) = said(&text.unwrap_or_default());
    Err(ObjectError::Refused { request: request.to_owned(), status: status.as_u16(), code, message })
}

/// Returns code and message of an answer in XML, without control characters and truncated.
fn said(body: &str) -> (String, String) {
    let element = |name: &str| {
        let (_, rest) = body.split_once(&format!("<{name}>"))?;
        let (text, _) = rest.split_once(&format!("</{name}>"))?;
        Some(text.chars().filter(|character| !character.is_control()).take(200).collect::<String>())
    };
    (
        element("Code").unwrap_or_else(|| "without a code".to_owned()),
        element("Message").unwrap_or_else(|| "nothing more".to_owned()),
    )
}

/// The certificates that are trusted, where they are given.
fn roots(settings: &Settings) -> Result<Option<RootCerts>, ObjectError> {
    let Some(path) = &settings.authorities else { return Ok(None) };
    let wrong = |error| ObjectError::File { path: path.clone(), error };
    let text = std::fs::read(path).map_err(wrong)?;
    let items = parse_pem(&text).collect::<Result<Vec<_>, _>>();
    let items = items.map_err(|error| wrong(std::io::Error::other(error)))?;
    let certificates: Vec<Certificate<'static>> = items
        .into_iter()
        .filter_map(|item| match item {
            PemItem::Certificate(certificate) => Some(certificate),
            _ => None,
        })
        .collect();
    if certificates.is_empty() {
        return Err(wrong(std::io::Error::other("there is no certificate in it")));
    }
    Ok(Some(RootCerts::new_with_certs(&certificates)))
}

/// Returns a checksum as object stores write it: big-endian bytes in base64.
pub(crate) fn base64(checksum: u32) -> String {
    base64::engine::general_purpose::STANDARD.encode(checksum.to_be_bytes())
}
