-- SPDX-License-Identifier: Apache-2.0
-- Release what reenter.lua took, once; the last release deletes the lock.
--
-- KEYS[1] lock   ARGV[1] owner
-- Result: 1 released, 0 it was not the caller's.
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
    return 0
end
if redis.call('hincrby', KEYS[1], ARGV[1], -1) == 0 then
    redis.call('del', KEYS[1])
end
return 1
