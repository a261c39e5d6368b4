//! my_reader: reads safetensors files, strictly, with nothing but the standard library.

use std::collections::BTreeMap;

/// A tensor: `data` is little-endian, as stored, and borrowed from the file's bytes.
pub struct Tensor<'a> {
    pub name: String,
    pub dtype: &'static str,
    pub shape: Vec<u64>,
    pub data: &'a [u8],
}

/// A whole file; the tensors are sorted by name.
pub struct File<'a> {
    pub metadata: Option<BTreeMap<String, String>>,
    pub tensors: Vec<Tensor<'a>>,
}

/// The bytes are not a file that this module reads: what is wrong, and near which byte.
pub struct ReadError {
    pub message: String,
    pub offset: usize,
}

type Result<T> = std::result::Result<T, ReadError>;

const FRAME: usize = 8; // bytes of the header's length
const MAX_HEADER: u64 = 100_000_000;
const MAX_DEPTH: usize = 64;

/// Each dtype with its bits.
#[rustfmt::skip]
const DTYPES: [(&str, u64); 22] = [
    ("U64", 64), ("I64", 64), ("F64", 64), ("C64", 64), ("F32", 32), ("U32", 32), ("I32", 32), ("BF16", 16),
    ("F16", 16), ("U16", 16), ("I16", 16), ("F8_E5M2FNUZ", 8), ("F8_E4M3FNUZ", 8), ("F8_E8M0", 8), ("F8_E4M3", 8),
    ("F8_E5M2", 8), ("I8", 8), ("U8", 8), ("F6_E3M2", 6), ("F6_E2M3", 6), ("F4", 4), ("BOOL", 8),
];

fn fail<T>(message: impl Into<String>, offset: usize) -> Result<T> {
    Err(ReadError { message: message.into(), offset })
}

/// Returns what the bytes of a file hold.
pub fn read(data: &[u8]) -> Result<File<'_>> {
    let Some(Ok(frame)) = data.get(..FRAME).map(TryInto::try_into) else {
        return fail("too few bytes for a header length", 0);
    };
    let length = u64::from_le_bytes(frame);
    if length > MAX_HEADER || length > (data.len() - FRAME) as u64 {
        return fail(format!("a header of {length} bytes"), 0);
    }
    let (header, buffer) = data[FRAME..].split_at(length as usize);
    let mut entries = Parser::header(header)?.object("the header")?;
    let metadata = entries.remove("__metadata__").map(read_metadata).transpose()?;
    let mut ranges = Vec::new();
    let mut tensors = Vec::new();
    for (name, entry) in entries {
        let (begin, end, tensor) = read_tensor(name, entry, buffer)?;
        ranges.push((begin, end));
        tensors.push(tensor);
    }
    ranges.sort_unstable();
    let mut covered = 0;
    for (begin, end) in ranges {
        if begin != covered {
            return fail("payloads with a gap between them, or with bytes in common", FRAME + header.len() + begin);
        }
        covered = end;
    }
    if covered != buffer.len() {
        return fail("bytes after the last payload", FRAME + header.len() + covered);
    }
    Ok(File { metadata, tensors })
}

fn read_metadata(value: Value) -> Result<BTreeMap<String, String>> {
    let pairs = value.object("the metadata")?.into_iter();
    pairs.map(|(key, value)| Ok((key, value.string("a value of the metadata")?))).collect()
}

fn read_tensor(name: String, entry: Value, buffer: &[u8]) -> Result<(usize, usize, Tensor<'_>)> {
    let at = entry.at;
    let mut entry = entry.object("a tensor's entry")?;
    let mut field = |key: &str| match entry.remove(key) {
        Some(value) => Ok(value),
        None => fail(format!("an entry without {key}"), at),
    };
    let dtype = field("dtype")?.string("a dtype")?;
    let Some((dtype, bits)) = DTYPES.into_iter().find(|known| known.0 == dtype) else {
        return fail("an unknown dtype", at);
    };
    let shape = field("shape")?.naturals("a shape")?;
    let [begin, end] = field("data_offsets")?.naturals("data_offsets")?[..] else {
        return fail("data_offsets that are not two", at);
    };
    if begin > end || end > buffer.len() as u64 {
        return fail("a payload that is not within the byte buffer", at);
    }
    // From left to right: an overflow counts even if a later extent is zero.
    let size = shape.iter().chain([&bits]).try_fold(1u64, |size, factor| size.checked_mul(*factor));
    match size {
        Some(size) if size % 8 == 0 && size / 8 == end - begin => {}
        _ => return fail("a payload whose size is not that of shape and dtype", at),
    }
    let (begin, end) = (begin as usize, end as usize);
    Ok((begin, end, Tensor { name, dtype, shape, data: &buffer[begin..end] }))
}

/// A value of JSON, and where in the file it begins.
struct Value {
    at: usize,
    kind: Kind,
}

enum Kind {
    String(String),
    Natural(u64),
    Array(Vec<Value>),
    Object(Vec<(String, Value)>), // with all its keys, also those that occur twice
    Other,                        // null, true, false, and numbers that are no natural ones
}

impl Value {
    fn object(self, what: &str) -> Result<BTreeMap<String, Value>> {
        let Kind::Object(pairs) = self.kind else { return fail(format!("{what} is no object"), self.at) };
        let mut object = BTreeMap::new();
        for (key, value) in pairs {
            let at = value.at;
            if object.insert(key, value).is_some() {
                return fail(format!("{what} has a key twice"), at);
            }
        }
        Ok(object)
    }

    fn string(self, what: &str) -> Result<String> {
        match self.kind {
            Kind::String(text) => Ok(text),
            _ => fail(format!("{what} is no string"), self.at),
        }
    }

    fn naturals(self, what: &str) -> Result<Vec<u64>> {
        let Kind::Array(items) = self.kind else { return fail(format!("{what} is no array"), self.at) };
        let natural = |item: Value| match item.kind {
            Kind::Natural(number) => Ok(number),
            _ => fail(format!("{what} holds what is no integer of 64 bits"), item.at),
        };
        items.into_iter().map(natural).collect()
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize, // in the text
}

impl Parser<'_> {
    fn header(bytes: &[u8]) -> Result<Value> {
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => return fail("a header that is no UTF-8", FRAME + error.valid_up_to()),
        };
        let mut parser = Parser { text, at: 0 };
        if parser.peek() != Some(b'{') {
            return fail("a header that does not begin with a brace", FRAME);
        }
        let value = parser.value(0)?;
        match text[parser.at..].find(|c| c != ' ') {
            Some(spaces) => fail("something other than spaces after the header", FRAME + parser.at + spaces),
            None => Ok(value),
        }
    }

    fn fail<T>(&self, message: &str) -> Result<T> {
        fail(message, FRAME + self.at)
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Goes past a byte, if it is the next one.
    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.at - start
    }

    fn value(&mut self, depth: usize) -> Result<Value> {
        let at = FRAME + self.at;
        let kind = match self.peek() {
            Some(b'{' | b'[') if depth == MAX_DEPTH => return self.fail("values that nest too deeply"),
            Some(b'{') => Kind::Object(self.items(b'}', |parser| {
                let key = parser.string()?;
                parser.blanks();
                if !parser.take(b':') {
                    return parser.fail("no colon after a key");
                }
                parser.blanks();
                Ok((key, parser.value(depth + 1)?))
            })?),
            Some(b'[') => Kind::Array(self.items(b']', |parser| parser.value(depth + 1))?),
            Some(b'"') => Kind::String(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            _ => self.word()?,
        };
        Ok(Value { at, kind })
    }

    /// Reads items with commas between them, from the opening bracket to the closing one.
    fn items<T>(&mut self, close: u8, item: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.at += 1;
        self.blanks();
        let mut items = Vec::new();
        if self.take(close) {
            return Ok(items);
        }
        loop {
            self.blanks();
            items.push(item(self)?);
            self.blanks();
            if self.take(close) {
                return Ok(items);
            }
            if !self.take(b',') {
                return self.fail("neither a comma nor a closing bracket");
            }
        }
    }

    fn word(&mut self) -> Result<Kind> {
        for word in ["null", "true", "false"] {
            if self.text[self.at..].starts_with(word) {
                self.at += word.len();
                return Ok(Kind::Other);
            }
        }
        self.fail("what is no JSON")
    }

    fn number(&mut self) -> Result<Kind> {
        let start = self.at;
        self.take(b'-');
        if !self.take(b'0') && self.digits() == 0 {
            return self.fail("a number without digits");
        }
        if self.take(b'.') && self.digits() == 0 {
            return self.fail("a fraction without digits");
        }
        if self.take(b'e') || self.take(b'E') {
            let _ = self.take(b'-') || self.take(b'+');
            if self.digits() == 0 {
                return self.fail("an exponent without digits");
            }
        }
        Ok(self.text[start..self.at].parse().map_or(Kind::Other, Kind::Natural))
    }

    fn string(&mut self) -> Result<String> {
        if !self.take(b'"') {
            return self.fail("no string");
        }
        let mut string = String::new();
        loop {
            let start = self.at;
            while !matches!(self.peek(), None | Some(b'"' | b'\\' | 0..=0x1f)) {
                self.at += 1;
            }
            string.push_str(&self.text[start..self.at]); // what ends it is ASCII: no character is cut
            if self.take(b'"') {
                return Ok(string);
            }
            if !self.take(b'\\') {
                return self.fail("a string that does not end, or holds a control character");
            }
            string.push(self.escaped()?);
        }
    }

    fn escaped(&mut self) -> Result<char> {
        let Some(letter) = self.peek() else { return self.fail("a string that does not end") };
        let character = match letter {
            b'"' | b'\\' | b'/' => char::from(letter),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.code_point(),
            _ => return self.fail("an escape that JSON does not have"),
        };
        self.at += 1;
        Ok(character)
    }

    fn code_point(&mut self) -> Result<char> {
        let mut units = vec![self.code_unit()?];
        if (0xd800..0xdc00).contains(&units[0]) && self.take(b'\\') {
            units.push(self.code_unit()?);
        }
        let mut characters = char::decode_utf16(units);
        match (characters.next(), characters.next()) {
            (Some(Ok(character)), None) => Ok(character),
            _ => self.fail("half a surrogate pair"),
        }
    }

    fn code_unit(&mut self) -> Result<u16> {
        let digits = self.text.as_bytes().get(self.at..self.at + 5).unwrap_or_default();
        if digits.first() != Some(&b'u') || !digits[1..].iter().all(u8::is_ascii_hexdigit) {
            return self.fail("not four hexadecimal digits");
        }
        self.at += 5;
        let number = |value, digit: &u8| value * 16 + char::from(*digit).to_digit(16).unwrap_or_default() as u16;
        Ok(digits[1..].iter().fold(0, number))
    }
}
