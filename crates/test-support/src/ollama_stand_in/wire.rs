//! The stand-in's HTTP: requests in, canned answers or faults out.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::memory::State;
use super::{COMPLETIONS, Call, Fault, POLL, Spell};

/// Answers the requests of one connection until the client closes it or the host is gone.
pub(super) fn serve(stream: &TcpStream, state: &Mutex<State>, stopping: &AtomicBool) {
    let mut reader = BufReader::new(stream);
    while let Some(call) = read_call(&mut reader) {
        if state.lock().unwrap().times.is_out() {
            let _ = stream.shutdown(Shutdown::Both);
            return;
        }
        let fault = arrive(&call, state);
        let answered = await_turn(&call, state, stopping)
            && answer(stream, &call, fault.as_ref(), state, stopping).is_some();
        if call.is_completion() {
            state.lock().unwrap().in_flight -= 1;
        }
        if !answered {
            let _ = stream.shutdown(Shutdown::Both);
            return;
        }
    }
}

/// Takes note of a call, and says how it is to fail, if it is.
fn arrive(call: &Call, state: &Mutex<State>) -> Option<Fault> {
    let mut state = state.lock().unwrap();
    state.calls.push(call.clone());
    if call.is_completion() {
        state.in_flight += 1;
        state.most_in_flight = state.most_in_flight.max(state.in_flight);
    }
    let mut faults = state.faults.iter_mut();
    let (_, left, fault) = faults.find(|(path, left, _)| {
        let is_meant = *path == call.path || (path == COMPLETIONS && call.is_completion());
        is_meant && *left > 0
    })?;
    *left -= 1;
    Some(fault.clone())
}

/// Waits while completions are paused; `false` when the host went away meanwhile.
fn await_turn(call: &Call, state: &Mutex<State>, stopping: &AtomicBool) -> bool {
    while !stopping.load(Ordering::SeqCst) && !state.lock().unwrap().times.is_out() {
        if !call.is_completion() || state.lock().unwrap().admit_one() {
            return true;
        }
        thread::sleep(POLL);
    }
    false
}

/// Answers or fails one call; `None` where the connection is to end.
fn answer(
    mut stream: &TcpStream,
    call: &Call,
    fault: Option<&Fault>,
    state: &Mutex<State>,
    stopping: &AtomicBool,
) -> Option<()> {
    let (status, body) = match fault {
        Some(Fault::Status(status, message)) => (*status, json!({"error": message}).to_string()),
        Some(Fault::PlainText(status, text)) => (*status, (*text).to_owned()),
        Some(Fault::ErrorLine(message)) => {
            let begun = json!({"message": {"content": "half an"}, "done": false});
            (200, format!("{begun}\n{}\n", json!({"error": message})))
        }
        Some(Fault::CutMidBody) => {
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-length: 999\r\n\r\n{{\"mess"
            );
            return None;
        }
        Some(Fault::Slow(_) | Fault::DoneButLate(_)) | None => {
            if let Some(Fault::Slow(delay)) = fault {
                thread::sleep(*delay);
            }
            // As on the real host, what nobody waits for any more is not done.
            if stopping.load(Ordering::SeqCst) || is_closed(stream) {
                return None;
            }
            let (status, body) = paced_answer(call, state, stopping)?;
            if let Some(Fault::DoneButLate(delay)) = fault {
                thread::sleep(*delay);
            }
            (status, body.to_string())
        }
    };
    let head = format!(
        "HTTP/1.1 {status} Stand-In\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).ok()
}

/// Answers after the time that the model takes here; `None` if the host went away meanwhile.
fn paced_answer(call: &Call, state: &Mutex<State>, stopping: &AtomicBool) -> Option<(u16, Value)> {
    let (answer, spells, outages) = {
        let mut state = state.lock().unwrap();
        let loads = state.loads.len();
        // The memory is taken from the beginning of a load.
        let answer = state.answer(&call.path, &call.body);
        let model = call.body["model"].as_str().unwrap_or_default().to_owned();
        let pace = state.times.pace(&model);
        let load = (state.loads.len() > loads).then_some((true, pace.load));
        let completion = call.is_completion().then_some((false, pace.completion));
        let spells = load.into_iter().chain(completion);
        let spells: Vec<_> = spells.filter(|(_, length)| !length.is_zero()).collect();
        (answer, (model, spells), state.times.outages.len())
    };
    let (model, spells) = spells;
    for (is_load, length) in spells {
        let from = Instant::now();
        while from.elapsed() < length {
            thread::sleep(POLL.min(length.saturating_sub(from.elapsed())));
            let went_away = state.lock().unwrap().times.outages.len() > outages;
            if went_away || stopping.load(Ordering::SeqCst) {
                return None;
            }
        }
        state.lock().unwrap().times.spells.push(Spell {
            model: model.clone(),
            is_load,
            from,
            to: Instant::now(),
        });
    }
    Some(answer)
}

fn is_closed(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let seen = stream.peek(&mut [0]);
    stream.set_nonblocking(false).unwrap();
    matches!(seen, Ok(0)) || seen.is_err_and(|error| error.kind() != ErrorKind::WouldBlock)
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
