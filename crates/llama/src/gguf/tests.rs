use super::*;

/// Builds small GGUF files by hand.
struct Builder(Vec<u8>);

impl Builder {
    fn new(tensors: u64, keys: u64) -> Self {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(3_u32.to_le_bytes());
        bytes.extend(tensors.to_le_bytes());
        bytes.extend(keys.to_le_bytes());
        Self(bytes)
    }

    fn text(mut self, text: &str) -> Self {
        self.0.extend((text.len() as u64).to_le_bytes());
        self.0.extend(text.as_bytes());
        self
    }

    fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn read(&self) -> Result<Header, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &self.0).unwrap();
        Header::read(file.path())
    }
}

/// One tensor of 4 × 3 elements, an architecture, an integer and an array of integers.
fn model(data_bytes: usize) -> Builder {
    let mut builder = Builder::new(1, 3)
        .text("general.architecture")
        .u32(ValueType::TEXT)
        .text("llama")
        .text("llama.context_length")
        .u32(ValueType::U32)
        .u32(8192)
        .text("llama.attention.head_count_kv")
        .u32(ValueType::ARRAY)
        .u32(ValueType::U32)
        .u64(2)
        .u32(3)
        .u32(2)
        .text("output.weight")
        .u32(2)
        .u64(4)
        .u64(3)
        .u32(0)
        .u64(0);
    let header_bytes = builder.0.len().next_multiple_of(32);
    builder.0.resize(header_bytes + data_bytes, 0);
    builder
}

#[test]
fn parameters_are_counted_from_shapes_where_metadata_is_silent() {
    let header = model(48).read().unwrap();
    assert_eq!(header.parameter_count(), 12);
    assert_eq!(header.architecture_integer("context_length"), Some(8192));
    assert_eq!(
        header.architecture_integer("attention.head_count_kv"),
        Some(3)
    );
    assert_eq!(header.architecture_integer("block_count"), None);
}

#[test]
fn metadata_wins_over_counting() {
    let mut header = model(48).read().unwrap();
    header
        .integers
        .insert("general.parameter_count".to_owned(), 7);
    assert_eq!(header.parameter_count(), 7);
}

#[test]
fn missing_tensor_data_is_noticed() {
    let reason = model(0).read().unwrap_err();
    assert!(reason.contains("cut short"), "{reason}");
}

#[test]
fn every_truncation_of_the_header_is_an_error() {
    let whole = model(48);
    for length in 0..whole.0.len() - 48 {
        let cut = Builder(whole.0[..length].to_vec());
        assert!(cut.read().is_err(), "{length} bytes were accepted");
    }
}

#[test]
fn nonsense_is_refused_with_a_reason() {
    let html = Builder(b"<!doctype html><title>not found</title>".to_vec());
    assert!(html.read().unwrap_err().contains("letters GGUF"));

    let many = Builder::new(u64::MAX, 0).read().unwrap_err();
    assert!(many.contains("tensors"), "{many}");

    let long = Builder::new(0, 1).u64(u64::MAX).read().unwrap_err();
    assert!(long.contains("string"), "{long}");

    let overflow = Builder::new(1, 0)
        .text("t")
        .u32(2)
        .u64(u64::MAX)
        .u64(2)
        .u32(0)
        .u64(0)
        .read()
        .unwrap_err();
    assert!(overflow.contains("overflows"), "{overflow}");
}

#[test]
fn a_vocabulary_with_the_same_entry_twice_is_refused() {
    let vocabulary = |second: &str| {
        let mut builder = Builder::new(0, 1)
            .text(VOCABULARY)
            .u32(ValueType::ARRAY)
            .u32(ValueType::TEXT)
            .u64(2)
            .text("ab")
            .text(second);
        builder.0.extend([0; 64]);
        builder.read()
    };
    assert_eq!(vocabulary("ac").unwrap().vocabulary_size(), Some(2));
    assert!(vocabulary("ab").unwrap_err().contains("twice"));
    assert!(vocabulary("ab\0c").unwrap_err().contains("twice"));
}
