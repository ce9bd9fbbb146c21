//! Connections of which nothing shows that they exist.

use super::{Connections, Key};
use crate::net::packet::End;
use crate::net::protocol::Protocol;
use crate::net::Namespace;

/// Connections whose sockets are looked for at a time.
pub(super) const MAX_UNCONFIRMED: usize = 1024;

impl<P: Protocol> Connections<P> {
    /// See [`Decoder::expect_confirmation`](crate::net::protocol::Decoder::expect_confirmation).
    pub fn expect_confirmation(&mut self) {
        self.confirms = true;
    }

    /// See [`Decoder::take_unconfirmed`](crate::net::protocol::Decoder::take_unconfirmed).
    pub fn take_unconfirmed(&mut self) -> Vec<(Namespace, End, End)> {
        let found = std::mem::take(&mut self.unconfirmed).into_iter().filter_map(|key| {
            let connection = self.table.get(&key).filter(|connection| connection.awaits())?;
            Some((key.0, connection.client, connection.server))
        });
        found.collect()
    }

    /// This connection exists.
    pub fn confirm(&mut self, namespace: Namespace, client: End, server: End, out: &mut P::Output) {
        let key = Key::new(namespace, client, server);
        if self.is_known_copy(&key, out) {
            return;
        }
        let (mut shared, table) = self.shared(out);
        if let Some(connection) = table.get_mut(&key).filter(|connection| connection.client == client) {
            connection.confirm(None, &mut shared);
            let class = connection.class(shared.protocol);
            table.touch(&key, class);
        }
    }
}
