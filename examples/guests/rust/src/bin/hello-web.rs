//! The shortest response over CGI: it measures the cost of a request whose guest does little.

fn main() {
    print!("Content-Type: text/plain\n\nhello from a slot\n");
}
