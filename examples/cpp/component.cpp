// Calls a component by values in C++17, and runs a command of WASI 0.2.
//
//     cargo run --release --bin aotc -- examples/c/component.wat -o shop.so
//     cargo run --release --bin aotc -- examples/guests/hello-p2.wasm -o hello-p2.so
//     c++ -std=c++17 examples/cpp/component.cpp -I capi/include -L target/release -lpirn
//     LD_LIBRARY_PATH=target/release ./a.out shop.so hello-p2.so

#include <cstdio>
#include <map>
#include <pirn_component.hpp>

namespace {

using pirn::Value;
using Prices = std::map<std::string, std::uint32_t>;

pirn::ComponentPrepared prepare(const char *path, const pirn::ComponentLinker &linker) {
    // A component can have a memory for each of its core modules.
    pirn::Region region{{PIRN_REGION_SLOTS, 1}, {PIRN_REGION_MEMORIES, 4}};
    pirn::Module module = pirn::Module::open(path);
    return pirn::ComponentPrepared(region, pirn::Component(module), linker);
}

Value item(const char *name, std::uint32_t count) {
    return Value::record({{"name", Value(name)}, {"count", Value(count)}});
}

void shop(const char *path) {
    pirn::ComponentLinker linker;
    linker.func("example:shop/prices", "price",
                [](void *data, const std::vector<Value> &args) -> std::vector<Value> {
                    const Prices &prices = *static_cast<const Prices *>(data);
                    if (args[0].text() == "poison") {
                        throw pirn::Error("poison is not for sale", 42);
                    }
                    auto found = prices.find(args[0].text());
                    if (found == prices.end()) {
                        return {Value::none()};
                    }
                    return {Value::some(Value(found->second))};
                });
    pirn::ComponentPrepared prepared = prepare(path, linker);
    pirn::ComponentFunc total = prepared.func("total");
    Prices prices{{"pear", 25}, {"plum", 4}};
    pirn::ComponentInstance instance(prepared, &prices);
    for (const char *name : {"plum", "stone"}) {
        auto result = instance.call(total, {Value::list({item("pear", 3), item(name, 3)})});
        const Value &payload = result.at(0).values().at(0);
        if (result[0].is_error()) {
            std::printf("no price: %s\n", payload.text().c_str());
        } else {
            std::printf("total: %u\n", payload.of().u32);
        }
    }
    try {
        instance.call(total, {Value("pear")});
    } catch (const pirn::Error &error) {
        std::printf("%u: %s\n", error.kind(), error.what());
    }
    try {
        instance.call(total, {Value::list({item("poison", 1)})});
    } catch (const pirn::Error &error) {
        std::printf("%llu: %s\n", static_cast<unsigned long long>(error.user()), error.what());
    }
}

void command(const char *path) {
    pirn::ComponentLinker linker;
    linker.wasi();
    pirn::ComponentPrepared prepared = prepare(path, linker);
    pirn::Wasi2 wasi;
    wasi.arg("hello").inherit_stdio();
    pirn::ComponentInstance instance(prepared, nullptr, &wasi);
    std::fflush(stdout);
    std::printf("exit code: %u\n", instance.run());
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 3) {
        std::fprintf(stderr, "usage: component SHOP.so COMMAND.so\n");
        return 2;
    }
    try {
        shop(argv[1]);
        command(argv[2]);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "component: %s\n", error.what());
        return 1;
    }
    return 0;
}
