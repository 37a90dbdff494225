//! Refuses what D1 refuses, while a statement of a Worker's is compiled, and notes what it would touch.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jadpo_core::d1::{Refusal, Wish, refusal};
use rusqlite::Connection;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

use super::written::Write;

/// The fence of a connection. It stands only while it is up, since the host's own statements do what others may not.
#[derive(Debug, Clone, Default)]
pub(super) struct Fence(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    up: bool,
    refused: Option<Refusal>,
    writes: Vec<Write>,
}

impl Fence {
    /// A fence for this connection, not up.
    pub(super) fn build(connection: &mut Connection) -> rusqlite::Result<Self> {
        let fence = Self::default();
        let state = fence.clone();
        connection.authorizer(Some(move |context: AuthContext<'_>| {
            let mut state = state.lock();
            if !state.up {
                return Authorization::Allow;
            }
            state.note(&context.action);
            match wishes(&context).into_iter().flatten().find_map(refusal) {
                None => Authorization::Allow,
                Some(refused) => {
                    state.refused = Some(refused);
                    Authorization::Deny
                }
            }
        }))?;
        Ok(fence)
    }

    /// Puts it up or takes it down.
    pub(super) fn put(&self, up: bool) {
        *self.lock() = State { up, ..State::default() };
    }

    /// What it refused since it was asked last.
    pub(super) fn refused(&self) -> Option<Refusal> {
        self.lock().refused.take()
    }

    /// What the statements compiled since it was asked last would write.
    pub(super) fn writes(&self) -> Vec<Write> {
        std::mem::take(&mut self.lock().writes)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing is done under this lock that could leave it half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn note(&mut self, action: &AuthAction<'_>) {
        let write = match *action {
            AuthAction::Insert { table_name } => Write::Insert(table_name.to_owned()),
            AuthAction::Delete { table_name } => Write::Delete(table_name.to_owned()),
            AuthAction::Update { table_name, column_name } => {
                Write::Update(table_name.to_owned(), column_name.to_owned())
            }
            AuthAction::CreateTable { table_name } => Write::Table(table_name.to_owned()),
            AuthAction::CreateView { .. } => Write::View,
            AuthAction::CreateIndex { .. } | AuthAction::CreateTrigger { .. } => Write::Schema,
            AuthAction::AlterTable { .. } => Write::Altered,
            AuthAction::Read { .. } => Write::Nothing,
            _ => return,
        };
        if !self.writes.contains(&write) {
            self.writes.push(write);
        }
    }
}

/// What an action means: two wishes at most.
fn wishes<'a>(context: &AuthContext<'a>) -> [Option<Wish<'a>>; 2] {
    let one = |wish| [Some(wish), None];
    let two = |a, b| [Some(Wish::Named(a)), Some(Wish::Named(b))];
    // Here SQLite names the database where other actions have the table, and the column where they have the database.
    if let AuthAction::AlterTable { database_name, table_name } = context.action {
        return one(if database_name == "main" { Wish::Named(table_name) } else { Wish::Temporary });
    }
    // Looking at the connection's own tables is harmless, and SQLite does it itself.
    let looks = matches!(context.action, AuthAction::Read { .. } | AuthAction::Update { .. });
    match context.database_name {
        None | Some("main") => {}
        Some("temp") if looks => {}
        Some("temp") => return one(Wish::Temporary),
        Some(_) => return one(Wish::OtherFile),
    }
    match context.action {
        AuthAction::Select | AuthAction::Recursive | AuthAction::Analyze { .. } => [None, None],
        AuthAction::Function { function_name } => one(Wish::Function(function_name)),
        AuthAction::Pragma { pragma_name, pragma_value } => {
            one(Wish::Pragma { name: pragma_name, value: pragma_value })
        }
        AuthAction::Transaction { .. } | AuthAction::Savepoint { .. } => one(Wish::Transaction),
        AuthAction::CreateVtable { table_name, module_name } | AuthAction::DropVtable { table_name, module_name } => {
            [Some(Wish::Module(module_name)), Some(Wish::Named(table_name))]
        }
        AuthAction::CreateIndex { index_name, table_name } | AuthAction::DropIndex { index_name, table_name } => {
            two(index_name, table_name)
        }
        AuthAction::CreateTrigger { trigger_name, table_name }
        | AuthAction::DropTrigger { trigger_name, table_name } => two(trigger_name, table_name),
        AuthAction::CreateTable { table_name: name }
        | AuthAction::DropTable { table_name: name }
        | AuthAction::CreateView { view_name: name }
        | AuthAction::DropView { view_name: name }
        | AuthAction::Insert { table_name: name }
        | AuthAction::Delete { table_name: name }
        | AuthAction::Read { table_name: name, .. }
        | AuthAction::Update { table_name: name, .. }
        | AuthAction::Reindex { index_name: name } => one(Wish::Named(name)),
        AuthAction::CreateTempIndex { .. }
        | AuthAction::CreateTempTable { .. }
        | AuthAction::CreateTempTrigger { .. }
        | AuthAction::CreateTempView { .. }
        | AuthAction::DropTempIndex { .. }
        | AuthAction::DropTempTable { .. }
        | AuthAction::DropTempTrigger { .. }
        | AuthAction::DropTempView { .. } => one(Wish::Temporary),
        // Another file, and whatever a later SQLite may do.
        _ => one(Wish::OtherFile),
    }
}
