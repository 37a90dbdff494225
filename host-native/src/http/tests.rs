use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

const LIMIT: Duration = Duration::from_millis(500);

/// A server that reads what comes first and then does this with the connection.
async fn server<F: Future<Output = ()> + Send>(then: impl Fn(TcpStream) -> F + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut bytes = vec![0; 64 * 1024];
            let _ = stream.read(&mut bytes).await;
            then(stream).await;
        }
    });
    url
}

async fn post(url: &str) -> Result<Answer, String> {
    Client::new().post(url, &[("content-type", "application/json".to_owned())], b"{}".to_vec(), LIMIT).await
}

#[tokio::test]
async fn an_answer_is_its_status_and_its_retry_after_and_a_redirect_is_not_followed() {
    let url = server(|mut stream| async move {
        let answer = "HTTP/1.1 307 X\r\nlocation: http://127.0.0.1:9/\r\nretry-after: 120\r\ncontent-length: 0\r\n\r\n";
        let _ = stream.write_all(answer.as_bytes()).await;
    })
    .await;
    assert_eq!(post(&url).await, Ok(Answer { status: 307, retry_after: Some("120".to_owned()) }));
}

#[tokio::test]
async fn a_subscriber_that_hangs_is_given_up_at_the_limit() {
    let url = server(|stream| async move {
        tokio::time::sleep(Duration::from_secs(60)).await;
        drop(stream);
    })
    .await;
    let start = Instant::now();
    assert_eq!(post(&url).await, Err("no answer within 0.5 s".to_owned()));
    assert!(start.elapsed() < LIMIT * 4);
}

#[tokio::test]
async fn a_subscriber_that_closes_the_socket_is_told_so_in_words() {
    let url = server(|stream| async move { drop(stream) }).await;
    let why = post(&url).await.unwrap_err();
    assert!(why.contains("closed") || why.contains("reset"), "{why}");
}

#[tokio::test]
async fn a_subscriber_that_floods_its_answer_is_answered_all_the_same_and_soon() {
    let url = server(|mut stream| async move {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
        let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
        while stream.write_all(chunk.as_bytes()).await.is_ok() {}
    })
    .await;
    let start = Instant::now();
    assert_eq!(post(&url).await.unwrap().status, 200);
    assert!(start.elapsed() < DRAIN_TIME_MAX + LIMIT * 2);
}

#[tokio::test]
async fn an_answer_that_never_ends_holds_nothing_up_for_long() {
    let url = server(|mut stream| async move {
        let _ = stream.write_all(b"HTTP/1.1 204 X\r\nx-slow: 1\r\n\r\n").await;
        tokio::time::sleep(Duration::from_secs(60)).await;
    })
    .await;
    assert_eq!(post(&url).await.unwrap().status, 204);
}

#[tokio::test]
async fn what_is_no_answer_or_no_address_is_said_in_words() {
    let url = server(|mut stream| async move {
        let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").await;
    })
    .await;
    assert!(post(&url).await.is_err());
    assert!(post("http://127.0.0.1:9/").await.unwrap_err().starts_with("no connection: "));
    assert!(post("ftp://example.com/").await.unwrap_err().contains("no http:// or https:// address"));
    assert!(post("not an address").await.unwrap_err().contains("is no address"));
}

#[tokio::test]
async fn a_whole_answer_that_is_too_long_is_refused() {
    let url = server(|mut stream| async move {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n").await;
        let _ = stream.write_all(&[b'x'; 100]).await;
    })
    .await;
    let ask = |max| {
        let request = Request::get(&url).body(Full::default()).unwrap();
        async move { Client::new().request(request, max, LIMIT).await }
    };
    assert_eq!(ask(100).await.unwrap().1.len(), 100);
    assert!(ask(99).await.unwrap_err().contains("longer than 99 bytes"));
}
