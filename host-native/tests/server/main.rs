//! The real server, run as a user runs it, with real functions.

#[cfg(test)]
mod again;
#[cfg(test)]
mod declared;
#[cfg(test)]
mod delivery;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod http;
#[cfg(test)]
mod immediate;
#[cfg(test)]
mod serving;
#[cfg(test)]
mod support;
#[cfg(test)]
mod webhooks;
