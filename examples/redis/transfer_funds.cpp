// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Several processes move money between accounts in Redis. Each reads the balance, decides, and writes, under
// the locks of both accounts. So no account is ever overdrawn.
//
// Meanwhile some processes are killed, and others are stopped for longer than a lease, so that they continue
// in the belief that they still hold their locks. Killed processes are replaced within a lease. A stopped
// process that continues writes with an outdated fencing token, and the accounts reject it.
//
// Kills and stops at random times may miss all holders. So the run begins with a holder that is killed, and one that
// is stopped until another process has emptied the account.

#include "common/dice.hpp"
#include "common/program.hpp"
#include "redis/processes.hpp"
#include "redis/store.hpp"
#include "redis/workplace.hpp"
#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <chrono>
#include <exception>
#include <fmt/format.h>
#include <optional>
#include <string>
#include <turnstile/redis/async_mutex.hpp>
#include <vector>

#include <csignal>

namespace asio = boost::asio;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

constexpr int start_money = 1000;

struct plan
{
    turnstile::redis::config settings;
    int accounts = 10;
    milliseconds duration{};
    milliseconds kill_every{};
    milliseconds freeze_every{};
};

/// The hash with the numbers of transfers, and the lowest balance.
constexpr const char* totals_key = "example:transfers";

std::string account_key(int number)
{
    return fmt::format("example:account:{}", number);
}

/// The sender's balance, or `refused`. Reading it stores the fencing tokens, so that the accounts reject
/// older tokens. Otherwise a stopped process could write between this read and the write that depends
/// on it.
constexpr const char* look_script = R"(
for i = 1, 2 do
  if tonumber(redis.call('HGET', KEYS[i], 'fence')) > tonumber(ARGV[i]) then
    redis.call('HINCRBY', KEYS[3], 'refused', 1)
    return 'refused'
  end
end
for i = 1, 2 do
  redis.call('HSET', KEYS[i], 'fence', ARGV[i])
end
return redis.call('HGET', KEYS[1], 'money')
)";

/// Moves the money if both fencing tokens are recent enough, and records the result and the lowest balance. The
/// decision was made from the balance that was read under the locks; the storage checks only the tokens.
constexpr const char* transfer_script = R"(
for i = 1, 2 do
  if tonumber(redis.call('HGET', KEYS[i], 'fence')) > tonumber(ARGV[1 + i]) then
    redis.call('HINCRBY', KEYS[3], 'refused', 1)
    return 'refused'
  end
end
local left = redis.call('HINCRBY', KEYS[1], 'money', -ARGV[1])
redis.call('HINCRBY', KEYS[2], 'money', ARGV[1])
redis.call('HINCRBY', KEYS[3], 'done', 1)
if left < tonumber(redis.call('HGET', KEYS[3], 'lowest')) then
  redis.call('HSET', KEYS[3], 'lowest', left)
end
return 'done'
)";

/// One transfer. The locks are acquired in the order of the accounts, which prevents deadlock.
///
/// @param stops whether the process stops itself before it writes.
asio::awaitable<void> transfer(turnstile::redis::session& session, examples::store& store,
                               int sender, int receiver, int amount, bool stops)
{
    turnstile::redis::async_mutex first{session, account_key(std::min(sender, receiver))};
    turnstile::redis::async_mutex second{session, account_key(std::max(sender, receiver))};
    auto first_guard = co_await first.async_lock();
    auto second_guard = co_await second.async_lock();

    const auto& of_sender = sender < receiver ? first_guard : second_guard;
    const auto& of_receiver = sender < receiver ? second_guard : first_guard;
    const auto money = co_await store.command(
        "EVAL", look_script, "3", account_key(sender), account_key(receiver), totals_key,
        std::to_string(of_sender.fencing_token()), std::to_string(of_receiver.fencing_token()));
    // Time to decide. A process that is stopped here writes with an outdated decision.
    asio::steady_timer timer{co_await asio::this_coro::executor, milliseconds(5)};
    co_await timer.async_wait(asio::deferred);
    if (stops)
        ::raise(SIGSTOP);
    if (money.at(0) != "refused" && std::stoi(money.at(0)) >= amount)
        co_await store.command("EVAL", transfer_script, "3", account_key(sender),
                               account_key(receiver), totals_key, std::to_string(amount),
                               std::to_string(of_sender.fencing_token()),
                               std::to_string(of_receiver.fencing_token()));
    // The locks may have been lost. The rejected write reports that already.
    co_await second_guard.async_unlock(asio::as_tuple);
    co_await first_guard.async_unlock(asio::as_tuple);
}

asio::awaitable<void> work(const plan& plan, turnstile::redis::session& session,
                           examples::store& store, int seed)
{
    const auto end = steady_clock::now() + plan.duration;
    examples::dice dice{seed, 0};
    while (steady_clock::now() < end)
    {
        const int sender = dice.roll(1, plan.accounts);
        const int receiver = (sender + dice.roll(1, plan.accounts - 1) - 1) % plan.accounts + 1;
        co_await transfer(session, store, sender, receiver, dice.roll(1, start_money), false);
    }
}

void run_worker(const plan& plan, int seed)
{
    examples::workplace here{plan.settings};
    here.employ(work(plan, here.session, here.store, seed));
    here.run();
}

/// Moves the money with which the first account begins.
void empty_first_account(const plan& plan, bool stops)
{
    examples::workplace here{plan.settings};
    here.employ(transfer(here.session, here.store, 1, 2, start_money, stops));
    here.run();
}

/// Kills and stops processes.
class trouble_maker
{
public:
    trouble_maker(const plan& plan, examples::process_group& group)
        : plan_(plan)
        , group_(group)
    {
    }

    /// Kills a holder before it writes, and stops the next one until another process has acquired its locks and
    /// emptied the account. The stopped process then continues, and its transfer would overdraw the account.
    void interrupt_holders()
    {
        if (plan_.kill_every.count() > 0)
        {
            group_.kill(start_holder());
            ++killed_;
        }
        if (plan_.freeze_every.count() > 0)
        {
            const pid_t late = start_holder();
            ++frozen_count_;
            examples::process_group next;
            next.start([this] { empty_first_account(plan_, false); });
            next.wait();
            ::kill(late, SIGCONT);
            group_.wait();
        }
    }

    /// Kills and stops any processes until the time is up.
    asio::awaitable<void> run()
    {
        const auto begin = steady_clock::now();
        auto next_kill = begin + plan_.kill_every;
        auto next_freeze = begin + plan_.freeze_every;
        asio::steady_timer timer{co_await asio::this_coro::executor};
        while (steady_clock::now() < begin + plan_.duration)
        {
            timer.expires_after(milliseconds(20));
            co_await timer.async_wait(asio::deferred);
            const auto now = steady_clock::now();
            if (plan_.kill_every.count() > 0 && now >= next_kill)
            {
                next_kill = now + plan_.kill_every;
                replace_one();
            }
            if (frozen_ && now >= thaws_at_)
                thaw();
            if (plan_.freeze_every.count() > 0 && !frozen_ && now >= next_freeze)
            {
                next_freeze = now + plan_.freeze_every;
                freeze_one();
            }
        }
        thaw();
    }

    [[nodiscard]] int killed() const noexcept { return killed_; }
    [[nodiscard]] int frozen() const noexcept { return frozen_count_; }

private:
    /// Starts a process, and returns when it has stopped itself before it writes.
    pid_t start_holder()
    {
        const pid_t child = group_.start([this] { empty_first_account(plan_, true); });
        group_.wait_until_stopped(child);
        return child;
    }

    [[nodiscard]] pid_t any_child()
    {
        const auto& all = group_.children();
        return all[static_cast<std::size_t>(dice_.roll(0, static_cast<int>(all.size()) - 1))];
    }

    void replace_one()
    {
        const pid_t child = any_child();
        if (frozen_ == child)
            frozen_.reset();
        group_.kill(child);
        ++killed_;
        group_.start([this] { run_worker(plan_, 1000 + killed_); });
    }

    void freeze_one()
    {
        frozen_ = any_child();
        ::kill(*frozen_, SIGSTOP);
        ++frozen_count_;
        thaws_at_ = steady_clock::now() + 2 * plan_.settings.lease;
    }

    void thaw()
    {
        if (frozen_)
            ::kill(*frozen_, SIGCONT);
        frozen_.reset();
    }

    const plan& plan_;
    examples::process_group& group_;
    examples::dice dice_{1, 1};
    std::optional<pid_t> frozen_;
    steady_clock::time_point thaws_at_;
    int killed_ = 0;
    int frozen_count_ = 0;
};

void open_accounts(const plan& plan)
{
    const auto open = [&](examples::store& store) -> asio::awaitable<void>
    {
        co_await store.command("DEL", totals_key);
        co_await store.command("HSET", totals_key, "lowest", std::to_string(start_money));
        for (int i = 1; i <= plan.accounts; ++i)
            co_await store.command("HSET", account_key(i), "money", std::to_string(start_money),
                                   "fence", "0");
    };
    examples::with_store(plan.settings, open);
}

/// Prints the result. Returns whether no account was ever overdrawn, and no money was lost or made.
bool report(const plan& plan, const trouble_maker& trouble)
{
    int lowest = 0;
    int money = 0;
    const auto look = [&](examples::store& store) -> asio::awaitable<void>
    {
        for (const char* const what : {"done", "refused"})
            fmt::print("transfers {}: {}\n", what,
                       co_await examples::read_number(store, totals_key, what));
        lowest = co_await examples::read_number(store, totals_key, "lowest");
        for (int i = 1; i <= plan.accounts; ++i)
            money += co_await examples::read_number(store, account_key(i), "money");
    };
    examples::with_store(plan.settings, look);
    fmt::print("processes killed: {}, stopped: {}\n", trouble.killed(), trouble.frozen());
    const int all_money = plan.accounts * start_money;
    fmt::print("lowest balance: {}\nmoney in the end: {} of {}\n", lowest, money, all_money);
    return lowest >= 0 && money == all_money;
}

}  // namespace

int main(int argc, char** argv)
try
{
    plan plan;
    std::string url = "redis://127.0.0.1:6379";
    int processes = 4;
    int seconds = 3;
    int kill_every = 500;
    int freeze_every = 1000;
    int lease = 500;

    CLI::App app{"Processes move money between accounts in Redis; some are killed or stopped.",
                 "transfer_funds"};
    const auto any_time = examples::whole_number(0, 3'600'000);
    app.add_option("--redis", url, "URL of the server")
        ->envname("TURNSTILE_REDIS_URL")
        ->capture_default_str();
    app.add_option("--processes", processes, "Number of processes")
        ->check(examples::whole_number(1, 100))
        ->capture_default_str();
    app.add_option("--accounts", plan.accounts, "Number of accounts")
        ->check(examples::whole_number(2, 10'000))
        ->capture_default_str();
    app.add_option("--seconds", seconds, "Duration in seconds")
        ->check(examples::whole_number(1, 3600))
        ->capture_default_str();
    app.add_option("--kill-every", kill_every, "Time between two kills in ms; 0: none")
        ->check(any_time)
        ->capture_default_str();
    app.add_option("--freeze-every", freeze_every,
                   "Time between two stopped processes in ms; 0: none")
        ->check(any_time)
        ->capture_default_str();
    app.add_option("--lease", lease, "The lease in ms")
        ->check(examples::whole_number(200, 60'000))
        ->capture_default_str();
    CLI11_PARSE(app, argc, argv);

    plan.settings = turnstile::redis::config{url};
    plan.settings.lease = milliseconds(lease);
    plan.settings.claim_lease = milliseconds(std::min(lease, 200));
    plan.settings.health_check = milliseconds(std::max(lease / 4, 50));
    plan.duration = std::chrono::seconds(seconds);
    plan.kill_every = milliseconds(kill_every);
    plan.freeze_every = milliseconds(freeze_every);
    examples::require_server(plan.settings);
    open_accounts(plan);

    examples::process_group group;
    trouble_maker trouble{plan, group};
    trouble.interrupt_holders();
    for (int i = 0; i != processes; ++i)
        group.start([&plan, i] { run_worker(plan, i); });
    {
        asio::io_context context;
        asio::co_spawn(context, trouble.run(), examples::rethrow);
        context.run();
    }
    group.wait();
    return report(plan, trouble) ? 0 : 1;
}
catch (const std::exception& error)
{
    fmt::print(stderr, "transfer_funds: {}\n", error.what());
    return 1;
}
