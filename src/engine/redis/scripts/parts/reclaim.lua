-- SPDX-License-Identifier: Apache-2.0
--
-- Part of the scripts that count permits: take back those whose lease is over. `count` is known;
-- sets `now`, the server's time in ms, if there are leases.
--
-- KEYS   1 the count, 2 the leases of permits that are out; the same as 1: permits have none
-- ARGV   1 the channel
--
-- Why so: nobody tells when a lease ends, so everybody who comes by looks. The server's clock
-- decides, on which all clients agree. Without a count there is nothing to give them back to.
local now
if KEYS[2] ~= KEYS[1] then
    local time = redis.call('TIME')
    now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
    local over = redis.call('ZREMRANGEBYSCORE', KEYS[2], 0, string.format('%.0f', now))
    if over > 0 and count then
        count = redis.call('INCRBY', KEYS[1], over)
        if count > 0 then
            redis.pcall('PUBLISH', ARGV[1], string.format('%.0f', count))
        end
    end
end
