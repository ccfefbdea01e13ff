#!/bin/bash
# Tests the example job_scheduler; $1 is the directory of the examples.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=support/check.sh
source "$(dirname "$0")/support/check.sh" "$1"

run job_scheduler --jobs 200
expect_status 0
expect_text '200 jobs in ' ' jobs a second' 'from push to start: p50 ' 'p99 ' 'killed: 0, pauses: 0, restarts after a lost connection: 0' \
  'starts: 200, jobs that ran again: 0' 'finishes: 200 accepted, 0 rejected, 0 without an answer' \
  'All 200 jobs were finished, none twice as far as the workers know, and the queues are empty.'
# The progress line is for terminals.
[[ $output != *$'\r'* ]] || complain "$command_line wrote a progress line into a pipe"

run job_scheduler --jobs 20000 --rate 0 --work 0 --workers 50
expect_status 0
expect_text 'All 20000 jobs were finished, none twice'

# Some workers are killed in the middle of a job.
run job_scheduler --jobs 30 --rate 0 --work 100 --workers 3 --kill-every 50
expect_status 0
expect_text 'All 30 jobs were finished, none twice'
[[ $output == *'jobs that ran again: '[1-9]*' ('* && $output != *'killed: 0'* ]] ||
  complain "$command_line repeated no job: $output"

run job_scheduler --local --dispatcher --jobs 300 --rate 0 --pause-every 100
expect_status 0
expect_text 'killed: 0, pauses: 3' 'All 300 jobs were finished, none twice'

run job_scheduler --dispatcher --capabilities 10 --workers 10 --jobs 500 --rate 0 --work 1 --kill-every 5
expect_status 0
expect_text 'All 500 jobs were finished, none twice'

expect_help job_scheduler --jobs --rate --work --workers --dispatcher --capabilities --pause-every --kill-every

expect_refusal "--jobs: '0' is not a whole number from 1 to 10000000" job_scheduler --jobs 0
expect_refusal "--rate: 'fast' is not a whole number from 0 to 1000000" job_scheduler --rate fast
expect_refusal "--work: '-1' is not a whole number from 0 to 10000" job_scheduler --work -1
expect_refusal '--dispatcher' job_scheduler --pause-every 10
expect_refusal '2 workers cannot have 3 capabilities' job_scheduler --dispatcher --workers 2
expect_refusal '--kill-every: each worker is killed every 600 ms, before it can finish a job of 600 ms' \
  job_scheduler --workers 2 --work 600 --kill-every 300
expect_refusal 'not expected: --speed' job_scheduler --speed

finish
