//! Reads the header of a GGUF file: metadata and tensor shapes, never the weights.
//!
//! llama.cpp reads the same header, but its wrapper exposes no tensor shapes, aborts the process
//! on a value of an unexpected type, and gives no reason when it rejects a file. This reader
//! counts parameters without loading anything and explains what is wrong with a damaged file
//! before llama.cpp opens it. It keeps integers and strings and skips what is not needed
//! (the vocabulary's entries, floats); of an integer array it keeps the largest element.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read, Seek};
use std::path::Path;

const VOCABULARY: &str = "tokenizer.ggml.tokens";
const MAGIC: [u8; 4] = *b"GGUF";
const MAX_DIMENSIONS: u32 = 4;
const MAX_NAME_BYTES: u64 = 64 * 1024;
/// Chat templates are the longest strings that we keep.
const MAX_TEXT_BYTES: u64 = 16 * 1024 * 1024;
const DEFAULT_ALIGNMENT: u64 = 32;

/// The properties of a model that are needed before it is loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header {
    integers: HashMap<String, u64>,
    texts: HashMap<String, String>,
    tensor_elements: u64,
    tensor_types: BTreeSet<u32>,
}

impl Header {
    /// Reads `path`; the error is a message for users.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let describe = |e: std::io::Error| match e.kind() {
            ErrorKind::UnexpectedEof => "the file ends inside its header".to_owned(),
            _ => e.to_string(),
        };
        let file = File::open(path).map_err(describe)?;
        let length = file.metadata().map_err(describe)?.len();
        Reader {
            input: BufReader::with_capacity(256 * 1024, file),
            length,
        }
        .header()
        .map_err(describe)
    }

    /// As the metadata says, or else counted from the tensors.
    pub(crate) fn parameter_count(&self) -> u64 {
        self.integers
            .get("general.parameter_count")
            .copied()
            .unwrap_or(self.tensor_elements)
    }

    /// An integer of the model's architecture, such as `context_length`.
    pub(crate) fn architecture_integer(&self, key: &str) -> Option<u64> {
        let architecture = self.texts.get("general.architecture")?;
        self.integers.get(&format!("{architecture}.{key}")).copied()
    }

    /// How the tensors are stored, as ggml numbers its types.
    pub(crate) fn tensor_types(&self) -> impl Iterator<Item = u32> {
        self.tensor_types.iter().copied()
    }

    /// The number of entries in the vocabulary.
    pub(crate) fn vocabulary_size(&self) -> Option<u64> {
        self.integers.get(VOCABULARY).copied()
    }
}

struct Reader {
    input: BufReader<File>,
    length: u64,
}

type IoResult<T> = std::io::Result<T>;

fn invalid(reason: impl Into<String>) -> std::io::Error {
    std::io::Error::new(ErrorKind::InvalidData, reason.into())
}

impl Reader {
    fn header(mut self) -> IoResult<Header> {
        if self.bytes::<4>()? != MAGIC {
            return Err(invalid("it does not begin with the letters GGUF"));
        }
        let version = self.u32()?;
        if !(2..=3).contains(&version) {
            return Err(invalid(format!("GGUF version {version} is not supported")));
        }
        let tensors = self.count("tensors")?;
        let keys = self.count("metadata keys")?;
        let mut header = Header {
            integers: HashMap::new(),
            texts: HashMap::new(),
            tensor_elements: 0,
            tensor_types: BTreeSet::new(),
        };
        for _ in 0..keys {
            self.metadata(&mut header)?;
        }
        let last_offset = self.tensors(tensors, &mut header)?;
        let alignment = header
            .integers
            .get("general.alignment")
            .copied()
            .filter(|alignment| alignment.is_power_of_two())
            .unwrap_or(DEFAULT_ALIGNMENT);
        let data_start = self.input.stream_position()?.next_multiple_of(alignment);
        if data_start.saturating_add(last_offset) >= self.length {
            return Err(invalid(format!(
                "it is cut short: {} bytes, but its last tensor begins at byte {}",
                self.length,
                data_start.saturating_add(last_offset)
            )));
        }
        Ok(header)
    }

    fn metadata(&mut self, header: &mut Header) -> IoResult<()> {
        let key = self.text(MAX_NAME_BYTES)?;
        match self.u32()? {
            ValueType::TEXT => {
                let text = self.text(MAX_TEXT_BYTES)?;
                header.texts.insert(key, text);
            }
            ValueType::ARRAY => {
                let element = self.u32()?;
                let count = self.count("array elements")?;
                if key == VOCABULARY && element == ValueType::TEXT {
                    self.vocabulary(count)?;
                    header.integers.insert(key, count);
                } else if let Some(largest) = self.array(element, count)? {
                    header.integers.insert(key, largest);
                }
            }
            scalar => {
                if let Some(value) = self.scalar(scalar)? {
                    header.integers.insert(key, value);
                }
            }
        }
        Ok(())
    }

    /// Reads past the vocabulary. llama.cpp aborts the process when two entries are the same
    /// up to the first NUL character, so that is looked for here.
    fn vocabulary(&mut self, count: u64) -> IoResult<()> {
        let mut entries = HashSet::new();
        for _ in 0..count {
            let mut entry = self.string(MAX_NAME_BYTES)?;
            let end = entry.iter().position(|byte| *byte == 0);
            entry.truncate(end.unwrap_or(entry.len()));
            if !entry.is_empty() && !entries.insert(entry) {
                return Err(invalid("its vocabulary has the same entry twice"));
            }
        }
        Ok(())
    }

    /// Reads past an array; its largest element where they are integers.
    fn array(&mut self, element: u32, count: u64) -> IoResult<Option<u64>> {
        let mut largest = None;
        for _ in 0..count {
            if element == ValueType::TEXT {
                let bytes = self.u64()?;
                self.skip(bytes)?;
            } else {
                largest = largest.max(self.scalar(element)?);
            }
        }
        Ok(largest)
    }

    /// Reads one number; `None` for floats and for negative integers.
    fn scalar(&mut self, value_type: u32) -> IoResult<Option<u64>> {
        Ok(match value_type {
            ValueType::U8 | ValueType::BOOL => Some(u64::from(self.bytes::<1>()?[0])),
            ValueType::I8 => u64::try_from(i8::from_le_bytes(self.bytes()?)).ok(),
            ValueType::U16 => Some(u64::from(u16::from_le_bytes(self.bytes()?))),
            ValueType::I16 => u64::try_from(i16::from_le_bytes(self.bytes()?)).ok(),
            ValueType::U32 => Some(u64::from(self.u32()?)),
            ValueType::I32 => u64::try_from(i32::from_le_bytes(self.bytes()?)).ok(),
            ValueType::U64 => Some(self.u64()?),
            ValueType::I64 => u64::try_from(i64::from_le_bytes(self.bytes()?)).ok(),
            ValueType::F32 => {
                self.bytes::<4>()?;
                None
            }
            ValueType::F64 => {
                self.bytes::<8>()?;
                None
            }
            other => return Err(invalid(format!("unknown metadata type {other}"))),
        })
    }

    /// Reads all tensor descriptions; returns the highest offset of a tensor's data.
    fn tensors(&mut self, count: u64, header: &mut Header) -> IoResult<u64> {
        let mut last_offset = 0;
        for _ in 0..count {
            let name = self.text(MAX_NAME_BYTES)?;
            let dimensions = self.u32()?;
            if dimensions > MAX_DIMENSIONS {
                return Err(invalid(format!(
                    "tensor '{name}' has {dimensions} dimensions"
                )));
            }
            let mut elements = 1_u64;
            for _ in 0..dimensions {
                elements = elements
                    .checked_mul(self.u64()?)
                    .ok_or_else(|| invalid(format!("the shape of tensor '{name}' overflows")))?;
            }
            header.tensor_elements = header.tensor_elements.saturating_add(elements);
            header.tensor_types.insert(self.u32()?);
            last_offset = self.u64()?.max(last_offset);
        }
        Ok(last_offset)
    }

    fn bytes<const N: usize>(&mut self) -> IoResult<[u8; N]> {
        let mut buffer = [0; N];
        self.input.read_exact(&mut buffer)?;
        Ok(buffer)
    }

    fn u32(&mut self) -> IoResult<u32> {
        Ok(u32::from_le_bytes(self.bytes()?))
    }

    fn u64(&mut self) -> IoResult<u64> {
        Ok(u64::from_le_bytes(self.bytes()?))
    }

    /// A number of items of at least one byte each, so no more than the file has bytes.
    fn count(&mut self, what: &str) -> IoResult<u64> {
        let count = self.u64()?;
        if count > self.length {
            return Err(invalid(format!("it claims to have {count} {what}")));
        }
        Ok(count)
    }

    fn text(&mut self, max_bytes: u64) -> IoResult<String> {
        let bytes = self.string(max_bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn string(&mut self, max_bytes: u64) -> IoResult<Vec<u8>> {
        let length = self.u64()?;
        if length > max_bytes {
            return Err(invalid(format!("it has a string of {length} bytes")));
        }
        let mut bytes = Vec::new();
        self.input.by_ref().take(length).read_to_end(&mut bytes)?;
        if (bytes.len() as u64) < length {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(bytes)
    }

    fn skip(&mut self, mut bytes: u64) -> IoResult<()> {
        while bytes > 0 {
            let buffered = self.input.fill_buf()?.len();
            if buffered == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            let step = usize::try_from(bytes).unwrap_or(usize::MAX).min(buffered);
            self.input.consume(step);
            bytes -= step as u64;
        }
        Ok(())
    }
}

/// The value types of the GGUF specification.
struct ValueType;

impl ValueType {
    const U8: u32 = 0;
    const I8: u32 = 1;
    const U16: u32 = 2;
    const I16: u32 = 3;
    const U32: u32 = 4;
    const I32: u32 = 5;
    const F32: u32 = 6;
    const BOOL: u32 = 7;
    const TEXT: u32 = 8;
    const ARRAY: u32 = 9;
    const U64: u32 = 10;
    const I64: u32 = 11;
    const F64: u32 = 12;
}

#[cfg(test)]
mod tests;
