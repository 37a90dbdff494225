//! What an isolate keeps between invocations: the started app.

use std::cell::RefCell;
use std::rc::Rc;

use jadpo_core::host::{Host, Level, LogEntry};
use jadpo_core::start::{App, StartError};

use crate::host::WorkersHost;
use crate::{js, links};

thread_local! {
    static STARTED: RefCell<Option<Rc<App>>> = const { RefCell::new(None) };
}

/// The app, started once per isolate. A failure is not kept, so each event's log tells of it.
///
/// # Errors
/// Why it cannot run.
pub(crate) fn app(host: &WorkersHost) -> Result<Rc<App>, StartError> {
    if let Some(app) = STARTED.with_borrow(Clone::clone) {
        return Ok(app);
    }
    let app = Rc::new(App::start(&js::program_text().unwrap_or_default())?);
    for function in app.unlinked(links::is_linked) {
        let fields = vec![("function", function.into())];
        host.log(LogEntry { level: Level::Error, event: "start.function_not_linked", fields });
    }
    STARTED.replace(Some(Rc::clone(&app)));
    Ok(app)
}
