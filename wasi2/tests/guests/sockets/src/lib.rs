//! The guest of the tests of sockets. Its first argument names what it does. It panics if anything
//! is not as the interface says.

mod net;
mod names;
mod options;
mod policy;
mod states;
mod tcp;
mod udp;

use wasip2::cli::environment::get_arguments;

struct Sockets;

wasip2::cli::command::export!(Sockets);

impl wasip2::exports::cli::run::Guest for Sockets {
    fn run() -> Result<(), ()> {
        let args = get_arguments();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        match args.as_slice() {
            ["serve", at] => tcp::serve(at),
            ["echo", to] => tcp::echo(to),
            ["full", to] => tcp::full(to),
            ["stuck", to] => tcp::stuck(to),
            ["drops", to] => tcp::drops(to),
            ["dropped-rest", to] => tcp::dropped_rest(to),
            ["refused", to] => tcp::refused(to),
            ["reset", to] => tcp::reset(to),
            ["timeouts", to] => tcp::timeouts(to),
            ["shut", to] => tcp::shut(to),
            ["udp", to] => udp::echo(to),
            ["udp-refused", to] => udp::refused(to),
            ["udp-peers", at] => udp::peers(at),
            ["udp-limits", at] => udp::limits(at),
            ["udp-states"] => udp::states(),
            ["unpermitted-send"] => udp::unpermitted(),
            ["names"] => names::localhost(),
            ["many-names"] => names::many(),
            ["denied"] => policy::denied(),
            ["bound"] => policy::bound(),
            ["addresses", allowed] => policy::addresses(allowed),
            ["binds"] => policy::binds(),
            ["datagrams", allowed] => policy::datagrams(allowed),
            ["limit", max] => policy::limit(max),
            ["states"] => states::all(),
            ["options"] => options::all(),
            other => panic!("unknown arguments {other:?}"),
        }
        Ok(())
    }
}
