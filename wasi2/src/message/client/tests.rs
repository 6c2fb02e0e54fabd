//! Resolvers and servers that try to lead requests to addresses that are not allowed.

use super::*;
use crate::resolver::Resolver;
use crate::resolver::tests::Blocked;
use crate::threads::{Pool, User};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinHandle;

/// The threads of all resolvers except `Blocked`.
static THREADS: Pool = Pool::new(64, 64);

/// A client for these servers.
fn client(servers: &[String]) -> Client {
    let mut allowed = Allowed::default();
    for server in servers {
        allowed.add(server).expect("it is a server");
    }
    Client::new(allowed)
}

/// A resolver that gives its n-th caller the n-th answer, and the list of the looked-up names.
fn resolver(answers: &[&[&str]]) -> (Resolver, Arc<Mutex<Vec<String>>>) {
    let address = |text: &&str| {
        let ip: IpAddr = text.parse().expect("an address");
        SocketAddr::new(ip, 0)
    };
    let answers = answers
        .iter()
        .map(|answer| answer.iter().map(address).collect());
    let answers: Vec<Vec<SocketAddr>> = answers.collect();
    let asked = Arc::new(Mutex::new(vec![]));
    let names = Arc::clone(&asked);
    let resolver = Resolver::of(&THREADS, move |name| {
        let mut names = names.lock().expect("it is whole");
        names.push(name.to_owned());
        Ok(answers[names.len() - 1].clone())
    });
    (resolver, asked)
}

/// Sends a request. The resolver finds the host's addresses.
async fn send(client: &Client, resolver: &Resolver, uri: &str) -> Result<u16, ErrorCode> {
    send_of(User::default(), client, resolver, uri).await
}

/// Sends a request of a guest.
async fn send_of(
    user: User,
    client: &Client,
    resolver: &Resolver,
    uri: &str,
) -> Result<u16, ErrorCode> {
    let mut request = Request::get(uri)
        .body(OutgoingBody::empty())
        .expect("a request");
    request.extensions_mut().insert(Lookups {
        resolver: resolver.clone(),
        user,
        connection: None,
    });
    let response = client.send(request, RequestTimeouts::default())?.await?;
    Ok(response.status().as_u16())
}

/// A server that gives all clients the same answer.
struct Server {
    /// The heads of the received requests.
    lines: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Server {
    fn new(listener: TcpListener, answer: String) -> Self {
        let lines = Arc::new(Mutex::new(vec![]));
        let seen = Arc::clone(&lines);
        let task = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.expect("a client");
                let mut request = vec![];
                while !request.ends_with(b"\r\n\r\n") {
                    request.push(stream.read_u8().await.expect("a request"));
                }
                let request = String::from_utf8(request).expect("text");
                seen.lock().expect("it is whole").push(request);
                stream.write_all(answer.as_bytes()).await.expect("it reads");
            }
        });
        Self { lines, task }
    }

    fn requests(&self) -> Vec<String> {
        self.lines.lock().expect("it is whole").clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

/// Servers at two loopback addresses, with the same port. The tests allow the first address by its
/// own rule, and the second address only by rules for names.
async fn two_servers(answer: &str) -> (u16, Server, Server) {
    // Another program may have the port at the second address.
    loop {
        let first = TcpListener::bind((Ipv4Addr::new(127, 0, 0, 2), 0)).await;
        let first = first.expect("it binds");
        let port = first.local_addr().expect("it is bound").port();
        if let Ok(second) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
            let answer = answer.replace("PORT", &port.to_string());
            let first = Server::new(first, answer.clone());
            return (port, first, Server::new(second, answer));
        }
    }
}

#[tokio::test]
async fn a_name_that_changes_its_address_leads_nowhere() {
    let (port, first, second) = two_servers(OK).await;
    let client = client(&[
        format!("rebind.example:{port}"),
        format!("127.0.0.2:{port}"),
    ]);
    let uri = format!("http://rebind.example:{port}/");
    let answers: [&[&str]; 5] = [
        &["127.0.0.2"],
        &["127.0.0.1"],
        &["::ffff:127.0.0.1"],
        &["169.254.169.254", "::1", "0.0.0.0", "::"],
        &["127.0.0.2"],
    ];
    let (resolver, asked) = resolver(&answers);
    let prohibited = Err(ErrorCode::DestinationIpProhibited);
    for expected in [
        Ok(200),
        prohibited.clone(),
        prohibited.clone(),
        prohibited,
        Ok(200),
    ] {
        assert_eq!(send(&client, &resolver, &uri).await, expected);
    }
    // Each request looks the name up once: a second lookup could give an unchecked address.
    assert_eq!(*asked.lock().expect("it is whole"), ["rebind.example"; 5]);
    let host = format!("host: rebind.example:{port}\r\n");
    let requests = first.requests();
    assert_eq!(requests.len(), 2);
    assert!(
        requests.iter().all(|request| request.contains(&host)),
        "{requests:?}"
    );
    assert!(second.requests().is_empty());
}

/// The client skips an address that is not allowed, also after an address that refuses the
/// connection.
#[tokio::test]
async fn of_mixed_addresses_the_client_connects_to_allowed_ones() {
    let (port, first, second) = two_servers(OK).await;
    // The socket is bound, so no other program listens at the port. The socket itself does not
    // listen either.
    let closed = TcpSocket::new_v4().expect("a socket");
    let bound = closed.bind("127.0.0.3:0".parse().expect("an address"));
    bound.expect("it binds");
    let closed_port = closed.local_addr().expect("it is bound").port();
    let rules = [
        format!("mixed.example:{port}"),
        format!("127.0.0.2:{port}"),
        format!("127.0.0.3:{port}"),
        format!("mixed.example:{closed_port}"),
        format!("127.0.0.3:{closed_port}"),
    ];
    let client = client(&rules);
    let (one, _) = resolver(&[&["127.0.0.1", "::1", "127.0.0.2", "10.0.0.1"]]);
    let uri = format!("http://mixed.example:{port}/");
    assert_eq!(send(&client, &one, &uri).await, Ok(200));
    // The allowed address refuses. The client does not try the other addresses, which might answer.
    let (one, _) = resolver(&[&["127.0.0.3", "127.0.0.1"]]);
    let uri = format!("http://mixed.example:{closed_port}/");
    let refused = send(&client, &one, &uri).await;
    assert_eq!(refused, Err(ErrorCode::ConnectionRefused));
    assert_eq!((first.requests().len(), second.requests().len()), (1, 0));
}

/// `*` allows all names, and public addresses alone.
#[test]
fn a_public_address_is_allowed_and_its_neighbours_are_not() {
    let client = client(&["*:*".to_owned()]);
    let target = Target::of(&"http://any.example:81/".parse().expect("a URI"));
    let target = target.expect("it has a host");
    let parsed = |text: &str| SocketAddr::new(text.parse().expect("an address"), 81);
    let found = [
        "127.0.0.1",
        "192.0.2.1",
        "fe80::1",
        "2001:db8::1",
        "10.0.0.1",
    ]
    .map(parsed);
    let public = ["192.0.2.1", "2001:db8::1"].map(parsed);
    assert_eq!(client.allowed(&target, &found), Ok(public.to_vec()));
    let prohibited = client.allowed(&target, &["127.0.0.1", "::1"].map(parsed));
    assert_eq!(prohibited, Err(ErrorCode::DestinationIpProhibited));
    assert_eq!(client.allowed(&target, &[]), Ok(vec![]));
}

/// A denied name is not even looked up: a guest could send data in the name.
#[tokio::test]
async fn a_denied_name_is_not_looked_up() {
    let client = client(&["www.example:80".to_owned(), "127.0.0.1:*".to_owned()]);
    let (resolver, asked) = resolver(&[]);
    for uri in [
        "http://secret.example/",
        "http://www.example:81/",
        "http://localhost/",
    ] {
        let sent = send(&client, &resolver, uri).await;
        assert_eq!(sent, Err(ErrorCode::HttpRequestDenied), "{uri}");
    }
    for uri in [
        "http://2130706433/",
        "http://127.1/",
        "http://user@www.example/",
    ] {
        let sent = send(&client, &resolver, uri).await;
        assert_eq!(sent, Err(ErrorCode::HttpRequestUriInvalid), "{uri}");
    }
    assert!(asked.lock().expect("it is whole").is_empty());
}

#[tokio::test]
async fn redirects_are_for_the_guest() {
    let moved = "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://127.0.0.1:PORT/\r\n\
        content-length: 0\r\n\r\n";
    let (port, first, second) = two_servers(moved).await;
    let client = client(&[format!("127.0.0.2:{port}")]);
    let (resolver, _) = resolver(&[]);
    let sent = send(&client, &resolver, &format!("http://127.0.0.2:{port}/")).await;
    assert_eq!(sent, Ok(307));
    let again = send(&client, &resolver, &format!("http://127.0.0.1:{port}/")).await;
    assert_eq!(again, Err(ErrorCode::HttpRequestDenied));
    assert_eq!((first.requests().len(), second.requests().len()), (1, 0));
}

/// The requests of a guest take four threads for lookups, and leave the others to other guests.
#[tokio::test]
async fn a_guest_with_many_requests_looks_up_four_names_at_a_time() {
    let mut blocked = Blocked::new(64);
    let client = client(&["*:*".to_owned()]);
    let send = |guest, name: &str| {
        let uri = format!("http://{name}/");
        let (client, resolver) = (client.clone(), blocked.resolver.clone());
        let user = User { program: 1, guest };
        tokio::spawn(async move { send_of(user, &client, &resolver, &uri).await })
    };
    let many: Vec<_> = (0..60).map(|_| send(1, "many.example")).collect();
    let one = send(2, "one.example");
    blocked.counts(5, 56).await;
    let mut names = vec![];
    for _ in 0..5 {
        names.push(blocked.began().await);
    }
    names.sort();
    assert_eq!(names[3..], ["many.example", "one.example"]);
    for task in &many {
        task.abort();
    }
    // The lookups of the guest still count after its requests were dropped.
    blocked.counts(5, 0).await;
    blocked.open().await;
    let found = one.await.expect("it ends");
    assert_eq!(found, Err(ErrorCode::DestinationNotFound));
}
