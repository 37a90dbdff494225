//! A connection whose client must take what it is sent.
//!
//! Without this, who asks and never reads the answers holds a connection for ever: reading has its time limits, and
//! hyper has none for writing.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// How long a client may take nothing, all its pauses together.
const CREDIT_MAX: Duration = Duration::from_secs(10);
/// Bytes that make up for a second of pause: who takes fewer in a second for long is cut off.
const BYTES_PER_S: u32 = 2_048;

/// A stream that fails with [`ErrorKind::TimedOut`] when its other side takes too little.
pub(crate) struct Paced<S> {
    stream: S,
    /// How long it may be waited at most.
    credit_max: Duration,
    /// How long it may still be waited.
    credit: Duration,
    /// Since when it is waited, and until it has been too long.
    wait: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl<S> Paced<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self::with(stream, CREDIT_MAX)
    }

    fn with(stream: S, credit: Duration) -> Self {
        Self { stream, credit_max: credit, credit, wait: None }
    }

    fn paced(&mut self, context: &mut Context<'_>, written: Poll<Result<usize>>) -> Poll<Result<usize>> {
        match written {
            Poll::Ready(Ok(count)) => {
                if let Some((since, _)) = self.wait.take() {
                    self.credit = self.credit.saturating_sub(since.elapsed());
                }
                let earned = Duration::from_secs(1) * u32::try_from(count).unwrap_or(u32::MAX) / BYTES_PER_S;
                self.credit = self.credit.saturating_add(earned).min(self.credit_max);
                Poll::Ready(Ok(count))
            }
            Poll::Pending => {
                let credit = self.credit;
                let (_, until) = self.wait.get_or_insert_with(|| (Instant::now(), Box::pin(sleep(credit))));
                ready!(until.as_mut().poll(context));
                Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "the client does not take its answer")))
            }
            failed => failed,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.paced(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.paced(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    const CREDIT: Duration = Duration::from_millis(300);

    #[tokio::test]
    async fn who_takes_nothing_is_cut_off_and_so_is_who_takes_a_byte_now_and_then() {
        for pause in [Duration::from_secs(3_600), Duration::from_millis(20)] {
            let (server, mut client) = tokio::io::duplex(16);
            let reader = tokio::spawn(async move {
                loop {
                    tokio::time::sleep(pause).await;
                    if client.read_u8().await.is_err() {
                        return;
                    }
                }
            });
            let started = Instant::now();
            let error = Paced::with(server, CREDIT).write_all(&[0; 10_000]).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TimedOut);
            assert!(started.elapsed() >= CREDIT, "{:?}", started.elapsed());
            reader.abort();
        }
    }

    #[tokio::test]
    async fn who_takes_enough_in_a_second_gets_it_all_however_long_that_takes() {
        let (server, mut client) = tokio::io::duplex(1_024);
        let reader = tokio::spawn(async move {
            let (mut bytes, mut all) = ([0; 1_024], 0);
            loop {
                tokio::time::sleep(CREDIT / 10).await;
                match client.read(&mut bytes).await {
                    Ok(0) | Err(_) => return all,
                    Ok(count) => all += count,
                }
            }
        });
        let (mut paced, started) = (Paced::with(server, CREDIT), Instant::now());
        paced.write_all(&[0; 30_000]).await.unwrap();
        assert!(started.elapsed() > CREDIT * 2);
        drop(paced);
        assert_eq!(reader.await.unwrap(), 30_000);
    }
}
