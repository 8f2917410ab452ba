-- SPDX-License-Identifier: Apache-2.0
--
-- Begin a count, unless there is one: the permits of a semaphore, or what a latch waits for.
--
-- KEYS   1 the count, 2 the leases of permits (1 again: there are none), 3 the request's record,
--        4 the record of an earlier one
-- ARGV   1 the channel, 2 how long the record is kept in ms, 3 the count, 4 what to tell who waits
-- Result 1 (it is set), 0 (there is one already)
--
-- Why so: leases of an earlier count would come back to this one as permits that it never had. That
-- there is one already is recorded, too: an earlier copy that arrives late, when that one is gone,
-- must not begin another.
--include asked
--include count
if count then
    redis.pcall('SET', KEYS[3], '0', 'PX', ARGV[2])
--include forget
    return 0
end
redis.call('SET', KEYS[1], ARGV[3])
redis.call('SET', KEYS[3], '1', 'PX', ARGV[2])
if KEYS[2] ~= KEYS[1] then
    redis.call('DEL', KEYS[2])
end
--include forget
redis.pcall('PUBLISH', ARGV[1], ARGV[4])
return 1
