// pirn for C++17: components. See pirn.hpp for the rules of errors, handles and host functions.

#ifndef PIRN_COMPONENT_HPP
#define PIRN_COMPONENT_HPP

#include <pirn.hpp>

namespace pirn {

// A value of the component model that owns all that it points to. A copy copies all.
//
// Numbers, texts and characters are made by `Value(...)`, where the C++ type decides the kind. The
// functions with names make the other kinds.
class Value {
public:
    using Field = std::pair<std::string, Value>;

    explicit Value(bool value) : kind_(PIRN_COMPONENT_BOOL) { of_.boolean = value; }
    explicit Value(std::int8_t value) : kind_(PIRN_COMPONENT_S8) { of_.s8 = value; }
    explicit Value(std::uint8_t value) : kind_(PIRN_COMPONENT_U8) { of_.u8 = value; }
    explicit Value(std::int16_t value) : kind_(PIRN_COMPONENT_S16) { of_.s16 = value; }
    explicit Value(std::uint16_t value) : kind_(PIRN_COMPONENT_U16) { of_.u16 = value; }
    explicit Value(std::int32_t value) : kind_(PIRN_COMPONENT_S32) { of_.s32 = value; }
    explicit Value(std::uint32_t value) : kind_(PIRN_COMPONENT_U32) { of_.u32 = value; }
    explicit Value(std::int64_t value) : kind_(PIRN_COMPONENT_S64) { of_.s64 = value; }
    explicit Value(std::uint64_t value) : kind_(PIRN_COMPONENT_U64) { of_.u64 = value; }
    explicit Value(float value) : kind_(PIRN_COMPONENT_F32) { of_.f32 = value; }
    explicit Value(double value) : kind_(PIRN_COMPONENT_F64) { of_.f64 = value; }
    explicit Value(char32_t value) : kind_(PIRN_COMPONENT_CHAR) { of_.character = value; }
    explicit Value(std::string value) : kind_(PIRN_COMPONENT_STRING), text_(std::move(value)) {}
    explicit Value(const char *value) : Value(std::string(value)) {}

    static Value list(std::vector<Value> values) {
        return Value(PIRN_COMPONENT_LIST, {}, {}, std::move(values));
    }
    static Value tuple(std::vector<Value> values) {
        return Value(PIRN_COMPONENT_TUPLE, {}, {}, std::move(values));
    }
    static Value record(std::vector<Field> fields) {
        Value made(PIRN_COMPONENT_RECORD, {}, {}, {});
        for (Field &field : fields) {
            made.names_.push_back(std::move(field.first));
            made.values_.push_back(std::move(field.second));
        }
        return made;
    }
    static Value variant(std::string name, std::vector<Value> payload = {}) {
        return Value(PIRN_COMPONENT_VARIANT, std::move(name), {}, std::move(payload));
    }
    static Value enumeration(std::string name) {
        return Value(PIRN_COMPONENT_ENUM, std::move(name), {}, {});
    }
    static Value none() { return Value(PIRN_COMPONENT_OPTION, {}, {}, {}); }
    static Value some(Value value) {
        return Value(PIRN_COMPONENT_OPTION, {}, {}, {std::move(value)});
    }
    static Value ok(std::vector<Value> payload = {}) {
        Value made(PIRN_COMPONENT_RESULT, {}, {}, std::move(payload));
        made.of_.result = {0, nullptr};
        return made;
    }
    static Value error(std::vector<Value> payload = {}) {
        Value made(PIRN_COMPONENT_RESULT, {}, {}, std::move(payload));
        made.of_.result = {1, nullptr};
        return made;
    }
    static Value flags(std::vector<std::string> names) {
        return Value(PIRN_COMPONENT_FLAGS, {}, std::move(names), {});
    }
    static Value own(pirn_component_resource_t resource) {
        return Value(PIRN_COMPONENT_OWN, resource);
    }
    static Value borrow(pirn_component_resource_t resource) {
        return Value(PIRN_COMPONENT_BORROW, resource);
    }
    // A copy of a value of the library.
    static Value copy(const pirn_component_value_t &value) {
        Value made(value.kind, {}, {}, {});
        switch (value.kind) {
        case PIRN_COMPONENT_STRING:
            made.text_.assign(value.of.string.data, value.of.string.len);
            break;
        case PIRN_COMPONENT_LIST:
        case PIRN_COMPONENT_TUPLE:
            for (std::size_t at = 0; at < value.of.list.count; at++) {
                made.values_.push_back(copy(value.of.list.values[at]));
            }
            break;
        case PIRN_COMPONENT_RECORD:
            for (std::size_t at = 0; at < value.of.record.count; at++) {
                made.names_.emplace_back(value.of.record.fields[at].name);
                made.values_.push_back(copy(value.of.record.fields[at].value));
            }
            break;
        case PIRN_COMPONENT_VARIANT:
            made.text_ = value.of.variant.name;
            made.add(value.of.variant.payload);
            break;
        case PIRN_COMPONENT_ENUM:
            made.text_ = value.of.enumeration;
            break;
        case PIRN_COMPONENT_OPTION:
            made.add(value.of.option);
            break;
        case PIRN_COMPONENT_RESULT:
            made.of_.result = {value.of.result.is_error, nullptr};
            made.add(value.of.result.payload);
            break;
        case PIRN_COMPONENT_FLAGS:
            made.names_.assign(value.of.flags.names, value.of.flags.names + value.of.flags.count);
            break;
        default:
            made.of_ = value.of;
        }
        return made;
    }

    pirn_component_kind_t kind() const noexcept { return kind_; }
    // The content of a number, a boolean, a character or a resource.
    const pirn_component_value_of_t &of() const noexcept { return of_; }
    // A string, or the name of the case of a variant or an enum.
    const std::string &text() const noexcept { return text_; }
    // The names of fields or flags.
    const std::vector<std::string> &names() const noexcept { return names_; }
    // Elements, values of fields, or the payload, of which there is at most one.
    const std::vector<Value> &values() const noexcept { return values_; }
    // The value of a field of a record.
    const Value &field(const std::string &name) const {
        for (std::size_t at = 0; at < names_.size() && at < values_.size(); at++) {
            if (names_[at] == name) {
                return values_[at];
            }
        }
        throw Error("the value has no field " + name);
    }
    bool is_error() const noexcept {
        return kind_ == PIRN_COMPONENT_RESULT && of_.result.is_error != 0;
    }

    // Calls `use` with the value as pirn.h has it, which is valid until `use` returns.
    template <class Use> void with(Use use) const {
        Lists lists;
        const pirn_component_value_t value = lists.of(*this);
        use(value);
    }

private:
    friend class ComponentInstance;

    // What C values point to. The elements of a list do not move: only the lists do.
    struct Lists {
        std::vector<std::vector<pirn_component_value_t>> values;
        std::vector<std::vector<pirn_component_field_t>> fields;
        std::vector<std::vector<const char *>> names;

        const pirn_component_value_t *all(const std::vector<Value> &from) {
            std::vector<pirn_component_value_t> made;
            for (const Value &value : from) {
                made.push_back(of(value));
            }
            values.push_back(std::move(made));
            return from.empty() ? nullptr : values.back().data();
        }
        pirn_component_value_t of(const Value &value) {
            pirn_component_value_t made{};
            made.kind = value.kind_;
            switch (value.kind_) {
            case PIRN_COMPONENT_STRING:
                made.of.string = {value.text_.data(), value.text_.size()};
                break;
            case PIRN_COMPONENT_LIST:
            case PIRN_COMPONENT_TUPLE:
                made.of.list = {all(value.values_), value.values_.size()};
                break;
            case PIRN_COMPONENT_RECORD:
                made.of.record = record(value);
                break;
            case PIRN_COMPONENT_VARIANT:
                made.of.variant = {value.text_.c_str(), all(value.values_)};
                break;
            case PIRN_COMPONENT_ENUM:
                made.of.enumeration = value.text_.c_str();
                break;
            case PIRN_COMPONENT_OPTION:
                made.of.option = all(value.values_);
                break;
            case PIRN_COMPONENT_RESULT:
                made.of.result = {value.of_.result.is_error, all(value.values_)};
                break;
            case PIRN_COMPONENT_FLAGS: {
                std::vector<const char *> texts;
                for (const std::string &name : value.names_) {
                    texts.push_back(name.c_str());
                }
                names.push_back(std::move(texts));
                made.of.flags = {names.back().data(), names.back().size()};
                break;
            }
            default:
                made.of = value.of_;
            }
            return made;
        }
        pirn_component_record_t record(const Value &value) {
            std::vector<pirn_component_field_t> made;
            for (std::size_t at = 0; at < value.values_.size(); at++) {
                made.push_back({value.names_[at].c_str(), of(value.values_[at])});
            }
            fields.push_back(std::move(made));
            return {fields.back().data(), fields.back().size()};
        }
    };

    Value(pirn_component_kind_t kind, std::string text, std::vector<std::string> names,
          std::vector<Value> values)
        : kind_(kind), text_(std::move(text)), names_(std::move(names)),
          values_(std::move(values)) {}
    Value(pirn_component_kind_t kind, pirn_component_resource_t resource) : kind_(kind) {
        of_.resource = resource;
    }
    void add(const pirn_component_value_t *payload) {
        if (payload != nullptr) {
            values_.push_back(copy(*payload));
        }
    }

    pirn_component_kind_t kind_;
    pirn_component_value_of_t of_{};
    std::string text_;
    std::vector<std::string> names_;
    std::vector<Value> values_;
};

// A compiled component.
class Component : public detail::Handle<pirn_component_t, pirn_component_delete> {
public:
    explicit Component(const Module &module)
        : Handle(made([&](auto to) { return pirn_component_new(module.get(), to); })) {}
};

// What components can import from the host.
class ComponentLinker
    : public detail::Handle<pirn_component_linker_t, pirn_component_linker_delete> {
public:
    ComponentLinker() : Handle(cloned(pirn_component_linker_new())) {}

    // A host function: it gets the data of the instance and the arguments, and returns the result
    // in a list, or an empty list if it has none. Several threads may call it at the same time.
    using Func = std::function<std::vector<Value>(void *data, const std::vector<Value> &args)>;
    ComponentLinker &func(const std::string &interface, const std::string &name, Func func) {
        auto call = [](void *env, pirn_component_caller_t *caller,
                       const pirn_component_value_t *args, std::size_t count) noexcept {
            return detail::guarded([&] {
                std::vector<Value> values;
                for (std::size_t at = 0; at < count; at++) {
                    values.push_back(Value::copy(args[at]));
                }
                void *data = pirn_component_caller_data(caller);
                for (const Value &result : (*static_cast<Func *>(env))(data, values)) {
                    result.with([&](const pirn_component_value_t &value) {
                        check(pirn_component_caller_return(caller, &value));
                    });
                }
            });
        };
        check(pirn_component_linker_func(get(), interface.c_str(), name.c_str(), call,
                                         new Func(std::move(func)), detail::free_function<Func>));
        return *this;
    }

    // A resource type of the host: `dropped` gets the data of the instance and the number of the
    // resource that a component has dropped.
    using Dropped = std::function<void(void *data, std::uint32_t rep)>;
    ComponentLinker &resource(const std::string &interface, const std::string &name,
                              Dropped dropped) {
        auto call = [](void *env, pirn_component_caller_t *caller, std::uint32_t rep) noexcept {
            return detail::guarded([&] {
                (*static_cast<Dropped *>(env))(pirn_component_caller_data(caller), rep);
            });
        };
        check(pirn_component_linker_resource(get(), interface.c_str(), name.c_str(), call,
                                             new Dropped(std::move(dropped)),
                                             detail::free_function<Dropped>));
        return *this;
    }

    // Adds WASI 0.2.
    ComponentLinker &wasi() {
        check(pirn_component_linker_wasi(get()));
        return *this;
    }
};

// A function of a component, looked up once.
class ComponentFunc : public detail::Handle<pirn_component_func_t, pirn_component_func_delete> {
public:
    explicit ComponentFunc(pirn_component_func_t *func) : Handle(func) {}
    const char *type() const noexcept { return pirn_component_func_type(get()); }
};

// A component that is linked and checked.
class ComponentPrepared
    : public detail::Handle<pirn_component_prepared_t, pirn_component_prepared_delete> {
public:
    ComponentPrepared(const Region &region, const Component &component,
                      const ComponentLinker &linker)
        : Handle(made([&](auto to) {
              return pirn_region_prepare_component(region.get(), component.get(), linker.get(), to);
          })) {}
    ComponentFunc func(const std::string &name) const {
        pirn_component_func_t *func = nullptr;
        check(pirn_component_prepared_func(get(), name.c_str(), &func));
        return ComponentFunc(func);
    }
};

// What WASI 0.2 gives a component.
class Wasi2 : public detail::Handle<pirn_wasi2_t, pirn_wasi2_delete> {
public:
    Wasi2() : Handle(cloned(pirn_wasi2_new())) {}
    Wasi2 &arg(const std::string &argument) {
        check(pirn_wasi2_arg(get(), argument.c_str()));
        return *this;
    }
    Wasi2 &env(const std::string &name, const std::string &value) {
        check(pirn_wasi2_env(get(), name.c_str(), value.c_str()));
        return *this;
    }
    Wasi2 &inherit_stdio() {
        check(pirn_wasi2_inherit_stdio(get()));
        return *this;
    }
    Wasi2 &preopen(const std::string &host, const std::string &guest, bool read_only = false) {
        check(pirn_wasi2_preopen_dir(get(), host.c_str(), guest.c_str(), read_only));
        return *this;
    }
};

// A component in its own slot.
class ComponentInstance
    : public detail::Handle<pirn_component_instance_t, pirn_component_instance_delete> {
public:
    explicit ComponentInstance(const ComponentPrepared &prepared, void *data = nullptr,
                               Wasi2 *wasi = nullptr, std::uint64_t wait_ns = UINT64_MAX)
        : Handle(made([&](auto to) {
              return pirn_component_instance_new(prepared.get(), data,
                                                 wasi ? wasi->release() : nullptr, wait_ns, to);
          })) {}

    // Calls a function. The list has its result, or nothing.
    std::vector<Value> call(const ComponentFunc &func, const std::vector<Value> &args,
                            std::uint64_t deadline_ns = 0) {
        Value::Lists lists;
        const pirn_component_value_t *first = lists.all(args);
        pirn_component_owned_t *owned = nullptr;
        check(pirn_component_instance_call(get(), func.get(), deadline_ns, first, args.size(),
                                           &owned));
        std::unique_ptr<pirn_component_owned_t,
                        detail::Deleter<pirn_component_owned_t, pirn_component_owned_delete>>
            held(owned);
        std::vector<Value> result;
        if (owned != nullptr) {
            result.push_back(Value::copy(*pirn_component_owned_value(owned)));
        }
        return result;
    }
    // Runs a command. Returns its exit code.
    std::uint32_t run(std::uint64_t deadline_ns = 0) {
        std::uint32_t code = 0;
        check(pirn_component_instance_run(get(), deadline_ns, &code));
        return code;
    }
    void drop(pirn_component_resource_t resource, std::uint64_t deadline_ns = 0) {
        check(pirn_component_instance_drop_resource(get(), deadline_ns, resource));
    }
    KillSwitch kill_switch() {
        pirn_kill_switch_t *made = nullptr;
        check(pirn_component_instance_kill_switch(get(), &made));
        return KillSwitch(made);
    }
};

} // namespace pirn

#endif
