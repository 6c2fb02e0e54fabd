// pirn for C++17: types that own the handles of pirn.h, whose rules apply.
//
// Errors are exceptions of type pirn::Error. A constructor that fails has no other way to say so,
// and a guest's trap unwinds the C++ frames above the call as an error of those frames would. A
// program without exceptions uses pirn.h. Handles are move-only; Module, Prepared and KillSwitch
// have `clone`, which makes a second one. An object that was moved from holds NULL: its functions
// throw, but for those that are noexcept, which return 0 or NULL.
//
// A host function may throw. A pirn::Error keeps its message and `user` on its way to the caller of
// the guest. Its kind becomes PIRN_ERROR_HOST and it loses its frames, but for a trap without
// frames, which stays one. Any other exception becomes an error of kind PIRN_ERROR_HOST with its
// `what()`.

#ifndef PIRN_HPP
#define PIRN_HPP

#include <pirn.h>

#include <cstring>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace pirn {

// Why a function failed. Copies share one error.
class Error : public std::exception {
public:
    // Takes the error over.
    explicit Error(pirn_error_t *error) : error_(error, pirn_error_delete) {}
    // An error for a host function to throw, with any number of the embedder's.
    explicit Error(const std::string &message, std::uint64_t user = 0)
        : Error(pirn_error_new(message.c_str(), user)) {}
    // A trap for a host function to throw.
    static Error trap(std::uint32_t code) { return Error(pirn_error_trap(code)); }

    const char *what() const noexcept override { return pirn_error_message(error_.get()); }
    pirn_error_kind_t kind() const noexcept { return pirn_error_kind(error_.get()); }
    // The message and the backtrace, a line each.
    const char *report() const noexcept { return pirn_error_report(error_.get()); }
    std::uint32_t trap_code() const noexcept { return pirn_error_trap_code(error_.get()); }
    std::uint32_t exit_code() const noexcept { return pirn_error_exit_code(error_.get()); }
    std::uint64_t user() const noexcept { return pirn_error_user(error_.get()); }
    // The frames of the guest, innermost first. Their texts live as long as the error.
    std::vector<pirn_frame_t> frames() const {
        std::vector<pirn_frame_t> all(pirn_error_frame_count(error_.get()));
        for (std::size_t at = 0; at < all.size(); at++) {
            pirn_error_frame(error_.get(), at, &all[at]);
        }
        return all;
    }

private:
    std::shared_ptr<pirn_error_t> error_;
};

// Throws an error that is not NULL.
inline void check(pirn_error_t *error) {
    if (error != nullptr) {
        throw Error(error);
    }
}

namespace detail {

template <class T, void (*Delete)(T *)> struct Deleter {
    void operator()(T *handle) const noexcept { Delete(handle); }
};

// Owns a handle.
template <class T, void (*Delete)(T *)> class Handle {
public:
    T *get() const noexcept { return handle_.get(); }
    // Gives the handle away.
    T *release() noexcept { return handle_.release(); }

protected:
    explicit Handle(T *handle) : handle_(handle) {}
    // A handle that a function writes through a pointer.
    template <class Make> static T *made(Make make) {
        T *handle = nullptr;
        check(make(&handle));
        return handle;
    }
    // A handle of a function that returns NULL for an invalid one.
    static T *cloned(T *handle) {
        if (handle == nullptr) {
            throw Error("handle cannot be cloned; it was moved from");
        }
        return handle;
    }

private:
    std::unique_ptr<T, Deleter<T, Delete>> handle_;
};

// The kind of a C++ type, and its form as a word.
template <class T> struct Word {
    static_assert(std::is_arithmetic<T>::value && (sizeof(T) == 4 || sizeof(T) == 8),
                  "a parameter or result must be an integer or a float of 32 or 64 bits");
    static constexpr pirn_kind_t kind =
        std::is_floating_point<T>::value ? (sizeof(T) == 4 ? PIRN_F32 : PIRN_F64)
                                         : (sizeof(T) == 4 ? PIRN_I32 : PIRN_I64);
    static std::uint64_t from(T value) noexcept {
        std::uint64_t word = 0;
        std::memcpy(&word, &value, sizeof value);
        return word;
    }
    static T to(std::uint64_t word) noexcept {
        T value;
        std::memcpy(&value, &word, sizeof value);
        return value;
    }
};

// Keeps the types of arguments from being deduced: those of the function count.
template <class T> struct Same {
    using type = T;
};
template <class T> using SameT = typename Same<T>::type;

// Frees a function object that the library holds.
template <class F> void free_function(void *env) { delete static_cast<F *>(env); }

// Runs the body of a host function. No exception leaves it.
template <class Body> pirn_error_t *guarded(Body body) noexcept {
    try {
        body();
        return nullptr;
    } catch (const Error &error) {
        if (error.trap_code() != 0 && error.frames().empty()) {
            return pirn_error_trap(error.trap_code());
        }
        return pirn_error_new(error.what(), error.user());
    } catch (const std::exception &error) {
        return pirn_error_new(error.what(), 0);
    } catch (...) {
        return pirn_error_new("unknown exception of a host function", 0);
    }
}

} // namespace detail

// Bytes that the library made.
class Bytes : public detail::Handle<pirn_bytes_t, pirn_bytes_delete> {
public:
    explicit Bytes(pirn_bytes_t *bytes) : Handle(bytes) {}
    const std::uint8_t *data() const noexcept { return pirn_bytes_data(get()); }
    std::size_t size() const noexcept { return pirn_bytes_len(get()); }
    std::string_view text() const noexcept {
        return {reinterpret_cast<const char *>(data()), size()};
    }
};

// A compiled module.
class Module : public detail::Handle<pirn_module_t, pirn_module_delete> {
public:
    explicit Module(pirn_module_t *module) : Handle(module) {}
    static Module open(const std::string &path) {
        return Module(made([&](auto to) { return pirn_module_open(path.c_str(), to); }));
    }
    static Module from_bytes(const void *bytes, std::size_t size) {
        auto first = static_cast<const std::uint8_t *>(bytes);
        return Module(made([&](auto to) { return pirn_module_from_bytes(first, size, to); }));
    }
    Bytes to_bytes() const {
        pirn_bytes_t *bytes = nullptr;
        check(pirn_module_to_bytes(get(), &bytes));
        return Bytes(bytes);
    }
    Module clone() const { return Module(cloned(pirn_module_clone(get()))); }
    bool is_snapshot() const noexcept { return pirn_module_is_snapshot(get()) != 0; }
};

// A set of slots.
class Region : public detail::Handle<pirn_region_t, pirn_region_delete> {
public:
    explicit Region(std::initializer_list<pirn_region_option_t> options = {})
        : Handle(made([&](auto to) {
              return pirn_region_new(options.begin(), options.size(), to);
          })) {}
    std::size_t slots_free() const noexcept { return pirn_region_slots_free(get()); }
};

// A host function's access to the instance that calls it. Valid until the function returns.
class Caller {
public:
    explicit Caller(pirn_caller_t *caller) : caller_(caller) {}
    pirn_caller_t *get() const noexcept { return caller_; }
    // The data of the instance.
    template <class T> T *data() const noexcept {
        return static_cast<T *>(pirn_caller_data(caller_));
    }
    bool is_stopped() const noexcept { return pirn_caller_is_stopped(caller_) != 0; }
    void read(std::uint64_t address, void *to, std::size_t size) const {
        check(pirn_caller_memory_read(caller_, nullptr, address, to, size));
    }
    void write(std::uint64_t address, const void *from, std::size_t size) const {
        check(pirn_caller_memory_write(caller_, nullptr, address, from, size));
    }
    // A copy of a text of the guest.
    std::string text(std::uint64_t address, std::uint64_t size) const {
        std::uint8_t *bytes = nullptr;
        check(pirn_caller_memory_slice(caller_, nullptr, address, size, &bytes));
        return {reinterpret_cast<const char *>(bytes), static_cast<std::size_t>(size)};
    }

private:
    pirn_caller_t *caller_;
};

// What guests can import from the host.
class Linker : public detail::Handle<pirn_linker_t, pirn_linker_delete> {
public:
    Linker() : Handle(cloned(pirn_linker_new())) {}

    // Adds a function over numbers. Its type is that of `Signature`, such as `int32_t(int64_t)`.
    // `func` takes a `Caller &` and the parameters. Several threads may call it at the same time.
    template <class Signature, class F>
    Linker &func(const std::string &module, const std::string &name, F func) {
        Adder<Signature>::template add<F>(get(), module, name, std::move(func));
        return *this;
    }

    // Adds a function of any type.
    using Values = std::function<void(Caller &, const pirn_val_t *, pirn_val_t *)>;
    Linker &values(const std::string &module, const std::string &name,
                   const std::vector<pirn_kind_t> &params,
                   const std::vector<pirn_kind_t> &results, Values func) {
        auto call = [](void *env, pirn_caller_t *caller, const pirn_val_t *args,
                       pirn_val_t *answers) noexcept {
            return detail::guarded([&] {
                Caller access(caller);
                (*static_cast<Values *>(env))(access, args, answers);
            });
        };
        check(pirn_linker_func(get(), module.c_str(), name.c_str(), params.data(), params.size(),
                               results.data(), results.size(), call, new Values(std::move(func)),
                               detail::free_function<Values>));
        return *this;
    }

    // Adds a function that asks the embedder: see pirn_linker_ask.
    template <class Signature>
    Linker &ask(const std::string &module, const std::string &name, std::uint64_t tag) {
        Adder<Signature>::ask(get(), module, name, tag);
        return *this;
    }

    // Adds WASI preview 1.
    Linker &wasi() {
        check(pirn_linker_wasi(get()));
        return *this;
    }

private:
    template <class Signature> struct Adder;
    template <class R, class... Args> struct Adder<R(Args...)> {
        static constexpr std::size_t results = std::is_void<R>::value ? 0 : 1;
        using Result = std::conditional_t<std::is_void<R>::value, std::int32_t, R>;
        static constexpr pirn_kind_t result = detail::Word<Result>::kind;

        template <class F>
        static pirn_error_t *call(void *env, pirn_caller_t *caller, const std::uint64_t *args,
                                  std::uint64_t *answer) noexcept {
            return detail::guarded([&] {
                Caller access(caller);
                run(*static_cast<F *>(env), access, args, answer,
                    std::index_sequence_for<Args...>{});
            });
        }
        template <class F, std::size_t... At>
        static void run(F &func, Caller &caller, const std::uint64_t *args, std::uint64_t *answer,
                        std::index_sequence<At...>) {
            (void)args;
            if constexpr (std::is_void<R>::value) {
                (void)answer;
                func(caller, detail::Word<Args>::to(args[At])...);
            } else {
                *answer = detail::Word<R>::from(func(caller, detail::Word<Args>::to(args[At])...));
            }
        }
        template <class F>
        static void add(pirn_linker_t *linker, const std::string &module, const std::string &name,
                        F func) {
            const pirn_kind_t params[sizeof...(Args) + 1] = {detail::Word<Args>::kind...};
            check(pirn_linker_words(linker, module.c_str(), name.c_str(), params, sizeof...(Args),
                                    &result, results, call<F>, new F(std::move(func)),
                                    detail::free_function<F>));
        }
        static void ask(pirn_linker_t *linker, const std::string &module, const std::string &name,
                        std::uint64_t tag) {
            const pirn_kind_t params[sizeof...(Args) + 1] = {detail::Word<Args>::kind...};
            check(pirn_linker_ask(linker, module.c_str(), name.c_str(), params, sizeof...(Args),
                                  &result, results, tag));
        }
    };
};

// A function of any type, looked up once.
class Func : public detail::Handle<pirn_func_t, pirn_func_delete> {
public:
    explicit Func(pirn_func_t *func) : Handle(func) {}
};

// A function over numbers, looked up and checked once.
template <class Signature> class Typed;
template <class R, class... Args> class Typed<R(Args...)> : public Func {
public:
    explicit Typed(pirn_func_t *func) : Func(func) {}
};

// A module that is linked and checked.
class Prepared : public detail::Handle<pirn_prepared_t, pirn_prepared_delete> {
public:
    Prepared(const Region &region, const Module &module, const Linker &linker)
        : Handle(made([&](auto to) {
              return pirn_region_prepare(region.get(), module.get(), linker.get(), to);
          })) {}
    Prepared clone() const { return Prepared(cloned(pirn_prepared_clone(get()))); }
    Prepared call_first(const std::string &name) const {
        return Prepared(made([&](auto to) {
            return pirn_prepared_call_first(get(), name.c_str(), to);
        }));
    }
    Func func(const std::string &name) const {
        pirn_func_t *func = nullptr;
        check(pirn_prepared_func(get(), name.c_str(), &func));
        return Func(func);
    }
    template <class Signature> Typed<Signature> typed(const std::string &name) const {
        return find<Signature>(name, static_cast<Signature *>(nullptr));
    }

private:
    explicit Prepared(pirn_prepared_t *prepared) : Handle(prepared) {}
    template <class Signature, class R, class... Args>
    Typed<Signature> find(const std::string &name, R (*)(Args...)) const {
        using Result = std::conditional_t<std::is_void<R>::value, std::int32_t, R>;
        const pirn_kind_t params[sizeof...(Args) + 1] = {detail::Word<Args>::kind...};
        const pirn_kind_t result = detail::Word<Result>::kind;
        pirn_func_t *func = nullptr;
        check(pirn_prepared_typed(get(), name.c_str(), params, sizeof...(Args), &result,
                                  std::is_void<R>::value ? 0 : 1, &func));
        return Typed<Signature>(func);
    }
};

// What WASI gives a guest.
class Wasi : public detail::Handle<pirn_wasi_t, pirn_wasi_delete> {
public:
    Wasi() : Handle(cloned(pirn_wasi_new())) {}
    Wasi &arg(const std::string &argument) {
        check(pirn_wasi_arg(get(), argument.c_str()));
        return *this;
    }
    Wasi &env(const std::string &name, const std::string &value) {
        check(pirn_wasi_env(get(), name.c_str(), value.c_str()));
        return *this;
    }
    Wasi &inherit_stdio() {
        check(pirn_wasi_inherit_stdio(get()));
        return *this;
    }
    Wasi &preopen(const std::string &host, const std::string &guest, bool read_only = false) {
        check(pirn_wasi_preopen_dir(get(), host.c_str(), guest.c_str(), read_only));
        return *this;
    }
};

// Stops a guest from any thread.
class KillSwitch : public detail::Handle<pirn_kill_switch_t, pirn_kill_switch_delete> {
public:
    explicit KillSwitch(pirn_kill_switch_t *kill_switch) : Handle(kill_switch) {}
    KillSwitch clone() const { return KillSwitch(cloned(pirn_kill_switch_clone(get()))); }
    std::uint32_t kill() const {
        std::uint32_t outcome = 0;
        check(pirn_kill_switch_kill(get(), &outcome));
        return outcome;
    }
    bool is_running() const noexcept { return pirn_kill_switch_is_running(get()) != 0; }
};

// A module in its own slot.
class Instance : public detail::Handle<pirn_instance_t, pirn_instance_delete> {
public:
    // An instance of a group, from pirn_group_member.
    explicit Instance(pirn_instance_t *instance) : Handle(instance) {}
    explicit Instance(const Prepared &prepared, void *data = nullptr, Wasi *wasi = nullptr,
                      std::uint64_t wait_ns = UINT64_MAX)
        : Handle(made([&](auto to) {
              return pirn_instance_new(prepared.get(), data, wasi ? wasi->release() : nullptr,
                                       wait_ns, to);
          })) {}

    // Calls a function over numbers.
    template <class R, class... Args>
    R call(const Typed<R(Args...)> &func, detail::SameT<Args>... args) {
        return call(pirn_limits_t{0, 0, 0}, func, args...);
    }
    template <class R, class... Args>
    R call(const pirn_limits_t &limits, const Typed<R(Args...)> &func,
           detail::SameT<Args>... args) {
        const std::uint64_t words[sizeof...(Args) + 1] = {detail::Word<Args>::from(args)...};
        std::uint64_t result = 0;
        check(pirn_instance_call_words(get(), func.get(), &limits, words, &result));
        if constexpr (!std::is_void<R>::value) {
            return detail::Word<R>::to(result);
        }
    }
    // Calls a function of any type.
    std::vector<pirn_val_t> call(const Func &func, const std::vector<pirn_val_t> &args) {
        std::size_t count = 0;
        check(pirn_func_type(func.get(), nullptr, 0, nullptr, &count));
        std::vector<pirn_val_t> results(count);
        check(pirn_instance_call(get(), func.get(), nullptr, args.data(), args.size(),
                                 results.data(), results.size()));
        return results;
    }

    // Starts a call that can be suspended.
    template <class R, class... Args>
    pirn_step_t start(const pirn_limits_t &limits, const Typed<R(Args...)> &func,
                      detail::SameT<Args>... args) {
        const std::uint64_t words[sizeof...(Args) + 1] = {detail::Word<Args>::from(args)...};
        pirn_step_t step;
        check(pirn_instance_start(get(), func.get(), &limits, words, &step));
        return step;
    }
    pirn_step_t resume(const pirn_limits_t &limits, const Func &func) {
        pirn_step_t step;
        check(pirn_instance_resume(get(), func.get(), &limits, &step));
        return step;
    }
    template <class T> pirn_step_t answer(const pirn_limits_t &limits, const Func &func, T answer) {
        pirn_step_t step;
        check(pirn_instance_answer(get(), func.get(), &limits, detail::Word<T>::from(answer),
                                   &step));
        return step;
    }
    void cancel() { check(pirn_instance_cancel(get())); }

    void read(std::uint64_t address, void *to, std::size_t size) const {
        check(pirn_instance_memory_read(get(), nullptr, address, to, size));
    }
    void write(std::uint64_t address, const void *from, std::size_t size) {
        check(pirn_instance_memory_write(get(), nullptr, address, from, size));
    }
    KillSwitch kill_switch() {
        pirn_kill_switch_t *made = nullptr;
        check(pirn_instance_kill_switch(get(), &made));
        return KillSwitch(made);
    }
    // Ends the instance, and makes a module of its state.
    Module snapshot() && {
        pirn_module_t *module = nullptr;
        check(pirn_instance_snapshot(release(), nullptr, 0, &module));
        return Module(module);
    }
};

} // namespace pirn

#endif
