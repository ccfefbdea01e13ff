// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_BENCH_HARNESS_HPP
#define TURNSTILE_BENCH_HARNESS_HPP

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <ctime>
#include <fmt/format.h>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// How the benchmarks measure and report.
//
// Absolute times differ between machines, and on a shared machine from second to second. So compared
// subjects run in turns, in slices of a few milliseconds, and a ratio is the median of the ratios
// of neighbouring slices. A disturbance hits both slices, or is one sample of many. Single-threaded
// subjects are timed by the thread's CPU time, others by the wall clock.

namespace bench {

/// One of the clocks below, in nanoseconds.
using time_function = double (*)();

inline double real_time()
{
    return std::chrono::duration<double, std::nano>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

/// CPU time of the calling thread.
inline double thread_time()
{
    std::timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

inline double median(std::vector<double> samples)
{
    const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
    std::nth_element(samples.begin(), middle, samples.end());
    if (samples.size() % 2 != 0)
        return *middle;
    return (*middle + *std::max_element(samples.begin(), middle)) / 2;
}

/// The given percentile of the samples; @p part is from 0 to 1.
inline double percentile(std::vector<double> samples, double part)
{
    std::sort(samples.begin(), samples.end());
    return samples[static_cast<std::size_t>(part * static_cast<double>(samples.size() - 1))];
}

struct row
{
    std::string name;
    /// NaN if it could not be measured.
    double value;
    std::string unit;
    /// The row by which the value is divided; empty for a row without a ratio.
    std::string baseline{};
    std::optional<double> ratio{};
    /// The greatest acceptable ratio or, for a row without a ratio, the greatest acceptable value.
    std::optional<double> bar{};

    [[nodiscard]] std::optional<bool> met() const
    {
        if (!bar || std::isnan(value))
            return std::nullopt;
        return ratio.value_or(value) <= *bar;
    }
};

class report
{
public:
    void add(row r)
    {
        print(r);
        rows_.push_back(std::move(r));
    }

    /// Adds a row to the file only; the caller prints it.
    void add_unprinted(row r) { rows_.push_back(std::move(r)); }

    /// Reports a row that this machine cannot measure.
    void add_missing(std::string name, std::string_view why)
    {
        fmt::print("{:<66} missing: {}\n", name, why);
        std::fflush(stdout);
        add_unprinted({std::move(name), std::numeric_limits<double>::quiet_NaN(), ""});
    }

    static void print_header()
    {
        print("case", "value", "unit", "ratio", "bar", "met", "baseline");
    }

    [[nodiscard]] bool all_met() const
    {
        return std::all_of(rows_.begin(), rows_.end(),
                           [](const row& r) { return r.met().value_or(true); });
    }

    void write_json(const std::string& path) const
    {
        std::ofstream file(path);
        for (std::size_t i = 0; i != rows_.size(); ++i)
            file << (i == 0 ? "[\n" : ",\n") << to_json(rows_[i]);
        file << "\n]\n";
        if (!file.flush())
            throw std::runtime_error("cannot write " + path);
    }

private:
    static void print(const row& r)
    {
        const std::optional<bool> met = r.met();
        // Counts of instructions need more than four digits.
        print(r.name,
              r.value < 1e5 ? fmt::format("{:.4g}", r.value) : fmt::format("{:.0f}", r.value),
              r.unit, number_or(r.ratio, ""), number_or(r.bar, ""),
              met ? (*met ? "yes" : "NO") : "", r.baseline);
    }

    static void print(std::string_view name, std::string_view value, std::string_view unit,
                      std::string_view ratio, std::string_view bar, std::string_view met,
                      std::string_view baseline)
    {
        fmt::print("{:<66} {:>7} {:<4} {:>7} {:>6} {:<3}  {}\n", name, value, unit, ratio, bar, met,
                   baseline);
        std::fflush(stdout);
    }

    static std::string number_or(const std::optional<double>& number, std::string_view otherwise)
    {
        return number ? fmt::format("{:.3g}", *number) : std::string(otherwise);
    }

    /// Nothing is escaped: the names are literals of the programs.
    static std::string to_json(const row& r)
    {
        const std::optional<bool> met = r.met();
        return fmt::format(
            R"(  {{"case": "{}", "value": {}, "unit": "{}", "baseline": {}, "ratio": {}, )"
            R"("bar": {}, "met": {}}})",
            r.name, std::isnan(r.value) ? "null" : fmt::format("{:.6g}", r.value), r.unit,
            r.baseline.empty() ? "null" : fmt::format("\"{}\"", r.baseline),
            number_or(r.ratio, "null"), number_or(r.bar, "null"),
            met ? (*met ? "true" : "false") : "null");
    }

    std::vector<row> rows_;
};

/// One thing to measure: runs a slice and returns nanoseconds per operation.
struct subject
{
    std::string name;
    std::function<double()> run;
};

/// One row of the report, computed from a group of subjects.
struct comparison
{
    std::string name;
    std::string baseline{};
    std::optional<double> bar{};
};

/// Measures the subjects in turns and adds a row for each comparison.
class comparer
{
public:
    comparer(report& out, unsigned repetitions)
        : out_(&out)
        , repetitions_(repetitions)
    {
    }

    void operator()(const std::vector<subject>& subjects,
                    const std::vector<comparison>& comparisons)
    {
        const samples_type samples = measure(subjects);
        for (const comparison& c : comparisons)
            out_->add(c.baseline.empty()
                          ? row{c.name, median(samples.at(c.name)), "ns"}
                          : row{c.name, median(samples.at(c.name)), "ns", c.baseline,
                                ratio(samples.at(c.name), samples.at(c.baseline)), c.bar});
    }

private:
    using samples_type = std::map<std::string, std::vector<double>>;

    [[nodiscard]] samples_type measure(const std::vector<subject>& subjects) const
    {
        samples_type samples;
        for (const subject& s : subjects)
            s.run();  // warm-up
        for (unsigned i = 0; i != repetitions_; ++i)
        {
            // Alternating directions, so that a drift of the machine's speed affects all
            // subjects equally.
            if (i % 2 == 0)
                std::for_each(subjects.begin(), subjects.end(), sampler{samples});
            else
                std::for_each(subjects.rbegin(), subjects.rend(), sampler{samples});
        }
        return samples;
    }

    struct sampler
    {
        samples_type& samples;

        void operator()(const subject& s) const { samples[s.name].push_back(s.run()); }
    };

    static double ratio(const std::vector<double>& values, const std::vector<double>& baselines)
    {
        std::vector<double> ratios;
        std::transform(values.begin(), values.end(), baselines.begin(), std::back_inserter(ratios),
                       std::divides<>());
        return median(std::move(ratios));
    }

    report* out_;
    unsigned repetitions_;
};

}  // namespace bench

#endif
