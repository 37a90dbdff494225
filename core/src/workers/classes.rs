//! Which classes of Durable Objects a Worker defines, and whether they have SQL.

use super::at::At;
use super::note::{Found, Note};
use super::scope::Scope;
use super::services::{self, Classes};
use super::{DurableObject, quote};

/// From `migrations` or `exports`, of which a file has one; a class that is bound and in neither is one without SQL.
pub(super) fn read(found: &mut Found, scope: &Scope<'_>, objects: &[DurableObject]) -> Classes {
    let mut classes =
        scope.inherited(found, "migrations", |found, at| services::migrations(found, &at)).unwrap_or_default();
    let is_migrated = scope.in_force("migrations").is_some_and(|at| at.is_filled());
    let exports = scope.inherited(found, "exports", |found, at| services::exports(found, &at)).unwrap_or_default();
    if let Some(at) = scope.in_force("exports")
        && is_migrated
        && !exports.is_empty()
    {
        let help = "leave one of them out: `exports` says the same in a newer way";
        at.wrong(found, format!("`{}` and `migrations` both say which classes there are", at.path), help);
    }
    classes.extend(exports);
    for object in objects.iter().filter(|object| object.script.is_none()) {
        if !classes.contains_key(&object.class) {
            undeclared(found, scope, &object.class);
            classes.insert(object.class.clone(), false);
        }
    }
    classes
}

fn undeclared(found: &mut Found, scope: &Scope<'_>, class: &str) {
    let message = format!("the Durable Object class {} is in no migration, so it has no SQL storage", quote(class));
    let help = format!("write `\"migrations\": [{{ \"tag\": \"v1\", \"new_sqlite_classes\": [{class:?}] }}]`");
    let span = scope.in_force("durable_objects").map(|at: At<'_>| at.value.span.clone());
    found.warning(Note { path: scope.path_of("durable_objects"), message, help: Some(help), span });
}
