-- SPDX-License-Identifier: Apache-2.0
--
-- Does the tenure hold the textbook lock?
--
-- KEYS   1 the lock
-- ARGV   1 the owner string
-- Result 1 (it does), 0 (it does not)
--
-- Why so: a string has no place to show a count in, so counting is nothing but this question.
return redis.call('GET', KEYS[1]) == ARGV[1] and 1 or 0
