-- SPDX-License-Identifier: Apache-2.0
--
-- Give back permits by their ids, and wake who waits.
--
-- KEYS   1 the count, 2 the leases, 3 the record of the request, or of the one that took them if
--        that is to be undone, 4 a record that nobody needs
-- ARGV   1 the channel, 2 how long the record is kept in ms, 3... the ids
-- Result how many of them were out and had time left
--
-- Why so: those that are gone do not keep the others from being given back. A permit whose lease
-- is over comes back, too, but is not counted: its holder has lost it. To a taker whose request is
-- still on its way the record says that it is void.
--include asked
--include count
--include forget_first
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local back, valid = 0, 0
for i = 3, #ARGV do
    local score = redis.call('ZSCORE', KEYS[2], ARGV[i])
    if score then
        back = back + redis.call('ZREM', KEYS[2], ARGV[i])
        valid = tonumber(score) > now and valid + 1 or valid
    end
end
back = back + redis.call('ZREMRANGEBYSCORE', KEYS[2], 0, string.format('%.0f', now))
if back > 0 and count then
    count = redis.call('INCRBY', KEYS[1], back)
    if count > 0 then
        redis.pcall('PUBLISH', ARGV[1], string.format('%.0f', count))
    end
end
redis.call('SET', KEYS[3], valid, 'PX', ARGV[2])
return valid
