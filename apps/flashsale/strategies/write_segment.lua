-- SPDX-License-Identifier: Apache-2.0
-- Write a segment's stock back and record the order, unless a PUT has replaced the segment since it
-- was read. Others who sell are kept out by the segment's lock; PUT takes no lock.
--
-- KEYS[1]  the segment's key
-- ARGV[1]  the stock that was read, ARGV[2] the stock to write
-- ARGV[3]  the order's record before that, ARGV[4] behind it
-- ARGV[5]  the item's id, ARGV[6] the user or '', ARGV[7] the activity, ARGV[8] the quantity
--
-- Result: the number of orders recorded, or 0: it was replaced, and nothing is written.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
    return 0
end
redis.call('SET', KEYS[1], ARGV[2])
if ARGV[6] ~= '' then
    redis.call('HINCRBY', 'buyers:' .. ARGV[7] .. ':' .. ARGV[5], ARGV[6], ARGV[8])
end
return redis.call('RPUSH', 'orders:' .. KEYS[1], ARGV[3] .. ARGV[2] .. ARGV[4])
