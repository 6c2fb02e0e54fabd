//! The shortest answer over CGI: what a request costs when its guest does next to nothing.

fn main() {
    print!("Content-Type: text/plain\n\nhello from a slot\n");
}
