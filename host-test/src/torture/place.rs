//! Where the store has the queues' messages.

use jadpo_core::broker::MessageId;

use super::store::Database;

/// Where a message stands in the store.
pub(super) struct Place {
    pub(super) id: MessageId,
    /// `None` in contents that were purged.
    pub(super) queue: Option<String>,
    pub(super) is_garbage: bool,
    pub(super) attempts: u32,
    pub(super) leased: bool,
}

impl Place {
    pub(super) fn all(database: &Database) -> Vec<Self> {
        let rows = database.look(
            "SELECT m.id, q.name, g.queue, d.attempts, d.leased FROM jadpo_queue_due d \
             JOIN jadpo_queue_messages m ON m.seq = d.seq LEFT JOIN jadpo_queues q ON q.queue = d.queue \
             LEFT JOIN jadpo_queue_garbage g ON g.queue = d.queue",
            &[],
        );
        let place = |row: &jadpo_core::store::Row| {
            let id = match row.0.first() {
                Some(jadpo_core::store::Value::Blob(bytes)) => {
                    bytes.as_slice().try_into().map(u128::from_be_bytes).ok()
                }
                _ => None,
            };
            Self {
                id: MessageId(id.unwrap_or_default()),
                queue: row.text(1).map(str::to_owned),
                is_garbage: row.integer(2).is_some(),
                attempts: row.integer(3).and_then(|attempts| u32::try_from(attempts).ok()).unwrap_or_default(),
                leased: row.integer(4) == Some(1),
            }
        };
        rows.iter().map(place).collect()
    }
}
