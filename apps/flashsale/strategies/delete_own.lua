-- SPDX-License-Identifier: Apache-2.0
-- Delete the lock if it is the caller's. Nobody can come between the question and the deletion: a
-- script runs alone.
--
-- KEYS[1] lock   ARGV[1] owner
-- Result: 1 deleted, 0 it was not the caller's.
if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('del', KEYS[1])
end
return 0
