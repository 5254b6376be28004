//! The stand-in's HTTP: requests in, canned answers or faults out.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::memory::State;
use super::{Call, Fault};

/// Answers the requests of one connection until the client closes it.
pub(super) fn serve(stream: &TcpStream, state: &Mutex<State>) {
    let mut reader = BufReader::new(stream);
    while let Some(call) = read_call(&mut reader) {
        let fault = {
            let mut state = state.lock().unwrap();
            state.calls.push(call.clone());
            let faults = &mut state.faults;
            let position = faults
                .iter()
                .position(|(path, left, _)| *path == call.path && *left > 0);
            position.map(|position| {
                faults[position].1 -= 1;
                faults[position].2.clone()
            })
        };
        let answered = || state.lock().unwrap().answer(&call.path, &call.body);
        let (status, body) = match fault {
            Some(Fault::Status(status, message)) => (status, json!({"error": message}).to_string()),
            Some(Fault::PlainText(status, text)) => (status, text.to_owned()),
            Some(Fault::ErrorLine(message)) => {
                let begun = json!({"message": {"content": "half an"}, "done": false});
                (200, format!("{begun}\n{}\n", json!({"error": message})))
            }
            Some(Fault::CutMidBody) => {
                let _ = write!(
                    &mut &*stream,
                    "HTTP/1.1 200 OK\r\ncontent-length: 999\r\n\r\n{{\"mess"
                );
                let _ = stream.shutdown(std::net::Shutdown::Both);
                return;
            }
            Some(Fault::Slow(delay)) => {
                thread::sleep(delay);
                let (status, body) = answered();
                (status, body.to_string())
            }
            None => {
                let (status, body) = answered();
                (status, body.to_string())
            }
        };
        let head = format!(
            "HTTP/1.1 {status} Stand-In\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        if (&mut &*stream)
            .write_all((head + &body).as_bytes())
            .is_err()
        {
            return;
        }
    }
}

fn read_call(reader: &mut BufReader<&TcpStream>) -> Option<Call> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let header = header.trim().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    Some(Call { method, path, body })
}

/// The instant in UTC; the calendar is Howard Hinnant's `civil_from_days`.
pub(super) fn rfc3339(at: SystemTime) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap();
    let (days, second) = (since.as_secs() / 86_400 + 719_468, since.as_secs() % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!(
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:09}Z",
        since.subsec_nanos()
    )
}
