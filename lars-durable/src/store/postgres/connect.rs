//! How a connection is made, whatever secures it.

use std::pin::Pin;

use futures::Stream;
use futures::future::BoxFuture;
use futures::stream;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{AsyncMessage, Client, Config, Error, Socket};

/// What the server says by itself; the connection lives as long as this is polled.
pub(crate) type Messages = Pin<Box<dyn Stream<Item = Result<AsyncMessage, Error>> + Send>>;

/// Makes connections.
pub(crate) trait Connect: Send + Sync {
    fn connect<'a>(
        &'a self,
        config: &'a Config,
    ) -> BoxFuture<'a, Result<(Client, Messages), Error>>;
}

/// With TLS, or without: as the connector says.
pub(crate) struct Tls<T>(pub(crate) T);

impl<T> Connect for Tls<T>
where
    T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
    T::Stream: Send,
    T::TlsConnect: Send,
    <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
{
    fn connect<'a>(
        &'a self,
        config: &'a Config,
    ) -> BoxFuture<'a, Result<(Client, Messages), Error>> {
        Box::pin(async move {
            let (client, mut connection) = config.connect(self.0.clone()).await?;
            let messages: Messages =
                Box::pin(stream::poll_fn(move |context| connection.poll_message(context)));
            Ok((client, messages))
        })
    }
}
