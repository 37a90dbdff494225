//! What the file declares, whether or not it is right, so that a reference to a broken thing is no second problem.

use std::collections::BTreeSet;

use super::code::Area;
use super::syntax::{Block, What};

pub(super) struct Names<'a> {
    declared: Vec<(Area, BTreeSet<&'a str>)>,
    /// Blocks in which something could not be read: what seems to be missing may be there.
    damaged: Vec<Area>,
}

impl<'a> Names<'a> {
    pub(super) fn of_file(file: &'a Block) -> Self {
        let mut names = Names { declared: Vec::new(), damaged: Vec::new() };
        for area in Area::ALL {
            let mut declared = BTreeSet::new();
            match file.entry(area.key()).map(|entry| &entry.value.what) {
                Some(What::Block(block)) => {
                    declared.extend(block.entries.iter().map(|entry| entry.key.as_str()));
                    if block.damaged {
                        names.damaged.push(area);
                    }
                }
                Some(_) => names.damaged.push(area),
                None if file.damaged => names.damaged.push(area),
                None => {}
            }
            names.declared.push((area, declared));
        }
        names
    }

    /// Whether something of this name is declared, or may be where the file could not be read.
    pub(super) fn has(&self, area: Area, name: &str) -> bool {
        self.damaged.contains(&area) || self.set(area).is_some_and(|set| set.contains(name))
    }

    /// Every declared name of a block, in order.
    pub(super) fn of(&self, area: Area) -> impl Iterator<Item = &'a str> {
        self.set(area).into_iter().flatten().copied()
    }

    fn set(&self, area: Area) -> Option<&BTreeSet<&'a str>> {
        self.declared.iter().find(|(of, _)| *of == area).map(|(_, set)| set)
    }
}
