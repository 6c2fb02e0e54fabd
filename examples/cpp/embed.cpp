// Embeds a guest in C++17.
//
//     cargo run --release --bin aotc -- examples/c/guest.wat -o guest.so
//     c++ -std=c++17 examples/cpp/embed.cpp -I capi/include -L target/release -lpirn -o embed
//     LD_LIBRARY_PATH=target/release ./embed guest.so

#include <cstdio>
#include <pirn.hpp>
#include <stdexcept>
#include <thread>

namespace {

constexpr pirn_limits_t no_limits{0, 0, 0};
constexpr std::uint64_t tag_fetch = 1;

pirn::Linker make_linker() {
    pirn::Linker linker;
    linker.func<void(std::uint32_t, std::uint32_t)>(
        "host", "log", [](pirn::Caller &caller, std::uint32_t address, std::uint32_t size) {
            std::printf("%s: %s\n", caller.data<std::string>()->c_str(),
                        caller.text(address, size).c_str());
        });
    linker.func<std::int32_t(std::int32_t)>("host", "square", [](pirn::Caller &, std::int32_t n) {
        if (n > 46340) {
            throw std::out_of_range("square of a number above 46340");
        }
        return n * n;
    });
    linker.ask<std::int64_t(std::int32_t)>("host", "fetch", tag_fetch);
    return linker;
}

void run(const char *path) {
    pirn::Region region{{PIRN_REGION_SLOTS, 4}, {PIRN_REGION_MEMORY_BYTES_MAX, 16 << 20}};
    pirn::Prepared prepared(region, pirn::Module::open(path), make_linker());
    auto greet = prepared.typed<void()>("greet");
    auto add = prepared.typed<std::int32_t(std::int32_t, std::int32_t)>("add");
    auto average = prepared.typed<std::int32_t(std::int32_t, std::int32_t)>("average");
    auto twice = prepared.typed<std::int32_t(std::int32_t)>("twice");
    auto sum = prepared.typed<std::int64_t(std::int32_t)>("sum_of_two");
    auto forever = prepared.typed<void()>("forever");
    auto count = prepared.typed<std::int32_t()>("count");

    std::string request = "request 1";
    pirn::Instance instance(prepared, &request);
    instance.call(greet);
    std::printf("add: %d\n", instance.call(add, 40, 2));
    try {
        instance.call(average, 1, 0);
    } catch (const pirn::Error &error) {
        std::printf("trap %u:\n", error.trap_code());
        for (const pirn_frame_t &frame : error.frames()) {
            std::printf("  %s!%s\n", frame.module_name, frame.func_name);
        }
    }
    try {
        instance.call(twice, 50000);
    } catch (const pirn::Error &error) {
        std::printf("host error: %s\n", error.what());
    }
    try {
        instance.call({2000000, 0, 0}, forever);
    } catch (const pirn::Error &error) {
        std::printf("deadline: %d\n", error.kind() == PIRN_ERROR_DEADLINE);
    }
    try {
        prepared.typed<double()>("add");
    } catch (const pirn::Error &error) {
        std::printf("link error: %d\n", error.kind() == PIRN_ERROR_LINK);
    }

    // A suspended call moves to another thread with its instance.
    pirn_step_t step = instance.start(no_limits, sum, 10);
    std::thread([&] {
        while (step.kind == PIRN_STEP_ASKED) {
            step = instance.answer(no_limits, sum, static_cast<std::int64_t>(step.args[0] * 100));
        }
    }).join();
    std::printf("returned %lld\n", static_cast<long long>(step.result));

    pirn::KillSwitch kill_switch = instance.kill_switch();
    std::thread killer([&] {
        while (!kill_switch.is_running()) {
            std::this_thread::yield();
        }
        kill_switch.kill();
    });
    try {
        instance.call(forever);
    } catch (const pirn::Error &error) {
        std::printf("killed: %d\n", error.kind() == PIRN_ERROR_KILLED);
    }
    killer.join();

    pirn::Instance warm(prepared, &request);
    warm.call(count);
    pirn::Module snapshot = std::move(warm).snapshot();
    pirn::Prepared again(region, snapshot, make_linker());
    pirn::Instance next(again, &request);
    std::printf("warm: %d\n", next.call(again.typed<std::int32_t()>("count")));
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: embed GUEST.so\n");
        return 2;
    }
    try {
        run(argv[1]);
    } catch (const pirn::Error &error) {
        std::fprintf(stderr, "embed: %s\n", error.report());
        return 1;
    }
}
