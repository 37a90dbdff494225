//! Functions that are HTTP addresses: what they are sent, and whatever they do in answer.

use std::time::{Duration, Instant};

use jadpo_core::program::Target;
use jadpo_core::trigger::FunctionOutcome;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::{Fixture, LONG, call, error};

const SHORT: Duration = Duration::from_millis(500);

/// A server that reads a request whole, and then does this with the connection. What it read comes out of the channel.
async fn server<F>(then: impl Fn(TcpStream) -> F + Send + 'static) -> (String, mpsc::UnboundedReceiver<Vec<u8>>)
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/f", listener.local_addr().unwrap());
    let (sender, requests) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let request = read_request(&mut stream).await;
            let _ = sender.send(request);
            tokio::spawn(then(stream));
        }
    });
    (url, requests)
}

async fn read_request(stream: &mut TcpStream) -> Vec<u8> {
    let mut request = Vec::new();
    loop {
        let mut chunk = [0; 4096];
        let count = stream.read(&mut chunk).await.unwrap_or(0);
        request.extend(&chunk[..count]);
        let Some(head) = request.windows(4).position(|four| four == b"\r\n\r\n") else {
            assert!(count > 0, "a request that has no end");
            continue;
        };
        let text = String::from_utf8_lossy(&request[..head]).to_ascii_lowercase();
        let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
        if count == 0 || request.len() >= head + 4 + length.unwrap_or(0) {
            return request;
        }
    }
}

/// A server that answers everything with these bytes and closes.
async fn answering(answer: &'static str) -> (String, mpsc::UnboundedReceiver<Vec<u8>>) {
    server(move |mut stream| async move {
        let _ = stream.write_all(answer.as_bytes()).await;
    })
    .await
}

async fn outcome_of(answer: &'static str) -> FunctionOutcome {
    let (url, _requests) = answering(answer).await;
    Fixture::new().await.call(Target::Call(url), b"{}", LONG).await
}

#[tokio::test]
async fn a_function_gets_the_body_and_the_headers_byte_for_byte_two_of_a_name_as_two() {
    let (url, mut requests) = answering("HTTP/1.1 204 X\r\n\r\n").await;
    let fixture = Fixture::new().await;
    let mut call = call(Target::Call(format!("{url}?own=1&a=1&a=2&b=%00")), b"\x00\xFF{\r\n\r\n", LONG);
    call.headers.extend([
        ("X-Tag".to_owned(), b"one".to_vec()),
        ("x-tag".to_owned(), b"two".to_vec()),
        ("X-Latin".to_owned(), b"\xE9 \xFF\x80".to_vec()),
        ("X-Long".to_owned(), vec![b'l'; 16 * 1024]),
        ("X-Empty".to_owned(), Vec::new()),
    ]);
    assert_eq!(fixture.functions.call(call).await, FunctionOutcome::Answered { status: 204 });
    let request = requests.recv().await.unwrap();
    let has = |part: &[u8]| request.windows(part.len()).any(|window| window == part);
    assert!(request.starts_with(b"POST /f?own=1&a=1&a=2&b=%00 HTTP/1.1\r\n"), "{}", String::from_utf8_lossy(&request));
    assert!(has(b"x-tag: one\r\nx-tag: two\r\n"));
    assert!(has(b"x-latin: \xE9 \xFF\x80\r\n") && has(b"x-empty: \r\n"));
    assert!(has(&[b"x-long: ".as_slice(), &[b'l'; 16 * 1024], b"\r\n"].concat()));
    assert!(request.ends_with(b"\r\n\r\n\x00\xFF{\r\n\r\n"));
}

#[tokio::test]
async fn only_2xx_is_done_and_a_redirect_is_not_followed_with_the_body() {
    for (answer, status) in [
        ("HTTP/1.1 200 X\r\ncontent-length: 2\r\n\r\nok", 200),
        ("HTTP/1.1 299 X\r\ncontent-length: 0\r\n\r\n", 299),
        ("HTTP/1.0 204 X\r\n\r\n", 204),
    ] {
        assert_eq!(outcome_of(answer).await, FunctionOutcome::Answered { status });
    }
    for (answer, status) in [
        ("HTTP/1.1 302 X\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n", 302),
        ("HTTP/1.1 410 X\r\ncontent-length: 0\r\n\r\n", 410),
        ("HTTP/1.1 429 X\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n", 429),
        ("HTTP/1.1 500 X\r\ncontent-length: 0\r\n\r\n", 500),
    ] {
        let (url, mut requests) = answering(answer).await;
        let outcome = Fixture::new().await.call(Target::Call(url), b"{}", LONG).await;
        assert!(!outcome.is_done() && outcome.status() == Some(status), "{outcome:?}");
        assert!(requests.recv().await.is_some() && requests.try_recv().is_err(), "one request, and no other");
    }
}

#[tokio::test]
async fn an_informational_answer_is_not_the_answer() {
    let answer = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 200 X\r\ncontent-length: 0\r\n\r\n";
    assert_eq!(outcome_of(answer).await, FunctionOutcome::Answered { status: 200 });
    let switched = outcome_of("HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n").await;
    assert!(!switched.is_done(), "{switched:?}");
}

#[tokio::test]
async fn a_function_that_hangs_is_given_up_at_the_limit() {
    let (url, _requests) = server(|stream| async move {
        tokio::time::sleep(LONG).await;
        drop(stream);
    })
    .await;
    let started = Instant::now();
    let outcome = Fixture::new().await.call(Target::Call(url), b"{}", SHORT).await;
    assert_eq!(error(&outcome), "no answer within 0.5 s");
    assert!(started.elapsed() < SHORT * 4, "{:?}", started.elapsed());
}

#[tokio::test]
async fn an_answer_that_comes_byte_by_byte_is_waited_for_until_the_limit_and_no_longer() {
    let slowly = |pause: Duration| {
        server(move |mut stream| async move {
            for byte in b"HTTP/1.1 200 X\r\ncontent-length: 0\r\n\r\n" {
                let _ = stream.write_all(&[*byte]).await;
                tokio::time::sleep(pause).await;
            }
        })
    };
    let (url, _requests) = slowly(Duration::from_millis(5)).await;
    let fixture = Fixture::new().await;
    assert_eq!(fixture.call(Target::Call(url), b"{}", LONG).await, FunctionOutcome::Answered { status: 200 });
    let (url, _requests) = slowly(Duration::from_millis(100)).await;
    let started = Instant::now();
    assert!(!fixture.call(Target::Call(url), b"{}", SHORT).await.is_done());
    assert!(started.elapsed() < SHORT * 4, "{:?}", started.elapsed());
}

#[tokio::test]
async fn the_head_is_the_answer_however_slow_or_endless_the_body_is() {
    let (flood, _requests) = server(|mut stream| async move {
        let _ = stream.write_all(b"HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n").await;
        let chunk = [b"10000\r\n".as_slice(), &[b'x'; 0x10000], b"\r\n"].concat();
        while stream.write_all(&chunk).await.is_ok() {}
    })
    .await;
    let (drip, _requests) = server(|mut stream| async move {
        let _ = stream.write_all(b"HTTP/1.1 500 X\r\ncontent-length: 1000000\r\n\r\n").await;
        while stream.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    let fixture = Fixture::new().await;
    let started = Instant::now();
    assert_eq!(fixture.call(Target::Call(flood), b"{}", LONG).await, FunctionOutcome::Answered { status: 200 });
    assert_eq!(fixture.call(Target::Call(drip), b"{}", LONG).await, FunctionOutcome::Answered { status: 500 });
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_head_without_end_is_a_failure_and_bounded() {
    let (url, _requests) = server(|mut stream| async move {
        let _ = stream.write_all(b"HTTP/1.1 200 X\r\n").await;
        while stream.write_all(b"x-more: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n").await.is_ok() {}
    })
    .await;
    let started = Instant::now();
    let outcome = Fixture::new().await.call(Target::Call(url), b"{}", LONG).await;
    assert!(!outcome.is_done(), "{outcome:?}");
    assert!(started.elapsed() < LONG / 2, "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_function_that_is_not_there_or_goes_away_is_told_in_words() {
    let fixture = Fixture::new().await;
    let (closes, _requests) = server(|stream| async move { drop(stream) }).await;
    let said = error(&fixture.call(Target::Call(closes), b"{}", LONG).await);
    assert!(said.contains("closed") || said.contains("reset"), "{said}");
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let said = error(&fixture.call(Target::Call(format!("http://{nobody}/")), b"{}", LONG).await);
    assert!(said.starts_with("no connection: "), "{said}");
    let said = error(&outcome_of("SMTP ready\r\n\r\n").await);
    assert!(!said.is_empty());
    let said = error(&fixture.call(Target::Call("no address".to_owned()), b"{}", LONG).await);
    assert!(said.contains("no address"), "{said}");
    let said = error(&fixture.call(Target::Service("w".to_owned()), b"{}", LONG).await);
    assert_eq!(said, "the Worker w is reached by a service binding, on Workers only");
}
