//! The top level of a file and the environment that was chosen: which of them a key is taken from.

use super::at::{At, Table};
use super::note::{Found, Note};

/// Where keys are read.
pub(super) struct Scope<'t> {
    pub(super) top: Table<'t>,
    /// The chosen environment's name and section.
    pub(super) environment: Option<(String, Table<'t>)>,
}

impl<'t> Scope<'t> {
    /// A key that an environment has from the top level unless it has its own; null is as if it were not there. Both
    /// values are read, since Wrangler refuses what is wrong in either.
    pub(super) fn inherited<T>(
        &self,
        found: &mut Found,
        key: &str,
        mut read: impl FnMut(&mut Found, At<'t>) -> Option<T>,
    ) -> Option<T> {
        let top = self.top.get(key);
        let Some((_, section)) = &self.environment else { return read(found, top?) };
        let own = section.get(key);
        let is_own = own.as_ref().is_some_and(|at| !at.is_null());
        let from_top = top.and_then(|at| read(found, At { is_used: !is_own, ..at }));
        let from_own = own.and_then(|at| read(found, at));
        if is_own { from_own } else { from_top }
    }

    /// A key that an environment has only of its own.
    pub(super) fn own<T>(
        &self,
        found: &mut Found,
        key: &str,
        mut read: impl FnMut(&mut Found, At<'t>) -> Option<T>,
    ) -> Option<T> {
        let top = self.top.get(key);
        let Some((name, section)) = &self.environment else { return read(found, top?) };
        let own = section.get(key);
        if let (Some(top), None) = (&top, &own) {
            found.warning(Note {
                path: top.path.clone(),
                message: format!("the environment `{name}` does not have `{key}` of the top level"),
                help: Some(format!("write `{key}` into `env.{name}` too: it is not inherited")),
                span: Some(top.value.span.clone()),
            });
        }
        if let Some(top) = top {
            read(found, At { is_used: false, ..top });
        }
        read(found, own?)
    }

    /// A key that only the top level has.
    pub(super) fn top<T>(
        &self,
        found: &mut Found,
        key: &str,
        read: impl FnOnce(&mut Found, At<'t>) -> Option<T>,
    ) -> Option<T> {
        let at = self.top.get(key)?;
        read(found, at)
    }

    /// The value that counts of a key that is inherited.
    pub(super) fn in_force(&self, key: &str) -> Option<At<'t>> {
        let own = self.environment.as_ref().and_then(|(_, section)| section.get(key)).filter(|at| !at.is_null());
        own.or_else(|| self.top.get(key).filter(|at| !at.is_null()))
    }

    /// Whether a key is written anywhere that counts, right or wrong.
    pub(super) fn has(&self, key: &str) -> bool {
        self.in_force(key).is_some()
    }

    /// The path to a key of the section that counts.
    pub(super) fn path_of(&self, key: &str) -> String {
        match &self.environment {
            Some((_, section)) => format!("{}.{key}", section.at.path),
            None => key.to_owned(),
        }
    }
}
