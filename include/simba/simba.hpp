/*
 * simba.hpp - simba.h for C++17: handles that close themselves, exceptions, callbacks of any kind.
 *
 * Header only; link the same library. What a call means is told in simba.h; here is only what
 * differs.
 *
 *  - A failure throws simba::error, which carries the code, the store's own number and the
 *    sentence.
 *  - Handles can be moved and not copied. A destructor stops or releases first and never throws. A
 *    handle that was moved from may only be assigned to or destroyed.
 *  - A client closes when it and all that was made from it are gone, in whatever order. The last of
 *    them must not go inside a callback: that ends the program.
 *  - An exception cannot pass through the library. One that leaves a callback goes to
 *    client_options::on_exception, and the contest goes on; where that is not set, std::terminate
 *    is called, as for a std::thread: a leader whose duties have not begun must not go on leading.
 *    One that leaves the work of a scheduler is a failed run and never ends the program. Either way
 *    nothing leaks.
 *  - A handle may be destroyed inside its own callbacks. What they have captured lives as long as
 *    the handle, and until on_closed of simba.h where a callback outlasts it: no callback runs any
 *    more when it is destroyed.
 */
#ifndef SIMBA_SIMBA_HPP
#define SIMBA_SIMBA_HPP

#if __cplusplus < 201703L
#error "simba.hpp needs C++17: compile with -std=c++17 or a later one"
#endif

#include <simba/simba.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace simba
{

using std::chrono::milliseconds;

using owner = struct ::simba_owner;
using state = struct ::simba_state;
using mutex_status = struct ::simba_mutex_status;
using property = struct ::simba_property;
using metrics = struct ::simba_metrics;
using schedule_counts = struct ::simba_schedule_counts;

/* The clock of simba_now_ms(), which deadlines and the times of an owner are on. */
struct clock {
    using duration = milliseconds;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::time_point<clock>;
    static constexpr bool is_steady = true;

    static time_point now() noexcept
    {
        return time_point(duration(::simba_now_ms()));
    }
};

class error : public std::runtime_error
{
  public:
    error(int code, const struct ::simba_error &details)
        : std::runtime_error(details.code == code ? details.text : ::simba_strerror(code)),
          code_(code), backend_code_(details.code == code ? details.backend_code : 0)
    {
    }

    int code() const noexcept /* SIMBA_E... */
    {
        return code_;
    }

    int backend_code() const noexcept
    {
        return backend_code_;
    }

    enum ::simba_error_group group() const noexcept /* what to do about it */
    {
        return ::simba_error_group(code_);
    }

  private:
    int code_;
    int backend_code_;
};

/* As struct simba_client_options; what is not set is the URL's or the default. */
struct client_options {
    std::optional<milliseconds> ttl;
    std::optional<milliseconds> transition;
    std::optional<milliseconds> initial_delay;
    std::optional<milliseconds> jitter_min;
    std::optional<milliseconds> jitter_max;
    std::optional<milliseconds> turn;
    std::optional<milliseconds> stop_timeout;
    int dispatcher_threads = 0;
    bool allow_store_down = false; /* opening succeeds also while the store cannot be used */
    ::simba_id_generator *id_generator = nullptr;
    enum ::simba_log_level log_level = SIMBA_LOG_WARN;
    const ::simba_backend_ops *backend = nullptr;

    /* These two must not throw: that ends the program. */
    std::function<void(enum ::simba_log_level, const char *line)> log;
    std::function<void(std::function<void()> task)> executor;

    /* Receives what a callback or the work of a scheduler has thrown. Must not throw itself. */
    std::function<void(std::exception_ptr)> on_exception;
};

namespace detail
{

template <typename Call> void check(Call call)
{
    struct ::simba_error details = {};
    int code = call(&details);

    if (code != SIMBA_OK)
        throw error(code, details);
}

/* The same for one attempt at a mutex: another contender may own. */
template <typename Call> bool check_attempt(Call call)
{
    struct ::simba_error details = {};
    int code = call(&details);

    if (code != SIMBA_OK && ::simba_error_group(code) != SIMBA_GROUP_CONTENDED)
        throw error(code, details);
    return code == SIMBA_OK;
}

inline int64_t count_or_unset(const std::optional<milliseconds> &duration)
{
    return duration ? duration->count() : SIMBA_UNSET;
}

inline const char *text_or_null(const std::string &text)
{
    return text.empty() ? nullptr : text.c_str();
}

/* A client, shared by all that was made from it. */
class core
{
  public:
    explicit core(client_options given) : options(std::move(given))
    {
    }
    core(const core &) = delete;
    core &operator=(const core &) = delete;

    /* Waits for callbacks that do not return. In a forked child the client is the parent's, and
     * closing it does nothing. */
    ~core()
    {
        int code;

        do {
            code = ::simba_client_close(handle, nullptr);
        } while (code == SIMBA_EBUSY);
        if (code != SIMBA_OK && code != SIMBA_EFORKED)
            std::terminate();
    }

    struct ::simba_client_options translate()
    {
        struct ::simba_client_options plain = SIMBA_CLIENT_OPTIONS_INIT;

        plain.ttl_ms = count_or_unset(options.ttl);
        plain.transition_ms = count_or_unset(options.transition);
        plain.initial_delay_ms = count_or_unset(options.initial_delay);
        plain.jitter_min_ms = count_or_unset(options.jitter_min);
        plain.jitter_max_ms = count_or_unset(options.jitter_max);
        plain.turn_ms = count_or_unset(options.turn);
        plain.stop_timeout_ms = count_or_unset(options.stop_timeout);
        plain.dispatcher_threads = options.dispatcher_threads;
        plain.allow_store_down = options.allow_store_down;
        plain.id_generator = options.id_generator;
        plain.log_level = options.log_level;
        plain.backend = options.backend;
        if (options.log) {
            plain.log = run_log;
            plain.log_user = this;
        }
        if (options.executor) {
            plain.executor = &plain_executor_;
        }
        return plain;
    }

    /* Inside a catch block. Returns whether anybody took it. */
    bool report_exception() noexcept
    {
        if (options.on_exception)
            options.on_exception(std::current_exception());
        return static_cast<bool>(options.on_exception);
    }

    ::simba_client *handle = nullptr;
    client_options options;

  private:
    static void run_log(void *user, enum ::simba_log_level level, const char *line) noexcept
    {
        static_cast<core *>(user)->options.log(level, line);
    }

    static void run_execute(void *user, void (*run)(void *), void *argument) noexcept
    {
        static_cast<core *>(user)->options.executor([run, argument] { run(argument); });
    }

    struct ::simba_executor plain_executor_ = {run_execute, this};
};

/* What the callbacks of a handle need. It does not move with the handle, and holds itself until
 * on_closed. */
struct callbacks {
    explicit callbacks(core &owner) : client(owner)
    {
    }

    static void run_closed(void *user) noexcept
    {
        std::shared_ptr<void> last = std::move(static_cast<callbacks *>(user)->itself);
    }

    core &client;
    std::shared_ptr<void> itself;
};

template <typename Call> void run_callback(callbacks &self, Call call) noexcept
{
    try {
        call();
    } catch (...) {
        if (!self.client.report_exception())
            std::terminate();
    }
}

/* What contender, observer and scheduler have in common. Api names the functions of simba.h. */
template <typename Api> class service
{
  public:
    service(service &&other) noexcept
        : core_(std::move(other.core_)), callbacks_(std::move(other.callbacks_)),
          handle_(std::exchange(other.handle_, nullptr))
    {
    }

    service &operator=(service &&other) noexcept
    {
        service old(std::move(*this)); /* its end is the end of what was here */

        core_ = std::move(other.core_);
        callbacks_ = std::move(other.callbacks_);
        handle_ = std::exchange(other.handle_, nullptr);
        return *this;
    }

    ~service()
    {
        if (handle_ != nullptr)
            Api::close(handle_);
    }

    void start()
    {
        check([this](struct ::simba_error *details) { return Api::start(handle_, details); });
    }

    void stop()
    {
        check([this](struct ::simba_error *details) { return Api::stop(handle_, details); });
    }

    enum ::simba_status status() const noexcept
    {
        return Api::status(handle_);
    }

    typename Api::handle *native_handle() const noexcept
    {
        return handle_;
    }

  protected:
    service(std::shared_ptr<core> client, std::shared_ptr<typename Api::callbacks> callbacks)
        : core_(std::move(client)), callbacks_(std::move(callbacks))
    {
    }

    /* Creates the handle; from then on on_closed will come. */
    template <typename Create, typename Options> void create(Create call, Options &plain)
    {
        plain.user = callbacks_.get();
        plain.on_closed = callbacks::run_closed;
        check([&](struct ::simba_error *details) {
            return call(core_->handle, &plain, &handle_, details);
        });
        callbacks_->itself = callbacks_;
    }

    std::shared_ptr<core> core_;
    std::shared_ptr<typename Api::callbacks> callbacks_;
    typename Api::handle *handle_ = nullptr;
};

} // namespace detail

/* The connection to one store. */
class client
{
  public:
    explicit client(const std::string &url, client_options options = {})
        : client(::simba_client_open, url, std::move(options))
    {
    }

    static client from_config(const std::string &path, client_options options = {})
    {
        return client(::simba_client_open_config, path, std::move(options));
    }

    client(client &&) noexcept = default;
    client &operator=(client &&) noexcept = default;

    /* With `mutex` only that one. */
    std::vector<mutex_status> status(const std::string &mutex = {},
                                     milliseconds timeout = std::chrono::seconds(5)) const
    {
        struct ::simba_mutex_status *list = nullptr;
        size_t count = 0;

        detail::check([&](struct ::simba_error *details) {
            return ::simba_client_status(core_->handle, detail::text_or_null(mutex),
                                         timeout.count(), &list, &count, details);
        });
        std::unique_ptr<mutex_status, void (*)(void *)> guard(list, ::simba_free);
        return std::vector<mutex_status>(list, list + count);
    }

    /* The ids of those who wait, in the order of their turns; none where the store does not know
     * it. */
    std::vector<std::string> queue(const std::string &mutex,
                                   milliseconds timeout = std::chrono::seconds(5)) const
    {
        struct ::simba_waiter *list = nullptr;
        size_t count = 0;

        detail::check([&](struct ::simba_error *details) {
            int code = ::simba_client_queue(core_->handle, mutex.c_str(), timeout.count(), &list,
                                            &count, details);
            return code == SIMBA_EUNSUPPORTED ? static_cast<int>(SIMBA_OK) : code;
        });
        std::unique_ptr<struct ::simba_waiter, void (*)(void *)> guard(list, ::simba_free);
        std::vector<std::string> ids;
        for (size_t i = 0; i < count; i++)
            ids.emplace_back(list[i].id);
        return ids;
    }

    /* Returns the owner that lost it; an empty id: it was free. */
    owner force_release(const std::string &mutex,
                        milliseconds timeout = std::chrono::seconds(5)) const
    {
        owner from = SIMBA_OWNER_NONE;

        detail::check([&](struct ::simba_error *details) {
            return ::simba_client_force_release(core_->handle, mutex.c_str(), timeout.count(),
                                                &from, details);
        });
        return from;
    }

    simba::property get_property(const std::string &mutex, const std::string &name,
                                 milliseconds timeout = std::chrono::seconds(5)) const
    {
        simba::property result;

        detail::check([&](struct ::simba_error *details) {
            return ::simba_client_property_get(core_->handle, mutex.c_str(), name.c_str(),
                                               timeout.count(), &result, details);
        });
        return result;
    }

    /* With `owner_id` only if that contender owns the mutex; empty: in any case. */
    void set_property(const std::string &mutex, const std::string &name, const std::string &value,
                      const std::string &owner_id = {},
                      milliseconds timeout = std::chrono::seconds(5)) const
    {
        detail::check([&](struct ::simba_error *details) {
            return ::simba_client_property_set(core_->handle, mutex.c_str(), name.c_str(),
                                               value.c_str(), detail::text_or_null(owner_id),
                                               timeout.count(), details);
        });
    }

    simba::metrics metrics() const
    {
        simba::metrics result = SIMBA_METRICS_INIT;

        detail::check(
            [&](struct ::simba_error *) { return ::simba_client_metrics(core_->handle, &result); });
        return result;
    }

    ::simba_client *native_handle() const noexcept
    {
        return core_->handle;
    }

  private:
    friend class contender;
    friend class observer;
    friend class locker;
    friend class scheduler;

    template <typename Open>
    client(Open open, const std::string &from, client_options options)
        : core_(std::make_shared<detail::core>(std::move(options)))
    {
        struct ::simba_client_options plain = core_->translate();

        detail::check([&](struct ::simba_error *details) {
            return open(from.c_str(), &plain, &core_->handle, details);
        });
    }

    std::shared_ptr<detail::core> core_;
};

using state_callback = std::function<void(const state &)>;

/* A request to hand over, as struct simba_handover of simba.h, and who hears of it. */
using handover = struct ::simba_handover;
using handover_callback = std::function<void(const handover &)>;

struct contender_options {
    std::string mutex; /* required */
    std::string id;    /* empty: made by the client's id generator */
    state_callback on_acquired;
    state_callback on_released;
    state_callback on_notify;
    std::optional<milliseconds> ttl;
    std::optional<milliseconds> transition;
    state_callback on_renewed;     /* the store has renewed the lease */
    handover_callback on_handover; /* this owner is asked to hand over: stop */
    int priority = 0;
    std::optional<milliseconds> priority_after;
};

namespace detail
{

struct contender_api {
    using handle = ::simba_contender;
    struct callbacks : detail::callbacks {
        using detail::callbacks::callbacks;
        state_callback on_acquired;
        state_callback on_released;
        state_callback on_notify;
        state_callback on_renewed;
        handover_callback on_handover;
    };

    static void run_handover(void *user, const handover *request) noexcept
    {
        auto *self = static_cast<callbacks *>(user);
        run_callback(*self, [&] { self->on_handover(*request); });
    }

    /* One for each callback that simba.h knows; `Which` is where it leads. */
    template <state_callback callbacks::*Which>
    static void run(void *user, const struct ::simba_state *change) noexcept
    {
        auto *self = static_cast<callbacks *>(user);
        run_callback(*self, [&] { (self->*Which)(*change); });
    }

    static constexpr auto start = ::simba_contender_start;
    static constexpr auto stop = ::simba_contender_stop;
    static constexpr auto close = ::simba_contender_close;
    static constexpr auto status = ::simba_contender_status;
};

} // namespace detail

/* Takes part in the contest for a mutex, from start() to stop(). */
class contender : public detail::service<detail::contender_api>
{
  public:
    contender(const client &client, contender_options options)
        : service(client.core_, std::make_shared<detail::contender_api::callbacks>(*client.core_))
    {
        using api = detail::contender_api;
        using callbacks = api::callbacks;
        struct ::simba_contender_options plain = SIMBA_CONTENDER_OPTIONS_INIT;

        callbacks_->on_acquired = std::move(options.on_acquired);
        callbacks_->on_released = std::move(options.on_released);
        callbacks_->on_notify = std::move(options.on_notify);
        callbacks_->on_renewed = std::move(options.on_renewed);
        plain.mutex = options.mutex.c_str();
        plain.id = detail::text_or_null(options.id);
        plain.on_acquired = callbacks_->on_acquired ? api::run<&callbacks::on_acquired> : nullptr;
        plain.on_released = callbacks_->on_released ? api::run<&callbacks::on_released> : nullptr;
        plain.on_notify = callbacks_->on_notify ? api::run<&callbacks::on_notify> : nullptr;
        plain.on_renewed = callbacks_->on_renewed ? api::run<&callbacks::on_renewed> : nullptr;
        plain.ttl_ms = detail::count_or_unset(options.ttl);
        plain.transition_ms = detail::count_or_unset(options.transition);
        callbacks_->on_handover = std::move(options.on_handover);
        plain.on_handover = callbacks_->on_handover ? api::run_handover : nullptr;
        plain.priority = options.priority;
        plain.priority_after_ms = detail::count_or_unset(options.priority_after);
        create(::simba_contender_create, plain);
    }

    /* Whether this owner is asked to hand over. */
    bool handover_asked() const noexcept
    {
        return ::simba_contender_handover_asked(handle_, nullptr);
    }

    bool is_owner() const noexcept
    {
        return ::simba_contender_is_owner(handle_);
    }

    bool is_in_ttl() const noexcept
    {
        return ::simba_contender_is_in_ttl(handle_);
    }

    uint64_t fence() const noexcept /* 0: not the owner */
    {
        return ::simba_contender_fence(handle_);
    }

    int64_t place() const noexcept /* in the wait queue; 0: not known */
    {
        return ::simba_contender_place(handle_);
    }

    /* When it stops believing unless a renewal succeeds; the clock's zero: not the owner. */
    clock::time_point deadline() const noexcept
    {
        return clock::time_point(milliseconds(::simba_contender_deadline_ms(handle_)));
    }

    std::string id() const
    {
        return ::simba_contender_id(handle_);
    }

    simba::state state() const
    {
        simba::state result;

        ::simba_contender_state(handle_, &result);
        return result;
    }
};

struct observer_options {
    std::string mutex; /* required */
    state_callback on_notify;
    std::optional<milliseconds> poll;
};

namespace detail
{

struct observer_api {
    using handle = ::simba_observer;
    struct callbacks : detail::callbacks {
        using detail::callbacks::callbacks;
        state_callback on_notify;
    };

    static void run(void *user, const struct ::simba_state *change) noexcept
    {
        auto *self = static_cast<callbacks *>(user);
        run_callback(*self, [&] { self->on_notify(*change); });
    }

    static constexpr auto start = ::simba_observer_start;
    static constexpr auto stop = ::simba_observer_stop;
    static constexpr auto close = ::simba_observer_close;
    static constexpr auto status = ::simba_observer_status;
};

} // namespace detail

/* Follows a mutex without competing for it. */
class observer : public detail::service<detail::observer_api>
{
  public:
    observer(const client &client, observer_options options)
        : service(client.core_, std::make_shared<detail::observer_api::callbacks>(*client.core_))
    {
        struct ::simba_observer_options plain = SIMBA_OBSERVER_OPTIONS_INIT;

        callbacks_->on_notify = std::move(options.on_notify);
        plain.mutex = options.mutex.c_str();
        plain.on_notify = callbacks_->on_notify ? detail::observer_api::run : nullptr;
        plain.poll_ms = detail::count_or_unset(options.poll);
        create(::simba_observer_create, plain);
    }

    simba::state state() const
    {
        simba::state result;

        ::simba_observer_state(handle_, &result);
        return result;
    }
};

/* What the work of a scheduler may ask about the run that it is in. */
class schedule_run
{
  public:
    explicit schedule_run(::simba_scheduler *scheduler) : scheduler_(scheduler)
    {
    }

    bool should_stop() const noexcept
    {
        return ::simba_scheduler_should_stop(scheduler_);
    }

    uint64_t fence() const noexcept
    {
        return ::simba_scheduler_fence(scheduler_);
    }

  private:
    ::simba_scheduler *scheduler_;
};

using work_callback = std::function<void(const schedule_run &)>;

struct scheduler_options {
    std::string mutex; /* required */
    std::string id;
    std::string worker;
    work_callback work; /* required; a run that throws has failed, and the schedule goes on */
    enum ::simba_schedule_strategy strategy = SIMBA_FIXED_RATE;
    milliseconds initial_delay{0};
    milliseconds period{0};        /* required, more than 0 */
    handover_callback on_handover; /* this leader is asked to hand over: stop */
};

namespace detail
{

struct scheduler_api {
    using handle = ::simba_scheduler;
    struct callbacks : detail::callbacks {
        using detail::callbacks::callbacks;
        work_callback work;
        handover_callback on_handover;
    };

    static void run_handover(void *user, const handover *request) noexcept
    {
        auto *self = static_cast<callbacks *>(user);
        run_callback(*self, [&] { self->on_handover(*request); });
    }

    static int run(void *user, ::simba_scheduler *scheduler) noexcept
    {
        auto *self = static_cast<callbacks *>(user);

        try {
            self->work(schedule_run(scheduler));
            return 0;
        } catch (...) {
            self->client.report_exception();
            return 1;
        }
    }

    static constexpr auto start = ::simba_scheduler_start;
    static constexpr auto stop = ::simba_scheduler_stop;
    static constexpr auto close = ::simba_scheduler_close;
    static constexpr auto status = ::simba_scheduler_status;
};

} // namespace detail

/* Periodic work on the leader only. */
class scheduler : public detail::service<detail::scheduler_api>
{
  public:
    scheduler(const client &client, scheduler_options options)
        : service(client.core_, std::make_shared<detail::scheduler_api::callbacks>(*client.core_))
    {
        struct ::simba_scheduler_options plain = SIMBA_SCHEDULER_OPTIONS_INIT;

        callbacks_->work = std::move(options.work);
        plain.mutex = options.mutex.c_str();
        plain.id = detail::text_or_null(options.id);
        plain.worker = detail::text_or_null(options.worker);
        plain.work = callbacks_->work ? detail::scheduler_api::run : nullptr;
        plain.strategy = options.strategy;
        plain.initial_delay_ms = options.initial_delay.count();
        plain.period_ms = options.period.count();
        callbacks_->on_handover = std::move(options.on_handover);
        plain.on_handover = callbacks_->on_handover ? detail::scheduler_api::run_handover : nullptr;
        create(::simba_scheduler_create, plain);
    }

    bool is_leader() const noexcept
    {
        return ::simba_scheduler_is_leader(handle_);
    }

    uint64_t fence() const noexcept
    {
        return ::simba_scheduler_fence(handle_);
    }

    schedule_counts counts() const noexcept
    {
        schedule_counts result = SIMBA_SCHEDULE_COUNTS_INIT;

        ::simba_scheduler_counts(handle_, &result);
        return result;
    }
};

struct locker_options {
    std::string mutex;             /* required */
    std::string id;                /* empty: made by the client's id generator */
    std::function<void()> on_lost; /* the lease was lost while it was held: end the work */
    bool fail_fast = false;
    bool fail_fast_unknown = false;
    handover_callback on_handover; /* somebody asks for the mutex: end the work and release it */
    int slots = 0;                 /* above 0: a slot of the semaphore `mutex`, which has so many */
    std::vector<std::string> set;  /* in place of `mutex`: all of these or none */
    bool no_hold = false;          /* of a set: it waits without holding a part of it */
};

/* Acquire, work, release. It is TimedLockable: std::unique_lock<simba::locker> and std::lock_guard
 * work with it. One acquirer at a time, not reentrant. */
class locker
{
  public:
    locker(const client &client, locker_options options)
        : core_(client.core_), callbacks_(std::make_shared<callbacks>(*core_))
    {
        struct ::simba_locker_options plain = SIMBA_LOCKER_OPTIONS_INIT;

        callbacks_->on_lost = std::move(options.on_lost);
        callbacks_->on_handover = std::move(options.on_handover);
        plain.mutex = options.mutex.c_str();
        plain.id = detail::text_or_null(options.id);
        plain.on_lost = callbacks_->on_lost ? run_lost : nullptr;
        plain.on_handover = callbacks_->on_handover ? run_handover : nullptr;
        if (has_callbacks()) {
            plain.on_closed = callbacks::run_closed;
            plain.user = callbacks_.get();
        }
        plain.fail_fast = options.fail_fast;
        plain.fail_fast_unknown = options.fail_fast_unknown;
        plain.no_hold = options.no_hold;
        detail::check(
            [&](struct ::simba_error *details) { return create(options, plain, details); });
        if (has_callbacks())
            callbacks_->itself = callbacks_; /* until on_closed */
    }

    locker(const client &client, std::string mutex, std::string id = {})
        : locker(client, with_names(std::move(mutex), std::move(id)))
    {
    }

    locker(locker &&other) noexcept
        : core_(std::move(other.core_)), callbacks_(std::move(other.callbacks_)),
          handle_(std::exchange(other.handle_, nullptr))
    {
    }

    locker &operator=(locker &&other) noexcept
    {
        locker old(std::move(*this));

        core_ = std::move(other.core_);
        callbacks_ = std::move(other.callbacks_);
        handle_ = std::exchange(other.handle_, nullptr);
        return *this;
    }

    ~locker()
    {
        ::simba_locker_close(handle_);
    }

    void lock()
    {
        detail::check([this](struct ::simba_error *details) {
            return ::simba_locker_acquire(handle_, details);
        });
    }

    /* Throws when it was not acquired in time; try_lock_for() says so by its result. */
    void lock_for(milliseconds timeout)
    {
        detail::check([&](struct ::simba_error *details) {
            return ::simba_locker_acquire_timeout(handle_, timeout.count(), details);
        });
    }

    /* False: another contender owns. Failures of the store are thrown, here and below. */
    bool try_lock()
    {
        return detail::check_attempt([this](struct ::simba_error *details) {
            return ::simba_locker_try_acquire(handle_, details);
        });
    }

    template <typename Rep, typename Period>
    bool try_lock_for(const std::chrono::duration<Rep, Period> &timeout)
    {
        milliseconds most = std::max(milliseconds(0), std::chrono::ceil<milliseconds>(timeout));

        return detail::check_attempt([&](struct ::simba_error *details) {
            return ::simba_locker_acquire_timeout(handle_, most.count(), details);
        });
    }

    template <typename Clock, typename Duration>
    bool try_lock_until(const std::chrono::time_point<Clock, Duration> &until)
    {
        return try_lock_for(until - Clock::now());
    }

    /* For guards, whose destructors must not throw. That the lease had been lost is told by on_lost
     * and by release(); a store that cannot be told lets the lease run out. */
    void unlock() noexcept
    {
        ::simba_locker_release(handle_, nullptr);
    }

    /* Gives the mutex back, and throws when the lease had been lost (SIMBA_ELOST). */
    void release()
    {
        detail::check([this](struct ::simba_error *details) {
            return ::simba_locker_release(handle_, details);
        });
    }

    /* Ends a wait of another thread. */
    void cancel() noexcept
    {
        ::simba_locker_cancel(handle_);
    }

    bool is_held() const noexcept
    {
        return ::simba_locker_is_held(handle_);
    }

    uint64_t fence() const noexcept
    {
        return ::simba_locker_fence(handle_);
    }

    uint64_t fence_of(const std::string &mutex) const noexcept /* of one mutex of a set */
    {
        return ::simba_locker_fence_of(handle_, mutex.c_str());
    }

    int slot() const noexcept /* of a semaphore; -1: none */
    {
        return ::simba_locker_slot(handle_);
    }

    int64_t place() const noexcept /* in the wait queue; 0: not known */
    {
        return ::simba_locker_place(handle_);
    }

    clock::time_point deadline() const noexcept
    {
        return clock::time_point(milliseconds(::simba_locker_deadline_ms(handle_)));
    }

    std::string id() const
    {
        return ::simba_locker_id(handle_);
    }

    simba::owner owner() const
    {
        simba::owner result;

        ::simba_locker_owner(handle_, &result);
        return result;
    }

    ::simba_locker *native_handle() const noexcept
    {
        return handle_;
    }

  private:
    struct callbacks : detail::callbacks {
        using detail::callbacks::callbacks;
        std::function<void()> on_lost;
        handover_callback on_handover;
    };

    static void run_lost(void *user) noexcept
    {
        auto *self = static_cast<callbacks *>(user);

        detail::run_callback(*self, [&] { self->on_lost(); });
    }

    static void run_handover(void *user, const handover *request) noexcept
    {
        auto *self = static_cast<callbacks *>(user);

        detail::run_callback(*self, [&] { self->on_handover(*request); });
    }

    bool has_callbacks() const noexcept
    {
        return callbacks_->on_lost || callbacks_->on_handover;
    }

    int create(const locker_options &options, const struct ::simba_locker_options &plain,
               struct ::simba_error *details)
    {
        std::vector<const char *> names;

        if (options.slots != 0)
            return ::simba_semaphore_create(core_->handle, options.slots, &plain, &handle_,
                                            details);
        if (options.set.empty())
            return ::simba_locker_create(core_->handle, &plain, &handle_, details);
        for (const std::string &name : options.set)
            names.push_back(name.c_str());
        return ::simba_locker_create_set(core_->handle, names.data(), names.size(), &plain,
                                         &handle_, details);
    }

    static locker_options with_names(std::string mutex, std::string id)
    {
        locker_options options;

        options.mutex = std::move(mutex);
        options.id = std::move(id);
        return options;
    }

    std::shared_ptr<detail::core> core_;
    std::shared_ptr<callbacks> callbacks_;
    ::simba_locker *handle_ = nullptr;
};

/* A mutex held for a scope, with a locker of its own. Throws where it was not acquired. */
class scoped_lock
{
  public:
    scoped_lock(const client &client, const std::string &mutex) : locker_(client, mutex)
    {
        locker_.lock();
    }

    scoped_lock(const client &client, const std::string &mutex, milliseconds timeout)
        : locker_(client, mutex)
    {
        locker_.lock_for(timeout);
    }

    /* Whether it is still held: ask before each step of the work. */
    bool owns_lock() const noexcept
    {
        return locker_.is_held();
    }

    explicit operator bool() const noexcept
    {
        return owns_lock();
    }

    uint64_t fence() const noexcept
    {
        return locker_.fence();
    }

    clock::time_point deadline() const noexcept
    {
        return locker_.deadline();
    }

    /* Before the scope ends; throws when the lease had been lost. */
    void release()
    {
        locker_.release();
    }

  private:
    locker locker_;
};

} // namespace simba

#endif
