/*
 * leader.cpp - locks and leader election in C++, with simba.hpp.
 *
 *     leader-cpp [URL [SECONDS]]
 */
#include <simba/simba.hpp>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <thread>

namespace
{

/* simba::scoped_lock brings its own locker, and throws when the time is over; a locker that is used
 * again works with the guards of the standard library. Whoever throws in here gives the mutex
 * back. */
void migrate(const simba::client &client)
{
    simba::scoped_lock lock(client, "example-migration", std::chrono::seconds(5));
    simba::locker table(client, "example-table");
    std::unique_lock<simba::locker> guard(table, std::try_to_lock);

    if (!guard.owns_lock())
        throw std::runtime_error("somebody else is at work");
    std::cout << "migrating under token " << lock.fence() << std::endl;
    lock.release(); /* throws when the lease was lost meanwhile; the destructor could not tell */
}

/* The contender stops and hands over when its scope ends. */
void lead(const simba::client &client, std::chrono::seconds time)
{
    simba::contender_options options;

    options.mutex = "example-leader";
    options.on_acquired = [](const simba::state &state) {
        std::cout << "leading as " << state.after.id << std::endl;
    };
    options.on_released = [](const simba::state &) {
        std::cout << "not leading any more" << std::endl;
    };
    simba::contender contender(client, options);
    contender.start();
    std::this_thread::sleep_for(time);
}

} // namespace

int main(int argc, char **argv)
{
    try {
        simba::client client(argc > 1 ? argv[1] : "sqlite:example.db");

        migrate(client);
        lead(client, std::chrono::seconds(argc > 2 ? std::atoi(argv[2]) : 3));
        return 0;
    } catch (const std::exception &error) {
        std::cerr << "leader: " << error.what() << std::endl;
        return 1;
    }
}
