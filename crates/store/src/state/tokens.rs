//! Tokens for `assize serve`, and browser sessions that were opened with one.
//!
//! Only the SHA-256 of a secret is stored. Secrets are long and random, so a slower hash is not
//! needed. A session ends when its token is revoked.

use assize_domain::role::Role;
use rusqlite::{OptionalExtension as _, Row, types::Type};

use super::State;
use crate::Result;

pub(super) const TABLES: &str = "
CREATE TABLE tokens (
    id TEXT PRIMARY KEY,
    role TEXT NOT NULL,
    name TEXT NOT NULL,
    sha256 BLOB NOT NULL UNIQUE,
    created_ms INTEGER NOT NULL,
    revoked_ms INTEGER
) WITHOUT ROWID;
CREATE TABLE browser_sessions (
    sha256 BLOB PRIMARY KEY,
    token TEXT NOT NULL REFERENCES tokens (id),
    until_ms INTEGER NOT NULL
) WITHOUT ROWID;
";

/// The SHA-256 of a secret.
pub type Digest = [u8; 32];

/// A token without its secret.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Token {
    pub id: String,
    pub role: Role,
    /// The owner's name, as in verdicts and promotions.
    pub name: String,
    /// Unix milliseconds.
    pub created_ms: i64,
    pub revoked_ms: Option<i64>,
}

impl State {
    pub fn token_create(&self, token: &Token, secret: &Digest) -> Result<()> {
        self.change(|conn| {
            conn.prepare_cached(
                "INSERT INTO tokens (id, role, name, sha256, created_ms) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute((
                &token.id,
                token.role.as_str(),
                &token.name,
                secret.as_slice(),
                token.created_ms,
            ))?;
            Ok(())
        })
    }

    /// All tokens, also revoked ones, oldest first.
    pub fn token_list(&self) -> Result<Vec<Token>> {
        self.with(|conn| {
            let mut list = conn.prepare_cached(
                "SELECT id, role, name, created_ms, revoked_ms FROM tokens ORDER BY created_ms, id",
            )?;
            let tokens = list.query_map([], token)?;
            tokens.collect()
        })
    }

    /// Revokes a token and ends its sessions; `false` if no valid token has this id.
    pub fn token_revoke(&self, id: &str, now_ms: i64) -> Result<bool> {
        self.change(|conn| {
            conn.execute("DELETE FROM browser_sessions WHERE token = ?1", [id])?;
            let sql = "UPDATE tokens SET revoked_ms = ?2 WHERE id = ?1 AND revoked_ms IS NULL";
            Ok(conn.execute(sql, (id, now_ms))? == 1)
        })
    }

    /// The token with this secret, unless it was revoked.
    pub fn token_find(&self, secret: &Digest) -> Result<Option<Token>> {
        self.with(|conn| {
            conn.prepare_cached(
                "SELECT id, role, name, created_ms, revoked_ms FROM tokens
                 WHERE sha256 = ?1 AND revoked_ms IS NULL",
            )?
            .query_row([secret.as_slice()], token)
            .optional()
        })
    }

    /// Whether there is a token with this id that was not revoked.
    pub fn token_is_valid(&self, id: &str) -> Result<bool> {
        self.with(|conn| {
            let sql = "SELECT EXISTS (SELECT 1 FROM tokens WHERE id = ?1 AND revoked_ms IS NULL)";
            conn.prepare_cached(sql)?.query_row([id], |row| row.get(0))
        })
    }

    /// Opens a browser session until `until_ms`; deletes expired sessions.
    pub fn session_open(
        &self,
        secret: &Digest,
        token: &str,
        (now_ms, until_ms): (i64, i64),
    ) -> Result<()> {
        self.change(|conn| {
            conn.execute("DELETE FROM browser_sessions WHERE until_ms < ?1", [now_ms])?;
            conn.execute(
                "INSERT INTO browser_sessions (sha256, token, until_ms) VALUES (?1, ?2, ?3)",
                (secret.as_slice(), token, until_ms),
            )?;
            Ok(())
        })
    }

    /// The token of a session.
    pub fn session_find(&self, secret: &Digest, now_ms: i64) -> Result<Option<Token>> {
        self.with(|conn| {
            conn.prepare_cached(
                "SELECT t.id, t.role, t.name, t.created_ms, t.revoked_ms
                 FROM browser_sessions s JOIN tokens t ON t.id = s.token
                 WHERE s.sha256 = ?1 AND s.until_ms >= ?2 AND t.revoked_ms IS NULL",
            )?
            .query_row((secret.as_slice(), now_ms), token)
            .optional()
        })
    }

    pub fn session_close(&self, secret: &Digest) -> Result<()> {
        self.with(|conn| {
            conn.prepare_cached("DELETE FROM browser_sessions WHERE sha256 = ?1")?
                .execute([secret.as_slice()])?;
            Ok(())
        })
    }
}

fn token(row: &Row<'_>) -> rusqlite::Result<Token> {
    let role: String = row.get(1)?;
    Ok(Token {
        id: row.get(0)?,
        role: role.parse().map_err(|error: String| {
            rusqlite::Error::FromSqlConversionFailure(1, Type::Text, error.into())
        })?,
        name: row.get(2)?,
        created_ms: row.get(3)?,
        revoked_ms: row.get(4)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_ends_with_its_time_and_with_its_token() {
        let dir = tempfile::tempdir().unwrap();
        let state = State::open(dir.path()).unwrap();
        let made = Token {
            id: "t1".to_owned(),
            role: Role::Judge,
            name: "Ada".to_owned(),
            created_ms: 5,
            revoked_ms: None,
        };
        state.token_create(&made, &[1; 32]).unwrap();
        assert_eq!(state.token_find(&[1; 32]).unwrap(), Some(made.clone()));
        assert_eq!(state.token_find(&[2; 32]).unwrap(), None);
        state.session_open(&[9; 32], "t1", (10, 20)).unwrap();
        assert_eq!(state.session_find(&[9; 32], 20).unwrap(), Some(made));
        assert_eq!(state.session_find(&[9; 32], 21).unwrap(), None);
        assert!(state.token_revoke("t1", 15).unwrap());
        assert!(!state.token_revoke("t1", 16).unwrap());
        assert_eq!(state.session_find(&[9; 32], 15).unwrap(), None);
        assert_eq!(state.token_find(&[1; 32]).unwrap(), None);
        assert_eq!(state.token_list().unwrap()[0].revoked_ms, Some(15));
    }
}
