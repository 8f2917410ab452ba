-- SPDX-License-Identifier: Apache-2.0
--
-- Forget a latch, and let go who waits.
--
-- KEYS   1 the count, 2 the same, 3 the request's record, 4 the record of an earlier one
-- ARGV   1 the channel, 2 how long the record is kept in ms
-- Result 1 (there was one), 0 (there was none)
--
-- Why so: without a count a latch is at zero, so the message is that of a latch that has reached
-- it. Redisson sends another one there, which wakes nobody. That there was none is recorded, too:
-- an earlier copy that arrives late must not forget what was set since.
--include asked
--include count
if not count then
    redis.pcall('SET', KEYS[3], '0', 'PX', ARGV[2])
--include forget
    return 0
end
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[3], '1', 'PX', ARGV[2])
--include forget
redis.pcall('PUBLISH', ARGV[1], '0')
return 1
