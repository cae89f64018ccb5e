/*
 * cpp_test.cpp - simba.hpp: handles end with their scopes, failures are thrown, and what a callback
 * throws or outlives does no harm. Run under the sanitizers it also shows that nothing leaks.
 *
 * cmocka leaves a failed test by longjmp, which destructors do not survive; so cases throw.
 */
#include <simba/simba.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <thread>
#include <type_traits>

using namespace std::chrono_literals;

namespace
{

constexpr auto patience = 20s;
constexpr int terminated = 42;

#define CHECK(condition)                                                                           \
    ((condition) ? void() : throw std::logic_error(std::to_string(__LINE__) + ": " #condition))

/* Something that a callback sets and a case waits for. */
class flag
{
  public:
    void set()
    {
        std::lock_guard<std::mutex> guard(lock_);

        set_ = true;
        changed_.notify_all();
    }

    bool wait()
    {
        std::unique_lock<std::mutex> guard(lock_);

        return changed_.wait_for(guard, patience, [this] { return set_; });
    }

  private:
    std::mutex lock_;
    std::condition_variable changed_;
    bool set_ = false;
};

template <typename Question> bool wait_until(Question question)
{
    auto until = simba::clock::now() + patience;

    while (!question() && simba::clock::now() < until)
        std::this_thread::sleep_for(1ms);
    return question();
}

template <typename Call> int thrown_code(Call call)
{
    try {
        call();
    } catch (const simba::error &error) {
        return error.code();
    }
    return SIMBA_OK;
}

/* ---- Errors and types ------------------------------------------------------------------------ */

template <typename Handle> constexpr bool moves_only()
{
    return std::is_nothrow_move_constructible_v<Handle> &&
           std::is_nothrow_move_assignable_v<Handle> && !std::is_copy_constructible_v<Handle> &&
           !std::is_copy_assignable_v<Handle>;
}

void handles_move_and_do_not_copy()
{
    static_assert(moves_only<simba::client>());
    static_assert(moves_only<simba::contender>());
    static_assert(moves_only<simba::observer>());
    static_assert(moves_only<simba::scheduler>());
    static_assert(moves_only<simba::locker>());
    static_assert(moves_only<simba::scoped_lock>());
}

void an_error_carries_code_group_and_sentence()
{
    try {
        simba::client client("memory:?ttl=never");
        CHECK(!"opened");
    } catch (const simba::error &error) {
        CHECK(error.code() == SIMBA_EINVAL);
        CHECK(error.group() == SIMBA_GROUP_CONFIG);
        CHECK(std::string(error.what()).find("never") != std::string::npos);
    }
}

void a_handle_that_cannot_be_made_leaves_nothing()
{
    simba::client client("memory:");

    CHECK(thrown_code([&] { simba::locker(client, ""); }) == SIMBA_EINVAL);
    CHECK(thrown_code([&] { simba::contender(client, {}); }) == SIMBA_EINVAL);
    CHECK(thrown_code([&] { simba::observer(client, {}); }) == SIMBA_EINVAL);
    CHECK(thrown_code([&] { simba::scheduler(client, {}); }) == SIMBA_EMISUSE);
}

/* ---- Lockers --------------------------------------------------------------------------------- */

void a_scoped_lock_ends_with_its_scope()
{
    simba::client client("memory:");
    uint64_t first;
    {
        simba::scoped_lock lock(client, "scope");
        first = lock.fence();
        CHECK(lock && lock.owns_lock());
        CHECK(lock.deadline() > simba::clock::now());
        CHECK(thrown_code([&] { simba::scoped_lock(client, "scope", 0ms); }) == SIMBA_ETIMEDOUT);
    }
    simba::scoped_lock again(client, "scope", 5s);
    CHECK(again.fence() > first);
    again.release();
    CHECK(!again);
}

void an_exception_releases_a_scoped_lock()
{
    simba::client client("memory:");

    try {
        simba::scoped_lock lock(client, "scope");
        throw std::runtime_error("work failed");
    } catch (const std::runtime_error &) {
    }
    CHECK(simba::locker(client, "scope").try_lock());
}

void guards_of_the_standard_library_work()
{
    simba::client client("memory:");
    simba::locker locker(client, "guard");
    simba::locker rival(client, "guard");
    {
        std::lock_guard<simba::locker> guard(locker);
        CHECK(locker.is_held());
        CHECK(!rival.try_lock());
        CHECK(!rival.try_lock_for(1us));
        CHECK(!rival.try_lock_until(std::chrono::steady_clock::now() - 1s));
        CHECK(rival.owner().id == locker.id());
    }
    std::unique_lock<simba::locker> first(locker, std::defer_lock);
    CHECK(!first.owns_lock() && first.try_lock());
    std::unique_lock<simba::locker> moved(std::move(first));
    CHECK(moved.owns_lock() && locker.is_held());
    moved.unlock();
    std::unique_lock<simba::locker> other(rival, 5s);
    CHECK(other.owns_lock());
}

void a_locker_is_held_wherever_it_moves()
{
    simba::client client("memory:");
    simba::locker locker(client, "move");
    simba::locker other(client, "other");

    locker.lock();
    other = std::move(locker);
    CHECK(other.is_held());
    simba::locker last(std::move(other));
    CHECK(last.is_held());
    last.release();
    CHECK(thrown_code([&] { last.release(); }) == SIMBA_ESTATE);
    last.unlock();
}

void a_wait_can_be_cancelled()
{
    simba::client client("memory:");
    simba::scoped_lock held(client, "cancel");
    simba::locker waiting(client, "cancel");
    std::atomic<int> code{SIMBA_OK};
    std::thread waiter([&] { code = thrown_code([&] { waiting.lock(); }); });

    while (code == SIMBA_OK) {
        waiting.cancel(); /* harmless as long as it does not wait yet */
        std::this_thread::sleep_for(1ms);
    }
    waiter.join();
    CHECK(code == SIMBA_ECANCELED);
}

void a_lost_lease_is_told()
{
    simba::client client("memory:?ttl=200ms&transition=2s");
    simba::locker_options options;
    flag lost;

    options.mutex = "lost";
    options.on_lost = [&] { lost.set(); };
    simba::locker locker(client, options);
    locker.lock();
    client.set_property("lost", "note", "mine", locker.id());
    CHECK(std::string(client.get_property("lost", "note").value) == "mine");
    CHECK(client.get_property("lost", "none").written_ms == 0);
    CHECK(client.force_release("lost").id == locker.id());
    CHECK(lost.wait());
    CHECK(!locker.is_held());
    CHECK(thrown_code([&] { locker.release(); }) == SIMBA_ELOST);
}

void a_locker_may_go_in_its_own_callback()
{
    simba::client client("memory:?ttl=200ms&transition=2s");
    std::unique_ptr<simba::locker> locker;
    auto captured = std::make_shared<int>(7);
    simba::locker_options options;
    flag lost;

    options.mutex = "gone";
    options.on_lost = [&lost, &locker, captured] {
        locker.reset();
        if (*captured == 7)
            lost.set();
    };
    locker = std::make_unique<simba::locker>(client, std::move(options));
    locker->lock();
    client.force_release("gone");
    CHECK(lost.wait());
}

/* ---- Contenders, observers, schedulers ------------------------------------------------------- */

void a_contender_leads_hands_over_and_moves()
{
    simba::client client("memory:");
    std::vector<std::string> told;
    flag leads;
    simba::contender_options options;

    options.mutex = "lead";
    options.id = "me";
    options.on_acquired = [&](const simba::state &state) {
        told.push_back(std::string("acquired ") + state.after.id);
        leads.set();
    };
    options.on_released = [&](const simba::state &) { told.push_back("released"); };
    {
        simba::contender first(client, options);
        first.start();
        CHECK(leads.wait());
        simba::contender contender(std::move(first));
        CHECK(contender.is_owner() && contender.is_in_ttl() && contender.fence() > 0);
        CHECK(contender.id() == "me" && contender.status() == SIMBA_RUNNING);
        CHECK(std::string(contender.state().after.id) == "me");
        CHECK(client.status("lead").at(0).owner.id == contender.id());
        CHECK(client.metrics().owned == 1);
        CHECK(client.queue("lead").empty());
        simba::contender_options behind;
        behind.mutex = "lead";
        behind.id = "you";
        simba::contender second(client, behind);
        second.start();
        CHECK(wait_until([&] { return client.queue("lead") == std::vector<std::string>{"you"}; }));
        second.stop();
        contender.stop();
        CHECK(thrown_code([&] { contender.stop(); }) == SIMBA_ESTATE);
    }
    CHECK((told == std::vector<std::string>{"acquired me", "released"}));
    CHECK(simba::locker(client, "lead").try_lock());
}

void an_observer_sees_changes()
{
    simba::client client("memory:");
    flag seen;
    simba::observer_options options;

    options.mutex = "see";
    options.poll = 50ms;
    options.on_notify = [&](const simba::state &state) {
        if (state.after.id[0] != '\0')
            seen.set();
    };
    simba::observer observer(client, options);
    observer.start();
    simba::scoped_lock lock(client, "see");
    CHECK(seen.wait());
    CHECK(observer.state().after.fence == lock.fence());
    observer.stop();
}

void what_was_made_outlives_the_client_object()
{
    auto client = std::make_unique<simba::client>("memory:");
    simba::locker locker(*client, "outlive");

    client.reset();
    locker.lock();
    CHECK(locker.is_held());
}

void a_contender_may_go_in_its_own_callback()
{
    simba::client client("memory:");
    std::unique_ptr<simba::contender> contender;
    auto captured = std::make_shared<int>(7);
    flag gone;
    simba::contender_options options;

    options.mutex = "go";
    options.on_acquired = [&gone, &contender, captured](const simba::state &) {
        contender.reset();
        if (*captured == 7)
            gone.set();
    };
    options.on_released = [captured](const simba::state &) { CHECK(*captured == 7); };
    contender = std::make_unique<simba::contender>(client, options);
    contender->start();
    CHECK(gone.wait());
}

void a_callback_may_outlive_its_handle()
{
    simba::client_options impatient;
    impatient.stop_timeout = 50ms;
    simba::client client("memory:", impatient);
    auto captured = std::make_shared<int>(7);
    flag begun, go_on;
    simba::contender_options options;

    options.mutex = "slow";
    options.on_acquired = [&, captured](const simba::state &) {
        begun.set();
        go_on.wait();
        CHECK(*captured == 7);
    };
    {
        simba::contender contender(client, std::move(options));
        contender.start();
        CHECK(begun.wait());
        CHECK(thrown_code([&] { contender.stop(); }) == SIMBA_ETIMEDOUT);
    }
    CHECK(captured.use_count() > 1);
    go_on.set();
}

void what_a_handle_captured_goes_with_it()
{
    simba::client client("memory:");
    auto captured = std::make_shared<int>(7);
    flag leads;
    simba::contender_options options;

    options.mutex = "captured";
    options.on_acquired = [&leads, captured](const simba::state &) { leads.set(); };
    {
        simba::contender contender(client, std::move(options));
        contender.start();
        CHECK(leads.wait());
    }
    options.on_acquired = nullptr;
    CHECK(captured.use_count() == 1);
}

/* ---- Exceptions of callbacks ----------------------------------------------------------------- */

void what_a_callback_throws_is_handed_over()
{
    std::string what;
    flag thrown, released;
    simba::client_options options;
    options.on_exception = [&](std::exception_ptr exception) {
        try {
            std::rethrow_exception(exception);
        } catch (const std::exception &error) {
            what = error.what();
        }
        thrown.set();
    };
    simba::client client("memory:", options);
    simba::contender_options mine;

    mine.mutex = "throw";
    mine.on_acquired = [](const simba::state &) { throw std::runtime_error("no room"); };
    mine.on_released = [&](const simba::state &) { released.set(); };
    simba::contender contender(client, mine);
    contender.start();
    CHECK(thrown.wait());
    CHECK(contender.is_owner());
    contender.stop();
    CHECK(released.wait());
    CHECK(what == "no room");
}

void lead_and_throw()
{
    simba::client client("memory:");
    simba::contender_options options;

    options.mutex = "throw";
    options.on_acquired = [](const simba::state &) { throw std::runtime_error("no room"); };
    simba::contender contender(client, options);
    contender.start();
    std::this_thread::sleep_for(patience);
}

void without_a_taker_it_ends_the_program()
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        std::set_terminate([] { _exit(terminated); });
        lead_and_throw();
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == terminated);
}

void work_that_throws_is_a_failed_run()
{
    std::atomic<int> thrown{0};
    simba::client_options options;
    options.on_exception = [&](std::exception_ptr) { thrown++; };
    options.log = [](enum simba_log_level, const char *) {};
    simba::client client("memory:", options);
    simba::scheduler_options every;

    every.mutex = "work";
    every.period = 1ms;
    every.strategy = SIMBA_FIXED_DELAY;
    every.work = [](const simba::schedule_run &run) {
        CHECK(run.fence() > 0 && !run.should_stop());
        throw std::runtime_error("disk full");
    };
    simba::scheduler scheduler(client, every);
    scheduler.start();
    CHECK(wait_until([&] { return scheduler.counts().runs >= 3; }));
    CHECK(scheduler.is_leader() && scheduler.fence() > 0);
    scheduler.stop();
    CHECK(scheduler.counts().failures == scheduler.counts().runs);
    CHECK(static_cast<uint64_t>(thrown) == scheduler.counts().runs);
}

void callbacks_run_where_the_executor_says()
{
    std::atomic<int> tasks{0};
    simba::client_options options;
    options.executor = [&](std::function<void()> task) {
        tasks++;
        std::thread(std::move(task)).detach();
    };
    flag leads;
    simba::client client("memory:", options);
    simba::contender_options mine;

    mine.mutex = "execute";
    mine.on_acquired = [&](const simba::state &) { leads.set(); };
    simba::contender contender(client, mine);
    contender.start();
    CHECK(leads.wait());
    CHECK(tasks > 0);
}

/* ---- The cases ------------------------------------------------------------------------------- */

int number;
int failed;

void run(const char *name, void (*test)())
{
    try {
        test();
        std::printf("ok %d - %s\n", ++number, name);
    } catch (const std::exception &error) {
        failed++;
        std::printf("not ok %d - %s\n# %s\n", ++number, name, error.what());
    }
}

#define RUN(test) run(#test, test)

} // namespace

int main()
{
    RUN(without_a_taker_it_ends_the_program); /* forks: before there is a thread */
    RUN(handles_move_and_do_not_copy);
    RUN(an_error_carries_code_group_and_sentence);
    RUN(a_handle_that_cannot_be_made_leaves_nothing);
    RUN(a_scoped_lock_ends_with_its_scope);
    RUN(an_exception_releases_a_scoped_lock);
    RUN(guards_of_the_standard_library_work);
    RUN(a_locker_is_held_wherever_it_moves);
    RUN(a_wait_can_be_cancelled);
    RUN(a_lost_lease_is_told);
    RUN(a_locker_may_go_in_its_own_callback);
    RUN(a_contender_leads_hands_over_and_moves);
    RUN(an_observer_sees_changes);
    RUN(what_was_made_outlives_the_client_object);
    RUN(a_contender_may_go_in_its_own_callback);
    RUN(a_callback_may_outlive_its_handle);
    RUN(what_a_handle_captured_goes_with_it);
    RUN(what_a_callback_throws_is_handed_over);
    RUN(work_that_throws_is_a_failed_run);
    RUN(callbacks_run_where_the_executor_says);
    std::printf("1..%d\n", number);
    return failed == 0 ? 0 : 1;
}
