// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The OpenAPI description, compared with all answers that the other tests have received.

#include "contract.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <boost/test/unit_test.hpp>
#include <string>

using namespace turnstile::test;
using namespace turnstile::test::contract;

namespace {

/// The member of @p paths that describes a target; null if there is none. A pattern without parameters
/// takes precedence.
const boost::json::object* description_of(const boost::json::object& paths,
                                          const std::string& target)
{
    const std::string path = target.substr(0, target.find('?'));
    const auto* exact = paths.if_contains(path);
    const std::size_t slash = path.rfind('/');
    const auto* pattern = slash == std::string::npos || slash + 1 == path.size()
                              ? nullptr
                              : paths.if_contains(path.substr(0, slash) + "/{name}");
    const auto* found = exact != nullptr ? exact : pattern;
    return found == nullptr ? nullptr : &found->as_object();
}

std::string lower_case(std::string text)
{
    for (char& c : text)
        c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
    return text;
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_answer_is_described)
{
    const http_answer answer = ask(server(), "GET", "/openapi.json");
    BOOST_TEST(answer.status == 200);
    const auto description = boost::json::parse(answer.body).as_object();
    const auto& paths = description.at("paths").as_object();
    for (const auto& [path, methods] : paths)
    {
        std::string target = path;
        if (target.ends_with("{name}"))
            target.replace(target.size() - 6, 6, new_name());
        for (const auto& [method, operation] : methods.as_object())
        {
            BOOST_TEST_CONTEXT(std::string(method) << ' ' << target)
            {
                std::string upper(method);
                for (char& c : upper)
                    c = static_cast<char>(c - ('a' - 'A'));
                const http_answer tried = ask(server(), upper, target);
                BOOST_TEST(tried.status != 405);
                BOOST_TEST(tried.body != "no such route");
            }
        }
    }
    for (const auto& [method, target, status] : answers_seen())
    {
        BOOST_TEST_CONTEXT(method << ' ' << target.substr(0, 100) << ' ' << status)
        {
            const auto* methods = description_of(paths, target);
            if (methods == nullptr)
            {
                BOOST_TEST((status == 404 || status == 431 || status == 400));
                continue;
            }
            const auto* operation =
                methods->if_contains(method == "HEAD" ? "get" : lower_case(method));
            if (operation == nullptr)
            {
                BOOST_TEST(status == 405);
                continue;
            }
            BOOST_TEST(operation->as_object()
                           .at("responses")
                           .as_object()
                           .contains(std::to_string(status)));
        }
    }
}
