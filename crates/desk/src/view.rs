//! Draws the desk: the case on the left, the rubric on the right, the reason and the keys below.
//!
//! Nothing is shown by colour alone: the focused criterion has a marker, a chosen level a dot, a
//! flag a tick. Control characters in model output are replaced, and lines are wrapped by terminal
//! columns.

use assize_domain::rubric::Criterion;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use serde_json::Value;

use crate::app::sheet::Sheet;
use crate::app::{App, Mode, Page};
use lines::{broken, within};

pub mod lines;
mod overlays;

/// The smallest usable screen.
const SMALLEST: (u16, u16) = (60, 18);
const REASON_ROWS: u16 = 2;

/// How to draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Theme {
    pub color: bool,
}

impl Theme {
    fn accent(self) -> Style {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        if self.color {
            bold.fg(Color::Cyan)
        } else {
            bold
        }
    }

    fn warning(self) -> Style {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        if self.color {
            bold.fg(Color::Yellow)
        } else {
            bold
        }
    }
}

fn faint() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

/// Draws the whole screen.
pub fn draw(frame: &mut Frame<'_>, app: &App, theme: Theme) {
    let area = frame.area();
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        let text = format!(
            "The desk needs {} × {} characters. Enlarge this window, or press q to quit.",
            SMALLEST.0, SMALLEST.1
        );
        let shown: Vec<Line<'_>> = broken(&text, area.width.into())
            .into_iter()
            .map(Line::from)
            .collect();
        frame.render_widget(Paragraph::new(shown), area);
        return;
    }
    let rows = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(8),
        Constraint::Length(1),
        Constraint::Length(REASON_ROWS),
        Constraint::Length(1),
        Constraint::Length(1),
    ]);
    let [head, rule, body, second_rule, reason, message, keys] = rows.areas(area);
    frame.render_widget(header(app, theme, head.width), head);
    for place in [rule, second_rule] {
        let line = "─".repeat(place.width.into());
        frame.render_widget(Paragraph::new(line).style(faint()), place);
    }
    match app.sheet() {
        Some(sheet) => {
            draw_case(frame, app, sheet, theme, body);
            draw_reason(frame, app, sheet, theme, reason);
        }
        None => draw_end(frame, app, theme, body),
    }
    let text = within(&app.message, message.width.into());
    frame.render_widget(Paragraph::new(text).style(theme.warning()), message);
    frame.render_widget(Paragraph::new(key_line(app)).style(faint()), keys);
    match app.mode {
        Mode::Help => overlays::help(frame, app, theme, area),
        Mode::Reading(Page::Rubric, line) => overlays::rubric(frame, app, line, body),
        Mode::Reading(Page::Case, line) => overlays::case(frame, app, theme, line, body),
        _ => {}
    }
}

fn header(app: &App, theme: Theme, width: u16) -> Paragraph<'static> {
    let progress = app.progress;
    let mut words = format!("{} done · {} left", progress.done, progress.left);
    if let Some(seconds) = app.seconds_per_case.filter(|_| progress.left > 0) {
        let minutes = (seconds * progress.left as f64 / 60.0).ceil();
        words.push_str(&format!(" · about {minutes} min"));
    }
    let room = usize::from(width).saturating_sub(lines::width(&words) + 3);
    let title = within(&app.title, room);
    let gap = usize::from(width).saturating_sub(lines::width(&title) + lines::width(&words));
    Paragraph::new(Line::from(vec![
        Span::styled(title, theme.accent()),
        Span::raw(" ".repeat(gap)),
        Span::raw(words),
    ]))
}

fn draw_case(frame: &mut Frame<'_>, app: &App, sheet: &Sheet, theme: Theme, area: Rect) {
    let right_width = (area.width * 9 / 20).clamp(28, 64);
    let columns = Layout::horizontal([
        Constraint::Min(20),
        Constraint::Length(3),
        Constraint::Length(right_width),
    ]);
    let [left, middle, right] = columns.areas(area);
    let bar: Vec<Line<'_>> = (0..middle.height).map(|_| Line::from(" │ ")).collect();
    frame.render_widget(Paragraph::new(bar).style(faint()), middle);

    let candidate = broken(&sheet.case.candidate, left.width.into());
    let mut text = context_lines(&sheet.case.context, left.width.into(), theme);
    // A long context is cut so that half of the height is left for the candidate.
    let height = usize::from(left.height);
    let most = (height / 2).max(height.saturating_sub(candidate.len() + 2));
    if text.len() > most {
        text.truncate(most.saturating_sub(1));
        text.push(Line::styled("… c shows the whole context", faint()));
    }
    text.push(Line::raw(""));
    let room = height.saturating_sub(text.len() + 1);
    let last = candidate.len().saturating_sub(room);
    let first = usize::from(app.scroll).min(last);
    let below = last - first;
    let more = match (first, below) {
        (0, 0) => String::new(),
        (_, 1) => "  (PgUp/PgDn: 1 more line)".to_owned(),
        _ => format!("  (PgUp/PgDn: {below} more lines)"),
    };
    text.push(Line::from(vec![
        Span::styled("Candidate", theme.accent()),
        Span::styled(more, faint()),
    ]));
    text.extend(candidate.into_iter().skip(first).take(room).map(Line::raw));
    frame.render_widget(Paragraph::new(text), left);
    frame.render_widget(
        Paragraph::new(rubric_lines(app, sheet, theme, right)),
        right,
    );
}

/// The context as `name: value` lines, flattened.
fn context_lines(context: &Value, width: usize, theme: Theme) -> Vec<Line<'static>> {
    let mut text = vec![Line::styled("Context", theme.accent())];
    let Some(fields) = context.as_object() else {
        text.extend(broken(&plain(context), width).into_iter().map(Line::raw));
        return text;
    };
    for (name, value) in fields {
        let shown = format!("{name}: {}", plain(value));
        text.extend(broken(&shown, width).into_iter().map(Line::raw));
    }
    text
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) if items.iter().all(|it| !it.is_object() && !it.is_array()) => {
            items.iter().map(plain).collect::<Vec<_>>().join("; ")
        }
        other => other.to_string(),
    }
}

fn rubric_lines(app: &App, sheet: &Sheet, theme: Theme, area: Rect) -> Vec<Line<'static>> {
    let rubric = &app.rubric;
    let width = usize::from(area.width);
    let focused = rubric.criteria.get(app.focus);
    let levels = focused.map_or(0, |it| usize::try_from(it.max - it.min + 1).unwrap_or(0));
    let fixed = rubric.criteria.len() + rubric.flags.len() + 2;
    let room = usize::from(area.height).saturating_sub(fixed);
    let rows_per_level = (room / levels.max(1)).max(1);
    let mut text = vec![Line::styled(
        within(&format!("{} (scores)", rubric.id), width),
        theme.accent(),
    )];
    for (place, criterion) in rubric.criteria.iter().enumerate() {
        let is_focused = place == app.focus;
        let mark = if is_focused { "▸ " } else { "  " };
        let score = sheet.score(&criterion.name);
        let score = score.map_or_else(|| "–".to_owned(), |it| it.to_string());
        let name = within(&criterion.name, width.saturating_sub(6));
        let gap = width.saturating_sub(lines::width(&name) + lines::width(&score) + 3);
        let line = format!("{mark}{name}{}{score}", " ".repeat(gap));
        let style = if is_focused {
            theme.accent()
        } else {
            Style::new()
        };
        text.push(Line::styled(line, style));
        if is_focused {
            text.extend(level_lines(criterion, sheet, theme, width, rows_per_level));
        }
    }
    text.push(Line::styled("flags", theme.accent()));
    for (name, key) in &app.flag_keys {
        let tick = match sheet.flag(name) {
            Some(true) => "[x]",
            Some(false) => "[ ]",
            None => "[?]",
        };
        text.push(Line::raw(within(&format!("{key} {tick} {name}"), width)));
    }
    text
}

fn level_lines(
    criterion: &Criterion,
    sheet: &Sheet,
    theme: Theme,
    width: usize,
    most: usize,
) -> Vec<Line<'static>> {
    let mut text = Vec::new();
    for level in criterion.min..=criterion.max {
        let anchor = criterion.anchors.get(&level.to_string());
        let is_chosen = sheet.score(&criterion.name) == Some(level);
        let mark = if is_chosen { "●" } else { " " };
        let meaning = anchor.map_or("", String::as_str).replace('\n', " ");
        let mut lines = broken(&meaning, width.saturating_sub(6));
        if lines.len() > most {
            lines.truncate(most);
            if let Some(last) = lines.last_mut() {
                // At least one column too long, so that the ellipsis is shown.
                let blanks = " ".repeat(width);
                *last = within(&format!("{last}{blanks}"), width.saturating_sub(6));
            }
        }
        let style = if is_chosen {
            theme.accent()
        } else {
            Style::new()
        };
        let first = lines.first().cloned().unwrap_or_default();
        text.push(Line::styled(format!("  {mark} {level} {first}"), style));
        let rest = lines.into_iter().skip(1);
        text.extend(rest.map(|line| Line::styled(format!("      {line}"), style)));
    }
    text
}

fn draw_reason(frame: &mut Frame<'_>, app: &App, sheet: &Sheet, theme: Theme, area: Rect) {
    let width = usize::from(area.width);
    let room = width.saturating_sub(9) * usize::from(area.height);
    let (text, style) = match &app.mode {
        Mode::Rationale(editor) => {
            let (before, after) = editor.parts();
            // The text before the cursor is what is being edited.
            let shown = lines::tail(
                &before,
                room.saturating_sub(2 + lines::width(&after).min(room / 4)),
            );
            (format!("{shown}▏{after}"), theme.accent())
        }
        _ if sheet.rationale.is_empty() => ("none yet; press r to write one".to_owned(), faint()),
        _ => (sheet.rationale.clone(), Style::new()),
    };
    let label = ["Reason   ", "         "];
    let lines = broken(&text, width.saturating_sub(9));
    let shown: Vec<Line<'_>> = lines
        .into_iter()
        .take(area.height.into())
        .zip(label)
        .map(|(line, label)| {
            Line::from(vec![
                Span::styled(label, theme.accent()),
                Span::styled(line, style),
            ])
        })
        .collect();
    frame.render_widget(Paragraph::new(shown), area);
}

fn draw_end(frame: &mut Frame<'_>, app: &App, theme: Theme, area: Rect) {
    let done = app.progress.done;
    let text = vec![
        Line::raw(""),
        Line::styled("No cases are left for you.", theme.accent()),
        Line::raw(""),
        Line::raw(match done {
            1 => "1 case is judged and kept.".to_owned(),
            _ => format!("{done} cases are judged and kept."),
        }),
        Line::raw("q ends the sitting; ← goes back to the last case; Enter checks for new cases."),
    ];
    frame.render_widget(Paragraph::new(text), area);
}

fn key_line(app: &App) -> String {
    match app.mode {
        Mode::Rationale(_) => "Enter saves the reason · Esc discards the change".to_owned(),
        Mode::Help => "press any key to go back".to_owned(),
        Mode::Finishing => "y finishes the sitting · any other key goes back".to_owned(),
        Mode::Reading(..) => "↑ ↓ PgUp PgDn read · any other key closes".to_owned(),
        Mode::Done => "q quit · ← back · ? help".to_owned(),
        Mode::Score => {
            let flags: Vec<String> = app
                .flag_keys
                .iter()
                .map(|(_, key)| key.to_string())
                .collect();
            let flags = flags.join("/");
            let scale = app.rubric.criteria.get(app.focus);
            let scale = scale.map_or_else(String::new, |it| format!("{}–{}", it.min, it.max));
            format!(
                "{scale} score · {flags} flags · r reason · Enter next · v rubric · ? help · q quit"
            )
        }
    }
}

#[cfg(test)]
mod tests;
