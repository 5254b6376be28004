//! The state machine of the desk: keys in, effects out. No terminal, no clock, no store.

use assize_domain::case::Case;
use assize_domain::rubric::Rubric;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::{Progress, Refused, Verdict};

pub mod editor;
pub mod sheet;

use editor::{Edited, Editor};
use sheet::Sheet;

/// What the caller must do after a key.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    None,
    /// Store this verdict, then call [`App::kept`] or [`App::refused`].
    Submit(Verdict),
    /// More cases are needed: call [`App::take`].
    Fetch,
    /// Quit; the sitting stays open.
    Quit,
    /// Quit and finish the sitting.
    Finish,
}

/// The input mode.
#[derive(Debug, Clone, PartialEq)]
pub enum Mode {
    Score,
    Rationale(Editor),
    Help,
    /// The judge is asked whether the sitting is to be finished.
    Finishing,
    /// A full-screen text, scrolled to this line.
    Reading(Page, u16),
    /// Nothing is left for this judge.
    Done,
}

/// What can be shown on the full screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Page {
    /// Context and candidate.
    Case,
    Rubric,
}

/// The desk.
#[derive(Debug)]
pub struct App {
    pub title: String,
    pub rubric: Rubric,
    pub mode: Mode,
    /// Cases in the order in which they are shown.
    pub sheets: Vec<Sheet>,
    pub position: usize,
    /// The criterion that digits go to.
    pub focus: usize,
    /// How far the candidate is scrolled down.
    pub scroll: u16,
    pub message: String,
    pub progress: Progress,
    /// The mean time per case so far, if known.
    pub seconds_per_case: Option<f64>,
    /// Flags with the keys that toggle them.
    pub flag_keys: Vec<(String, char)>,
    /// How to quit once the case on the screen has been stored.
    leaving: Option<Effect>,
}

const SKIPPED: &str = "Skipped: the case is shown again at the end.";
const NO_OTHER_CASE: &str = "There is no other case: score this one, or quit with q.";

/// Letters that have another function.
const TAKEN: &str = "?qQrnusjkehvc";

impl App {
    pub fn new(title: &str, rubric: Rubric) -> Self {
        let flag_keys = flag_keys(&rubric);
        Self {
            title: title.to_owned(),
            rubric,
            mode: Mode::Score,
            sheets: Vec::new(),
            position: 0,
            focus: 0,
            scroll: 0,
            message: String::new(),
            progress: Progress::default(),
            seconds_per_case: None,
            flag_keys,
            leaving: None,
        }
    }

    /// The case on the screen.
    pub fn sheet(&self) -> Option<&Sheet> {
        self.sheets.get(self.position)
    }

    fn sheet_mut(&mut self) -> Option<&mut Sheet> {
        self.sheets.get_mut(self.position)
    }

    /// Adds the cases that are held and not yet scored, before those that were skipped; known cases
    /// are not changed.
    pub fn take(&mut self, cases: Vec<Case>) {
        let mut place = self.sheets.len() - self.skipped();
        for case in cases {
            if !self.sheets.iter().any(|sheet| sheet.case.case == case.case) {
                self.sheets.insert(place, Sheet::new(case, &self.rubric));
                place += 1;
                if self.message == NO_OTHER_CASE {
                    self.say(SKIPPED);
                }
            }
        }
        self.mode = if self.position < self.sheets.len() {
            Mode::Score
        } else {
            Mode::Done
        };
    }

    /// How many cases were skipped; they come last.
    pub fn skipped(&self) -> usize {
        let ahead = self.sheets.iter().rev();
        ahead.take_while(|sheet| sheet.is_skipped()).count()
    }

    /// The verdict of the case on the screen has been stored.
    pub fn kept(&mut self) -> Effect {
        if let Some(sheet) = self.sheet_mut() {
            sheet.keep();
        }
        match self.leaving.take() {
            Some(effect) => effect,
            None => self.forward(),
        }
    }

    /// The verdict of the case on the screen was rejected.
    pub fn refused(&mut self, refused: Refused) -> Effect {
        self.leaving = None;
        if refused.gone && self.position < self.sheets.len() {
            self.sheets.remove(self.position);
        }
        self.message = refused.message;
        self.arrive()
    }

    /// Pasted text is only accepted by the rationale.
    pub fn paste(&mut self, text: &str) {
        if let Mode::Rationale(editor) = &mut self.mode {
            editor.insert(text);
        }
    }

    pub fn key(&mut self, key: KeyEvent) -> Effect {
        let is_interrupt =
            key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
        if is_interrupt {
            return self.leave(Effect::Quit);
        }
        match &mut self.mode {
            Mode::Help => {
                self.mode = if self.sheet().is_some() {
                    Mode::Score
                } else {
                    Mode::Done
                };
                Effect::None
            }
            Mode::Reading(_, line) => {
                match key.code {
                    KeyCode::Down | KeyCode::Char('j') => *line = line.saturating_add(1),
                    KeyCode::Up | KeyCode::Char('k') => *line = line.saturating_sub(1),
                    KeyCode::PageDown | KeyCode::Char(' ') => *line = line.saturating_add(10),
                    KeyCode::PageUp => *line = line.saturating_sub(10),
                    _ => self.mode = Mode::Score,
                }
                Effect::None
            }
            Mode::Rationale(editor) => {
                match editor.key(key) {
                    Edited::Going => return Effect::None,
                    Edited::Done(text) => {
                        if let Some(sheet) = self.sheet_mut() {
                            sheet.set_rationale(text);
                        }
                    }
                    Edited::Left => {}
                }
                self.mode = Mode::Score;
                Effect::None
            }
            Mode::Done => match key.code {
                KeyCode::Left | KeyCode::Char('u') => self.back(),
                KeyCode::Char('?') => self.help(),
                KeyCode::Enter | KeyCode::Right | KeyCode::Char('n') => Effect::Fetch,
                KeyCode::Char('q' | 'Q') | KeyCode::Esc => Effect::Finish,
                _ => Effect::None,
            },
            Mode::Finishing => {
                self.mode = Mode::Score;
                self.message.clear();
                match key.code {
                    KeyCode::Char('y' | 'Y') => self.leave(Effect::Finish),
                    _ => Effect::None,
                }
            }
            Mode::Score => self.score_key(key),
        }
    }

    fn score_key(&mut self, key: KeyEvent) -> Effect {
        self.message.clear();
        let criteria = self.rubric.criteria.len();
        match key.code {
            KeyCode::Char('?' | 'h') => return self.help(),
            KeyCode::Char('q') | KeyCode::Esc => return self.leave(Effect::Quit),
            KeyCode::Char('Q') => return self.ask_to_finish(),
            KeyCode::Char('r' | 'e') => {
                let text = self.sheet().map(|sheet| sheet.rationale.clone());
                self.mode = Mode::Rationale(Editor::new(&text.unwrap_or_default()));
            }
            KeyCode::Char('v') => self.mode = Mode::Reading(Page::Rubric, 0),
            KeyCode::Char('c') => self.mode = Mode::Reading(Page::Case, 0),
            KeyCode::Char('u') => return self.undo(),
            KeyCode::Char('s') => return self.skip(),
            KeyCode::Left => return self.back(),
            KeyCode::Enter | KeyCode::Right | KeyCode::Char('n') => return self.hand_in(),
            KeyCode::Tab | KeyCode::Down | KeyCode::Char('j') => {
                self.focus = (self.focus + 1) % criteria.max(1);
            }
            KeyCode::BackTab | KeyCode::Up | KeyCode::Char('k') => {
                self.focus = (self.focus + criteria.saturating_sub(1)) % criteria.max(1);
            }
            KeyCode::PageDown | KeyCode::Char(' ') => self.scroll = self.scroll.saturating_add(5),
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(5),
            KeyCode::Char('+') => self.step(1),
            KeyCode::Char('-') => self.step(-1),
            KeyCode::Char(digit @ '0'..='9') => self.digit(digit),
            KeyCode::Char(letter) => self.turn_flag(letter),
            _ => {}
        }
        Effect::None
    }

    fn say(&mut self, words: &str) {
        words.clone_into(&mut self.message);
    }

    fn help(&mut self) -> Effect {
        self.mode = Mode::Help;
        Effect::None
    }

    fn digit(&mut self, digit: char) {
        let score = i64::from(digit.to_digit(10).unwrap_or(0));
        let Some(criterion) = self.rubric.criteria.get(self.focus) else {
            return;
        };
        let (name, min, max) = (criterion.name.clone(), criterion.min, criterion.max);
        if !(min..=max).contains(&score) {
            self.message = format!("{name} runs from {min} to {max}");
            return;
        }
        if let Some(sheet) = self.sheet_mut() {
            sheet.set_score(&name, score);
        }
        self.focus_next_open();
    }

    /// For scales that digits do not reach.
    fn step(&mut self, by: i64) {
        let Some(criterion) = self.rubric.criteria.get(self.focus).cloned() else {
            return;
        };
        if let Some(sheet) = self.sheet_mut() {
            let first = if by > 0 { criterion.min } else { criterion.max };
            let score = sheet.score(&criterion.name).map_or(first, |it| it + by);
            sheet.set_score(&criterion.name, score.clamp(criterion.min, criterion.max));
        }
    }

    fn turn_flag(&mut self, letter: char) {
        let flag = self.flag_keys.iter().find(|(_, key)| *key == letter);
        let Some((name, _)) = flag.cloned() else {
            self.message = format!("'{letter}' is not a key here; ? shows the keys");
            return;
        };
        if let Some(sheet) = self.sheet_mut() {
            sheet.turn_flag(&name);
        }
    }

    /// Moves to the next criterion without a score, if there is one.
    fn focus_next_open(&mut self) {
        let criteria = &self.rubric.criteria;
        let count = criteria.len();
        let Some(sheet) = self.sheets.get(self.position) else {
            return;
        };
        let open = (1..=count)
            .map(|step| (self.focus + step) % count)
            .find(|place| sheet.score(&criteria[*place].name).is_none());
        self.focus = open.unwrap_or(self.focus);
    }

    fn undo(&mut self) -> Effect {
        if self.sheet_mut().is_some_and(Sheet::undo) {
            Effect::None
        } else {
            self.back()
        }
    }

    /// Moves the case to the end: after all that are held, and after those that are fetched later.
    fn skip(&mut self) -> Effect {
        if self.position >= self.sheets.len() {
            return Effect::Fetch;
        }
        let is_last = self.position + 1 == self.sheets.len();
        let mut sheet = self.sheets.remove(self.position);
        sheet.skip();
        self.sheets.push(sheet);
        self.say(if is_last { NO_OTHER_CASE } else { SKIPPED });
        self.arrive()
    }

    /// A key beside `q` must not end a sitting by mistake.
    fn ask_to_finish(&mut self) -> Effect {
        let cases = match self.progress.left {
            1 => "1 unscored case stays pending".to_owned(),
            left => format!("{left} unscored cases stay pending"),
        };
        self.message = format!("Finish the sitting? {cases}.");
        self.mode = Mode::Finishing;
        Effect::None
    }

    fn hand_in(&mut self) -> Effect {
        let Some(sheet) = self.sheet() else {
            return Effect::Fetch;
        };
        if !sheet.is_changed() && sheet.is_kept() {
            return self.forward();
        }
        match sheet.verdict(&self.rubric) {
            Ok(verdict) => Effect::Submit(verdict),
            Err(missing) => {
                self.message = format!("Still open: {}.", missing.join(", "));
                let first = self
                    .rubric
                    .criteria
                    .iter()
                    .position(|it| missing.contains(&it.name));
                self.focus = first.unwrap_or(self.focus);
                Effect::None
            }
        }
    }

    fn forward(&mut self) -> Effect {
        self.position = (self.position + 1).min(self.sheets.len());
        self.arrive()
    }

    /// Shows the case at this position. Before a case that was skipped, others are fetched.
    fn arrive(&mut self) -> Effect {
        self.focus = 0;
        self.scroll = 0;
        match self.sheet() {
            Some(sheet) if !sheet.is_skipped() => Effect::None,
            _ => Effect::Fetch,
        }
    }

    fn back(&mut self) -> Effect {
        if self.position == 0 {
            self.say("This is the first case of this sitting.");
        } else {
            self.position -= 1;
            self.focus = 0;
            self.scroll = 0;
            self.mode = Mode::Score;
        }
        Effect::None
    }

    /// A complete case is submitted before the desk closes; an incomplete one stays pending.
    fn leave(&mut self, effect: Effect) -> Effect {
        let unsaved = self.sheet().filter(|sheet| sheet.is_changed());
        match unsaved.map(|sheet| sheet.verdict(&self.rubric)) {
            Some(Ok(verdict)) if self.leaving.is_none() => {
                self.leaving = Some(effect);
                Effect::Submit(verdict)
            }
            _ => effect,
        }
    }
}

/// Each flag gets a letter of its name, the first that is not used yet.
fn flag_keys(rubric: &Rubric) -> Vec<(String, char)> {
    let mut keys: Vec<(String, char)> = Vec::new();
    for flag in &rubric.flags {
        let letters = flag.name.chars().filter(char::is_ascii_alphabetic);
        let free = letters
            .map(|letter| letter.to_ascii_lowercase())
            .chain('a'..='z')
            .chain('A'..='Z')
            .find(|key| !TAKEN.contains(*key) && !keys.iter().any(|(_, used)| used == key));
        keys.extend(free.map(|key| (flag.name.clone(), key)));
    }
    keys
}

#[cfg(test)]
mod tests;
