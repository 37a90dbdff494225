//! Runs a future to its end, or until the test's crash: one thread, virtual time, no chance.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use crate::TestHost;

/// Whether the future asked to be polled again.
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Runs a future to its end. When it waits, the clock jumps to the next timer.
///
/// # Panics
/// When the future crashes (see [`TestHost::crash_at_step`]), or waits for something that never comes.
pub fn run<T>(host: &TestHost, future: impl Future<Output = T>) -> T {
    drive(host, future).unwrap_or_else(|| panic!("the isolate died: use run_until_crash where a crash is planned"))
}

/// Runs a future until it ends or its isolate dies at crash point `step` (see [`TestHost::crash_at_step`]), which
/// gives `None`. After that the host is alive again, as a new isolate would be; what was planned is lifted.
///
/// # Panics
/// When the future waits for something that never comes.
pub fn run_until_crash<T>(host: &TestHost, step: u64, future: impl Future<Output = T>) -> Option<T> {
    host.crash_at_step(step);
    let end = drive(host, future);
    host.lift_crash();
    end
}

/// Polls until the future ends or the host says that the isolate has died.
pub(crate) fn drive<T>(host: &TestHost, future: impl Future<Output = T>) -> Option<T> {
    let woken = Arc::new(Woken(AtomicBool::new(true)));
    let waker = Waker::from(woken.clone());
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        while woken.0.swap(false, Ordering::SeqCst) {
            let polled = future.as_mut().poll(&mut context);
            if host.take_crash() {
                return None;
            }
            if let Poll::Ready(end) = polled {
                return Some(end);
            }
        }
        let Some(next_ms) = host.next_timer_ms() else {
            panic!("the future waits, and there is no timer that could wake it");
        };
        host.set_ms(next_ms.max(host.time_ms()));
    }
}
