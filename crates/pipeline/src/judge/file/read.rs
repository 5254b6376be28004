//! Reading a judge file as a stream: its head, and its cases one at a time.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};

use assize_domain::case::FileProblem;
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::Value;

use super::FORMAT;
use super::check::{FilledCase, FilledHead};
use crate::{PipelineError, Result};

/// Cases that travel together, and how many such batches may wait.
const BATCH: usize = 128;
const BATCHES_AHEAD: usize = 4;
const BUFFER_BYTES: usize = 256 * 1024;
/// Some editors put it before the text.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
/// The error by which a visitor stops the parser; never shown.
const ENOUGH: &str = "enough";

/// Where a filled judge file is.
#[derive(Debug, Clone, Copy)]
pub enum Source<'a> {
    Text(&'a str),
    File(&'a Path),
}

/// What was read, or what is wrong with the file as JSON.
type Read<T> = std::result::Result<T, FileProblem>;

/// Takes the position of a case and the case; `false` ends the reading.
pub(in crate::judge) type VisitCase<'a> = &'a mut dyn FnMut(usize, &FilledCase) -> bool;

/// How much of each case is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::judge) enum Depth {
    Whole,
    /// All but what was handed out: context and candidate.
    Scores,
}

impl<'a> Source<'a> {
    /// Buffered outside of the box, because the parser reads single bytes.
    fn open(self) -> Result<BufReader<Box<dyn io::Read + 'a>>> {
        let unreadable = |error: io::Error| PipelineError::File {
            path: match self {
                Self::Text(_) => "the judge file".to_owned(),
                Self::File(path) => path.display().to_string(),
            },
            reason: error.to_string(),
        };
        let content: Box<dyn io::Read + 'a> = match self {
            Self::Text(text) => Box::new(text.as_bytes()),
            Self::File(path) => Box::new(File::open(path).map_err(unreadable)?),
        };
        let mut reader = BufReader::with_capacity(BUFFER_BYTES, content);
        let marked = reader
            .fill_buf()
            .map_err(unreadable)?
            .starts_with(BYTE_ORDER_MARK);
        if marked {
            reader.consume(BYTE_ORDER_MARK.len());
        }
        Ok(reader)
    }

    /// Visits every case; `false` where the file has no list of them. One thread parses, this
    /// one visits; a few batches of cases are in flight at most.
    pub(in crate::judge) fn cases_each(
        self,
        depth: Depth,
        visit: VisitCase<'_>,
    ) -> Result<Read<bool>> {
        std::thread::scope(|scope| {
            let (batches, parsed) = sync_channel(BATCHES_AHEAD);
            let parsing = scope.spawn(move || self.parse(depth, &batches));
            let mut position = 0;
            'cases: for batch in parsed {
                for case in &batch {
                    if !visit(position, case) {
                        break 'cases;
                    }
                    position += 1;
                }
            }
            parsing
                .join()
                .unwrap_or_else(|_| Err(PipelineError::worker_panicked()))
        })
    }

    /// Sends all cases on, until the receiver is gone.
    fn parse(self, depth: Depth, batches: &SyncSender<Vec<FilledCase>>) -> Result<Read<bool>> {
        let mut stopped = false;
        let mut found = false;
        let mut batch = Vec::with_capacity(BATCH);
        let mut reader = serde_json::Deserializer::from_reader(self.open()?);
        let whole = Whole {
            take: &mut |case| {
                batch.push(case);
                if batch.len() == BATCH {
                    let full = std::mem::replace(&mut batch, Vec::with_capacity(BATCH));
                    stopped = batches.send(full).is_err();
                }
                !stopped
            },
            found: &mut found,
            depth,
        };
        let read = reader.deserialize_map(whole).and_then(|()| reader.end());
        let _ = batches.send(batch);
        Ok(match read {
            Err(error) if !stopped => Err(broken(&error)),
            _ => Ok(found),
        })
    }
}

/// The head, wherever in the file it stands.
pub(in crate::judge) fn head_read(source: Source<'_>) -> Result<Read<FilledHead>> {
    let mut head = FilledHead::default();
    let mut reader = serde_json::Deserializer::from_reader(source.open()?);
    let read = reader.deserialize_map(Head(&mut head));
    Ok(match read {
        Err(error) if !is_complete(&head) => Err(broken(&error)),
        _ => Ok(head),
    })
}

fn is_complete(head: &FilledHead) -> bool {
    let parts = [
        &head.assize,
        &head.experiment,
        &head.sitting,
        &head.rubric,
        &head.judge,
    ];
    parts.iter().all(|part| !part.is_null())
}

/// The id of the sitting that a head names, where this is a judge file at all.
pub(in crate::judge) fn head_seen(head: &FilledHead) -> Read<String> {
    if head.assize.as_str() != Some(FORMAT) {
        return Err(FileProblem {
            pointer: "/assize".to_owned(),
            message: format!("is not \"{FORMAT}\": this is not a judge file"),
        });
    }
    let id = head.sitting.as_str().map(str::to_owned);
    id.ok_or_else(|| FileProblem {
        pointer: "/sitting".to_owned(),
        message: "is missing: a judge file keeps the sitting it was exported with".to_owned(),
    })
}

fn broken(error: &serde_json::Error) -> FileProblem {
    let text = error.to_string();
    let kind = text
        .strip_prefix("invalid type: ")
        .and_then(|rest| rest.split_once(", expected"));
    let message = match kind {
        Some((kind, _)) => {
            let kind = if kind == "sequence" { "array" } else { kind };
            format!("is JSON, but of the kind {kind}: a judge file is an object")
        }
        None if error.is_data() => text,
        None => format!("is not JSON: {error}"),
    };
    FileProblem {
        pointer: "/".to_owned(),
        message,
    }
}

struct Head<'a>(&'a mut FilledHead);

impl<'de> Visitor<'de> for Head<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a judge file")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            let part: &mut Value = match name.as_str() {
                "assize" => &mut self.0.assize,
                "experiment" => &mut self.0.experiment,
                "sitting" => &mut self.0.sitting,
                "rubric" => &mut self.0.rubric,
                "judge" => &mut self.0.judge,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            *part = map.next_value()?;
            if is_complete(self.0) {
                // The cases come later, and are read by themselves.
                return Err(A::Error::custom(ENOUGH));
            }
        }
        Ok(())
    }
}

/// Takes a case; `false` ends the reading.
type TakeCase<'a> = &'a mut dyn FnMut(FilledCase) -> bool;

struct Whole<'a, 'v> {
    take: TakeCase<'v>,
    found: &'a mut bool,
    depth: Depth,
}

impl<'de> Visitor<'de> for Whole<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a judge file")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            if name != "cases" {
                map.next_value::<IgnoredAny>()?;
            } else if *self.found {
                return Err(A::Error::custom("there are two lists of cases"));
            } else {
                let cases = Cases {
                    take: &mut *self.take,
                    depth: self.depth,
                };
                *self.found = map.next_value_seed(cases)?;
            }
        }
        Ok(())
    }
}

/// The list of cases; `false` where it is something else.
struct Cases<'v> {
    take: TakeCase<'v>,
    depth: Depth,
}

impl<'de> DeserializeSeed<'de> for Cases<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> std::result::Result<bool, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Cases<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the list of cases")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> std::result::Result<bool, A::Error> {
        while let Some(case) = seq.next_element_seed(One(self.depth))? {
            if !(self.take)(case) {
                return Err(A::Error::custom(ENOUGH));
            }
        }
        Ok(true)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<bool, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(false)
    }

    fn visit_unit<E>(self) -> std::result::Result<bool, E> {
        Ok(false)
    }

    fn visit_bool<E>(self, _: bool) -> std::result::Result<bool, E> {
        Ok(false)
    }

    fn visit_u64<E>(self, _: u64) -> std::result::Result<bool, E> {
        Ok(false)
    }

    fn visit_i64<E>(self, _: i64) -> std::result::Result<bool, E> {
        Ok(false)
    }

    fn visit_f64<E>(self, _: f64) -> std::result::Result<bool, E> {
        Ok(false)
    }

    fn visit_str<E>(self, _: &str) -> std::result::Result<bool, E> {
        Ok(false)
    }
}

/// One case; a value that is not an object reads as an empty case.
struct One(Depth);

#[derive(serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Field {
    Case,
    Context,
    Candidate,
    Scores,
    Rationale,
    #[serde(other)]
    Other,
}

impl<'de> DeserializeSeed<'de> for One {
    type Value = FilledCase;

    fn deserialize<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> std::result::Result<FilledCase, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for One {
    type Value = FilledCase;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a case")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<FilledCase, A::Error> {
        let mut case = FilledCase::default();
        while let Some(field) = map.next_key::<Field>()? {
            let part = match field {
                Field::Case => &mut case.case,
                Field::Scores => &mut case.scores,
                Field::Rationale => &mut case.rationale,
                Field::Context if self.0 == Depth::Whole => &mut case.context,
                Field::Candidate if self.0 == Depth::Whole => &mut case.candidate,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            *part = map.next_value()?;
        }
        Ok(case)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> std::result::Result<FilledCase, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(FilledCase::default())
    }

    fn visit_unit<E>(self) -> std::result::Result<FilledCase, E> {
        Ok(FilledCase::default())
    }

    fn visit_bool<E>(self, _: bool) -> std::result::Result<FilledCase, E> {
        Ok(FilledCase::default())
    }

    fn visit_u64<E>(self, _: u64) -> std::result::Result<FilledCase, E> {
        Ok(FilledCase::default())
    }

    fn visit_i64<E>(self, _: i64) -> std::result::Result<FilledCase, E> {
        Ok(FilledCase::default())
    }

    fn visit_f64<E>(self, _: f64) -> std::result::Result<FilledCase, E> {
        Ok(FilledCase::default())
    }

    fn visit_str<E>(self, _: &str) -> std::result::Result<FilledCase, E> {
        Ok(FilledCase::default())
    }
}
