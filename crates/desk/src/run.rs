//! Connects the desk to a terminal and to its queue of cases.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossterm::event::{self, DisableBracketedPaste, EnableBracketedPaste, Event, KeyEventKind};
use crossterm::execute;
use crossterm::terminal::{Clear, ClearType};

use crate::Source;
use crate::app::{App, Effect};
use crate::view::{self, Theme};

/// How often an idle desk checks whether it should stop.
const TICK: Duration = Duration::from_millis(200);
/// How often the leases are renewed while the desk is open.
const RENEW: Duration = Duration::from_mins(2);

/// How the desk was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The judge quit; the sitting stays open.
    Left,
    /// The judge finished the sitting.
    Finished,
    /// A signal ended it.
    Stopped,
}

/// Runs the desk until the judge quits or `stop` is set. Restores the terminal before it returns,
/// also after a panic.
pub fn run(
    app: &mut App,
    source: &mut dyn Source,
    theme: Theme,
    stop: &AtomicBool,
) -> io::Result<Ended> {
    let cases = source.next(0).map_err(io::Error::other)?;
    app.take(cases);
    let mut terminal = ratatui::try_init()?;
    // Not every terminal gives an empty alternate screen.
    execute!(io::stdout(), Clear(ClearType::All))?;
    // A terminal without bracketed paste pastes as keys.
    let _ = execute!(io::stdout(), EnableBracketedPaste);
    let mut desk = Desk {
        app,
        source,
        started: Instant::now(),
        renewed: Instant::now(),
        kept: 0,
    };
    let ended = desk.sit(&mut terminal, theme, stop);
    let _ = execute!(io::stdout(), DisableBracketedPaste);
    ratatui::restore();
    ended
}

/// Waits for a key and reports whether the terminal has been closed. Without this check, reading
/// from a closed terminal would never return.
#[cfg(unix)]
fn is_gone(at_most: Duration) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let keys = io::stdin();
    let mut watched = [PollFd::new(&keys, PollFlags::IN)];
    let wait = Timespec::try_from(at_most).ok();
    // A signal ends the wait early, which does no harm.
    let _ = poll(&mut watched, wait.as_ref());
    let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    watched[0].revents().intersects(gone)
}

#[cfg(not(unix))]
fn is_gone(at_most: Duration) -> bool {
    let _ = event::poll(at_most);
    false
}

struct Desk<'a> {
    app: &'a mut App,
    source: &'a mut dyn Source,
    started: Instant,
    renewed: Instant,
    kept: u32,
}

impl Desk<'_> {
    fn sit(
        &mut self,
        terminal: &mut ratatui::DefaultTerminal,
        theme: Theme,
        stop: &AtomicBool,
    ) -> io::Result<Ended> {
        loop {
            self.app.progress = self.source.progress();
            terminal.draw(|frame| view::draw(frame, self.app, theme))?;
            if let Some(ended) = self.wait(stop)? {
                return Ok(ended);
            }
            // Keys that came together are in the reader's buffer already: all of them are handled
            // before the screen is drawn again.
            while !stop.load(Ordering::Relaxed) && !is_gone(Duration::ZERO) {
                if !event::poll(Duration::ZERO)? {
                    break;
                }
                let effect = self.take(&event::read()?);
                if let Some(ended) = self.carry_out(effect) {
                    return Ok(ended);
                }
                self.app.progress = self.source.progress();
            }
        }
    }

    /// Waits until there is something to read, or something to show.
    fn wait(&mut self, stop: &AtomicBool) -> io::Result<Option<Ended>> {
        loop {
            if stop.load(Ordering::Relaxed) || is_gone(TICK) {
                return Ok(Some(Ended::Stopped));
            }
            if event::poll(Duration::ZERO)? {
                return Ok(None);
            }
            if self.renewed.elapsed() >= RENEW {
                self.renewed = Instant::now();
                if let Err(message) = self.source.renew() {
                    self.app.message = message;
                    return Ok(None);
                }
            }
        }
    }

    fn take(&mut self, event: &Event) -> Effect {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.app.key(*key),
            Event::Paste(text) => {
                self.app.paste(text);
                Effect::None
            }
            _ => Effect::None,
        }
    }

    /// Carries out an effect; returns how the desk is closed, if it is.
    fn carry_out(&mut self, mut effect: Effect) -> Option<Ended> {
        loop {
            effect = match effect {
                Effect::None => return None,
                Effect::Quit => return Some(Ended::Left),
                Effect::Finish => return Some(Ended::Finished),
                Effect::Fetch => {
                    match self.source.next(self.app.skipped()) {
                        Ok(cases) => self.app.take(cases),
                        Err(message) => self.app.message = message,
                    }
                    Effect::None
                }
                Effect::Submit(verdict) => match self.source.submit(verdict) {
                    Ok(()) => {
                        self.kept += 1;
                        let seconds = self.started.elapsed().as_secs_f64();
                        self.app.seconds_per_case = Some(seconds / f64::from(self.kept));
                        self.app.kept()
                    }
                    Err(refused) => self.app.refused(refused),
                },
            };
        }
    }
}
