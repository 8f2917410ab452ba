-- SPDX-License-Identifier: Apache-2.0
-- Write a stock back and record the order, unless the item was PUT anew since the stock was read:
-- what is left of an earlier sale has no place in this one. Two orders that have read the same
-- stock may both write it back here: keeping them apart is the lock's business.
--
-- KEYS[1]  the item's id, or the key of a segment
-- ARGV[1]  the item's id, ARGV[2] the sale in which the stock was read
-- ARGV[3]  the stock that was read, to be compared; or '': it is not
-- ARGV[4]  the stock to write, ARGV[5] the order's record before it, ARGV[6] behind it
-- ARGV[7]  the user or '', ARGV[8] the activity, ARGV[9] the quantity
--
-- Result: how many orders are recorded now, or 0: nothing was written.
local key, item, user = KEYS[1], ARGV[1], ARGV[7]
if (redis.call('GET', 'sale:' .. item) or '') ~= ARGV[2] then
    return 0
end
if ARGV[3] ~= '' and redis.call('GET', key) ~= ARGV[3] then
    return 0
end
redis.call('SET', key, ARGV[4])
if user ~= '' then
    redis.call('HINCRBY', 'buyers:' .. ARGV[8] .. ':' .. item, user, ARGV[9])
end
return redis.call('RPUSH', 'orders:' .. key, ARGV[5] .. ARGV[4] .. ARGV[6])
