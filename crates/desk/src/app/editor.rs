//! A single-line text editor.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// The longest rationale.
const MOST_CHARS: usize = 4000;

/// A text being edited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Editor {
    chars: Vec<char>,
    cursor: usize,
}

/// What a key did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edited {
    Going,
    Done(String),
    /// The text stays as it was before.
    Left,
}

impl Editor {
    pub fn new(text: &str) -> Self {
        let chars: Vec<char> = text.chars().collect();
        Self {
            cursor: chars.len(),
            chars,
        }
    }

    /// The text before and after the cursor.
    pub fn parts(&self) -> (String, String) {
        let (before, after) = self.chars.split_at(self.cursor);
        (before.iter().collect(), after.iter().collect())
    }

    /// Inserts text at the cursor. Line ends and other control characters become spaces.
    pub fn insert(&mut self, text: &str) {
        let room = MOST_CHARS.saturating_sub(self.chars.len());
        let shown = |c: char| if c.is_control() { ' ' } else { c };
        let fresh: Vec<char> = text.chars().map(shown).take(room).collect();
        let count = fresh.len();
        self.chars.splice(self.cursor..self.cursor, fresh);
        self.cursor += count;
    }

    pub(super) fn key(&mut self, key: KeyEvent) -> Edited {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Enter => return Edited::Done(self.chars.iter().collect()),
            KeyCode::Esc => return Edited::Left,
            KeyCode::Char('u') if control => {
                self.chars.drain(..self.cursor);
                self.cursor = 0;
            }
            KeyCode::Char('w') if control => {
                let start = self.word_start();
                self.chars.drain(start..self.cursor);
                self.cursor = start;
            }
            KeyCode::Char('a') if control => self.cursor = 0,
            KeyCode::Char('e') if control => self.cursor = self.chars.len(),
            KeyCode::Char(_) if control => {}
            KeyCode::Char(letter) => self.insert(letter.encode_utf8(&mut [0; 4])),
            KeyCode::Backspace if self.cursor > 0 => {
                self.cursor -= 1;
                self.chars.remove(self.cursor);
            }
            KeyCode::Delete if self.cursor < self.chars.len() => {
                self.chars.remove(self.cursor);
            }
            KeyCode::Left => self.cursor = self.cursor.saturating_sub(1),
            KeyCode::Right => self.cursor = (self.cursor + 1).min(self.chars.len()),
            KeyCode::Home => self.cursor = 0,
            KeyCode::End => self.cursor = self.chars.len(),
            _ => {}
        }
        Edited::Going
    }

    fn word_start(&self) -> usize {
        let before = &self.chars[..self.cursor];
        let word_end = before.iter().rposition(|c| *c != ' ').unwrap_or(0);
        before[..word_end]
            .iter()
            .rposition(|c| *c == ' ')
            .map_or(0, |space| space + 1)
    }
}
