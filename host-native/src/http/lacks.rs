//! What this machine may lack for what is to be begun. Whoever is to be reached has no part in it.

use std::error::Error;
use std::fs::File;
use std::io;

use rustix::io::Errno;

/// Whether the system refused for lack of file descriptors, processes or memory.
pub(crate) fn is_of_this_machine(error: &io::Error) -> bool {
    let lacking = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::AGAIN, Errno::NOBUFS];
    error.raw_os_error().is_some_and(|code| lacking.iter().any(|errno| errno.raw_os_error() == code))
}

/// Whether there was no connection for lack of something here. To look a name up needs files too, and who does that
/// says nothing of why it could not.
pub(super) fn keeps_from_connecting(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.downcast_ref().is_some_and(is_of_this_machine) {
            return true;
        }
        cause = error.source();
    }
    File::open("/dev/null").is_err_and(|error| is_of_this_machine(&error))
}
