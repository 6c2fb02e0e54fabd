// A host function that throws, without the wrapper of pirn.hpp that catches.

#include <cstdio>
#include <pirn.hpp>
#include <stdexcept>

static pirn_error_t *throws(void *, pirn_caller_t *, const std::uint64_t *, std::uint64_t *) {
    std::puts("called");
    std::fflush(stdout);
    throw std::runtime_error("leaves the host function");
}

int main(int, char **argv) {
    const pirn_kind_t i32[] = {PIRN_I32, PIRN_I32}, i64[] = {PIRN_I64};
    pirn::Linker linker;
    pirn_linker_t *raw = linker.get();
    pirn::check(
        pirn_linker_words(raw, "host", "log", i32, 2, nullptr, 0, throws, nullptr, nullptr));
    pirn::check(pirn_linker_words(raw, "host", "square", i32, 1, i32, 1, throws, nullptr, nullptr));
    pirn::check(pirn_linker_ask(raw, "host", "fetch", i32, 1, i64, 1, 1));
    pirn::Region region{{PIRN_REGION_SLOTS, 1}};
    pirn::Prepared prepared(region, pirn::Module::open(argv[1]), linker);
    // The wrapper takes an instance of a group, too.
    pirn_group_t *group = nullptr;
    pirn_member_t id = 0;
    pirn_instance_t *made = nullptr;
    pirn::Module module = pirn::Module::open(argv[1]);
    pirn::check(pirn_group_new(region.get(), nullptr, nullptr, &group));
    pirn::check(pirn_group_add(group, module.get(), raw, &id));
    pirn::check(pirn_group_member(group, id, &made));
    char written = 'g', read = 0;
    pirn::Instance member(made);
    member.write(0, &written, 1);
    member.read(0, &read, 1);
    pirn_group_delete(group);
    try {
        member.read(0, &read, 1);
    } catch (const pirn::Error &error) {
        if (error.kind() == PIRN_ERROR_STATE && read == written) {
            std::puts("group");
        }
    }
    pirn::Instance instance(prepared);
    try {
        instance.call(prepared.typed<void()>("greet"));
    } catch (...) {
        std::puts("caught");
    }
    std::puts("not reached");
}
