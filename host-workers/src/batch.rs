//! A queue's batch, from JavaScript and back to it.

use jadpo_core::queue::{Answer, Batch, Body, Message};
use js_sys::{Array, Date, JsString, Object, Reflect, Uint8Array};
use wasm_bindgen::prelude::*;
use worker::worker_sys;

use crate::js;

/// Reads a batch as the runtime hands it over. Bodies of any kind are read; none of them is an error.
///
/// # Errors
/// What the runtime threw, or that it is no batch. Nothing is answered then, so all of it comes again.
pub(crate) fn read(batch: &worker_sys::MessageBatch) -> Result<(Batch, Handles), JsValue> {
    let queue = batch.queue()?;
    let queue = queue.as_string().ok_or_else(|| js_sys::Error::new("the batch has no queue name"))?;
    let list = batch.messages()?;
    if !Array::is_array(&list) {
        return Err(js_sys::Error::new("the batch has no list of messages").into());
    }
    let messages: Vec<_> = list.iter().map(JsValue::unchecked_into).collect();
    let read = messages.iter().map(message).collect::<Result<_, _>>()?;
    Ok((Batch { queue: queue.clone(), messages: read }, Handles { queue, messages }))
}

/// What a batch's messages are answered by, in the batch's order.
pub(crate) struct Handles {
    queue: String,
    messages: Vec<worker_sys::Message>,
}

impl Handles {
    /// Tells the queue each message's answer, in the batch's order. A call that throws holds back no other.
    ///
    /// # Errors
    /// The first thing thrown, once every message has had its call.
    pub(crate) fn settle(&self, answers: &[Answer]) -> Result<(), JsValue> {
        let mut thrown = None;
        for (handle, answer) in self.messages.iter().zip(answers) {
            let called = match answer {
                Answer::Ack => handle.ack(),
                Answer::Retry { delay_s } => handle.retry(delay(*delay_s)),
            };
            if let Err(error) = called {
                thrown.get_or_insert(error);
            }
        }
        thrown.map_or(Ok(()), |error| {
            let text = format!("a message of queue {} was not answered: {}", self.queue, js::words(&error));
            Err(js_sys::Error::new(&text).into())
        })
    }
}

fn message(handle: &worker_sys::Message) -> Result<Message, JsValue> {
    let id: JsString = handle.id()?;
    // Without an id a message could be taken for another one, so nothing is guessed here.
    let id = id.as_string().ok_or_else(|| js_sys::Error::new("a message has no id"))?;
    Ok(Message { id, sent_at_ms: sent_at_ms(handle), attempts: attempts(handle), body: body(&handle.body()?) })
}

/// `attempts` by reflection: workers-rs has no accessor for it. A runtime that gives none counts as the first.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked: it is within u16")]
fn attempts(handle: &worker_sys::Message) -> u32 {
    let number = js::get(handle, "attempts").as_f64().unwrap_or(1.0);
    if (1.0..=65_535.0).contains(&number) { number as u32 } else { 1 }
}

/// When it was sent; now, where the runtime does not say.
#[expect(clippy::cast_possible_truncation, reason = "a time that JavaScript can hold is within 2^53")]
fn sent_at_ms(handle: &worker_sys::Message) -> i64 {
    let sent = js::get(handle, "timestamp");
    let time = sent.dyn_ref::<Date>().map(Date::get_time).filter(|time| time.is_finite());
    time.unwrap_or_else(Date::now) as i64
}

/// A body of any kind. What is neither text nor bytes nor carried whole by JSON is unreadable, and says why.
pub(crate) fn body(value: &JsValue) -> Body {
    let read: Array = js::read_body(value);
    let text = |index| read.get(index).as_string().unwrap_or_default();
    match text(0).as_str() {
        "text" => Body::Text(text(1)),
        "bytes" => Body::Bytes(read.get(1).unchecked_into::<Uint8Array>().to_vec()),
        "json" => Body::Json(text(1)),
        _ => Body::Unreadable { shown: text(1), why: text(2) },
    }
}

fn delay(delay_s: u32) -> JsValue {
    let options = Object::new();
    // Setting a field of a fresh object cannot fail.
    let _ = Reflect::set(&options, &"delaySeconds".into(), &delay_s.into());
    options.into()
}

#[cfg(test)]
mod tests;
