//! A small writer of LCIO files, for tests.

use flate2::Compression;
use flate2::write::ZlibEncoder;
use std::io::Write;

/// An object of a collection: its numbers as their bits, doubles all zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) ints: Vec<u32>,
    pub(crate) floats: Vec<u32>,
    pub(crate) doubles: usize,
}

impl Object {
    pub(crate) fn of_ints(ints: &[u32]) -> Self {
        Self { ints: ints.to_vec(), ..Self::default() }
    }
}

/// The collection `RU_XDAQ` of an event, and how it departs from a good one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Collection {
    pub(crate) objects: Vec<Object>,
    /// Write the common size once.
    pub(crate) fixed_size: bool,
    /// Write parameters of all three kinds.
    pub(crate) parameters: bool,
    /// Announce it in the header, but leave it out.
    pub(crate) absent: bool,
    /// Count other objects than there are.
    pub(crate) claimed_objects: Option<u32>,
}

/// An LCIO file in the making.
#[derive(Debug)]
pub(crate) struct EventFile {
    pub(crate) compressed: bool,
    pub(crate) version: u32,
    pub(crate) bytes: Vec<u8>,
}

impl Default for EventFile {
    fn default() -> Self {
        Self { compressed: true, version: 2 << 16 | 6, bytes: record("LCIOIndex", &[1; 50], true, None) }
    }
}

impl EventFile {
    pub(crate) fn event(&mut self, run: i32, number: i32, time: i64, collection: &Collection) {
        let mut header = [run.to_be_bytes(), number.to_be_bytes()].concat();
        header.extend(time.to_be_bytes());
        string(&mut header, "TEST");
        // Another collection comes first, so that the reader has to look for its own.
        u32s(&mut header, &[2]);
        for text in ["Other", "LCIntVec", "RU_XDAQ", "LCGenericObject"] {
            string(&mut header, text);
        }
        u32s(&mut header, &[0, 0, 0]);
        let header = block("EventHeader", self.version, &header);
        self.bytes.extend(record("LCEventHeader", &header, self.compressed, None));

        let mut data = block("Other", self.version, &[0; 20]);
        if !collection.absent {
            data.extend(block("RU_XDAQ", self.version, &body(collection)));
        }
        self.bytes.extend(record("LCEvent", &data, self.compressed, None));
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.bytes.extend(record("LCIORandomAccess", &[2; 30], true, None));
        self.bytes
    }
}

fn body(collection: &Collection) -> Vec<u8> {
    let mut body = Vec::new();
    u32s(&mut body, &[u32::from(collection.fixed_size) << 31]);
    if collection.parameters {
        u32s(&mut body, &[1]);
        string(&mut body, "integers");
        u32s(&mut body, &[3, 7, 8, 9]);
        u32s(&mut body, &[1]);
        string(&mut body, "floats");
        u32s(&mut body, &[1, 0x3f80_0000]);
        u32s(&mut body, &[1]);
        string(&mut body, "strings");
        u32s(&mut body, &[2]);
        string(&mut body, "");
        string(&mut body, "of seven");
    } else {
        u32s(&mut body, &[0, 0, 0]);
    }
    let counts =
        |object: &Object| [object.ints.len() as u32, object.floats.len() as u32, object.doubles as u32];
    if collection.fixed_size {
        u32s(&mut body, &collection.objects.first().map_or([0; 3], counts));
    }
    u32s(&mut body, &[collection.claimed_objects.unwrap_or(collection.objects.len() as u32)]);
    for object in &collection.objects {
        if !collection.fixed_size {
            u32s(&mut body, &counts(object));
        }
        u32s(&mut body, &object.ints);
        u32s(&mut body, &object.floats);
        body.extend(vec![0; 8 * object.doubles]);
        u32s(&mut body, &[u32::MAX]);
    }
    body
}

/// A record as it is in a file. `claimed` replaces the true unpacked length.
pub(crate) fn record(name: &str, data: &[u8], compressed: bool, claimed: Option<u32>) -> Vec<u8> {
    let mut stored = data.to_vec();
    if compressed {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(data).unwrap();
        stored = encoder.finish().unwrap();
    }
    let mut padded_name = name.as_bytes().to_vec();
    pad(&mut padded_name);
    let mut bytes = Vec::new();
    u32s(&mut bytes, &[24 + padded_name.len() as u32, 0xabad_cafe, u32::from(compressed)]);
    u32s(&mut bytes, &[stored.len() as u32, claimed.unwrap_or(data.len() as u32), name.len() as u32]);
    bytes.extend(padded_name);
    bytes.extend(stored);
    pad(&mut bytes);
    bytes
}

fn block(name: &str, version: u32, body: &[u8]) -> Vec<u8> {
    let mut padded_name = name.as_bytes().to_vec();
    pad(&mut padded_name);
    let length = 16 + padded_name.len() + body.len();
    let mut bytes = Vec::new();
    u32s(&mut bytes, &[length as u32, 0xdead_beef, version, name.len() as u32]);
    bytes.extend(padded_name);
    bytes.extend(body);
    bytes
}

fn string(bytes: &mut Vec<u8>, text: &str) {
    u32s(bytes, &[text.len() as u32]);
    bytes.extend(text.as_bytes());
    pad(bytes);
}

fn u32s(bytes: &mut Vec<u8>, values: &[u32]) {
    bytes.extend(values.iter().flat_map(|value| value.to_be_bytes()));
}

fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}
