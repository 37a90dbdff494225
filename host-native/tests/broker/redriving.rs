//! Dead letters that are put back.

use jadpo_core::broker::{
    MessageId, NewBatch, NewMessage, Peek, Reason, Redrive, RedriveFilter, RedriveState, RedriveTask, Retry, Settle,
    Taken,
};

use super::support::{Fixture, message, retry, settings};

/// `jobs` with one delivery and the dead-letter queue `jobs-dead`.
fn with_dead(bodies: &[&str]) -> Fixture {
    let mut queue = Fixture::new();
    for name in ["jobs", "other"] {
        let change = |settings: &mut jadpo_core::broker::Settings| {
            settings.consumer.max_retries = 0;
            settings.consumer.dead_letter_queue = Some("jobs-dead".to_owned());
        };
        queue.create(name, settings(change));
    }
    queue.create("jobs-dead", settings(|_| {}));
    die(&mut queue, "jobs", bodies, "no card");
    queue
}

fn die(queue: &mut Fixture, name: &str, bodies: &[&str], error: &str) {
    for body in bodies {
        queue.send(name, body);
        let lease = queue.take(name)[0].lease;
        let (reason, progress) = (Reason::Failed, Some(format!("of {body}")));
        let retries = vec![Retry { reason, error: Some(error.to_owned()), progress, ..retry(lease, None) }];
        assert_eq!(queue.settle(name, &Settle { retries, ..Settle::default() }).gone.len(), 1);
    }
}

fn of(source: &str) -> Redrive {
    Redrive { source: source.to_owned(), ..Redrive::default() }
}

fn filtered(filter: RedriveFilter) -> Redrive {
    Redrive { filter, ..of("jobs") }
}

impl Fixture {
    fn begin(&mut self, redrive: &Redrive) -> RedriveTask {
        self.run(|broker, sql, at| broker.redrive(sql, at, redrive)).unwrap()
    }

    fn step(&mut self, id: u64, max: usize) -> RedriveTask {
        self.run(|broker, sql, at| broker.redrive_step(sql, at, id, max)).unwrap()
    }

    /// Slices of up to 100 until it has ended.
    fn redrive_all(&mut self, redrive: &Redrive) -> RedriveTask {
        let mut task = self.begin(redrive);
        while let Some(0) = task.next_in_ms {
            task = self.step(task.id, 100);
        }
        assert_eq!(task.state, RedriveState::Done);
        task
    }

    fn ids(&mut self, name: &str) -> Vec<MessageId> {
        let peek = Peek { max: 100, after: None };
        let peeked = self.run(|broker, sql, at| broker.peek(sql, at, name, peek)).unwrap();
        peeked.into_iter().map(|peeked| peeked.message.id).collect()
    }
}

#[test]
fn a_letter_that_is_put_back_is_the_message_it_was_but_for_its_attempts_which_begin_anew() {
    let mut queue = with_dead(&[]);
    let sent = NewMessage { meta: Some("{\"X-Tag\":[\"a\",\"b\"]}".to_owned()), ..message("\u{0}body") };
    let sent_at = queue.at.wall_ms;
    let id = queue.send_batch("jobs", &NewBatch { messages: vec![sent.clone()], delay_s: None }).unwrap().ids[0];
    queue.pass_s(100);
    let taken = queue.take("jobs");
    queue.retry("jobs", &taken, None);
    assert!(queue.ids("jobs").is_empty() && queue.ids("jobs-dead") == [id]);
    let task = queue.redrive_all(&of("jobs"));
    assert_eq!((task.moved, task.letters, task.redrive.source.as_str()), (1, 1, "jobs-dead"));
    assert!(queue.ids("jobs-dead").is_empty());
    let Taken { message, .. } = queue.take("jobs").remove(0);
    assert_eq!((message.id, message.sent_at_ms, message.attempts), (id, sent_at, 1));
    assert_eq!((message.body, message.meta, message.dead), (sent.body, sent.meta, None));
}
